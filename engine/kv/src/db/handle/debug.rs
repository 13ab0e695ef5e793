//! `Debug` of handles: names and sizes, never data.

use std::fmt;

use crate::base::key::ShownKey;

use crate::db::handle::cursor::Cursor;
use crate::db::handle::handles::{Db, Tree};
use crate::db::handle::pause::Pause;
use crate::db::handle::range::{Keys, Range};
use crate::db::handle::snapshot::Snapshot;
use crate::db::handle::txn::{Savepoint, Transaction};
use crate::db::write::batch::Batch;

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        let trees = inner.versions.trees().iter().count();
        f.debug_struct("Db")
            .field("dir", &inner.versions.dir())
            .field("trees", &trees)
            .field("durability", &self.durability)
            .finish()
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.inner.view.load_full();
        let tables = || view.version.tables();
        let mut s = f.debug_struct("Tree");
        s.field("name", &self.name())
            .field("memtable_bytes", &view.memtables().map(|m| m.mem.used()).sum::<usize>());
        s.field("tables", &tables().count())
            .field("table_bytes", &tables().map(|t| t.meta.size).sum::<u64>());
        s.field("durability", &self.durability).finish()
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pause").field("dir", &self.handle.inner.versions.dir()).finish()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trees: Vec<&str> = self.trees.iter().map(|(t, _)| &*t.name).collect();
        f.debug_struct("Batch")
            .field("len", &self.len())
            .field("size", &self.size())
            .field("trees", &trees)
            .finish()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.seq()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reads, writes) = self.state.counts();
        let mut s = f.debug_struct("Transaction");
        s.field("seq", &self.snapshot.seq()).field("reads", &reads).field("writes", &writes);
        s.field("locks", &self.lock_count()).field("durability", &self.db.durability).finish()
    }
}

impl fmt::Debug for Savepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Savepoint").finish_non_exhaustive()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("tree", &self.tree())
            .field("valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Range");
        s.field("tree", &self.walk.view.name)
            .field("from", &format_args!("\"{}\"", ShownKey(&self.walk.range.from)));
        if let Some(until) = &self.walk.range.until {
            s.field("until", &format_args!("\"{}\"", ShownKey(until)));
        }
        s.field("seq", &self.walk.read).field("done", &self.done).finish_non_exhaustive()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.0).finish()
    }
}
