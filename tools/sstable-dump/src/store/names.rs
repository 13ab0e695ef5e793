//! The files of a store's directory under their true names. Tables, log segments and manifests have
//! their number in their checksums. So a file can be recognised by its content and read under its
//! true name, whatever its file name.
//!
//! Invariants:
//! - This module writes nothing.
//! - A file with the right name that looks sound here is never replaced by another.
//! - A recycled log segment that still shows its former header is not misnamed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_kv::Env;
use firn_kv::fs::{FileLock, LogFile, ReadFile, Thread, WriteFile};
use firn_kv::internals::base::blob_ref::BlobFileMeta;
use firn_kv::internals::base::identity::writer_of;
use firn_kv::internals::iterator::opener::mismatch;
use firn_kv::internals::iterator::opener::{foreign_blobs, table_path};
use firn_kv::internals::manifest::{self, ManifestState, TableMeta, TreeState, manifest_name};
use firn_kv::internals::sstable::format::{FOOTER, Footer};
use firn_kv::internals::wal::format::{SEGMENT_HEADER, SegmentHeader};
use firn_kv::internals::wal::{SegmentReader, segment_name, segment_number, segments};
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::io;

use crate::store::target::{
    TargetKind, dir_of, env, is_of_values, known, open_file, open_values, table_number,
};

/// A finding about the name of a file.
#[derive(Clone, Debug)]
pub struct NameFinding {
    /// Error with the file.
    pub error: Error,
    /// Whether the content belongs to another store or time; otherwise the file is only misnamed.
    pub foreign: bool,
    /// The live file that is read from elsewhere; `None` if there is nothing to read.
    pub read: Option<PathBuf>,
}

/// A file that must be renamed to its true name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRename {
    /// Current path.
    pub from: PathBuf,
    /// True path.
    pub to: PathBuf,
    /// Whether the original also remains: a backup, or a file of another folder.
    pub keep: bool,
}

/// A directory under the true names of its files: an [`Env`] that finds each file there.
pub struct FileNames {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// True names of misnamed files, by file name.
    misnamed: BTreeMap<String, String>,
    /// Files whose first and last bytes match their names.
    well_named: BTreeSet<String>,
    /// Actual file name by true name.
    relocated: BTreeMap<String, String>,
    /// Names of files with other content, or with content of another store.
    hidden: BTreeSet<String>,
    /// Files of another store or time, with the reason.
    foreign: BTreeMap<String, &'static str>,
    /// Tables and blob files of the manifest; `None` without one.
    live: Option<BTreeSet<u64>>,
    /// True names of blob files.
    blob_files: BTreeSet<String>,
}

/// Returns the name that a file should have according to its content.
///
/// # Errors
/// I/O errors.
pub fn true_name(path: &Path) -> Result<Option<String>> {
    Ok(true_name_in(&*env(), path)?.map(|own| own.0))
}

/// Returns the same, and whether the file is a blob file.
fn true_name_in(env: &dyn Env, path: &Path) -> Result<Option<(String, bool)>> {
    if !io::is_file(path) {
        return Ok(None);
    }
    let file = env.open_read(path, false)?;
    if let Some(at) = file.len().checked_sub(FOOTER as u64) {
        let mut f = [0; FOOTER];
        file.read_at(at, &mut f)?;
        if let Some(id) = Footer::own_id(&f, at) {
            return Ok(Some((format!("{id:08}.sst"), is_of_values(&*file)?)));
        }
    }
    let mut head = [0; SEGMENT_HEADER as usize];
    let n = file.len().min(SEGMENT_HEADER) as usize;
    file.read_at(0, &mut head[..n])?;
    let segment =
        (n == head.len()).then(|| SegmentHeader::own_number(&head)).flatten().map(segment_name);
    let own = segment.or_else(|| manifest::own_number(&head[..n]).map(manifest_name));
    Ok(own.map(|own| (own, false)))
}

/// Describes the content of a file with this true name.
pub fn describe_content(name: &str) -> String {
    match TargetKind::of_name(name) {
        TargetKind::Table(Some(id)) => format!("table {id}"),
        TargetKind::Wal(n) => format!("log segment {n}"),
        TargetKind::Manifest(n) => format!("manifest {n}"),
        TargetKind::Table(None) | TargetKind::Store => "something else".into(),
    }
}

/// Returns the true name of table or blob file `id`.
fn table_name(id: u64) -> String {
    table_path(Path::new(""), id).display().to_string()
}

/// Reports whether this is the name of a store's file.
fn is_store_file(name: &str) -> bool {
    TargetKind::of_name(name) != TargetKind::Table(None)
}

const FOREIGN_SEGMENT: &str = "this log segment was written by another store, or by a clone of this one: a copy that was used independently";
const FOREIGN_TABLE: &str =
    "this is not the table with this number in the manifest, but one of another store or time";
const FOREIGN_VALUES: &str =
    "this is not the blob file with this number in the manifest, but one of another store or time";

/// Suffix of a file during its renaming.
pub const TEMPORARY: &str = "found";

/// Reports whether an interrupted renaming left this name.
fn is_temporary(name: &str) -> bool {
    name.split_once(&format!(".{TEMPORARY}")).is_some_and(|(own, _)| is_store_file(own))
}

impl FileNames {
    /// Reads the files in `dir`. Decisions that need the manifest are left to
    /// [`apply_manifest`](FileNames::apply_manifest).
    ///
    /// # Errors
    /// I/O errors of the directory. Unreadable files are assumed to match their names.
    pub fn of(dir: &Path) -> Result<FileNames> {
        FileNames::read(env(), dir, &[])
    }

    /// Reads the files in `dir` and in its folders, such as `tables` and `lost+found`. Use it only
    /// for a store whose manifest lists its tables.
    ///
    /// # Errors
    /// As [`of`](FileNames::of).
    pub fn with_folders(dir: &Path) -> Result<FileNames> {
        FileNames::in_env(env(), dir, &[])
    }

    /// Does the same in an environment, and also reads the directories `more` and their folders.
    ///
    /// # Errors
    /// As [`of`](FileNames::of), for all of them.
    pub fn in_env(env: Arc<dyn Env>, dir: &Path, more: &[PathBuf]) -> Result<FileNames> {
        let mut folders = vec![];
        for root in std::iter::once(dir).chain(more.iter().map(PathBuf::as_path)) {
            if root != dir {
                folders.push(root.to_path_buf());
            }
            folders.extend(env.list(root)?.iter().map(|n| root.join(n)).filter(|p| io::is_dir(p)));
        }
        FileNames::read(env, dir, &folders)
    }

    fn read(env: Arc<dyn Env>, dir: &Path, folders: &[PathBuf]) -> Result<FileNames> {
        let mut n = FileNames { env, dir: dir.to_path_buf(), ..FileNames::empty() };
        for name in n.env.list(dir)? {
            if let Ok(Some((own, blob_files))) = true_name_in(&*n.env, &dir.join(&name)) {
                n.note(name, own, blob_files);
            }
        }
        for folder in folders {
            // Skip an unreadable folder: nothing shows that it contains files of the store.
            for name in n.env.list(folder).unwrap_or_default() {
                let path = folder.join(&name);
                let shown = path.strip_prefix(dir).unwrap_or(&path).to_str().map(str::to_owned);
                if let (Some(shown), Ok(Some((own, blob_files)))) =
                    (shown, true_name_in(&*n.env, &path))
                {
                    n.note(shown, own, blob_files);
                }
            }
        }
        for (name, own) in n.misnamed.clone() {
            if segment_number(&own).is_none() {
                n.take(&name, &own);
            }
        }
        Ok(n)
    }

    /// Records a file with the true name `own`.
    fn note(&mut self, name: String, own: String, blob_files: bool) {
        if blob_files {
            self.blob_files.insert(own.clone());
        }
        if own == name {
            self.well_named.insert(name);
        } else {
            self.misnamed.insert(name, own);
        }
    }

    /// Describes the content of the file with this true name.
    fn content_of(&self, own: &str) -> String {
        match table_number(own).filter(|_| self.blob_files.contains(own)) {
            Some(id) => format!("blob file {id}"),
            None => describe_content(own),
        }
    }

    /// Returns the blob files that are here under any name, according to their footers.
    pub fn blob_file_ids(&self) -> BTreeSet<u64> {
        self.finished()
            .into_iter()
            .filter(|id| self.blob_files.contains(&table_name(*id)))
            .collect()
    }

    /// Creates the directory `dir` with its files under their present names.
    pub fn with_present_names(dir: &Path) -> FileNames {
        FileNames { dir: dir.to_path_buf(), ..FileNames::empty() }
    }

    fn empty() -> FileNames {
        FileNames {
            env: env(),
            dir: PathBuf::new(),
            misnamed: BTreeMap::new(),
            well_named: BTreeSet::new(),
            relocated: BTreeMap::new(),
            hidden: BTreeSet::new(),
            foreign: BTreeMap::new(),
            live: None,
            blob_files: BTreeSet::new(),
        }
    }

    /// Creates a directory in which the file `path` has the name `own`.
    pub fn single_file(path: &Path, own: &str) -> FileNames {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        FileNames {
            dir: dir_of(path),
            relocated: BTreeMap::from([(own.to_owned(), name)]),
            ..FileNames::empty()
        }
    }

    /// Maps the true name `own` to the file `name`, unless a file with its true name exists.
    fn take(&mut self, name: &str, own: &str) {
        if is_store_file(name) {
            self.hidden.insert(name.to_owned());
        }
        // Only tables never change. A copy of a log segment or manifest may be older than the
        // damaged original.
        let lacks = || {
            let path = self.dir.join(own);
            table_number(own).is_some()
                || self.misnamed.contains_key(own)
                || self.env.file_len(&path).map_or(true, |n| n == 0)
        };
        if !self.well_named.contains(own) && lacks() {
            self.relocated.entry(own.to_owned()).or_insert_with(|| name.to_owned());
        }
    }

    /// Applies the manifest, or `None` without one. It shows which log segments are still needed,
    /// and which tables belong to the store.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn apply_manifest(&mut self, state: Option<&ManifestState>) -> Result<()> {
        let floor = match state {
            Some(s) => s.wal_floor,
            None => self.unbroken_log()?,
        };
        for (name, own) in self.misnamed.clone() {
            let Some(number) = segment_number(&own) else { continue };
            let before = (self.relocated.clone(), self.hidden.clone());
            self.take(&name, &own);
            // Below the floor is the former content of a file that waits for recycling.
            if self.relocated.get(&own) == Some(&name) && self.end_of(number)? <= floor
                || self.well_named.contains(&own)
            {
                (self.relocated, self.hidden) = before;
            }
        }
        if let Some(state) = state {
            self.hide_clone_segments(state)?;
        }
        let trees = || state.iter().flat_map(|s| s.trees.values());
        self.live = state.map(|_| trees().flat_map(TreeState::files).collect());
        for m in trees().flat_map(|t| t.tables()) {
            self.fit_file(m.id, FOREIGN_TABLE, &|names, name| names.is_own(name, m));
        }
        for v in trees().flat_map(|t| t.values.values()) {
            self.fit_file(v.id, FOREIGN_VALUES, &|names, name| names.is_own_values(name, v));
        }
        Ok(())
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the numbers of the tables, log segments or manifests, ascending. `number` reads a
    /// file name.
    ///
    /// # Errors
    /// I/O errors of the directory.
    pub fn numbers(&self, number: fn(&str) -> Option<u64>) -> Result<Vec<u64>> {
        let mut all: Vec<u64> = self.list(&self.dir)?.iter().filter_map(|n| number(n)).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Opens log segment `number`.
    ///
    /// # Errors
    /// As [`SegmentReader::open`].
    pub fn open_segment(&self, number: u64) -> Result<SegmentReader> {
        SegmentReader::open(self, &self.dir, number)
    }

    /// Returns the start of the last part of the log without a missing segment. Older segments
    /// that still exist are retired, and useless without the missing ones.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn unbroken_log(&self) -> Result<u64> {
        let list = segments(self, &self.dir)?;
        let known: Vec<_> = list
            .iter()
            .filter_map(|s| Some((s.number, s.base.filter(|_| s.end > 0)?, s.capacity)))
            .collect();
        let damaged = |from: u64, to: u64| {
            list.iter().any(|s| s.base.is_none() && from < s.number && s.number < to)
        };
        let broken = |w: &&[(u64, u64, u64)]| {
            let [(number, base, capacity), (next_number, next, _)] = **w else { return false };
            next - base > capacity.saturating_sub(SEGMENT_HEADER) && !damaged(number, next_number)
        };
        let after = known.windows(2).rev().find(broken).map(|w| w[1].1);
        Ok(after.or(known.first().map(|k| k.1)).unwrap_or(0))
    }

    /// Opens a listed segment; returns `None` if a writer has removed it since.
    fn segment(&self, number: u64) -> Result<Option<SegmentReader>> {
        match self.open_segment(number) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Hides log segments with records of a writer that the manifest does not know: of another
    /// store, or of a clone of this one.
    fn hide_clone_segments(&mut self, state: &ManifestState) -> Result<()> {
        for name in self.well_named.clone() {
            let Some(number) = segment_number(&name) else { continue };
            let Some(mut reader) = self.segment(number)? else { continue };
            let writer = reader.header().map(|h| h.writer);
            let is_own = writer_of(&state.writers, number).is_some_and(|w| Some(w.id) == writer);
            if !is_own && reader.next_record()?.is_some() {
                self.hidden.insert(name.clone());
                self.foreign.insert(name, FOREIGN_SEGMENT);
            }
        }
        Ok(())
    }

    /// Returns the first segment with records of an opening of this store that `state` does not
    /// know. That opening must continue exactly at the end of the known log, so `state` is older
    /// than the log. A clone continues at another position if the store itself went on, or follows
    /// a segment of its own.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn later_segment(&self, state: &ManifestState) -> Result<Option<u64>> {
        let (mut end, mut writers) = (None, BTreeMap::new());
        for number in self.numbers(segment_number)? {
            let Some(mut reader) = self.segment(number)? else { continue };
            let Some(header) = reader.header().cloned() else { continue };
            let is_own = writer_of(&state.writers, number).is_some_and(|w| w.id == header.writer);
            let is_later = state.writers.last().is_some_and(|w| w.from < number);
            // A later segment of an opening follows a segment of the same opening.
            let follows = header.previous == 0
                || writers.get(&header.previous).is_none_or(|w| *w == header.writer);
            writers.insert(number, header.writer);
            let goes_on =
                is_later && follows && header.store == state.id && end == Some(header.base);
            let mut last = header.base;
            while let Some(r) = reader.next_record()? {
                if r.mark {
                    continue;
                }
                if !is_own && goes_on {
                    return Ok(Some(number));
                }
                last = header.base + (r.offset - SEGMENT_HEADER) + r.size;
            }
            if is_own {
                end = Some(last);
            }
        }
        Ok(None)
    }

    /// Returns the tables and blob files that the manifest names; `None` without one.
    pub fn live(&self) -> Option<&BTreeSet<u64>> {
        self.live.as_ref()
    }

    /// Returns the finished tables and blob files, under any names.
    pub fn finished(&self) -> BTreeSet<u64> {
        self.well_named
            .iter()
            .chain(self.relocated.keys())
            .filter_map(|n| table_number(n))
            .collect()
    }

    /// Returns how many tables and blob files of `state` are here, according to their content.
    pub fn own_files(&self, state: &ManifestState) -> usize {
        let is_here = |id: u64, is_own: &dyn Fn(&str) -> Option<bool>| {
            let own = table_name(id);
            let candidates = self.misnamed.iter().filter(|(_, o)| **o == own).map(|(n, _)| n);
            let mut all = self.well_named.get(&own).into_iter().chain(candidates);
            all.any(|name| is_own(name) == Some(true))
        };
        let here = |t: &TreeState| {
            let values = t.values.values();
            t.tables().filter(|m| is_here(m.id, &|name| self.is_own(name, m))).count()
                + values.filter(|v| is_here(v.id, &|name| self.is_own_values(name, v))).count()
        };
        state.trees.values().map(here).sum()
    }

    /// Hides log segments with records of another store, a clone, or another time than `state`.
    /// Returns a description of each.
    ///
    /// # Errors
    /// I/O errors; damage is no error.
    pub fn hide_foreign_segments(&mut self, state: &ManifestState) -> Result<Vec<Error>> {
        let (known, mut found) = (known(state), vec![]);
        for name in self.list(&self.dir)? {
            let Some(number) = segment_number(&name) else { continue };
            let mut reader = self.open_segment(number)?;
            let Some(header) = reader.header().filter(|h| !known.is_own(h)).cloned() else {
                continue;
            };
            if reader.next_record()?.is_some() {
                found.push(known.mismatch(&header).at(reader.path(), 0));
                self.hide(name);
            }
        }
        Ok(found)
    }

    /// Hides the file with this name, because it belongs to another store.
    pub fn hide(&mut self, name: String) {
        self.relocated.remove(&name);
        self.hidden.insert(name);
    }

    /// Returns the position after the last record of a segment.
    fn end_of(&self, number: u64) -> Result<u64> {
        let mut reader = self.open_segment(number)?;
        let base = reader.header().map_or(0, |h| h.base);
        let mut end = base;
        while let Some(r) = reader.next_record()? {
            end = base + (r.offset - SEGMENT_HEADER) + r.size;
        }
        Ok(end)
    }

    /// Reports whether the file with this name is the table in the manifest; `None` if it is too
    /// damaged to decide.
    fn is_own(&self, name: &str, m: &TableMeta) -> Option<bool> {
        let path = self.dir.join(name);
        let file = self.env.open_read(&path, false).ok()?;
        if is_of_values(&*file).ok()? {
            return Some(false);
        }
        let opened = open_file(file, &path, m.id, m.ingested_seq);
        opened.ok().map(|t| mismatch(m, &t).is_none())
    }

    /// Does the same for a blob file.
    fn is_own_values(&self, name: &str, v: &BlobFileMeta) -> Option<bool> {
        let path = self.dir.join(name);
        let file = self.env.open_read(&path, false).ok()?;
        if !is_of_values(&*file).ok()? {
            return open_file(file, &path, v.id, 0).ok().map(|_| false);
        }
        open_values(file, &path, v.id).ok().map(|f| foreign_blobs(v, &f).is_none())
    }

    /// Finds file `id`. `is_own_file` reports whether a file is the right one; `words` describe a
    /// wrong one.
    fn fit_file(
        &mut self,
        id: u64,
        words: &'static str,
        is_own_file: &dyn Fn(&FileNames, &str) -> Option<bool>,
    ) {
        let own = table_name(id);
        let now = self.relocated.get(&own).or(self.well_named.get(&own)).cloned();
        let is_own = now.as_ref().and_then(|n| is_own_file(self, n));
        if is_own == Some(true) {
            return;
        }
        let others = self
            .misnamed
            .iter()
            .filter(|(n, o)| **o == own && Some(*n) != now.as_ref())
            .map(|(n, _)| n.clone());
        if let Some(other) =
            others.collect::<Vec<_>>().into_iter().find(|n| is_own_file(self, n) == Some(true))
        {
            self.relocated.insert(own, other);
        } else if let (Some(false), Some(now)) = (is_own, now) {
            self.relocated.remove(&own);
            self.hidden.insert(own);
            self.foreign.insert(now, words);
        }
    }

    /// Returns the path of the file with this true name; `None` if the file with this name has
    /// other content.
    fn locate(&self, name: &str) -> Option<PathBuf> {
        match self.relocated.get(name) {
            Some(other) => Some(self.dir.join(other)),
            None => (!self.hidden.contains(name)).then(|| self.dir.join(name)),
        }
    }

    /// Returns the path of table or blob file `id`, or where it would be.
    pub fn path_of(&self, id: u64) -> PathBuf {
        self.table(id).unwrap_or_else(|| table_path(&self.dir, id))
    }

    /// Returns the path of table or blob file `id`; `None` if the file with its name has other
    /// content.
    pub fn table(&self, id: u64) -> Option<PathBuf> {
        self.locate(table_path(Path::new(""), id).to_str().unwrap_or_default())
    }

    /// Opens the file that contains table or blob file `id`, under any name.
    pub fn open_file_of(&self, id: u64) -> Option<(PathBuf, Arc<dyn ReadFile>)> {
        let path = self.table(id)?;
        let file = self.env.open_read(&path, false).ok()?;
        Some((path, file))
    }

    fn actual(&self, path: &Path) -> Result<PathBuf> {
        let name =
            path.file_name().and_then(|n| n.to_str()).filter(|_| path.parent() == Some(&self.dir));
        match name {
            Some(name) => self.locate(name).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "what has this name is not what the name says")
                    .in_file(path)
            }),
            None => Ok(path.to_path_buf()),
        }
    }

    /// Reports whether the store needs the file with this name.
    fn is_needed(&self, own: &str) -> bool {
        match (table_number(own), &self.live) {
            (Some(id), Some(live)) => live.contains(&id),
            _ => true,
        }
    }

    /// Returns all findings about names of files that the store needs.
    pub fn findings(&self) -> Vec<NameFinding> {
        let mut all: Vec<NameFinding> = self
            .relocated
            .iter()
            .filter(|(own, _)| self.is_needed(own))
            .map(|(own, name)| self.finding_of(own, name))
            .collect();
        for (name, words) in &self.foreign {
            let error = Error::corruption(*words).in_file(self.dir.join(name));
            all.push(NameFinding { error, foreign: true, read: None });
        }
        all
    }

    /// Returns notes about copies and about tables that the store does not need. They are no
    /// damage.
    pub fn stray_notes(&self) -> Vec<String> {
        let used: BTreeSet<&String> = self
            .relocated
            .iter()
            .filter(|(own, _)| self.is_needed(own))
            .map(|(_, name)| name)
            .collect();
        let stray = |(name, own): (&String, &String)| {
            if used.contains(name) || self.foreign.contains_key(name) || !self.hidden.contains(name)
            {
                return None;
            }
            let path = self.dir.join(name).display().to_string();
            let content_of = self.content_of(own);
            Some(
                match self.well_named.contains(own)
                    || self.relocated.contains_key(own) && self.is_needed(own)
                {
                    true => {
                        format!(
                            "{path}: a stray copy of {content_of}, which is there; it is not used"
                        )
                    }
                    false => format!(
                        "{path}: it holds {content_of}, which this store does not need; it is not used"
                    ),
                },
            )
        };
        self.misnamed.iter().filter_map(stray).collect()
    }

    /// Returns a description of the content of the file with this name if it has other content.
    pub fn misnamed_content(&self, name: &str) -> Option<String> {
        self.misnamed.get(name).map(|own| self.content_of(own))
    }

    /// Returns the renames that the engine needs to find all files.
    pub fn renames(&self) -> Vec<FileRename> {
        let each = |(own, name): (&String, &String)| FileRename {
            from: self.dir.join(name),
            to: self.dir.join(own),
            keep: !is_store_file(name) && !is_temporary(name),
        };
        self.relocated.iter().filter(|(own, _)| self.is_needed(own)).map(each).collect()
    }

    fn finding_of(&self, own: &str, name: &str) -> NameFinding {
        let from = self.dir.join(name).display().to_string();
        let (file, words) = match io::exists(&self.dir.join(own)) && !is_store_file(name) {
            true => (
                own,
                format!("this file is not {}, or damaged; {from} holds it", self.content_of(own)),
            ),
            false => (name, format!("this file holds {}", self.content_of(own))),
        };
        let error = Error::corruption(words).in_file(self.dir.join(file));
        NameFinding { error, foreign: false, read: Some(self.dir.join(own)) }
    }
}

impl Env for FileNames {
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.env.list(dir)?;
        if dir == self.dir {
            // A directory, a FIFO or a dangling link is none of the store's files, whatever its
            // name.
            let is_file = |n: &str| !is_store_file(n) || io::not_a_file(&dir.join(n)).is_none();
            names.retain(|n| {
                !self.hidden.contains(n) && !self.relocated.contains_key(n) && is_file(n)
            });
            names.extend(self.relocated.keys().cloned());
            names.sort_unstable();
        }
        Ok(names)
    }

    fn file_len(&self, file: &Path) -> Result<u64> {
        self.env.file_len(&self.actual(file)?)
    }

    fn open_read(&self, file: &Path, map: bool) -> Result<Arc<dyn ReadFile>> {
        self.env.open_read(&self.actual(file)?, map)
    }

    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        self.env.read_all(&self.actual(file)?, cap)
    }

    delegate! { env:
        // These are for other directories than the examined one.
        fn create_dir_all(dir: &Path) -> Result<()>;
        fn sync_dir(dir: &Path) -> Result<()>;
        fn create(file: &Path) -> Result<Box<dyn WriteFile>>;
        fn append(file: &Path) -> Result<Box<dyn WriteFile>>;
        fn create_log(file: &Path, capacity: u64) -> Result<Box<dyn LogFile>>;
        fn reuse_log(file: &Path) -> Result<Box<dyn LogFile>>;
        fn rename(from: &Path, to: &Path) -> Result<()>;
        fn hard_link(from: &Path, to: &Path) -> Result<()>;
        fn remove(file: &Path) -> Result<()>;
        fn remove_dir(dir: &Path) -> Result<()>;
        fn lock(file: &Path) -> Result<Box<dyn FileLock>>;
        fn free_space(dir: &Path) -> Option<u64>;
        fn wall_micros() -> u64;
        fn monotonic_nanos() -> u64;
        fn sleep(time: Duration) -> ();
        fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>>;
        fn random() -> u64;
    }
}
