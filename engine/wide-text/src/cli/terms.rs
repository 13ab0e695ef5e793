//! Conversion between texts of statements and bytes, by the column family's types, the session's
//! assumptions and functions.

use std::collections::BTreeMap;

use firn_kv::Env;
use firn_wide::internals::schema::Family;
use firn_wide::internals::types::{hex, hex_to_bytes};
use firn_wide::{ColumnOrSuperColumn, Registry, TimeSource, Type, Wording, uuids};

use super::ast::CliTerm;
use super::complete::FUNCTIONS;
use super::format::{CliCell, CliColumn};
use super::store::CliStore;
use super::syntax::SyntaxFailure;
use crate::text::from_hex;

/// The default type.
pub(super) static BYTES: Type = Type::Bytes;

/// A session's assumptions, which override the schema of a column family.
#[derive(Clone, Debug, Default)]
pub(super) struct Assumptions {
    pub comparator: Option<Type>,
    pub subcomparator: Option<Type>,
    pub validator: Option<Type>,
    pub keys: Option<Type>,
    /// Columns whose values were written by a function, or shown as a type.
    pub columns: BTreeMap<Vec<u8>, Type>,
}

/// Number of exceptions in which the command of 2012 had wrapped an error when it printed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExceptionDepth {
    Not,
    Once,
    Twice,
    Thrice,
}

impl ExceptionDepth {
    /// Returns the printed text.
    pub fn text(self, exception: &str, message: &str) -> String {
        match self {
            ExceptionDepth::Not => message.to_owned(),
            ExceptionDepth::Once => format!("{exception}: {message}"),
            ExceptionDepth::Twice => format!("java.lang.RuntimeException: {exception}: {message}"),
            ExceptionDepth::Thrice => format!(
                "java.lang.RuntimeException: java.lang.RuntimeException: {exception}: {message}"
            ),
        }
    }

    fn less(self) -> ExceptionDepth {
        match self {
            ExceptionDepth::Not | ExceptionDepth::Once => ExceptionDepth::Not,
            ExceptionDepth::Twice => ExceptionDepth::Once,
            ExceptionDepth::Thrice => ExceptionDepth::Twice,
        }
    }
}

/// Sources for texts such as `now`: the store's unique time, and randomness.
pub(super) struct UniqueSource<'a> {
    pub store: &'a dyn CliStore,
    pub env: &'a dyn Env,
}

impl UniqueSource<'_> {
    /// Returns a version 1 UUID. A random node and sequence distinguish it from those of other
    /// stores, and from another one of the same time.
    fn uuid_at(&self, micros: i64) -> [u8; 16] {
        // The multicast bit marks a node id that is no hardware address.
        const NO_CARD: u64 = 1 << 40;
        let (sequence, node) = (self.env.random(), self.env.random());
        uuids::time_uuid(micros, 0, sequence as u16, node | NO_CARD)
    }

    /// Returns a version 4 UUID.
    pub fn random_uuid(&self) -> [u8; 16] {
        let bits = u128::from(self.env.random()) << 64 | u128::from(self.env.random());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().into_bytes()
    }
}

impl TimeSource for UniqueSource<'_> {
    fn millis(&mut self) -> i64 {
        self.store.timestamp() / 1000
    }

    fn time_uuid(&mut self) -> [u8; 16] {
        self.uuid_at(self.store.timestamp())
    }

    fn time_uuid_at(&mut self, millis: i64) -> [u8; 16] {
        self.uuid_at(millis.saturating_mul(1000))
    }
}

/// Prints a notice that a word was read as hexadecimal where bytes are expected, because the user
/// may have meant its characters.
pub(super) fn note_hexadecimal(what: &str, term: &CliTerm, t: &Type, out: &mut String) {
    let CliTerm::Text(text) = term else { return };
    if *t != Type::Bytes || text.is_empty() {
        return;
    }
    if let Ok(bytes) = hex_to_bytes(text) {
        let n = bytes.len();
        let unit = if n == 1 { "byte" } else { "bytes" };
        out.push_str(&format!(
            "{what} {text} taken as hexadecimal: {n} {unit} (in quotes it is a text)\n"
        ));
    }
}

/// Parses a text. In lenient mode, where bytes are expected, a text that is not hexadecimal stands
/// for its own characters.
pub(super) fn bytes(
    t: &Type,
    text: &str,
    strict: bool,
    source: &mut UniqueSource<'_>,
    wrapped: ExceptionDepth,
) -> Result<Vec<u8>, SyntaxFailure> {
    if t.is_counter() {
        // The exception for invalid hexadecimal digits was wrapped once less.
        return hex_to_bytes(text).map_err(|e| {
            SyntaxFailure::new(
                e.0.clone(),
                wrapped.less().text("java.lang.NumberFormatException", &e.0),
            )
        });
    }
    if let Some(bytes) = from_hex(text).filter(|_| !strict && *t == Type::Bytes) {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    match t.from_text(text, Wording::Cli, source, &mut out) {
        Ok(()) => Ok(out),
        Err(_) if !strict && *t == Type::Bytes => Ok(text.as_bytes().to_owned()),
        Err(e) => Err(SyntaxFailure::new(
            e.0.clone(),
            wrapped.text("org.apache.cassandra.db.marshal.MarshalException", &e.0),
        )),
    }
}

/// Formats bytes. In lenient mode, bytes that are valid text are shown as text, and others as `0x`
/// with digits, so that the output can be written in quotes. Control characters, which would move a
/// terminal's cursor, are shown as escapes.
pub(super) fn text(t: &Type, bytes: &[u8], strict: bool) -> String {
    if strict {
        return t.to_text(bytes, Wording::Cli);
    }
    match std::str::from_utf8(bytes) {
        Ok(text)
            if *t == Type::Bytes
                && !text.chars().any(char::is_control)
                && from_hex(text).is_none() =>
        {
            text.to_owned()
        }
        _ if *t == Type::Bytes => format!("0x{}", hex(bytes)),
        _ => visible(t.to_text(bytes, Wording::Cli)),
    }
}

/// Escapes control characters.
fn visible(text: String) -> String {
    if !text.chars().any(char::is_control) {
        return text;
    }
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
        out
    })
}

/// Lists the names of all functions for messages.
pub(super) fn functions() -> String {
    FUNCTIONS.map(|(name, _)| name).join(", ")
}

/// Returns the type of a function.
pub(super) fn function_type(registry: &Registry, name: &str) -> Option<Type> {
    let (_, class) = FUNCTIONS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Type::parse(class, registry).ok()
}

/// Returns the type of a function name or class name.
pub(super) fn named_type(registry: &Registry, name: &str) -> Option<Type> {
    function_type(registry, name).or_else(|| Type::parse(name, registry).ok())
}

/// The types of a column family as seen by a session.
pub(super) struct Types<'a> {
    pub family: &'a Family,
    pub assumed: Option<&'a Assumptions>,
    pub strict: bool,
}

impl Types<'_> {
    pub fn keys(&self) -> &Type {
        self.assumed_keys().unwrap_or(self.family.key_validator())
    }

    /// Returns the type that was assumed for keys.
    pub fn assumed_keys(&self) -> Option<&Type> {
        self.assumed?.keys.as_ref()
    }

    pub fn comparator(&self) -> &Type {
        self.assumed.and_then(|a| a.comparator.as_ref()).unwrap_or(self.family.comparator())
    }

    /// Returns the type of names in super columns.
    pub fn subcomparator(&self) -> &Type {
        let known =
            self.assumed.and_then(|a| a.subcomparator.as_ref()).or(self.family.subcomparator());
        known.unwrap_or(&BYTES)
    }

    /// Returns the type of a column's values, and whether it is specific to this column.
    pub fn validator(&self, column: &[u8]) -> (&Type, bool) {
        if let Some(t) = self.assumed.and_then(|a| a.columns.get(column)) {
            return (t, true);
        }
        if let Some(c) = self.family.column(column) {
            return (c.validator(), true);
        }
        (
            self.assumed
                .and_then(|a| a.validator.as_ref())
                .unwrap_or(self.family.default_validator()),
            false,
        )
    }

    fn text(&self, t: &Type, bytes: &[u8]) -> String {
        text(t, bytes, self.strict)
    }

    pub fn key_text(&self, key: &[u8]) -> String {
        self.text(self.keys(), key)
    }

    /// Formats a column, `inside` a super column or not.
    pub fn column(&self, c: &firn_wide::Column, inside: bool) -> CliColumn {
        let name = if inside { self.subcomparator() } else { self.comparator() };
        let value = self.text(self.validator(&c.name).0, &c.value);
        CliColumn { name: self.text(name, &c.name), value, timestamp: c.timestamp, ttl: c.ttl }
    }

    /// Formats a cell, `inside` a super column or not.
    pub fn cell(&self, cell: &ColumnOrSuperColumn, inside: bool) -> CliCell {
        let name = |name: &[u8], inside: bool| {
            self.text(if inside { self.subcomparator() } else { self.comparator() }, name)
        };
        match cell {
            ColumnOrSuperColumn::Column(c) => CliCell::Column(self.column(c, inside)),
            ColumnOrSuperColumn::CounterColumn(c) => {
                CliCell::Counter(name(&c.name, inside), c.value)
            }
            ColumnOrSuperColumn::SuperColumn(s) => CliCell::Super(
                name(&s.name, false),
                s.columns.iter().map(|c| self.column(c, true)).collect(),
            ),
            ColumnOrSuperColumn::CounterSuperColumn(s) => {
                let counters = s.columns.iter().map(|c| (name(&c.name, true), c.value)).collect();
                CliCell::CounterSuper(name(&s.name, false), counters)
            }
        }
    }
}
