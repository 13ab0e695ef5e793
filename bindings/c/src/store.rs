//! Stores, trees, batches.

use std::mem::MaybeUninit;
use std::ops::Bound;

use firn_kv::{Batch, Db, DbOptions, Durability, KeyBounds, Tree};

use crate::call::{
    Failure, FirnBytes, FirnCode, FirnSlice, Outcome, call, free, give, give_some, there,
};

/// An open store.
pub struct FirnDb(pub(crate) Db);

/// A tree of a store: an ordered map from bytes to bytes.
pub struct FirnTree(pub(crate) Tree);

/// Writes that are done together or not at all.
pub struct FirnBatch(pub(crate) Batch);

/// How far a write has got when the call is over: one of `FIRN_DURABILITY_…`. A number, since C
/// could put any into an enumeration.
pub type FirnDurability = u32;
/// As the store was opened.
pub const FIRN_DURABILITY_DEFAULT: FirnDurability = 0;
/// The bytes are the operating system's: they survive a crash of the process.
pub const FIRN_DURABILITY_PROCESS: FirnDurability = 1;
/// The bytes are on the device: they survive a power cut.
pub const FIRN_DURABILITY_POWER: FirnDurability = 2;

/// How a store is opened. All zeros is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirnOptions {
    /// Bytes of memory for memtables and the cache. 0: 256 MiB.
    memory_budget: u64,
    /// Threads that flush and compact. 0: two; -1: none, whoever writes does their work.
    background_threads: i32,
    /// Of writes that do not say; 0: `FIRN_DURABILITY_PROCESS`.
    durability: FirnDurability,
    /// Not 0: nothing is written, and others may have it open.
    read_only: i32,
    /// Not 0: a store that is not there is an error.
    must_exist: i32,
}

impl FirnOptions {
    /// `None`: the default.
    pub(crate) fn read(options: Option<&FirnOptions>) -> Outcome<DbOptions> {
        let mut out = DbOptions::default();
        let Some(options) = options else { return Ok(out) };
        if options.memory_budget > 0 {
            // More than the machine can address is refused by the engine.
            out.memory_budget = usize::try_from(options.memory_budget).unwrap_or(usize::MAX);
        }
        match options.background_threads {
            0 => {}
            -1 => out.background_threads = 0,
            n => out.background_threads = usize::try_from(n).unwrap_or(usize::MAX),
        }
        out.durability = durability_of(options.durability)?.unwrap_or(out.durability);
        out.read_only = options.read_only != 0;
        out.create = options.must_exist == 0;
        Ok(out)
    }
}

/// `None`: that of the store.
fn durability_of(number: FirnDurability) -> Outcome<Option<Durability>> {
    match number {
        FIRN_DURABILITY_DEFAULT => Ok(None),
        FIRN_DURABILITY_PROCESS => Ok(Some(Durability::Process)),
        FIRN_DURABILITY_POWER => Ok(Some(Durability::Power)),
        other => Err(Failure::argument(format!("there is no durability {other}"))),
    }
}

/// Runs `work` on the tree with this durability.
pub(crate) fn with<T>(
    tree: Option<&FirnTree>,
    durability: FirnDurability,
    work: impl FnOnce(&Tree) -> Outcome<T>,
) -> Outcome<T> {
    let tree = &there(tree, "the tree")?.0;
    match durability_of(durability)? {
        None => work(tree),
        Some(durability) => work(&tree.with(durability)),
    }
}

/// The range from `from` on, before `to`; open where they are nothing at all.
pub(crate) fn range<'a>(from: &'a FirnSlice, to: &'a FirnSlice) -> Outcome<impl KeyBounds + 'a> {
    let from = from.some()?.map_or(Bound::Unbounded, Bound::Included);
    Ok((from, to.some()?.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// Opens the store in the directory `path`, creating it where it is missing or empty. `options` may
/// be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_open(
    path: FirnSlice,
    options: Option<&FirnOptions>,
    out: Option<&mut MaybeUninit<Box<FirnDb>>>,
) -> FirnCode {
    call(|| {
        give(out, || {
            Ok(Box::new(FirnDb(Db::open_with(path.text()?, FirnOptions::read(options)?)?)))
        })
    })
}

/// Opens an empty store in memory.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_open_memory(out: Option<&mut MaybeUninit<Box<FirnDb>>>) -> FirnCode {
    call(|| give(out, || Ok(Box::new(FirnDb(Db::in_memory()?)))))
}

/// Closes the store and says what came of it: all that was written is safe when it gives
/// `FIRN_CODE_OK`. Handles are still to be freed; calls that need the store give
/// `FIRN_CODE_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_close(db: Option<&FirnDb>) -> FirnCode {
    call(|| {
        there(db, "the store")?.0.close()?;
        Ok(FirnCode::Ok)
    })
}

/// Gives a handle back. A store that was not closed is closed with the last handle of it or of
/// anything that was got from it.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_free(db: Option<Box<FirnDb>>) {
    free(db);
}

/// The tree of this name, made where it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree(
    db: Option<&FirnDb>,
    name: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnTree>>>,
) -> FirnCode {
    call(|| {
        give(out, || {
            let tree = firn_tools::trees::there_or_new(&there(db, "the store")?.0, name.text()?)?;
            Ok(Box::new(FirnTree(tree)))
        })
    })
}

/// Names of the trees as a JSON array.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree_names(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| {
        give(out, || {
            Ok(serde_json::json!(there(db, "the store")?.0.tree_names()).to_string().into())
        })
    })
}

/// Drops a tree with all that it holds.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_drop_tree(db: Option<&FirnDb>, name: FirnSlice) -> FirnCode {
    call(|| {
        there(db, "the store")?.0.drop_tree(name.text()?)?;
        Ok(FirnCode::Ok)
    })
}

/// Does all that the batch says, or nothing. The batch is empty afterwards, also when it fails.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_write(
    db: Option<&FirnDb>,
    batch: Option<&mut FirnBatch>,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        let batch = std::mem::take(&mut there(batch, "the batch")?.0);
        let (db, durability) = (&there(db, "the store")?.0, durability_of(durability)?);
        match durability {
            None => db.write(batch)?,
            Some(durability) => db.with(durability).write(batch)?,
        }
        Ok(FirnCode::Ok)
    })
}

/// Waits until all that was written is on the device.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_sync(db: Option<&FirnDb>) -> FirnCode {
    call(|| {
        there(db, "the store")?.0.sync()?;
        Ok(FirnCode::Ok)
    })
}

/// Statistics as JSON, as `firn stats --json` has them.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_stats(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| {
        give(out, || {
            Ok(firn_tools::stats::stats_json(&there(db, "the store")?.0.stats()).to_string().into())
        })
    })
}

/// Gives a handle back; the tree stays.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_free(tree: Option<Box<FirnTree>>) {
    free(tree);
}

/// Sets a key to a value.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_put(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        with(tree, durability, |tree| Ok(tree.put(key.bytes()?, value.bytes()?)?))?;
        Ok(FirnCode::Ok)
    })
}

/// Deletes a key, whether it is there or not.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_delete(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        with(tree, durability, |tree| Ok(tree.delete(key.bytes()?)?))?;
        Ok(FirnCode::Ok)
    })
}

/// Deletes all keys from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_delete_range(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        with(tree, durability, |tree| Ok(tree.delete_range(range(&from, &to)?)?))?;
        Ok(FirnCode::Ok)
    })
}

/// The value of a key; `FIRN_CODE_NONE` without one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_get(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| {
        give_some(out, || Ok(there(tree, "the tree")?.0.get(key.bytes()?)?.map(FirnBytes::from)))
    })
}

/// Sets a key that has no value, as one step. `FIRN_CODE_NONE` when it has one, which stays.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_insert_if_absent(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        let before =
            with(
                tree,
                durability,
                |tree| Ok(tree.insert_if_absent(key.bytes()?, value.bytes()?)?),
            )?;
        Ok(if before.is_none() { FirnCode::Ok } else { FirnCode::None })
    })
}

/// Sets a key that has the value `old` to `new`, as one step; nothing at all stands for no value.
/// `FIRN_CODE_NONE` when it has another one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_compare_and_swap(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    old: FirnSlice,
    new: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        let done = with(tree, durability, |tree| {
            Ok(tree.compare_and_swap(key.bytes()?, old.some()?, new.some()?)?)
        })?;
        Ok(if done.is_ok() { FirnCode::Ok } else { FirnCode::None })
    })
}

/// An empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_new(out: Option<&mut MaybeUninit<Box<FirnBatch>>>) -> FirnCode {
    call(|| give(out, || Ok(Box::new(FirnBatch(Batch::new())))))
}

/// Gives a batch back.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_free(batch: Option<Box<FirnBatch>>) {
    free(batch);
}

/// Adds: set a key of a tree to a value.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_put(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
) -> FirnCode {
    call(|| {
        there(batch, "the batch")?.0.put(
            &there(tree, "the tree")?.0,
            key.bytes()?,
            value.bytes()?,
        )?;
        Ok(FirnCode::Ok)
    })
}

/// Adds: delete a key of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_delete(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> FirnCode {
    call(|| {
        there(batch, "the batch")?.0.delete(&there(tree, "the tree")?.0, key.bytes()?)?;
        Ok(FirnCode::Ok)
    })
}

/// Adds: delete all keys of a tree from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_delete_range(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    call(|| {
        there(batch, "the batch")?
            .0
            .delete_range(&there(tree, "the tree")?.0, range(&from, &to)?)?;
        Ok(FirnCode::Ok)
    })
}
