//! Data-driven tests in text files: commands with their expected output.
//!
//! A file is a list of cases, separated by empty lines. `#` starts a comment line between cases.
//!
//! ```text
//! # Four runs of one size become one.
//! directive argument key=value key=(several values)
//! input line 1
//! input line 2
//! ----
//! the expected output
//! ```
//!
//! - The first line of a case is a *directive* and its arguments, separated by spaces. A value in
//!   parentheses is a list, separated by commas or spaces. Single or double quotes protect spaces
//!   inside an argument.
//! - The lines up to `----` are the *input*, which may be empty.
//! - The lines after `----` up to an empty line or the end of the file are the *expected output*,
//!   which may be empty. An output with empty lines is enclosed in double lines of `----`:
//!
//! ```text
//! directive
//! ----
//! ----
//! first paragraph
//!
//! second paragraph
//! ----
//! ----
//! ```
//!
//! [`walk`] calls a function for every case, in order, and compares its result, without trailing
//! newlines. A difference fails the test with file, line and a diff. With `FIRN_REWRITE=1` in the
//! environment, the actual outputs replace the expected ones; review them with `git diff`.

// Test files are read and written directly: the engine's file access is under test.
#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// One case of a test file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file, for messages.
    pub file: PathBuf,
    /// Line number of the directive, from 1.
    pub line: usize,
    /// The first word.
    pub directive: String,
    /// The other words.
    pub args: Vec<Arg>,
    /// The lines between the directive and `----`, each with its newline.
    pub input: String,
    /// Expected output, without a trailing newline.
    pub expected: String,
}

/// An argument: `key`, `key=value` or `key=(value, value)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The text before `=`, or all of it.
    pub key: String,
    /// The text after `=`.
    pub values: Vec<String>,
}

impl Case {
    /// Returns the value of `key=value`; for a list, the first.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.list(key)?.first().map(String::as_str)
    }

    /// Returns the values of `key=(value, value)`.
    pub fn list(&self, key: &str) -> Option<&[String]> {
        self.args.iter().find(|a| a.key == key).map(|a| &a.values[..])
    }

    /// Reports whether there is an argument with this key, with or without values.
    pub fn has(&self, key: &str) -> bool {
        self.args.iter().any(|a| a.key == key)
    }

    /// Parses the value of `key=value`; returns `default` if it is missing.
    ///
    /// # Panics
    /// Panics if the value is invalid; the message has file and line.
    pub fn parse<T: std::str::FromStr>(&self, key: &str, default: T) -> T {
        let Some(value) = self.get(key) else { return default };
        value.parse().unwrap_or_else(|_| {
            panic!("{}:{}: cannot read {key}={value}", self.file.display(), self.line)
        })
    }

    /// Returns the arguments without values, in order.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.args.iter().filter(|a| a.values.is_empty()).map(|a| a.key.as_str())
    }
}

/// A piece of a test file: text that is preserved, or a case with its original head.
enum TextPiece {
    Text(String),
    Case { head: String, case: Case },
}

/// Runs every case of a file, or of every file (`*.txt`, by name) of a directory and its
/// subdirectories. The closure has the state; for a new state per file, call it for each of
/// [`files`].
///
/// # Panics
/// Panics if an output differs, a file is unreadable or has a syntax error, or there are no cases.
pub fn walk(path: impl AsRef<Path>, run: impl FnMut(&Case) -> String) {
    let rewrite = std::env::var_os("FIRN_REWRITE").is_some_and(|v| v != "0" && !v.is_empty());
    walk_with(path.as_ref(), rewrite, run);
}

fn walk_with(path: &Path, rewrite: bool, mut run: impl FnMut(&Case) -> String) {
    let (mut cases, mut failures) = (0, String::new());
    for file in files(path) {
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let pieces = parse(&file, &text).unwrap_or_else(|e| panic!("{e}"));
        let mut rewritten = String::new();
        for piece in &pieces {
            match piece {
                TextPiece::Text(text) => rewritten.push_str(text),
                TextPiece::Case { head, case } => {
                    cases += 1;
                    let actual = run(case);
                    let actual = actual.trim_end_matches('\n');
                    if !rewrite && actual != case.expected {
                        let _ = writeln!(failures, "{}", report(case, actual));
                    }
                    rewritten.push_str(head);
                    rewritten.push_str(&render(actual));
                }
            }
        }
        if rewrite && rewritten != text {
            fs::write(&file, rewritten).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }
    assert!(cases > 0, "no cases in {}", path.display());
    assert!(
        failures.is_empty(),
        "\n{failures}FIRN_REWRITE=1 makes the actual output the expected one."
    );
}

/// Returns the test files of a directory, by name, or the file itself.
///
/// # Panics
/// Panics if a directory is unreadable.
pub fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let list = fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut entries: Vec<PathBuf> = list.filter_map(|e| e.ok().map(|e| e.path())).collect();
    entries.sort();
    entries.retain(|p| p.is_dir() || p.extension().is_some_and(|e| e == "txt"));
    entries.iter().flat_map(|p| files(p)).collect()
}

fn parse(file: &Path, text: &str) -> Result<Vec<TextPiece>, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let bare = |i: usize| lines.get(i).map(|l| l.trim_end());
    let fail = |i: usize, what: &str| Err(format!("{}:{}: {what}", file.display(), i + 1));
    let (mut pieces, mut i) = (Vec::new(), 0);
    while i < lines.len() {
        if lines[i].trim().is_empty() || lines[i].starts_with('#') {
            pieces.push(TextPiece::Text(lines[i].to_owned()));
            i += 1;
            continue;
        }
        let start = i;
        let Some((directive, args)) = words(lines[i]).and_then(split_words) else {
            return fail(i, "a quote or a parenthesis is not closed");
        };
        i += 1;
        while bare(i).is_some_and(|l| l != "----") {
            i += 1;
        }
        if i == lines.len() {
            return fail(start, "the case has no ----");
        }
        let input = lines[start + 1..i].concat();
        let head = format!("{}\n", lines[start..=i].concat().trim_end());
        i += 1;
        let from;
        let until;
        if bare(i) == Some("----") {
            from = i + 1;
            i = from;
            while !(bare(i) == Some("----") && bare(i + 1) == Some("----")) {
                i += 1;
                if i >= lines.len() {
                    return fail(start, "the output has no end: ---- twice");
                }
            }
            until = i;
            i += 2;
        } else {
            from = i;
            while bare(i).is_some_and(|l| !l.is_empty()) {
                i += 1;
            }
            until = i;
        }
        let expected = lines[from..until].concat().trim_end_matches('\n').to_owned();
        let case =
            Case { file: file.to_owned(), line: start + 1, directive, args, input, expected };
        pieces.push(TextPiece::Case { head, case });
    }
    Ok(pieces)
}

/// Splits at spaces outside quotes and parentheses; `None` if one of those is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut depth, mut quote) = (Vec::new(), None::<String>, 0, None);
    for c in line.trim().chars() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() && depth == 0 => words.extend(word.take()),
            _ => {
                depth +=
                    i32::from(quote.is_none() && c == '(') - i32::from(quote.is_none() && c == ')');
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    (quote.is_none() && depth == 0).then_some(words)
}

fn split_words(words: Vec<String>) -> Option<(String, Vec<Arg>)> {
    let mut words = words.into_iter();
    let directive = words.next()?;
    let args = words.map(|word| match word.split_once('=') {
        None => Arg { key: word, values: Vec::new() },
        Some((key, value)) => {
            let list = value.strip_prefix('(').and_then(|v| v.strip_suffix(')'));
            let parts = |v: &str| {
                v.split([',', ' ']).filter(|s| !s.is_empty()).map(str::to_owned).collect()
            };
            Arg { key: key.to_owned(), values: list.map_or_else(|| vec![value.to_owned()], parts) }
        }
    });
    Some((directive, args.collect()))
}

/// Formats an output for the file, after the first `----`.
fn render(output: &str) -> String {
    if output.is_empty() {
        String::new()
    } else if output.lines().any(|l| l.trim_end().is_empty()) || output.starts_with("----") {
        format!("----\n{output}\n----\n----\n")
    } else {
        format!("{output}\n")
    }
}

fn report(case: &Case, actual: &str) -> String {
    let place = format!("{}:{}: {}", case.file.display(), case.line, case.directive);
    format!("{place}: the output differs (- expected, + actual)\n{}", diff(&case.expected, actual))
}

/// Returns a line diff by longest common subsequence; outputs are short.
fn diff(expected: &str, actual: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let mut common = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            let _ = writeln!(out, "    {}", a[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            let _ = writeln!(out, "  - {}", a[i]);
            i += 1;
        } else {
            let _ = writeln!(out, "  + {}", b[j]);
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> Vec<Case> {
        let pieces = parse(Path::new("t"), text).unwrap();
        pieces
            .into_iter()
            .filter_map(|p| if let TextPiece::Case { case, .. } = p { Some(case) } else { None })
            .collect()
    }

    #[test]
    fn cases_are_read() {
        let text = "# c\n\nput a b=1 c=(x, y z) d='p q'\nin 1\nin 2\n----\nout\n\nget\n----\n----\none\n\ntwo\n----\n----\n\nend\n----\n";
        let got = cases(text);
        assert_eq!(got.len(), 3);
        assert_eq!(
            (got[0].line, got[0].directive.as_str(), got[0].input.as_str()),
            (3, "put", "in 1\nin 2\n")
        );
        assert_eq!(
            (got[0].get("b"), got[0].get("d"), got[0].has("a"), got[0].get("a")),
            (Some("1"), Some("p q"), true, None)
        );
        assert_eq!(got[0].list("c").unwrap(), ["x", "y", "z"]);
        assert_eq!(
            (got[0].parse("b", 0), got[0].parse("n", 7), got[0].words().collect::<Vec<_>>()),
            (1, 7, vec!["a"])
        );
        assert_eq!(
            (got[0].expected.as_str(), got[1].expected.as_str(), got[2].expected.as_str()),
            ("out", "one\n\ntwo", "")
        );
    }

    #[test]
    fn rendering_and_reading_are_inverse() {
        for output in ["", "a", "a\nb", "a\n\nb", "----\nx", "a\n \nb"] {
            let text = format!("d\n----\n{}\nnext\n----\nx\n", render(output));
            let got = cases(&text);
            assert_eq!(
                (got.len(), got[0].expected.as_str(), got[1].expected.as_str()),
                (2, output, "x"),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let error = |text| parse(Path::new("t"), text).err().unwrap();
        assert_eq!(error("\nput 'a\n----\n"), "t:2: a quote or a parenthesis is not closed");
        assert_eq!(error("put a\n"), "t:1: the case has no ----");
        assert_eq!(error("put a\n----\n----\nx\n"), "t:1: the output has no end: ---- twice");
    }

    #[test]
    fn a_difference_is_shown() {
        assert_eq!(diff("a\nb\nc", "a\nx\nc\nd"), "    a\n  - b\n  + x\n    c\n  + d\n");
    }

    #[test]
    fn files_are_run_compared_and_found() {
        let dir = std::env::temp_dir().join(format!("firn-datadriven-{}", std::process::id()));
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/b.txt"), "echo hi\n----\nhi\n").unwrap();
        fs::write(dir.join("a.txt"), "echo ho\n----\nho\n").unwrap();
        fs::write(dir.join("notes.md"), "no case").unwrap();
        let mut seen = Vec::new();
        walk_with(&dir, false, |case| {
            seen.extend(case.words().map(str::to_owned));
            case.words().collect()
        });
        assert_eq!(seen, ["ho", "hi"]);
        let wrong = std::panic::catch_unwind(|| walk_with(&dir, false, |_| "other".to_owned()));
        walk_with(&dir, true, |case| format!("{}\n\nsaid", case.directive));
        walk_with(&dir, false, |case| format!("{}\n\nsaid", case.directive));
        fs::remove_dir_all(&dir).unwrap();
        assert!(wrong.unwrap_err().downcast_ref::<String>().unwrap().contains("a.txt:1: echo"));
    }
}
