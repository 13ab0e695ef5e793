//! A module imports only lower floors, and every file says what it is: read from the sources.
//!
//! Invariants:
//! - Every room of a crate, a file or folder in its `src`, has a floor; a room without one is wrong, as importer and as import.
//! - What is imported is read from tokens: `crate::room::…` wherever it stands, in `use`, in a path, in a macro; groups are looked into, and a
//!   chain of `super` that leaves the room counts too. A name of the crate's root, `crate::Name`, hides the room that it is from and is wrong.
//! - What is only compiled for tests is left out, be it an item or a file.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The rooms of a crate.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// Each with its floor.
    pub floors: &'a [(&'a str, u32)],
    /// Importer and import of one floor, or upwards, that are right.
    pub neighbours: &'a [(&'a str, &'a str)],
}

struct Source {
    /// Below `src`.
    path: PathBuf,
    tokens: TokenStream,
}

/// Looks at all sources below `src`. Gives how many files and how many imports there are.
///
/// # Errors
/// All that is wrong, and files that cannot be read or parsed.
pub fn check(src: &Path, plan: &Plan<'_>) -> Result<(usize, usize), String> {
    let floors: BTreeMap<&str, u32> = plan.floors.iter().copied().collect();
    let (mut files, mut wrong, mut imports) = (vec![], vec![], 0);
    sources(src, src, &mut files, &mut wrong)?;
    let tests: BTreeSet<PathBuf> = files.iter().flat_map(|f| test_files(&f.path, &f.tokens)).collect();
    let mut met = BTreeSet::new();
    for file in &files {
        let name = file.path.display();
        let Some(room) = room_of(&file.path) else { continue };
        let Some(own) = floors.get(&*room) else {
            wrong.push(format!("{name}: the room {room} has no floor"));
            continue;
        };
        met.insert(room.clone());
        if tests.iter().any(|t| file.path.starts_with(t) || file.path == t.with_extension("rs")) {
            continue;
        }
        let mut found = vec![];
        imported(file.tokens.clone(), depth_of(&file.path), &mut found);
        imports += found.len();
        for import in found {
            match floors.get(&*import) {
                _ if import == room || plan.neighbours.contains(&(&room, &import)) => {}
                Some(floor) if floor < own => {}
                Some(_) => wrong.push(format!("{name}: {room} imports {import}, which is not on a lower floor")),
                None => wrong.push(format!("{name}: crate::{import} is no room; name the room that it is from")),
            }
        }
    }
    let empty = floors.keys().filter(|room| !met.contains(**room));
    wrong.extend(empty.map(|room| format!("there is no room {room}")));
    if wrong.is_empty() { Ok((files.len(), imports)) } else { Err(wrong.join("\n")) }
}

fn said(path: &Path, e: &dyn std::fmt::Display) -> String {
    format!("{}: {e}", path.display())
}

fn sources(src: &Path, dir: &Path, out: &mut Vec<Source>, wrong: &mut Vec<String>) -> Result<(), String> {
    let mut entries = vec![];
    for entry in std::fs::read_dir(dir).map_err(|e| said(dir, &e))? {
        entries.push(entry.map_err(|e| said(dir, &e))?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(src, &path, out, wrong)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|e| said(&path, &e))?;
            let tokens = text.parse().map_err(|e| said(&path, &e))?;
            let path = path.strip_prefix(src).unwrap_or(&path).to_path_buf();
            if !text.starts_with("//!") {
                wrong.push(format!("{}: it does not open with //! and what it is", path.display()));
            }
            out.push(Source { path, tokens });
        }
    }
    Ok(())
}

/// The folder or file right below `src`; none for the root itself.
fn room_of(path: &Path) -> Option<String> {
    let first = Path::new(path.iter().next()?);
    let name = first.file_stem()?.to_string_lossy().into_owned();
    (path.iter().count() > 1 || !["lib", "main"].contains(&&*name)).then_some(name)
}

/// How many `super` lead from a file to the root.
fn depth_of(path: &Path) -> usize {
    path.iter().count() - usize::from(path.ends_with("mod.rs"))
}

fn is_punct(tree: Option<&TokenTree>, c: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

fn is_test_only(attribute: &TokenTree) -> bool {
    // `any(test, …)` and `not(test)` are compiled otherwise too.
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("[cfg(test)") || (text.starts_with("[cfg(all(") && text.contains("(test,"))
}

/// Hands on the tokens that are not only of tests, and to `of_tests` those that are.
fn without_tests(tokens: TokenStream, of_tests: &mut dyn FnMut(&[TokenTree])) -> Vec<TokenTree> {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut kept, mut at) = (vec![], 0);
    while at < all.len() {
        if is_punct(all.get(at), '#') && all.get(at + 1).is_some_and(is_test_only) {
            let ends = |t: &TokenTree| match t {
                TokenTree::Group(g) => g.delimiter() == Delimiter::Brace,
                t => is_punct(Some(t), ';'),
            };
            let end = all[at..].iter().position(ends).map_or(all.len(), |n| at + n + 1);
            of_tests(&all[at + 2..end]);
            at = end;
        } else {
            kept.push(all[at].clone());
            at += 1;
        }
    }
    kept
}

/// The files, or folders, of modules that this file declares only for tests.
fn test_files(path: &Path, tokens: &TokenStream) -> Vec<PathBuf> {
    let stem = Path::new(path.file_stem().unwrap_or_default());
    let parent = path.parent().unwrap_or(Path::new(""));
    let is_root = ["mod", "lib", "main"].iter().any(|s| stem == Path::new(s));
    let dir = if is_root { parent.to_path_buf() } else { parent.join(stem) };
    let mut out = vec![];
    without_tests(tokens.clone(), &mut |item| {
        let name = item.windows(3).find_map(|w| match w {
            [TokenTree::Ident(m), TokenTree::Ident(name), end] if m == "mod" && is_punct(Some(end), ';') => {
                Some(name.to_string())
            }
            _ => None,
        });
        out.extend(name.map(|n| dir.join(n)));
    });
    out
}

/// The names behind `crate::`, and behind as many `super::` as lead to the root.
fn imported(tokens: TokenStream, depth: usize, out: &mut Vec<String>) {
    let all = without_tests(tokens, &mut |_| {});
    let path_at = |at: usize| is_punct(all.get(at), ':') && is_punct(all.get(at + 1), ':');
    for at in 0..all.len() {
        match &all[at] {
            TokenTree::Group(g) => {
                let is_module = at >= 2 && matches!(&all[at - 2], TokenTree::Ident(i) if i == "mod");
                imported(g.stream(), depth + usize::from(is_module), out);
            }
            // `$crate` is said by whoever uses the macro.
            TokenTree::Ident(i) if i == "crate" && path_at(at + 1) && !(at > 0 && is_punct(all.get(at - 1), '$')) => {
                first_names(all.get(at + 3), out);
            }
            TokenTree::Ident(i) if i == "super" && !(at >= 2 && path_at(at - 2)) => {
                let mut end = at;
                while matches!(all.get(end + 3), Some(TokenTree::Ident(i)) if i == "super") && path_at(end + 1) {
                    end += 3;
                }
                if (end - at) / 3 + 1 == depth && path_at(end + 1) {
                    first_names(all.get(end + 3), out);
                }
            }
            _ => {}
        }
    }
}

/// The name, or the first names in a group of them.
fn first_names(tree: Option<&TokenTree>, out: &mut Vec<String>) {
    match tree {
        Some(TokenTree::Ident(name)) => out.push(name.to_string()),
        Some(TokenTree::Group(g)) => {
            let mut first = true;
            for t in g.stream() {
                if first {
                    first_names(Some(&t), out);
                }
                first = is_punct(Some(&t), ',');
            }
        }
        // All of the root: no room is named.
        Some(other) => out.push(other.to_string()),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan<'_> = Plan { floors: &[("base", 0), ("env", 1), ("wal", 1), ("db", 2)], neighbours: &[("wal", "env")] };

    fn checked(files: &[(&str, &str)]) -> Result<(usize, usize), String> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static N: AtomicU32 = AtomicU32::new(0);
        let name = format!("firn-floors-{}-{}", std::process::id(), N.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let rooms = [("lib.rs", "mod base;"), ("base/mod.rs", ""), ("env.rs", ""), ("wal/mod.rs", ""), ("db/mod.rs", "")];
        for (file, text) in rooms.iter().chain(files) {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let head = if text.starts_with("no words") { "" } else { "//! What it is.\n" };
            std::fs::write(path, format!("{head}{}", text.trim_start_matches("no words"))).unwrap();
        }
        let done = check(&dir, &PLAN);
        std::fs::remove_dir_all(dir).unwrap();
        done
    }

    #[test]
    fn downwards_is_right() {
        let files = [
            (
                "db/mod.rs",
                "use crate::{base::x, env::{self, y}}; fn f() { crate::wal::g(); m!(crate::base::z) } mod own; use super::base;",
            ),
            (
                "db/own.rs",
                "use super::super::wal; use super::other; use crate::db::f; macro_rules! m { () => { $crate::Name } }",
            ),
            (
                "wal/mod.rs",
                "use crate::env; #[cfg(test)] mod far { use crate::db; } #[cfg(all(test, loom))] mod tests; mod inner { use super::env; use super::super::base; }",
            ),
            ("wal/tests.rs", "use crate::db; use crate::Db;"),
        ];
        assert_eq!(checked(&files), Ok((7, 9)));
    }

    #[test]
    fn upwards_and_sideways_is_wrong_however_it_is_written() {
        for text in [
            "use crate::db::Snapshot;",
            "use crate::{db::Snapshot};",
            "use crate::{base, db};",
            "fn f() { crate::db::go() }",
            "m!(crate::db::go());",
            "use super::super::db;",
            "#[cfg(test)] mod tests { } use crate::db;",
            "#[cfg(any(test, fuzzing))] use crate::db;",
            "use crate::wal;",
        ] {
            let e = checked(&[("base/key.rs", text)]).unwrap_err();
            assert!(e.contains("base/key.rs: base imports") && e.contains("lower floor"), "{text}: {e}");
        }
        assert!(checked(&[("env.rs", "use super::db;")]).unwrap_err().contains("env imports db"));
        assert!(checked(&[("env.rs", "use crate::wal;")]).unwrap_err().contains("env imports wal"));
    }

    #[test]
    fn rooms_without_floors_and_names_without_rooms_are_wrong() {
        assert!(checked(&[("rogue/mod.rs", "use crate::db;")]).unwrap_err().contains("the room rogue has no floor"));
        assert!(checked(&[("rogue.rs", "")]).unwrap_err().contains("the room rogue has no floor"));
        assert!(checked(&[("base/a.rs", "use crate::Db;")]).unwrap_err().contains("crate::Db is no room"));
        assert!(checked(&[("base/a.rs", "use crate::*;")]).unwrap_err().contains("crate::* is no room"));
        assert!(checked(&[("base/a.rs", "no words")]).unwrap_err().contains("base/a.rs: it does not open"));
        let e = check(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(), &PLAN).unwrap_err();
        assert!(e.contains("there is no room wal"), "{e}");
    }
}
