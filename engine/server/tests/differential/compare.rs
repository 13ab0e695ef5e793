//! Compares two answers; `allowed.txt` has the allowed differences.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::differential::sides::{Answered, DiffAnswer, RowBytes, SpecText};
use crate::differential::statement::DiffStatement;

/// Later microseconds are from the clock: no statement names such a timestamp.
const CLOCK: i64 = 1_500_000_000_000_000;
/// Drawn TTLs differ by far more than this, in seconds.
const TTL_STEP: i32 = 50_000;

fn timed(name: &str, bytes: &mut [u8]) {
    if name.contains("writetime(") {
        if let Ok(raw) = <[u8; 8]>::try_from(&*bytes)
            && i64::from_be_bytes(raw) > CLOCK
        {
            bytes.fill(0xee);
        }
    } else if let Ok(raw) = <[u8; 4]>::try_from(&*bytes) {
        let rough = (i32::from_be_bytes(raw).saturating_add(TTL_STEP - 1)) / TTL_STEP;
        bytes.copy_from_slice(&rough.to_be_bytes());
    }
}

/// Removes the clock from a value; in a list, from each element.
fn without_clock(name: &str, of: &str, bytes: &mut [u8]) {
    if !of.starts_with("List") {
        return timed(name, bytes);
    }
    let mut at = 4;
    while let Some(size) = bytes.get(at..at + 4) {
        let size = i32::from_be_bytes(size.try_into().unwrap_or_default());
        let len = usize::try_from(size).unwrap_or(0);
        let Some(part) = bytes.get_mut(at + 4..at + 4 + len) else { return };
        timed(name, part);
        at += 4 + len;
    }
}

/// Normalizes the sign of NaN, which depends on the machine.
fn one_nan(of: &str, value: &mut Option<Vec<u8>>) {
    let Some(bytes) = value else { return };
    match (of, &bytes[..]) {
        ("Float", &[a, b, c, d]) if f32::from_be_bytes([a, b, c, d]).is_nan() => {
            *bytes = f32::NAN.to_be_bytes().to_vec();
        }
        ("Double", &[a, b, c, d, e, f, g, h])
            if f64::from_be_bytes([a, b, c, d, e, f, g, h]).is_nan() =>
        {
            *bytes = f64::NAN.to_be_bytes().to_vec();
        }
        _ => {}
    }
}

fn plain_rows(columns: &[SpecText], pages: &[Vec<RowBytes>]) -> Vec<Vec<RowBytes>> {
    let mut pages = pages.to_vec();
    for (i, (name, of)) in columns.iter().enumerate() {
        if name.contains("writetime(") || name.contains("ttl(") {
            let values = pages.iter_mut().flatten().filter_map(|row| row[i].as_deref_mut());
            values.for_each(|value| without_clock(name, of, value));
        }
    }
    for row in pages.iter_mut().flatten() {
        row.iter_mut().zip(columns).for_each(|(value, (_, of))| one_nan(of, value));
    }
    // Whether the last page is known to be the last may differ between servers.
    while pages.len() > 1 && pages.last().is_some_and(Vec::is_empty) {
        pages.pop();
    }
    pages
}

/// Reports whether a client would see the same. With `words` it compares the texts of errors, too:
/// `here` may add text to those of `there`, and has its own texts for syntax errors. If a statement
/// has two faults, either may be reported.
pub fn is_same(statement: &DiffStatement, here: &Answered, there: &Answered, words: bool) -> bool {
    if here.markers != there.markers {
        return false;
    }
    match (&here.answer, &there.answer) {
        (DiffAnswer::Rows { columns: a, pages: b }, DiffAnswer::Rows { columns: c, pages: d }) => {
            let (b, d) = (plain_rows(a, b), plain_rows(c, d));
            // With GROUP BY a page of Cassandra may exceed the page size.
            let is_grouped = statement.cql.contains(" GROUP BY ");
            a == c && (b == d || is_grouped && b.concat() == d.concat())
        }
        (DiffAnswer::Refused { class: a, text: b }, DiffAnswer::Refused { class: c, text: d }) => {
            let help = b.strip_prefix(d.as_str());
            let same = help.is_some_and(|help| help.is_empty() || help.starts_with("; "));
            a == c && (same || !words || a == "SyntaxException")
        }
        (a, b) => a == b,
    }
}

/// Returns an answer in one line.
pub fn shown(answered: &Answered) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match &answered.answer {
        DiffAnswer::Void => "void".to_owned(),
        DiffAnswer::Refused { class, text } => format!("{class}: {text}").replace('\n', " "),
        DiffAnswer::Rows { columns, pages } => {
            let value = |v: &Option<Vec<u8>>| v.as_ref().map_or("null".to_owned(), |v| hex(v));
            let row = |row: &RowBytes| row.iter().map(value).collect::<Vec<_>>().join(",");
            let page = |page: &Vec<RowBytes>| page.iter().map(row).collect::<Vec<_>>().join(" ");
            let pages: Vec<_> = pages.iter().map(page).collect();
            let columns: Vec<_> = columns.iter().map(|(n, t)| format!("{n} {t}")).collect();
            format!("rows [{}] {}", columns.join(", "), pages.join(" | "))
        }
    }
}

/// Reports whether only one side may have executed the writes of the statement.
pub fn parts_ways(statement: &DiffStatement, here: &Answered, there: &Answered) -> bool {
    let refused = |a: &Answered| matches!(a.answer, DiffAnswer::Refused { .. });
    !(statement.asks() || refused(here) && refused(there))
}

/// Returns the difference without particular values, to group differences.
pub fn signature(statement: &DiffStatement, here: &Answered, there: &Answered) -> String {
    let rough = |answered: &Answered| match &answered.answer {
        DiffAnswer::Refused { class, text } => {
            let mut words: Vec<_> = text
                .split(' ')
                .map(|w| {
                    if w.chars().any(|c| c.is_ascii_digit() || "'\"<>".contains(c)) {
                        "_"
                    } else {
                        w
                    }
                })
                .collect();
            words.truncate(9);
            format!("{class}: {}", words.join(" "))
        }
        DiffAnswer::Void => "void".to_owned(),
        DiffAnswer::Rows { .. } => "rows".to_owned(),
    };
    let (here_rough, there_rough) = (rough(here), rough(there));
    let mut what = String::new();
    if here_rough == "rows" && there_rough == "rows" {
        const SIGNS: [&str; 15] = [
            "JSON",
            "DISTINCT",
            "GROUP BY",
            "ORDER BY",
            "PER PARTITION",
            " LIMIT",
            "token(",
            " IN ",
            "CONTAINS",
            "count(",
            "max(",
            "min(",
            "CAST",
            "IF ",
            "writetime",
        ];
        let signs: Vec<_> = SIGNS.iter().filter(|s| statement.cql.contains(**s)).copied().collect();
        what = signs.join("+");
        if statement.page_size.is_some() {
            what.push_str("+paged");
        }
        if let (
            DiffAnswer::Rows { columns: a, pages: p },
            DiffAnswer::Rows { columns: b, pages: q },
        ) = (&here.answer, &there.answer)
        {
            if a != b {
                what = "columns".to_owned();
            } else if p.concat() == q.concat() {
                what.push_str("+pages alone");
            }
        }
    }
    if here.markers != there.markers {
        what.push_str("+markers");
    }
    let verb = statement.cql.split(' ').next().unwrap_or_default();
    format!("{verb} {what} here {here_rough} there {there_rough}")
}

/// The rows of Cassandra, compared with Firn's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RowsThere {
    /// Not compared.
    Any,
    None,
    /// Some of Firn's, in their order.
    Fewer,
    /// Firn's, with others between them.
    More,
    /// As many, with other values.
    AsMany,
}

impl RowsThere {
    fn named(name: &str) -> Option<RowsThere> {
        Some(match name {
            "none" => RowsThere::None,
            "fewer" => RowsThere::Fewer,
            "more" => RowsThere::More,
            "as many" => RowsThere::AsMany,
            _ => return None,
        })
    }

    fn is_so(self, here: &DiffAnswer, there: &DiffAnswer) -> bool {
        let (DiffAnswer::Rows { pages: a, .. }, DiffAnswer::Rows { pages: b, .. }) = (here, there)
        else {
            return self == RowsThere::Any;
        };
        let (a, b) = (a.concat(), b.concat());
        let within = |few: &[RowBytes], many: &[RowBytes]| {
            let mut rest = many.iter();
            few.iter().all(|row| rest.any(|other| other == row))
        };
        match self {
            RowsThere::Any => true,
            RowsThere::None => b.is_empty(),
            RowsThere::Fewer => within(&b, &a),
            RowsThere::More => within(&a, &b),
            RowsThere::AsMany => a.len() == b.len(),
        }
    }
}

/// An allowed difference: patterns in which `*` matches anything.
#[derive(Debug)]
pub struct Allowance {
    statement: String,
    here: String,
    there: String,
    rows: RowsThere,
    /// The differences that it has allowed, with counts.
    used: Mutex<BTreeMap<String, usize>>,
}

/// Reports whether the text matches the pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(first) else { return false };
    if rest.is_empty() {
        return true;
    }
    (0..=text.len()).any(|at| text.is_char_boundary(at) && matches(rest, &text[at..]))
}

/// Parses allowances: blocks of `statement:`, `here:`, `there:`, optionally `rows:`, and `why:`, in
/// this order.
pub fn allowances(text: &str) -> Vec<Allowance> {
    let blocks = text.split("\n\n").filter(|b| !b.trim().is_empty() && !b.starts_with('#'));
    blocks
        .map(|block| {
            let mut lines = block.trim().lines();
            let rows = |name: &str| RowsThere::named(name).unwrap_or_else(|| panic!("{block}"));
            let mut next = |name: &str| {
                let line = lines.next().and_then(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name} is missing in: {block}")).trim().to_owned()
            };
            let [statement, here, there] = ["statement:", "here:", "there:"].map(&mut next);
            let says = block.contains("\nrows:");
            let rows = if says { rows(&next("rows:")) } else { RowsThere::Any };
            next("why:");
            Allowance { statement, here, there, rows, used: Mutex::default() }
        })
        .collect()
}

impl Allowance {
    pub fn allows(&self, statement: &DiffStatement, here: &Answered, there: &Answered) -> bool {
        let allows = matches(&self.statement, &statement.cql)
            && matches(&self.here, &shown(here))
            && matches(&self.there, &shown(there))
            && self.rows.is_so(&here.answer, &there.answer);
        if allows {
            let kind = signature(statement, here, there);
            *self.used.lock().unwrap().entry(kind).or_default() += 1;
        }
        allows
    }

    /// Returns the differences that it has allowed, with counts, to help narrow it.
    pub fn tally(&self) -> String {
        let Allowance { statement, here, there, used, .. } = self;
        let used = used.lock().unwrap();
        let mut text = format!("allowed: {statement} | {here} | {there}");
        used.iter().for_each(|(kind, count)| text.push_str(&format!("\n{count:>6} {kind}")));
        text
    }
}

#[test]
fn a_pattern_means_what_it_says() {
    assert!(matches("a*c", "abc") && matches("*", "") && matches("a", "a"));
    assert!(matches("*b*", "abc") && !matches("a*d", "abc") && !matches("a", "ab"));
}
