//! A minimal in-memory environment for tests. It stores the synced content beside the written one,
//! so that a test can show the effect of a power cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, FileLock, FileMap, LogFile, LogView, ReadFile, Thread, WriteFile};

#[derive(Default)]
pub struct TestFile {
    pub now: Mutex<Vec<u8>>,
    pub synced: Mutex<Vec<u8>>,
    failing: AtomicBool,
}

#[derive(Default, Clone)]
pub struct TestEnv {
    pub files: Arc<Mutex<BTreeMap<PathBuf, Arc<TestFile>>>>,
    /// Makes every sync fail from now on.
    pub fail_syncs: Arc<AtomicBool>,
    pub syncs: Arc<AtomicU64>,
    /// The monotonic clock, in nanoseconds.
    pub nanos: Arc<AtomicU64>,
    /// Number of bytes read, and of files opened for reading.
    pub read: Arc<AtomicU64>,
    pub opened: Arc<AtomicU64>,
}

struct TestHandle {
    env: TestEnv,
    file: Arc<TestFile>,
}

fn missing(file: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no such file").in_file(file)
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap()
}

impl TestHandle {
    fn flush(&self) -> Result<()> {
        self.env.syncs.fetch_add(1, Ordering::Relaxed);
        if self.env.fail_syncs.load(Ordering::Relaxed) {
            self.file.failing.store(true, Ordering::Relaxed);
        }
        if self.file.failing.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "the disk says no"));
        }
        let now = lock(&self.file.now).clone();
        *lock(&self.file.synced) = now;
        Ok(())
    }
}

impl LogFile for TestHandle {
    fn capacity(&self) -> u64 {
        lock(&self.file.now).len() as u64
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        lock(&self.file.now)[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.flush()
    }
    fn prepare(&self, offset: u64, len: u64) {
        assert!(offset + len <= self.capacity());
    }
    fn view(&self, end: u64) -> Option<Arc<dyn LogView>> {
        Some(Arc::new(TestView(lock(&self.file.now)[..end as usize].to_vec())))
    }
    fn shorten(&mut self, len: u64) -> Result<()> {
        assert!(len > 0 && len <= self.capacity());
        lock(&self.file.now).truncate(len as usize);
        Ok(())
    }
}

/// A copy of the bytes, which shows only how long views live.
struct TestView(Vec<u8>);

impl LogView for TestView {
    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.0.get(offset as usize..offset as usize + len)
    }
}

impl WriteFile for TestHandle {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        lock(&self.file.now).extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.flush()
    }
    fn len(&self) -> u64 {
        lock(&self.file.now).len() as u64
    }
}

impl ReadFile for TestHandle {
    fn len(&self) -> u64 {
        lock(&self.file.now).len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.env.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let f = lock(&self.file.now);
        let from = f.get(offset as usize..offset as usize + buf.len());
        buf.copy_from_slice(from.ok_or_else(|| Error::corruption("the file ends before"))?);
        Ok(())
    }
    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

impl TestEnv {
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let file = TestFile {
            synced: Mutex::new(bytes.clone()),
            now: Mutex::new(bytes),
            ..TestFile::default()
        };
        lock(&self.files).insert(path.to_path_buf(), Arc::new(file));
    }
    pub fn file(&self, path: &Path) -> Arc<TestFile> {
        lock(&self.files)[path].clone()
    }
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        lock(&self.file(path).now).clone()
    }
    fn handle(&self, path: &Path) -> Result<TestHandle> {
        let file = lock(&self.files).get(path).cloned().ok_or_else(|| missing(path))?;
        Ok(TestHandle { env: self.clone(), file })
    }
}

impl Env for TestEnv {
    fn create_dir_all(&self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let files = lock(&self.files);
        let names = files.keys().filter(|p| p.parent() == Some(dir)).filter_map(|p| p.file_name());
        Ok(names.map(|n| n.to_string_lossy().into_owned()).collect())
    }
    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn file_len(&self, file: &Path) -> Result<u64> {
        Ok(ReadFile::len(&self.handle(file)?))
    }
    fn open_read(&self, file: &Path, _: bool) -> Result<Arc<dyn ReadFile>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(self.handle(file)?))
    }
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let bytes = lock(&self.handle(file)?.file.now).clone();
        if bytes.len() as u64 > cap {
            Err(Error::corruption("too long").in_file(file))
        } else {
            Ok(bytes)
        }
    }
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        self.put(file, vec![]);
        Ok(Box::new(self.handle(file)?))
    }
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.handle(file)?))
    }
    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.put(file, vec![0; capacity as usize]);
        Ok(Box::new(self.handle(file)?))
    }
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        Ok(Box::new(self.handle(file)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = lock(&self.files);
        let file = files.remove(from).ok_or_else(|| missing(from))?;
        files.insert(to.to_path_buf(), file);
        Ok(())
    }
    fn hard_link(&self, _: &Path, to: &Path) -> Result<()> {
        Err(missing(to))
    }
    fn remove(&self, file: &Path) -> Result<()> {
        lock(&self.files).remove(file).map(|_| ()).ok_or_else(|| missing(file))
    }
    fn remove_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        Err(missing(file))
    }
    fn free_space(&self, _: &Path) -> Option<u64> {
        None
    }
    fn wall_micros(&self) -> u64 {
        0
    }
    fn monotonic_nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
    fn sleep(&self, _: Duration) {}
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        Err(Error::invalid("no threads here"))
    }
    fn random(&self) -> u64 {
        4
    }
}
