//! Writes one table file sequentially.
//!
//! Invariants:
//! - W1: entries must be in strict order (user key ascending, newest first). The writer refuses any
//!   other entry and adds nothing.
//! - W2: a block is cut before the entry that would make it larger than `block_size`. A shared
//!   prefix counts for at most a quarter of that ([counted]). A larger entry gets its own block.
//! - W3: a block is finished only when the first key of the next block is known. The flags PLAIN
//!   and CONTINUES depend on it.
//! - W4: a [copied](TableWriter::copy) block cuts the current block. At most one block in
//!   [`SHORT_EVERY`] is cut before it is half full.
//! - W5: after an error the writer must be dropped; the file is not a table.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::{BlockBuilder, MAX_RAW_KEYS, counted};
use super::block_access::WarmBlocks;
use super::copy::WholeBlock;
use super::filter;
use super::format::{BlockKind, Footer};
use super::index::{CONTINUES, DENSE, IndexBuilder, PLAIN, RAW};
use super::output::BlockOutput;
use super::properties::Properties;
use super::tombstones;
use crate::base::blob_ref::{BlobHandle, BlobUse, count_use};
use crate::base::error::{Error, Result};
use crate::base::facts::TableFacts;
use crate::base::format_version::FormatVersion;
use crate::base::hooks::{FilterPrefix, Summary, SummaryPass};
use crate::base::identity::TableIdentity;
use crate::base::key::{Kind, MAX_KEY_LEN, MAX_VALUE_LEN, Seq, Trailer, compare};
use crate::base::ops::TreeId;
use crate::base::options::{Compression, DEFAULT_BLOCK_SIZE, FilterKind};
use crate::block_cache::{Cache, FrameMut};
use crate::env::WriteFile;
use crate::range_del::tombstone::Fragments;
use crate::util::hash::key_hash;
use crate::util::sorted_map::SortedMap;

/// Options for writing a table.
#[derive(Clone)]
pub struct WriterOptions {
    /// Format version of the file.
    pub version: FormatVersion,
    /// Identity of the table: its store, and a number unique to the table.
    pub identity: TableIdentity,
    /// Tree that the table belongs to.
    pub tree: TreeId,
    /// Name of the tree; empty if unknown.
    pub tree_name: String,
    /// All log records of the tree below this position are in the table, in the tables from which
    /// it is compacted, or in older tables. 0 if unknown.
    pub log_end: u64,
    /// Number of the log's writer; 0 if unknown.
    pub log_writer: u64,
    /// Level that the table is written for.
    pub level: u8,
    /// Target decoded size of blocks in bytes, 512 to 65,536. A prefix that all keys of a block
    /// share counts up to a quarter of it.
    pub block_size: usize,
    /// Codec of the blocks.
    pub compression: Compression,
    /// Kind of filter.
    pub filter: FilterKind,
    /// Number of the highest bits dropped from each fingerprint, 0 to 7.
    pub filter_dropped: u8,
    /// If set, the filter contains prefixes of keys instead of whole keys.
    pub filter_prefix: Option<Arc<dyn FilterPrefix>>,
    /// Hook that collects facts about the table.
    pub summary: Option<Arc<dyn Summary>>,
    /// Name of the tree's merge operator; empty for none.
    pub merge_operator: String,
    /// Name of the tree's compaction filter; empty for none.
    pub compaction_filter: String,
    /// Wall clock in microseconds.
    pub created_micros: u64,
    /// Cache for finished blocks, used while it has spare memory.
    pub warm: Option<Arc<Cache>>,
}

impl WriterOptions {
    /// Allocates a cache frame for a decoded block of `len` bytes, if warming is on and memory is
    /// spare. An uncompressed (`raw`) block gets none, because it is served from the map.
    fn spare(&self, raw: bool, len: usize) -> Option<FrameMut> {
        self.warm.as_ref().filter(|_| !raw)?.spare(len)
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            version: FormatVersion::default(),
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
            merge_operator: String::new(),
            compaction_filter: String::new(),
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

/// Minimum number of blocks between two blocks that are cut less than half full so that the next
/// block can be copied.
const SHORT_EVERY: usize = 8;

/// Bytes per key that building a fuse filter takes (`xorf`). It takes 13 bytes per fingerprint,
/// with about 9 fingerprints per 8 keys, and 9 bytes per key.
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
    /// Blobs that entries refer to, by number of the blob file.
    blobs: SortedMap<u64, BlobUse>,
    props: Properties,
    /// Whether the current block begins with the last key of the previous one.
    continued: bool,
    /// Number of blocks when one was last cut before it was half full.
    short_at: usize,
    scratch: Vec<u8>,
}

debug_by!(TableWriter, "TableWriter", id, path);

impl TableWriter {
    /// Writes table `id` into the empty `file`; `path` is for error messages.
    pub fn new(file: Box<dyn WriteFile>, path: &Path, id: u64, options: WriterOptions) -> Self {
        let props = Properties {
            block_size: options.block_size as u64,
            compression: options.compression,
            created_micros: options.created_micros,
            filter_prefix: options
                .filter_prefix
                .as_ref()
                .map_or(String::new(), |h| h.name().to_owned()),
            merge_operator: options.merge_operator.clone(),
            compaction_filter: options.compaction_filter.clone(),
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
            blobs: SortedMap::new(),
            props,
            continued: false,
            short_at: 0,
            scratch: vec![],
            options,
        }
    }

    /// Adds an entry, which must come after the previous one.
    ///
    /// # Errors
    /// `InvalidArgument` for an entry out of order or out of bounds; the entry is not added. I/O
    /// errors of the file.
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
            Some(r) => self.count_blob(key, trailer, &r),
            None => self.count(key, trailer, kind, value),
        }
        if !repeats {
            self.filter_key(key);
        }
        Ok(())
    }

    /// Checks that a block may begin with `key`. It must be above all previous keys, and above the
    /// separator of the previous block. The separator may be above that block's keys.
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

    /// Adds all entries of `block` by copying its stored bytes. The block must come after the
    /// previous entry.
    ///
    /// Returns false and adds nothing if its entries should be added one by one. That is the case
    /// in three situations. The block's codec differs from this table's. Its size does not fit the
    /// table's block size. Or the current block is too small to be cut.
    ///
    /// # Errors
    /// `InvalidArgument` if the block is out of order. `Corruption` if its bytes are invalid. I/O
    /// errors of the file.
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

    /// Counts an entry whose value is in a blob file.
    fn count_blob(&mut self, key: &[u8], trailer: Trailer, r: &BlobHandle) {
        self.props.count(key, trailer.seq(), r.len as usize);
        count_use(&mut self.blobs, r);
    }

    /// Finishes the current block; `next` is the first key after it.
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

    /// Sets the table's range tombstones, and the wall clock in microseconds of the table's oldest
    /// deletion, point deletes included.
    pub fn set_tombstones(&mut self, fragments: &Fragments, oldest_tombstone_micros: Option<u64>) {
        self.tombstones = fragments.clone();
        self.props.oldest_tombstone_micros = oldest_tombstone_micros;
    }

    /// Returns the approximate file length if the table were finished now. The current block counts
    /// with its uncompressed size.
    pub fn estimated_size(&self) -> u64 {
        let bits =
            usize::from(self.options.filter.bits().saturating_sub(self.options.filter_dropped));
        let filter = self.hashes.len() * 9 / 8 * bits / 8;
        self.output.offset()
            + (self.block.raw_size() + filter + self.index.estimate()) as u64
            + 1024
    }

    /// Returns the approximate peak memory of the writer in bytes, without cached blocks. It
    /// includes the hashes of all keys, the filter construction, and the index.
    pub fn buffered(&self) -> usize {
        let hashes = size_of::<u64>() * self.hashes.capacity() + FILTER_MAKING * self.hashes.len();
        hashes + 2 * self.index.estimate()
    }

    /// Returns the user key added first; empty if there is none.
    pub fn first_key(&self) -> &[u8] {
        &self.props.first_key
    }

    /// Returns the user key added last; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        self.block.last().map_or(&self.props.last_key, |(k, _)| k)
    }

    /// Writes the remaining blocks and the footer, and syncs the file.
    ///
    /// # Errors
    /// I/O errors of the file. `InvalidArgument` if the index is too large for the format.
    pub fn finish(self) -> Result<TableFacts> {
        self.finish_warm().map(|(facts, _)| facts)
    }

    /// Like [`finish`](Self::finish). Also returns the decoded blocks that are or fit in the cache,
    /// for [`Table::adopt`](super::Table::adopt).
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
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
            version: self.options.version,
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
        // A compaction knows the age of the oldest deletion of its inputs, but not which output
        // gets it. An output without deletions must not look overdue to the policies.
        if p.deletes + p.range_deletes == 0 {
            p.oldest_tombstone_micros = None;
        }
        Ok(())
    }
}
