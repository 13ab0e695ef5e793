//! Prepared statements of clients, by the ids that clients send.
//!
//! Invariant: after a change of its table a statement is unknown until it is prepared again, as
//! drivers expect. Its former columns are remembered, so that clients with the old metadata get the
//! new one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_cql::internals::exec::SchemaListener;
use firn_cql::{ColumnSpec, Error, ErrorClass, Prepared, SchemaChange};
use parking_lot::RwLock;

use super::metrics::TableUses;
use crate::wire::metadata_id;

/// Bytes that a statement takes here in addition to its plan.
const KNOWN: usize = 256;

/// A prepared statement.
#[derive(Debug)]
pub struct ServerStatement {
    /// The statement.
    pub prepared: Prepared,
    /// Columns of its result when prepared, with their id.
    columns: Option<(Arc<[ColumnSpec]>, [u8; 16])>,
    /// The tables that it reads or writes.
    pub uses: TableUses,
    /// Whether an earlier preparation had other columns.
    had_others: bool,
    /// Whether one of its tables has changed since.
    outdated: AtomicBool,
    used: AtomicU64,
}

impl ServerStatement {
    /// Creates the entry of a statement that uses these tables; it may replace a known one.
    fn new(
        prepared: Prepared,
        uses: TableUses,
        before: Option<&ServerStatement>,
        used: u64,
    ) -> ServerStatement {
        let columns = prepared.columns().map(|c| (c.clone(), metadata_id(c)));
        let had_others = before.is_some_and(|b| {
            let is_other = b.columns.as_ref().map(|c| c.1) != columns.as_ref().map(|c| c.1);
            b.had_others || is_other
        });
        let outdated = AtomicBool::new(false);
        ServerStatement {
            prepared,
            columns,
            uses,
            had_others,
            outdated,
            used: AtomicU64::new(used),
        }
    }

    /// Returns the id of the columns of a result of this statement.
    pub fn metadata_id(&self, columns: &Arc<[ColumnSpec]>) -> [u8; 16] {
        match &self.columns {
            Some((known, id)) if Arc::ptr_eq(known, columns) || known == columns => *id,
            _ => metadata_id(columns),
        }
    }

    /// Reports whether the columns of its result are known before it runs.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Reports whether these columns of a result are the same as in every preparation: then all
    /// clients know them.
    pub fn is_as_prepared(&self, columns: &Arc<[ColumnSpec]>) -> bool {
        let is_same = |known: &Arc<[ColumnSpec]>| Arc::ptr_eq(known, columns) || known == columns;
        !self.had_others && self.columns.as_ref().is_some_and(|(known, _)| is_same(known))
    }

    fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> usize {
        self.prepared.heap_bytes() + self.columns.as_ref().map_or(0, |_| KNOWN)
    }
}

#[derive(Debug, Default)]
struct ServerStatements {
    by_id: BTreeMap<[u8; 16], Arc<ServerStatement>>,
    bytes: usize,
    evicted: u64,
}

impl ServerStatements {
    /// Evicts the least recently used statements until the rest takes half of this many bytes. The
    /// most recently used one stays.
    fn shrink(&mut self, most: usize) {
        let of = |s: &Arc<ServerStatement>| (s.used.load(Ordering::Relaxed), s.bytes());
        let mut uses: Vec<(u64, usize)> = self.by_id.values().map(of).collect();
        uses.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut left = 0;
        let fits = |(_, bytes): &&(u64, usize)| {
            let is_first = left == 0;
            left += bytes;
            is_first || left <= most / 2
        };
        let oldest = uses.iter().take_while(fits).last().map_or(0, |(used, _)| *used);
        let before = self.by_id.len();
        self.by_id.retain(|_, s| s.used.load(Ordering::Relaxed) >= oldest);
        self.bytes = self.by_id.values().map(|s| s.bytes()).sum();
        self.evicted += (before - self.by_id.len()) as u64;
    }
}

/// Prepared statements of clients. Above a limit of bytes the least recently used ones are dropped;
/// clients prepare them again.
#[derive(Debug)]
pub struct PreparedStatements {
    most: usize,
    clock: AtomicU64,
    known: RwLock<ServerStatements>,
}

impl PreparedStatements {
    /// Creates a cache of at most this many bytes, texts and plans together.
    pub fn new(most: usize) -> PreparedStatements {
        PreparedStatements { most, clock: AtomicU64::new(1), known: RwLock::default() }
    }

    /// Returns the statement with this id. `None`: it must be prepared, perhaps again.
    pub fn get(&self, id: &[u8]) -> Option<Arc<ServerStatement>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let found = self.known.read().by_id.get(&id).filter(|s| !s.is_outdated())?.clone();
        found.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// Stores a statement that uses these tables. It replaces an older entry of the same id:
    /// definitions may have changed.
    ///
    /// # Errors
    /// `Invalid` for a statement that alone exceeds the bound.
    pub fn put(&self, prepared: Prepared, uses: TableUses) -> Result<Arc<ServerStatement>, Error> {
        let bytes = prepared.heap_bytes() + KNOWN;
        if bytes > self.most {
            let text = "Prepared statement of size";
            let most = self.most;
            return Err(Error::refused(
                ErrorClass::Invalid,
                format!("{text} {bytes} bytes is larger than allowed maximum of {most} bytes"),
            ));
        }
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        let mut known = self.known.write();
        let before = known.by_id.remove(&prepared.id());
        let statement = Arc::new(ServerStatement::new(prepared, uses, before.as_deref(), now));
        known.bytes += statement.bytes();
        known.bytes -= before.map_or(0, |b| b.bytes());
        known.by_id.insert(statement.prepared.id(), statement.clone());
        if known.bytes > self.most {
            known.shrink(self.most);
        }
        Ok(statement)
    }

    /// Returns the number of statements, their bytes, and the number of evictions.
    pub fn counts(&self) -> (usize, usize, u64) {
        let known = self.known.read();
        (known.by_id.len(), known.bytes, known.evicted)
    }

    /// Returns all statements, by id.
    pub fn all(&self) -> Vec<Arc<ServerStatement>> {
        self.known.read().by_id.values().filter(|s| !s.is_outdated()).cloned().collect()
    }
}

/// Reports whether a schema change altered or dropped a table that the statement uses, or may have
/// done so.
fn is_about(statement: &Prepared, change: &SchemaChange) -> bool {
    let SchemaChange { change, target, keyspace, name, .. } = change;
    if *change == "CREATED" || *target == "KEYSPACE" && *change != "DROPPED" {
        return false;
    }
    // A type may occur in any table of the keyspace. Any statement on these may call a function,
    // even one of another keyspace.
    let of_all = *target != "TABLE";
    let is_of = |table| of_all || Some(table) == name.as_deref();
    let is_called = matches!(*target, "FUNCTION" | "AGGREGATE");
    let mut accesses = statement.accesses().into_iter();
    accesses.any(|(_, home, table)| is_called || home == keyspace && is_of(table))
}

impl SchemaListener for PreparedStatements {
    fn changed(&self, change: &SchemaChange) {
        for statement in self.known.read().by_id.values() {
            if is_about(&statement.prepared, change) {
                statement.outdated.store(true, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_are_evicted_and_counted() {
        const MOST: usize = 20 << 10;
        let session = firn_cql::Session::in_memory().unwrap();
        let known = PreparedStatements::new(MOST);
        let put = |n: i32| {
            let text = format!("SELECT key AS name{n:03} FROM system.local");
            known.put(session.prepare(&text).unwrap(), Arc::default()).unwrap().prepared.id()
        };
        let first = put(0);
        for n in 1..100 {
            assert!(known.get(&first).is_some(), "{n}");
            put(n);
            let (count, bytes, evicted) = known.counts();
            assert_eq!(count as u64 + evicted, n as u64 + 1);
            assert!(bytes <= MOST && bytes >= count * 500, "{count}, {bytes}");
        }
        assert!(known.counts().2 > 10);
        // The limit counts the plan, which is many times larger than the text.
        let before = known.counts();
        let markers = vec!["?"; 2000].join(",");
        let large = format!("SELECT key FROM system.local WHERE key IN ({markers})");
        let refused = known.put(session.prepare(&large).unwrap(), Arc::default()).unwrap_err();
        assert!(refused.to_string().contains("larger than allowed maximum of 20480"), "{refused}");
        assert_eq!(known.counts(), before);
    }

    #[test]
    fn schema_changes_invalidate_statements_of_their_tables() {
        let session = firn_cql::Session::in_memory().unwrap();
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        session.execute(keyspace, ()).unwrap();
        session.execute("CREATE TABLE ks.t (a int PRIMARY KEY, b int)", ()).unwrap();
        let change = |change, target, keyspace: &str, name: Option<&str>| {
            SchemaChange::new(change, target, keyspace, name)
        };
        for text in [
            "SELECT a FROM ks.t",
            "DELETE FROM ks.t WHERE a = 1",
            "BEGIN BATCH INSERT INTO ks.t (a, b) VALUES (1, 1) APPLY BATCH",
        ] {
            let prepared = session.prepare(text).unwrap();
            for (change, wanted) in [
                (change("UPDATED", "TABLE", "ks", Some("t")), true),
                (change("DROPPED", "TABLE", "ks", Some("t")), true),
                (change("UPDATED", "TYPE", "ks", Some("any")), true),
                (change("DROPPED", "KEYSPACE", "ks", None), true),
                (change("UPDATED", "KEYSPACE", "ks", None), false),
                (change("CREATED", "TABLE", "ks", Some("t")), false),
                (change("UPDATED", "TABLE", "ks", Some("n")), false),
                (change("UPDATED", "TABLE", "other", Some("t")), false),
                (change("UPDATED", "TYPE", "other", Some("any")), false),
            ] {
                assert_eq!(is_about(&prepared, &change), wanted, "{text}: {change:?}");
            }
        }
    }
}
