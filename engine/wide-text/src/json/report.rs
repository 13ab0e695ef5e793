//! Report of an import besides its counts: repeated names, and words that stand for new UUIDs.

use std::collections::{BTreeMap, HashMap};

use firn_wide::internals::api::Counts;
use firn_wide::internals::types::hex_to_bytes;
use firn_wide::{TimeSource, Type, TypeError};
use uuid::Uuid;

use crate::text::{self, Ticks};

/// Maximum number of stored notes; others are only counted.
const MAX_NOTES: usize = 1000;
/// Maximum number of names of one row, or rows of one family, that are checked for repetition.
const MAX_NAMES: usize = 1 << 16;

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Numbers of non-empty rows, and of columns. Columns of one name in a row count once.
    pub counts: Counts,
    /// Repeated names, each with its line: at most 1000.
    pub repeated: Vec<String>,
    /// Words that stand for new UUIDs, in the order of their first use: at most 1000.
    pub stand_ins: Vec<(String, Uuid)>,
    /// Notes of either type that are not listed.
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

/// Names with their first lines: the first 65,536.
#[derive(Debug, Default)]
pub struct SeenNames(HashMap<Vec<u8>, SeenName>);

/// A name that was seen before.
#[derive(Clone, Copy, Debug)]
pub struct SeenName {
    /// Its first line.
    pub line: u64,
    /// Number of earlier occurrences.
    pub times: i64,
}

impl SeenNames {
    /// Adds a name; returns its earlier occurrence, if any.
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

/// Parses texts of types. For a UUID type, a text that is no UUID, such as `timeuuid_1`, a date or
/// `now`, generates a new one.
#[derive(Debug)]
pub struct ImportDefaults {
    times: Ticks,
    /// UUIDs of the words, for the whole document.
    words: BTreeMap<String, [u8; 16]>,
}

/// Reports whether a text is a word that stands for a UUID: `timeuuid`, `timeuuid_1b`.
fn is_word(text: &str) -> bool {
    const WORD: &str = "timeuuid";
    text.get(..WORD.len()).is_some_and(|head| head.eq_ignore_ascii_case(WORD))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reports whether a type accepts words that stand for UUIDs.
fn takes_words(of: &Type) -> bool {
    matches!(of.unreversed(), Type::TimeUuid | Type::Uuid)
}

impl ImportDefaults {
    /// Creates the state; new UUIDs have times from this one on, in microseconds.
    pub fn new(micros: i64) -> ImportDefaults {
        ImportDefaults { times: Ticks(micros), words: BTreeMap::new() }
    }

    /// Reports whether a text of this type is a word that stands for a UUID.
    pub fn stands(&self, of: &Type, text: &str) -> bool {
        takes_words(of) && is_word(text)
    }

    /// Returns a UUID that this word has not stood for.
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

    /// Appends the value of a text of this type.
    ///
    /// # Errors
    /// The reason for an invalid text.
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
