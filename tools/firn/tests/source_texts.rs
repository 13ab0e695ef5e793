//! Runs the code of the texts that the data model follows, as printed there, through the shipped
//! commands: `data/texts/*.txt`. A block has:
//! - a name (`===`),
//! - the commands to run (`$`; `$!` fails with exit code 1; `<` at the end feeds the listing as
//!   input),
//! - the listing,
//! - after `---`, the expected output, in this order.

#![allow(clippy::disallowed_methods, missing_docs, reason = "the tests read their texts")]

use super::common;

use common::{Ran, Temp};
use std::fs;
use std::path::Path;

/// Splits a command line into words at blanks; double quotes group words.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(i, part)| match i % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    });
    words.collect()
}

fn run_block(temp: &Temp, file: &str, block: &str) {
    let (head, wanted) = block.split_once("\n---\n").unwrap_or_else(|| panic!("{file}: {block}"));
    let mut lines = head.lines().peekable();
    let name = lines.next().unwrap_or_default();
    let mut commands = vec![];
    while let Some(command) = lines.next_if(|line| line.starts_with('$')) {
        commands.push(command);
    }
    let listing: Vec<&str> = lines.collect();
    let listing = listing.join("\n");
    let mut printed = String::new();
    for command in commands {
        let (fails, command) = match command.strip_prefix("$! ") {
            Some(command) => (true, command),
            None => (false, &command[2..]),
        };
        let (command, input) = match command.strip_suffix(" <") {
            Some(command) => (command, listing.as_bytes()),
            None => (command, &b""[..]),
        };
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Ran(code, out, err) = Ran::of(temp.run("db", &words, input));
        assert_eq!(code, i32::from(fails), "{file}, {name}: {command}\n{out}{err}");
        printed += &format!("{err}{out}");
    }
    let mut rest = &printed[..];
    for wanted in wanted.lines().filter(|line| !line.is_empty()) {
        let at = rest.find(wanted);
        let at = at.unwrap_or_else(|| panic!("{file}, {name}: {wanted:?} is not in\n{printed}"));
        rest = &rest[at + wanted.len()..];
    }
}

#[test]
fn the_examples_of_the_texts_work_as_they_are_printed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/texts");
    let mut blocks = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let temp = Temp::new("texts", &file);
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("=== ").skip(1) {
            run_block(&temp, &file, block);
            blocks += 1;
        }
    }
    assert!(blocks >= 60, "{blocks} blocks");
}
