//! State of a Db as plain data. Version edits change it.
//!
//! Invariants of [`ManifestState`]:
//! - Tree ids and names are unique, and ids are below `next_tree`.
//! - Runs are ordered by level ascending, then number descending, and are not empty.
//! - The tables of a run are sorted by first key and disjoint in user keys.
//! - Table ids are unique over the whole Db and below `next_file`.
//! - No table has a sequence number above `last_seq`, which has at most 56 bits.
//! - File numbers and log positions are at most 2⁶². No counter ever decreases.
//! - A subscription is stored under its name, and its position is in bounds.
//! - The blob files of a tree are those that its tables refer to. The references to a blob file
//!   are to no more values and bytes than it has. It is removed with the last table that refers to
//!   it.
//!
//! [`ManifestState::apply`] refuses an edit that would violate one, and then leaves the state
//! unchanged.

use super::fields::{Field, FieldDef, FieldValue, FieldWriter, Message, field, field_value};
use super::format::MAX_NUMBER;
use super::tree::{TreeState, check_uses, unfit};
use crate::base::error::Result;
use crate::base::format_version::FormatVersion;
use crate::base::identity::LogWriter;
use crate::base::key::{MAX_SEQ, Seq};
use crate::base::ops::TreeId;
use crate::util::sorted_map::{SortedMap, SortedSet};

/// State of a Db, except for data that is only in its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestState {
    /// Version of the Db's files. Not a field of the message: it is in the header of the manifest.
    pub format: FormatVersion,
    /// Id of the Db, drawn at random when it was created, also when it was created as a copy.
    pub id: u64,
    /// Id of the Db from which it was created as a checkpoint.
    pub parent: Option<u64>,
    /// Time of creation, in microseconds since 1970.
    pub created_micros: u64,
    /// Least number of all files created from now on.
    pub next_file: u64,
    /// Upper bound of all sequence numbers that may have been used.
    pub last_seq: Seq,
    /// Log position below which every tree's records are in tables.
    pub wal_floor: u64,
    /// Id of the next new tree.
    pub next_tree: TreeId,
    /// Writers of the remaining log segments, ordered by their first segments. A segment with
    /// records of any other writer is not part of this Db's log.
    pub writers: Vec<LogWriter>,
    /// Trees by id.
    pub trees: SortedMap<TreeId, TreeState>,
    /// Subscriptions to the changes of the store, by name.
    pub subscriptions: SortedMap<String, SubscriptionState>,
}

/// Maximum number of subscriptions of a store.
pub const MAX_SUBSCRIPTIONS: usize = 256;

/// Durable state of a subscription: its position in the log, from which the log is retained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionState {
    /// Name of the subscription, of 1 to 255 bytes.
    pub name: String,
    /// Sequence number up to which the consumer has acknowledged all changes.
    pub seq: Seq,
    /// Log position at which a record begins, or the log ends. All records with numbers above `seq`
    /// are behind it.
    pub position: u64,
    /// Maximum number of bytes of log that it retains.
    pub max_log_bytes: u64,
    /// Whether the consumer must copy a snapshot first.
    pub snapshot_due: SnapshotDue,
}

/// Whether the consumer of a subscription must copy a snapshot before it continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotDue {
    /// It continues with the changes.
    #[default]
    No,
    /// It has not acknowledged anything since the subscription began.
    New,
    /// The log has lost changes that it needs.
    Lost,
}

field_value! {
    SnapshotDue: |due, tag, w| w.number(tag, *due as u64), |f| match f.number()? {
        0 => SnapshotDue::No,
        1 => SnapshotDue::New,
        2 => SnapshotDue::Lost,
        _ => return Err(f.unsound()),
    };
}

impl SubscriptionState {
    /// Checks the bounds of all fields.
    ///
    /// # Errors
    /// `Corruption`, naming the violation.
    pub fn check(&self) -> Result<()> {
        if self.name.is_empty() || self.name.len() > 255 {
            return Err(unfit(format_args!("the name of subscription {:?}", self.name)));
        }
        if self.seq > MAX_SEQ || self.position > MAX_NUMBER {
            return Err(unfit(format_args!("the position of subscription {:?}", self.name)));
        }
        Ok(())
    }
}

impl Message for SubscriptionState {
    const NAME: &'static str = "subscription";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, name, "name"),
        field!(4, seq, "sequence number"),
        field!(6, position, "position"),
        field!(8, max_log_bytes, "limit"),
        field!(10, snapshot_due, "need of a snapshot"),
    ];
}

impl FieldValue for SortedMap<String, SubscriptionState> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        self.values().for_each(|s| s.write(tag, w));
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        let s = SubscriptionState::decode(f.bytes)?;
        match self.insert(s.name.clone(), s) {
            Some(s) => Err(unfit(format_args!("subscription {:?} is there twice", s.name))),
            None => Ok(()),
        }
    }
}

impl Message for ManifestState {
    const NAME: &'static str = "state";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, id, "id"),
        field!(4, created_micros, "time of creation"),
        field!(6, next_file, "next file"),
        field!(8, last_seq, "last sequence number"),
        field!(10, wal_floor, "WAL floor"),
        field!(12, next_tree, "next tree"),
        field!(14, trees),
        field!(16, writers),
        field!(18, parent),
        field!(20, subscriptions),
    ];
}

impl FieldValue for SortedMap<TreeId, TreeState> {
    fn write(&self, tag: u64, w: &mut FieldWriter) {
        self.values().for_each(|t| t.write(tag, w));
    }

    fn read(&mut self, f: &Field<'_>) -> Result<()> {
        let t = TreeState::decode(f.bytes)?;
        match self.insert(t.id, t) {
            Some(t) => Err(unfit(format_args!("tree {} is there twice", t.id))),
            None => Ok(()),
        }
    }
}

impl Message for LogWriter {
    const NAME: &'static str = "log writer";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, from, "first segment"),
        field!(4, base, "base"),
        FieldDef {
            tag: 6,
            name: Some("id"),
            write: |writer, tag, w| w.bytes(tag, &writer.id.to_le_bytes()),
            read: |writer, f| {
                writer.id = u64::from_le_bytes(f.fixed()?);
                Ok(())
            },
        },
    ];
}

impl ManifestState {
    /// Returns the tree of this name. Searches all trees.
    #[must_use]
    pub fn tree_named(&self, name: &str) -> Option<&TreeState> {
        self.trees.values().find(|t| t.name == name)
    }

    /// Checks all invariants.
    ///
    /// # Errors
    /// `Corruption`, naming the first violation.
    pub fn check(&self) -> Result<()> {
        let (mut ids, mut names) = (SortedSet::new(), SortedSet::new());
        let positions = self.trees.values().map(|t| t.flushed);
        check_writers(&self.writers)?;
        check_subscription_count(self.subscriptions.len())?;
        self.subscriptions.values().try_for_each(SubscriptionState::check)?;
        if self.last_seq > MAX_SEQ
            || positions.chain([self.wal_floor, self.next_file]).any(|n| n > MAX_NUMBER)
        {
            return Err(unfit("a counter is out of bounds"));
        }
        for (id, tree) in &self.trees {
            if *id != tree.id || *id >= self.next_tree || !names.insert(&tree.name) {
                return Err(unfit(format_args!(
                    "the id or the name of tree {id}, {:?}",
                    tree.name
                )));
            }
            tree.runs.iter().try_for_each(|r| r.check())?;
            if !tree.runs.is_sorted_by(|a, b| a.place() < b.place()) {
                return Err(unfit(format_args!("the order of the runs of tree {:?}", tree.name)));
            }
            if let Some(t) = tree.tables().find(|t| t.max_seq > self.last_seq) {
                return Err(unfit(format_args!(
                    "table {} has a sequence number not given out yet",
                    t.id
                )));
            }
            if let Some(id) = tree.files().find(|&id| id >= self.next_file || !ids.insert(id)) {
                return Err(unfit(format_args!(
                    "table {id} is there twice or has a number not given out yet"
                )));
            }
            let uses = tree.uses();
            check_uses(&uses, &tree.values)?;
            if let Some(id) = tree.values.keys().find(|&id| !uses.contains_key(id)) {
                return Err(unfit(format_args!("no table refers to blob file {id}")));
            }
        }
        Ok(())
    }
}

pub(super) fn check_subscription_count(count: usize) -> Result<()> {
    if count <= MAX_SUBSCRIPTIONS {
        return Ok(());
    }
    Err(unfit(format_args!("there are {count} subscriptions, more than {MAX_SUBSCRIPTIONS}")))
}

pub(super) fn check_writers(writers: &[LogWriter]) -> Result<()> {
    let starts = |w: &[LogWriter]| w[0].from < w[1].from && w[0].base <= w[1].base;
    let bounded =
        writers.iter().all(|w| w.from > 0 && w.from <= MAX_NUMBER && w.base <= MAX_NUMBER);
    if bounded && writers.windows(2).all(starts) {
        Ok(())
    } else {
        Err(unfit("the writers of the log are not in order"))
    }
}
