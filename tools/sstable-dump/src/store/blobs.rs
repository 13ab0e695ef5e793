//! The blob files of a store's directory, and the values in them that entries refer to.
//!
//! A value is read from its own block alone. The block contains the key, and its checksum covers
//! the file number and the offset. So all values of a blob file without footer or properties remain
//! readable.
//!
//! Invariants: a value is returned only for the key that it was written with, and only if its
//! length matches its entry. No allocation is larger than the length that a reference can state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use firn_kv::fs::ReadFile;
use firn_kv::internals::base::blob_ref::{BlobFileMeta, BlobHandle, BlobUse};
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::key::{Kind, Trailer};
use firn_kv::internals::manifest::ManifestState;
use firn_kv::internals::sstable::Table;
use firn_kv::internals::sstable::format::{BlockKind, StoredBlock, block_error};
use firn_kv::internals::sstable::values::blob_block;
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::io::is_dir;
use firn_tools::output::{bytes, things};
use serde_json::{Value, json};

use crate::store::names::FileNames;
use crate::store::survey::{Survey, survey};
use crate::store::target::{env, open_file, open_values};

/// Source and destination directories of a new store.
#[derive(Clone, Copy)]
pub struct OldStore<'a> {
    /// The files of the old store, under their true names.
    pub names: &'a FileNames,
    /// Directory of the new store.
    pub out: &'a Path,
    /// Format version of the new store.
    pub format: FormatVersion,
    /// Blob files of the old store.
    pub files: &'a StoreBlobs<'a>,
}

/// Number of bytes before the key in a decoded blob block.
const VALUE_HEAD: u64 = 12;

/// A value from a blob file.
pub struct BlobValue {
    /// Position in the blob file.
    pub place: BlobHandle,
    /// Path of the blob file.
    pub path: PathBuf,
    /// The value.
    pub bytes: Vec<u8>,
}

/// The blob files of a directory, opened on first use.
pub struct StoreBlobs<'a> {
    names: &'a FileNames,
    open: Mutex<BTreeMap<u64, Result<Arc<dyn ReadFile>>>>,
    /// Metadata of the blob files in the manifest; empty without a manifest.
    metas: BTreeMap<u64, Arc<BlobFileMeta>>,
    /// Results of full checks, by file: whether the whole file is sound.
    whole: Mutex<BTreeMap<u64, bool>>,
}

impl<'a> StoreBlobs<'a> {
    /// Creates it for the files that `names` finds.
    pub fn of(names: &'a FileNames) -> StoreBlobs<'a> {
        let (open, whole) = (Mutex::default(), Mutex::default());
        StoreBlobs { names, open, metas: BTreeMap::new(), whole }
    }

    /// Creates it with the metadata of the blob files in the manifest.
    pub fn with_metas(names: &'a FileNames, state: &ManifestState) -> StoreBlobs<'a> {
        let files = state.trees.values().flat_map(|t| &t.values);
        let metas = files.map(|(id, v)| (*id, v.clone())).collect();
        StoreBlobs { metas, ..StoreBlobs::of(names) }
    }

    /// Returns the path of blob file `id`, or the expected path of a missing one.
    pub fn path(&self, id: u64) -> PathBuf {
        self.names.path_of(id)
    }

    /// Opens blob file `id`, or returns the open file.
    ///
    /// # Errors
    /// `NotFound` if the file is missing; I/O errors.
    pub fn file(&self, id: u64) -> Result<Arc<dyn ReadFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open.entry(id).or_insert_with(|| {
            let missing = || Error::new(ErrorKind::NotFound, "the blob file is missing");
            let path = self.names.table(id).ok_or_else(|| missing().in_file(self.path(id)))?;
            if is_dir(&path) {
                let e = Error::new(ErrorKind::NotFound, "a directory has the blob file's name");
                return Err(e.in_file(path));
            }
            env().open_read(&path, false).map_err(|e| match e.kind() {
                ErrorKind::NotFound => missing().in_file(&path),
                _ if e.file().is_none() => e.in_file(&path),
                _ => e,
            })
        });
        opened.clone()
    }

    /// Returns the value to which the entry of `key` refers by `reference`.
    ///
    /// # Errors
    /// - `Corruption`, with the position in the blob file and the key, if the value is damaged.
    /// - `NotFound` if the file is missing.
    /// - I/O errors of the file.
    pub fn find(&self, key: &[u8], reference: &[u8]) -> Result<BlobValue> {
        let Some(place) = BlobHandle::decode(reference) else {
            return Err(Error::corruption("an entry refers to no value").keys(key, key));
        };
        let path = self.path(place.file);
        let file = self.file(place.file).map_err(|e| e.keys(key, key))?;
        let bad = |what: &str| {
            Error::corruption(what).at(&path, place.offset).block("blob").keys(key, key)
        };
        let raw = block(&*file, &path, place.file, place.offset, place.stored)
            .map_err(|e| e.keys(key, key))?;
        let (own, _, value) = blob_block(&raw).map_err(bad)?;
        if own != key {
            return Err(bad("a value of another key than its table says"));
        }
        if value.len() != place.len as usize {
            return Err(bad("a value of another length than its table says"));
        }
        Ok(BlobValue { place, bytes: value.to_vec(), path })
    }

    /// Returns the value at this position, whichever entry refers to it.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn value_at(&self, id: u64, offset: u64, stored: u32) -> Result<Vec<u8>> {
        let path = self.path(id);
        let raw = block(&*self.file(id)?, &path, id, offset, stored)?;
        let (_, _, value) = blob_block(&raw)
            .map_err(|what| Error::corruption(what).at(&path, offset).block("blob"))?;
        Ok(value.to_vec())
    }

    /// Reports whether blob file `id` exists, is sound from the first byte to the last, and matches
    /// the manifest.
    ///
    /// # Errors
    /// `Incompatible` for a newer version. On any other error the result is false.
    pub fn is_whole(&self, id: u64) -> Result<bool> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = whole.get(&id) {
            return Ok(known);
        }
        let found = self.file(id).and_then(|file| survey(file, &self.path(id), id));
        let sound = match found {
            Ok(s) => {
                s.is_of_values()
                    && s.errors().is_empty()
                    && count_errors(&s, self.metas.get(&id).map(|v| &**v)).is_empty()
            }
            Err(e) if e.kind() == ErrorKind::Incompatible => return Err(e),
            Err(_) => false,
        };
        whole.insert(id, sound);
        Ok(sound)
    }

    /// Reports whether all values to which `t` refers are sound, and also the whole files that
    /// contain them.
    ///
    /// # Errors
    /// As [`is_whole`](Self::is_whole), and errors of reading the table.
    pub fn has_all_of(&self, t: &Arc<Table>) -> Result<bool> {
        for u in &t.properties().values {
            if !self.is_whole(u.file)? {
                return Ok(false);
            }
        }
        if t.properties().values.is_empty() {
            return Ok(true);
        }
        let mut c = t.cursor(false);
        c.first()?;
        while c.valid() {
            let is_blob = c.trailer().kind() == Some(Kind::Blob);
            if is_blob && self.find(c.key(), c.value()).is_err() {
                return Ok(false);
            }
            c.next()?;
        }
        Ok(true)
    }

    /// Reports whether table `id` refers to the blob file `to`, according to its properties.
    ///
    /// # Errors
    /// As [`open_file`].
    pub fn refers(&self, id: u64, to: u64) -> Result<bool> {
        let path = self.path(id);
        let t = open_file(env().open_read(&path, false)?, &path, id, 0)?;
        Ok(t.properties().values.iter().any(|u| u.file == to))
    }

    /// Returns the metadata of blob file `id` from the manifest, or else from the file itself.
    ///
    /// # Errors
    /// As [`open_values`].
    pub fn facts(&self, id: u64) -> Result<Arc<BlobFileMeta>> {
        match self.metas.get(&id) {
            Some(metas) => Ok(metas.clone()),
            None => Ok(Arc::new(open_values(self.file(id)?, &self.path(id), id)?.facts())),
        }
    }

    /// Returns the kind and value that a reader sees for an entry. A reference to a blob becomes a
    /// put of its value.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn visible_value(
        &self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
    ) -> Result<(Option<Kind>, Vec<u8>)> {
        match trailer.kind() {
            Some(Kind::Blob) => Ok((Some(Kind::Put), self.find(key, value)?.bytes)),
            kind => Ok((kind, value.to_vec())),
        }
    }
}

/// Reads and decodes the block of a value of file `id`.
fn block(file: &dyn ReadFile, path: &Path, id: u64, offset: u64, stored: u32) -> Result<Vec<u8>> {
    let bad = |what: &str| block_error(what).at(path, offset).block("blob");
    if offset.checked_add(stored.into()).is_none_or(|end| end > file.len()) {
        return Err(bad("the file ends before this value does"));
    }
    let mut block = vec![0; stored as usize];
    file.read_at(offset, &mut block)?;
    StoredBlock::check(&block, BlockKind::Blob, id, offset).and_then(|s| s.to_vec()).map_err(bad)
}

/// Returns the position of a blob as JSON.
pub fn place_json(r: &BlobHandle) -> Value {
    json!({"file": r.file, "number": r.number, "offset": r.offset, "stored": r.stored, "len": r.len})
}

/// Returns the use of blob files by a table as JSON.
pub fn uses_json(uses: &[BlobUse]) -> Value {
    uses.iter().map(|u| json!({"file": u.file, "values": u.values, "bytes": u.bytes})).collect()
}

/// Returns the use of blob files by a table as text; empty if it uses none.
pub fn uses_text(uses: &[BlobUse]) -> String {
    let one = |u: &BlobUse| {
        format!(
            "{} in blob file {} ({})",
            things(u.values, "value", "values"),
            u.file,
            bytes(u.bytes)
        )
    };
    uses.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the metadata of a blob file as JSON.
pub fn facts_json(v: &BlobFileMeta) -> Value {
    json!({
        "id": v.id, "store": v.identity.store, "unique": v.identity.unique, "size": v.size, "values": v.values,
        "bytes": v.bytes, "raw_bytes": v.raw_bytes,
    })
}

/// Compares the counts of a blob file without damaged blocks with its blocks and with the manifest.
/// Returns the differences.
pub fn count_errors(s: &Survey, meta: Option<&BlobFileMeta>) -> Vec<Error> {
    let (Some(footer), Some(p)) = (&s.footer, &s.properties) else { return vec![] };
    let (mut keys, mut values, mut blocks, mut largest) = (0u64, 0u64, 0u64, 0u64);
    let mut bounds: Option<(&[u8], &[u8])> = None;
    for r in s.sound(BlockKind::Blob) {
        let Some((key, _)) = &r.keys else { continue };
        let len = key.len() as u64;
        let entry = r.raw_len.saturating_sub(VALUE_HEAD);
        (keys, values, blocks) = (keys + len, values + entry.saturating_sub(len), blocks + 1);
        largest = largest.max(entry);
        bounds = Some((bounds.map_or(key, |b| b.0), key));
    }
    let (least, most) = s.value_seqs.unwrap_or_default();
    let bad = |words: String| {
        Error::corruption(words).at(&s.path, footer.properties_at()).block("properties")
    };
    let own = [
        ("values", p.entries, blocks),
        ("blocks", p.data_blocks, blocks),
        ("key bytes", p.raw_key_bytes, keys),
        ("value bytes", p.raw_value_bytes, values),
        ("bytes as the largest entry", p.largest_entry, largest),
        ("as smallest sequence number", p.min_seq, least),
        ("as largest sequence number", p.max_seq, most),
        ("deletes", p.deletes, 0),
        ("merges", p.merges, 0),
        ("range deletes", p.range_deletes, 0),
    ];
    let differ = |all: &[(&'static str, u64, u64)], source: &str| -> Vec<Error> {
        let wrong = all.iter().filter(|c| c.1 != c.2);
        wrong
            .map(|(what, listed, found)| {
                bad(format!("{source} {listed} {what}, the blob file has {found}"))
            })
            .collect()
    };
    let mut all = differ(&own, "the properties have");
    if (p.first_key.as_slice(), p.last_key.as_slice()) != bounds.unwrap_or_default() {
        all.push(bad("the blob file's bounds differ from its properties".into()));
    }
    if footer.filter_len > 0 || footer.tombstones_len > 0 {
        all.push(bad("a blob file with parts of a table".into()));
    }
    if let Some(t) = meta {
        let facts = [
            ("bytes", t.size, s.len),
            ("values", t.values, blocks),
            ("bytes of values", t.raw_bytes, values),
            ("bytes of blocks", t.bytes, footer.data_len),
        ];
        all.extend(differ(&facts, "the manifest has"));
        all.extend(
            t.identity
                .mismatch(&footer.identity)
                .map(|words| bad(format!("{words}, and not the blob file in the manifest"))),
        );
    }
    all
}
