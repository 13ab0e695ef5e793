//! LevelDB, through the C interface of the system's library (feature `leveldb`).
//!
//! It compresses with Snappy, and has one background thread. It has no call to flush the memtable:
//! a compaction of the empty range before all keys does exactly that.
//!
//! `unsafe`: every passed pointer either came from the library and lives in [`LevelStore`], or
//! belongs to a slice passed with its length. The library may be called from many threads.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::{ptr, slice};

use super::{Settings, Terms, mebibytes};

/// Declarations of the library's header; all its objects are opaque.
mod c {
    use super::{c_char, c_int, c_uchar, c_void};

    #[link(name = "leveldb")]
    unsafe extern "C" {
        pub fn leveldb_options_create() -> *mut c_void;
        pub fn leveldb_options_destroy(options: *mut c_void);
        pub fn leveldb_options_set_create_if_missing(options: *mut c_void, on: c_uchar);
        pub fn leveldb_options_set_write_buffer_size(options: *mut c_void, bytes: usize);
        pub fn leveldb_options_set_cache(options: *mut c_void, cache: *mut c_void);
        pub fn leveldb_options_set_filter_policy(options: *mut c_void, policy: *mut c_void);
        pub fn leveldb_options_set_compression(options: *mut c_void, kind: c_int);
        pub fn leveldb_cache_create_lru(bytes: usize) -> *mut c_void;
        pub fn leveldb_cache_destroy(cache: *mut c_void);
        pub fn leveldb_filterpolicy_create_bloom(bits: c_int) -> *mut c_void;
        pub fn leveldb_filterpolicy_destroy(policy: *mut c_void);
        pub fn leveldb_readoptions_create() -> *mut c_void;
        pub fn leveldb_readoptions_destroy(options: *mut c_void);
        pub fn leveldb_writeoptions_create() -> *mut c_void;
        pub fn leveldb_writeoptions_destroy(options: *mut c_void);
        pub fn leveldb_writeoptions_set_sync(options: *mut c_void, on: c_uchar);
        pub fn leveldb_open(
            options: *const c_void,
            name: *const c_char,
            error: *mut *mut c_char,
        ) -> *mut c_void;
        pub fn leveldb_close(db: *mut c_void);
        pub fn leveldb_put(
            db: *mut c_void,
            options: *const c_void,
            key: *const c_char,
            key_len: usize,
            value: *const c_char,
            value_len: usize,
            error: *mut *mut c_char,
        );
        pub fn leveldb_delete(
            db: *mut c_void,
            options: *const c_void,
            key: *const c_char,
            key_len: usize,
            error: *mut *mut c_char,
        );
        pub fn leveldb_write(
            db: *mut c_void,
            options: *const c_void,
            batch: *mut c_void,
            error: *mut *mut c_char,
        );
        pub fn leveldb_get(
            db: *mut c_void,
            options: *const c_void,
            key: *const c_char,
            key_len: usize,
            value_len: *mut usize,
            error: *mut *mut c_char,
        ) -> *mut c_char;
        pub fn leveldb_compact_range(
            db: *mut c_void,
            from: *const c_char,
            from_len: usize,
            to: *const c_char,
            to_len: usize,
        );
        pub fn leveldb_create_iterator(db: *mut c_void, options: *const c_void) -> *mut c_void;
        pub fn leveldb_iter_destroy(iter: *mut c_void);
        pub fn leveldb_iter_valid(iter: *const c_void) -> c_uchar;
        pub fn leveldb_iter_seek_to_first(iter: *mut c_void);
        pub fn leveldb_iter_seek_to_last(iter: *mut c_void);
        pub fn leveldb_iter_seek(iter: *mut c_void, key: *const c_char, key_len: usize);
        pub fn leveldb_iter_next(iter: *mut c_void);
        pub fn leveldb_iter_prev(iter: *mut c_void);
        pub fn leveldb_iter_key(iter: *const c_void, len: *mut usize) -> *const c_char;
        pub fn leveldb_iter_value(iter: *const c_void, len: *mut usize) -> *const c_char;
        pub fn leveldb_iter_get_error(iter: *const c_void, error: *mut *mut c_char);
        pub fn leveldb_writebatch_create() -> *mut c_void;
        pub fn leveldb_writebatch_destroy(batch: *mut c_void);
        pub fn leveldb_writebatch_put(
            batch: *mut c_void,
            key: *const c_char,
            key_len: usize,
            value: *const c_char,
            value_len: usize,
        );
        pub fn leveldb_free(pointer: *mut c_void);
        pub fn leveldb_major_version() -> c_int;
        pub fn leveldb_minor_version() -> c_int;
    }
}

/// A LevelDB database with the objects that it was opened with, which live as long.
pub struct LevelStore {
    db: *mut c_void,
    cache: *mut c_void,
    filter: *mut c_void,
    read: *mut c_void,
    write: *mut c_void,
    synced: *mut c_void,
    dir: PathBuf,
}

// SAFETY: the library's objects may be used from any thread, also concurrently. Objects of single
// calls (iterators, batches) are not in here.
unsafe impl Send for LevelStore {}
// SAFETY: as above.
unsafe impl Sync for LevelStore {}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<LevelStore> {
    let name = CString::new(dir.to_str().ok_or("the folder's name is no text")?)?;
    // SAFETY: as the module says; the options are not needed after the opening.
    unsafe {
        let mut store = LevelStore {
            db: ptr::null_mut(),
            cache: c::leveldb_cache_create_lru(settings.cache),
            filter: c::leveldb_filterpolicy_create_bloom(10),
            read: c::leveldb_readoptions_create(),
            write: c::leveldb_writeoptions_create(),
            synced: c::leveldb_writeoptions_create(),
            dir: dir.to_owned(),
        };
        c::leveldb_writeoptions_set_sync(store.synced, 1);
        let options = c::leveldb_options_create();
        c::leveldb_options_set_create_if_missing(options, 1);
        c::leveldb_options_set_write_buffer_size(options, settings.memtable);
        c::leveldb_options_set_cache(options, store.cache);
        c::leveldb_options_set_filter_policy(options, store.filter);
        c::leveldb_options_set_compression(options, c_int::from(settings.lz4));
        let opened = checked(|error| c::leveldb_open(options, name.as_ptr(), error));
        c::leveldb_options_destroy(options);
        store.db = opened?;
        Ok(store)
    }
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Terms {
    // SAFETY: these only return numbers.
    let version = unsafe { (c::leveldb_major_version(), c::leveldb_minor_version()) };
    Terms {
        built: format!("libleveldb {}.{}", version.0, version.1),
        memtable: mebibytes(settings.memtable),
        cache: mebibytes(settings.cache),
        background: "1".into(),
        compression: if settings.lz4 { "snappy" } else { "none" }.into(),
        filter: "10-bit bloom".into(),
        values: "in the tables".into(),
        put: "in the log, handed to the system",
        sync: "the log, synced for a group of writers",
        compact: "everything",
    }
}

impl Drop for LevelStore {
    fn drop(&mut self) {
        // SAFETY: the objects that the store was opened with are dropped after it, and nothing is
        // used later. A store that failed to open has no handle.
        unsafe {
            if !self.db.is_null() {
                c::leveldb_close(self.db);
            }
            c::leveldb_readoptions_destroy(self.read);
            c::leveldb_writeoptions_destroy(self.write);
            c::leveldb_writeoptions_destroy(self.synced);
            c::leveldb_filterpolicy_destroy(self.filter);
            c::leveldb_cache_destroy(self.cache);
        }
    }
}

/// Calls the library with a pointer for its error message.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error = ptr::null_mut();
    let out = call(&mut error);
    if error.is_null() {
        return Ok(out);
    }
    // SAFETY: an error is a zero-terminated text that the caller frees.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        c::leveldb_free(error.cast());
        text
    };
    Err(text.into())
}

/// An iterator or similar object that is destroyed with its scope.
struct Owned {
    pointer: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the pointer is an object of the type that `destroy` expects, and exists only
        // here.
        unsafe { (self.destroy)(self.pointer) }
    }
}

impl LevelStore {
    fn compact_range(&self, range: Option<&[u8]>) {
        let (start, len) = range.map_or((ptr::null(), 0), |key| (key.as_ptr().cast(), key.len()));
        // SAFETY: as the module says; a null pointer means no bound.
        unsafe { c::leveldb_compact_range(self.db, start, len, start, len) }
    }
}

impl Store for LevelStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { self.synced } else { self.write };
        // SAFETY: as the module says.
        checked(|error| unsafe {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            c::leveldb_put(self.db, options, k, key.len(), v, value.len(), error);
        })
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        // SAFETY: as the module says.
        unsafe {
            let out = Owned {
                pointer: c::leveldb_writebatch_create(),
                destroy: c::leveldb_writebatch_destroy,
            };
            for (key, value) in batch.iter() {
                let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                c::leveldb_writebatch_put(out.pointer, k, key.len(), v, value.len());
            }
            checked(|error| c::leveldb_write(self.db, self.write, out.pointer, error))
        }
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let mut len = 0;
        // SAFETY: as the module says; a found value has this length and belongs to the caller.
        unsafe {
            let k = key.as_ptr().cast();
            let value =
                checked(|error| c::leveldb_get(self.db, self.read, k, key.len(), &mut len, error))?;
            if value.is_null() {
                return Ok(None);
            }
            let owned = Owned { pointer: value.cast(), destroy: c::leveldb_free };
            Ok(Some(f(slice::from_raw_parts(owned.pointer.cast(), len))))
        }
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: as the module says.
        checked(|error| unsafe {
            c::leveldb_delete(self.db, self.write, key.as_ptr().cast(), key.len(), error);
        })
    }

    #[inline]
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        // SAFETY: as the module says; key and value stay valid until the iterator moves.
        unsafe {
            let iter = Owned {
                pointer: c::leveldb_create_iterator(self.db, self.read),
                destroy: c::leveldb_iter_destroy,
            };
            let at = iter.pointer;
            let entry = |part: unsafe extern "C" fn(*const c_void, *mut usize) -> *const c_char| {
                let mut len = 0;
                let start = part(at, &mut len);
                slice::from_raw_parts(start.cast::<u8>(), len)
            };
            match (direction, from) {
                (Direction::Forward, None) => c::leveldb_iter_seek_to_first(at),
                (Direction::Reverse, None) => c::leveldb_iter_seek_to_last(at),
                (_, Some(key)) => c::leveldb_iter_seek(at, key.as_ptr().cast(), key.len()),
            }
            if let (Direction::Reverse, Some(key)) = (direction, from) {
                // The seek went to the key or after it; the reverse scan begins at the key or
                // before it.
                if c::leveldb_iter_valid(at) == 0 {
                    c::leveldb_iter_seek_to_last(at);
                } else if entry(c::leveldb_iter_key) != key {
                    c::leveldb_iter_prev(at);
                }
            }
            let mut count = 0;
            while count < limit && c::leveldb_iter_valid(at) != 0 {
                f(entry(c::leveldb_iter_key), entry(c::leveldb_iter_value));
                count += 1;
                match direction {
                    Direction::Forward => c::leveldb_iter_next(at),
                    Direction::Reverse => c::leveldb_iter_prev(at),
                }
            }
            checked(|error| c::leveldb_iter_get_error(at, error))?;
            Ok(count)
        }
    }

    fn flush(&self) -> Result<()> {
        self.compact_range(Some(&[]));
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.compact_range(None);
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
