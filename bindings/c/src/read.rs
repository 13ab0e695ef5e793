//! Snapshots, transactions, iterators.

use std::mem::MaybeUninit;
use std::time::Duration;

use firn_kv::{Durability, Range, Readable, Savepoint, Snapshot, Transaction, Value};

use crate::call::*;
use crate::store::{FirnDb, FirnDurability, FirnTree, durability_of, range};

/// A snapshot of a store.
pub struct FirnSnapshot(pub(crate) Snapshot);

/// Atomic reads and writes: the data read must be unchanged at the commit.
pub struct FirnTransaction {
    transaction: Transaction,
    durability: Option<Durability>,
}

/// The pending writes of a transaction at one moment.
pub struct FirnSavepoint(Savepoint);

/// Entries of a key range, from both ends.
pub struct FirnIter {
    pub(crate) range: Range,
    /// Packed entries lent to the caller.
    pub(crate) chunk: Vec<u8>,
    /// The entry lent to the caller.
    shown: Option<(Value, Value)>,
}

handles! {
    FirnSnapshot "the snapshot", FirnTransaction "the transaction", FirnSavepoint "the savepoint",
    FirnIter "the iterator"
}

fn walk(range: Range) -> Box<FirnIter> {
    Box::new(FirnIter { range, chunk: vec![], shown: None })
}

fn walk_at(
    at: &impl Readable,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> Outcome<Box<FirnIter>> {
    Ok(walk(at.range(&handle(tree)?.0, range(&from, &to)?)))
}

fn get_at(
    at: &impl Readable,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> Outcome<Option<FirnBytes>> {
    Ok(at.get(&handle(tree)?.0, key.bytes()?)?.map(FirnBytes::from))
}

/// Iterates over the current keys of a tree from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_iter(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnIter>>>,
) -> FirnCode {
    result(out, || Ok(walk(handle(tree)?.0.range(range(&from, &to)?))))
}

/// Returns the next entry; `FIRN_CODE_NONE` after the last one. Its bytes are valid until the next
/// call on the iterator. `value` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_next(
    iter: Option<&mut FirnIter>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    call(|| step(iter, Range::next, key, value))
}

/// Returns the next entry from the other end; the iterator ends where both ends meet.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_next_back(
    iter: Option<&mut FirnIter>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    call(|| step(iter, Range::next_back, key, value))
}

fn step(
    iter: Option<&mut FirnIter>,
    next: impl FnOnce(&mut Range) -> Option<firn_kv::Result<(Value, Value)>>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> Outcome {
    let (iter, key) = (handle(iter)?, required(key, "the place of the key")?);
    iter.shown = next(&mut iter.range).transpose()?;
    let Some(shown) = &iter.shown else { return Ok(FirnCode::None) };
    key.write(FirnSlice::lend(&shown.0));
    if let Some(value) = value {
        value.write(FirnSlice::lend(&shown.1));
    }
    Ok(FirnCode::Ok)
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_free(iter: Option<Box<FirnIter>>) {
    free(iter);
}

/// Takes a snapshot of the store.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_snapshot(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<Box<FirnSnapshot>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnSnapshot(handle(db)?.0.snapshot()))))
}

/// Returns the value of a key in the snapshot; `FIRN_CODE_NONE` if missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_get(
    snapshot: Option<&FirnSnapshot>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    optional_result(out, || get_at(&handle(snapshot)?.0, tree, key))
}

/// Iterates over the keys of a tree in the snapshot from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_iter(
    snapshot: Option<&FirnSnapshot>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnIter>>>,
) -> FirnCode {
    result(out, || walk_at(&handle(snapshot)?.0, tree, from, to))
}

/// Frees a snapshot; until then the store retains its data.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_free(snapshot: Option<Box<FirnSnapshot>>) {
    free(snapshot);
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_transaction(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<Box<FirnTransaction>>>,
) -> FirnCode {
    result(out, || {
        let transaction = handle(db)?.0.transaction();
        Ok(Box::new(FirnTransaction { transaction, durability: None }))
    })
}

/// Returns the value of a key in the transaction, including its own writes; `FIRN_CODE_NONE` if
/// missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_get(
    transaction: Option<&FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    optional_result(out, || get_at(&handle(transaction)?.transaction, tree, key))
}

/// Iterates over the keys of a tree in the transaction from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_iter(
    transaction: Option<&FirnTransaction>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnIter>>>,
) -> FirnCode {
    result(out, || walk_at(&handle(transaction)?.transaction, tree, from, to))
}

/// Sets a key to a value at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_put(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
) -> FirnCode {
    done(|| {
        Ok(handle(transaction)?.transaction.put(&handle(tree)?.0, key.bytes()?, value.bytes()?)?)
    })
}

/// Deletes a key at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_delete(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(transaction)?.transaction.delete(&handle(tree)?.0, key.bytes()?)?))
}

/// Deletes all keys of a tree from `from` on, before `to`, at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_delete_range(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    done(|| {
        Ok(handle(transaction)?.transaction.delete_range(&handle(tree)?.0, range(&from, &to)?)?)
    })
}

/// Locks a key until the transaction ends. Waits for at most `wait_micros` microseconds while another
/// transaction holds the lock, and returns `FIRN_CODE_LOCKED` after that time, or
/// `FIRN_CODE_CONFLICT` for a deadlock.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_lock(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    wait_micros: u64,
) -> FirnCode {
    let wait = Duration::from_micros(wait_micros);
    done(|| Ok(handle(transaction)?.transaction.lock(&handle(tree)?.0, key.bytes()?, wait)?))
}

/// Returns the pending writes of the transaction, for `firn_transaction_rollback_to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_savepoint(
    transaction: Option<&FirnTransaction>,
    out: Option<&mut MaybeUninit<Box<FirnSavepoint>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnSavepoint(handle(transaction)?.transaction.savepoint()))))
}

/// Restores the pending writes of a savepoint, which stays usable. Reads still count, and locks
/// stay.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_rollback_to(
    transaction: Option<&mut FirnTransaction>,
    savepoint: Option<&FirnSavepoint>,
) -> FirnCode {
    done(|| Ok(handle(transaction)?.transaction.rollback_to(&handle(savepoint)?.0)?))
}

/// Frees a savepoint, before or after the end of its transaction.
#[unsafe(no_mangle)]
pub extern "C" fn firn_savepoint_free(savepoint: Option<Box<FirnSavepoint>>) {
    free(savepoint);
}

/// Sets the durability of the commit; without a call it is the store's default.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_set_durability(
    transaction: Option<&mut FirnTransaction>,
    durability: FirnDurability,
) -> FirnCode {
    done(|| {
        handle(transaction)?.durability = durability_of(durability)?;
        Ok(())
    })
}

/// Executes all writes of the transaction, or none on `FIRN_CODE_CONFLICT` or another failure.
/// Frees the handle in any case.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_commit(transaction: Option<Box<FirnTransaction>>) -> FirnCode {
    done(|| {
        let FirnTransaction { transaction, durability } = *handle(transaction)?;
        match durability {
            None => transaction.commit()?,
            Some(durability) => transaction.with_durability(durability).commit()?,
        }
        Ok(())
    })
}

/// Aborts and frees a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_free(transaction: Option<Box<FirnTransaction>>) {
    free(transaction);
}
