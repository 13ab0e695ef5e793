//! What a reader of a document should know about it beside its counts: names that stand twice, and
//! words that stand for new UUIDs.

use std::collections::{BTreeMap, HashMap};

use firn_wide::internals::types::hex_to_bytes;
use firn_wide::{Counts, TimeSource, Type, TypeError};
use uuid::Uuid;

use crate::text::{self, Ticks};

/// Notes that are kept; others are counted.
const MAX_NOTES: usize = 1000;
/// Names of one row, or rows of one family, that are looked for again.
const MAX_NAMES: usize = 1 << 16;

/// What was read from a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows that hold something, and columns. Of columns with one name in a row only the one that
    /// counts.
    pub counts: Counts,
    /// Names that stand twice, each with its line: at most 1000.
    pub repeated: Vec<String>,
    /// Texts that stand for new UUIDs, in the order of their first places: at most 1000.
    pub stand_ins: Vec<(String, Uuid)>,
    /// Notes of either kind that are not listed.
    pub left_out: u64,
}

impl ImportReport {
    pub(super) fn repeats(&mut self, note: String) {
        if self.repeated.len() < MAX_NOTES {
            self.repeated.push(note);
        } else {
            self.left_out += 1;
        }
    }
}

/// Names and the lines that they first stand in: the first 65,536.
#[derive(Debug, Default)]
pub struct SeenNames(HashMap<Vec<u8>, SeenName>);

/// A name that stands somewhere.
#[derive(Clone, Copy, Debug)]
pub struct SeenName {
    /// Its first line.
    pub line: u64,
    /// How often it stands before this time.
    pub times: i64,
}

impl SeenNames {
    /// Notes a name; where it stands already, if it does.
    pub fn add(&mut self, name: &[u8], line: u64) -> Option<SeenName> {
        if let Some(seen) = self.0.get_mut(name) {
            let before = *seen;
            seen.times += 1;
            return Some(before);
        }
        if self.0.len() < MAX_NAMES {
            self.0.insert(name.to_vec(), SeenName { line, times: 1 });
        }
        None
    }
}

/// Reads texts of types. A text of a UUID that is none, such as `timeuuid_1`, a date or `now`,
/// means a new one.
#[derive(Debug)]
pub struct StandIns {
    times: Ticks,
    /// What words that stand for UUIDs mean in the whole document.
    words: BTreeMap<String, [u8; 16]>,
}

/// Whether a text is a word that stands for a UUID: `timeuuid`, `timeuuid_1b`.
fn is_word(text: &str) -> bool {
    const WORD: &str = "timeuuid";
    text.get(..WORD.len()).is_some_and(|head| head.eq_ignore_ascii_case(WORD))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether values of this type are read from words that stand for UUIDs.
fn takes_words(of: &Type) -> bool {
    matches!(of.unreversed(), Type::TimeUuid | Type::Uuid)
}

impl StandIns {
    /// New UUIDs have times from this one on, in microseconds.
    pub fn new(micros: i64) -> StandIns {
        StandIns { times: Ticks(micros), words: BTreeMap::new() }
    }

    /// Whether a text of this type is a word that stands for a UUID.
    pub fn stands(&self, of: &Type, text: &str) -> bool {
        takes_words(of) && is_word(text)
    }

    /// A UUID that this word has not stood for.
    pub fn another(&mut self, word: &str, report: &mut ImportReport) -> [u8; 16] {
        let made = self.times.time_uuid();
        self.note(word, made, report);
        made
    }

    fn note(&self, text: &str, made: [u8; 16], report: &mut ImportReport) {
        if report.stand_ins.len() < MAX_NOTES {
            report.stand_ins.push((text.to_owned(), Uuid::from_bytes(made)));
        } else {
            report.left_out += 1;
        }
    }

    /// Appends the value that a text of this type means.
    ///
    /// # Errors
    /// Why it means none.
    pub fn read(
        &mut self,
        of: &Type,
        text: &str,
        report: &mut ImportReport,
        out: &mut Vec<u8>,
    ) -> Result<(), TypeError> {
        let is_written =
            || text.parse::<Uuid>().is_ok() || text.strip_prefix("0x").is_some_and(is_hex);
        if !takes_words(of) || text.is_empty() || is_written() {
            return text::read(of, text, &mut self.times, out);
        }
        if let Some(made) = self.words.get(text) {
            out.extend_from_slice(made);
            return Ok(());
        }
        if is_word(text) {
            let made = self.another(text, report);
            self.words.insert(text.to_owned(), made);
            out.extend_from_slice(&made);
            return Ok(());
        }
        if text.parse::<f64>().is_ok() {
            return Err(TypeError(format!(
                "{text} is no UUID: write one in full, or a word such as timeuuid_{text}, which stands for a new one"
            )));
        }
        let at = out.len();
        text::read(of, text, &mut self.times, out)?;
        if let Ok(made) = out[at..].try_into() {
            self.note(text, made, report);
        }
        Ok(())
    }
}

fn is_hex(digits: &str) -> bool {
    hex_to_bytes(digits).is_ok()
}
