//! Snapshots, transactions, iterators.

use std::mem::MaybeUninit;

use firn_kv::{Range, Readable, Snapshot, Transaction, Value};

use crate::call::{
    Failure, FirnBytes, FirnCode, FirnSlice, Outcome, call, free, give, give_some, there,
};
use crate::store::{FirnDb, FirnTree, range};

/// A store as it was at one moment.
pub struct FirnSnapshot(Snapshot);

/// Reads and writes as one step: what it read must not have changed when it is committed.
pub struct FirnTransaction(Transaction);

/// Entries of a range of keys, from both ends.
pub struct FirnIter {
    range: Range,
    /// The entry that is lent.
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

/// The keys of a tree from `from` on, before `to`, as they are now.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_iter(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnIter>>>,
) -> FirnCode {
    call(|| give(out, || Ok(walk(there(tree, "the tree")?.0.range(range(&from, &to)?)))))
}

/// The next entry; `FIRN_CODE_NONE` behind the last one. Its bytes are good until the next call on
/// the iterator. `value` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_next(
    iter: Option<&mut FirnIter>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    call(|| step(iter, Range::next, key, value))
}

/// The next entry from the other end; where the two meet the iterator ends.
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

/// Gives an iterator back.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_free(iter: Option<Box<FirnIter>>) {
    free(iter);
}

/// The store as it is now, for later reads.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_snapshot(
    db: Option<&FirnDb>,
    out: Option<&mut MaybeUninit<Box<FirnSnapshot>>>,
) -> FirnCode {
    call(|| give(out, || Ok(Box::new(FirnSnapshot(there(db, "the store")?.0.snapshot())))))
}

/// The value that a key had; `FIRN_CODE_NONE` without one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_get(
    snapshot: Option<&FirnSnapshot>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| give_some(out, || get_at(&there(snapshot, "the snapshot")?.0, tree, key)))
}

/// The keys that a tree had from `from` on, before `to`.
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

/// Gives a snapshot back; until then the store keeps what it shows.
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

/// The value of a key in the transaction, its own writes included; `FIRN_CODE_NONE` without one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_get(
    transaction: Option<&FirnTransaction>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    call(|| give_some(out, || get_at(&there(transaction, "the transaction")?.0, tree, key)))
}

/// The keys of a tree in the transaction from `from` on, before `to`.
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

/// Sets a key to a value, when it is committed.
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

/// Deletes a key, when it is committed.
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

/// Deletes all keys of a tree from `from` on, before `to`, when it is committed.
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

/// Does all that the transaction wrote, or, with `FIRN_CODE_CONFLICT` or another failure, nothing.
/// The handle is gone in any case.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_commit(transaction: Option<Box<FirnTransaction>>) -> FirnCode {
    call(|| {
        there(transaction, "the transaction")?.0.commit().map_err(Failure::from)?;
        Ok(FirnCode::Ok)
    })
}

/// Gives a transaction up.
#[unsafe(no_mangle)]
pub extern "C" fn firn_transaction_free(transaction: Option<Box<FirnTransaction>>) {
    free(transaction);
}
