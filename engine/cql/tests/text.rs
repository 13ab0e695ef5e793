//! Data-driven tests of the syntax: `syntax/*.txt`, one file for each kind of statement.
//!
//! - `parse`: the tree of the statement in the input, or an error as users see it; with `print`,
//!   also its printed form.
//! - `script`: the split of a script: each piece with its position and its statement or error.

use std::fmt::Debug;
use std::path::Path;

use firn_cql::internals::syntax::{ParsedStatement, parse};
use firn_cql::{Piece, Script, SyntaxError};
use firn_testkit::datadriven::{Case, walk};

/// Maximum width of the lines of a tree.
const WIDTH: usize = 110;

/// Formats a tree in as few lines as fit into `WIDTH` columns.
fn dump(tree: &impl Debug) -> String {
    let lines: Vec<String> = format!("{tree:#?}").lines().map(str::to_owned).collect();
    let mut out = String::new();
    fold(&lines, &mut out);
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Writes blocks of lines on one line if they fit, else recursively.
fn fold(lines: &[String], out: &mut String) {
    let mut i = 0;
    while i < lines.len() {
        let opens = lines[i].ends_with(['{', '(', '[']);
        let len = if opens {
            1 + lines[i + 1..].iter().take_while(|l| indent(l) > indent(&lines[i])).count()
        } else {
            0
        };
        if !opens {
            out.push_str(&lines[i]);
            out.push('\n');
            i += 1;
            continue;
        }
        let inner: Vec<&str> = lines[i + 1..i + len].iter().map(|l| l.trim()).collect();
        let flat = flatten(&lines[i], &inner, lines[i + len].trim());
        if flat.len() <= WIDTH {
            out.push_str(&flat);
            out.push('\n');
        } else {
            out.push_str(&lines[i]);
            out.push('\n');
            fold(&lines[i + 1..i + len], out);
            out.push_str(&lines[i + len]);
            out.push('\n');
        }
        i += len + 1;
    }
}

fn flatten(open: &str, inner: &[&str], close: &str) -> String {
    let mut text = open.to_owned();
    for (i, part) in inner.iter().enumerate() {
        let space = if i == 0 {
            open.ends_with('{')
        } else {
            !text.ends_with(['(', '[']) && !part.starts_with([')', ']'])
        };
        if space {
            text.push(' ');
        }
        text.push_str(part);
        if part.ends_with(',')
            && inner.get(i + 1).is_none_or(|next| next.starts_with([')', ']', '}']))
        {
            text.pop();
        }
    }
    if open.ends_with('{') {
        text.push(' ');
    }
    text + close
}

fn shown(result: Result<ParsedStatement<'_>, Box<SyntaxError>>, with_print: bool) -> String {
    let parsed = match result {
        Ok(parsed) => parsed,
        Err(error) => return error.pretty(),
    };
    let printed = parsed.statement.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(&parsed), "{printed}");
    let mut out = dump(&parsed.statement);
    if with_print {
        out.push_str(&format!("= {printed}\n"));
    }
    if parsed.markers > 0 {
        out.push_str(&format!("bind markers: {}\n", parsed.markers));
    }
    out
}

fn piece(piece: Piece<'_>) -> String {
    let result = match piece.parse() {
        Ok(parsed) => parsed.statement.to_string(),
        Err(error) => error.pretty(),
    };
    format!(
        "{}..{}{} {result}\n",
        piece.start,
        piece.end,
        if piece.closed { "" } else { " (open)" }
    )
}

fn run(case: &Case) -> String {
    let input = case.input.trim_end_matches('\n');
    match case.directive.as_str() {
        "parse" => shown(parse(input), case.has("print")),
        "print" => match parse(input) {
            Ok(parsed) => parsed.statement.to_string(),
            Err(error) => error.pretty(),
        },
        "script" => Script::new(input).map(piece).collect(),
        other => panic!("{}:{}: no directive {other}", case.file.display(), case.line),
    }
}

#[test]
fn syntax() {
    walk(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/syntax"), run);
}
