//! A log of statements: what sessions ran, a line of JSON each, for those who want to judge it
//! later.
//!
//! Invariants: no value that was bound is written, only its size, and no password that stands in a
//! statement; a log that can't be written holds up no statement; what waits for the file is at most
//! [`WAITING`] bytes and a line.

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
use crate::values::{Bound, ColumnSpec};

/// Bytes that wait for the file until they are written.
const WAITING: usize = 64 << 10;
/// How long a line waits at most while others come, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// A longer text of a statement is left out of the log.
const MOST_TEXT: usize = 1 << 20;

/// A file that statements are written to as they run, one line of JSON each ([`LoggedStatement`]).
///
/// Lines are written together: what has come is in the file when 64 KiB wait, with the first line
/// a second later, with [`flush`](StatementLog::flush), and when the last handle is dropped. The
/// file grows as long as statements come; it may be cut off meanwhile, and later lines come behind
/// what it has then.
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
    /// When the file was written to, by [`Env::monotonic_nanos`].
    written: u64,
    /// Why nothing is written any more.
    failed: Option<firn_kv::Error>,
}

/// When a statement began.
#[derive(Clone, Copy, Debug)]
pub struct StatementStart {
    wall_micros: u64,
    nanos: u64,
}

/// A statement that ran, alone or in a batch, as a [`StatementLog`] is told of it.
#[derive(Clone, Copy, Debug)]
pub struct RanStatement<'a> {
    /// The keyspace of tables that it names without one.
    pub keyspace: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
    /// The types of its bind markers.
    pub markers: &'a [ColumnSpec],
    /// What was bound to them.
    pub values: &'a [Bound],
}

/// A line of a [`StatementLog`]: a statement that ran, or a batch of several. Fields that say
/// nothing are left out of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedStatement {
    /// When it began, to the millisecond: `2026-11-26 07:44:04.123Z`.
    #[serde(default)]
    pub time: String,
    /// The keyspace of tables that it names without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// Its text; none of a batch of several, and of a text that was longer than 1 MiB, or that
    /// could not be read and may have had a password in it. A password that could be found is `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// The sizes of what was bound to its markers, in their order; of null and unset none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<LoggedSize>>,
    /// The kind of a batch that a client put together: `LOGGED`, `UNLOGGED` or `COUNTER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// The statements of such a batch, each with its keyspace, text and values alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<LoggedStatement>,
    /// How long it took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// How many rows it gave; of a result in pages a page's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The bytes of the values in these rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many partitions a batch without conditions has written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u64>,
    /// Whether it fetched a later page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later_page: bool,
    /// The class of the error that it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The size of a value: a number of bytes, or of a list, set or map `[bytes, elements]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LoggedSize {
    /// Bytes.
    Bytes(u64),
    /// Bytes and elements.
    Elements(u64, u64),
}

impl LoggedSize {
    /// The bytes.
    pub fn bytes(self) -> u64 {
        match self {
            LoggedSize::Bytes(bytes) | LoggedSize::Elements(bytes, _) => bytes,
        }
    }

    /// How many elements a collection has.
    pub fn elements(self) -> Option<u64> {
        if let LoggedSize::Elements(_, elements) = self { Some(elements) } else { None }
    }

    fn of(bound: &Bound, marker: Option<&ColumnSpec>) -> Option<LoggedSize> {
        let bytes = bound.bytes()?;
        let len = bytes.len() as u64;
        let is_collection = marker.is_some_and(|marker| marker.of.is_collection());
        let count = bytes.first_chunk::<4>().filter(|_| is_collection);
        Some(match count.map(|count| u64::from(u32::from_be_bytes(*count))) {
            // Each element has a length of four bytes: a count that can't be is not believed.
            Some(count) if count <= len / 4 => LoggedSize::Elements(len, count),
            _ => LoggedSize::Bytes(len),
        })
    }
}

impl LoggedStatement {
    /// Reads a line.
    ///
    /// # Errors
    /// `Invalid` for a line that is none of such a log.
    pub fn parse(line: &str) -> Result<LoggedStatement> {
        let read: LoggedStatement = serde_json::from_str(line)
            .map_err(|e| invalid(format!("no line of a log of statements: {e}")))?;
        let tells = read.statement.is_some() || !read.members.is_empty() || !read.time.is_empty();
        tells.then_some(read).ok_or_else(|| invalid("no line of a log of statements"))
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

/// The text as it may be written down.
fn without_password(text: &str) -> Option<String> {
    if text.len() > MOST_TEXT {
        return None;
    }
    // To look at every byte for a word costs less than to parse every statement.
    let has_word = text.as_bytes().windows(8).any(|w| w.eq_ignore_ascii_case(b"password"));
    if !has_word {
        return Some(text.to_owned());
    }
    let parsed = parse(text).ok()?;
    Some(masked(&parsed.statement).unwrap_or_else(|| text.to_owned()))
}

/// The text of a statement that gives a password, with `***` in its place. `None`: it gives none.
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
    /// Opens this file to write behind what it has; it is made where there is none.
    ///
    /// # Errors
    /// `Server` when it can't be opened.
    pub fn append(file: impl AsRef<Path>) -> Result<StatementLog> {
        let (env, file): (Arc<dyn Env>, _) = (OsEnv::new(), file.as_ref().to_owned());
        let (writer, written) = (env.append(&file).map_err(Error::from)?, env.monotonic_nanos());
        let open = OpenLog { writer, waiting: vec![], written, failed: None };
        Ok(StatementLog { env, file, open: Mutex::new(open) })
    }

    /// Notes when a statement begins.
    pub fn start(&self) -> StatementStart {
        let (wall_micros, nanos) = (self.env.wall_micros(), self.env.monotonic_nanos());
        StatementStart { wall_micros, nanos }
    }

    /// Writes down a statement that ran, or with `batch` all those of one that a client put
    /// together: what it gave, or the class of its error.
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
        // A tree of texts and numbers is always JSON.
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

    /// Writes what waits.
    ///
    /// # Errors
    /// `Server` for the first error of the file, whenever it was. Nothing is written behind it.
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
        // Who wants to know calls `flush`.
        let _ = self.flush();
    }
}
