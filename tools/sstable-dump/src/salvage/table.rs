//! Takes over one table: copies a sound one, or saves the readable part of a damaged one into a new
//! one and reports the exact losses.
//!
//! Invariants: every saved entry was in a block with a correct checksum and structure; so was its
//! value, if it was in a blob file. Nothing is guessed. The original is only read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_kv::fs::ReadFile;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::facts::TableFacts;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::identity::TableIdentity;
use firn_kv::internals::base::key::{Kind, Seq, Trailer};
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{PersistedOptions, TableMeta};
use firn_kv::internals::sstable::format::{BlockKind, StoredBlock, block_error};
use firn_kv::internals::sstable::{Properties, Table, TableWriter, WriterOptions, block_entries};
use firn_kv::{Error, ErrorKind, FilterKind, Result, Summary, TreeOptions};
use firn_tools::output::{count, things};

use crate::dump::from_json::FixedSummary;
use crate::salvage::losses::Loss;
use crate::store::blobs::StoreBlobs;
use crate::store::survey::{Survey, SurveyKind, SurveyRegion, survey};
use crate::store::target::{copy_file, env, open_file};

/// Kind of a loss: the entry exists, but its value in a blob file does not.
const VALUE: &str = "value";

/// Result for one table.
pub struct SalvagedTable {
    /// The new table; `None` if there was nothing to write.
    pub facts: Option<TableFacts>,
    /// Properties of the old table.
    pub properties: Option<Properties>,
    /// Number of saved data blocks.
    pub blocks: u64,
    /// Number of entries of the old table, if known.
    pub once: Option<u64>,
    /// Losses.
    pub losses: Vec<Loss>,
    /// Damaged parts that were rebuilt.
    pub rebuilt: Vec<&'static str>,
    /// Notes for the report.
    pub notes: Vec<String>,
}

/// Returns options for a table of a tree with these options, if the table's own properties are
/// lost.
pub fn options_of(version: FormatVersion, tree: u32, o: &PersistedOptions) -> WriterOptions {
    let name = |n: &Option<String>| n.clone().unwrap_or_default();
    WriterOptions {
        version,
        tree,
        block_size: usize::try_from(o.block_size).unwrap_or(4096).clamp(512, 65_536),
        compression: o.compression.first().copied().unwrap_or_default(),
        filter: if o.filter_prefix.is_some() {
            FilterKind::None
        } else {
            o.filter.first().copied().unwrap_or(FilterKind::Fuse8)
        },
        merge_operator: name(&o.merge_operator),
        compaction_filter: name(&o.compaction_filter),
        ..WriterOptions::default()
    }
}

/// Returns the options with which a table with these properties was written.
fn options_from(p: &Properties) -> WriterOptions {
    let fixed = || {
        Arc::new(FixedSummary { name: p.summary.clone(), bytes: p.summary_bytes.clone() })
            as Arc<dyn Summary>
    };
    WriterOptions {
        version: FormatVersion::default(),
        identity: TableIdentity::default(),
        tree: p.tree,
        tree_name: p.tree_name.clone(),
        log_end: p.log_end,
        log_writer: p.log_writer,
        level: p.level.min(255) as u8,
        block_size: usize::try_from(p.block_size).unwrap_or(4096).clamp(512, 65_536),
        compression: p.compression,
        filter: if p.filter_prefix.is_empty() { p.filter } else { FilterKind::None },
        filter_dropped: p.filter_dropped,
        filter_prefix: None,
        summary: (!p.summary.is_empty()).then(fixed),
        merge_operator: p.merge_operator.clone(),
        compaction_filter: p.compaction_filter.clone(),
        created_micros: p.created_micros,
        warm: None,
    }
}

/// Returns the options of a tree from the properties of one of its tables.
pub fn options_by(p: &Properties) -> PersistedOptions {
    let some = |name: &String| (!name.is_empty()).then(|| name.clone());
    PersistedOptions {
        block_size: p.block_size.clamp(512, 65_536),
        compression: vec![p.compression],
        merge_operator: some(&p.merge_operator),
        compaction_filter: some(&p.compaction_filter),
        summary: some(&p.summary),
        filter_prefix: some(&p.filter_prefix),
        ..PersistedOptions::of(&TreeOptions::default())
    }
}

fn losses(s: &Survey) -> Vec<Loss> {
    let data = |r: &&SurveyRegion| {
        r.what == SurveyKind::of(BlockKind::Data) || r.what == SurveyKind::Unknown
    };
    // After the data, the only user data are range deletions, which are reported separately.
    let data_end = s
        .footer
        .as_ref()
        .map(|f| f.data_len)
        .or_else(|| s.index.as_ref().map(|i| i.last().map_or(0, |b| b.offset + b.len as u64)));
    let first_part = s.regions.iter().find(|r| r.damage.is_none() && !data(r)).map(|r| r.offset);
    let end = data_end.or(first_part).unwrap_or(s.len);
    let mut all: Vec<Loss> = s
        .damaged()
        .filter(data)
        .filter(|r| r.offset < end)
        .map(|r| Loss {
            tree: s.properties.as_ref().map(|p| p.tree),
            offset: Some(r.offset),
            len: r.len,
            entries: r.entries,
            keys: r.keys.clone(),
            ..Loss::new("data", &s.path, r.damage.unwrap_or_default())
        })
        .collect();
    // A truncated file has no bytes for the lost part.
    let (saved, known) = (s.entries(), all.iter().map(|l| l.entries).sum::<Option<u64>>());
    match (s.entries_once(), known) {
        (Some(once), Some(known)) if once > saved + known => {
            all.push(lost_rest(s, Some(once - saved - known)))
        }
        (Some(once), None) if once >= saved => {
            let known_entries: u64 = all.iter().filter_map(|l| l.entries).sum();
            let mut unknown: Vec<&mut Loss> =
                all.iter_mut().filter(|l| l.entries.is_none()).collect();
            if let [only] = &mut unknown[..] {
                only.entries = once.checked_sub(saved + known_entries);
            }
        }
        (None, _) if s.footer.is_none() && first_part.is_none() => all.push(lost_rest(s, None)),
        _ => {}
    }
    all.extend(lost_tombstones(s));
    all
}

/// Returns the loss of unreadable range deletions, also if it is unknown whether there were any.
fn lost_tombstones(s: &Survey) -> Option<Loss> {
    let known = s.footer.is_some() || s.properties.is_some();
    // Without footer and properties: they may have existed if something between data and index is
    // unreadable.
    let index = s.sound(BlockKind::Index).next().map(|r| r.offset);
    let whole = index.is_some_and(|at| s.damaged().all(|r| r.offset > at));
    let lost =
        if known { s.missing().contains(&"tombstones") } else { s.tombstones.is_none() && !whole };
    let at = s.footer.as_ref().map(|f| (f.tombstones_at(), f.tombstones_len));
    let reason = if known {
        "the range deletions of the table cannot be read"
    } else {
        "range deletions, if the table had any"
    };
    lost.then(|| Loss {
        tree: s.properties.as_ref().map(|p| p.tree),
        offset: at.map(|a| a.0),
        len: at.map_or(0, |a| a.1 as u64),
        entries: s.properties.as_ref().map(|p| p.range_deletes),
        keys: s.properties.as_ref().map(|p| (p.first_key.clone(), p.last_key.clone())),
        ..Loss::new("tombstones", &s.path, reason)
    })
}

/// Returns the loss after the last existing block.
fn lost_rest(s: &Survey, entries: Option<u64>) -> Loss {
    let last = s.sound(BlockKind::Data).filter_map(|r| r.keys.as_ref()).last().map(|k| k.1.clone());
    let upper = s.properties.as_ref().map(|p| p.last_key.clone());
    let reason = match s.len {
        0 => "the file is empty",
        _ => "the file may have been longer: neither footer nor index shows where it ended",
    };
    Loss {
        tree: s.properties.as_ref().map(|p| p.tree),
        offset: Some(s.len),
        entries,
        keys: upper.map(|u| (last.unwrap_or_default(), u)),
        ..Loss::new("data", &s.path, reason)
    }
}

/// Writes the readable entries of table `id` in `path` into the new file `out`, as table `new_id`.
/// `fallback` has the options if the table's properties are lost. Values in blob files of `blobs`
/// that are damaged move into the new table; unreadable values are lost. Without `blobs` values in
/// blob files are not checked.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn salvage_table(
    path: &Path,
    id: u64,
    out: &Path,
    new_id: u64,
    fallback: &WriterOptions,
    blobs: Option<&StoreBlobs<'_>>,
) -> Result<SalvagedTable> {
    let file = env().open_read(path, false)?;
    let s = survey(file.clone(), path, id)?;
    let mut notes = vec![];
    let mut options = s.properties.as_ref().map_or_else(|| fallback.clone(), options_from);
    // A damaged footer does not tell the version; then it is that of the new store.
    options.version = s.footer.as_ref().map_or(fallback.version, |f| f.version);
    // The new table differs from the damaged one, so it gets a new identity. It retains the store's
    // id, if that is readable.
    let store = s.footer.as_ref().map_or(fallback.identity.store, |f| f.identity.store);
    options.identity = TableIdentity { store, unique: env().random() };
    if s.properties.is_none() {
        notes.push(format!(
            "the table's properties are lost: written for tree {} with what is usual there",
            options.tree
        ));
    }
    if s.properties
        .as_ref()
        .is_some_and(|p| !p.filter_prefix.is_empty() && p.filter != FilterKind::None)
    {
        notes.push(
            "written without a filter: the filter prefix is known to the program alone".into(),
        );
    }
    let mut r = SalvagedTable {
        facts: None,
        blocks: 0,
        once: s.entries_once(),
        losses: losses(&s),
        rebuilt: s.missing().into_iter().filter(|m| *m != "tombstones").collect(),
        properties: s.properties.clone(),
        notes,
    };
    let tombstones = s.tombstones.clone().unwrap_or_default();
    if s.entries() == 0 && tombstones.is_empty() {
        return Ok(r);
    }
    let mut w = None;
    let make = || -> Result<TableWriter> {
        Ok(TableWriter::new(env().create(out)?, out, new_id, options.clone()))
    };
    let (mut deletes, mut moved) = (false, BTreeMap::<u64, u64>::new());
    let tree = s.properties.as_ref().map(|p| p.tree);
    for region in s.sound(BlockKind::Data) {
        let raw = read_block(&*file, path, id, region)?;
        let bad = |what| Error::corruption(what).at(path, region.offset);
        for (key, trailer, value) in block_entries(&raw).map_err(bad)? {
            deletes |= trailer.kind() == Some(Kind::Delete);
            let taken = match blobs.filter(|_| trailer.kind() == Some(Kind::Blob)) {
                Some(files) => take_value(&key, trailer, value, files)?,
                None => Ok((trailer, Cow::Borrowed(value))),
            };
            if let (Ok((_, Cow::Owned(_))), Some(at)) = (&taken, BlobHandle::decode(value)) {
                *moved.entry(at.file).or_default() += 1;
            }
            match taken {
                Ok((trailer, value)) => match &mut w {
                    Some(w) => w,
                    none => none.insert(make()?),
                }
                .add(&key, trailer, &value)?,
                Err(e) => record_lost_value(&mut r.losses, path, tree, &key, &e),
            }
        }
        r.blocks += 1;
    }
    r.notes.extend(moved.into_iter().map(|(file, n)| {
        let values = things(n, "value", "values");
        format!("{values} of blob file {file}, which is damaged, are in the table itself now")
    }));
    if w.is_none() && tombstones.is_empty() {
        return Ok(r);
    }
    let mut w = match w {
        Some(w) => w,
        None => make()?,
    };
    // If the age of the deletions is unknown, the oldest may be of any age.
    let oldest = match &s.properties {
        Some(p) => p.oldest_tombstone_micros,
        None => (deletes || !tombstones.is_empty()).then_some(0),
    };
    w.set_tombstones(&tombstones, oldest);
    let facts = w.finish()?;
    open_file(env().open_read(out, false)?, out, new_id, 0)?.verify(None, |_| {})?;
    r.facts = Some(facts);
    Ok(r)
}

/// Returns the new table's entry for a value in a blob file. The inner error is the reason why the
/// value cannot be read.
fn take_value<'a>(
    key: &[u8],
    trailer: Trailer,
    reference: &'a [u8],
    files: &StoreBlobs<'_>,
) -> Result<Result<(Trailer, Cow<'a, [u8]>)>> {
    match files.find(key, reference) {
        Ok(v) if files.is_whole(v.place.file)? => Ok(Ok((trailer, Cow::Borrowed(reference)))),
        Ok(v) => Ok(Ok((Trailer::new(trailer.seq(), Kind::Put), Cow::Owned(v.bytes)))),
        Err(e) => Ok(Err(e)),
    }
}

/// Records the loss of an unreadable value: by its key or, if its whole file is unreadable,
/// together with adjacent ones.
fn record_lost_value(
    losses: &mut Vec<Loss>,
    path: &Path,
    tree: Option<TreeId>,
    key: &[u8],
    e: &Error,
) {
    let file = e.file().and_then(Path::file_name).map(|n| n.display().to_string());
    let file = file.map_or_else(String::new, |n| format!(" in {n}"));
    let reason = match e.offset() {
        Some(at) => format!("its value{file} at offset {at}: {}", e.message()),
        None => format!("its value{file}: {}", e.message()),
    };
    if let Some(last) = losses
        .last_mut()
        .filter(|l| e.kind() != ErrorKind::Corruption && l.what == VALUE && l.reason == reason)
    {
        last.entries = last.entries.map(|n| n + 1);
        last.keys.iter_mut().for_each(|k| k.1 = key.to_vec());
        return;
    }
    losses.push(Loss {
        tree,
        entries: Some(1),
        keys: Some((key.to_vec(), key.to_vec())),
        ..Loss::new(VALUE, path, reason)
    });
}

fn read_block(file: &dyn ReadFile, path: &Path, id: u64, r: &SurveyRegion) -> Result<Vec<u8>> {
    let mut block = vec![0; r.len as usize];
    file.read_at(r.offset, &mut block)?;
    let stored = StoredBlock::check(&block, BlockKind::Data, id, r.offset).and_then(|s| s.to_vec());
    stored.map_err(|what| block_error(what).at(path, r.offset))
}

impl SalvagedTable {
    /// Corrects the losses by the manifest's metadata of the table: its former size shows whether
    /// anything is lost at all.
    pub fn count_losses(&mut self, m: &TableMeta) {
        let values = self.losses.iter().filter(|l| l.what == VALUE);
        let values: u64 = values.filter_map(|l| l.entries).sum();
        // Entries that could be read.
        let saved = self.facts.as_ref().map_or(0, |f| f.entries) + values;
        self.once = Some(m.entries);
        if saved == m.entries {
            self.losses.retain(|l| l.what != "data");
        }
        if m.range_deletes == 0 {
            self.losses.retain(|l| l.what != "tombstones");
        }
        // If damage is known, a truncation is not the cause of the loss.
        if self.losses.iter().any(|l| l.what == "data" && l.entries.is_none() && l.len > 0) {
            self.losses.retain(|l| l.what != "data" || l.len > 0);
        }
        self.join_unknown(m, saved);
    }

    /// Joins the losses with an unknown number of entries into one, because only their sum is
    /// known.
    fn join_unknown(&mut self, m: &TableMeta, saved: u64) {
        let is_unknown = |l: &&mut Loss| l.what == "data" && l.entries.is_none();
        let known: u64 =
            self.losses.iter().filter(|l| l.what == "data").filter_map(|l| l.entries).sum();
        let Some(entries) = m.entries.checked_sub(saved + known) else { return };
        let mut unknown = self.losses.iter_mut().filter(is_unknown);
        let Some(first) = unknown.next() else { return };
        let (mut len, mut places) = (first.len, 1u64);
        let mut keys = first.keys.clone();
        for other in unknown {
            (len, places) = (len + other.len, places + 1);
            keys = keys.zip(other.keys.clone()).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        }
        (first.len, first.entries) = (len, Some(entries));
        first.keys = Some(keys.unwrap_or_else(|| (m.first_key.clone(), m.last_key.clone())));
        if places > 1 {
            first.reason = format!(
                "{}, and {} after it",
                first.reason,
                things(places - 1, "more place", "more places")
            );
        }
        self.losses.retain(|l| l.what != "data" || l.entries.is_some());
    }

    /// Returns a line about the saved entries.
    pub fn summary(&self) -> String {
        let saved = self.facts.as_ref().map_or(0, |f| f.entries);
        match self.once {
            Some(once) => format!(
                "saved {} of {} in {}",
                count(saved),
                things(once, "entry", "entries"),
                things(self.blocks, "block", "blocks")
            ),
            None => format!(
                "saved {} in {}",
                things(saved, "entry", "entries"),
                things(self.blocks, "block", "blocks")
            ),
        }
    }
}

/// A table of the new store, and how it was made.
pub enum TakenTable {
    /// It was sound and has been copied.
    Whole(Arc<Table>),
    /// Part of it could be saved.
    Part(Arc<Table>, SalvagedTable),
    /// Nothing of it could be saved.
    Nothing(SalvagedTable),
}

impl TakenTable {
    /// Returns the new table.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            TakenTable::Whole(t) | TakenTable::Part(t, _) => Some(t),
            TakenTable::Nothing(_) => None,
        }
    }
}

/// Takes table `id` from the file `from` into `out`. Copies it if it is sound and all its blobs in
/// `files` are; otherwise saves its readable entries. `seq` is the sequence number of an ingested
/// table.
///
/// # Errors
/// `NotFound` if the file is missing; `Incompatible`; I/O errors. Damage is no error.
pub fn take(
    from: &Path,
    out: &Path,
    id: u64,
    seq: Seq,
    fallback: &WriterOptions,
    files: &StoreBlobs<'_>,
) -> Result<TakenTable> {
    let to = table_path(out, id);
    let file = env().open_read(from, false)?;
    let sound = open_file(file, from, id, seq).and_then(|t| {
        t.verify(None, |_| {})?;
        files.has_all_of(&t)
    });
    match sound {
        Ok(true) => {
            copy_file(from, &to)?;
            return Ok(TakenTable::Whole(open_file(env().open_read(&to, false)?, &to, id, seq)?));
        }
        Err(e) if e.kind() != ErrorKind::Corruption => return Err(e),
        _ => {}
    }
    let r = salvage_table(from, id, &to, id, fallback, Some(files))?;
    match &r.facts {
        Some(_) => Ok(TakenTable::Part(open_file(env().open_read(&to, false)?, &to, id, seq)?, r)),
        None => Ok(TakenTable::Nothing(r)),
    }
}

/// Returns the manifest's metadata of a table, from the table's properties. Fields that only the
/// old manifest knows come from `was`.
pub fn meta_of(t: &Table, was: Option<&TableMeta>) -> TableMeta {
    let p = t.properties();
    let mut facts = p.facts(t.id(), t.identity(), t.size());
    let ingested_seq = was.map_or(0, |m| m.ingested_seq);
    if ingested_seq > 0 {
        (facts.min_seq, facts.max_seq) = (ingested_seq, ingested_seq);
    }
    TableMeta {
        facts,
        created_micros: was.map_or(p.created_micros, |m| m.created_micros),
        newest_micros: was.map_or(p.created_micros, |m| m.newest_micros),
        ingested_seq,
    }
}
