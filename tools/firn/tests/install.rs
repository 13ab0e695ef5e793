//! Completions and manual pages of `firn`.
#![allow(clippy::disallowed_methods, missing_docs)] // pages that were written are looked at

use super::common;

use common::{Ran, Temp};
use std::fs;

/// Returns the names of all subcommands in the help.
fn subcommands(t: &Temp) -> Vec<String> {
    let help = Ran::of(t.run("db", &["--help"], b"")).good();
    let list = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let names: Vec<String> =
        list.filter_map(|l| l.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() > 20, "{help}");
    names
}

#[test]
fn bash_completes_every_subcommand() {
    let t = Temp::new("install", "completions");
    let script = Ran::of(t.run("db", &["completions", "bash"], b"")).good();
    let names = subcommands(&t);
    firn_testkit::shell::completes(
        &script,
        "firn",
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for shell in ["zsh", "fish"] {
        let script = Ran::of(t.run("db", &["completions", shell], b"")).good();
        names.iter().for_each(|name| assert!(script.contains(name.as_str()), "{shell}: {name}"));
    }
    Ran::of(t.run("db", &["completions", "dos"], b"")).said(2, &["bash", "zsh", "fish"]);
}

#[test]
fn every_subcommand_has_a_page() {
    let t = Temp::new("install", "man");
    Ran::of(t.run("db", &["man", "--out", "pages/man1"], b"")).said(0, &["pages into pages/man1"]);
    let page = |name: &str| {
        fs::read_to_string(t.path("pages/man1").join(name))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(page("firn.1").contains(".TH firn 1"));
    for name in subcommands(&t).iter().filter(|n| *n != "help") {
        let text = page(&format!("firn-{name}.1"));
        assert!(text.contains(".SH NAME") && text.contains(".SH NOTES\n.nf\n"), "{text}");
    }
    assert_eq!(Ran::of(t.run("db", &["man", "get"], b"")).good(), page("firn-get.1"));
    assert!(page("firn-get.1").contains("\n  firn get apple\n"));
    Ran::of(t.run("db", &["man", "gat"], b"")).said(2, &["no command \"gat\"", "it has load"]);
}
