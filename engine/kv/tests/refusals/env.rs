//! An environment in memory that refuses operations by a rule, as a system does that lacks something.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::MemEnv;
use firn_kv::{Env, FileLock, LogFile, ReadFile, Thread, WriteFile};
use firn_kv::{Error, Result};
use parking_lot::Mutex;

/// What is being refused: an operation (`create`, `append`, `open`, `log`, `sync_dir`, `rename`, `link`, `write`, `sync`) on a file.
pub type Rule = Box<dyn FnMut(&str, &Path) -> Option<io::Error> + Send>;

/// An environment that refuses operations by a rule.
#[derive(Clone)]
pub struct Refusing {
    pub inner: Arc<MemEnv>,
    pub forked: Arc<AtomicBool>,
    rule: Arc<Mutex<Option<Rule>>>,
}

impl Refusing {
    pub fn new() -> Refusing {
        Refusing::over(MemEnv::new(1))
    }

    /// One that refuses nothing yet.
    pub fn over(inner: MemEnv) -> Refusing {
        Refusing { inner: Arc::new(inner), forked: Arc::default(), rule: Arc::default() }
    }

    pub fn refuse(&self, rule: impl FnMut(&str, &Path) -> Option<io::Error> + Send + 'static) {
        *self.rule.lock() = Some(Box::new(rule));
    }

    pub fn allow(&self) {
        *self.rule.lock() = None;
    }

    fn ask(&self, what: &str, path: &Path) -> Result<()> {
        match self.rule.lock().as_mut().and_then(|r| r(what, path)) {
            Some(e) => Err(Error::io(what, path, e)),
            None => Ok(()),
        }
    }
}

struct RefusingWrite(Box<dyn WriteFile>, Refusing, std::path::PathBuf);

impl WriteFile for RefusingWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(e) = self.1.ask("write", &self.2) {
            // A part was written before the device was full.
            self.0.append(&bytes[..bytes.len() / 2])?;
            return Err(e);
        }
        self.0.append(bytes)
    }
    fn sync(&mut self) -> Result<()> {
        self.1.ask("sync", &self.2)?;
        self.0.sync()
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl Env for Refusing {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.ask("sync_dir", dir)?;
        self.inner.sync_dir(dir)
    }
    fn file_len(&self, file: &Path) -> Result<u64> {
        self.inner.file_len(file)
    }
    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        self.ask("open", file)?;
        self.inner.open_read(file, map)
    }
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        self.inner.read_all(file, cap)
    }
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        self.ask("create", file)?;
        Ok(Box::new(RefusingWrite(self.inner.create(file)?, self.clone(), file.to_path_buf())))
    }
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        self.ask("append", file)?;
        Ok(Box::new(RefusingWrite(self.inner.append(file)?, self.clone(), file.to_path_buf())))
    }
    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.ask("log", file)?;
        self.inner.create_log(file, capacity)
    }
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        self.ask("log", file)?;
        self.inner.reuse_log(file)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.ask("rename", from)?;
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.ask("link", to)?;
        self.inner.hard_link(from, to)
    }
    fn remove(&self, file: &Path) -> Result<()> {
        self.inner.remove(file)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(file)
    }
    fn free_space(&self, dir: &Path) -> Option<u64> {
        self.inner.free_space(dir)
    }
    fn wall_micros(&self) -> u64 {
        self.inner.wall_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }
    fn sleep(&self, time: Duration) {
        self.inner.sleep(time)
    }
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        self.inner.spawn(name, work)
    }
    fn is_forked(&self) -> bool {
        self.forked.load(Ordering::Relaxed)
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
}
