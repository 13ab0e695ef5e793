//! A table file that may be closed between reads; the next read opens it again.
//!
//! Invariants:
//! - A read holds the slot's lock, shared, so the file is never closed during a read. Closing only
//!   tries to take the lock.
//! - A reopened file is the same file, or the read is an error. Its length and its last bytes,
//!   which contain the table's identity, are compared.
//! - Other processes may remove a *held* file while it is needed (a reader beside a writer). It is
//!   closed only if a map of it retains its content. It is reopened as long as it exists, and read
//!   from the map afterwards.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use super::{Env, FileMap, ReadFile};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::open_files::{Admitted, Closable, OpenFileList};
use crate::util::sync::{AtomicBool, Ordering, RwLock, rank};

/// The owner of closable files.
pub(crate) struct FileOwner {
    /// The environment.
    pub env: Arc<dyn Env>,
    /// The list that counts the open files.
    pub files: Arc<OpenFileList>,
    /// Whether files must stay readable although others may remove them.
    pub holds: bool,
    /// Set when the Db has been closed. Another process may have the directory now, and the file
    /// may be gone.
    pub closed: AtomicBool,
}

struct OpenFile {
    file: Arc<dyn ReadFile>,
    admitted: Admitted,
}

/// A file that is opened when it is read.
pub(crate) struct ClosableFile {
    slot: RwLock<Option<OpenFile>, rank::OpenFile>,
    used: AtomicBool,
    /// Whether the name no longer leads to the file; reads use the map then.
    gone: AtomicBool,
    me: Weak<ClosableFile>,
    owner: Arc<FileOwner>,
    path: PathBuf,
    map: bool,
    len: u64,
    /// The file's last bytes, which identify it.
    end: Vec<u8>,
    held: Option<Arc<dyn FileMap>>,
}

impl ClosableFile {
    /// Opens the file at `path`, for mapping if `map` is set. Its last `end` bytes identify it
    /// later.
    pub fn open(
        owner: &Arc<FileOwner>,
        path: &Path,
        map: bool,
        end: usize,
    ) -> Result<Arc<ClosableFile>> {
        let mut open = OpenFile::new(owner, path, map)?;
        let len = open.file.len();
        let mut bytes = vec![0; end.min(usize::try_from(len).unwrap_or(end))];
        open.file.read_at(len - bytes.len() as u64, &mut bytes)?;
        let held = if owner.holds { open.file.map() } else { None };
        let is_closable = !owner.holds || held.is_some();
        if !is_closable {
            open.admitted.hold();
        }
        let file = Arc::new_cyclic(|me| ClosableFile {
            slot: RwLock::new(Some(open)),
            used: AtomicBool::new(true),
            gone: AtomicBool::new(false),
            me: me.clone(),
            owner: owner.clone(),
            path: path.to_path_buf(),
            map,
            len,
            end: bytes,
            held,
        });
        if is_closable {
            owner.files.offer(file.me.clone());
        }
        Ok(file)
    }

    fn with<R>(&self, read: impl FnOnce(&dyn ReadFile) -> R) -> Result<R> {
        if let Some(open) = &*self.slot.read() {
            if !self.used.load(Ordering::Relaxed) {
                self.used.store(true, Ordering::Relaxed);
            }
            return Ok(read(&*open.file));
        }
        self.open_and(read)
    }

    #[cold]
    fn open_and<R>(&self, read: impl FnOnce(&dyn ReadFile) -> R) -> Result<R> {
        let mut slot = self.slot.write();
        if let Some(open) = &*slot {
            return Ok(read(&*open.file));
        }
        let open = self.open_again()?;
        self.used.store(true, Ordering::Relaxed);
        self.owner.files.offer(self.me.clone());
        Ok(read(&*slot.insert(open).file))
    }

    fn open_again(&self) -> Result<OpenFile> {
        let open = OpenFile::new(&self.owner, &self.path, self.map).map_err(|e| self.lost(e))?;
        let mut end = vec![0; self.end.len()];
        if open.file.len() == self.len {
            open.file.read_at(self.len - end.len() as u64, &mut end)?;
            if end == self.end {
                self.owner.files.count_reopened();
                return Ok(open);
            }
        }
        let words = "this is another file than the table that was opened; put the right one back, and open the store again";
        Err(self.lost(
            Error::corruption(words).at(&self.path, self.len - end.len() as u64).block("footer"),
        ))
    }

    /// Returns the error of a file that could not be reopened because of `e`.
    fn lost(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::NotFound | ErrorKind::Corruption
                if self.owner.closed.load(Ordering::Acquire) =>
            {
                let words = "the store has been closed, and a table that is needed had been closed before, to keep few files open";
                Error::new(ErrorKind::Closed, words).in_file(&self.path)
            }
            ErrorKind::NotFound | ErrorKind::Corruption if self.owner.env.is_forked() => {
                let words = "this process was made by fork(), and a table that is needed had been closed before, to keep few files open; open \
                             stores after the fork";
                Error::new(ErrorKind::ReadOnly, words).in_file(&self.path)
            }
            ErrorKind::NotFound => {
                let words = "a live table was removed while the store was open; put it back from a checkpoint or a backup";
                Error::corruption(words).at(&self.path, 0)
            }
            _ => e,
        }
    }

    /// Reads from the map that holds the file.
    fn read_held(&self, map: &dyn FileMap, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from =
            usize::try_from(offset).ok().and_then(|from| Some(from..from.checked_add(buf.len())?));
        match from.and_then(|range| map.bytes().get(range)) {
            Some(bytes) => {
                // Causes one read of the device instead of one per page.
                map.will_need(offset, bytes.len() as u64);
                buf.copy_from_slice(bytes);
            }
            None => return Err(super::os::ends_early(&self.path, offset, buf.len())),
        }
        Ok(())
    }
}

impl OpenFile {
    fn new(owner: &Arc<FileOwner>, path: &Path, map: bool) -> Result<OpenFile> {
        let admitted = owner.files.admit();
        let file = owner.env.open_read(path, map)?;
        // Sequential readers prefetch explicitly; all others want only single blocks.
        file.at_random();
        Ok(OpenFile { file, admitted })
    }
}

impl ReadFile for ClosableFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.len() == self.end.len() && offset.checked_add(buf.len() as u64) == Some(self.len) {
            buf.copy_from_slice(&self.end);
            return Ok(());
        }
        let Some(map) = &self.held else { return self.with(|f| f.read_at(offset, buf))? };
        if self.gone.load(Ordering::Relaxed) {
            return self.read_held(&**map, offset, buf);
        }
        match self.with(|f| f.read_at(offset, buf)) {
            Ok(done) => done,
            Err(e) => {
                // Retry later if the open failed only for want of a descriptor.
                self.gone.store(!e.is_transient(), Ordering::Relaxed);
                self.read_held(&**map, offset, buf)
            }
        }
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        self.held.clone().or_else(|| self.with(|f| f.map()).ok()?)
    }

    fn will_need(&self, offset: u64, len: u64) {
        match &self.held {
            Some(map) => map.will_need(offset, len),
            // The read itself reports errors.
            None => drop(self.with(|f| f.will_need(offset, len))),
        }
    }
}

impl Closable for ClosableFile {
    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn close(&self) -> bool {
        let open = self.slot.try_write().and_then(|mut slot| slot.take());
        open.is_some()
    }

    fn is_of_closed_db(&self) -> bool {
        self.owner.closed.load(Ordering::Acquire)
    }
}
