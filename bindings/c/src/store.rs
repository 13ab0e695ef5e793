//! Stores, trees, batches.

use std::mem::MaybeUninit;
use std::ops::Bound;

use firn_kv::{Batch, Db, DbOptions, Durability, KeyBounds, Tree};

use crate::call::*;

/// An open store.
pub struct FirnDb(pub(crate) Db);

/// A tree of a store: an ordered map from bytes to bytes (RocksDB's column family).
pub struct FirnTree(pub(crate) Tree);

/// Writes that are executed atomically.
pub struct FirnBatch(pub(crate) Batch);

handles! { FirnDb "the store", FirnTree "the tree", FirnBatch "the batch" }

/// Durability of a write when the call returns: one of `FIRN_DURABILITY_…`. A number, since C can
/// put any value into an enumeration.
pub type FirnDurability = u32;
/// The store's default.
pub const FIRN_DURABILITY_DEFAULT: FirnDurability = 0;
/// The operating system has the bytes: they survive a crash of the process.
pub const FIRN_DURABILITY_PROCESS: FirnDurability = 1;
/// The bytes are on the device: they survive a power cut.
pub const FIRN_DURABILITY_POWER: FirnDurability = 2;

/// Options of a store. All zeros is the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirnOptions {
    /// Memory budget of memtables and cache in bytes. 0: 256 MiB.
    memory_budget: u64,
    /// Threads that flush and compact. 0: two; -1: none, writers do their work.
    background_threads: i32,
    /// Default durability of writes; 0: `FIRN_DURABILITY_PROCESS`.
    durability: FirnDurability,
    /// Nonzero: read-only; others may have the store open.
    read_only: i32,
    /// Nonzero: a missing store is an error.
    must_exist: i32,
}

impl FirnOptions {
    /// Converts the options; `None`: the default.
    pub(crate) fn read(options: Option<&FirnOptions>) -> Outcome<DbOptions> {
        let mut out = DbOptions::default();
        let Some(options) = options else { return Ok(out) };
        if options.memory_budget > 0 {
            // The engine refuses more than the machine can address.
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

/// Converts the durability; `None`: that of the store.
pub(crate) fn durability_of(number: FirnDurability) -> Outcome<Option<Durability>> {
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
    let tree = &handle(tree)?.0;
    match durability_of(durability)? {
        None => work(tree),
        Some(durability) => work(&tree.with_durability(durability)),
    }
}

/// Returns the range from `from` on, before `to`; an end without bytes is open.
pub(crate) fn range<'a>(from: &'a FirnSlice, to: &'a FirnSlice) -> Outcome<impl KeyBounds + 'a> {
    let from = from.some()?.map_or(Bound::Unbounded, Bound::Included);
    Ok((from, to.some()?.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// Opens the store in the directory `path`, and creates it if missing or empty. `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_open(
    path: FirnSlice,
    options: Option<&FirnOptions>,
    out: Option<&mut MaybeUninit<Box<FirnDb>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnDb(Db::open_with(path.text()?, FirnOptions::read(options)?)?))))
}

/// Opens an empty store in memory.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_open_memory(out: Option<&mut MaybeUninit<Box<FirnDb>>>) -> FirnCode {
    result(out, || Ok(Box::new(FirnDb(Db::in_memory()?))))
}

/// Closes the store and returns the result: all writes are durable on `FIRN_CODE_OK`. Handles must
/// still be freed; calls that need the store return `FIRN_CODE_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_close(db: Option<&FirnDb>) -> FirnCode {
    done(|| Ok(handle(db)?.0.close()?))
}

/// Frees a handle. An open store is closed with its last handle, including handles obtained from
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_free(db: Option<Box<FirnDb>>) {
    free(db);
}

/// Opens the tree of this name; creates it if missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree(
    db: Option<&FirnDb>,
    name: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnTree>>>,
) -> FirnCode {
    result(out, || {
        let tree = firn_tools::trees::there_or_new(&handle(db)?.0, name.text()?)?;
        Ok(Box::new(FirnTree(tree)))
    })
}

/// Returns the names of the trees as a JSON array.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree_names(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || Ok(serde_json::json!(handle(db)?.0.tree_names()).to_string().into()))
}

/// Drops a tree with its contents.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_drop_tree(db: Option<&FirnDb>, name: FirnSlice) -> FirnCode {
    done(|| Ok(handle(db)?.0.drop_tree(name.text()?)?))
}

/// Executes the batch atomically. The batch is empty afterwards, even on failure.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_write(
    db: Option<&FirnDb>,
    batch: Option<&mut FirnBatch>,
    durability: FirnDurability,
) -> FirnCode {
    done(|| {
        let batch = std::mem::take(&mut handle(batch)?.0);
        let (db, durability) = (&handle(db)?.0, durability_of(durability)?);
        match durability {
            None => db.write(batch)?,
            Some(durability) => db.with_durability(durability).write(batch)?,
        }
        Ok(())
    })
}

/// Waits until all earlier writes are on the device.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_sync(db: Option<&FirnDb>) -> FirnCode {
    done(|| Ok(handle(db)?.0.sync()?))
}

/// Returns the statistics as JSON, as in `firn stats --json`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_stats(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || Ok(firn_tools::stats::stats_json(&handle(db)?.0.stats()).to_string().into()))
}

/// Frees a handle; the tree stays.
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
    done(|| with(tree, durability, |tree| Ok(tree.put(key.bytes()?, value.bytes()?)?)))
}

/// Deletes a key, whether it exists or not.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_delete(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    done(|| with(tree, durability, |tree| Ok(tree.delete(key.bytes()?)?)))
}

/// Deletes all keys from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_delete_range(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    done(|| with(tree, durability, |tree| Ok(tree.delete_range(range(&from, &to)?)?)))
}

/// Returns the value of a key; `FIRN_CODE_NONE` if missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_get(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    optional_result(out, || Ok(handle(tree)?.0.get(key.bytes()?)?.map(FirnBytes::from)))
}

/// Sets a missing key atomically. `FIRN_CODE_NONE` if it has a value, which stays.
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
        Ok(done_if(before.is_none()))
    })
}

/// Sets a key with the value `old` to `new` atomically; no bytes mean no value. `FIRN_CODE_NONE` if
/// it has another value.
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
        Ok(done_if(done.is_ok()))
    })
}

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_new(out: Option<&mut MaybeUninit<Box<FirnBatch>>>) -> FirnCode {
    result(out, || Ok(Box::new(FirnBatch(Batch::new()))))
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_free(batch: Option<Box<FirnBatch>>) {
    free(batch);
}

/// Appends a put to a key of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_put(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(batch)?.0.put(&handle(tree)?.0, key.bytes()?, value.bytes()?)?))
}

/// Appends a deletion of a key of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_delete(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(batch)?.0.delete(&handle(tree)?.0, key.bytes()?)?))
}

/// Appends a deletion of all keys of a tree from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_delete_range(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(batch)?.0.delete_range(&handle(tree)?.0, range(&from, &to)?)?))
}
