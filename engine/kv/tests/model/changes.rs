//! The change feed. A replica of the trees without hooks follows the store over the whole history
//! and must have the same content.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_kv::{BatchOp, Change, ChangeFeed, Db, ErrorKind};

use super::{Runner, tree_name};
use crate::model::compare::{Outcome, ensure};
use crate::model::setup::HOOKED;

/// Bytes of log that a feed retains.
const HOLD: u64 = 1 << 30;

type Held = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Replica of the store.
#[derive(Default)]
pub struct Followed {
    seq: u64,
    /// Tree numbers by name.
    numbers: BTreeMap<String, u32>,
    held: Held,
}

fn content(db: &Db) -> Outcome<Held> {
    let mut all = Held::new();
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
    /// Copies the state that a reader sees now into the replica, and opens a feed.
    fn copied(&mut self, db: &Db) -> Outcome<ChangeFeed> {
        let feed = db.changes_since(self.oracle.now(), HOLD)?;
        let numbers = feed.trees().into_iter().collect();
        let (seq, held) = (feed.seq(), content(db)?);
        self.followed = Followed { seq, numbers, held };
        Ok(feed)
    }

    /// Brings the replica up to date and compares it with the store.
    pub(super) fn follow(&mut self) -> Outcome {
        let db = self.db()?.clone();
        let mut feed = match self.open.feed.take() {
            Some(feed) => feed,
            None => match db.changes_since(self.followed.seq, HOLD) {
                Err(e) if e.kind() == ErrorKind::Lagged => self.copied(&db)?,
                feed => feed?,
            },
        };
        let (mut is_loaded, mut is_copied) = (false, false);
        loop {
            match feed.next(Duration::ZERO) {
                // Parts of the unneeded log of earlier openings may be missing.
                Err(e) if e.kind() == ErrorKind::Lagged && !is_copied => {
                    feed = self.copied(&db)?;
                    is_copied = true;
                }
                change => {
                    let Some(change) = change? else { break };
                    is_loaded |= change.is_loaded();
                    self.followed.apply(&change)?;
                }
            }
        }
        let (seq, now) = (self.followed.seq, self.oracle.now());
        ensure(seq == now && feed.seq() == seq, || format!("followed to {seq}, not to {now}"))?;
        let numbers: BTreeMap<String, u32> = feed.trees().into_iter().collect();
        let followed = &mut self.followed;
        followed.held.retain(|name, _| followed.numbers.get(name) == numbers.get(name));
        followed.numbers = numbers;
        self.open.feed = Some(feed);
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
