//! Reads one table file: point lookups, and block access for cursors.
//!
//! Invariants:
//! - T1: index, filter, range tombstones and properties are read when the table is opened. They
//!   stay in memory; [`Table::memory`] counts them.
//! - T2: a decoded block is validated (checksum, then structure) once, before any other code sees
//!   it. This happens when it is decoded, or on first access through the file map. A block that
//!   fails validation is an error on every access, never a wrong answer. Exception: a cursor may
//!   read the key of a block with one large entry before it decodes the value. Then an invalid
//!   value is an error when the value is read.
//! - T3: an uncompressed block of a mapped file is served from the map and not cached, while
//!   [`Maps`] allow it. Every other block is decoded into a frame of the cache. The cache slot with
//!   the block's number points to this frame.
//! - T4: a block that is not in memory costs at most one device read, whether it is served from the
//!   map or decoded. A scan reads several blocks at once.
//!
//! A point lookup searches the index (one binary search over 8-byte heads) and loads the slot. Then
//! it searches the block (one binary search) and reads the entry.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block_access::{
    BlockPlace, HeldBlock, LoadedBytes, Maps, TableValue, WarmBlocks, decode_into, part, validate,
};
use super::filter::BlockFilter;
use super::format::{BLOCK_HEADER, BlockKind, FOOTER, Footer, StoredBlock};
use super::index::{BlockIndex, BlockInfo, CONTINUES, RAW};
use super::properties::Properties;
use super::search::{Block, prefetch};
use super::tombstones;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::base::identity::TableIdentity;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::options::Compression;
use crate::block_cache::{Cache, CacheSlots, CacheStay, FrameRef, InheritedBlock};
use crate::counters::reads::ReadCounters;
use crate::env::{FileMap, ReadFile};
use crate::range_del::tombstone::Fragments;
use crate::util::sync::Mutex;
use crate::util::sync::epoch::{self, Guard};

/// An open table.
pub struct Table {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) path: PathBuf,
    pub(super) id: u64,
    cache: Arc<Cache>,
    slots: Arc<CacheSlots>,
    /// Large blocks without their values; empty if no block is large.
    stubs: Arc<CacheSlots>,
    pub(super) index: BlockIndex,
    /// Map of the file, from which blocks are served or decoded. It needs no open file.
    map: Option<Arc<dyn FileMap>>,
    /// Whether `maps` can allow some block to be served from the map.
    mapped: bool,
    maps: Arc<Maps>,
    /// One bit per block: the block passed validation in the map.
    checked: Box<[AtomicU64]>,
    pub(super) filter: Option<BlockFilter>,
    /// Whether the table has a filter that is not used.
    pub(super) filter_forgotten: bool,
    tombstones: Arc<Fragments>,
    lift: Seq,
    properties: Properties,
    format: FormatVersion,
    identity: TableIdentity,
    /// Blocks copied unchanged from other tables, until [`inherit`](Self::inherit).
    heritage: Mutex<Vec<InheritedBlock>>,
    /// Read counters, shared by all tables of the tree.
    reads: Arc<ReadCounters>,
}

debug_by!(Table, "Table", id, path);

/// An entry that a point lookup found.
pub struct TableHit<'g> {
    /// Sequence number and kind.
    pub trailer: Trailer,
    table: &'g Table,
    block: usize,
    held: HeldBlock<'g>,
    value: Range<u32>,
}

debug_by!(TableHit<'_>, "TableHit", trailer, block);

impl TableHit<'_> {
    /// Returns the value; it is empty for deletes.
    #[inline]
    pub fn value(&self) -> &[u8] {
        part(self.held.bytes(), self.value.start as usize..self.value.end as usize)
    }

    /// Returns the value with its own reference, independent of the guard.
    pub fn pin(&self) -> TableValue {
        match &self.held {
            HeldBlock::Guarded(f) => TableValue::frame(f.to_ref(), self.value.clone()),
            HeldBlock::Owned(f) => TableValue::frame(f.clone(), self.value.clone()),
            HeldBlock::Map(_) => self.table.map_value(self.block, self.value.clone()),
        }
    }
}

impl Table {
    /// Opens the table `id` in `file`; `path` is for error messages. Reads only footer, properties,
    /// index, filter and range tombstones, so the cost depends on their size only.
    ///
    /// # Errors
    /// `Corruption` with file and offset if any part is invalid. `Incompatible` for a newer format,
    /// whatever else the file contains.
    pub fn open(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
    ) -> Result<Arc<Table>> {
        Self::open_ingested(file, path, id, cache, 0)
    }

    /// Opens a table that may be ingested. The entries of an ingested table are puts of distinct
    /// keys without sequence numbers. All of them have `seq`, which only the manifest stores. `seq`
    /// is 0 for other tables.
    ///
    /// # Errors
    /// Those of [`open`](Table::open).
    pub fn open_ingested(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
        seq: Seq,
    ) -> Result<Arc<Table>> {
        Self::open_with(file, path, id, cache, seq, Maps::new(true))
    }

    /// Like [`open_ingested`](Table::open_ingested), for a table whose map is used as `maps` say.
    ///
    /// # Errors
    /// Those of [`open`](Table::open).
    pub fn open_with(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
        seq: Seq,
        maps: Arc<Maps>,
    ) -> Result<Arc<Table>> {
        let Some(offset) = file.len().checked_sub(FOOTER as u64) else {
            return Err(Error::corruption("too short for a table file")
                .at(path, 0)
                .block("footer"));
        };
        let mut f = [0; FOOTER];
        file.read_at(offset, &mut f)?;
        let footer = Footer::decode(&f, path, id, offset)?;
        if footer.is_of_values() {
            let e = Error::corruption("this is a blob file, where a table should be");
            return Err(e.at(path, offset).block("footer"));
        }
        let part = |kind, offset, len: u32| BlockPlace {
            file: &*file,
            path,
            id,
            kind,
            offset,
            len: len as usize,
        };
        let properties = part(BlockKind::Properties, footer.properties_at(), footer.properties_len)
            .raw(|b| Properties::decode(b).ok_or("properties that cannot be read"))?;
        let index = part(BlockKind::Index, footer.index_at(), footer.index_len).raw(|b| {
            BlockIndex::decode(b, footer.data_len).ok_or("an index that cannot be read")
        })?;
        let filter = match footer.filter_len {
            0 => None,
            len => Some(part(BlockKind::Filter, footer.data_len, len).raw(BlockFilter::decode)?),
        };
        let tombstones = match footer.tombstones_len {
            0 => Arc::default(),
            len => part(BlockKind::Tombstones, footer.tombstones_at(), len)
                .raw(|b| tombstones::decode(b).ok_or("tombstones that cannot be read"))
                .map(Arc::new)?,
        };
        let map = if index.any_raw() || maps.decodes() { file.map() } else { None };
        let mapped = index.any_raw()
            && map.as_ref().is_some_and(|m| m.bytes().len() as u64 >= footer.data_len);
        let checked = if mapped {
            (0..index.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
        } else {
            Box::default()
        };
        let slots =
            Arc::new(CacheSlots::of_file(footer.identity.unique.wrapping_add(id), index.len()));
        let any_large = (0..index.len()).any(|i| index.is_large(i));
        let stubs = Arc::new(CacheSlots::new(if any_large { index.len() } else { 0 }));
        let path = path.to_path_buf();
        Ok(Arc::new(Table {
            file,
            path,
            id,
            cache,
            slots,
            stubs,
            index,
            map,
            mapped,
            maps,
            checked,
            filter,
            filter_forgotten: false,
            tombstones,
            properties,
            format: footer.version,
            identity: footer.identity,
            heritage: Mutex::default(),
            reads: Arc::default(),
            lift: seq,
        }))
    }

    /// Sets the counters of all reads from now on.
    pub fn count_reads(&mut self, reads: Arc<ReadCounters>) {
        self.reads = reads;
    }

    /// Counts where the sampled search for `key` will find its block. A block that must be read is
    /// counted by the code that reads it.
    pub fn count_search(&self, key: &[u8], guard: &Guard) {
        let i = self.index.find(key);
        if i < self.index.len() && (self.is_mapped(i) || self.slots.peek(i, guard).is_some()) {
            self.count_block(self.is_mapped(i));
        }
    }

    /// Counts where a sampled cursor finds a block.
    #[cold]
    pub(super) fn count_block(&self, is_mapped: bool) {
        if is_mapped { self.reads.block_was_mapped() } else { self.reads.block_was_cached() }
    }

    /// Stops using the filter. Used when the filter's prefix function is unknown.
    pub fn forget_filter(&mut self) {
        self.filter_forgotten |= self.filter.take().is_some();
    }

    /// Reports whether the table may contain a key with this hash (of the key, or of its filter
    /// prefix). `false` is always correct. Returns true if there is no filter.
    // Always: a get of a missing key consists mostly of this.
    #[inline(always)]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|f| f.may_contain(hash))
    }

    /// Returns the newest version of `key` that a reader at `read` sees. If `hash` is given,
    /// consults the filter first. Pass `None` if the filter was already consulted.
    ///
    /// # Errors
    /// `Corruption` with file and offset if the block that must contain the key is invalid.
    #[inline]
    pub fn get<'g>(
        &'g self,
        key: &[u8],
        hash: Option<u64>,
        read: Seq,
        guard: &'g Guard,
    ) -> Result<Option<TableHit<'g>>> {
        if hash.is_some_and(|h| !self.may_contain(h)) {
            return Ok(None);
        }
        let i = self.index.find(key);
        if i >= self.index.len() {
            return Ok(None);
        }
        let at = Trailer::at(read);
        let held = self.block(i, guard)?;
        let (hit, past) = self.find_in(i, held, key, at)?;
        if past && self.index.flags(i) & CONTINUES != 0 {
            return self.get_in_run(i, key, at, guard);
        }
        Ok(hit)
    }

    /// Returns the block that may contain `key` and prefetches its cache slot. This is the first of
    /// three steps that prefetch the memory a lookup needs. None of the steps changes state or
    /// fails.
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let i = self.index.find(key);
        self.slots.prefetch(i);
        (i < self.index.len()).then_some(i)
    }

    /// Returns the address of block `i` in memory if it is cached, else 0. It is a prefetch hint
    /// for [`Ahead`](super::cursor::Ahead).
    #[inline]
    pub(super) fn address(&self, i: usize) -> usize {
        self.slots.address(i)
    }

    /// Starts readahead of block `i` unless it is cached or served from the map. A later read of
    /// the block then waits less.
    pub fn ask_device(&self, i: usize, guard: &Guard) {
        if !self.is_mapped(i) && self.slots.peek(i, guard).is_none() {
            let (offset, len) = self.index.place(i);
            self.will_need(offset, len as u64);
        }
    }

    /// Second prefetch step: prefetches the searched part of block `i` if the block is cached.
    /// Returns whether it is cached.
    pub fn fetch_block(&self, i: usize, guard: &Guard) -> bool {
        let frame = self.slots.peek(i, guard);
        frame.is_some_and(|frame| {
            prefetch(frame);
            true
        })
    }

    /// Third prefetch step: searches block `i` if it is cached, and prefetches the entry.
    pub fn fetch_entry(&self, i: usize, key: &[u8], guard: &Guard) {
        if let Some(block) = self.slots.peek(i, guard).and_then(|f| Block::new(f)) {
            block.prefetch_entry(key);
        }
    }

    /// Returns the effective trailer of an entry.
    #[inline]
    pub(super) fn lifted(&self, trailer: Trailer) -> Trailer {
        if self.lift == 0 { trailer } else { Trailer::new(self.lift, Kind::Put) }
    }

    /// Returns the sequence number of all entries of an ingested table; 0 if entries have their
    /// own.
    pub(super) fn lift(&self) -> Seq {
        self.lift
    }

    /// Returns the newest version of `key` at or below `at` in block `i`. The flag reports whether
    /// all of the block is before `(key, at)`.
    #[inline]
    fn find_in<'g>(
        &'g self,
        i: usize,
        held: HeldBlock<'g>,
        key: &[u8],
        at: Trailer,
    ) -> Result<(Option<TableHit<'g>>, bool)> {
        prefetch(held.bytes());
        let Some(block) = Block::new(held.bytes()) else {
            return Err(self.place(i).corrupt("a data block that is cut off"));
        };
        let (pos, found) = block.seek(key, at);
        if !found {
            return Ok((None, pos == block.len()));
        }
        let entry = block.entry(pos);
        let (trailer, value) = (self.lifted(entry.trailer), entry.value_range());
        if trailer > at {
            return Ok((None, false));
        }
        Ok((Some(TableHit { trailer, table: self, block: i, held, value }), false))
    }

    /// Continues a lookup after block `i`. The last key of block `i` continues in the next block,
    /// and block `i` has no entry at or after `(key, at)`.
    #[cold]
    fn get_in_run<'g>(
        &'g self,
        i: usize,
        key: &[u8],
        at: Trailer,
        guard: &'g Guard,
    ) -> Result<Option<TableHit<'g>>> {
        let i = self.seek_run(i + 1, |b| {
            let held = self.block(b, guard)?;
            let block = Block::new(held.bytes())
                .ok_or_else(|| self.place(b).corrupt("a data block that is cut off"))?;
            Ok(block.seek(key, at).0 == block.len())
        })?;
        let held = self.block(i, guard)?;
        Ok(self.find_in(i, held, key, at)?.0)
    }

    /// Returns the first block from `low` on that is not entirely `before` a target. It searches
    /// only the run of blocks linked by CONTINUES, and returns the run's last block if there is
    /// none. It is a binary search, because a key may have many versions.
    pub(super) fn seek_run(
        &self,
        mut low: usize,
        mut before: impl FnMut(usize) -> Result<bool>,
    ) -> Result<usize> {
        let mut high = self.index.last_of_run(low);
        while low < high {
            let mid = low + (high - low) / 2;
            if before(mid)? {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        Ok(low)
    }

    /// Returns the decoded block `i`.
    #[inline]
    fn block<'g>(&'g self, i: usize, guard: &'g Guard) -> Result<HeldBlock<'g>> {
        if self.is_mapped(i) {
            return Ok(HeldBlock::Map(self.mapped_bytes(self.mapped_block(i, false)?)));
        }
        match self.slots.get(i, guard) {
            Some(frame) => Ok(HeldBlock::Guarded(frame)),
            None => {
                let frame = self.load(i, self.map_to_decode(), CacheStay::ProbationQueue)?;
                Ok(HeldBlock::Owned(frame))
            }
        }
    }

    pub(super) fn place(&self, i: usize) -> BlockPlace<'_> {
        let (offset, len) = self.index.place(i);
        BlockPlace {
            file: &*self.file,
            path: &self.path,
            id: self.id,
            kind: BlockKind::Data,
            offset,
            len,
        }
    }

    /// Reports whether block `i` is served from the map.
    #[inline]
    pub(super) fn is_mapped(&self, i: usize) -> bool {
        self.mapped && self.index.flags(i) & RAW != 0 && self.maps.serves()
    }

    /// Returns the map if blocks are decoded from it.
    #[inline]
    pub(super) fn map_to_decode(&self) -> Option<LoadedBytes<'_>> {
        if self.maps.decodes() { self.map_bytes().map(LoadedBytes::map) } else { None }
    }

    #[inline]
    fn map_bytes(&self) -> Option<&[u8]> {
        self.map.as_ref().map(|m| m.bytes())
    }

    /// Returns bytes of the map; empty if the range is not available.
    #[inline]
    pub(super) fn mapped_bytes(&self, range: Range<usize>) -> &[u8] {
        part(self.map_bytes().unwrap_or_default(), range)
    }

    /// Announces that these bytes of the file will be read soon, from the map or the file.
    pub(super) fn will_need(&self, offset: u64, len: u64) {
        match &self.map {
            Some(map) => map.will_need(offset, len),
            None => self.file.will_need(offset, len),
        }
    }

    /// Returns the range of the map with the stored bytes of block `i`.
    /// [`is_mapped`](Self::is_mapped) must be true for `i`. Validates the block on first access.
    /// `asked` says whether readahead for the block has already been requested, among others.
    #[inline]
    pub(super) fn mapped_block(&self, i: usize, asked: bool) -> Result<Range<usize>> {
        let (word, bit) = (&self.checked[i / 64], 1 << (i % 64));
        if word.load(Ordering::Acquire) & bit == 0 {
            if !asked {
                // The map faults one page at a time; this requests the whole block at once.
                let (offset, len) = self.index.place(i);
                self.will_need(offset, len as u64);
            }
            let map = self.map_bytes().map(LoadedBytes::map);
            let checked = self.place(i).stored(map, |s| match s.codec {
                Compression::None => validate(s.bytes).and_then(|()| self.check_place(i, s.bytes)),
                _ => Err("a block of another compression than the index says"),
            });
            checked.map_err(|e| self.with_keys(i, e))?;
            word.fetch_or(bit, Ordering::Release);
        }
        let (offset, len) = self.index.place(i);
        Ok(offset as usize + BLOCK_HEADER..offset as usize + len)
    }

    /// Returns the frame of block `i` if it is cached. With `warm` false, the access does not set
    /// the frame's CLOCK bit.
    pub(super) fn cached(&self, i: usize, warm: bool) -> Option<FrameRef> {
        let guard = epoch::pin();
        let frame = if warm { self.slots.get(i, &guard) } else { self.slots.peek(i, &guard) };
        frame.map(|f| {
            // Prefetch before the reference count waits for the frame's first line: all lines then
            // load in parallel.
            prefetch(f);
            f.to_ref()
        })
    }

    /// Decodes block `i` into a frame of the cache.
    #[cold]
    pub(super) fn load(
        &self,
        i: usize,
        loaded_bytes: Option<LoadedBytes<'_>>,
        stay: CacheStay,
    ) -> Result<FrameRef> {
        let decoded = self.place(i).stored(loaded_bytes, |s| self.decode(i, &s));
        let frame = decoded.map_err(|e| self.with_keys(i, e))?;
        self.count_read(i);
        Ok(self.cache.insert_for(stay, &self.slots, i, frame))
    }

    /// Counts a device read of block `i` for a reader.
    pub(super) fn count_read(&self, i: usize) {
        self.reads.block_was_read(self.index.place(i).1 as u64);
    }

    /// Decodes block `i`.
    fn decode(&self, i: usize, block: &StoredBlock<'_>) -> Result<FrameRef, &'static str> {
        let mut frame = self.cache.allocate(block.raw_len);
        block.unpack(&mut frame)?;
        validate(&frame)?;
        self.check_place(i, &frame)?;
        Ok(frame.freeze())
    }

    /// Checks that the keys of the valid block `i` are between the index's separators. Cursors rely
    /// on this: descending keys would make them loop.
    pub(super) fn check_place(&self, i: usize, raw: &[u8]) -> Result<(), &'static str> {
        let block = Block::new(raw).ok_or("a data block that is cut off")?;
        let mut key = Vec::with_capacity(64);
        if let Some(before) = i.checked_sub(1) {
            block.key_into(0, &mut key);
            let least = match self.index.flags(before) & super::index::CONTINUES {
                0 => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Equal,
            };
            if self.index.compare_separator(before, &key) != least {
                return Err("a block that begins before the index says");
            }
        }
        block.key_into(block.len() - 1, &mut key);
        match self.index.compare_separator(i, &key) {
            std::cmp::Ordering::Less => Err("a block that ends behind its separator"),
            _ => Ok(()),
        }
    }

    /// Reports whether the cache admits a block that a long scan reads.
    pub(super) fn admits_passing(&self) -> bool {
        self.cache.admits_passing()
    }

    /// Copies the cached form of block `i` without its value into `stub`. Reports whether it was
    /// cached.
    pub(super) fn cached_stub(&self, i: usize, stub: &mut Vec<u8>) -> bool {
        let guard = epoch::pin();
        self.stubs.get(i, &guard).is_some_and(|frame| {
            stub.clear();
            stub.extend_from_slice(frame);
            true
        })
    }

    /// Caches block `i` without its value.
    pub(super) fn keep_stub(&self, i: usize, stub: &[u8]) {
        let mut frame = self.cache.allocate(stub.len());
        frame.copy_from_slice(stub);
        self.cache.insert(&self.stubs, i, frame.freeze());
    }

    /// Decodes block `i`, whose stored bytes have been read, into a frame of the cache.
    pub(super) fn complete(
        &self,
        i: usize,
        block: &StoredBlock<'_>,
        stay: CacheStay,
    ) -> Result<FrameRef> {
        let decoded =
            self.decode(i, block).map_err(|e| self.with_keys(i, self.place(i).corrupt(e)));
        Ok(self.cache.insert_for(stay, &self.slots, i, decoded?))
    }

    /// Decodes block `i`, whose stored bytes have been read, into `buffer`.
    pub(super) fn complete_into(
        &self,
        i: usize,
        block: &StoredBlock<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        decode_into(block, buffer)
            .and_then(|()| self.check_place(i, buffer))
            .map_err(|e| self.with_keys(i, self.place(i).corrupt(e)))
    }

    /// Caches the decoded blocks of the writer that created this table. Blocks of other tables
    /// follow with [`inherit`](Self::inherit).
    pub fn adopt(&self, warm: WarmBlocks) {
        for (i, frame) in warm.frames {
            self.cache.insert(&self.slots, i as usize, frame);
        }
        *self.heritage.lock() = warm.inherited;
    }

    /// Moves cached frames of blocks that were copied unchanged from other tables to this table.
    /// Call it once readers use this table instead of those.
    pub fn inherit(&self) {
        let heritage = std::mem::take(&mut *self.heritage.lock());
        self.cache.hand_over(&self.slots, heritage);
    }

    /// Describes block `i` as block `new` of another table.
    pub(super) fn inherited(&self, i: usize, new: u32) -> InheritedBlock {
        InheritedBlock { from: self.slots.clone(), old: i as u32, new }
    }

    /// Decodes block `i` into `buffer` and resizes it to the block's length. Returns the block's
    /// codec.
    pub(super) fn load_into(
        &self,
        i: usize,
        loaded_bytes: Option<LoadedBytes<'_>>,
        buffer: &mut Vec<u8>,
    ) -> Result<Compression> {
        self.place(i).stored(loaded_bytes, |s| {
            decode_into(&s, buffer)?;
            self.check_place(i, buffer)?;
            Ok(s.codec)
        })
    }

    /// Returns a value inside block `i`, which is served from the map.
    pub(super) fn map_value(&self, i: usize, value: Range<u32>) -> TableValue {
        let start = self.index.place(i).0 + BLOCK_HEADER as u64;
        match &self.map {
            Some(map) => {
                TableValue::map(map.clone(), start + value.start as u64..start + value.end as u64)
            }
            None => TableValue::copy(&[]),
        }
    }

    /// Returns for each of these blocks whether it is cached now.
    pub fn cached_blocks(&self, blocks: Range<usize>) -> Vec<bool> {
        let guard = epoch::pin();
        blocks.map(|i| self.slots.peek(i, &guard).is_some()).collect()
    }

    /// Returns the offset of block `i`, its stored length in bytes, and whether it is uncompressed.
    pub fn stored_block(&self, i: usize) -> (u64, u64, bool) {
        let (offset, len) = self.index.place(i);
        (offset, len as u64, self.index.flags(i) & RAW != 0)
    }

    /// Reports whether block `i` is served from the map of the file.
    pub fn serves_from_map(&self, i: usize) -> bool {
        self.is_mapped(i)
    }

    /// Reports whether the table has a filter in use.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the table's range tombstones.
    pub fn tombstones(&self) -> &Arc<Fragments> {
        &self.tombstones
    }

    /// Reports whether all entries are puts and every key has one entry.
    pub fn is_plain(&self) -> bool {
        self.index.is_plain()
    }

    /// Returns the table's properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the format version of the file.
    pub fn format(&self) -> FormatVersion {
        self.format
    }

    /// Returns the table's identity, which does not depend on the file's path.
    pub fn identity(&self) -> TableIdentity {
        self.identity
    }

    /// Returns the file id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.file.len()
    }

    /// Returns the bytes of memory pinned by index, filter, range tombstones, properties and slots.
    /// Cached blocks are not counted.
    pub fn memory(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, BlockFilter::memory);
        let blocks = 8 * (self.index.len() + self.stubs.len() + self.checked.len());
        size_of::<Table>()
            + self.index.memory()
            + filter
            + blocks
            + self.tombstones.memory()
            + self.properties.memory()
    }

    /// Returns the approximate file offset of `key`: that of the block that may contain it. Returns
    /// the end of the data if there is no such block.
    pub fn offset_of(&self, key: &[u8]) -> u64 {
        let i = self.index.find(key);
        if i < self.index.len() { self.index.place(i).0 } else { self.index.end() }
    }

    /// Iterates over the data blocks in key order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockInfo> + '_ {
        (0..self.index.len()).map(|i| self.index.info(i))
    }

    /// Returns at most `most` evenly spaced keys that are block boundaries. No block has keys on
    /// both sides of such a key. Each comes with the bytes of blocks since the previous key.
    pub fn landmarks(&self, most: usize) -> Vec<(Vec<u8>, u64)> {
        let n = self.index.len();
        let mut from = 0;
        (1..=most.min(n))
            .map(|i| {
                let last = i * n / most.min(n) - 1;
                let (offset, len) = self.index.place(last);
                let until = offset + len as u64;
                (self.index.info(last).separator, until - std::mem::replace(&mut from, until))
            })
            .collect()
    }

    /// Adds the key range of block `i` to an error that has none. The range is above the previous
    /// block's separator and up to the block's own.
    pub(super) fn with_keys(&self, i: usize, e: Error) -> Error {
        if e.key_range().is_some() || e.kind() != ErrorKind::Corruption {
            return e;
        }
        let first = match i {
            0 => self.properties().first_key.clone(),
            i => self.index.info(i - 1).separator,
        };
        e.keys(&first, &self.index.info(i).separator)
    }
}
