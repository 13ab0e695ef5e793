//! Log of executed statements, one line of JSON each, for later analysis.
//!
//! Invariants:
//! - Bound values are not written, only their sizes.
//! - Passwords in statements are not written.
//! - A log that cannot be written delays no statement.
//! - The buffer holds at most [`WAITING`] bytes and one line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, OsEnv};

use firn_kv::fs::WriteFile;
use firn_wide::Type;
use firn_wide::internals::types::Wording;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, invalid};
use crate::exec::Rows;
use crate::syntax::ast::{BatchKind, Statement};
use crate::syntax::parse;
use crate::values::{BoundValue, ColumnSpec};

/// Maximum bytes of buffered lines.
const WAITING: usize = 64 << 10;
/// Maximum time, in nanoseconds, for which a line is buffered while others arrive.
const PATIENCE: u64 = 1_000_000_000;
/// Maximum length of a logged statement text. A longer text is omitted.
const MOST_TEXT: usize = 1 << 20;

/// A file to which statements are written as they run, one line of JSON each ([`LoggedStatement`]).
///
/// Lines are buffered. The buffer is written when it has 64 KiB, with the first line a second
/// later, by [`flush`](StatementLog::flush), and when the last handle is dropped. The file grows
/// without bound. It may be truncated while the log is open: later lines are appended at its new
/// end.
///
/// ```
/// use std::sync::Arc;
/// use firn_cql::{LoggedStatement, Session, StatementLog};
/// # let file = std::env::temp_dir().join(format!("firn-doc-statements-{}", std::process::id()));
/// let log = Arc::new(StatementLog::append(&file)?);
/// let session = Session::in_memory()?;
/// session.log_statements(log.clone())?;
/// session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
/// session.execute("CREATE TABLE k.t (id int PRIMARY KEY, v text)", ())?;
/// session.execute("INSERT INTO k.t (id, v) VALUES (?, ?)", (1, "a secret"))?;
/// log.flush()?;
///
/// let text = std::fs::read_to_string(&file).unwrap_or_default();
/// let last = LoggedStatement::parse(text.lines().last().unwrap_or_default())?;
/// assert_eq!(last.statement.as_deref(), Some("INSERT INTO k.t (id, v) VALUES (?, ?)"));
/// assert_eq!(last.values.len(), 2);
/// assert!(!text.contains("a secret"));
/// # std::fs::remove_file(file).ok();
/// # Ok::<(), firn_cql::Error>(())
/// ```
pub struct StatementLog {
    env: Arc<dyn Env>,
    file: PathBuf,
    open: Mutex<OpenLog>,
}

struct OpenLog {
    writer: Box<dyn WriteFile>,
    waiting: Vec<u8>,
    /// Time of the last write to the file, by [`Env::monotonic_nanos`].
    written: u64,
    /// The error after which nothing more is written.
    failed: Option<firn_kv::Error>,
}

/// Start time of a statement.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct StatementStart {
    wall_micros: u64,
    nanos: u64,
}

/// A statement that ran, alone or in a batch, as input of a [`StatementLog`].
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct RanStatement<'a> {
    /// Keyspace of unqualified table names.
    pub keyspace: Option<&'a str>,
    /// Text of the statement.
    pub text: &'a str,
    /// Types of its bind markers.
    pub markers: &'a [ColumnSpec],
    /// Values bound to the markers.
    pub values: &'a [BoundValue],
}

/// A line of a [`StatementLog`]: a statement that ran, or a batch of several. Empty fields are
/// omitted from the line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedStatement {
    /// Start time, to the millisecond: `2026-11-26 07:44:04.123Z`.
    #[serde(default)]
    pub time: String,
    /// Keyspace of unqualified table names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// Text of the statement, with `***` in place of a password. `None` for a batch of several
    /// statements, for a text longer than 1 MiB, and for a text that cannot be parsed and may
    /// contain a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// Sizes of the values bound to its markers, in their order. Null and unset values have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<LoggedSize>>,
    /// Kind of a batch message of the protocol: `LOGGED`, `UNLOGGED` or `COUNTER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Statements of such a batch; each has only its keyspace, text and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<LoggedStatement>,
    /// Duration in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// Number of rows returned; for a paged result, the rows of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of the values in these rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of partitions written by a batch without conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u64>,
    /// Whether it fetched a page after the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later_page: bool,
    /// Class of the error, if the statement failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Size of a value: its bytes, or `[bytes, elements]` for a list, set or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LoggedSize {
    /// Bytes.
    Bytes(u64),
    /// Bytes and elements.
    Elements(u64, u64),
}

impl LoggedSize {
    /// Returns the bytes.
    pub fn bytes(self) -> u64 {
        match self {
            LoggedSize::Bytes(bytes) | LoggedSize::Elements(bytes, _) => bytes,
        }
    }

    /// Returns the number of elements of a collection.
    pub fn elements(self) -> Option<u64> {
        if let LoggedSize::Elements(_, elements) = self { Some(elements) } else { None }
    }

    fn of(bound: &BoundValue, marker: Option<&ColumnSpec>) -> Option<LoggedSize> {
        let bytes = bound.bytes()?;
        let len = bytes.len() as u64;
        let is_collection = marker.is_some_and(|marker| marker.column_type.is_collection());
        let count = bytes.first_chunk::<4>().filter(|_| is_collection);
        Some(match count.map(|count| u64::from(u32::from_be_bytes(*count))) {
            // Each element has a length of four bytes, so a larger count is not an element count.
            Some(count) if count <= len / 4 => LoggedSize::Elements(len, count),
            _ => LoggedSize::Bytes(len),
        })
    }
}

impl LoggedStatement {
    /// Parses a line of a log.
    ///
    /// # Errors
    /// `Invalid` for a line that is not from such a log.
    pub fn parse(line: &str) -> Result<LoggedStatement> {
        let read: LoggedStatement = serde_json::from_str(line)
            .map_err(|e| invalid!("not a line of a statement log: {e}"))?;
        let tells = read.statement.is_some() || !read.members.is_empty() || !read.time.is_empty();
        tells.then_some(read).ok_or_else(|| invalid("not a line of a statement log"))
    }

    fn of(ran: &RanStatement<'_>) -> LoggedStatement {
        let sizes = ran.values.iter().enumerate();
        let sizes = sizes.map(|(at, bound)| LoggedSize::of(bound, ran.markers.get(at)));
        LoggedStatement {
            keyspace: ran.keyspace.map(str::to_owned),
            statement: without_password(ran.text),
            values: sizes.collect(),
            ..LoggedStatement::default()
        }
    }
}

/// Returns the text as it may be logged; `None` if it may contain a password that was not found.
fn without_password(text: &str) -> Option<String> {
    if text.len() > MOST_TEXT {
        return None;
    }
    // Searching for the word is cheaper than parsing every statement.
    let has_word = text.as_bytes().windows(8).any(|w| w.eq_ignore_ascii_case(b"password"));
    if !has_word {
        return Some(text.to_owned());
    }
    let parsed = parse(text).ok()?;
    Some(masked(&parsed.statement).unwrap_or_else(|| text.to_owned()))
}

/// Returns the statement's text with `***` in place of its password; `None` if it has no password.
pub(super) fn masked(statement: &Statement<'_>) -> Option<String> {
    let (Statement::CreateRole(role) | Statement::AlterRole(role)) = statement else { return None };
    if role.password.is_none() && role.hashed.is_none() {
        return None;
    }
    let mut shown = statement.clone();
    if let Statement::CreateRole(role) | Statement::AlterRole(role) = &mut shown {
        for secret in [&mut role.password, &mut role.hashed].into_iter().flatten() {
            *secret = "***".into();
        }
    }
    Some(shown.to_string())
}

impl fmt::Debug for StatementLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementLog").field("file", &self.file).finish_non_exhaustive()
    }
}

impl StatementLog {
    /// Opens the file for appending, and creates it if it is missing.
    ///
    /// # Errors
    /// `Server` if it cannot be opened.
    pub fn append(file: impl AsRef<Path>) -> Result<StatementLog> {
        let (env, file): (Arc<dyn Env>, _) = (OsEnv::new(), file.as_ref().to_owned());
        let (writer, written) = (env.append(&file).map_err(Error::from)?, env.monotonic_nanos());
        let open = OpenLog { writer, waiting: vec![], written, failed: None };
        Ok(StatementLog { env, file, open: Mutex::new(open) })
    }

    /// Returns the start time of a statement that begins now.
    #[doc(hidden)]
    pub fn start(&self) -> StatementStart {
        let (wall_micros, nanos) = (self.env.wall_micros(), self.env.monotonic_nanos());
        StatementStart { wall_micros, nanos }
    }

    /// Logs a statement that ran, or with `batch` all statements of a batch message. The outcome is
    /// its result or the class of its error.
    #[doc(hidden)]
    pub fn ran(
        &self,
        start: StatementStart,
        batch: Option<BatchKind>,
        members: &[RanStatement<'_>],
        later_page: bool,
        outcome: std::result::Result<&Rows, &str>,
    ) {
        let now = self.env.monotonic_nanos();
        let mut line = match (batch, members) {
            (None, [one]) => LoggedStatement::of(one),
            _ => LoggedStatement {
                batch: batch.map(|kind| format!("{kind:?}").to_uppercase()),
                members: members.iter().map(LoggedStatement::of).collect(),
                ..LoggedStatement::default()
            },
        };
        let millis = (start.wall_micros / 1000) as i64;
        line.time = Type::Timestamp.to_text(&millis.to_be_bytes(), Wording::Cql);
        line.micros = Some(now.saturating_sub(start.nanos) / 1000);
        line.later_page = later_page;
        match outcome {
            Ok(rows) => {
                line.partitions = rows.batch().map(|(_, partitions)| partitions as u64);
                if !rows.columns().is_empty() {
                    line.rows = Some(rows.len() as u64);
                    line.bytes = Some(rows.value_bytes() as u64);
                }
            }
            Err(class) => line.error = Some(class.to_owned()),
        }
        // A tree of texts and numbers can always be encoded as JSON.
        let Ok(mut json) = serde_json::to_vec(&line) else { return };
        json.push(b'\n');
        let mut open = self.open.lock();
        if open.failed.is_some() {
            return;
        }
        open.waiting.append(&mut json);
        if open.waiting.len() >= WAITING || now.saturating_sub(open.written) >= PATIENCE {
            open.write(now);
        }
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    /// `Server` for the first error of the file, even if it occurred earlier. After it nothing more
    /// is written.
    pub fn flush(&self) -> Result<()> {
        let mut open = self.open.lock();
        if open.failed.is_none() {
            open.write(self.env.monotonic_nanos());
        }
        open.failed.clone().map_or(Ok(()), |e| Err(e.into()))
    }
}

impl OpenLog {
    fn write(&mut self, now: u64) {
        self.written = now;
        if let Err(e) = self.writer.append(&self.waiting) {
            self.failed = Some(e);
        }
        self.waiting.clear();
    }
}

impl Drop for StatementLog {
    fn drop(&mut self) {
        // Callers that need the error call `flush`.
        let _ = self.flush();
    }
}
