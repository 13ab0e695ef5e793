//! Metrics of the server: requests by type, latencies of requests and of table reads and writes,
//! errors, bytes.
//!
//! Invariants: counting takes no lock, and only by chance shares memory with another active
//! connection ([`SHARDS`]); a dropped table is not counted any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_cql::internals::exec::SchemaListener;
use firn_cql::{BatchKind, ErrorClass, Prepared, SchemaChange, TableAccess};
use firn_kv::stats::Latency;
use parking_lot::RwLock;

use super::histogram::{CountHistogram, CountQuantiles, LatencyHistogram, SHARDS};
use crate::wire::{ErrorCode, Opcode};

/// The type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// OPTIONS
    Options,
    /// STARTUP
    Startup,
    /// AUTH_RESPONSE
    AuthResponse,
    /// REGISTER
    Register,
    /// QUERY
    Query,
    /// PREPARE
    Prepare,
    /// EXECUTE
    Execute,
    /// BATCH
    Batch,
    /// A Thrift call.
    Thrift,
}

impl RequestKind {
    /// All types with their names.
    pub const NAMED: [(RequestKind, &str); 9] = [
        (RequestKind::Options, "options"),
        (RequestKind::Startup, "startup"),
        (RequestKind::AuthResponse, "auth_response"),
        (RequestKind::Register, "register"),
        (RequestKind::Query, "query"),
        (RequestKind::Prepare, "prepare"),
        (RequestKind::Execute, "execute"),
        (RequestKind::Batch, "batch"),
        (RequestKind::Thrift, "thrift"),
    ];

    /// Returns the type of a request of the native protocol.
    pub fn of(opcode: Opcode) -> RequestKind {
        match opcode {
            Opcode::Startup => RequestKind::Startup,
            Opcode::AuthResponse => RequestKind::AuthResponse,
            Opcode::Register => RequestKind::Register,
            Opcode::Query => RequestKind::Query,
            Opcode::Prepare => RequestKind::Prepare,
            Opcode::Execute => RequestKind::Execute,
            Opcode::Batch => RequestKind::Batch,
            // The other opcodes are responses, which no client sends.
            _ => RequestKind::Options,
        }
    }
}

/// Error codes of the protocol, with their names.
const ERRORS: [(u16, &str); 12] = [
    (ErrorClass::Server.code(), "server"),
    (ErrorCode::Protocol as u16, "protocol"),
    (ErrorCode::Credentials as u16, "bad_credentials"),
    (ErrorCode::Overloaded as u16, "overloaded"),
    (ErrorClass::ReadFailure.code(), "read_failure"),
    (ErrorClass::FunctionFailure.code(), "function_failure"),
    (ErrorClass::Syntax.code(), "syntax"),
    (ErrorClass::Unauthorized.code(), "unauthorized"),
    (ErrorCode::Invalid as u16, "invalid"),
    (ErrorClass::Configuration.code(), "configuration"),
    (ErrorClass::AlreadyExists.code(), "already_exists"),
    (ErrorClass::Unprepared.code(), "unprepared"),
];

/// Latencies of reads and writes of a table.
#[derive(Debug)]
pub struct TableMeter {
    /// The keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// By [`TableAccess`].
    accesses: [LatencyHistogram; 3],
    dropped: AtomicBool,
}

impl TableMeter {
    /// Returns the latency of statements with this access, from request to response. A batch counts
    /// once for each of its tables; failures do not count.
    pub fn latency(&self, access: TableAccess) -> Latency {
        self.accesses[access as usize].latency()
    }
}

/// A use of a table by a statement.
#[derive(Clone, Debug)]
pub struct TableUse {
    access: TableAccess,
    meter: Arc<TableMeter>,
}

impl TableUse {
    /// Returns the keyspace and the name of the table, with a dot between them.
    pub fn table_name(&self) -> String {
        format!("{}.{}", self.meter.keyspace, self.meter.table)
    }

    /// Reports whether this is the same use of the same table.
    pub fn is_same(&self, other: &TableUse) -> bool {
        self.access == other.access && Arc::ptr_eq(&self.meter, &other.meter)
    }
}

/// The tables that a statement reads or writes, each once.
pub type TableUses = Arc<[TableUse]>;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

/// Metrics of the server.
#[derive(Debug, Default)]
pub struct NodeMetrics {
    kinds: [LatencyHistogram; RequestKind::NAMED.len()],
    traffic: [Traffic; SHARDS],
    errors: [AtomicU64; ERRORS.len()],
    /// For logged, unlogged and counter batches.
    batches: [CountHistogram; 3],
    tables: RwLock<BTreeMap<String, BTreeMap<String, Arc<TableMeter>>>>,
}

impl NodeMetrics {
    /// Returns the latency of requests of this type, from request to response.
    pub fn latency(&self, kind: RequestKind) -> Latency {
        self.kinds[kind as usize].latency()
    }

    /// Returns the distribution of the numbers of partitions that batches of this type wrote to.
    pub fn batches(&self, kind: BatchKind) -> CountQuantiles {
        self.batches[kind as usize].quantiles()
    }

    /// Returns the errors sent to clients, by name.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ERRORS.iter().zip(&self.errors).map(move |((_, name), n)| (*name, count(n)))
    }

    /// Returns the bytes of received requests and of sent responses, as sent on the wire (without
    /// TLS).
    pub fn bytes(&self) -> (u64, u64) {
        self.traffic.iter().fold((0, 0), |(received, sent), of| {
            (received + of.received.load(Ordering::Relaxed), sent + of.sent.load(Ordering::Relaxed))
        })
    }

    /// Returns the tables that were read or written, by keyspace and name.
    pub fn tables(&self) -> Vec<Arc<TableMeter>> {
        self.tables.read().values().flat_map(BTreeMap::values).cloned().collect()
    }

    fn table(&self, keyspace: &str, table: &str) -> Arc<TableMeter> {
        if let Some(known) = self.tables.read().get(keyspace).and_then(|of| of.get(table)) {
            return known.clone();
        }
        let new = || TableMeter {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            accesses: Default::default(),
            dropped: AtomicBool::new(false),
        };
        let mut tables = self.tables.write();
        let of = tables.entry(keyspace.to_owned()).or_default();
        of.entry(table.to_owned()).or_insert_with(|| Arc::new(new())).clone()
    }

    /// Returns the tables that a statement reads or writes.
    pub fn uses(&self, prepared: &Prepared) -> TableUses {
        let mut accesses = prepared.accesses();
        accesses.sort_unstable();
        accesses.dedup();
        let used = |(access, keyspace, table): (TableAccess, &str, &str)| TableUse {
            access,
            meter: self.table(keyspace, table),
        };
        accesses.into_iter().map(used).collect()
    }
}

impl SchemaListener for NodeMetrics {
    fn changed(&self, change: &SchemaChange) {
        if change.change != "DROPPED" {
            return;
        }
        let mut tables = self.tables.write();
        let dropped: Vec<_> = match (change.target, &change.name) {
            ("KEYSPACE", _) => tables
                .remove(&change.keyspace)
                .into_iter()
                .flat_map(BTreeMap::into_values)
                .collect(),
            ("TABLE", Some(name)) => tables
                .get_mut(&change.keyspace)
                .and_then(|of| of.remove(name))
                .into_iter()
                .collect(),
            _ => return,
        };
        dropped.iter().for_each(|meter| meter.dropped.store(true, Ordering::Relaxed));
    }
}

/// Metrics as seen by one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectionMeter {
    metrics: Arc<NodeMetrics>,
    shard: usize,
}

impl ConnectionMeter {
    /// Creates the meter of the connection with this number.
    pub fn new(metrics: Arc<NodeMetrics>, number: u64) -> ConnectionMeter {
        ConnectionMeter { metrics, shard: (number % SHARDS as u64) as usize }
    }

    /// Counts bytes received from the client.
    pub fn received(&self, bytes: usize) {
        self.metrics.traffic[self.shard].received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes sent to the client.
    pub fn sent(&self, bytes: usize) {
        self.metrics.traffic[self.shard].sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts an error of this code sent to a client.
    pub fn failed(&self, code: u16) {
        let known = ERRORS.iter().position(|(of, _)| *of == code).unwrap_or_default();
        self.metrics.errors[known].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request of this type, answered this many nanoseconds after its arrival,
    /// successfully or not.
    pub fn answered(&self, kind: RequestKind, nanos: u64) {
        self.metrics.kinds[kind as usize].record(self.shard, nanos);
    }

    /// Counts a batch that wrote to this many partitions.
    pub fn batch(&self, kind: BatchKind, partitions: usize) {
        self.metrics.batches[kind as usize].record(self.shard, partitions as u64);
    }

    /// Counts a statement that used these tables, answered this many nanoseconds after its arrival.
    pub fn used(&self, uses: &[TableUse], nanos: u64) {
        for TableUse { access, meter } in uses {
            let record =
                |meter: &TableMeter| meter.accesses[*access as usize].record(self.shard, nanos);
            if meter.dropped.load(Ordering::Relaxed) {
                // A new table has the name now: the statement has succeeded, so count it there.
                record(&self.metrics.table(&meter.keyspace, &meter.table));
            } else {
                record(meter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_counted_by_name_until_they_are_dropped() {
        let metrics = Arc::new(NodeMetrics::default());
        let meter = ConnectionMeter::new(metrics.clone(), 3);
        let table =
            |name: &str| TableUse { access: TableAccess::Write, meter: metrics.table("ks", name) };
        let uses = [table("a"), table("b")];
        meter.used(&uses, 1000);
        let counts = || -> Vec<_> {
            let of = |m: &TableMeter| m.latency(TableAccess::Write).timed;
            metrics.tables().iter().map(|m| (m.table.clone(), of(m))).collect()
        };
        assert_eq!(counts(), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        let dropped = |target, name: Option<&str>| SchemaChange::new("DROPPED", target, "ks", name);
        metrics.changed(&dropped("TABLE", Some("a")));
        metrics.changed(&dropped("TYPE", Some("b")));
        assert_eq!(counts(), [("b".to_owned(), 1)]);
        // The table exists again, and a statement compiled before the drop uses it.
        meter.used(&uses, 1000);
        assert_eq!(counts(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        metrics.changed(&dropped("KEYSPACE", None));
        assert_eq!(counts(), []);
    }

    #[test]
    fn each_request_kind_and_error_code_has_its_own_counter() {
        assert!(RequestKind::NAMED.iter().enumerate().all(|(at, (kind, _))| *kind as usize == at));
        let metrics = Arc::new(NodeMetrics::default());
        let meter = ConnectionMeter::new(metrics.clone(), u64::MAX);
        for class in [
            ErrorClass::FunctionFailure,
            ErrorClass::Syntax,
            ErrorClass::AlreadyExists,
            ErrorClass::Unprepared,
        ] {
            meter.failed(class.code());
        }
        meter.failed(0x7777);
        let names: Vec<_> =
            metrics.errors().filter(|(_, n)| *n > 0).map(|(name, _)| name).collect();
        assert_eq!(names, ["server", "function_failure", "syntax", "already_exists", "unprepared"]);
    }
}
