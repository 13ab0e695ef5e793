//! Every `model 3.4` in a comment refers to a rule of `MODEL.md`, and the rules are in order.

#![allow(clippy::disallowed_methods, reason = "it reads sources, and nothing of a store")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CATALOGUE: &str = include_str!("../MODEL.md");

/// Parses a number such as `3` or `3.4` at the begin of a text, and returns it with its length.
fn number(text: &str) -> Option<((u32, u32), usize)> {
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let section = text[..whole].parse().ok()?;
    let Some(rest) = text[whole..].strip_prefix('.').filter(|rest| digits(rest) > 0) else {
        return Some(((section, 0), whole));
    };
    let part = digits(rest);
    Some(((section, rest[..part].parse().ok()?), whole + 1 + part))
}

/// Returns the rules of the catalogue in order: headings, and the numbered corrections.
fn rules() -> Vec<(u32, u32)> {
    let starts = CATALOGUE.lines().filter_map(|line| match line.strip_prefix('#') {
        Some(heading) => Some(heading.trim_start_matches('#').trim_start()),
        None => line.strip_prefix("- **"),
    });
    starts.filter_map(|text| number(text).map(|found| found.0)).collect()
}

/// Returns the numbers after each `model ` in a source: `model 2.2, 3.2 to 3.4 and 6`, also over
/// line ends.
fn cited(source: &str) -> Vec<(u32, u32)> {
    let unbroken: Vec<&str> =
        source.lines().map(|l| l.trim_start().trim_start_matches(['/', '!', '#'])).collect();
    let (text, mut found) = (unbroken.join(""), vec![]);
    for (at, word) in text.match_indices("model ") {
        let mut rest = &text[at + word.len()..];
        while let Some((rule, len)) = number(rest) {
            found.push(rule);
            rest = &rest[len..];
            let Some(next) =
                [", ", " and ", " to "].iter().find_map(|link| rest.strip_prefix(link))
            else {
                break;
            };
            rest = next;
        }
    }
    found
}

fn sources(dir: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|e| e.to_str()) {
            _ if path.is_dir() => sources(&path, each),
            Some("rs" | "txt") => each(&path, &String::from_utf8_lossy(&fs::read(&path).unwrap())),
            _ => {}
        }
    }
}

#[test]
fn citations_lead_to_rules() {
    let all = rules();
    assert!(all.is_sorted(), "the rules are out of order: {all:?}");
    let rules: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(rules.len(), all.len(), "two rules have one number: {all:?}");
    let (root, mut wrong, mut good) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), vec![], 0);
    for place in ["engine", "tools"] {
        sources(&root.join(place), &mut |path, source| {
            for rule in cited(source) {
                if rules.contains(&rule) {
                    good += 1;
                } else {
                    wrong.push(format!("{}: model {}.{}", path.display(), rule.0, rule.1));
                }
            }
        });
    }
    assert!(
        wrong.is_empty(),
        "no such rule in MODEL.md (.0 is a whole section):\n{}",
        wrong.join("\n")
    );
    assert!(good > 60, "only {good} citations were found");
}

#[test]
fn citations_are_read() {
    assert_eq!(
        cited("//! Order (model 2.2,\n//! 3.2 to 3.4 and 6): that.\n"),
        [(2, 2), (3, 2), (3, 4), (6, 0)]
    );
    assert_eq!(cited("the data model, 3 of them"), []);
}
