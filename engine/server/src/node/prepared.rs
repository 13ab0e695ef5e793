//! The statements that clients have prepared, by the ids that they send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_cql::{ColumnSpec, Prepared};
use parking_lot::RwLock;

use super::metrics::TableUses;
use crate::wire::metadata_id;

/// A prepared statement.
#[derive(Debug)]
pub struct KnownStatement {
    /// The statement.
    pub prepared: Prepared,
    /// The columns of its result when it was prepared, with their id.
    columns: Option<(Arc<[ColumnSpec]>, [u8; 16])>,
    /// The tables that it reads or writes.
    pub uses: TableUses,
    used: AtomicU64,
}

impl KnownStatement {
    /// Of this statement, which reads or writes these tables.
    pub fn new(prepared: Prepared, uses: TableUses) -> KnownStatement {
        let columns = prepared.columns().map(|c| (c.clone(), metadata_id(c)));
        KnownStatement { prepared, columns, uses, used: AtomicU64::new(0) }
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

    /// Whether the columns that a run of it gave are those which it had when it was prepared.
    pub fn is_as_prepared(&self, columns: &Arc<[ColumnSpec]>) -> bool {
        self.columns
            .as_ref()
            .is_some_and(|(known, _)| Arc::ptr_eq(known, columns) || known == columns)
    }

    fn bytes(&self) -> usize {
        self.prepared.text().len()
    }
}

#[derive(Debug, Default)]
struct KnownStatements {
    by_id: BTreeMap<[u8; 16], Arc<KnownStatement>>,
    bytes: usize,
    evicted: u64,
}

/// The statements that clients have prepared. When their texts have too many bytes, those go that
/// were used longest ago; clients prepare them again.
#[derive(Debug)]
pub struct PreparedStatements {
    most: usize,
    clock: AtomicU64,
    known: RwLock<KnownStatements>,
}

impl PreparedStatements {
    /// With texts of this many bytes.
    pub fn new(most: usize) -> PreparedStatements {
        PreparedStatements { most, clock: AtomicU64::new(1), known: RwLock::default() }
    }

    /// The statement with this id.
    pub fn get(&self, id: &[u8]) -> Option<Arc<KnownStatement>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let found = self.known.read().by_id.get(&id)?.clone();
        found.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// Keeps a statement that reads or writes these tables. What it was before, if it was, is
    /// replaced: definitions may have changed.
    pub fn put(&self, prepared: Prepared, uses: TableUses) -> Arc<KnownStatement> {
        let statement = Arc::new(KnownStatement::new(prepared, uses));
        let now = self.clock.fetch_add(1, Ordering::Relaxed) + 1;
        statement.used.store(now, Ordering::Relaxed);
        let mut known = self.known.write();
        known.bytes += statement.bytes();
        if let Some(before) = known.by_id.insert(statement.prepared.id(), statement.clone()) {
            known.bytes -= before.bytes();
        }
        if known.bytes > self.most {
            // The half that was used longest ago.
            let mut uses: Vec<u64> =
                known.by_id.values().map(|s| s.used.load(Ordering::Relaxed)).collect();
            uses.sort_unstable();
            let (middle, before) = (uses[uses.len() / 2], known.by_id.len());
            known.by_id.retain(|_, s| s.used.load(Ordering::Relaxed) >= middle);
            known.bytes = known.by_id.values().map(|s| s.bytes()).sum();
            known.evicted += (before - known.by_id.len()) as u64;
        }
        statement
    }

    /// How many there are, the bytes of their texts, and how many have gone to make room.
    pub fn counts(&self) -> (usize, usize, u64) {
        let known = self.known.read();
        (known.by_id.len(), known.bytes, known.evicted)
    }

    /// All of them, by id.
    pub fn all(&self) -> Vec<Arc<KnownStatement>> {
        self.known.read().by_id.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_used_longest_ago_make_room_and_are_counted() {
        let session = firn_cql::Session::in_memory().unwrap();
        let known = PreparedStatements::new(200);
        let put = |n: i32| {
            let text = format!("SELECT key AS name{n:03} FROM system.local");
            known.put(session.prepare(&text).unwrap(), Arc::default()).prepared.id()
        };
        let first = put(0);
        for n in 1..20 {
            assert!(known.get(&first).is_some(), "{n}");
            put(n);
            let (count, bytes, evicted) = known.counts();
            assert_eq!(count as u64 + evicted, n as u64 + 1);
            assert!(bytes <= 200 && bytes == count * 39, "{count}, {bytes}");
        }
        assert!(known.counts().2 > 10);
    }
}
