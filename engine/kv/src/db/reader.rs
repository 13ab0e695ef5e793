//! The files that a reader beside a writer holds, though the writer may remove, rename and
//! overwrite them; and how a reader follows the writer.
//!
//! A reader takes no lock, so while it opens, the writer may merge tables away, give up segments of
//! the log or use them again, and begin another manifest. So an opening goes in this order: it
//! holds the segments that are there, reads the manifest, opens the tables that it names, holds the
//! segments that have come since, and then reads the log from what it holds.
//!
//! Invariants, and why the race ends:
//! - R1: nothing is read by name that is held. A segment that was removed is still there for who
//!   has it open, a table for who has it mapped or open: one whose file was closed to keep few open
//!   is opened by its name again, known by its footer, and read from its map if it is gone.
//! - R2: what the manifest needs of the log was given up only after a later manifest said so (W4 of
//!   the log). So of the segments that were there before the manifest was read none that is missing
//!   is needed, and what came later was written after the opening began.
//! - R3: a segment that is used again gets its new header first. So each read of a segment is
//!   followed by one of its header: while that is the old one, the bytes read were the segment's
//!   own.
//! - R4: what is open stays open for the next attempt, which opens only what has come since. So an
//!   attempt fails only by what the writer did to *new* files between the reading of a list and the
//!   opening of what stands in it: a table that was written, named, merged away and removed.
//! - R5: what an attempt finds wrong is believed when the next one finds the same: a writer that
//!   has removed what is missing does not name it any more, and the log is read from behind what it
//!   has given up. So there is no limit of attempts, and damage ends them at the second.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::{Env, FileLock, FileMap, LogFile, ReadFile, Thread, WriteFile};
use crate::merge::run::{TableHandle, TableOpener};
use crate::wal::format::{SEGMENT_HEADER, SegmentHeader};
use crate::wal::{segment_name, segment_number};

type Header = [u8; SEGMENT_HEADER as usize];

/// The files that are held, and what earlier attempts found wrong.
pub struct HeldReader {
    /// With it all attempts open their tables.
    pub opener: Arc<TableOpener>,
    /// Handles of tables that were opened, by id.
    pub tables: HashMap<u64, Arc<TableHandle>>,
    log: HeldLog,
    /// Tables that were not there although the manifest named them.
    missing: HashSet<u64>,
    /// What the last attempt found wrong.
    doubted: Option<String>,
}

impl HeldReader {
    /// Holds nothing yet.
    pub fn new(opener: Arc<TableOpener>) -> HeldReader {
        let log = HeldLog {
            env: opener.env().clone(),
            dir: opener.dir.clone(),
            segments: BTreeMap::new(),
        };
        HeldReader { opener, tables: HashMap::new(), log, missing: HashSet::new(), doubted: None }
    }

    /// Holds tables that are open already.
    pub fn with_tables(
        opener: Arc<TableOpener>,
        tables: impl Iterator<Item = Arc<TableHandle>>,
    ) -> HeldReader {
        let mut held = HeldReader::new(opener);
        held.tables = open_ones(tables);
        held
    }

    /// Whether an opening that failed with `e` is to begin again: when the writer may be the cause.
    pub fn may_pass(&mut self, e: &Error) -> bool {
        let is_new =
            matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corruption) && !self.is_known(e);
        self.doubted = Some(e.to_string());
        is_new
    }

    /// Whether the attempt before failed with this very error.
    pub fn is_known(&self, e: &Error) -> bool {
        self.doubted.as_ref() == Some(&e.to_string())
    }

    /// Holds the segments that are there, before the manifest is read. Those that have gone are let
    /// go: the manifest does not need them.
    pub fn hold_log(&mut self) -> Result<()> {
        let there: HashSet<u64> = match self.log.listed() {
            // What is to be said of it is for who reads the manifest.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            listed => listed?.into_iter().collect(),
        };
        let mut held = std::mem::take(&mut self.log.segments);
        // One that was not begun may be by now, and one that has another length has to be opened
        // again.
        held.retain(|number, s| {
            let len = self.log.env.file_len(&self.log.path(*number));
            there.contains(number)
                && s.header.is_some()
                && len.map_or(true, |len| len == s.file.len())
        });
        self.log.segments = held;
        self.log.hold(there)
    }

    /// Opens these tables, and holds the segments that have come meanwhile.
    ///
    /// # Errors
    /// `Corruption` when a table is not there, and the last attempt has not missed it: the writer
    /// may have merged it away. A table that cannot be opened for any other reason is an error to
    /// those who read it, and to nobody else.
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

    /// Whether a file of the table is not there, its own or one that has values of it.
    fn is_missing(&self, h: &TableHandle) -> bool {
        let values = h.values().iter().map(|v| v.path());
        std::iter::once(h.path()).chain(values).any(|path| {
            self.opener.env().file_len(&path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
        })
    }

    /// The door to the held segments; to all other files as they are.
    pub fn log(&self) -> &dyn Env {
        &self.log
    }
}

fn open_ones(tables: impl Iterator<Item = Arc<TableHandle>>) -> HashMap<u64, Arc<TableHandle>> {
    tables.filter(|h| h.opened().is_some()).map(|h| (h.meta.id, h)).collect()
}

/// An environment in which the log's segments are those that are held. It writes nothing.
struct HeldLog {
    env: Arc<dyn Env>,
    dir: PathBuf,
    segments: BTreeMap<u64, Arc<ReaderSegment>>,
}

impl HeldLog {
    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(segment_name(number))
    }

    fn listed(&self) -> Result<Vec<u64>> {
        Ok(self.env.list(&self.dir)?.iter().filter_map(|n| segment_number(n)).collect())
    }

    /// Opens those that are not held yet. One that has gone meanwhile is not needed, or the log
    /// will have a gap.
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

/// A segment that is held.
struct ReaderSegment {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    /// Its header, where it was begun when it was opened.
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

/// One that recovery reads.
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
