//! Recovers values of lost tables from blob files. Each value in a blob file is stored with its key
//! and sequence number.
//!
//! A value without a reference may belong to a lost table. Or it was replaced or deleted, and
//! remains until its file is rewritten. So these rules hold:
//! - A value is recovered if a lost entry may have referred to it, and no table or log record has
//!   an entry of its key that is as new or newer.
//! - Compactions to the last level remove sequence numbers. An entry without one counts as older if
//!   all recovered values are known to have been live. Otherwise it counts as newer: the entry of a
//!   sound table wins.
//! - All values of a file are known to have been live if their number equals the number of
//!   references of the lost tables in the manifest. Otherwise the report says that deleted ones may
//!   be among them.
//!
//! Invariant: recovered values go into a table of a run newer than all others of its tree. So newer
//! runs have newer versions of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use firn_kv::Result;
use firn_kv::internals::base::blob_ref::{BlobHandle, BlobUse};
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::facts::TableFacts;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::base::ops::Op;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::TreeState;
use firn_kv::internals::sstable::format::BlockKind;
use firn_kv::internals::sstable::values::blob_block;
use firn_kv::internals::sstable::walk::{TablePiece, TableWalk};
use firn_kv::internals::sstable::{Table, TableWriter, WriterOptions, block_entries};
use firn_tools::output::Done;

use crate::salvage::losses::Loss;
use crate::salvage::table::options_of;
use crate::store::blobs::OldStore;
use crate::store::log_copy;
use crate::store::target::{env, open_file};

/// Lost entries, as far as they are known.
#[derive(Debug, Default)]
pub struct LostEntries {
    /// File of the table that contained them.
    pub table: PathBuf,
    /// Whether range deletions are lost too.
    pub range_deletes: bool,
    /// Blob files to which they may have referred.
    pub files: BTreeSet<u64>,
    /// Ranges of their keys, both ends included; empty if unknown.
    pub keys: Vec<(Vec<u8>, Vec<u8>)>,
    /// Smallest and largest sequence number, if those of all entries are known.
    pub seqs: Option<(u64, u64)>,
}

impl LostEntries {
    fn may_refer_to(&self, file: u64, key: &[u8], seq: u64) -> bool {
        self.files.contains(&file)
            && self.seqs.is_none_or(|(least, most)| least <= seq && seq <= most)
            && (self.keys.is_empty()
                || self.keys.iter().any(|(a, z)| a.as_slice() <= key && key <= z.as_slice()))
    }
}

/// A tree of a new store that lacks entries.
pub struct ValueRecovery<'a> {
    /// The old store and the new directory.
    pub old: OldStore<'a>,
    /// The tree, with the tables that could be taken over.
    pub tree: &'a TreeState,
    /// References of the tree's tables, by number of the blob file; empty without a manifest.
    pub uses: BTreeMap<u64, BlobUse>,
    /// The lost entries.
    pub lost: &'a [LostEntries],
    /// Position from which the log is needed.
    pub floor: u64,
    /// Id of the new store.
    pub store: u64,
}

/// A value without a reference.
struct UnreferencedValue {
    key: Vec<u8>,
    seq: u64,
    file: u64,
    offset: u64,
    stored: u32,
    /// Whether the value is known to have been live.
    live: bool,
}

/// Result of the recovery.
#[derive(Default)]
pub struct RecoveredValues {
    /// Table with the recovered values; `None` if there are none.
    pub table: Option<TableFacts>,
    /// Keys of values that are known to have been live, even if newer versions hide them.
    pub live: Vec<Vec<u8>>,
    /// Number of recovered values, by file, that may have been replaced or deleted.
    pub doubtful: BTreeMap<u64, u64>,
}

/// Calls `f` for every entry in the sound blocks of a table.
fn each_sound(path: &Path, id: u64, f: &mut dyn FnMut(Trailer, &[u8])) -> Result<()> {
    let mut walk = TableWalk::new(env().open_read(path, false)?, path, id)?;
    while let Some(piece) = walk.next()? {
        let TablePiece::Block { offset, header } = piece else { continue };
        let Ok(raw) = walk.raw(offset, header) else { continue };
        if header.kind == BlockKind::Data
            && let Ok(entries) = block_entries(&raw)
        {
            entries.into_iter().for_each(|(_, trailer, value)| f(trailer, value));
        }
    }
    Ok(())
}

impl ValueRecovery<'_> {
    /// Returns the positions in blob files to which the existing tables refer. Includes values that
    /// were moved into the tables.
    fn referred(&self) -> Result<BTreeMap<u64, BTreeSet<u64>>> {
        let mut all: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for m in self.tree.tables() {
            each_sound(&self.old.files.path(m.id), m.id, &mut |trailer, value| {
                let is_blob = trailer.kind() == Some(Kind::Blob);
                if let Some(r) = BlobHandle::decode(value).filter(|_| is_blob) {
                    all.entry(r.file).or_default().insert(r.offset);
                }
            })?;
        }
        Ok(all)
    }

    /// Returns the values of file `id` that are not in `referred` and that a lost entry may have
    /// used.
    fn unreferenced(&self, id: u64, referred: &BTreeSet<u64>) -> Vec<UnreferencedValue> {
        let Ok(file) = self.old.files.file(id) else { return vec![] };
        // The values of an unreadable file are lost; their references are reported as losses.
        let Ok(mut walk) = TableWalk::new(file, &self.old.files.path(id), id) else {
            return vec![];
        };
        let (mut all, mut values, mut damaged) = (vec![], 0u64, false);
        loop {
            let piece = match walk.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(_) => {
                    damaged = true;
                    break;
                }
            };
            let stored = piece.len() as u32;
            let TablePiece::Block { offset, header } = piece else {
                damaged |= matches!(piece, TablePiece::Damage { .. });
                continue;
            };
            if header.kind != BlockKind::Blob {
                continue;
            }
            let Ok(raw) = walk.raw(offset, header) else { continue };
            let Ok((key, trailer, _)) = blob_block(&raw) else { continue };
            values += 1;
            let seq = trailer.seq();
            let lost = || self.lost.iter().any(|l| l.may_refer_to(id, key, seq));
            if !referred.contains(&offset) && lost() {
                all.push(UnreferencedValue {
                    key: key.to_vec(),
                    seq,
                    file: id,
                    offset,
                    stored,
                    live: false,
                });
            }
        }
        if let Some(used) = self.uses.get(&id) {
            let missing = used.values.saturating_sub(referred.len() as u64);
            let had = self.old.files.facts(id).map_or(values, |facts| facts.values);
            let live = had == used.values || (!damaged && all.len() as u64 == missing);
            all.iter_mut().for_each(|v| v.live = live);
        }
        all
    }

    /// Removes values for which tables or the log have an entry as new or newer.
    fn remove_known(&self, unreferenced: &mut Vec<UnreferencedValue>) -> Done {
        for m in self.tree.tables() {
            let path = table_path(self.old.out, m.id);
            let t = open_file(env().open_read(&path, false)?, &path, m.id, m.ingested_seq)?;
            let mut c = t.cursor(false);
            let mut unknown = vec![];
            for v in unreferenced.drain(..) {
                if !is_covered(&t, &v) && !is_known(&mut c, &v)? {
                    unknown.push(v);
                }
            }
            *unreferenced = unknown;
        }
        let mut logged: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let keys: BTreeSet<&[u8]> = unreferenced.iter().map(|v| v.key.as_slice()).collect();
        log_copy::each_op(self.old.names, self.floor, &mut |logged_op| {
            // Replay skips records that the tree has in tables.
            if let Op::Point { key, .. } = logged_op.op
                && logged_op.end > self.tree.flushed
                && logged_op.tree == self.tree.id
                && keys.contains(key)
            {
                logged.insert(key.to_vec(), logged_op.seq);
            }
        })?;
        unreferenced.retain(|v| logged.get(&v.key).is_none_or(|&seq| seq < v.seq));
        Ok(())
    }

    /// Writes the recovered values as table `id` of the new store.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn recover(&self, id: u64) -> Done<RecoveredValues> {
        let mut found = RecoveredValues::default();
        let referred = self.referred()?;
        let none = BTreeSet::new();
        let mut unreferenced = vec![];
        for &file in
            &self.lost.iter().flat_map(|l| l.files.iter().copied()).collect::<BTreeSet<_>>()
        {
            unreferenced.extend(self.unreferenced(file, referred.get(&file).unwrap_or(&none)));
        }
        found.live = unreferenced.iter().filter(|v| v.live).map(|v| v.key.clone()).collect();
        // Keep only the newest value of each key, which hides the others.
        unreferenced.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
        unreferenced.dedup_by(|b, a| a.key == b.key);
        self.remove_known(&mut unreferenced)?;
        if unreferenced.is_empty() {
            return Ok(found);
        }
        let path = table_path(self.old.out, id);
        let options = WriterOptions {
            identity: TableIdentity { store: self.store, unique: env().random() },
            created_micros: env().wall_micros(),
            ..options_of(self.old.format, self.tree.id, &self.tree.options)
        };
        let mut w = TableWriter::new(env().create(&path)?, &path, id, options);
        for v in &unreferenced {
            let value = self.old.files.value_at(v.file, v.offset, v.stored)?;
            w.add(&v.key, Trailer::new(v.seq, Kind::Put), &value)?;
            if !v.live {
                *found.doubtful.entry(v.file).or_default() += 1;
            }
        }
        found.table = Some(w.finish()?);
        Ok(found)
    }
}

/// Reports whether a range deletion of `t` covers the value.
fn is_covered(t: &Table, v: &UnreferencedValue) -> bool {
    let fragments = t.tombstones().as_slice();
    let at = fragments.partition_point(|f| f.end <= v.key);
    let over = fragments.get(at).filter(|f| f.start <= v.key);
    over.is_some_and(|f| f.seqs.first().is_some_and(|&seq| seq > v.seq))
}

/// Reports whether the table of this cursor has a version of the key that is as new or newer.
fn is_known(
    c: &mut firn_kv::internals::sstable::TableCursor,
    v: &UnreferencedValue,
) -> Result<bool> {
    c.seek(&v.key, Trailer::NEWEST)?;
    if !c.valid() || c.key() != v.key {
        return Ok(false);
    }
    let seq = c.trailer().seq();
    Ok(seq >= v.seq || (seq == 0 && !v.live))
}

/// Subtracts the recovered values from the losses starting at index `from`, and removes losses
/// without entries.
pub fn subtract_recovered(
    losses: &mut Vec<Loss>,
    from: usize,
    live: &[Vec<u8>],
    lost: &[LostEntries],
) {
    let mut lessened = false;
    for key in live {
        let had = |l: &&mut Loss| {
            matches!(l.what, "data" | "table")
                && l.entries.is_some_and(|n| n > 0)
                && l.keys.as_ref().is_some_and(|(a, z)| a <= key && key <= z)
        };
        if let Some(l) = losses[from..].iter_mut().find(had) {
            l.entries = l.entries.map(|n| n - 1);
            lessened = true;
        }
    }
    let keeps_ranges = |l: &Loss| lost.iter().any(|x| x.table == l.file && x.range_deletes);
    let mut place = 0;
    losses.retain(|l| {
        place += 1;
        let is_found = l.entries == Some(0) && matches!(l.what, "data" | "table");
        place <= from || !lessened || !is_found || (l.what == "table" && keeps_ranges(l))
    });
}
