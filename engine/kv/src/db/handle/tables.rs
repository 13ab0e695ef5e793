//! The tables of a tree one by one, with what its summary hook said of each: for layers above that
//! must know what is where without reading it.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::Seq;
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;

use crate::db::handle::handles::Tree;

/// One live table of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// Number of its file.
    pub id: u64,
    /// Level of its run.
    pub level: u8,
    /// Number of its run, as in [`RunStats`](crate::RunStats).
    pub run: u64,
    /// Length of its file in bytes.
    pub bytes: u64,
    /// Bytes of blob files that it refers to.
    pub blob_bytes: u64,
    /// Entries in it, deletes and merge operands among them.
    pub entries: u64,
    /// The smallest key that it says something about.
    pub first_key: Vec<u8>,
    /// No key in it is larger.
    pub last_key: Vec<u8>,
    /// The smallest sequence number in it; 0 when some of its entries need none any more.
    pub min_seq: Seq,
    /// The largest.
    pub max_seq: Seq,
    /// When it was made, in microseconds since 1970.
    pub created_micros: u64,
    /// What the [`Summary`](crate::Summary) hook said when it was written; empty where there was
    /// none.
    pub summary: Vec<u8>,
}

impl Tree {
    /// The live tables, newest run first, in a run by key. What is still in memtables is in none of
    /// them.
    ///
    /// # Errors
    /// `Closed` when the tree was dropped; corruption and I/O errors of opening tables.
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
