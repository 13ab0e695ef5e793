//! A complete inspection of one table or blob file, damaged or not. Every byte belongs to one
//! region, and losses are bounded as tightly as the remaining data allows.
//!
//! Invariants: regions follow each other without gaps from the first byte to the last. A region
//! without damage has passed its checksum and its decoder. With the index, the separators bound a
//! lost block; without it, the adjacent entries do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::fs::ReadFile;
use firn_kv::internals::base::key::{Trailer, compare};
use firn_kv::internals::range_del::tombstone::Fragments;
use firn_kv::internals::sstable::format::{BLOCK_HEADER, BlockKind, FOOTER, Footer};
use firn_kv::internals::sstable::values::blob_block;
use firn_kv::internals::sstable::walk::{TablePiece, TableWalk};
use firn_kv::internals::sstable::{
    BlockInfo, Properties, block_entries, decode_index, decode_tombstones,
};
use firn_kv::{Compression, Error, ErrorKind, Result};

use crate::store::target::footer;

/// Kind of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SurveyKind {
    /// A block.
    Block(u8),
    /// The footer.
    Footer,
    /// Bytes that cannot be identified.
    Unknown,
}

impl SurveyKind {
    /// Returns the kind of a region with a block of this kind.
    pub fn of(kind: BlockKind) -> SurveyKind {
        SurveyKind::Block(kind as u8)
    }

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            SurveyKind::Block(k) => BlockKind::from_u8(k).map_or("unknown", BlockKind::name),
            SurveyKind::Footer => "footer",
            SurveyKind::Unknown => "unknown",
        }
    }
}

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyRegion {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes, with its header.
    pub len: u64,
    /// Kind of the region.
    pub what: SurveyKind,
    /// Length of its decoded content in bytes.
    pub raw_len: u64,
    /// Whether it is compressed.
    pub packed: bool,
    /// Number of point entries; for a damaged data block the number in the index.
    pub entries: Option<u64>,
    /// First and last key of a data block; for a damaged one the widest range that it can have
    /// contained.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// Reason if it is damaged.
    pub damage: Option<&'static str>,
}

/// Results of inspecting a table or blob file.
#[derive(Default)]
pub struct Survey {
    /// Path of the file.
    pub path: PathBuf,
    /// Number that its checksums were verified with.
    pub id: u64,
    /// Length of the file in bytes.
    pub len: u64,
    /// Regions of the file.
    pub regions: Vec<SurveyRegion>,
    /// The footer.
    pub footer: Option<Footer>,
    /// The index.
    pub index: Option<Vec<BlockInfo>>,
    /// The properties.
    pub properties: Option<Properties>,
    /// The range tombstones.
    pub tombstones: Option<Fragments>,
    /// Smallest and largest sequence number of the values of a blob file.
    pub value_seqs: Option<(u64, u64)>,
}

/// Builds a survey.
struct Surveyor {
    s: Survey,
    /// Last entry of the data blocks so far.
    last: Option<(Vec<u8>, Trailer)>,
}

/// Inspects all of `file`, which is table or blob file `id`.
///
/// # Errors
/// I/O errors, and `Incompatible` for a newer format; damage is no error.
pub fn survey(file: Arc<dyn ReadFile>, path: &Path, id: u64) -> Result<Survey> {
    check_version(&*file, path, id)?;
    let len = file.len();
    let mut walk = TableWalk::new(file, path, id)?;
    let footer = walk.footer().copied();
    let s = Survey { path: path.to_path_buf(), id, len, footer, ..Survey::default() };
    let mut v = Surveyor { s, last: None };
    while let Some(piece) = walk.next()? {
        let region = match piece {
            TablePiece::Footer { offset, .. } => {
                plain(offset, FOOTER as u64, SurveyKind::Footer, None)
            }
            TablePiece::Damage { offset, len, reason, header } => {
                let what = header.map_or(SurveyKind::Unknown, |h| SurveyKind::of(h.kind));
                plain(offset, len, what, Some(reason))
            }
            TablePiece::Block { offset, header } => {
                let mut r = plain(offset, piece.len(), SurveyKind::of(header.kind), None);
                (r.raw_len, r.packed) = (header.raw_len as u64, header.codec != Compression::None);
                r.damage = match walk.raw(offset, header) {
                    Ok(raw) => v.take_block(header.kind, &raw, &mut r).err(),
                    Err(e) if e.kind() == ErrorKind::Corruption => {
                        Some("a block that does not decompress")
                    }
                    // This build lacks a codec; the file is not damaged.
                    Err(e) => return Err(e),
                };
                r
            }
        };
        v.s.regions.push(region);
    }
    v.s.split_by_index();
    v.s.bound_losses();
    Ok(v.s)
}

/// Returns an error for a newer version, which is not damage.
fn check_version(file: &dyn ReadFile, path: &Path, id: u64) -> Result<()> {
    let Some(at) = file.len().checked_sub(FOOTER as u64) else { return Ok(()) };
    let mut f = [0; FOOTER];
    file.read_at(at, &mut f)?;
    match footer(&f, path, id, at) {
        // Up to three newer versions count as newer; a larger number is damage.
        Err(e) if e.kind() == ErrorKind::Incompatible && f[61..64] == [0; 3] && f[60] < 5 => Err(e),
        _ => Ok(()),
    }
}

fn plain(offset: u64, len: u64, what: SurveyKind, damage: Option<&'static str>) -> SurveyRegion {
    SurveyRegion { offset, len, what, raw_len: 0, packed: false, entries: None, keys: None, damage }
}

impl Surveyor {
    fn take_block(
        &mut self,
        kind: BlockKind,
        raw: &[u8],
        r: &mut SurveyRegion,
    ) -> Result<(), &'static str> {
        match kind {
            BlockKind::Data => return self.take_data(raw, r),
            BlockKind::Index => {
                self.s.index =
                    Some(decode_index(raw, r.offset).ok_or("an index that cannot be read")?);
            }
            BlockKind::Tombstones => {
                self.s.tombstones =
                    Some(decode_tombstones(raw).ok_or("tombstones that cannot be read")?);
            }
            BlockKind::Properties => {
                self.s.properties =
                    Some(Properties::decode(raw).ok_or("properties that cannot be read")?);
            }
            BlockKind::Blob => return self.take_value(raw, r),
            BlockKind::Filter => {}
        }
        Ok(())
    }

    fn take_value(&mut self, raw: &[u8], r: &mut SurveyRegion) -> Result<(), &'static str> {
        let (key, trailer, _) = blob_block(raw)?;
        if self.last.as_ref().is_some_and(|(last, _)| last.as_slice() > key) {
            return Err("values out of order");
        }
        r.keys = Some((key.to_vec(), key.to_vec()));
        r.entries = Some(1);
        self.last = Some((key.to_vec(), trailer));
        let (least, most) = self.s.value_seqs.unwrap_or((u64::MAX, 0));
        self.s.value_seqs = Some((least.min(trailer.seq()), most.max(trailer.seq())));
        Ok(())
    }

    fn take_data(&mut self, raw: &[u8], r: &mut SurveyRegion) -> Result<(), &'static str> {
        let mut n = 0;
        let mut first = None;
        let mut last: Option<(Vec<u8>, Trailer)> = None;
        for (key, trailer, _) in block_entries(raw)? {
            let before = last.as_ref().or(self.last.as_ref());
            if before.is_some_and(|(k, t)| compare(k, *t, &key, trailer).is_ge()) {
                return Err("entries out of order");
            }
            first.get_or_insert_with(|| key.clone());
            last = Some((key, trailer));
            n += 1;
        }
        if let (Some(first), Some((last, _))) = (first, &last) {
            r.keys = Some((first, last.clone()));
        }
        r.entries = Some(n);
        self.last = last.or(self.last.take());
        Ok(())
    }
}

impl Survey {
    /// Splits damaged regions at the data blocks in the index, so that each lost block is one
    /// region.
    fn split_by_index(&mut self) {
        let Some(index) = &self.index else { return };
        let first = self.first_bound();
        let mut out: Vec<SurveyRegion> = Vec::with_capacity(self.regions.len());
        let mut next = 0;
        for r in self.regions.drain(..) {
            let end = r.offset + r.len;
            if r.damage.is_none() {
                out.push(r);
                continue;
            }
            let mut at = r.offset;
            while index.get(next).is_some_and(|b| b.offset + (b.len as u64) <= at) {
                next += 1;
            }
            while let Some(b) = index.get(next).filter(|b| b.offset < end && at < end) {
                let to = (b.offset + b.len as u64).min(end);
                let what = SurveyKind::of(BlockKind::Data);
                let mut lost = SurveyRegion { what, ..plain(at, to - at, what, r.damage) };
                lost.entries = Some(b.entries as u64);
                let before = next
                    .checked_sub(1)
                    .map_or_else(|| first.clone(), |p| index[p].separator.clone());
                lost.keys = Some((before, b.separator.clone()));
                out.push(lost);
                at = to;
                next += 1;
            }
            if at < end {
                out.push(SurveyRegion { offset: at, len: end - at, ..r });
            }
        }
        self.regions = out;
    }

    fn first_bound(&self) -> Vec<u8> {
        self.properties.as_ref().map_or_else(Vec::new, |p| p.first_key.clone())
    }

    /// Bounds losses by the adjacent sound blocks where the index has no bounds.
    fn bound_losses(&mut self) {
        let data = SurveyKind::of(self.content());
        let lost = |r: &SurveyRegion| {
            r.damage.is_some()
                && r.keys.is_none()
                && (r.what == data || r.what == SurveyKind::Unknown)
        };
        let mut after = self.properties.as_ref().map(|p| p.last_key.clone());
        let mut bounds = vec![];
        for r in self.regions.iter().rev() {
            if let Some(k) = r.keys.as_ref().filter(|_| r.damage.is_none()) {
                after = Some(k.0.clone());
            }
            bounds.push(if lost(r) { after.clone() } else { None });
        }
        let (mut before, mut in_data) = (self.first_bound(), true);
        for (r, after) in self.regions.iter_mut().zip(bounds.into_iter().rev()) {
            if let Some(k) = r.keys.as_ref().filter(|_| r.damage.is_none()) {
                before.clone_from(&k.1);
            }
            in_data &= r.damage.is_some() || r.what == data;
            if let Some(after) = after.filter(|_| in_data && lost(r)) {
                r.keys = Some((before.clone(), after));
            }
        }
    }

    /// Reports whether it is a blob file, by its footer, or without one by its blocks.
    pub fn is_of_values(&self) -> bool {
        let by_blocks = || self.sound(BlockKind::Blob).next().is_some();
        self.footer.as_ref().map_or_else(by_blocks, Footer::is_of_values)
    }

    /// Returns the kind of the blocks with the file's data.
    fn content(&self) -> BlockKind {
        if self.is_of_values() { BlockKind::Blob } else { BlockKind::Data }
    }

    /// Iterates over the damaged regions.
    pub fn damaged(&self) -> impl Iterator<Item = &SurveyRegion> {
        self.regions.iter().filter(|r| r.damage.is_some())
    }

    /// Iterates over the sound regions of one kind.
    pub fn sound(&self, kind: BlockKind) -> impl Iterator<Item = &SurveyRegion> {
        self.regions.iter().filter(move |r| r.damage.is_none() && r.what == SurveyKind::of(kind))
    }

    /// Returns the number of readable point entries or values.
    pub fn entries(&self) -> u64 {
        self.sound(self.content()).filter_map(|r| r.entries).sum()
    }

    /// Returns the former number of point entries, if the properties or the index have it.
    pub fn entries_once(&self) -> Option<u64> {
        let index = || self.index.as_ref().map(|i| i.iter().map(|b| b.entries as u64).sum());
        self.properties.as_ref().map(|p| p.entries).or_else(index)
    }

    /// Returns the names of missing parts: parts that the footer mentions or that every table has.
    pub fn missing(&self) -> Vec<&'static str> {
        let is_absent = |kind| self.sound(kind).next().is_none();
        let (mut filter, mut tombstones) = (false, false);
        if let Some(f) = &self.footer {
            (filter, tombstones) = (f.filter_len > 0, f.tombstones_len > 0);
        }
        if let Some(p) = &self.properties {
            filter |= p.filter != firn_kv::FilterKind::None;
            tombstones |= p.range_deletes > 0;
        }
        let parts = [
            (filter && is_absent(BlockKind::Filter), "filter"),
            (tombstones && is_absent(BlockKind::Tombstones), "tombstones"),
            (is_absent(BlockKind::Index) && !self.is_of_values(), "index"),
            (is_absent(BlockKind::Properties), "properties"),
            (self.footer.is_none(), "footer"),
        ];
        parts.into_iter().filter(|p| p.0).map(|p| p.1).collect()
    }

    /// Returns the damage as errors of the engine, with file, offset, kind of block and keys.
    pub fn errors(&self) -> Vec<Error> {
        let error = |r: &SurveyRegion| {
            let mut e = Error::corruption(r.damage.unwrap_or_default())
                .at(&self.path, r.offset)
                .block(r.what.name());
            if let Some((a, b)) = &r.keys {
                e = e.keys(a, b);
            }
            e
        };
        if self.len == 0 {
            return vec![Error::corruption("the file is empty").at(&self.path, 0)];
        }
        let mut all: Vec<Error> = self.damaged().map(error).collect();
        for part in self.missing() {
            if !all.iter().any(|e| e.block_kind() == Some(part)) {
                all.push(
                    Error::corruption("it is not there, or damaged beyond recognition")
                        .at(&self.path, self.len)
                        .block(part),
                );
            }
        }
        all
    }

    /// Returns the number of bytes of block headers.
    pub fn header_bytes(&self) -> u64 {
        self.regions.iter().filter(|r| r.damage.is_none() && r.what != SurveyKind::Footer).count()
            as u64
            * BLOCK_HEADER as u64
    }
}
