//! Completion of the text at the cursor. It asks the parser for the expected tokens, so it covers
//! the whole language.

use super::attributes;
use super::lex::{self, LexStop, TokenKind};
use super::parse::expected_after;
use super::split::Splitter;
use super::syntax::{ExpectedKind, ExpectedToken};

/// The names that completion offers in addition to the language.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionNames {
    /// Keyspaces.
    pub keyspaces: Vec<String>,
    /// The column families of the current keyspace, with their known columns.
    pub families: Vec<(String, Vec<String>)>,
}

/// Replacements for the text from `start` to the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Byte offset in the text before the cursor.
    pub start: usize,
    /// Sorted; each begins with the replaced text, ignoring case.
    pub candidates: Vec<String>,
}

/// The functions of types, which are also short type names, with their classes, in listing order.
pub const FUNCTIONS: [(&str, &str); 9] = [
    ("bytes", "BytesType"),
    ("integer", "IntegerType"),
    ("long", "LongType"),
    ("int", "Int32Type"),
    ("lexicaluuid", "LexicalUUIDType"),
    ("timeuuid", "TimeUUIDType"),
    ("utf8", "UTF8Type"),
    ("ascii", "AsciiType"),
    ("countercolumn", "CounterColumnType"),
];

#[rustfmt::skip]
const TYPES: [&str; 15] = [
    "AsciiType", "BooleanType", "BytesType", "CounterColumnType", "DateType", "DecimalType", "DoubleType", "FloatType",
    "Int32Type", "IntegerType", "LexicalUUIDType", "LongType", "TimeUUIDType", "UTF8Type", "UUIDType",
];

/// The consistency levels, in listing order.
pub const LEVELS: [&str; 8] =
    ["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "ANY"];

/// Completes `before`, the text before the cursor.
pub fn complete(before: &str, names: &CompletionNames) -> Completion {
    let mut splitter = Splitter::new();
    splitter.feed(before);
    while splitter.next_statement().is_some() {}
    let from = before.len() - splitter.waiting();
    let text = &before[from..];
    let (mut tokens, stop) = lex::tokens(text);
    let (start, quoted) = match (stop, tokens.last()) {
        (Some((at, LexStop::OpenString)), _) => (at + 1, true),
        (Some(_), _) => return Completion { start: before.len(), candidates: Vec::new() },
        (None, Some(t))
            if t.end == text.len() && matches!(t.kind, TokenKind::Word | TokenKind::Integer) =>
        {
            let start = t.start;
            tokens.pop();
            (start, false)
        }
        (None, _) => (text.len(), false),
    };
    let partial = &text[start..];
    let (expected, family) = expected_after(&tokens);
    let mut candidates = Vec::new();
    for e in &expected {
        match e {
            ExpectedToken::Word(word) if !quoted => candidates.push((*word).to_owned()),
            ExpectedToken::Any(what) => names.of(*what, family.as_deref(), quoted, &mut candidates),
            ExpectedToken::Word(_) | ExpectedToken::Sign(_) => {}
        }
    }
    let fits =
        |c: &str| c.get(..partial.len()).is_some_and(|head| head.eq_ignore_ascii_case(partial));
    candidates.retain(|c| fits(c));
    candidates.sort();
    candidates.dedup();
    Completion { start: from + start, candidates }
}

impl CompletionNames {
    fn of(&self, what: ExpectedKind, family: Option<&str>, quoted: bool, out: &mut Vec<String>) {
        let mut known = |list: &[&str]| out.extend(list.iter().map(|s| (*s).to_owned()));
        match what {
            ExpectedKind::Keyspace => out.extend(self.keyspaces.iter().cloned()),
            ExpectedKind::Family => out.extend(self.families.iter().map(|(name, _)| name.clone())),
            ExpectedKind::Class => known(&TYPES),
            ExpectedKind::Type => known(&[&TYPES[..], &FUNCTIONS.map(|(name, _)| name)].concat()),
            ExpectedKind::KeyspaceAttribute => known(&attributes::KEYSPACE.map(|(name, _)| name)),
            ExpectedKind::FamilyAttribute => known(&attributes::FAMILY.map(|(name, _)| name)),
            ExpectedKind::MetadataKey => known(&attributes::METADATA.map(|(name, _)| name)),
            ExpectedKind::ColumnType => known(&["Standard", "Super"]),
            ExpectedKind::Boolean => known(&["false", "true"]),
            ExpectedKind::Caching => known(&["ALL", "KEYS_ONLY", "NONE", "ROWS_ONLY"]),
            ExpectedKind::PlacementStrategy => {
                known(&["NetworkTopologyStrategy", "SimpleStrategy"])
            }
            ExpectedKind::CompactionStrategy => {
                known(&["LeveledCompactionStrategy", "SizeTieredCompactionStrategy"])
            }
            ExpectedKind::IndexType => known(&["KEYS"]),
            ExpectedKind::Level => known(&LEVELS),
            ExpectedKind::Assumption => {
                known(&["comparator", "keys", "sub_comparator", "validator"])
            }
            ExpectedKind::Column | ExpectedKind::Key | ExpectedKind::Value => {
                if !quoted {
                    known(&FUNCTIONS.map(|(name, _)| name));
                }
                let columns = self.families.iter().find(|(name, _)| {
                    what == ExpectedKind::Column && Some(name.as_str()) == family
                });
                out.extend(columns.into_iter().flat_map(|(_, columns)| columns.iter().cloned()));
            }
            _ => {}
        }
    }
}
