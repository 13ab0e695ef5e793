//! The change feed. A replica of the trees without hooks follows the store with a
//! subscription, and must have the same content. It copies a snapshot only to begin.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_kv::{BatchOp, Change, ChangePosition, Db, ErrorKind, Subscription};

use super::{Runner, tree_name};
use crate::model::compare::{Outcome, ensure};
use crate::model::setup::HOOKED;

/// Bytes of log that the subscription retains.
const HOLD: u64 = 1 << 30;

type Held = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Replica of the store.
#[derive(Default)]
pub struct Followed {
    seq: u64,
    /// `None` before the first copy.
    position: Option<ChangePosition>,
    /// Tree numbers by name.
    numbers: BTreeMap<String, u32>,
    held: Held,
}

fn content(db: &Db) -> Outcome<Held> {
    let (mut all, db) = (Held::new(), db.reader());
    for name in (0..HOOKED.len()).filter(|t| !HOOKED[*t]).map(tree_name) {
        match db.existing_tree(&name) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            tree => {
                let pairs = tree?.iter().map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec())));
                all.insert(name, pairs.collect::<firn_kv::Result<_>>()?);
            }
        }
    }
    Ok(all)
}

impl Followed {
    fn apply(&mut self, change: &Change) -> Outcome {
        let (first, last) = (*change.seqs().start(), *change.seqs().end());
        ensure(first == self.seq + 1 && last >= first, || {
            format!("a change with sequence numbers {first} to {last} after {}", self.seq)
        })?;
        self.seq = last;
        for (name, number) in change.trees() {
            if self.numbers.insert(name.to_owned(), number).is_some_and(|old| old != number) {
                self.held.remove(name);
            }
        }
        for op in change.ops() {
            match op {
                BatchOp::Put { tree, key, value } => {
                    let held = self.held.entry(tree.to_owned()).or_default();
                    held.insert(key.to_vec(), value.to_vec());
                }
                BatchOp::Delete { tree, key } => {
                    self.held.entry(tree.to_owned()).or_default().remove(key);
                }
                BatchOp::DeleteRange { tree, start, end } => {
                    let held = self.held.entry(tree.to_owned()).or_default();
                    held.retain(|k, _| &**k < start || end.is_some_and(|end| &**k >= end));
                }
                // The change belongs to a tree that is not compared.
                _ => {}
            }
        }
        Ok(())
    }
}

impl Runner<'_> {
    /// Opens the subscription, and continues behind the last change that was applied.
    fn subscribed(&mut self, db: &Db) -> Outcome<Subscription> {
        let mut changes = db.subscribe("replica", HOLD)?;
        if let Some(position) = self.followed.position {
            changes.resume(position)?;
            return Ok(changes);
        }
        let snapshot = changes.snapshot()?;
        let numbers = changes.trees().into_iter().collect();
        let (seq, held, position) = (snapshot.seq(), content(db)?, Some(changes.position()));
        self.followed = Followed { seq, position, numbers, held };
        Ok(changes)
    }

    /// Brings the replica up to date and compares it with the store.
    pub(super) fn follow(&mut self) -> Outcome {
        let db = self.db()?.clone();
        let mut feed = match self.open.feed.take() {
            Some(feed) => feed,
            None => self.subscribed(&db)?,
        };
        let mut is_loaded = false;
        while let Some(change) = feed.next(Duration::ZERO)? {
            is_loaded |= change.is_loaded();
            self.followed.apply(&change)?;
        }
        self.followed.position = Some(feed.position());
        feed.acknowledge(self.followed.seq)?;
        ensure(!feed.is_snapshot_due(), || {
            "a snapshot is due after an acknowledgement".to_owned()
        })?;
        if self.followed.seq.is_multiple_of(3) {
            feed.persist()?;
        }
        let (seq, now) = (self.followed.seq, self.oracle.now());
        ensure(seq == now && feed.position().seq == seq, || {
            format!("followed to {seq}, not to {now}")
        })?;
        let mut beside = db.changes_since(seq, HOLD)?;
        ensure(beside.next(Duration::ZERO)?.is_none(), || "a change behind the last".to_owned())?;
        let all = db.subscriptions();
        ensure(
            all.len() == 1
                && (all[0].seq, all[0].behind, all[0].is_snapshot_due) == (seq, 0, false),
            || format!("at {seq}, but {all:?}"),
        )?;
        let numbers: BTreeMap<String, u32> = feed.trees().into_iter().collect();
        let followed = &mut self.followed;
        followed.held.retain(|name, _| followed.numbers.get(name) == numbers.get(name));
        followed.numbers = numbers;
        self.open.feed = Some(feed);
        if seq.is_multiple_of(16) {
            // The next time it begins again with a snapshot.
            self.open.feed = None;
            self.followed.position = None;
            db.drop_subscription("replica")?;
        }
        let there = content(&db)?;
        if is_loaded {
            self.followed.held = there;
            return Ok(());
        }
        for (name, held) in there {
            let own = self.followed.held.entry(name.clone()).or_default();
            ensure(*own == held, || format!("the replica of {name} differs"))?;
        }
        Ok(())
    }
}
