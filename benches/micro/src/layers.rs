//! Statements of CQL and Thrift calls, each with the engine operations that it consists of.
//!
//! A pair does the same work twice: through the layers, and directly on the engine, with the keys
//! and values that the layers have written, in a tree with the same options. Both trees grow alike.

use std::collections::BTreeMap;

use firn_cql::{Error, Prepared, Result, RunOptions, Session};
use firn_kv::{Batch, Db, DbOptions, Tree};
use firn_server::internals::thrift::{ThriftCall, ThriftConversation, ThriftValue};
use firn_testkit::rng::Rng;

use crate::{BenchDir, BenchValues};

/// Entries of the engine by the operation that wrote them. All bytes are in one buffer, so that
/// the engine's side of a pair finds its keys without cache misses.
#[derive(Default)]
struct StoredOps {
    bytes: Vec<u8>,
    /// End of the key and of the value of each entry.
    entries: Vec<(usize, usize)>,
    /// Number of entries up to the end of each operation.
    ends: Vec<usize>,
}

impl StoredOps {
    /// Returns the entries of a tree, in the order of the operations. No two operations had the same
    /// timestamp.
    fn of(tree: &Tree) -> Result<StoredOps> {
        let mut all: BTreeMap<i64, Vec<_>> = BTreeMap::new();
        for entry in tree.iter() {
            let (key, value) = entry.map_err(Error::from)?;
            all.entry(timestamp(&value)).or_default().push((key.to_vec(), value.to_vec()));
        }
        let mut ops = StoredOps::default();
        for (key, value) in all.values().flatten() {
            ops.bytes.extend_from_slice(key);
            let key = ops.bytes.len();
            ops.bytes.extend_from_slice(value);
            ops.entries.push((key, ops.bytes.len()));
        }
        ops.ends = all
            .values()
            .scan(0, |n, op| {
                *n += op.len();
                Some(*n)
            })
            .collect();
        Ok(ops)
    }

    /// Returns the keys and values of an operation.
    fn get(&self, i: usize) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + ExactSizeIterator {
        let first = if i == 0 { 0 } else { self.ends[i - 1] };
        (first..self.ends[i]).map(|n| {
            let (key, value) = self.entries[n];
            let start = if n == 0 { 0 } else { self.entries[n - 1].1 };
            (&self.bytes[start..key], &self.bytes[key..value])
        })
    }
}

/// Interface over the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredLayer {
    /// Prepared statements on a table with this primary key.
    Cql(&'static str),
    /// Calls of the Thrift interface, without a socket.
    Thrift,
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerAccess {
    /// A row or column is written.
    Write,
    /// It is read from the memtable.
    Read,
    /// It is read from a compacted table in the block cache.
    ReadCompacted,
}

/// The measured pairs with their names.
pub const PAIRS: [(&str, MeasuredLayer, LayerAccess); 16] = [
    ("cql/insert/int", MeasuredLayer::Cql("int"), LayerAccess::Write),
    ("cql/insert/uuid", MeasuredLayer::Cql("uuid"), LayerAccess::Write),
    ("cql/insert/text", MeasuredLayer::Cql("text"), LayerAccess::Write),
    ("cql/insert/clustering", MeasuredLayer::Cql("clustering"), LayerAccess::Write),
    ("thrift/insert", MeasuredLayer::Thrift, LayerAccess::Write),
    ("cql/select/int", MeasuredLayer::Cql("int"), LayerAccess::Read),
    ("cql/select/uuid", MeasuredLayer::Cql("uuid"), LayerAccess::Read),
    ("cql/select/text", MeasuredLayer::Cql("text"), LayerAccess::Read),
    ("cql/select/clustering", MeasuredLayer::Cql("clustering"), LayerAccess::Read),
    ("cql/select/columns", MeasuredLayer::Cql("columns"), LayerAccess::Read),
    ("cql/select-compacted/int", MeasuredLayer::Cql("int"), LayerAccess::ReadCompacted),
    (
        "cql/select-compacted/clustering",
        MeasuredLayer::Cql("clustering"),
        LayerAccess::ReadCompacted,
    ),
    ("thrift/get", MeasuredLayer::Thrift, LayerAccess::Read),
    ("thrift/get_slice", MeasuredLayer::Thrift, LayerAccess::Read),
    ("thrift/get-compacted", MeasuredLayer::Thrift, LayerAccess::ReadCompacted),
    ("thrift/get_slice-compacted", MeasuredLayer::Thrift, LayerAccess::ReadCompacted),
];

/// Key of a row, in the type of the table.
enum RowKey {
    Int(i32),
    Uuid(uuid::Uuid),
    Text(String),
    Clustering(String, i64),
    /// Key of a row with three values.
    Columns(String),
}

/// The layers' side of a pair.
enum LayerCalls {
    Cql { session: Session, insert: Prepared, select: Prepared, keys: Vec<RowKey> },
    Thrift { conversation: Box<ThriftConversation>, writes: Vec<Vec<u8>>, reads: Vec<Vec<u8>> },
}

/// Both sides of a pair, in one store.
pub struct LayerPair {
    calls: LayerCalls,
    access: LayerAccess,
    /// Entries that each operation writes, or reads.
    stored: StoredOps,
    db: Db,
    /// Whether a read is one of a range.
    scans: bool,
    /// Tree of the engine's side: for reads that of the layers, too.
    tree: Tree,
    values: BenchValues,
    out: Vec<u8>,
    /// The directory. It is dropped last.
    _dir: BenchDir,
}

/// Rows of a partition of the table with a clustering column.
const ROWS: usize = 10;

fn keys(of: &str, n: usize) -> Vec<RowKey> {
    let mut rng = Rng::new(1);
    let key = |i: usize| match of {
        "int" => RowKey::Int((i as i32).wrapping_mul(0x9e37_79b1_u32 as i32)),
        "uuid" => {
            let mut bytes = [0; 16];
            rng.fill(&mut bytes);
            RowKey::Uuid(uuid::Builder::from_random_bytes(bytes).into_uuid())
        }
        "text" => RowKey::Text(format!("user{:012}", i * 7)),
        "columns" => RowKey::Columns(format!("user{:012}", i * 7)),
        _ => RowKey::Clustering(format!("user{:012}", i / ROWS), (i % ROWS) as i64),
    };
    (0..n).map(key).collect()
}

fn call(method: &str, arguments: Vec<(i16, ThriftValue<'_>)>) -> Vec<u8> {
    let mut out = vec![];
    let arguments = ThriftValue::Struct(arguments);
    let (is_strict, is_oneway) = (true, false);
    ThriftCall { method, sequence: 1, is_strict, is_oneway, arguments }.put(&mut out);
    out
}

fn text<'v>(text: &str) -> ThriftValue<'v> {
    ThriftValue::text(text)
}

/// Messages of calls on the families `t` (the first) and `copy`.
fn thrift_write(family: &str, i: usize, values: &BenchValues) -> Vec<u8> {
    let column = ThriftValue::Struct(vec![
        (1, text("column")),
        (2, ThriftValue::bytes(values.get(i).to_vec())),
        (3, ThriftValue::I64(1 << 50 | i as i64)),
    ]);
    let parent = ThriftValue::Struct(vec![(3, text(family))]);
    let key = text(&format!("user{:012}", i * 7));
    call("insert", vec![(1, key), (2, parent), (3, column), (4, ThriftValue::I32(1))])
}

fn thrift_read(method: &str, i: usize) -> Vec<u8> {
    let key = text(&format!("user{:012}", i * 7));
    let level = ThriftValue::I32(1);
    if method == "get" {
        let path = ThriftValue::Struct(vec![(3, text("t")), (5, text("column"))]);
        return call(method, vec![(1, key), (2, path), (3, level)]);
    }
    let parent = ThriftValue::Struct(vec![(3, text("t"))]);
    let range = ThriftValue::Struct(vec![
        (1, text("")),
        (2, text("")),
        (3, ThriftValue::Bool(false)),
        (4, ThriftValue::I32(100)),
    ]);
    let predicate = ThriftValue::Struct(vec![(2, range)]);
    call(method, vec![(1, key), (2, parent), (3, predicate), (4, level)])
}

/// Returns the timestamp of a stored cell.
fn timestamp(value: &[u8]) -> i64 {
    value.get(1..9).and_then(|t| t.try_into().ok()).map_or(0, i64::from_le_bytes)
}

impl LayerPair {
    /// Prepares `n` operations of the pair with this name.
    ///
    /// # Errors
    /// Errors of the layers.
    ///
    /// # Panics
    /// Panics if there is no such pair, or if a layer does not answer as expected.
    pub fn new(name: &str, n: usize) -> Result<LayerPair> {
        let (_, layer, access) = *PAIRS.iter().find(|p| p.0 == name).unwrap();
        let dir = BenchDir::new();
        let mut options =
            firn_wide::Options { memtable_size: Some(256 << 20), ..Default::default() };
        options.store.db =
            DbOptions { memory_budget: 2 << 30, event_log: false, ..DbOptions::default() };
        let session = Session::open_with(dir.path(), options)?;
        session.execute(
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )?;
        let (values, mut out) = (BenchValues::new(), vec![]);
        let calls = match layer {
            MeasuredLayer::Cql(of) => {
                let columns = match of {
                    "clustering" => "k text, c bigint, v blob, PRIMARY KEY (k, c)".to_owned(),
                    "columns" => "k text PRIMARY KEY, v blob, w blob, x blob".to_owned(),
                    of => format!("k {of} PRIMARY KEY, v blob"),
                };
                for table in ["t", "copy", "raw"] {
                    session.execute(&format!("CREATE TABLE k.{table} ({columns})"), ())?;
                }
                let (places, selected) = match of {
                    "clustering" => {
                        ("(k, c, v) VALUES (?, ?, ?)", "v FROM k.t WHERE k = ? AND c = ?")
                    }
                    "columns" => {
                        ("(k, v, w, x) VALUES (?, ?, ?, ?)", "v, w, x FROM k.t WHERE k = ?")
                    }
                    _ => ("(k, v) VALUES (?, ?)", "v FROM k.t WHERE k = ?"),
                };
                let insert =
                    |table: &str| session.prepare(&format!("INSERT INTO k.{table} {places}"));
                let select = session.prepare(&format!("SELECT {selected}"))?;
                let keys = keys(of, n);
                let filled = insert("t")?;
                for (i, key) in keys.iter().enumerate() {
                    execute(&session, &filled, key, Some(values.get(i)))?;
                }
                LayerCalls::Cql { insert: insert("copy")?, select, keys, session: session.clone() }
            }
            MeasuredLayer::Thrift => {
                let wide = session.engine().wide();
                for family in ["t", "copy", "raw"] {
                    wide.system_add_column_family(&firn_wide::CfDef::new("k", family))?;
                }
                let mut conversation =
                    ThriftConversation::new(session.clone()).map_err(Error::from)?;
                let keyspace = call("set_keyspace", vec![(1, text("k"))]);
                conversation.answer(&keyspace, &mut out).unwrap();
                for i in 0..n {
                    out.clear();
                    let message = thrift_write("t", i, &values);
                    conversation.answer(&message, &mut out).unwrap();
                    assert_eq!(out.last(), Some(&0));
                }
                let method = if name.contains("get_slice") { "get_slice" } else { "get" };
                // A cell that is not newer than all before it would be compared with them.
                let writes = (n..2 * n).map(|i| thrift_write("copy", i, &values)).collect();
                let reads = (0..n).map(|i| thrift_read(method, i)).collect();
                LayerCalls::Thrift { conversation: Box::new(conversation), writes, reads }
            }
        };
        let tree = |table: &str| {
            let catalog = session.engine().fresh_catalog()?;
            let id = catalog.keyspace("k").and_then(|k| k.table(table)).map_or(0, |t| t.id);
            session.engine().store().db().existing_tree(&format!("cf-{id}")).map_err(Error::from)
        };
        let t = tree("t")?;
        let stored = StoredOps::of(&t)?;
        assert_eq!(stored.ends.len(), n, "one timestamp for each operation");
        if access == LayerAccess::ReadCompacted {
            t.compact().map_err(Error::from)?;
        }
        let tree = if access == LayerAccess::Write { tree("raw")? } else { t };
        let db = session.engine().store().db().clone();
        let scans = name.contains("slice");
        let pair = LayerPair { calls, access, stored, db, scans, tree, values, out, _dir: dir };
        if access != LayerAccess::Write {
            // Both sides read decoded blocks.
            (0..n).try_for_each(|i| pair.read(i))?;
        }
        Ok(pair)
    }

    /// Executes an operation on the engine.
    ///
    /// # Errors
    /// Errors of the engine.
    ///
    /// # Panics
    /// Panics if a read finds nothing.
    #[inline(never)]
    pub fn engine(&mut self, i: usize) -> Result<()> {
        if self.access != LayerAccess::Write {
            return self.read(i);
        }
        let mut entries = self.stored.get(i);
        if entries.len() == 1 {
            return entries
                .try_for_each(|(key, value)| self.tree.put(key, value))
                .map_err(Error::from);
        }
        let bytes = self.stored.get(i).map(|(key, value)| key.len() + value.len() + 12).sum();
        let mut batch = Batch::with_capacity(bytes);
        for (key, value) in entries {
            batch.put(&self.tree, key, value).map_err(Error::from)?;
        }
        self.db.write(batch).map_err(Error::from)
    }

    /// Reads what an operation has written: the value with a lookup, or all entries with a cursor.
    fn read(&self, i: usize) -> Result<()> {
        let Some((key, _)) = self.stored.get(i).next_back() else { return Ok(()) };
        if let LayerCalls::Cql { keys, .. } = &self.calls
            && let RowKey::Columns(_) = &keys[i]
        {
            // The row's marker is the first entry; the statement does not read it.
            let keys: Vec<&[u8]> = self.stored.get(i).skip(1).map(|(key, _)| key).collect();
            let found = self.tree.multi_get(&keys).map_err(Error::from)?;
            assert!(std::hint::black_box(found).iter().all(Option::is_some));
            return Ok(());
        }
        if !self.scans {
            let found = self.tree.get(key).map_err(Error::from)?;
            assert!(std::hint::black_box(found).is_some());
            return Ok(());
        }
        let (from, until) = (&key[..key.len() - 1], [&key[..key.len() - 1], &[0xff]].concat());
        let mut cursor = self.tree.cursor(from..&until).map_err(Error::from)?;
        cursor.first().map_err(Error::from)?;
        let mut found = 0;
        while cursor.is_valid() {
            found += std::hint::black_box(cursor.value()).len();
            cursor.next().map_err(Error::from)?;
        }
        assert!(found > 0);
        Ok(())
    }

    /// Executes an operation through the layers.
    ///
    /// # Errors
    /// Errors of the layers.
    ///
    /// # Panics
    /// Panics if a read finds nothing.
    #[inline(never)]
    pub fn layered(&mut self, i: usize) -> Result<()> {
        let is_write = self.access == LayerAccess::Write;
        match &mut self.calls {
            LayerCalls::Cql { session, insert, keys, .. } if is_write => {
                execute(session, insert, &keys[i], Some(self.values.get(i)))?;
            }
            LayerCalls::Cql { session, select, keys, .. } => {
                let rows = execute(session, select, &keys[i], None)?;
                assert!(rows.row(0).and_then(|row| row.bytes(0)).is_some());
            }
            LayerCalls::Thrift { conversation, writes, reads } => {
                self.out.clear();
                let message = if is_write { &writes[i] } else { &reads[i] };
                conversation.answer(message, &mut self.out).unwrap();
                assert!(is_write || self.out.len() > crate::VALUE);
            }
        }
        Ok(())
    }
}

/// Executes a statement with a key, and a value if it is an `INSERT`.
fn execute(
    session: &Session,
    statement: &Prepared,
    key: &RowKey,
    value: Option<&[u8]>,
) -> Result<firn_cql::Rows> {
    let how = RunOptions::default();
    match (key, value) {
        (RowKey::Int(k), Some(v)) => session.run(statement, (k, v), &how),
        (RowKey::Int(k), None) => session.run(statement, (k,), &how),
        (RowKey::Uuid(k), Some(v)) => session.run(statement, (k, v), &how),
        (RowKey::Uuid(k), None) => session.run(statement, (k,), &how),
        (RowKey::Text(k), Some(v)) => session.run(statement, (k, v), &how),
        (RowKey::Text(k), None) => session.run(statement, (k,), &how),
        (RowKey::Columns(k), Some(v)) => session.run(statement, (k, v, v, v), &how),
        (RowKey::Columns(k), None) => session.run(statement, (k,), &how),
        (RowKey::Clustering(k, c), Some(v)) => session.run(statement, (k, c, v), &how),
        (RowKey::Clustering(k, c), None) => session.run(statement, (k, c), &how),
    }
}
