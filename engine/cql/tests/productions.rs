//! Checks the list of Cassandra's grammar rules (`PRODUCTIONS.md`): each statement parses, or is
//! refused with the listed text; each listed test and reason exists.

#![allow(clippy::disallowed_methods, reason = "it looks for files of the tests")]

use std::collections::BTreeSet;
use std::path::Path;

use firn_cql::internals::syntax::parse;

const LIST: &str = include_str!("../PRODUCTIONS.md");
const REASONS: &str = include_str!("../COMPATIBILITY.md");

/// Iterates over the rules with their statements and notes.
fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    LIST.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [rule, statement, told] = cells[..] else { panic!("{line}") };
        [rule.trim_matches('`'), statement.trim_matches('`'), told]
    })
}

#[test]
fn what_the_list_of_rules_says_is_true() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let reasons = REASONS.split("\n## ").find(|part| part.starts_with("Not here\n"));
    let reasons = reasons.expect("a list of unsupported rules");
    let (mut rules, mut absent, mut wrong) = (BTreeSet::new(), 0, vec![]);
    for [rule, statement, told] in rows() {
        if !rules.insert(rule) {
            wrong.push(format!("{rule} is listed twice"));
        }
        let parsed = parse(statement).map_err(|e| e.to_string());
        match (told.strip_prefix("not here: "), parsed) {
            (Some(text), Err(error)) => {
                absent += 1;
                if !error.contains(text) {
                    wrong.push(format!("{rule}: {statement}\n  is refused otherwise: {error}"));
                }
                if !reasons.contains(&format!("`{rule}`")) {
                    wrong.push(format!("{rule}: no reason in COMPATIBILITY.md"));
                }
            }
            (Some(_), Ok(_)) => wrong.push(format!("{rule}: {statement}\n  is here")),
            (None, Err(error)) => wrong.push(format!("{rule}: {statement}\n  {error}")),
            (None, Ok(_)) => {
                let file = told.trim_matches('`');
                if !tests.join(file).is_file() {
                    wrong.push(format!("{rule}: there is no tests/{file}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rules.len() > 190 && absent > 10, "{} rules, {absent} absent", rules.len());
}
