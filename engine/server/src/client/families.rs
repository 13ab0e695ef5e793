//! Client of Thrift's interface, for the column families of Firn's server and of Cassandra up to
//! 3.11.
//!
//! Invariants: as those of [`super`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use firn_cql::ErrorClass;
use firn_wide::{
    CfDef, Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause,
    KeyRange, KeySlice, KsDef, SlicePredicate,
};

use super::error::ClientError;
use super::options::ClientOptions;
use super::socket::{ClientSocket, answer_or};
use crate::thrift::{
    EncodedFields, EncodedValue, MessageHead, MessageKind, Pairs, ReadField, ThriftMessage,
    ThriftWriter, structure,
};

/// Result of a call.
type CallResult<T> = Result<T, ClientError>;

/// Consistency levels with their numbers in Thrift.
const LEVELS: [(&str, i32); 8] = [
    ("ONE", 1),
    ("QUORUM", 2),
    ("LOCAL_QUORUM", 3),
    ("EACH_QUORUM", 4),
    ("ALL", 5),
    ("ANY", 6),
    ("TWO", 7),
    ("THREE", 8),
];
/// Codes of the native protocol that represent Thrift's exceptions here.
const SERVER: i32 = ErrorClass::Server.code() as i32;
const CREDENTIALS: i32 = ErrorClass::BadCredentials.code() as i32;
const UNAVAILABLE: i32 = 0x1000;
const TIMED_OUT: i32 = 0x1200;
const INVALID: i32 = ErrorClass::Invalid.code() as i32;

/// A connection to a server's Thrift port, framed. It is closed when dropped.
///
/// ```
/// use firn_server::client::{ClientOptions, FamilyClient};
/// use firn_server::{Options, Server};
/// use firn_wide::{CfDef, Column, ColumnParent, KsDef, SlicePredicate};
///
/// let mut options = Options::ephemeral();
/// options.thrift = Some("127.0.0.1:0".parse()?);
/// let server = Server::start(options)?;
/// let at = server.thrift_address().expect("a port was named");
/// let mut client = FamilyClient::connect(&ClientOptions::new(at.to_string()))?;
/// client.system_add_keyspace(&KsDef::new("music"))?;
/// client.set_keyspace("music")?;
/// client.system_add_column_family(&CfDef::new("music", "songs"))?;
/// let songs = ColumnParent::new("songs");
/// client.insert(b"1", &songs, &Column::new("title", "Blackbird", 1))?;
/// assert_eq!(client.get_slice(b"1", &songs, &SlicePredicate::all())?.len(), 1);
/// # drop(client); server.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FamilyClient {
    socket: ClientSocket,
    incoming: Vec<u8>,
    sequence: i32,
    keyspace: Option<String>,
    level: i32,
    wait: Option<Duration>,
    max_response: usize,
    stop: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for FamilyClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FamilyClient").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// Encodes the arguments of a call, which have the numbers from 1 on.
macro_rules! arguments {
    ($($argument:expr),+) => {{
        let mut out = vec![];
        let mut writer = ThriftWriter::new(&mut out);
        let mut number = 0;
        $(
            number += 1;
            writer.field(number, $argument);
        )+
        out
    }};
}

fn violation(what: impl std::fmt::Display) -> ClientError {
    ClientError::Protocol(what.to_string())
}

/// Returns the text of an exception.
fn text_of_exception(fields: &EncodedFields<'_>) -> String {
    let text = fields.iter().find(|(number, _)| *number == 1).and_then(|(_, text)| text.bytes());
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

/// Converts the exception in this field of a call's response.
fn exception(method: &str, number: i16, value: EncodedValue<'_>) -> ClientError {
    let why = value.fields().map_or_else(String::new, |fields| text_of_exception(&fields));
    let refused = |code, text: &str| ClientError::Refused { code, text: text.to_owned() };
    // Field numbers of the interface 20.1.0.
    match (method, number) {
        ("get", 2) | ("describe_keyspace", 1) => ClientError::NotFound,
        ("login", _) => refused(CREDENTIALS, &why),
        (_, 1) | ("describe_keyspace", 2) => refused(INVALID, &why),
        ("get", 3) => refused(UNAVAILABLE, UNAVAILABLE_TEXT),
        ("get", _) | (_, 3) => refused(TIMED_OUT, "the nodes did not answer the server in time"),
        (name, _) if name.starts_with("system_") => {
            refused(SERVER, "the nodes have not agreed on their definitions")
        }
        _ => refused(UNAVAILABLE, UNAVAILABLE_TEXT),
    }
}

const UNAVAILABLE_TEXT: &str =
    "the server is overloaded, or too few nodes are up for this consistency level";

impl FamilyClient {
    /// Connects, and logs in if the options have a login.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`], and those of a call.
    pub fn connect(options: &ClientOptions) -> CallResult<FamilyClient> {
        let mut client = FamilyClient {
            socket: ClientSocket::connect(options)?,
            incoming: vec![],
            sequence: 0,
            keyspace: None,
            level: 1,
            wait: options.request_timeout,
            max_response: options.max_response,
            stop: None,
        };
        if let Some((name, password)) = &options.login {
            let credentials = Pairs(vec![("username", name), ("password", password)]);
            let request = structure(|w| w.field(1, &credentials));
            client.done("login", &arguments![&request])?;
        }
        Ok(client)
    }

    /// Sets a flag that stops waiting for responses and closes the connection as soon as it is
    /// true.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Sets the consistency level of later reads and writes, by name. Returns `false` if the name
    /// is unknown.
    pub fn set_consistency(&mut self, level: &str) -> bool {
        let found = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(level));
        self.level = found.map_or(self.level, |(_, number)| *number);
        found.is_some()
    }

    /// Reports whether the connection is open, as far as visible without a request.
    pub fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Sends a call and waits for the response, which `convert` converts. It gets `None` for an
    /// empty result.
    fn call<T>(
        &mut self,
        method: &str,
        arguments: &[u8],
        convert: impl FnOnce(Option<EncodedValue<'_>>) -> CallResult<T>,
    ) -> CallResult<T> {
        self.sequence = self.sequence.wrapping_add(1);
        let (kind, sequence) = (MessageKind::Call, self.sequence);
        let mut message = vec![0; 4];
        MessageHead { kind, method, sequence, is_strict: true }.put(&mut message);
        let mut writer = ThriftWriter::new(&mut message);
        writer.raw(arguments);
        writer.stop();
        let length = u32::try_from(message.len() - 4).map_err(|_| violation("it is too long"))?;
        message[..4].copy_from_slice(&length.to_be_bytes());
        let sent = self.socket.send(&message)?;
        let answer =
            answer_or(self.answer(), sent).and_then(|frame| self.read(&frame, method, convert));
        answer.map_err(|e| match e {
            refused @ (ClientError::Refused { .. } | ClientError::NotFound) => refused,
            other => self.socket.end(other),
        })
    }

    /// Returns the bytes of the next message.
    fn answer(&mut self) -> CallResult<Vec<u8>> {
        self.incoming.clear();
        loop {
            if let Some((length, rest)) = self.incoming.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if length > self.max_response {
                    return Err(violation(format!("an answer would have {length} bytes")));
                }
                if let Some(message) = rest.get(..length) {
                    return Ok(message.to_vec());
                }
            }
            let within = !self.incoming.is_empty();
            self.socket.receive(&mut self.incoming, within, self.stop.as_deref(), self.wait)?;
        }
    }

    fn read<T>(
        &self,
        message: &[u8],
        method: &str,
        convert: impl FnOnce(Option<EncodedValue<'_>>) -> CallResult<T>,
    ) -> CallResult<T> {
        let ThriftMessage { head, fields } = ThriftMessage::reply(message).map_err(violation)?;
        if head.sequence != self.sequence {
            return Err(violation("it is the answer to another call"));
        }
        if head.kind == MessageKind::Exception {
            return Err(ClientError::Refused { code: SERVER, text: text_of_exception(&fields) });
        }
        match fields.first() {
            Some((0, value)) => convert(Some(*value)),
            Some((number, value)) => Err(exception(method, *number, *value)),
            None => convert(None),
        }
    }

    /// Runs a call without a result.
    fn done(&mut self, method: &str, arguments: &[u8]) -> CallResult<()> {
        self.call(method, arguments, |_| Ok(()))
    }

    /// Runs a call with a result.
    fn some<T: for<'v> ReadField<'v>>(&mut self, method: &str, arguments: &[u8]) -> CallResult<T> {
        self.call(method, arguments, |value| {
            let read = T::read(value.ok_or_else(|| violation("it gives nothing"))?);
            let read = read.map_err(|e| violation(format!("{e:?}")))?;
            read.ok_or_else(|| violation("a value has another type than expected"))
        })
    }

    /// Sets the keyspace of the other calls, unless it is set already.
    ///
    /// # Errors
    /// [`ClientError::Refused`]; the connection stays usable. The same holds for the other calls.
    pub fn set_keyspace(&mut self, name: &str) -> CallResult<()> {
        if self.keyspace.as_deref() != Some(name) {
            self.done("set_keyspace", &arguments![name])?;
            self.keyspace = Some(name.to_owned());
        }
        Ok(())
    }

    /// Returns all keyspaces with their column families.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn describe_keyspaces(&mut self) -> CallResult<Vec<KsDef>> {
        self.some("describe_keyspaces", &[])
    }

    /// Returns a keyspace with its column families.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], and as [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn describe_keyspace(&mut self, name: &str) -> CallResult<KsDef> {
        self.some("describe_keyspace", &arguments![name])
    }

    /// Returns the result of `describe_cluster_name`, `describe_version`, `describe_snitch` or
    /// `describe_partitioner`; `what` is the name after `describe_`.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn describe(&mut self, what: &str) -> CallResult<String> {
        self.some(&format!("describe_{what}"), &[])
    }

    /// Returns the schema versions, each with its nodes.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn describe_schema_versions(&mut self) -> CallResult<BTreeMap<String, Vec<String>>> {
        self.some("describe_schema_versions", &[])
    }

    /// Creates a keyspace; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_add_keyspace(&mut self, def: &KsDef) -> CallResult<String> {
        self.some("system_add_keyspace", &arguments![def])
    }

    /// Alters a keyspace; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_update_keyspace(&mut self, def: &KsDef) -> CallResult<String> {
        self.some("system_update_keyspace", &arguments![def])
    }

    /// Drops a keyspace; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_drop_keyspace(&mut self, name: &str) -> CallResult<String> {
        let version = self.some("system_drop_keyspace", &arguments![name])?;
        self.keyspace.take_if(|chosen| chosen == name);
        Ok(version)
    }

    /// Creates a column family; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_add_column_family(&mut self, def: &CfDef) -> CallResult<String> {
        self.some("system_add_column_family", &arguments![def])
    }

    /// Alters a column family; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_update_column_family(&mut self, def: &CfDef) -> CallResult<String> {
        self.some("system_update_column_family", &arguments![def])
    }

    /// Drops a column family of the current keyspace; returns the new schema version.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn system_drop_column_family(&mut self, name: &str) -> CallResult<String> {
        self.some("system_drop_column_family", &arguments![name])
    }

    /// Reads a column, or a super column.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], and as [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn get(&mut self, key: &[u8], path: &ColumnPath) -> CallResult<ColumnOrSuperColumn> {
        self.some("get", &arguments![key, path, &self.level])
    }

    /// Reads columns of a row.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn get_slice(
        &mut self,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> CallResult<Vec<ColumnOrSuperColumn>> {
        self.some("get_slice", &arguments![key, parent, predicate, &self.level])
    }

    /// Counts the columns of a row.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn get_count(
        &mut self,
        key: &[u8],
        parent: &ColumnParent,
        predicate: &SlicePredicate,
    ) -> CallResult<i32> {
        self.some("get_count", &arguments![key, parent, predicate, &self.level])
    }

    /// Reads columns of a range of rows, in the order of the partitioner.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn get_range_slices(
        &mut self,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        range: &KeyRange,
    ) -> CallResult<Vec<KeySlice>> {
        self.some("get_range_slices", &arguments![parent, predicate, range, &self.level])
    }

    /// Reads columns of rows that an index finds.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn get_indexed_slices(
        &mut self,
        parent: &ColumnParent,
        clause: &IndexClause,
        predicate: &SlicePredicate,
    ) -> CallResult<Vec<KeySlice>> {
        self.some("get_indexed_slices", &arguments![parent, clause, predicate, &self.level])
    }

    /// Writes a column.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn insert(&mut self, key: &[u8], parent: &ColumnParent, column: &Column) -> CallResult<()> {
        self.done("insert", &arguments![key, parent, column, &self.level])
    }

    /// Adds to a counter.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn add(
        &mut self,
        key: &[u8],
        parent: &ColumnParent,
        column: &CounterColumn,
    ) -> CallResult<()> {
        self.done("add", &arguments![key, parent, column, &self.level])
    }

    /// Deletes everything older than this timestamp.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn remove(&mut self, key: &[u8], path: &ColumnPath, timestamp: i64) -> CallResult<()> {
        self.done("remove", &arguments![key, path, &timestamp, &self.level])
    }

    /// Deletes counters.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn remove_counter(&mut self, key: &[u8], path: &ColumnPath) -> CallResult<()> {
        self.done("remove_counter", &arguments![key, path, &self.level])
    }

    /// Deletes all rows of a column family.
    ///
    /// # Errors
    /// As [`set_keyspace`](FamilyClient::set_keyspace).
    pub fn truncate(&mut self, family: &str) -> CallResult<()> {
        self.done("truncate", &arguments![family])
    }
}
