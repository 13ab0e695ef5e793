//! Lists the tables of a tree with their summaries. A layer above can find data without reading it.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;

use crate::db::handle::handles::Tree;

/// A live table of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// File number.
    pub id: u64,
    /// Level of its run.
    pub level: u8,
    /// Number of its run, as in [`RunStats`](crate::stats::RunStats).
    pub run: u64,
    /// File length in bytes.
    pub bytes: u64,
    /// Bytes of blob files that it references.
    pub blob_bytes: u64,
    /// Number of entries, with deletes and merge operands.
    pub entries: u64,
    /// Lower bound of the keys in its entries and range deletions.
    pub first_key: Vec<u8>,
    /// Upper bound of those keys, inclusive.
    pub last_key: Vec<u8>,
    /// Smallest sequence number; 0 if some entries no longer need theirs.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Creation time in microseconds since 1970.
    pub created_micros: u64,
    /// Output of the [`Summary`](crate::Summary) hook when the table was written; empty without the
    /// hook.
    pub summary: Vec<u8>,
}

impl Tree {
    /// Returns the live tables: newest run first, by key within a run. They do not include the
    /// contents of memtables.
    ///
    /// # Errors
    /// `Closed` if the tree was dropped; corruption and I/O errors of opening tables.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.inner.check_live()?;
        let view = self.inner.view.load_full();
        let all = view.version.runs.iter().flat_map(|run| run.tables.iter().map(move |t| (run, t)));
        all.map(|(run, t)| info(run, t)).collect()
    }
}

fn info(run: &Arc<TableRun>, t: &Arc<TableHandle>) -> Result<TableInfo> {
    Ok(TableInfo {
        id: t.meta.id,
        level: run.level,
        run: run.number,
        bytes: t.meta.size,
        blob_bytes: t.meta.blob_bytes(),
        entries: t.meta.entries,
        first_key: t.meta.first_key.clone(),
        last_key: t.meta.last_key.clone(),
        min_seq: t.meta.min_seq,
        max_seq: t.meta.max_seq,
        created_micros: t.meta.created_micros,
        summary: t.table()?.properties().summary_bytes.clone(),
    })
}
