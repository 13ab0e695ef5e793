//! Pebble, through a C interface of this crate (`pebble/store.go`, feature `pebble`).
//!
//! Each call crosses into Go, and its result is copied once: a Go program has neither cost. Scans
//! cross once for as many entries as fit into the buffer. Pebble compresses with Snappy.
//!
//! `unsafe`: every passed pointer belongs to a slice passed with its length, or to an output
//! variable. Go stores no pointer, and the store may be called from many threads.

use firn_workload::{Direction, Result, Store, StoreBatch, StoreStats, process::disk_bytes};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use super::{Settings, Terms, mebibytes};

/// Exports of `pebble/store.go`. A failed call returns a text, which is freed here.
mod c {
    use super::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub fn firn_pebble_open(
            dir: *const c_char,
            memtable: u64,
            cache: u64,
            compactions: c_int,
            compress: c_int,
            store: *mut usize,
        ) -> *mut c_char;
        pub fn firn_pebble_close(store: usize) -> *mut c_char;
        pub fn firn_pebble_put(
            store: usize,
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
            sync: c_int,
        ) -> *mut c_char;
        pub fn firn_pebble_delete(store: usize, key: *const u8, key_len: usize) -> *mut c_char;
        pub fn firn_pebble_write(store: usize, entries: *const u8, len: usize) -> *mut c_char;
        pub fn firn_pebble_get(
            store: usize,
            key: *const u8,
            key_len: usize,
            buffer: *mut u8,
            room: usize,
            len: *mut i64,
        ) -> *mut c_char;
        pub fn firn_pebble_scan(
            store: usize,
            from: *const u8,
            from_len: usize,
            reverse: c_int,
            scan: *mut usize,
        ) -> *mut c_char;
        pub fn firn_pebble_walk(
            scan: usize,
            limit: u64,
            reverse: c_int,
            buffer: *mut u8,
            room: usize,
            len: *mut i64,
        ) -> *mut c_char;
        pub fn firn_pebble_scan_close(scan: usize) -> *mut c_char;
        pub fn firn_pebble_flush(store: usize) -> *mut c_char;
        pub fn firn_pebble_compact(store: usize) -> *mut c_char;
        pub fn free(pointer: *mut c_void);
    }
}

/// Initial bytes of a thread's buffer; it grows for larger results.
const BUFFER: usize = 64 << 10;

/// Bytes before an entry in a buffer: the lengths of its key and value.
const HEADER: usize = 8;

thread_local! {
    static TAKEN: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// An open Pebble store.
pub struct PebbleStore {
    handle: usize,
    dir: PathBuf,
}

/// Opens the store in `dir`; creates it if missing.
pub fn open(dir: &Path, settings: &Settings) -> Result<PebbleStore> {
    let name = CString::new(dir.to_str().ok_or("the folder's name is no text")?)?;
    let (memtable, cache) = (settings.memtable as u64, settings.cache as u64);
    let (compactions, compress) = (c_int::try_from(compactions(settings))?, settings.lz4.into());
    let mut handle = 0;
    // SAFETY: as the module says.
    checked(unsafe {
        c::firn_pebble_open(name.as_ptr(), memtable, cache, compactions, compress, &mut handle)
    })?;
    Ok(PebbleStore { handle, dir: dir.to_owned() })
}

/// Returns the conditions.
pub fn terms(settings: &Settings) -> Result<Terms> {
    const MODULE: &str = "github.com/cockroachdb/pebble/v2 ";
    let mut needed = include_str!("../../pebble/go.mod").lines();
    let version =
        needed.find_map(|line| line.trim().split_once(MODULE)).ok_or("go.mod is empty")?;
    Ok(Terms {
        built: format!("pebble {}", version.1),
        memtable: mebibytes(settings.memtable),
        cache: mebibytes(settings.cache),
        background: format!("up to {} compactions", compactions(settings)),
        compression: if settings.lz4 { "snappy" } else { "none" }.into(),
        filter: "10-bit bloom".into(),
        values: "in the tables".into(),
        put: "in a buffer of the log, written by a thread",
        sync: "the log, synced for a group of writers",
        compact: "everything",
    })
}

fn compactions(settings: &Settings) -> usize {
    settings.background.max(1)
}

/// Converts the result of a call.
fn checked(said: *mut c_char) -> Result<()> {
    if said.is_null() {
        return Ok(());
    }
    // SAFETY: the message is a zero-terminated text that the caller frees.
    let text = unsafe {
        let text = CStr::from_ptr(said).to_string_lossy().into_owned();
        c::free(said.cast());
        text
    };
    Err(text.into())
}

/// Returns the address of a slice. An empty slice may have an invalid address, for which Go's
/// collector would abort the process.
fn start(bytes: &[u8]) -> *const u8 {
    static SOMEWHERE: u8 = 0;
    if bytes.is_empty() { &SOMEWHERE } else { bytes.as_ptr() }
}

fn push_length(out: &mut Vec<u8>, len: usize) -> Result<()> {
    out.extend_from_slice(&u32::try_from(len)?.to_le_bytes());
    Ok(())
}

/// Returns the first entry of a buffer and the rest; `None` at its end.
fn first(entries: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (header, rest) = entries.split_first_chunk::<HEADER>()?;
    let length = |at: usize| -> Option<usize> {
        usize::try_from(u32::from_le_bytes(header[at..at + 4].try_into().ok()?)).ok()
    };
    let (key, rest) = rest.split_at_checked(length(0)?)?;
    let (value, rest) = rest.split_at_checked(length(4)?)?;
    Some((key, value, rest))
}

/// An open scan in Go.
struct PebbleScan(usize);

impl Drop for PebbleScan {
    fn drop(&mut self) {
        // SAFETY: the scan is open, and closed only here. Its errors were returned earlier.
        let _ = checked(unsafe { c::firn_pebble_scan_close(self.0) });
    }
}

impl Drop for PebbleStore {
    fn drop(&mut self) {
        // SAFETY: the store is open, and closed only here.
        if let Err(e) = checked(unsafe { c::firn_pebble_close(self.handle) }) {
            eprintln!("pebble: {}: {e}", self.dir.display());
        }
    }
}

impl Store for PebbleStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let (k, v) = (start(key), start(value));
        // SAFETY: as the module says.
        checked(unsafe {
            c::firn_pebble_put(self.handle, k, key.len(), v, value.len(), sync.into())
        })
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        let mut out = Vec::new();
        for (key, value) in batch.iter() {
            push_length(&mut out, key.len())?;
            push_length(&mut out, value.len())?;
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
        // SAFETY: as the module says.
        checked(unsafe { c::firn_pebble_write(self.handle, start(&out), out.len()) })
    }

    #[inline]
    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        TAKEN.with_borrow_mut(|buffer| {
            loop {
                let (out, room, mut len) = (buffer.as_mut_ptr(), buffer.len(), 0);
                // SAFETY: as the module says.
                checked(unsafe {
                    let k = start(key);
                    c::firn_pebble_get(self.handle, k, key.len(), out, room, &mut len)
                })?;
                // A negative length means that the key is missing.
                let Ok(len) = usize::try_from(len) else { return Ok(None) };
                match buffer.get(..len) {
                    Some(value) => return Ok(Some(f(value))),
                    None => buffer.resize(len, 0),
                }
            }
        })
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: as the module says.
        checked(unsafe { c::firn_pebble_delete(self.handle, start(key), key.len()) })
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let reverse = c_int::from(direction == Direction::Reverse);
        let (begin, len) = from.map_or((ptr::null(), 0), |key| (start(key), key.len()));
        let mut handle = 0;
        // SAFETY: as the module says; a null pointer means the end of all keys.
        checked(unsafe { c::firn_pebble_scan(self.handle, begin, len, reverse, &mut handle) })?;
        let scan = PebbleScan(handle);
        let mut count = 0;
        TAKEN.with_borrow_mut(|buffer| {
            while count < limit {
                let (out, room, mut used) = (buffer.as_mut_ptr(), buffer.len(), 0);
                // SAFETY: as the module says.
                checked(unsafe {
                    c::firn_pebble_walk(scan.0, limit - count, reverse, out, room, &mut used)
                })?;
                let bytes = usize::try_from(used.unsigned_abs())?;
                if used < 0 {
                    buffer.resize(bytes, 0);
                    continue;
                }
                let mut left = buffer.get(..bytes).ok_or("a walk gave more than was asked for")?;
                if left.is_empty() {
                    break;
                }
                while let Some((key, value, rest)) = first(left) {
                    f(key, value);
                    count += 1;
                    left = rest;
                }
            }
            Ok(count)
        })
    }

    fn flush(&self) -> Result<()> {
        // SAFETY: as the module says.
        checked(unsafe { c::firn_pebble_flush(self.handle) })
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: as the module says.
        checked(unsafe { c::firn_pebble_compact(self.handle) })
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats { disk_bytes: Some(disk_bytes(&self.dir)?), written_bytes: None })
    }
}
