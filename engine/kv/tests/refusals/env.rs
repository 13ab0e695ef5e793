//! In-memory environment that refuses operations by a rule, like a system that lacks a resource.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_crash::CrashEnv;
use firn_kv::Env;
use firn_kv::fs::{LogFile, ReadFile, WriteFile};
use firn_kv::{Error, Result};
use firn_testkit::as_inside;
use parking_lot::Mutex;

/// Rule that refuses operations. It receives the operation (`create`, `append`, `open`, `log`,
/// `sync_dir`, `rename`, `link`, `write`, `sync`) and the file, and returns the error, if any.
pub type Rule = Box<dyn FnMut(&str, &Path) -> Option<io::Error> + Send>;

/// Environment that refuses operations by a rule.
#[derive(Clone)]
pub struct Refusing {
    pub inner: Arc<CrashEnv>,
    pub forked: Arc<AtomicBool>,
    rule: Arc<Mutex<Option<Rule>>>,
}

impl Refusing {
    pub fn new() -> Refusing {
        Refusing::over(CrashEnv::new(1))
    }

    /// Returns an environment that refuses nothing yet.
    pub fn over(inner: CrashEnv) -> Refusing {
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
            // Half of the bytes were written before the device was full.
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
    as_inside! {
        inner: create_dir_all list file_len read_all remove remove_dir lock free_space wall_micros monotonic_nanos sleep
        spawn random
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.ask("sync_dir", dir)?;
        self.inner.sync_dir(dir)
    }
    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        self.ask("open", file)?;
        self.inner.open_read(file, map)
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
    fn is_forked(&self) -> bool {
        self.forked.load(Ordering::Relaxed)
    }
}
