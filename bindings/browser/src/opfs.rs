//! Files of the origin private file system (OPFS): pools that `opfs.js` holds open.
//!
//! Invariants:
//! - A pool is open in one worker of all tabs: its first file is locked by the browser.
//! - A write that the browser does in parts is continued.

use std::io;

use firn_browser_pool::PoolStorage;
use firn_kv::{Error, ErrorKind, Result};
use js_sys::Promise;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen(module = "/src/opfs.js")]
extern "C" {
    #[wasm_bindgen(js_name = openPool)]
    fn open_pool(name: &str) -> Promise;
    #[wasm_bindgen(js_name = growPool)]
    fn grow_pool(pool: u32, count: u32) -> Promise;
    #[wasm_bindgen(js_name = closePool)]
    fn close_pool(pool: u32);
    #[wasm_bindgen(js_name = removePool)]
    fn remove_pool(name: &str) -> Promise;
    #[wasm_bindgen(js_name = countFiles)]
    fn count_files(pool: u32) -> u32;
    #[wasm_bindgen(js_name = fileSize, catch)]
    fn file_size(pool: u32, file: u32) -> std::result::Result<f64, JsValue>;
    #[wasm_bindgen(js_name = readFile, catch)]
    fn read_file(
        pool: u32,
        file: u32,
        at: f64,
        bytes: &mut [u8],
    ) -> std::result::Result<f64, JsValue>;
    #[wasm_bindgen(js_name = writeFile, catch)]
    fn write_file(pool: u32, file: u32, at: f64, bytes: &[u8])
    -> std::result::Result<f64, JsValue>;
    #[wasm_bindgen(js_name = truncateFile, catch)]
    fn truncate_file(pool: u32, file: u32, size: f64) -> std::result::Result<(), JsValue>;
    #[wasm_bindgen(js_name = flushFile, catch)]
    fn flush_file(pool: u32, file: u32) -> std::result::Result<(), JsValue>;
}

/// Returns name and message of an exception.
fn parts(exception: &JsValue) -> (String, String) {
    match exception.dyn_ref::<js_sys::Error>() {
        Some(error) => (String::from(error.name()), String::from(error.message())),
        None => (String::new(), format!("{exception:?}")),
    }
}

fn io_error(exception: JsValue) -> io::Error {
    let (name, message) = parts(&exception);
    let kind = match &*name {
        "QuotaExceededError" => io::ErrorKind::StorageFull,
        "NotFoundError" => io::ErrorKind::NotFound,
        "NotSupportedError" => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("{message} ({name})"))
}

/// Returns the path of a store for errors.
fn path_of(name: &str) -> String {
    format!("opfs:{name}")
}

fn check_name(name: &str) -> Result<()> {
    let is_valid = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
    let why = "the name of a store is empty, begins with a dot or has a slash: give another";
    if is_valid { Ok(()) } else { Err(Error::invalid(why).in_file(path_of(name))) }
}

fn open_error(what: &str, name: &str, exception: JsValue) -> Error {
    if parts(&exception).0 == "NoModificationAllowedError" {
        let why = "another tab or worker has the store open: close it there first";
        return Error::new(ErrorKind::Locked, why).in_file(path_of(name));
    }
    Error::io(what, path_of(name), io_error(exception))
}

/// A pool of files that is open in this worker.
#[derive(Debug)]
pub(crate) struct OpfsFiles {
    pool: u32,
}

impl OpfsFiles {
    /// Opens the pool with this name; creates it if it is missing.
    pub(crate) async fn open(name: &str) -> Result<OpfsFiles> {
        check_name(name)?;
        let opened = JsFuture::from(open_pool(name)).await;
        let pool = opened.map_err(|e| open_error("open", name, e))?.as_f64().unwrap_or_default();
        Ok(OpfsFiles { pool: pool as u32 })
    }

    /// Adds files until there are this many.
    pub(crate) async fn grow(&self, count: u32) -> Result<()> {
        let grown = JsFuture::from(grow_pool(self.pool, count)).await;
        grown.map_err(|e| Error::io("add files to", "the pool of files", io_error(e)))?;
        Ok(())
    }

    /// Closes all files, so that another worker can open them.
    pub(crate) fn close(&self) {
        close_pool(self.pool);
    }

    /// Deletes the pool with this name.
    pub(crate) async fn remove(name: &str) -> Result<()> {
        check_name(name)?;
        let removed = JsFuture::from(remove_pool(name)).await;
        removed.map_err(|e| open_error("delete", name, e))?;
        Ok(())
    }
}

impl Drop for OpfsFiles {
    fn drop(&mut self) {
        self.close();
    }
}

impl PoolStorage for OpfsFiles {
    fn count(&self) -> u32 {
        count_files(self.pool)
    }

    fn add(&self) -> io::Result<u32> {
        let why = "the pool has no free file: call `await reserve()` between writes";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    fn len(&self, file: u32) -> io::Result<u64> {
        file_size(self.pool, file).map(|len| len as u64).map_err(io_error)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let at = (offset + done as u64) as f64;
            match read_file(self.pool, file, at, &mut buf[done..]).map_err(io_error)? as usize {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn write(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = (offset + done as u64) as f64;
            match write_file(self.pool, file, at, &bytes[done..]).map_err(io_error)? as usize {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    fn set_len(&self, file: u32, len: u64) -> io::Result<()> {
        truncate_file(self.pool, file, len as f64).map_err(io_error)
    }

    fn flush(&self, file: u32) -> io::Result<()> {
        flush_file(self.pool, file).map_err(io_error)
    }

    fn page_cache_bytes(&self) -> Option<u64> {
        None
    }
}
