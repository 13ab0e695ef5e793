//! The statements that clients have prepared, by the ids that they send.
//!
//! Invariant: a statement whose table was changed is not known until it is prepared again, as
//! drivers expect; and what its columns were is remembered, so that clients which had prepared it
//! before are told the new ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_cql::internals::exec::SchemaListener;
use firn_cql::{Class, ColumnSpec, Error, Prepared, SchemaChange};
use parking_lot::RwLock;

use super::metrics::TableUses;
use crate::wire::metadata_id;

/// Bytes that a statement takes here beside its plan.
const KNOWN: usize = 256;

/// A prepared statement.
#[derive(Debug)]
pub struct KnownStatement {
    /// The statement.
    pub prepared: Prepared,
    /// The columns of its result when it was prepared, with their id.
    columns: Option<(Arc<[ColumnSpec]>, [u8; 16])>,
    /// The tables that it reads or writes.
    pub uses: TableUses,
    /// Whether it was prepared before with other columns.
    had_others: bool,
    /// Whether a table of it was changed since.
    outdated: AtomicBool,
    used: AtomicU64,
}

impl KnownStatement {
    /// Of this statement, which reads or writes these tables, and may have been known.
    fn new(
        prepared: Prepared,
        uses: TableUses,
        before: Option<&KnownStatement>,
        used: u64,
    ) -> KnownStatement {
        let columns = prepared.columns().map(|c| (c.clone(), metadata_id(c)));
        let had_others = before.is_some_and(|b| {
            let is_other = b.columns.as_ref().map(|c| c.1) != columns.as_ref().map(|c| c.1);
            b.had_others || is_other
        });
        let outdated = AtomicBool::new(false);
        KnownStatement { prepared, columns, uses, had_others, outdated, used: AtomicU64::new(used) }
    }

    /// The id of the columns that a run of it gave.
    pub fn metadata_id(&self, columns: &Arc<[ColumnSpec]>) -> [u8; 16] {
        match &self.columns {
            Some((known, id)) if Arc::ptr_eq(known, columns) || known == columns => *id,
            _ => metadata_id(columns),
        }
    }

    /// Whether the columns of its result are known before it is run.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Whether the columns that a run of it gave are those which it had each time that it was
    /// prepared: all clients know them then.
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
struct KnownStatements {
    by_id: BTreeMap<[u8; 16], Arc<KnownStatement>>,
    bytes: usize,
    evicted: u64,
}

impl KnownStatements {
    /// Drops statements that were used longest ago, until the rest takes half of this many bytes;
    /// the one that was used last stays.
    fn shrink(&mut self, most: usize) {
        let of = |s: &Arc<KnownStatement>| (s.used.load(Ordering::Relaxed), s.bytes());
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

/// The statements that clients have prepared. When they take too many bytes, those that were used
/// longest ago are dropped; clients prepare them again.
#[derive(Debug)]
pub struct PreparedStatements {
    most: usize,
    clock: AtomicU64,
    known: RwLock<KnownStatements>,
}

impl PreparedStatements {
    /// Of at most this many bytes, texts and plans together.
    pub fn new(most: usize) -> PreparedStatements {
        PreparedStatements { most, clock: AtomicU64::new(1), known: RwLock::default() }
    }

    /// The statement with this id. `None`: it must be prepared, perhaps again.
    pub fn get(&self, id: &[u8]) -> Option<Arc<KnownStatement>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let found = self.known.read().by_id.get(&id).filter(|s| !s.is_outdated())?.clone();
        found.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// Keeps a statement that reads or writes these tables. What it was before, if it was, is
    /// replaced: definitions may have changed.
    ///
    /// # Errors
    /// `Invalid` for a statement that alone exceeds the bound.
    pub fn put(&self, prepared: Prepared, uses: TableUses) -> Result<Arc<KnownStatement>, Error> {
        let bytes = prepared.heap_bytes() + KNOWN;
        if bytes > self.most {
            let text = "Prepared statement of size";
            let most = self.most;
            return Err(Error::refused(
                Class::Invalid,
                format!("{text} {bytes} bytes is larger than allowed maximum of {most} bytes"),
            ));
        }
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        let mut known = self.known.write();
        let before = known.by_id.remove(&prepared.id());
        let statement = Arc::new(KnownStatement::new(prepared, uses, before.as_deref(), now));
        known.bytes += statement.bytes();
        known.bytes -= before.map_or(0, |b| b.bytes());
        known.by_id.insert(statement.prepared.id(), statement.clone());
        if known.bytes > self.most {
            known.shrink(self.most);
        }
        Ok(statement)
    }

    /// How many there are, the bytes that they take, and how many were dropped to make room.
    pub fn counts(&self) -> (usize, usize, u64) {
        let known = self.known.read();
        (known.by_id.len(), known.bytes, known.evicted)
    }

    /// All of them, by id.
    pub fn all(&self) -> Vec<Arc<KnownStatement>> {
        self.known.read().by_id.values().filter(|s| !s.is_outdated()).cloned().collect()
    }
}

/// Whether this changed or dropped a table that the statement reads or writes, or may have.
fn is_about(statement: &Prepared, change: &SchemaChange) -> bool {
    let SchemaChange { change, target, keyspace, name, .. } = change;
    if *change == "CREATED" || *target == "KEYSPACE" && *change != "DROPPED" {
        return false;
    }
    // Any table of the keyspace may have columns of a type, and any statement about it may call a
    // function, also one of another keyspace.
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
    fn those_that_were_used_longest_ago_make_room_and_are_counted() {
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
        // The plan counts, which is many times the text.
        let before = known.counts();
        let markers = vec!["?"; 2000].join(",");
        let large = format!("SELECT key FROM system.local WHERE key IN ({markers})");
        let refused = known.put(session.prepare(&large).unwrap(), Arc::default()).unwrap_err();
        assert!(refused.to_string().contains("larger than allowed maximum of 20480"), "{refused}");
        assert_eq!(known.counts(), before);
    }

    #[test]
    fn definitions_are_about_the_statements_whose_tables_they_change() {
        let session = firn_cql::Session::in_memory().unwrap();
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        session.execute(keyspace, ()).unwrap();
        session.execute("CREATE TABLE ks.t (a int PRIMARY KEY, b int)", ()).unwrap();
        let change = |change, target, keyspace: &str, name: Option<&str>| SchemaChange {
            change,
            target,
            keyspace: keyspace.to_owned(),
            name: name.map(str::to_owned),
            arguments: vec![],
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
