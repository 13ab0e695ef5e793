//! Writes one table file, front to back.
//!
//! Invariants:
//! - W1: entries are taken strictly in order (user key ascending, newest first); anything else is
//!   refused and nothing is added.
//! - W2: a block is cut before the entry that would make it larger than `block_size`, of a shared
//!   prefix no more than a quarter of that [counted]; an entry that is larger by itself gets a
//!   block of its own.
//! - W3: a block is only finished when its successor's first key is known, which is what the flags
//!   PLAIN and CONTINUES tell of.
//! - W4: a block that is [copied](TableWriter::copy) cuts the one in the making. At most one block
//!   in [`SHORT_EVERY`] is cut before it is half full.
//! - W5: after an error the writer must be dropped; the file is not a table.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::{BlockBuilder, MAX_RAW_KEYS, counted};
use super::copy::WholeBlock;
use super::filter;
use super::format::{BlockKind, Footer};
use super::index::{CONTINUES, DENSE, IndexBuilder, PLAIN, RAW};
use super::output::BlockOutput;
use super::properties::Properties;
use super::table::WarmBlocks;
use super::tombstones;
use crate::base::blob_ref::{BlobHandle, BlobUse, count_use};
use crate::base::error::{Error, Result};
use crate::base::facts::TableFacts;
use crate::base::hash::key_hash;
use crate::base::hooks::{FilterPrefix, Summary, SummaryPass};
use crate::base::identity::TableIdentity;
use crate::base::key::{Kind, MAX_KEY_LEN, MAX_VALUE_LEN, Seq, Trailer, compare};
use crate::base::ops::TreeId;
use crate::base::options::{Compression, DEFAULT_BLOCK_SIZE, FilterKind};
use crate::base::tombstone::Fragments;
use crate::cache::{Cache, FrameMut};
use crate::env::WriteFile;

/// How a table is written.
#[derive(Clone)]
pub struct WriterOptions {
    /// Which table it is to be: of which store, and a number that nobody else draws.
    pub identity: TableIdentity,
    /// Tree that the table belongs to.
    pub tree: TreeId,
    /// The tree's name, empty when it is not known.
    pub tree_name: String,
    /// What the log holds of the tree below this position is in the table, in those that it is made
    /// of, or in older ones; 0 when that is not known.
    pub log_end: u64,
    /// The number of the log's writer; 0 when it is not known.
    pub log_writer: u64,
    /// Level that it is written for.
    pub level: u8,
    /// Decoded size that blocks aim for, in bytes: 512 to 65,536. A prefix that all keys of a block
    /// share counts up to a quarter of it.
    pub block_size: usize,
    /// How blocks are stored.
    pub compression: Compression,
    /// The filter.
    pub filter: FilterKind,
    /// How many of the highest bits of its fingerprints are dropped, 0 to 7.
    pub filter_dropped: u8,
    /// Puts prefixes of keys into the filter instead of whole keys.
    pub filter_prefix: Option<Arc<dyn FilterPrefix>>,
    /// Collects facts about the table.
    pub summary: Option<Arc<dyn Summary>>,
    /// Name of the tree's merge hook, empty for none.
    pub merge: String,
    /// Name of the tree's purge hook, empty for none.
    pub purge: String,
    /// Wall clock in microseconds.
    pub created_micros: u64,
    /// The cache that finished blocks go into as long as it has room to spare.
    pub warm: Option<Arc<Cache>>,
}

impl WriterOptions {
    /// A frame of the cache for a decoded block of so many bytes, if that is wanted and there is
    /// room. A block that is stored as it is will be served from the map.
    fn spare(&self, raw: bool, len: usize) -> Option<FrameMut> {
        self.warm.as_ref().filter(|_| !raw)?.spare(len)
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            identity: TableIdentity::default(),
            tree: 0,
            tree_name: String::new(),
            log_end: 0,
            log_writer: 0,
            level: 0,
            block_size: DEFAULT_BLOCK_SIZE,
            compression: Compression::Lz4,
            filter: FilterKind::Fuse8,
            filter_dropped: 0,
            filter_prefix: None,
            summary: None,
            merge: String::new(),
            purge: String::new(),
            created_micros: 0,
            warm: None,
        }
    }
}

impl fmt::Debug for WriterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableOptions")
            .field("tree", &self.tree)
            .field("level", &self.level)
            .field("block_size", &self.block_size)
            .field("compression", &self.compression)
            .field("filter", &self.filter)
            .field("filter_dropped", &self.filter_dropped)
            .field("filter_prefix", &self.filter_prefix.as_ref().map(|h| h.name().to_owned()))
            .field("summary", &self.summary.as_ref().map(|h| h.name().to_owned()))
            .finish_non_exhaustive()
    }
}

/// A block less than half full is cut, so that the next one can be copied, only where so many
/// blocks have come since the last such one.
const SHORT_EVERY: usize = 8;

/// Bytes for each key that the construction of a fuse filter takes (`xorf`): 13 for each fingerprint,
/// of which there are some 9 for 8 keys, and 9 for each key.
const FILTER_MAKING: usize = 24;

/// Writes one table file.
pub struct TableWriter {
    output: BlockOutput,
    path: PathBuf,
    id: u64,
    options: WriterOptions,
    block: BlockBuilder,
    raw: Vec<u8>,
    index: IndexBuilder,
    hashes: Vec<u64>,
    warm: WarmBlocks,
    tombstones: Fragments,
    summary: Option<Box<dyn SummaryPass>>,
    /// What entries refer to, by number of the value file.
    blobs: BTreeMap<u64, BlobUse>,
    props: Properties,
    /// Whether the block in the making begins with the key that the one before ended with.
    continued: bool,
    /// How many blocks there were when one was cut before it was half full.
    short_at: usize,
    scratch: Vec<u8>,
}

debug_by!(TableWriter, "TableWriter", id, path);

impl TableWriter {
    /// Writes table `id` into the empty `file`; `path` is for errors.
    pub fn new(file: Box<dyn WriteFile>, path: &Path, id: u64, options: WriterOptions) -> Self {
        let props = Properties {
            block_size: options.block_size as u64,
            compression: options.compression,
            created_micros: options.created_micros,
            filter_prefix: options
                .filter_prefix
                .as_ref()
                .map_or(String::new(), |h| h.name().to_owned()),
            merge: options.merge.clone(),
            purge: options.purge.clone(),
            summary: options.summary.as_ref().map_or(String::new(), |h| h.name().to_owned()),
            level: options.level as u64,
            min_seq: Seq::MAX,
            log_end: options.log_end,
            log_writer: options.log_writer,
            tree: options.tree,
            tree_name: options.tree_name.clone(),
            writer: concat!("firn-kv ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Properties::default()
        };
        TableWriter {
            output: BlockOutput::new(file, id),
            path: path.to_path_buf(),
            id,
            block: BlockBuilder::default(),
            raw: vec![],
            index: IndexBuilder::default(),
            hashes: vec![],
            warm: WarmBlocks::default(),
            tombstones: Fragments::default(),
            summary: options.summary.as_ref().map(|s| s.start()),
            blobs: BTreeMap::new(),
            props,
            continued: false,
            short_at: 0,
            scratch: vec![],
            options,
        }
    }

    /// Adds an entry, which must come after the one before.
    ///
    /// # Errors
    /// `InvalidArgument` for an entry out of order or out of bounds (it is not added); whatever the
    /// file says.
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        let Some(kind) = trailer.kind() else { return Err(Error::invalid("an entry of no kind")) };
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            return Err(Error::invalid(format!(
                "an entry with a key of {} and a value of {} bytes",
                key.len(),
                value.len()
            )));
        }
        let blob = if kind == Kind::Blob { Some(self.reference(value)?) } else { None };
        let mut repeats = false;
        if let Some((last, last_trailer)) = self.block.last() {
            match compare(last, last_trailer, key, trailer) {
                std::cmp::Ordering::Less => repeats = last == key,
                _ => {
                    return Err(Error::invalid("entries out of order")
                        .in_file(&self.path)
                        .keys(last, key));
                }
            }
        } else {
            self.begin(key)?;
        }
        let mut fit = self.block.fit(key, trailer, value.len());
        let aim = self.options.block_size;
        let full = counted(fit.size, fit.prefix, aim) > aim
            || self.block.raw_keys() + key.len() > MAX_RAW_KEYS;
        if full && !self.block.is_empty() {
            self.cut(Some(key))?;
            fit = self.block.fit(key, trailer, value.len());
        }
        self.block.add(fit, key, trailer, value);
        match blob {
            Some(r) => self.count_apart(key, trailer, &r),
            None => self.count(key, trailer, kind, value),
        }
        if !repeats {
            self.filter_key(key);
        }
        Ok(())
    }

    /// Checks that a block may begin with `key`: behind all keys so far, and behind the separator
    /// of the block before, which may lie behind that block's keys.
    fn begin(&mut self, key: &[u8]) -> Result<()> {
        if self.props.entries == 0 {
            self.props.first_key = key.to_vec();
        } else if self.last_key() >= key || self.index.last_separator() >= Some(key) {
            return Err(Error::invalid("entries out of order")
                .in_file(&self.path)
                .keys(self.last_key(), key));
        }
        Ok(())
    }

    #[inline]
    fn filter_key(&mut self, key: &[u8]) {
        if self.options.filter == FilterKind::None {
            return;
        }
        let hashed = self
            .options
            .filter_prefix
            .as_ref()
            .map_or(key.len(), |h| h.prefix_len(key).min(key.len()));
        let hash = key_hash(&key[..hashed]);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Adds all entries of `block`, which must come after the entry before, by copying it as it is
    /// stored. False, and nothing is added, where its entries should rather be added one by one: it
    /// is stored in another way or cut to another size than this table's blocks, or the block in
    /// the making is too small to be cut.
    ///
    /// # Errors
    /// `InvalidArgument` when the block is out of order, `Corruption` when its bytes are not sound;
    /// whatever the file says.
    pub fn copy(&mut self, block: &WholeBlock<'_>) -> Result<bool> {
        let (aim, half) = (self.options.block_size, self.options.block_size / 2);
        let size = counted(block.size(), block.prefix_len(), aim);
        let alike = block.compression() == self.options.compression && self.summary.is_none();
        let sized = size >= half && (size <= aim || block.len() == 1);
        let short = !self.block.is_empty() && self.block.raw_size() < half;
        if !alike || !sized || (short && self.index.len() < self.short_at + SHORT_EVERY) {
            return Ok(false);
        }
        let mut key = std::mem::take(&mut self.scratch);
        block.check_bounds(&mut key)?;
        if short {
            self.short_at = self.index.len();
        }
        self.begin(block.first_key())?;
        self.cut(Some(block.first_key()))?;
        for i in 0..block.len() {
            let (trailer, value_len) = block.entry(i, &mut key);
            self.props.count(&key, trailer.seq(), value_len);
            self.filter_key(&key);
        }
        let output = &mut self.output;
        let (len, raw) = block.stored(|s| output.copy(&s))??;
        let number = self.index.len() as u32;
        if let Some(block) = block.inherited(number).filter(|_| self.options.warm.is_some()) {
            self.warm.inherited.push(block);
        } else if let Some(mut frame) = self.options.spare(raw, block.size())
            && block.decode_into(&mut frame).is_ok()
        {
            self.warm.frames.push((number, frame.freeze()));
        }
        let flags = PLAIN | if raw { RAW } else { 0 };
        self.index.add_separated(block.separator(), len, block.len() as u32, flags);
        self.props.last_key.clear();
        self.props.last_key.extend_from_slice(&key);
        self.scratch = key;
        Ok(true)
    }

    #[inline]
    fn count(&mut self, key: &[u8], trailer: Trailer, kind: Kind, value: &[u8]) {
        match kind {
            Kind::Put | Kind::Blob => {}
            Kind::Delete => self.props.deletes += 1,
            Kind::Merge => self.props.merges += 1,
        }
        self.props.count(key, trailer.seq(), value.len());
        if let Some(s) = &mut self.summary {
            s.add(key, kind, value);
        }
    }

    fn reference(&self, value: &[u8]) -> Result<BlobHandle> {
        let sound = BlobHandle::decode(value).filter(|_| self.summary.is_none());
        sound.ok_or_else(|| {
            Error::invalid("an entry without its value, or in a table with a summary")
        })
    }

    /// Counts an entry whose value lies apart.
    fn count_apart(&mut self, key: &[u8], trailer: Trailer, r: &BlobHandle) {
        self.props.count(key, trailer.seq(), r.len as usize);
        count_use(&mut self.blobs, r);
    }

    /// Finishes the block in the making; `next` is the first key behind it.
    fn cut(&mut self, next: Option<&[u8]>) -> Result<()> {
        let Some((last, _)) = self.block.last() else { return Ok(()) };
        let continues = next == Some(last);
        let last = last.to_vec();
        let facts = self.block.finish(!continues && !self.continued, &mut self.raw);
        let (len, raw) = self.output.put(BlockKind::Data, self.options.compression, &self.raw)?;
        let mut flags = 0;
        for (flag, set) in
            [(PLAIN, facts.plain), (DENSE, facts.dense), (CONTINUES, continues), (RAW, raw)]
        {
            flags |= if set { flag } else { 0 };
        }
        let number = self.index.len() as u32;
        if let Some(mut frame) = self.options.spare(raw, self.raw.len()) {
            frame.copy_from_slice(&self.raw);
            self.warm.frames.push((number, frame.freeze()));
        }
        self.index.add(&last, next, len, facts.entries, flags);
        self.continued = continues;
        self.props.last_key = last;
        Ok(())
    }

    /// Sets the table's range tombstones, and the wall clock in microseconds of the oldest deletion
    /// that the table will hold, point deletes included.
    pub fn set_tombstones(&mut self, fragments: &Fragments, oldest_tombstone_micros: Option<u64>) {
        self.tombstones = fragments.clone();
        self.props.oldest_tombstone_micros = oldest_tombstone_micros;
    }

    /// Roughly how long the file would be if it were finished now; the block in the making is
    /// counted before compression.
    pub fn estimated_size(&self) -> u64 {
        let bits =
            usize::from(self.options.filter.bits().saturating_sub(self.options.filter_dropped));
        let filter = self.hashes.len() * 9 / 8 * bits / 8;
        self.output.offset()
            + (self.block.raw_size() + filter + self.index.estimate()) as u64
            + 1024
    }

    /// Roughly how many bytes of memory it will have taken when the file is finished, beside blocks
    /// that are in the cache: the hashes of all keys, what makes a filter of them, and the index.
    pub fn buffered(&self) -> usize {
        let hashes = size_of::<u64>() * self.hashes.capacity() + FILTER_MAKING * self.hashes.len();
        hashes + 2 * self.index.estimate()
    }

    /// The user key added first; empty when there is none.
    pub fn first_key(&self) -> &[u8] {
        &self.props.first_key
    }

    /// The user key added last; empty when there is none.
    pub fn last_key(&self) -> &[u8] {
        self.block.last().map_or(&self.props.last_key, |(k, _)| k)
    }

    /// Writes what remains and syncs the file.
    ///
    /// # Errors
    /// Whatever the file says; `InvalidArgument` when the index is too large for the format.
    pub fn finish(self) -> Result<TableFacts> {
        self.finish_warm().map(|(facts, _)| facts)
    }

    /// The same; gives the decoded blocks that the cache has or had room for too, for
    /// [`Table::adopt`](super::Table::adopt).
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_warm(mut self) -> Result<(TableFacts, WarmBlocks)> {
        self.cut(None)?;
        let data_len = self.output.offset();
        let filter = if self.hashes.is_empty() {
            None
        } else {
            filter::build(self.options.filter, self.options.filter_dropped, &mut self.hashes)
        };
        (self.props.filter, self.props.filter_dropped) = match filter {
            Some(_) => (self.options.filter, self.options.filter_dropped),
            None => (FilterKind::None, 0),
        };
        self.props.filter_keys = if filter.is_some() { self.hashes.len() as u64 } else { 0 };
        let filter_len = match filter {
            Some(f) => self.put(BlockKind::Filter, Compression::None, &f)?,
            None => 0,
        };
        let tombstones_len = if self.tombstones.is_empty() {
            0
        } else {
            let block = tombstones::encode(&self.tombstones);
            self.put(BlockKind::Tombstones, self.options.compression, &block)?
        };
        let index = self.index.finish();
        let index_len = self.put(BlockKind::Index, self.options.compression, &index)?;
        self.complete_properties()?;
        let properties = self.props.encode();
        let properties_len =
            self.put(BlockKind::Properties, self.options.compression, &properties)?;
        let footer = Footer {
            id: self.id,
            data_len,
            filter_len,
            tombstones_len,
            index_len,
            properties_len,
            identity: self.options.identity,
        };
        let size = self.output.finish(&footer)?;
        Ok((self.props.facts(self.id, self.options.identity, size), self.warm))
    }

    fn put(&mut self, kind: BlockKind, codec: Compression, raw: &[u8]) -> Result<u32> {
        self.output.put(kind, codec, raw).map(|(len, _)| len)
    }

    fn complete_properties(&mut self) -> Result<()> {
        let p = &mut self.props;
        p.data_blocks = self.index.len() as u64;
        p.values = self.blobs.values().copied().collect();
        if let Some(s) = self.summary.take() {
            p.summary_bytes = s.finish();
            if p.summary_bytes.len() > 64 << 10 {
                return Err(
                    Error::invalid("a summary hook gave more than 64 KiB").in_file(&self.path)
                );
            }
        }
        let fragments = self.tombstones.as_slice();
        if let (Some(first), Some(last)) = (fragments.first(), fragments.last()) {
            if p.entries == 0 || first.start < p.first_key {
                p.first_key = first.start.clone();
            }
            if p.entries == 0 || last.end > p.last_key {
                p.last_key = last.end.clone();
            }
        }
        for &seq in fragments.iter().flat_map(|f| &f.seqs) {
            p.range_deletes += 1;
            p.min_seq = p.min_seq.min(seq);
            p.max_seq = p.max_seq.max(seq);
        }
        if p.entries + p.range_deletes == 0 {
            p.min_seq = 0;
        }
        // A job knows how old the oldest deletion of its inputs is, not which table it comes to:
        // one without any must not look overdue to the policies.
        if p.deletes + p.range_deletes == 0 {
            p.oldest_tombstone_micros = None;
        }
        Ok(())
    }
}
