//! Holds the files of a store open for a reader without a lock, and lets the reader follow the
//! writer.
//!
//! A reader takes no lock. While it opens, the writer may compact tables, release or recycle log
//! segments, and begin another manifest. The writer may also remove, rename and overwrite files. An
//! opening therefore takes these steps:
//!
//! 1. It opens the existing segments.
//! 2. It reads the manifest.
//! 3. It opens the tables that the manifest names.
//! 4. It opens the segments that appeared in the meantime.
//! 5. It reads the log from the open segments.
//!
//! Invariants, and why the race ends:
//! - R1: a file that is held open is never read by its name. A removed segment stays readable
//!   through its open file, a table through its map or its open file. The bound on open files may
//!   have closed the file of a table. Then the table is reopened by name and verified by its
//!   footer. If the file is gone, the table is read from its map.
//! - R2: the writer releases log that a manifest needs only after a later manifest no longer needs
//!   it (W4 of the log). So a missing segment that existed before the manifest was read is not
//!   needed. Later segments were written after the opening began.
//! - R3: a recycled segment gets its new header first. Each read of a segment is therefore followed
//!   by a read of its header. If the header is unchanged, the bytes belong to the segment.
//! - R4: open files stay open for the next attempt, which opens only new files. An attempt fails
//!   only if the writer changed *new* files between the listing and the opening of a listed file:
//!   it wrote a table, named it in the manifest, compacted it and removed it.
//! - R5: an error counts only if the next attempt fails with the same error while the segments of
//!   the log have the same lengths, or if [`SAME_ERRORS`] attempts fail with it. A writer that
//!   removed the missing file no longer names it, and the log is read from the first position that
//!   was not released. So the number of attempts has no limit, and damage ends them at the second
//!   if no writer is active. A writer that is opened and closed all the time may truncate the same
//!   segment during two attempts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, FileLock, FileMap, LogFile, ReadFile, Thread, WriteFile};
use crate::iterator::opener::TableOpener;
use crate::iterator::table_handle::TableHandle;
use crate::util::sort::sort;
use crate::util::sorted_map::SortedMap;
use crate::wal::format::{SEGMENT_HEADER, SegmentHeader};
use crate::wal::{segment_name, segment_number};

type Header = [u8; SEGMENT_HEADER as usize];

/// Files that a reader holds open, and the errors of earlier attempts.
pub struct HeldReader {
    /// Opener of tables for all attempts.
    pub opener: Arc<TableOpener>,
    /// Handles of opened tables, by id.
    pub tables: HashMap<u64, Arc<TableHandle>>,
    log: HeldLog,
    /// Ids of tables that were missing although the manifest named them.
    missing: HashSet<u64>,
    /// Error of the last attempt.
    doubted: Option<DoubtedError>,
}

/// Number of attempts with the same error after which it counts, whatever the writer did.
const SAME_ERRORS: u32 = 8;

/// Error of an attempt, which a writer may have caused.
struct DoubtedError {
    words: String,
    /// Numbers and lengths of the segments after the attempt.
    segments: Vec<(u64, u64)>,
    /// Number of attempts in a row that failed with it.
    times: u32,
}

impl HeldReader {
    /// Creates a holder without files.
    pub fn new(opener: Arc<TableOpener>) -> HeldReader {
        let log = HeldLog {
            env: opener.env().clone(),
            dir: opener.dir.clone(),
            segments: SortedMap::new(),
        };
        HeldReader { opener, tables: HashMap::new(), log, missing: HashSet::new(), doubted: None }
    }

    /// Creates a holder of tables that are open already.
    pub fn with_tables(
        opener: Arc<TableOpener>,
        tables: impl Iterator<Item = Arc<TableHandle>>,
    ) -> HeldReader {
        let mut held = HeldReader::new(opener);
        held.tables = open_ones(tables);
        held
    }

    /// Reports whether an opening that failed with `e` is to be retried, because the writer may be
    /// the cause.
    pub fn may_pass(&mut self, e: &Error) -> bool {
        let is_new =
            matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corruption) && !self.is_known(e);
        let words = e.to_string();
        let times = match &self.doubted {
            Some(before) if before.words == words => before.times + 1,
            _ => 1,
        };
        self.doubted = Some(DoubtedError { words, segments: self.log.lengths(), times });
        is_new
    }

    /// Reports whether the previous attempt failed with this same error, and no writer can be the
    /// cause.
    pub fn is_known(&self, e: &Error) -> bool {
        self.doubted.as_ref().is_some_and(|before| {
            before.words == e.to_string()
                && (before.times + 1 >= SAME_ERRORS || before.segments == self.log.lengths())
        })
    }

    /// Opens the existing segments, before the manifest is read. Releases segments that were
    /// removed, because the manifest does not need them.
    pub fn hold_log(&mut self) -> Result<()> {
        let there: HashSet<u64> = match self.log.listed() {
            // The code that reads the manifest reports this error.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            listed => listed?.into_iter().collect(),
        };
        let mut held = std::mem::take(&mut self.log.segments);
        // A segment without a header may have one now, and one whose length changed must be
        // reopened.
        held.retain(|number, s| {
            let len = self.log.env.file_len(&self.log.path(*number));
            there.contains(number)
                && s.header.is_some()
                && len.map_or(true, |len| len == s.file.len())
        });
        self.log.segments = held;
        self.log.hold(there)
    }

    /// Opens these tables, and the segments that appeared in the meantime.
    ///
    /// # Errors
    /// `Corruption` when a table is missing that the last attempt did not miss: the writer may have
    /// compacted it. If a table cannot be opened for any other reason, only reads of that table
    /// fail.
    pub fn hold_tables(&mut self, all: Vec<Arc<TableHandle>>) -> Result<()> {
        let mut gone = Ok(());
        for h in &all {
            let held = h
                .table()
                .map(|_| ())
                .and_then(|()| h.values().iter().try_for_each(|v| v.file().map(|_| ())));
            if let Err(e) = held
                && self.is_missing(h)
                && self.missing.insert(h.meta.id)
            {
                gone = gone.and(Err(e));
            }
        }
        self.tables = open_ones(all.into_iter());
        gone?;
        let listed = self.log.listed()?;
        self.log.hold(listed)
    }

    /// Reports whether a file of the table is missing, its own or one of its blob files.
    fn is_missing(&self, h: &TableHandle) -> bool {
        let values = h.values().iter().map(|v| v.path());
        std::iter::once(h.path()).chain(values).any(|path| {
            self.opener.env().file_len(&path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
        })
    }

    /// Returns an environment that serves the held segments; all other files are read from the
    /// underlying environment.
    pub fn log(&self) -> &dyn Env {
        &self.log
    }
}

fn open_ones(tables: impl Iterator<Item = Arc<TableHandle>>) -> HashMap<u64, Arc<TableHandle>> {
    tables.filter(|h| h.opened().is_some()).map(|h| (h.meta.id, h)).collect()
}

/// Environment that serves log segments from the held files. It writes nothing.
struct HeldLog {
    env: Arc<dyn Env>,
    dir: PathBuf,
    segments: SortedMap<u64, Arc<ReaderSegment>>,
}

impl HeldLog {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(segment_name(number))
    }

    fn listed(&self) -> Result<Vec<u64>> {
        Ok(self.env.list(&self.dir)?.iter().filter_map(|n| segment_number(n)).collect())
    }

    /// Returns the numbers of the existing segments with the lengths of their files.
    fn lengths(&self) -> Vec<(u64, u64)> {
        let len = |n: &u64| self.env.file_len(&self.path(*n)).unwrap_or(0);
        let mut all: Vec<(u64, u64)> =
            self.listed().unwrap_or_default().iter().map(|n| (*n, len(n))).collect();
        sort(&mut all);
        all
    }

    /// Opens the segments that are not held yet. A segment that was removed in the meantime is not
    /// needed, or the log will have a gap.
    fn hold(&mut self, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
        for number in numbers {
            if self.segments.contains_key(&number) {
                continue;
            }
            match ReaderSegment::open(&*self.env, &self.path(number), number) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                opened => drop(self.segments.insert(number, Arc::new(opened?))),
            }
        }
        Ok(())
    }

    fn held(&self, file: &Path) -> Option<&Arc<ReaderSegment>> {
        let number = segment_number(file.file_name()?.to_str()?)?;
        self.segments.get(&number).filter(|_| file.parent() == Some(&self.dir))
    }
}

/// Log segment that is held open.
struct ReaderSegment {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    /// Header of the segment, if it had one when it was opened.
    header: Option<Header>,
}

impl ReaderSegment {
    fn open(env: &dyn Env, path: &Path, number: u64) -> Result<ReaderSegment> {
        let (file, mut header) = (env.open_read(path, false)?, [0; SEGMENT_HEADER as usize]);
        let is_begun = if file.len() < SEGMENT_HEADER {
            false
        } else {
            file.read_at(0, &mut header)?;
            matches!(SegmentHeader::decode(number, &header), Ok(Some(_)))
        };
        Ok(ReaderSegment { file, path: path.to_path_buf(), header: is_begun.then_some(header) })
    }
}

/// Held segment as recovery reads it.
struct OpenSegment(Arc<ReaderSegment>);

impl ReadFile for OpenSegment {
    fn len(&self) -> u64 {
        self.0.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.file.read_at(offset, buf)?;
        let Some(then) = &self.0.header else { return Ok(()) };
        let mut now = [0; SEGMENT_HEADER as usize];
        self.0.file.read_at(0, &mut now)?;
        if now == *then {
            return Ok(());
        }
        let words = "the writer has used this segment of the log again while it was read";
        Err(Error::corruption(words).at(&self.0.path, 0).block("wal segment header"))
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

fn refused<T>(file: &Path) -> Result<T> {
    Err(Error::invalid("a reader writes nothing").in_file(file))
}

impl Env for HeldLog {
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        if dir != self.dir {
            return self.env.list(dir);
        }
        Ok(self.segments.keys().map(|n| segment_name(*n)).collect())
    }
    fn file_len(&self, file: &Path) -> Result<u64> {
        self.held(file).map_or_else(|| self.env.file_len(file), |s| Ok(s.file.len()))
    }
    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        match self.held(file) {
            Some(s) => Ok(Arc::new(OpenSegment(s.clone()))),
            None => self.env.open_read(file, map),
        }
    }
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        self.env.read_all(file, cap)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        refused(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        refused(dir)
    }
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        refused(file)
    }
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        refused(file)
    }
    fn create_log(&self, file: &Path, _: u64) -> Result<Box<dyn LogFile>> {
        refused(file)
    }
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        refused(file)
    }
    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        refused(from)
    }
    fn hard_link(&self, from: &Path, _: &Path) -> Result<()> {
        refused(from)
    }
    fn remove(&self, file: &Path) -> Result<()> {
        refused(file)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        refused(dir)
    }
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        refused(file)
    }
    fn free_space(&self, dir: &Path) -> Option<u64> {
        self.env.free_space(dir)
    }
    fn memory(&self) -> Option<u64> {
        self.env.memory()
    }
    fn descriptors(&self) -> Option<u64> {
        self.env.descriptors()
    }
    fn wall_micros(&self) -> u64 {
        self.env.wall_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.env.monotonic_nanos()
    }
    fn sleep(&self, time: Duration) {
        self.env.sleep(time);
    }
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        self.env.spawn(name, work)
    }
    fn random(&self) -> u64 {
        self.env.random()
    }
}
