//! Blob files: values stored separately from the tables that refer to them.
//!
//! A blob file is a table file with other content. It has one block of the kind `Value` per blob, a
//! properties block and the footer. It has no index, because references contain the locations
//! ([`BlobHandle`]). The block scan that recovers tables also works for blob files. A decoded blob
//! block is:
//! ```text
//! 0   u32  length of the key
//! 4   u64  trailer (seq << 8 | 1), as the value was written first
//! 12  key, then the value up to the end
//! ```
//! Key and trailer serve the recovery of blobs whose tables are lost. Readers use only the
//! references.
//!
//! Invariants:
//! - V1: a blob's block is checked (checksum, then lengths) before any of it is returned. Each read
//!   checks it; a block in a map is checked once.
//! - V2: a reference beyond its file's blobs, or with another length than the blob, is a corruption
//!   error with file and offset. Only the table's checksum protects which blob a reference names;
//!   [`BlobFile::verify`] compares the keys.
//! - V3: as with tables, an uncompressed block of a mapped file is served from the map. All others
//!   are decoded into the cache; the slot with the blob's number points to the frame.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block_access::{BlockPlace, LoadedBytes, Maps, TableValue};
use super::format::{BLOCK_HEADER, BlockHeader, BlockKind, FOOTER, Footer};
use super::output::BlockOutput;
use super::properties::Properties;
use super::stream::BlobStreams;
use crate::base::blob_ref::{BlobFileMeta, BlobHandle};
use crate::base::error::{Error, Result};
use crate::base::format_version::FormatVersion;
use crate::base::identity::TableIdentity;
use crate::base::key::{Kind, MAX_KEY_LEN, MAX_VALUE_LEN, Seq, Trailer};
use crate::base::options::{Compression, FilterKind};
use crate::block_cache::{Cache, CacheSlots, CacheStay, FrameRef};
use crate::counters::reads::ReadCounters;
use crate::env::{FileMap, ReadFile, WriteFile};
use crate::util::coding::{u32_at, u64_at};
use crate::util::sync::epoch;

/// Bytes before the key.
const HEAD: usize = 12;
/// Options for writing a blob file.
#[derive(Clone, Debug, Default)]
pub struct BlobOptions {
    /// Format version of the file.
    pub version: FormatVersion,
    /// Identity of the file.
    pub identity: TableIdentity,
    /// Id of the tree that its values belong to.
    pub tree: u32,
    /// Level of the first tables that refer to it.
    pub level: u8,
    /// Codec of the values; a value stays uncompressed if compression saves too little.
    pub compression: Compression,
    /// Wall clock in microseconds.
    pub created_micros: u64,
    /// Cache for decoded blocks, used while it has spare memory, so that first reads hit.
    pub warm: Option<Arc<Cache>>,
}

/// Writes one blob file.
pub struct BlobWriter {
    output: BlockOutput,
    path: PathBuf,
    version: FormatVersion,
    id: u64,
    identity: TableIdentity,
    compression: Compression,
    warm: Option<Arc<Cache>>,
    frames: Vec<(u32, FrameRef)>,
    raw: Vec<u8>,
    props: Properties,
}

debug_by!(BlobWriter, "BlobWriter", id, path);

impl BlobWriter {
    /// Writes blob file `id` into the empty `file`; `path` is for error messages.
    pub fn new(file: Box<dyn WriteFile>, path: &Path, id: u64, options: BlobOptions) -> Self {
        let props = Properties {
            compression: options.compression,
            created_micros: options.created_micros,
            filter: FilterKind::None,
            level: options.level.into(),
            min_seq: Seq::MAX,
            tree: options.tree,
            writer: concat!("firn-kv ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Properties::default()
        };
        BlobWriter {
            output: BlockOutput::new(file, id),
            path: path.to_path_buf(),
            version: options.version,
            id,
            identity: options.identity,
            compression: options.compression,
            warm: options.warm,
            frames: vec![],
            raw: vec![],
            props,
        }
    }

    /// Adds the value of a put of `key`, which must not be below the key added last. Returns the
    /// location.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or a value out of bounds, and if the file has the maximum number
    /// of values. I/O errors of the file.
    pub fn add(&mut self, key: &[u8], seq: Seq, value: &[u8]) -> Result<BlobHandle> {
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            let (key, value) = (key.len(), value.len());
            let words = format!("an entry with a key of {key} and a value of {value} bytes");
            return Err(Error::invalid(words));
        }
        let Ok(number) = u32::try_from(self.props.entries) else {
            return Err(Error::invalid("too many values for a file").in_file(&self.path));
        };
        self.raw.clear();
        self.raw.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.raw.extend_from_slice(&Trailer::new(seq, Kind::Put).0.to_le_bytes());
        self.raw.extend_from_slice(key);
        self.raw.extend_from_slice(value);
        let offset = self.output.offset();
        let (stored, is_raw) = self.output.put(BlockKind::Blob, self.compression, &self.raw)?;
        // An uncompressed block will be served from the map.
        let warm = self.warm.as_ref().filter(|_| !is_raw);
        if let Some(mut frame) = warm.and_then(|cache| cache.spare(self.raw.len())) {
            frame.copy_from_slice(&self.raw);
            self.frames.push((number, frame.freeze()));
        }
        let p = &mut self.props;
        if p.entries == 0 {
            p.first_key = key.to_vec();
        }
        p.last_key.clear();
        p.last_key.extend_from_slice(key);
        p.data_blocks += 1;
        p.count(key, seq, value.len());
        Ok(BlobHandle { file: self.id, number, offset, stored, len: value.len() as u32 })
    }

    /// Returns the bytes of the file so far.
    pub fn size(&self) -> u64 {
        self.output.offset()
    }

    /// Writes the remaining data and the footer, and syncs the file. Also returns the blocks that
    /// fit into the cache, with their numbers, for [`BlobFile::adopt`].
    ///
    /// # Errors
    /// I/O errors of the file.
    pub fn finish(mut self) -> Result<(BlobFileMeta, Vec<(u32, FrameRef)>)> {
        let data_len = self.output.offset();
        if self.props.entries == 0 {
            self.props.min_seq = 0;
        }
        let raw = self.props.encode();
        let (properties_len, _) = self.output.put(BlockKind::Properties, self.compression, &raw)?;
        let footer = Footer {
            version: self.version,
            id: self.id,
            data_len,
            filter_len: 0,
            tombstones_len: 0,
            index_len: 0,
            properties_len,
            identity: self.identity,
        };
        let size = self.output.finish(&footer)?;
        let facts = BlobFileMeta {
            id: self.id,
            identity: self.identity,
            size,
            values: self.props.entries,
            bytes: data_len,
            raw_bytes: self.props.raw_value_bytes,
        };
        Ok((facts, self.frames))
    }
}

/// Splits a decoded blob block into key, trailer and value. Returns a description of the fault if
/// it is invalid.
pub fn blob_block(raw: &[u8]) -> Result<(&[u8], Trailer, &[u8]), &'static str> {
    const CUT: &str = "a value's block that is cut off";
    let head = raw.get(..HEAD).ok_or(CUT)?;
    let (key_len, trailer) = (u32_at(head, 0) as usize, Trailer(u64_at(head, 4)));
    let (key, value) = raw[HEAD..].split_at_checked(key_len).ok_or(CUT)?;
    if key_len > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN || trailer.kind() != Some(Kind::Put) {
        return Err("a value's block that does not fit together");
    }
    Ok((key, trailer, value))
}

/// How a blob is stored in its file, and whether a read needs the device.
#[derive(Clone, Copy, Debug)]
pub struct StoredValue {
    /// Whether the blob's block is compressed.
    pub is_compressed: bool,
    /// Whether the blob is served from the map of the file.
    pub is_mapped: bool,
    /// Whether the blob is in the cache.
    pub is_cached: bool,
}

/// An open blob file.
pub struct BlobFile {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    id: u64,
    cache: Arc<Cache>,
    slots: Arc<CacheSlots>,
    map: Option<Arc<dyn FileMap>>,
    maps: Arc<Maps>,
    /// One bit per blob: it passed validation in the map.
    checked: Box<[AtomicU64]>,
    /// Bytes of all blob blocks together.
    data_len: u64,
    properties: Properties,
    identity: TableIdentity,
}

debug_by!(BlobFile, "BlobFile", id, path);

impl BlobFile {
    /// Opens the blob file `id` in `file`; `path` is for error messages.
    ///
    /// # Errors
    /// `Corruption` with file and offset if any part is invalid. `Incompatible` for a newer format.
    /// I/O errors of the file.
    pub fn open(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
        maps: Arc<Maps>,
    ) -> Result<Arc<BlobFile>> {
        let Some(offset) = file.len().checked_sub(FOOTER as u64) else {
            let e = Error::corruption("too short for a blob file").at(path, 0);
            return Err(e.block("footer"));
        };
        let mut f = [0; FOOTER];
        file.read_at(offset, &mut f)?;
        let footer = Footer::decode(&f, path, id, offset)?;
        if !footer.is_of_values() {
            let e = Error::corruption("this is a table, where a blob file should be");
            return Err(e.at(path, offset).block("footer"));
        }
        let place = BlockPlace {
            file: &*file,
            path,
            id,
            kind: BlockKind::Properties,
            offset: footer.properties_at(),
            len: footer.properties_len as usize,
        };
        let properties =
            place.raw(|b| Properties::decode(b).ok_or("properties that cannot be read"))?;
        // The minimum size of a blob block bounds the number of blobs, whatever the properties say.
        let most = footer.data_len / (BLOCK_HEADER + HEAD) as u64;
        let values = match usize::try_from(properties.entries) {
            Ok(n) if properties.entries <= most => n,
            _ => return Err(place.corrupt("more values than the file has room for")),
        };
        let map = file.map();
        let checked = match map {
            Some(_) => (0..values.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            None => Box::default(),
        };
        let (path, identity) = (path.to_path_buf(), footer.identity);
        let slots = Arc::new(CacheSlots::of_file(identity.unique.wrapping_add(id), values));
        Ok(Arc::new(BlobFile {
            file,
            path,
            id,
            cache,
            slots,
            map,
            maps,
            checked,
            data_len: footer.data_len,
            properties,
            identity,
        }))
    }

    fn block_at(&self, offset: u64, len: usize) -> BlockPlace<'_> {
        let (file, path, id) = (&*self.file, self.path.as_path(), self.id);
        BlockPlace { file, path, id, kind: BlockKind::Blob, offset, len }
    }

    fn place(&self, r: &BlobHandle) -> Result<BlockPlace<'_>> {
        let place = self.block_at(r.offset, r.stored as usize);
        let is_inside = r.offset.checked_add(r.stored.into()).is_some_and(|e| e <= self.data_len);
        if r.file != self.id || !is_inside || u64::from(r.number) >= self.properties.entries {
            return Err(place.corrupt("a table refers to a value that is not in its file"));
        }
        Ok(place)
    }

    /// Returns the offset of the value in the decoded block, if the block has the value of `r`.
    fn start(raw: &[u8], r: &BlobHandle) -> Result<u32, &'static str> {
        let (_, _, value) = blob_block(raw)?;
        if value.len() != r.len as usize {
            return Err("a value of another length than its table says");
        }
        Ok((raw.len() - value.len()) as u32)
    }

    /// Returns the value of `r` with its own reference. For a scan that reads blob after blob,
    /// `ahead` tracks which readahead to request.
    ///
    /// # Errors
    /// `Corruption` with file and offset if the value is invalid.
    pub fn get(
        &self,
        r: &BlobHandle,
        reads: &ReadCounters,
        mut ahead: Option<&mut BlobStreams>,
    ) -> Result<TableValue> {
        let place = self.place(r)?;
        if let Some(value) = self.in_map(r, &place, ahead.as_deref_mut())? {
            return Ok(value);
        }
        let number = r.number as usize;
        let cached = {
            let guard = epoch::pin();
            self.slots.get(number, &guard).map(|frame| frame.to_ref())
        };
        let frame = match cached {
            Some(frame) => frame,
            None => {
                let is_asked_for = ahead.is_some_and(|ahead| self.is_asked_for(r, ahead));
                // The map faults one page at a time; this requests the whole block at once.
                if self.maps.decodes() && !is_asked_for {
                    self.will_need(r.offset, r.stored.into());
                }
                let frame = place.stored(self.map_to_decode(), |s| {
                    let mut frame = self.cache.allocate(s.raw_len);
                    s.unpack(&mut frame)?;
                    Self::start(&frame, r)?;
                    Ok(frame.freeze())
                })?;
                reads.block_was_read(r.stored.into());
                self.cache.insert_for(CacheStay::ProbationQueue, &self.slots, number, frame)
            }
        };
        // A frame's content has been checked: the value is its end.
        match frame.len().checked_sub(r.len as usize) {
            Some(start) if start >= HEAD => {
                Ok(TableValue::frame(frame, start as u32..start as u32 + r.len))
            }
            _ => Err(place.corrupt("a value of another length than its table says")),
        }
    }

    /// Returns the value in the map, if it is uncompressed and values are served from maps.
    fn in_map(
        &self,
        r: &BlobHandle,
        place: &BlockPlace<'_>,
        ahead: Option<&mut BlobStreams>,
    ) -> Result<Option<TableValue>> {
        // A block shorter than its content is compressed; skip it without reading it.
        let may_be_raw = r.stored as usize >= BLOCK_HEADER + HEAD + r.len as usize;
        let Some(map) = self.map.as_ref().filter(|_| may_be_raw && self.maps.serves()) else {
            return Ok(None);
        };
        let (offset, number) = (r.offset as usize, r.number as usize);
        let Some(block) = map.bytes().get(offset..offset + r.stored as usize) else {
            return Ok(None);
        };
        let (word, bit) = (&self.checked[number / 64], 1 << (number % 64));
        // Only the system knows whether it is in memory.
        let is_asked_for = ahead.is_some_and(|ahead| self.is_asked_for(r, ahead));
        if word.load(Ordering::Acquire) & bit == 0 {
            if !is_asked_for {
                map.will_need(r.offset, r.stored.into());
            }
            let header = BlockHeader::read(block).map_err(|e| place.corrupt(e))?;
            if header.codec != Compression::None {
                return Ok(None);
            }
            place.stored(Some(LoadedBytes::map(map.bytes())), |s| Self::start(s.bytes, r))?;
            word.fetch_or(bit, Ordering::Release);
        }
        // If a block misstates its length, the value still ends where the block ends.
        let end = r.offset + u64::from(r.stored);
        Ok(Some(TableValue::map(map.clone(), end - u64::from(r.len)..end)))
    }

    fn map_to_decode(&self) -> Option<LoadedBytes<'_>> {
        self.map.as_ref().filter(|_| self.maps.decodes()).map(|m| LoadedBytes::map(m.bytes()))
    }

    /// Reads the value of `r` into `out`, bypassing the cache.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn read_into(&self, r: &BlobHandle, out: &mut Vec<u8>) -> Result<()> {
        self.place(r)?.stored(self.map_to_decode(), |s| {
            let raw = s.to_vec()?;
            let start = Self::start(&raw, r)? as usize;
            out.clear();
            out.extend_from_slice(&raw[start..]);
            Ok(())
        })
    }

    /// Checks that the block of `r` is valid and belongs to this key.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn verify(&self, r: &BlobHandle, key: &[u8]) -> Result<()> {
        self.place(r)?.stored(None, |s| {
            let raw = s.to_vec()?;
            Self::start(&raw, r)?;
            let (own, ..) = blob_block(&raw)?;
            if own == key { Ok(()) } else { Err("a value of another key than its table says") }
        })
    }

    /// Checks all blob blocks, unreferenced ones included.
    ///
    /// # Errors
    /// `Corruption` with file and offset of the first fault. I/O errors of the file.
    pub fn verify_all(&self) -> Result<()> {
        let (mut at, mut values) = (0, 0);
        while at < self.data_len {
            let mut h = [0; BLOCK_HEADER];
            let mut place = self.block_at(at, BLOCK_HEADER);
            if self.data_len - at < BLOCK_HEADER as u64 {
                return Err(place.corrupt("a block header that is cut off"));
            }
            self.file.read_at(at, &mut h)?;
            let header = BlockHeader::read(&h).map_err(|e| place.corrupt(e))?;
            place.len += header.stored_len;
            if self.data_len - at < place.len as u64 {
                return Err(place.corrupt("a block beyond the end of the values"));
            }
            place.stored(None, |s| blob_block(&s.to_vec()?).map(|_| ()))?;
            (at, values) = (at + place.len as u64, values + 1);
        }
        if values == self.properties.entries {
            return Ok(());
        }
        let report = self.properties.entries;
        let e = Error::corruption(format!(
            "the properties tell of {report} values, the file has {values}"
        ));
        Err(e.at(&self.path, self.data_len).block("properties"))
    }

    /// Records that a scan reads the value of `r`. Returns whether readahead for it has been
    /// requested.
    fn is_asked_for(&self, r: &BlobHandle, ahead: &mut BlobStreams) -> bool {
        ahead.read(r, self.data_len, |offset, len| self.will_need(offset, len))
    }

    /// Reports how the value of `r` is stored: whether it is compressed, served from the map, or
    /// cached.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn stored_value(&self, r: &BlobHandle) -> Result<StoredValue> {
        let place = self.place(r)?;
        let mut header = [0; BLOCK_HEADER];
        self.file.read_at(r.offset, &mut header)?;
        let header = BlockHeader::read(&header).map_err(|e| place.corrupt(e))?;
        let is_compressed = header.codec != Compression::None;
        Ok(StoredValue {
            is_compressed,
            is_mapped: self.map.is_some() && self.maps.serves() && !is_compressed,
            is_cached: self.slots.get(r.number as usize, &epoch::pin()).is_some(),
        })
    }

    /// Announces that these bytes of the file will be read soon.
    pub fn will_need(&self, offset: u64, len: u64) {
        let len = len.min(self.data_len.saturating_sub(offset));
        match &self.map {
            Some(map) => map.will_need(offset, len),
            None => self.file.will_need(offset, len),
        }
    }

    /// Caches the decoded blocks, given by number, of the writer that created this file.
    pub fn adopt(&self, frames: Vec<(u32, FrameRef)>) {
        for (i, frame) in frames {
            self.cache.insert(&self.slots, i as usize, frame);
        }
    }

    /// Returns the file's properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the file's metadata, as its writer returned it.
    pub fn facts(&self) -> BlobFileMeta {
        BlobFileMeta {
            id: self.id,
            identity: self.identity,
            size: self.file.len(),
            values: self.properties.entries,
            bytes: self.data_len,
            raw_bytes: self.properties.raw_value_bytes,
        }
    }

    /// Returns the bytes of memory that the open file takes, without cached blocks.
    pub fn memory(&self) -> usize {
        size_of::<BlobFile>()
            + 8 * self.properties.entries as usize
            + 8 * self.checked.len()
            + self.properties.memory()
    }
}
