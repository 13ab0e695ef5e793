//! Definitions of a store that the engine may be unable to open, from the readable tables and log
//! of the tree `system.schema`.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::Env as _;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::base::ops::{Op, TreeId};
use firn_kv::internals::manifest::{ManifestState, TableMeta};
use firn_kv::internals::sstable::Table;
use firn_wide::internals::store::SCHEMA_TREE;

use crate::schema::definitions::Definitions;
use crate::schema::lost_records::TreeEvidence;
use crate::store::blobs::StoreBlobs;
use crate::store::log_copy;
use crate::store::names::FileNames;
use crate::store::target::open_file;

/// Newest version of each key: its sequence number, and its value unless it was deleted.
type NewestVersions = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

fn take(all: &mut NewestVersions, key: &[u8], seq: u64, value: Option<&[u8]>) {
    let newer = all.get(key).is_none_or(|(s, _)| *s <= seq);
    if newer {
        all.insert(key.to_vec(), (seq, value.map(<[u8]>::to_vec)));
    }
}

/// Returns the readable definitions; none if there is no such tree.
pub fn definitions(names: &FileNames, state: &ManifestState) -> Definitions {
    let Some(tree) = state.tree_named(SCHEMA_TREE) else {
        return Definitions::default();
    };
    let open = |m: &Arc<TableMeta>| {
        let path = names.table(m.id)?;
        names
            .open_read(&path, false)
            .and_then(|file| open_file(file, &path, m.id, m.ingested_seq))
            .ok()
    };
    let tables: Vec<_> = tree.tables().filter_map(open).collect();
    let records = newest(&tables, tree.id, names, state.wal_floor);
    Definitions::read(records, &TreeEvidence::of_store(state, None))
}

/// Returns the newest pairs of a tree from its tables and from the log at `floor` and later, as far
/// as they can be read.
pub fn newest(
    tables: &[Arc<Table>],
    tree: TreeId,
    names: &FileNames,
    floor: u64,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = NewestVersions::new();
    let files = StoreBlobs::of(names);
    for table in tables {
        let mut c = table.cursor(false);
        let mut more = c.first();
        // Omit the rest of a table after a damaged block: the names are only for display.
        while more.is_ok() && c.valid() {
            if let Ok((kind, value)) = files.visible_value(c.key(), c.trailer(), c.value()) {
                let value = (kind == Some(Kind::Put)).then_some(value);
                take(&mut all, c.key(), c.trailer().seq(), value.as_deref());
            }
            more = c.next();
        }
    }
    // The check of the log reports unreadable parts.
    let _ = log_copy::each_op(names, floor, &mut |logged| {
        if let Op::Point { kind, key, value } = logged.op
            && logged.tree == tree
        {
            take(&mut all, key, logged.seq, (kind == Kind::Put).then_some(value));
        }
    });
    all.into_iter().filter_map(|(k, (_, v))| Some((k, v?))).collect()
}
