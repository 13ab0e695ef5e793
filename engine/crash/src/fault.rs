//! An environment that makes chosen operations of another one fail, to test how a store handles
//! failures.
//!
//! Every fallible call on the environment or its files is an operation, including reads. Operations
//! are numbered from 0 in the order in which they begin. [`FaultEnv::only`] restricts this to some
//! classes. Each operation is recorded, so that a test can report the failed one.
//!
//! Invariants:
//! - A failed operation has no effect on the inner environment, with two exceptions.
//!   [`Fault::ShortWrite`] writes a part. A failed sync leaves its bytes undurable for good if the
//!   inner one is a [`CrashEnv`](crate::CrashEnv); any other environment does sync, and only the
//!   result is an error.
//! - [`Fault::Eintr`] is invisible, because environments repeat interrupted calls.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_kv::{Env, Error, Result};

use firn_kv::fs::{FileLock, FileMap, FileTerms, LogFile, ReadFile, Thread, WriteFile};

use crate::env::{device_error, with_failing_syncs};
use crate::time::Mutex;

/// The way an operation fails. If a fault does not apply (a short write of a read), the operation
/// succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails: any operation.
    Eio,
    /// The device is full: writes, changes of directories, and syncs (which may allocate blocks).
    Enospc,
    /// Half of the bytes are written, then the device fails: writes.
    ShortWrite,
    /// A signal interrupts the call, which is repeated: any operation. It has no visible effect.
    Eintr,
    /// A sync fails, and the system drops its dirty bytes: a later sync succeeds without having
    /// written them.
    SyncFails,
}

/// The classes of operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpClass {
    /// Opening for reading, reading, listing, asking for a length.
    Read,
    /// Appending, and writing to a log.
    Write,
    /// Syncing a file or a directory.
    Sync,
    /// Changing a directory: creating, opening for writing, renaming, linking, removing, locking.
    Dir,
    /// Starting a thread.
    Spawn,
}

impl Fault {
    fn applies_to(self, class: OpClass) -> bool {
        match self {
            Fault::Eio | Fault::Eintr => true,
            Fault::Enospc => matches!(class, OpClass::Write | OpClass::Sync | OpClass::Dir),
            Fault::ShortWrite => class == OpClass::Write,
            Fault::SyncFails => class == OpClass::Sync,
        }
    }

    fn error(self) -> io::Error {
        match self {
            Fault::Enospc => io::Error::from(io::ErrorKind::StorageFull),
            _ => device_error(),
        }
    }
}

/// An environment that makes chosen operations of another one fail. Clones are handles to the same
/// one.
///
/// Every fallible call on the environment or its files is an operation, including reads. Operations
/// are numbered from 0 in the order in which they begin. [`FaultEnv::only`] counts some classes
/// only.
#[derive(Clone)]
pub struct FaultEnv {
    inner: Arc<dyn Env>,
    plan: Arc<FaultPlan>,
}

impl fmt::Debug for FaultEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultEnv").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct FaultPlan(Mutex<PlanState>);

#[derive(Default)]
struct PlanState {
    /// The first operation that fails, its fault, and whether later ones fail too.
    fault: Option<(u64, Fault, bool)>,
    /// Called with its number when an operation begins.
    call: Option<Arc<dyn Fn(u64) + Send + Sync>>,
    /// The classes that count; all if empty.
    only: Vec<OpClass>,
    done: Vec<(&'static str, Arc<Path>)>,
    injected: u64,
}

impl FaultPlan {
    /// Counts an operation, and returns its fault, if any.
    fn step(&self, class: OpClass, what: &'static str, path: &Arc<Path>) -> Option<Fault> {
        let mut plan = self.0.lock();
        if !plan.only.is_empty() && !plan.only.contains(&class) {
            return None;
        }
        let n = plan.done.len() as u64;
        plan.done.push((what, path.clone()));
        if let Some(call) = &plan.call {
            call(n);
        }
        let (at, fault, lasting) = plan.fault?;
        if (n == at || (lasting && n > at)) && fault.applies_to(class) {
            plan.injected += 1;
            return (fault != Fault::Eintr).then_some(fault);
        }
        None
    }

    /// Like `step`, for operations that fail as a whole.
    fn check(&self, class: OpClass, what: &'static str, path: &Arc<Path>) -> Result<()> {
        match self.step(class, what, path) {
            Some(fault) => Err(Error::io(what, path, fault.error())),
            None => Ok(()),
        }
    }

    /// Writes all of `bytes`, or as many as the fault permits.
    fn write(
        &self,
        path: &Arc<Path>,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(fault) = self.step(OpClass::Write, "write", path) else { return write(bytes) };
        if fault == Fault::ShortWrite {
            write(&bytes[..bytes.len() / 2])?;
        }
        Err(Error::io("write", path, fault.error()))
    }

    fn sync(
        &self,
        what: &'static str,
        path: &Arc<Path>,
        sync: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(fault) = self.step(OpClass::Sync, what, path) else { return sync() };
        // The in-memory environment records the lost bytes and fails; the fault's own error is
        // reported.
        let _ = with_failing_syncs(sync);
        Err(Error::io(what, path, fault.error()))
    }
}

impl FaultEnv {
    /// Wraps an environment; no operation fails yet.
    pub fn new(inner: Arc<dyn Env>) -> FaultEnv {
        FaultEnv { inner, plan: Arc::default() }
    }

    /// Returns how many operations have begun.
    pub fn count(&self) -> u64 {
        self.plan.0.lock().done.len() as u64
    }

    /// Returns how many operations have failed (or, with [`Fault::Eintr`], were repeated).
    pub fn injected(&self) -> u64 {
        self.plan.0.lock().injected
    }

    /// Makes operation `n` (from 0) fail; later ones succeed.
    pub fn fail_nth(&self, n: u64, fault: Fault) {
        self.plan.0.lock().fault = Some((n, fault, false));
    }

    /// Makes operation `n` (from 0) and all later ones fail.
    pub fn fail_from(&self, n: u64, fault: Fault) {
        self.plan.0.lock().fault = Some((n, fault, true));
    }

    /// Calls `f` when operation `n` (from 0) begins, before it has any effect, for example to end
    /// the process there.
    pub fn call_at(&self, n: u64, f: impl Fn() + Send + Sync + 'static) {
        self.call_each(move |at| {
            if at == n {
                f();
            }
        });
    }

    /// Calls `f` with its number (from 0) when each operation begins, for example to change files
    /// like another process. `f` must not call this environment.
    pub fn call_each(&self, f: impl Fn(u64) + Send + Sync + 'static) {
        self.plan.0.lock().call = Some(Arc::new(f));
    }

    /// Stops all failures. The count continues.
    pub fn heal(&self) {
        self.plan.0.lock().fault = None;
    }

    /// Counts, and makes fail, only operations of these classes; all if empty. Call it before the
    /// first operation.
    pub fn only(&self, classes: &[OpClass]) {
        self.plan.0.lock().only = classes.to_vec();
    }

    /// Describes operation `n`.
    pub fn describe(&self, n: u64) -> Option<String> {
        let plan = self.plan.0.lock();
        let (what, path) = plan.done.get(usize::try_from(n).ok()?)?;
        Some(format!("{what} {}", path.display()))
    }

    fn check(&self, class: OpClass, what: &'static str, path: &Path) -> Result<Arc<Path>> {
        let path: Arc<Path> = path.into();
        self.plan.check(class, what, &path)?;
        Ok(path)
    }
}

struct FaultRead {
    inner: Arc<dyn ReadFile>,
    plan: Arc<FaultPlan>,
    path: Arc<Path>,
}

impl ReadFile for FaultRead {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.plan.check(OpClass::Read, "read", &self.path).map_err(|e| e.at(&self.path, offset))?;
        self.inner.read_at(offset, buf)
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        self.inner.map()
    }

    fn at_random(&self) {
        self.inner.at_random();
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }
}

struct FaultWrite {
    inner: Box<dyn WriteFile>,
    plan: Arc<FaultPlan>,
    path: Arc<Path>,
}

impl WriteFile for FaultWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.plan.write(&self.path, bytes, |bytes| self.inner.append(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.plan.sync("sync", &self.path, || self.inner.sync())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }
}

struct FaultLog {
    inner: Box<dyn LogFile>,
    plan: Arc<FaultPlan>,
    path: Arc<Path>,
}

impl LogFile for FaultLog {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.plan.write(&self.path, bytes, |bytes| self.inner.write_at(offset, bytes))
    }

    fn sync(&self) -> Result<()> {
        self.plan.sync("sync", &self.path, || self.inner.sync())
    }

    fn prepare(&self, offset: u64, len: u64) {
        self.inner.prepare(offset, len);
    }

    fn discard_from(&self, offset: u64) {
        self.inner.discard_from(offset);
    }

    fn shorten(&mut self, len: u64) -> Result<()> {
        self.plan.check(OpClass::Write, "shorten", &self.path)?;
        self.inner.shorten(len)
    }
}

impl Env for FaultEnv {
    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn Env>>> {
        self.check(OpClass::Read, "open the directory", dir)?;
        let held = self.inner.hold_dir(dir)?;
        Ok(held.map(|inner| Arc::new(FaultEnv { inner, plan: self.plan.clone() }) as _))
    }

    fn with_terms(&self, terms: FileTerms) -> Option<Arc<dyn Env>> {
        let inner = self.inner.with_terms(terms)?;
        Some(Arc::new(FaultEnv { inner, plan: self.plan.clone() }))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.check(OpClass::Dir, "create the directory", dir)?;
        self.inner.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.check(OpClass::Read, "list", dir)?;
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.plan.sync("sync the directory", &dir.into(), || self.inner.sync_dir(dir))
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        self.check(OpClass::Read, "read the length of", file)?;
        self.inner.file_len(file)
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        let path = self.check(OpClass::Read, "open", file)?;
        Ok(Arc::new(FaultRead {
            inner: self.inner.open_read(file, map)?,
            plan: self.plan.clone(),
            path,
        }))
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        self.check(OpClass::Read, "read all of", file)?;
        self.inner.read_all(file, cap)
    }

    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let path = self.check(OpClass::Dir, "create", file)?;
        Ok(Box::new(FaultWrite { inner: self.inner.create(file)?, plan: self.plan.clone(), path }))
    }

    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let path = self.check(OpClass::Dir, "open for appending", file)?;
        Ok(Box::new(FaultWrite { inner: self.inner.append(file)?, plan: self.plan.clone(), path }))
    }

    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let path = self.check(OpClass::Dir, "create log", file)?;
        Ok(Box::new(FaultLog {
            inner: self.inner.create_log(file, capacity)?,
            plan: self.plan.clone(),
            path,
        }))
    }

    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let path = self.check(OpClass::Dir, "use log again", file)?;
        Ok(Box::new(FaultLog { inner: self.inner.reuse_log(file)?, plan: self.plan.clone(), path }))
    }

    fn rewrite_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let path = self.check(OpClass::Dir, "write log again", file)?;
        Ok(Box::new(FaultLog {
            inner: self.inner.rewrite_log(file)?,
            plan: self.plan.clone(),
            path,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check(OpClass::Dir, "rename", from)?;
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.check(OpClass::Dir, "link", from)?;
        self.inner.hard_link(from, to)
    }

    fn remove(&self, file: &Path) -> Result<()> {
        self.check(OpClass::Dir, "remove", file)?;
        self.inner.remove(file)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.check(OpClass::Dir, "remove the directory", dir)?;
        self.inner.remove_dir(dir)
    }

    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        self.check(OpClass::Dir, "lock", file)?;
        self.inner.lock(file)
    }

    fn free_space(&self, dir: &Path) -> Option<u64> {
        self.inner.free_space(dir)
    }

    fn memory(&self) -> Option<u64> {
        self.inner.memory()
    }

    fn descriptors(&self) -> Option<u64> {
        self.inner.descriptors()
    }

    fn wall_micros(&self) -> u64 {
        self.inner.wall_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }

    fn sleep(&self, time: Duration) {
        self.inner.sleep(time);
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        self.check(OpClass::Spawn, "start thread", Path::new(name))?;
        self.inner.spawn(name, work)
    }

    fn lower_priority(&self) {
        self.inner.lower_priority();
    }

    fn is_forked(&self) -> bool {
        self.inner.is_forked()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::ErrorKind;

    use super::*;
    use crate::{CrashEnv, Cut};

    fn wrapped() -> (CrashEnv, FaultEnv) {
        let mem = CrashEnv::new(1);
        (mem.clone(), FaultEnv::new(Arc::new(mem)))
    }

    /// Runs a history with every class of operations.
    fn history(env: &dyn Env) -> Result<Vec<u8>> {
        let dir = Path::new("/d");
        env.create_dir_all(dir)?;
        env.sync_dir(Path::new("/"))?;
        let _lock = env.lock(&dir.join("LOCK"))?;
        let mut log = env.create_log(&dir.join("log"), 64)?;
        log.write_at(0, b"logged")?;
        log.sync()?;
        log.shorten(32)?;
        drop(log);
        env.reuse_log(&dir.join("log"))?.write_at(6, b"again")?;
        let mut file = env.create(&dir.join("a.tmp"))?;
        file.append(b"first")?;
        file.sync()?;
        env.append(&dir.join("a.tmp"))?.append(b"second")?;
        env.rename(&dir.join("a.tmp"), &dir.join("a"))?;
        env.hard_link(&dir.join("a"), &dir.join("b"))?;
        env.remove(&dir.join("a"))?;
        env.sync_dir(dir)?;
        env.create_dir_all(&dir.join("sub"))?;
        env.remove_dir(&dir.join("sub"))?;
        env.spawn("worker", Box::new(|| {}))?.join();
        assert_eq!(env.list(dir)?, ["LOCK", "b", "log"]);
        let read = env.open_read(&dir.join("b"), true)?;
        let mut bytes = vec![0; env.file_len(&dir.join("b"))? as usize];
        read.read_at(0, &mut bytes)?;
        assert_eq!(env.read_all(&dir.join("b"), 100)?, bytes);
        Ok(bytes)
    }

    #[test]
    fn every_operation_can_fail_and_says_which_it_was() {
        let (_, clean) = wrapped();
        assert_eq!(history(&clean).unwrap(), b"firstsecond");
        let count = clean.count();
        assert_eq!(count, 26);
        assert_eq!(clean.describe(0).unwrap(), "create the directory /d");
        assert_eq!(
            clean.describe(4).unwrap(),
            format!("write {}", Path::new("/d").join("log").display())
        );
        assert_eq!(clean.describe(count), None);
        for n in 0..count {
            let (_, env) = wrapped();
            env.fail_nth(n, Fault::Eio);
            let e = history(&env).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Io);
            assert_eq!((env.injected(), env.count()), (1, n + 1), "{}", env.describe(n).unwrap());
            assert!(e.file().is_some(), "{e}");
        }
    }

    #[test]
    fn a_full_device_spares_reads() {
        let (_, clean) = wrapped();
        history(&clean).unwrap();
        for n in 0..clean.count() {
            let (_, env) = wrapped();
            env.fail_from(n, Fault::Enospc);
            // The history only reads after it has started the thread.
            match history(&env) {
                Err(e) => assert_eq!((e.kind(), n < 20), (ErrorKind::NoSpace, true)),
                Ok(_) => assert!(n >= 20, "{}", clean.describe(n).unwrap()),
            }
        }
    }

    #[test]
    fn an_interrupted_call_is_invisible() {
        let (_, env) = wrapped();
        env.fail_from(0, Fault::Eintr);
        assert_eq!(history(&env).unwrap(), b"firstsecond");
        assert_eq!(env.injected(), env.count());
    }

    #[test]
    fn a_short_write_leaves_a_prefix() {
        let (mem, env) = wrapped();
        env.only(&[OpClass::Write]);
        let mut file = env.create(Path::new("/a")).unwrap();
        file.append(b"whole").unwrap();
        env.fail_nth(1, Fault::ShortWrite);
        assert_eq!(file.append(b"halved").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(mem.read_file(Path::new("/a")).unwrap(), b"wholehal");
        env.heal();
        file.append(b"!").unwrap();
        assert_eq!(mem.read_file(Path::new("/a")).unwrap(), b"wholehal!");
        assert_eq!((env.count(), env.injected()), (3, 1));
    }

    #[test]
    fn a_sync_that_failed_is_not_made_good_by_the_next() {
        let (mem, env) = wrapped();
        let path = Path::new("/a");
        let mut file = env.create(path).unwrap();
        env.sync_dir(Path::new("/")).unwrap();
        file.append(b"one").unwrap();
        file.sync().unwrap();
        file.append(b"two").unwrap();
        env.fail_from(0, Fault::SyncFails);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
        env.heal();
        file.append(b"three").unwrap();
        file.sync().unwrap();
        assert_eq!(mem.read_file(path).unwrap(), b"onetwothree");
        let image = mem.crash_image(0, &Cut::PowerNone);
        assert_eq!(image.read_file(path).unwrap(), b"one\0\0\0three");
        assert_eq!(env.injected(), 1);
    }
}
