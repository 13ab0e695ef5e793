//! Repairs of a store that lost data, so that no reader reads the rest wrongly,
//! for the tools that save stores.
//!
//! Invariants: afterwards each index that may lack entries is built anew at the next opening;
//! readers look for every kind of deletion, and writers at what is there, wherever the records that
//! spare them the look may be lost.

use firn_kv::{Batch, Db, Durability, ErrorKind, TreeOptions};

use super::family::{COMPLEX, PARTITIONS, RANGES, ROWS};
use super::index::built_record;
use super::{SCHEMA_TREE, drops, kind_record, stripes};
use crate::base::error::{Error, Result};
use crate::cell::StoredCell;

/// The trees that hold data of a family or table and that no definition tells of, by `is_defined`
/// of their numbers. What was being dropped when the program ended is none of them: the next
/// opening drops it.
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

/// The message about such a tree, and the advice.
pub fn words_of_undefined(tree: &str) -> (String, String) {
    (
        format!(
            "tree {tree} has no definition: it holds data of a table or column family that nothing tells of any more"
        ),
        format!(
            "go back to a copy of the store that has the definition, or read what is there as bytes: `firn scan --tree {tree}`; no opening \
             removes it"
        ),
    )
}

/// Takes away the records that these indexes have been built (`None`: that any has): they are built
/// when the store is opened next. Gives their numbers.
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
    db.with(Durability::Power).write(batch)?;
    Ok(gone)
}

/// Writes the records anew that the store keeps about these families (their numbers, and their
/// trees' options with all hooks): that there may be deletions of every kind, and bounds of
/// timestamps above all that is stored.
///
/// # Errors
/// `Corrupt` for entries that are none of a family; errors of the engine.
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
    Ok(db.with(Durability::Power).write(batch)?)
}
