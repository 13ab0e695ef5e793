//! Snapshots, transactions, iterators.

use std::mem::MaybeUninit;

use firn_kv::{Range, Readable, Snapshot, Transaction, Value};

use crate::call::{
    Failure, FirnBytes, FirnCode, FirnSlice, Outcome, call, free, give, give_some, there,
};
use crate::store::{FirnDb, FirnTree, range};

/// A snapshot of a store.
pub struct FirnSnapshot(Snapshot);

/// Atomic reads and writes: the data read must be unchanged at the commit.
pub struct FirnTransaction(Transaction);

/// Entries of a key range, from both ends.
pub struct FirnIter {
    range: Range,
    /// The entry lent to the caller.
    shown: Option<(Value, Value)>,
}

fn walk(range: Range) -> Box<FirnIter> {
    Box::new(FirnIter { range, shown: None })
}

fn walk_at(
    at: &impl Readable,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> Outcome<Box<FirnIter>> {
    Ok(walk(at.range(&there(tree, "the tree")?.0, range(&from, &to)?)))
}

fn get_at(
    at: &impl Readable,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> Outcome<Option<FirnBytes>> {
    Ok(at.get(&there(tree, "the tree")?.0, key.bytes()?)?.map(FirnBytes::from))
}

/// Iterates over the current keys of a tree from `from` on, before `to`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_iter(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnIter>>>,
) -> FirnCode {
    call(|| give(out, || Ok(walk(there(tree, "the tree")?.0.range(range(&from, &to)?)))))
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
    let (iter, key) = (there(iter, "the iterator")?, there(key, "the place of the key")?);
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
    call(|| give(out, || Ok(Box::new(FirnSnapshot(there(db, "the store")?.0.snapshot())))))
}

/// Returns the value of a key in the snapshot; `FIRN_CODE_NONE` if missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_get(
    snapshot: Option<&FirnSnapshot>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| give_some(out, || get_at(&there(snapshot, "the snapshot")?.0, tree, key)))
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
    call(|| give(out, || walk_at(&there(snapshot, "the snapshot")?.0, tree, from, to)))
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
    call(|| give(out, || Ok(Box::new(FirnTransaction(there(db, "the store")?.0.transaction())))))
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
    call(|| give_some(out, || get_at(&there(transaction, "the transaction")?.0, tree, key)))
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
    call(|| give(out, || walk_at(&there(transaction, "the transaction")?.0, tree, from, to)))
}

/// Sets a key to a value at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_put(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    value: FirnSlice,
) -> FirnCode {
    call(|| {
        there(transaction, "the transaction")?.0.put(
            &there(tree, "the tree")?.0,
            key.bytes()?,
            value.bytes()?,
        )?;
        Ok(FirnCode::Ok)
    })
}

/// Deletes a key at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_delete(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
) -> FirnCode {
    call(|| {
        there(transaction, "the transaction")?
            .0
            .delete(&there(tree, "the tree")?.0, key.bytes()?)?;
        Ok(FirnCode::Ok)
    })
}

/// Deletes all keys of a tree from `from` on, before `to`, at the commit.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_delete_range(
    transaction: Option<&mut FirnTransaction>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    call(|| {
        there(transaction, "the transaction")?
            .0
            .delete_range(&there(tree, "the tree")?.0, range(&from, &to)?)?;
        Ok(FirnCode::Ok)
    })
}

/// Executes all writes of the transaction, or none on `FIRN_CODE_CONFLICT` or another failure.
/// Frees the handle in any case.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_commit(transaction: Option<Box<FirnTransaction>>) -> FirnCode {
    call(|| {
        there(transaction, "the transaction")?.0.commit().map_err(Failure::from)?;
        Ok(FirnCode::Ok)
    })
}

/// Aborts and frees a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_free(transaction: Option<Box<FirnTransaction>>) {
    free(transaction);
}
