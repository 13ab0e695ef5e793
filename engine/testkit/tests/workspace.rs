//! Names in the whole workspace: a type name is unique, or listed in `shared_names.txt`, which may
//! only shrink; a public function is called somewhere.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_testkit::floors::{FloorPlan, check};
use firn_testkit::modules::files_below;
use firn_testkit::names::{Calls, Names};
use firn_testkit::words::{in_page, in_rust};

/// Crates whose public items other crates use.
const LIBRARIES: [&str; 19] = [
    "benches/workload",
    "engine/cql",
    "engine/crash",
    "engine/interleave",
    "engine/kv",
    "engine/server",
    "engine/testkit",
    "engine/tokio",
    "engine/typed",
    "engine/typed-derive",
    "engine/wide",
    "engine/wide-text",
    "tools/backup",
    "tools/bench",
    "tools/cluster",
    "tools/common",
    "tools/console",
    "tools/migrate",
    "tools/table-events",
];

/// Programs, whose public items no other crate uses.
const PROGRAMS: [&str; 4] =
    ["benches/micro", "tools/compaction-sim", "tools/firn", "tools/sstable-dump"];

/// Names that each crate may have.
const OF_EVERY_CRATE: [&str; 2] = ["Error", "Result"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names(crates: &[&str]) -> Names {
    let mut names = Names::default();
    for name in crates {
        let src = root().join(name).join("src");
        let mut roots = vec![src.join("lib.rs"), src.join("main.rs")];
        if src.join("bin").is_dir() {
            roots.extend(files_below(&src.join("bin")).unwrap());
        }
        for root in roots.iter().filter(|root| root.is_file()) {
            names.read(root).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
    names
}

#[test]
fn a_type_has_a_name_of_its_own() {
    let types = names(&[&LIBRARIES[..], &PROGRAMS].concat()).types;
    assert!(types.len() > 500, "{} names", types.len());
    let shared: Vec<String> = types
        .iter()
        .filter(|(name, files)| files.len() > 1 && !OF_EVERY_CRATE.contains(&name.as_str()))
        .map(|(name, files)| format!("{name} {}", files.len()))
        .collect();
    let listed = include_str!("shared_names.txt");
    let listed: Vec<&str> = listed.lines().filter(|l| !l.starts_with('#')).collect();
    let said = |of: &str, lines: Vec<&str>| match lines.is_empty() {
        true => String::new(),
        false => format!("{of}:\n  {}\n", lines.join("\n  ")),
    };
    let new = shared.iter().map(String::as_str).filter(|l| !listed.contains(l)).collect();
    let gone = listed.iter().copied().filter(|l| !shared.iter().any(|s| s == l)).collect();
    let wrong = said("types of one name, with how many files declare it", new)
        + &said("lines of shared_names.txt that are no longer so", gone);
    assert!(wrong.is_empty(), "{wrong}Each type has a name of its own; the list may only shrink.");
}

#[test]
fn every_public_function_is_called() {
    let mut calls = Calls::default();
    for dir in ["engine", "tools", "benches", "bindings", "fuzz"] {
        for file in files_below(&root().join(dir)).unwrap() {
            if !file.iter().any(|part| part == "target") {
                calls.read(&file).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }
    for page in
        ["async", "embed", "model", "typed", "cql", "inspect", "simulate", "operate", "trust"]
    {
        calls.read(&root().join(format!("docs/{page}.md"))).unwrap();
    }
    let functions = names(&LIBRARIES).functions;
    assert!(functions.len() > 500, "{} functions", functions.len());
    let uncalled: Vec<String> = functions
        .iter()
        .filter(|(name, _)| !calls.say(name))
        .flat_map(|(name, files)| files.iter().map(move |f| format!("{name}: {}", f.display())))
        .collect();
    assert!(uncalled.is_empty(), "nobody calls these:\n  {}", uncalled.join("\n  "));
}

/// Checks the sources of a crate without integration tests.
fn check_files(name: &str, least: usize) {
    let (files, _) = check(&root().join(name).join("src"), &FloorPlan::default())
        .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    assert!(files > least, "{name}: {files} files");
}

#[test]
fn files_of_the_common_tools_make_no_rings() {
    check_files("tools/common", 10);
}

#[test]
fn files_of_table_events_make_no_rings() {
    check_files("tools/table-events", 2);
}

/// Texts for people avoid the words of [`words`](firn_testkit::words), except for the number of
/// uses that `words_allowed.txt` lists for a file. The numbers may only shrink: `FIRN_REWRITE=1`
/// updates them.
#[test]
fn texts_avoid_private_words() {
    let list = root().join("engine/testkit/tests/words_allowed.txt");
    let listed = std::fs::read_to_string(&list).unwrap();
    let allowed: BTreeMap<&str, usize> = listed
        .lines()
        .filter_map(|l| l.rsplit_once(' '))
        .map(|(file, n)| (file, n.parse().unwrap()))
        .collect();
    let done = std::process::Command::new("git").arg("ls-files").current_dir(root()).output();
    let files = String::from_utf8(done.unwrap().stdout).unwrap();
    let (mut wrong, mut left) = (vec![], String::new());
    for file in files.lines().filter(|f| !is_record(f)) {
        let read = || std::fs::read_to_string(root().join(file)).unwrap_or_default();
        let uses = match file.rsplit_once('.') {
            Some((_, "rs")) => in_rust(&read()),
            Some((_, "md")) => in_page(&read()),
            _ => continue,
        };
        let most = allowed.get(file).copied().unwrap_or(0);
        if !uses.is_empty() {
            left += &format!("{file} {}\n", uses.len().min(most));
        }
        if uses.len() > most {
            let all: Vec<_> = uses.iter().map(|(line, word)| format!("{line} {word}")).collect();
            wrong.push(format!("{file}: {} uses, {most} allowed: {}", uses.len(), all.join(", ")));
        }
    }
    if std::env::var_os("FIRN_REWRITE").is_some() {
        std::fs::write(&list, &left).unwrap();
    } else if wrong.is_empty() && left != listed {
        wrong.push("words_allowed.txt allows more than there is: run with FIRN_REWRITE=1".into());
    }
    assert!(wrong.is_empty(), "{}\nuse the standard terms (CONTRIBUTING.md)", wrong.join("\n"));
}

/// Reports whether a file is a record that is never rewritten.
fn is_record(file: &str) -> bool {
    file.starts_with("results/2026")
        || file.contains("/vectors/")
        || ["engine/testkit/src/words.rs"].contains(&file)
}
