//! Tests the pages for users and contributors: their commands run and print the shown output, and
//! their links are valid.
//!
//! Blocks marked `sh` run in order, in one directory per page, with the project's commands on the
//! path.
//! - `sh found` ends with exit code 1, `sh maybe` with 0 or 1.
//! - `sh slow` ends with 0 or 1, and runs only if `FIRN_TEST_EFFORT` is set.
//! - A `text` block immediately after a block shows a part of its output; `…` stands for any text.
//! - Blocks marked `sh norun` are build commands; only `.ci/run` runs them.
//! - `client` needs a client of a server; `.ci/clients` runs these blocks.
//! - `cluster` needs several nodes; no test runs these blocks.
//! - Blocks of Rust are doc tests of the crate that the page describes.
#![allow(
    clippy::disallowed_methods,
    missing_docs,
    reason = "it reads pages and runs what they say"
)]
#![cfg(unix)]

use super::common;

use common::Temp;
use firn_testkit::effort::times_effort;
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fenced block: the text after the opening fence, its content, and its line.
struct Block<'p> {
    info: &'p str,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut all: Vec<Block<'_>> = vec![];
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), inside) {
            (Some(info), false) => all.push(Block { info, text: String::new(), line: number + 1 }),
            (Some(_), true) => {}
            (None, true) => all.last_mut().unwrap().text.extend([line, "\n"]),
            (None, false) => continue,
        }
        inside = line.starts_with("```") != inside;
    }
    all
}

/// Reports whether `shown` is a part of `printed`, line by line; `…` stands for any text within a
/// line.
fn is_shown(shown: &str, printed: &str) -> bool {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let shown: Vec<&str> = shown.lines().map(str::trim_end).collect();
    printed
        .windows(shown.len())
        .any(|part| part.iter().zip(&shown).all(|(line, pattern)| is_like(line, pattern)))
}

fn is_like(line: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else { return line == pattern };
    let Some(line) = line.strip_prefix(first) else { return false };
    (0..=line.len()).any(|at| line.is_char_boundary(at) && is_like(&line[at..], rest))
}

/// Returns the path of a command of the project, in the directory of `firn`. Builds it if this run
/// of cargo has not.
fn binary(name: &str) -> PathBuf {
    let firn = Path::new(env!("CARGO_BIN_EXE_firn"));
    let path = firn.with_file_name(name);
    if !path.exists() {
        let profile = match firn.parent().and_then(Path::file_name).and_then(|p| p.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let build = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", name, "--profile", profile])
            .status();
        assert!(
            build.is_ok_and(|s| s.success()) && path.exists(),
            "{} could not be built",
            path.display()
        );
    }
    path
}

/// Runs a page's blocks.
fn run(page: &str) {
    run_together(&page.replace('/', "-"), &[page]);
}

/// Runs the commands of pages, one page after the other, in one folder.
fn run_together(name: &str, pages: &[&str]) {
    let dir = Temp::new("pages", name);
    let bin = dir.path(".bin");
    fs::create_dir(&bin).unwrap();
    for name in ["firn", "sstable-dump", "compaction-sim"] {
        symlink(binary(name), bin.join(name)).unwrap();
    }
    // Package index for machines without one.
    let index = root().join("tools/firn/tests/data/packages.deb822").canonicalize().unwrap();
    fs::write(bin.join("apt-cache"), format!("#!/bin/sh\ncat '{}'\n", index.display())).unwrap();
    fs::set_permissions(bin.join("apt-cache"), fs::Permissions::from_mode(0o755)).unwrap();
    for folder in ["engine", "tools"] {
        symlink(root().join(folder).canonicalize().unwrap(), dir.path(folder)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap());
    for page in pages {
        run_page(page, &dir, &path);
    }
}

fn run_page(page: &str, dir: &Temp, path: &str) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (mut printed, mut ran) = (None, 0);
    for block in blocks(&text) {
        let place = format!("{page}:{}", block.line);
        let (flags, codes): (_, &[i32]) = match block.info {
            "sh" => ("-euo", &[0]),
            "sh found" => ("-uo", &[1]),
            "sh maybe" => ("-uo", &[0, 1]),
            // Takes minutes in a build that is not optimized.
            "sh slow" if times_effort(1) == 1 => continue,
            "sh slow" => ("-uo", &[0, 1]),
            "sh norun" => {
                let builds = |l: &str| {
                    l.trim().is_empty()
                        || l.trim().starts_with(['#', '"'])
                        || l.starts_with("cargo ")
                };
                assert!(
                    block.text.lines().all(builds),
                    "{place}: only build commands may be marked norun"
                );
                continue;
            }
            "text" => {
                let printed: String = printed
                    .take()
                    .unwrap_or_else(|| panic!("{place}: there is no command before it"));
                assert!(
                    is_shown(&block.text, &printed),
                    "{place}: the shown output differs from the printed one:\n{printed}"
                );
                continue;
            }
            "sh client" | "python client" | "sh cluster" | "yaml cluster" => continue,
            "rust" => continue,
            other => panic!("{place}: no block is marked {other:?}"),
        };
        let done = Command::new("bash")
            .args([flags, "pipefail", "-c", &block.text])
            .env("PATH", path)
            .current_dir(&dir.0)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        let output = String::from_utf8_lossy(&done.stderr);
        let good = done.status.code().is_some_and(|code| codes.contains(&code));
        assert!(good, "{place}: {}\n{}\n{out}\n{output}", done.status, block.text);
        (printed, ran) = (Some(out), ran + 1);
    }
    assert!(ran > 0, "{page} has no command");
}

#[test]
fn readme() {
    run("README.md");
}

#[test]
fn model() {
    run("docs/model.md");
}

#[test]
fn cql() {
    run("docs/cql.md");
}

#[test]
fn serve() {
    ["docs/serve.md", "docs/serve-run.md"].into_iter().for_each(run);
}

#[cfg(feature = "cluster")]
#[test]
fn cluster() {
    run("docs/cluster.md");
}

#[cfg(feature = "cluster")]
#[test]
fn migrate_from() {
    run("docs/migrate-from.md");
}

#[test]
fn outgrow() {
    run("docs/outgrow.md");
}

#[cfg(feature = "transfer")]
#[test]
fn transfer() {
    run("docs/transfer.md");
}

#[cfg(feature = "cluster")]
#[test]
fn migrate() {
    run("docs/migrate.md");
}

#[test]
fn inspect() {
    run("docs/inspect.md");
}

#[test]
fn cassandra_files() {
    run("docs/cassandra-files.md");
}

#[test]
fn simulate() {
    ["docs/simulate.md", "docs/simulate-choose.md", "docs/simulate-replay.md", "docs/research.md"]
        .into_iter()
        .for_each(run);
}

#[test]
fn operate() {
    run("docs/operate.md");
}

#[test]
fn readmes_of_the_commands() {
    for command in ["firn", "sstable-dump", "compaction-sim"] {
        run(&format!("tools/{command}/README.md"));
    }
}

#[test]
fn introduction_tuning_command_line_and_faq() {
    let pages = ["docs/introduction.md", "docs/tuning.md", "docs/command-line.md", "docs/faq.md"];
    pages.into_iter().for_each(run);
}

/// A reader may follow the pages one after the other in one folder.
#[test]
fn pages_follow_each_other_in_one_folder() {
    let pages = [
        "README.md",
        "docs/introduction.md",
        "docs/model.md",
        "docs/cql.md",
        "docs/serve.md",
        "docs/serve-run.md",
        "docs/outgrow.md",
        "docs/inspect.md",
        "docs/cassandra-files.md",
        "docs/simulate.md",
        "docs/simulate-choose.md",
        "docs/simulate-replay.md",
        "docs/research.md",
        "docs/operate.md",
        "docs/tuning.md",
        "docs/command-line.md",
        "docs/faq.md",
    ];
    run_together("all", &pages);
}

#[test]
fn the_book_lists_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut all = vec![];
    for folder in ["docs", "docs/architecture", "docs/decisions"] {
        pages(folder, &mut all);
    }
    let docs = root().join("docs");
    let missing: Vec<String> = all
        .iter()
        .map(|p| p.strip_prefix(&docs).unwrap().display().to_string())
        .filter(|p| p != "SUMMARY.md" && !summary.contains(&format!("]({p})")))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

/// Collects the pages of a folder of the repository.
fn pages(folder: &str, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "md") {
            all.push(path);
        }
    }
}

/// Returns the texts between `open` and `close`.
fn between<'t>(text: &'t str, open: &str, close: char) -> Vec<&'t str> {
    text.split(open)
        .skip(1)
        .filter_map(|rest| rest.split_once(close))
        .map(|(inside, _)| inside)
        .collect()
}

#[test]
fn links_and_paths_lead_somewhere() {
    let mut all = vec![];
    let folders = [
        "",
        "docs",
        "docs/architecture",
        "docs/decisions",
        "results",
        "benches",
        "bindings",
        "fuzz",
        "format-spec",
        "engine/wide",
        "engine/cql",
        "engine/server",
    ];
    folders.iter().for_each(|folder| pages(folder, &mut all));
    let (mut wrong, mut good) = (vec![], 0);
    for page in &all {
        let text = fs::read_to_string(page).unwrap();
        let links = between(&text, "](", ')')
            .into_iter()
            .filter(|l| !l.contains("://") && !l.starts_with('#'));
        let links = links.map(|l| page.parent().unwrap().join(l.split('#').next().unwrap()));
        let tops = [
            "engine/",
            "tools/",
            "benches/",
            "fuzz/",
            "format-spec/",
            "docs/",
            "results/",
            "bindings/",
            ".ci/",
        ];
        let is_path = |p: &&str| {
            tops.iter().any(|top| p.starts_with(top))
                && !p.contains([' ', '*', '<', '…', '{', '\n'])
        };
        // A dated page has the paths of its day.
        let is_dated = page.file_name().is_some_and(|n| n.to_string_lossy().starts_with("20"));
        let paths = text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(is_path)
            .filter(|_| !is_dated)
            .map(|p| root().join(p));
        for target in links.chain(paths) {
            match target.exists() {
                true => good += 1,
                false => wrong.push(format!("{}: {}", page.display(), target.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
    assert!(good > 100, "only {good} links and paths were found");
}

#[test]
fn shown_output_is_compared() {
    assert!(is_shown("b … d\ne\n", "a\nb c d\ne \nf\n"));
    assert!(is_shown("x=…, y=…\n", "x=1, y=2\n"));
    assert!(!is_shown("b … d\ne\n", "a\nb c d\nf\n"));
    assert!(!is_shown("b\n", "a b\n"));
}
