//! Subscriptions: durable change feeds.

use std::mem::MaybeUninit;
use std::time::Duration;

use firn_kv::{BatchOp, Change, DecodedOp, Subscription};

use crate::call::*;
use crate::read::FirnSnapshot;
use crate::store::FirnDb;

/// A durable change feed of a store.
pub struct FirnSubscription(Subscription);

/// A change: the operations of a batch, or a single one.
pub struct FirnChange {
    change: Change,
    /// The operations that were not returned yet. Their bytes are those of `change`.
    left: std::vec::IntoIter<FirnChangeOp>,
}

handles! { FirnSubscription "the subscription", FirnChange "the change" }

/// Kind of an operation: one of `FIRN_CHANGE_…`.
pub type FirnChangeKind = u32;
/// A put: `key`, `value`, `expires_micros`.
pub const FIRN_CHANGE_PUT: FirnChangeKind = 1;
/// A delete: `key`.
pub const FIRN_CHANGE_DELETE: FirnChangeKind = 2;
/// A delete of a range: from `key` on, before `value`; NULL: to the end.
pub const FIRN_CHANGE_DELETE_RANGE: FirnChangeKind = 3;
/// A merge: `key`, and the operand in `value`.
pub const FIRN_CHANGE_MERGE: FirnChangeKind = 4;

/// An operation of a change. Its bytes are valid until the change is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FirnChangeOp {
    /// Kind of the operation.
    kind: FirnChangeKind,
    /// Name of the tree.
    tree: FirnSlice,
    /// Key, or start of the range.
    key: FirnSlice,
    /// Value, operand, or end of the range.
    value: FirnSlice,
    /// Deadline of the value in microseconds since 1970; 0: none.
    expires_micros: u64,
}

/// Opens the subscription of this name, and creates it if it does not exist. The store retains at
/// most `max_log_bytes` of its log for it.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_subscribe(
    db: Option<&FirnDb>,
    name: FirnSlice,
    max_log_bytes: u64,
    out: Option<&mut MaybeUninit<Box<FirnSubscription>>>,
) -> FirnCode {
    result(out, || {
        let subscription = handle(db)?.0.subscribe(name.text()?, max_log_bytes)?;
        Ok(Box::new(FirnSubscription(subscription)))
    })
}

/// Drops a subscription and releases its part of the log.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_drop_subscription(db: Option<&FirnDb>, name: FirnSlice) -> FirnCode {
    done(|| Ok(handle(db)?.0.drop_subscription(name.text()?)?))
}

/// Reports whether the consumer must copy a snapshot before it continues.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_snapshot_due(
    subscription: Option<&FirnSubscription>,
    out: Option<&mut MaybeUninit<bool>>,
) -> FirnCode {
    result(out, || Ok(handle(subscription)?.0.is_snapshot_due()))
}

/// Begins again at the present state, and returns a snapshot of it.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_snapshot(
    subscription: Option<&mut FirnSubscription>,
    out: Option<&mut MaybeUninit<Box<FirnSnapshot>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnSnapshot(handle(subscription)?.0.snapshot()?))))
}

/// Returns the next change. Waits for it for at most `wait_micros`; `FIRN_CODE_NONE` if none came,
/// and `FIRN_CODE_LAGGED` if the log has lost changes.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_next(
    subscription: Option<&mut FirnSubscription>,
    wait_micros: u64,
    out: Option<&mut MaybeUninit<Box<FirnChange>>>,
) -> FirnCode {
    optional_result(out, || {
        let Some(change) = handle(subscription)?.0.next(Duration::from_micros(wait_micros))? else {
            return Ok(None);
        };
        let left = change.decoded_ops().map(packed).collect::<Outcome<Vec<_>>>()?.into_iter();
        Ok(Some(Box::new(FirnChange { change, left })))
    })
}

/// Returns the position behind the last reported change, as text. A consumer stores it with the
/// effects of the change.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_position(
    subscription: Option<&FirnSubscription>,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || Ok(handle(subscription)?.0.position().to_string().into()))
}

/// Acknowledges all reported changes: they need not be reported again.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_acknowledge(
    subscription: Option<&mut FirnSubscription>,
) -> FirnCode {
    done(|| {
        let subscription = &mut handle(subscription)?.0;
        Ok(subscription.acknowledge(subscription.position().seq)?)
    })
}

/// Continues behind this position, which the consumer stored with its effects.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_resume(
    subscription: Option<&mut FirnSubscription>,
    position: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(subscription)?.0.resume(position.text()?.parse()?)?))
}

/// Frees the handle. The subscription stays in the store.
#[unsafe(no_mangle)]
pub extern "C" fn firn_subscription_free(subscription: Option<Box<FirnSubscription>>) {
    free(subscription);
}

/// Reports whether the change bypassed the log or dropped a tree, so that it has no operations. The
/// consumer must then copy a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn firn_change_is_loaded(
    change: Option<&FirnChange>,
    out: Option<&mut MaybeUninit<bool>>,
) -> FirnCode {
    result(out, || {
        let change = &handle(change)?.change;
        Ok(change.is_loaded() || change.is_drop())
    })
}

/// Returns the next operation of the change; `FIRN_CODE_NONE` after the last one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_change_next(
    change: Option<&mut FirnChange>,
    out: Option<&mut MaybeUninit<FirnChangeOp>>,
) -> FirnCode {
    optional_result(out, || Ok(handle(change)?.left.next()))
}

/// Frees a change.
#[unsafe(no_mangle)]
pub extern "C" fn firn_change_free(change: Option<Box<FirnChange>>) {
    free(change);
}

fn packed(DecodedOp { op, expires_micros }: DecodedOp<'_>) -> Outcome<FirnChangeOp> {
    let (kind, tree, key, value) = match op {
        BatchOp::Put { tree, key, value } => (FIRN_CHANGE_PUT, tree, key, Some(value)),
        BatchOp::Delete { tree, key } => (FIRN_CHANGE_DELETE, tree, key, None),
        BatchOp::DeleteRange { tree, start, end } => (FIRN_CHANGE_DELETE_RANGE, tree, start, end),
        BatchOp::Merge { tree, key, operand } => (FIRN_CHANGE_MERGE, tree, key, Some(operand)),
        _ => return Err(Failure::argument("this library does not know the operation")),
    };
    Ok(FirnChangeOp {
        kind,
        tree: FirnSlice::lend(tree.as_bytes()),
        key: FirnSlice::lend(key),
        value: value.map_or(FirnSlice::NOTHING, FirnSlice::lend),
        expires_micros: expires_micros.unwrap_or(0),
    })
}
