//! Position of a subscription of an open store.
//!
//! Invariants:
//! - The log is pinned from the position in the manifest on, not from the acknowledged one, which
//!   may be further. So the log has everything behind the manifest's position after a crash.
//! - At most one handle uses a subscription.

use std::sync::Arc;

use crate::base::key::Seq;
use crate::manifest::{SnapshotDue, SubscriptionState};
use crate::util::sync::{AtomicBool, Mutex, Ordering, rank};
use crate::wal::Lsn;
use crate::wal::tail::LogHold;

/// Position of a subscription, which its handle and the catalog share.
pub struct SubscriptionPoint {
    acknowledged: Mutex<Acknowledged, rank::Leaf>,
    is_open: AtomicBool,
    is_dropped: AtomicBool,
}

debug_by!(SubscriptionPoint, "SubscriptionPoint");

/// Position up to which the consumer has acknowledged all changes.
#[derive(Clone)]
struct Acknowledged {
    seq: Seq,
    position: Lsn,
    snapshot_due: SnapshotDue,
    hold: Arc<LogHold>,
}

impl SubscriptionPoint {
    /// Creates the position of a subscription in this state. `hold` pins its log.
    pub fn new(state: &SubscriptionState, hold: Arc<LogHold>) -> SubscriptionPoint {
        let acknowledged = Acknowledged {
            seq: state.seq,
            position: state.position,
            snapshot_due: state.snapshot_due,
            hold,
        };
        if state.snapshot_due == SnapshotDue::Lost {
            acknowledged.hold.release();
        }
        SubscriptionPoint {
            acknowledged: Mutex::new(acknowledged),
            is_open: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
        }
    }

    /// Returns the present state of the subscription. `before` is its state in the manifest.
    pub fn state(&self, before: &SubscriptionState) -> SubscriptionState {
        let now = self.acknowledged.lock().clone();
        let is_lost = now.hold.is_lost();
        SubscriptionState {
            seq: now.seq,
            position: now.position,
            snapshot_due: if is_lost { SnapshotDue::Lost } else { now.snapshot_due },
            ..before.clone()
        }
    }

    /// Returns the acknowledged sequence number.
    pub fn seq(&self) -> Seq {
        self.acknowledged.lock().seq
    }

    /// Returns the acknowledged log position.
    pub fn position(&self) -> Lsn {
        self.acknowledged.lock().position
    }

    /// Reports whether the consumer must copy a snapshot first.
    pub fn is_snapshot_due(&self) -> bool {
        let acknowledged = self.acknowledged.lock();
        acknowledged.snapshot_due != SnapshotDue::No || acknowledged.hold.is_lost()
    }

    /// Reports whether the log behind the position has been released.
    pub fn is_lagged(&self) -> bool {
        self.acknowledged.lock().hold.is_lost()
    }

    /// Acknowledges all changes up to `seq`. Records of later ones begin at `position` or behind
    /// it. Returns the bytes of log that the manifest still pins below `position`.
    pub fn acknowledge(&self, seq: Seq, position: Lsn) -> u64 {
        let mut acknowledged = self.acknowledged.lock();
        acknowledged.seq = seq;
        acknowledged.position = position;
        acknowledged.snapshot_due = SnapshotDue::No;
        position.saturating_sub(acknowledged.hold.from())
    }

    /// Begins again at this position; `hold` pins its log. The consumer copies a snapshot of `seq`
    /// first.
    pub fn restart(&self, seq: Seq, position: Lsn, hold: Arc<LogHold>) {
        let snapshot_due = SnapshotDue::New;
        *self.acknowledged.lock() = Acknowledged { seq, position, snapshot_due, hold };
    }

    /// Releases the log, so that the consumer must copy a snapshot first.
    pub fn release(&self) {
        self.acknowledged.lock().hold.release();
    }

    /// Records that the manifest has this position: releases the log below it.
    pub fn persisted(&self, position: Lsn) {
        self.acknowledged.lock().hold.move_to(position);
    }

    /// Sets the maximum number of bytes of log that it pins.
    pub fn set_bound(&self, max_log_bytes: u64) {
        self.acknowledged.lock().hold.bound(max_log_bytes);
    }

    /// Marks the subscription as used by a handle. Returns false if another one uses it.
    pub fn open(&self) -> bool {
        !self.is_open.swap(true, Ordering::AcqRel)
    }

    /// Ends the use by a handle.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Reports whether the subscription was dropped.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// Marks the subscription as dropped, and releases its log.
    pub fn set_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
        self.release();
    }
}
