//! A module imports only lower floors, and every file says what it is.

use std::path::{Path, PathBuf};

const FLOORS: &[(&str, u32)] =
    &[("syntax", 0), ("error", 0), ("catalog", 1), ("values", 1), ("analysis", 2), ("exec", 3), ("session", 4)];

fn floor(module: &str) -> Option<u32> {
    FLOORS.iter().find(|(m, _)| *m == module).map(|(_, f)| *f)
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The modules that a source file names after `crate::`, tests left out.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let code: String = code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let names = code.split("crate::").skip(1);
    names.map(|s| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn imports_go_downwards_and_every_file_says_what_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    sources(&root, &mut files);
    assert!(files.len() > 30, "{}", files.len());
    let mut wrong = vec![];
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        if !text.starts_with("//!") {
            wrong.push(format!("{name} does not open with //!"));
        }
        let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some(own) = floor(module) else { continue };
        for import in imports(&text) {
            match floor(&import) {
                // On floor 0 errors hold those of the syntax, on floor 1 values know the types of columns.
                Some(f)
                    if import == module
                        || f < own
                        || matches!((module, &*import), ("error", "syntax") | ("values", "catalog")) => {}
                Some(_) => wrong.push(format!("{name} imports {import}")),
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
