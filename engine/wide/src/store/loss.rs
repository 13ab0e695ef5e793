//! Repairs of a store that has lost data, so that readers handle the rest correctly. For tools that
//! repair stores.
//!
//! Invariants: afterwards, each index that may lack entries is rebuilt at the next opening. If the
//! records that avoid lookups may be lost, readers look for every kind of deletion, and writers
//! compare with existing data.

use firn_kv::{Batch, Db, Durability, ErrorKind, TreeOptions};

use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS};
use super::index::built_record;
use super::{SCHEMA_TREE, drops, kind_record, stripes};
use crate::base::error::{Error, Result};
use crate::cell::StoredCell;

/// Returns the trees with data of a family or table that have no definition, according to
/// `is_defined` on their ids. Trees whose drop was interrupted are excluded: the next opening drops
/// them.
///
/// # Errors
/// Errors of the engine.
pub fn undefined(db: &Db, is_defined: impl Fn(u32) -> bool) -> Result<Vec<String>> {
    let schema = match db.existing_tree(SCHEMA_TREE) {
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        schema => Some(schema?),
    };
    Ok(drops::undefined(db, schema.as_ref(), is_defined)?
        .lost
        .into_iter()
        .map(|(name, _)| name)
        .collect())
}

/// Returns the message about such a tree, and the advice.
pub fn words_of_undefined(tree: &str) -> (String, String) {
    (
        format!(
            "tree {tree} has no definition: it holds data of a table or column family whose definition was lost"
        ),
        format!(
            "restore a backup that has the definition, or read the data as bytes: `firn scan --tree {tree}`; no opening \
             removes it"
        ),
    )
}

/// Removes the records that these indexes are built (`None`: of all indexes), so that they are
/// built when the store is opened next. Returns their ids.
///
/// # Errors
/// Errors of the engine.
pub fn forget_built(db: &Db, indexes: Option<&[u32]>) -> Result<Vec<u32>> {
    let schema = db.existing_tree(SCHEMA_TREE)?;
    let numbers: Vec<u32> = match indexes {
        Some(some) => some.to_vec(),
        None => {
            let all: Vec<_> = schema
                .prefix(&built_record(0)[..6])
                .map(|r| r.map(|(k, _)| k.to_vec()))
                .collect::<firn_kv::Result<_>>()?;
            all.iter().filter_map(|k| Some(u32::from_be_bytes(k[6..].try_into().ok()?))).collect()
        }
    };
    let mut batch = Batch::new();
    let mut gone = vec![];
    for id in numbers {
        if schema.contains(&built_record(id))? {
            batch.delete(&schema, &built_record(id))?;
            gone.push(id);
        }
    }
    db.with_durability(Durability::Power).write(batch)?;
    Ok(gone)
}

/// Rewrites the store's records about these families, given by their ids and their trees' options
/// with all hooks. The new records say that there may be deletions of every kind. Their bounds of
/// timestamps are above all stored ones.
///
/// # Errors
/// `Corrupt` for entries that do not belong to a family; errors of the engine.
pub fn renew_records(db: &Db, families: Vec<(u32, String, TreeOptions)>) -> Result<()> {
    let schema = db.existing_tree(SCHEMA_TREE)?;
    let mut batch = Batch::new();
    let mut newest = i64::MIN;
    for (id, name, options) in families {
        for kind in [PARTITIONS, RANGES, ROWS, COMPLEX] {
            batch.put(&schema, &kind_record(id, kind), &[])?;
        }
        for entry in db.tree(&name, options)?.iter() {
            let (_, value) = entry?;
            let stored = StoredCell::decode(&value)
                .map_err(|e| Error::Corrupt(format!("tree {name}: {e}")))?;
            newest = newest.max(stored.timestamp());
        }
    }
    stripes::raise_all(&schema, newest, &mut batch)?;
    Ok(db.with_durability(Durability::Power).write(batch)?)
}
