//! The state of a disk as plain data: inodes, directories, their durable parts, the operations that
//! change them, and the state after a crash.
//!
//! Invariants:
//! - [`Disk::apply`] is a pure function of the state and the operation: replaying a journal gives
//!   the same disk.
//! - Each directory records a name's states since its last sync in order, the durable one first. A
//!   power cut leaves one of them.
//! - A rename within a directory is atomic: no cut removes the old name without creating the new
//!   one.
//! - A copy shares all inodes with its original until one of them changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::content::CrashFile;
use crate::rng::CrashRng;

/// The effect of a crash on the disk: see [`CrashEnv::crash_image`](crate::CrashEnv::crash_image).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The process dies, the system lives: every operation survives, and unsynced data is still
    /// unsynced.
    Process,
    /// The power fails after everything has reached the disk.
    PowerAll,
    /// The power fails, and only synced data had reached the disk.
    PowerNone,
    /// The power fails. All unsynced directory entries survive or none, and all unsynced file data
    /// (with lengths) or none.
    PowerData {
        /// Whether unsynced creations, renames, links and removals survive.
        keep_entries: bool,
        /// Whether unsynced file data and lengths survive.
        keep_data: bool,
    },
    /// Like `PowerAll`, but if the last operation was a write, only its first `bytes` bytes were
    /// written.
    Torn {
        /// How many bytes of the last write survive.
        bytes: u64,
    },
    /// The power fails with random effects from this seed. Each unsynced 512-byte sector has its
    /// old or its new content; never-written sectors read as zeros. Each file's length is between
    /// the synced and the current one. Each name is in one of its states since its directory was
    /// synced.
    PowerRandom(u64),
}

/// An inode's number.
pub(crate) type Ino = u64;
pub(crate) const ROOT: Ino = 0;

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskEntry {
    File(Ino),
    Dir(Ino),
}

/// One operation that changes the disk. `path` is for people; only the inodes matter.
#[derive(Clone)]
pub(crate) enum DiskOp {
    Create { dir: Ino, name: String, ino: Ino, path: PathBuf },
    CreateDir { dir: Ino, name: String, ino: Ino, path: PathBuf },
    Write { ino: Ino, offset: u64, bytes: Arc<[u8]>, path: Arc<Path> },
    SetLen { ino: Ino, len: u64, path: PathBuf },
    Sync { ino: Ino, path: Arc<Path> },
    SyncFailed { ino: Ino, path: Arc<Path> },
    SyncDir { dir: Ino, path: PathBuf },
    Rename { from: (Ino, String), to: (Ino, String), paths: (PathBuf, PathBuf) },
    Link { ino: Ino, to: (Ino, String), paths: (PathBuf, PathBuf) },
    Remove { dir: Ino, name: String, path: PathBuf },
}

impl std::fmt::Display for DiskOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DiskOp::Create { path, .. } => write!(f, "create {}", path.display()),
            DiskOp::CreateDir { path, .. } => write!(f, "create directory {}", path.display()),
            DiskOp::Write { offset, bytes, path, .. } => {
                write!(f, "write {} at {offset}, {} bytes", path.display(), bytes.len())
            }
            DiskOp::SetLen { len, path, .. } => {
                write!(f, "set length of {} to {len}", path.display())
            }
            DiskOp::Sync { path, .. } => write!(f, "sync {}", path.display()),
            DiskOp::SyncFailed { path, .. } => write!(f, "sync {}, which fails", path.display()),
            DiskOp::SyncDir { path, .. } => write!(f, "sync directory {}", path.display()),
            DiskOp::Rename { paths, .. } => {
                write!(f, "rename {} to {}", paths.0.display(), paths.1.display())
            }
            DiskOp::Link { paths, .. } => {
                write!(f, "link {} as {}", paths.0.display(), paths.1.display())
            }
            DiskOp::Remove { path, .. } => write!(f, "remove {}", path.display()),
        }
    }
}

/// The states of a name: since when (a count of this directory's changes), and the target.
type States = Vec<(u64, Option<DiskEntry>)>;

#[derive(Clone, Default)]
pub(crate) struct DiskDir {
    now: BTreeMap<String, DiskEntry>,
    /// The names that changed since the last sync, with all their states since then, the durable
    /// one first.
    unsynced: BTreeMap<String, States>,
    /// The renames within this directory since the last sync: when, from, to.
    renames: Vec<(u64, String, String)>,
    changes: u64,
}

impl DiskDir {
    pub fn entries(&self) -> &BTreeMap<String, DiskEntry> {
        &self.now
    }

    /// Changes the target of a name. Changes with the same `stamp` form one atomic change.
    fn set(&mut self, stamp: u64, name: &str, entry: Option<DiskEntry>) {
        let before = match entry {
            Some(e) => self.now.insert(name.to_string(), e),
            None => self.now.remove(name),
        };
        self.unsynced
            .entry(name.to_string())
            .or_insert_with(|| vec![(0, before)])
            .push((stamp, entry));
    }

    fn stamp(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Draws the state of each unsynced name after a power cut, as an index into its list of
    /// states.
    fn draw(&self, rng: &mut CrashRng) -> BTreeMap<&str, usize> {
        let mut drawn: BTreeMap<&str, usize> = self
            .unsynced
            .iter()
            .map(|(name, states)| (name.as_str(), rng.below(states.len() as u64) as usize))
            .collect();
        // The old name is gone only if the new one exists. Advancing one name may require advancing
        // others.
        loop {
            let mut changed = false;
            for (stamp, from, to) in &self.renames {
                let (gone, come) = (&self.unsynced[from], &self.unsynced[to]);
                if gone[drawn[from.as_str()]].0 >= *stamp && come[drawn[to.as_str()]].0 < *stamp {
                    drawn.insert(to, come.partition_point(|s| s.0 < *stamp));
                    changed = true;
                }
            }
            if !changed {
                return drawn;
            }
        }
    }

    fn cut_entries(&mut self, keep: bool, rng: Option<&mut CrashRng>) {
        if let Some(rng) = rng {
            let drawn: Vec<(String, Option<DiskEntry>)> = self
                .draw(rng)
                .into_iter()
                .map(|(name, at)| (name.to_string(), self.unsynced[name][at].1))
                .collect();
            self.put(drawn);
        } else if !keep {
            let durable: Vec<(String, Option<DiskEntry>)> =
                self.unsynced.iter().map(|(n, s)| (n.clone(), s[0].1)).collect();
            self.put(durable);
        }
        self.unsynced.clear();
        self.renames.clear();
    }

    fn put(&mut self, entries: Vec<(String, Option<DiskEntry>)>) {
        for (name, entry) in entries {
            match entry {
                Some(e) => self.now.insert(name, e),
                None => self.now.remove(&name),
            };
        }
    }

    /// Reports whether any name leads to this inode, or could after a power cut.
    fn may_lead_to(&self, ino: Ino) -> bool {
        let leads =
            |e: &DiskEntry| matches!(e, DiskEntry::File(i) | DiskEntry::Dir(i) if *i == ino);
        self.now.values().any(leads)
            || self.unsynced.values().flatten().any(|(_, e)| e.as_ref().is_some_and(leads))
    }
}

/// A disk: see the module's text.
#[derive(Clone)]
pub(crate) struct Disk {
    files: BTreeMap<Ino, Arc<CrashFile>>,
    dirs: BTreeMap<Ino, Arc<DiskDir>>,
    next_ino: Ino,
}

impl Disk {
    /// Creates a disk with an empty root.
    pub fn new() -> Disk {
        Disk {
            files: BTreeMap::new(),
            dirs: BTreeMap::from([(ROOT, Arc::default())]),
            next_ino: ROOT + 1,
        }
    }

    pub fn next_ino(&self) -> Ino {
        self.next_ino
    }

    pub fn file(&self, ino: Ino) -> Option<&CrashFile> {
        self.files.get(&ino).map(|f| &**f)
    }

    pub fn dir(&self, ino: Ino) -> Option<&DiskDir> {
        self.dirs.get(&ino).map(|d| &**d)
    }

    fn file_mut(&mut self, ino: Ino) -> Option<&mut CrashFile> {
        self.files.get_mut(&ino).map(Arc::make_mut)
    }

    fn dir_mut(&mut self, ino: Ino) -> Option<&mut DiskDir> {
        self.dirs.get_mut(&ino).map(Arc::make_mut)
    }

    fn set(&mut self, dir: Ino, name: &str, entry: Option<DiskEntry>) {
        if let Some(d) = self.dir_mut(dir) {
            let stamp = d.stamp();
            d.set(stamp, name, entry);
        }
    }

    /// Applies one operation. An operation on a removed inode (a nameless file whose last reader is
    /// unknown here) has no visible effect.
    pub fn apply(&mut self, op: &DiskOp) {
        match op {
            DiskOp::Create { dir, name, ino, .. } => {
                self.next_ino = self.next_ino.max(ino + 1);
                self.files.insert(*ino, Arc::default());
                self.set(*dir, name, Some(DiskEntry::File(*ino)));
            }
            DiskOp::CreateDir { dir, name, ino, .. } => {
                self.next_ino = self.next_ino.max(ino + 1);
                self.dirs.insert(*ino, Arc::default());
                self.set(*dir, name, Some(DiskEntry::Dir(*ino)));
            }
            DiskOp::Write { ino, offset, bytes, .. } => self.write(*ino, *offset, bytes),
            DiskOp::SetLen { ino, len, .. } => {
                if let Some(f) = self.file_mut(*ino) {
                    f.set_len(*len);
                }
            }
            DiskOp::Sync { ino, .. } => {
                if let Some(f) = self.file_mut(*ino) {
                    f.sync();
                }
            }
            DiskOp::SyncFailed { ino, .. } => {
                if let Some(f) = self.file_mut(*ino) {
                    f.sync_failed();
                }
            }
            DiskOp::SyncDir { dir, .. } => {
                if let Some(d) = self.dir_mut(*dir) {
                    d.cut_entries(true, None);
                }
            }
            DiskOp::Rename { from, to, .. } => self.rename(from, to),
            DiskOp::Link { ino, to, .. } => self.set(to.0, &to.1, Some(DiskEntry::File(*ino))),
            DiskOp::Remove { dir, name, .. } => self.set(*dir, name, None),
        }
    }

    fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) {
        if let Some(f) = self.file_mut(ino) {
            f.write(offset, bytes);
        }
    }

    fn rename(&mut self, from: &(Ino, String), to: &(Ino, String)) {
        let Some(entry) = self.dir(from.0).and_then(|d| d.now.get(&from.1).copied()) else {
            return;
        };
        if from.0 != to.0 {
            self.set(to.0, &to.1, Some(entry));
            self.set(from.0, &from.1, None);
            return;
        }
        if let Some(d) = self.dir_mut(from.0) {
            let stamp = d.stamp();
            d.set(stamp, &to.1, Some(entry));
            d.set(stamp, &from.1, None);
            d.renames.push((stamp, from.1.clone(), to.1.clone()));
        }
    }

    /// Returns the disk after a crash right after `last`, which is not applied here yet.
    pub fn crash(&self, last: Option<&DiskOp>, cut: &Cut) -> Disk {
        let mut disk = self.clone();
        match (last, cut) {
            (Some(DiskOp::Write { ino, offset, bytes, .. }), Cut::Torn { bytes: n }) => {
                disk.write(*ino, *offset, &bytes[..bytes.len().min(*n as usize)]);
            }
            (Some(op), _) => disk.apply(op),
            (None, _) => {}
        }
        match cut {
            Cut::Process => {}
            Cut::PowerAll | Cut::Torn { .. } => disk.cut_power(true, true, None),
            Cut::PowerNone => disk.cut_power(false, false, None),
            Cut::PowerData { keep_entries, keep_data } => {
                disk.cut_power(*keep_entries, *keep_data, None)
            }
            Cut::PowerRandom(seed) => disk.cut_power(true, true, Some(CrashRng(*seed))),
        }
        disk.drop_nameless();
        disk
    }

    fn cut_power(&mut self, keep_entries: bool, keep_data: bool, mut rng: Option<CrashRng>) {
        for dir in self.dirs.values_mut().filter(|d| !d.unsynced.is_empty()) {
            Arc::make_mut(dir).cut_entries(keep_entries, rng.as_mut());
        }
        for file in self.files.values_mut().filter(|f| !f.is_durable()) {
            let file = Arc::make_mut(file);
            match &mut rng {
                Some(rng) => file.keep_random(rng),
                None if keep_data => file.keep_all(),
                None => file.keep_synced(),
            }
        }
    }

    /// Drops the inodes that no name leads to, now or after a power cut.
    fn drop_nameless(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        let mut open = vec![ROOT];
        while let Some(dir) = open.pop() {
            if !seen.insert(dir) {
                continue;
            }
            let Some(d) = self.dirs.get(&dir) else { continue };
            for entry in
                d.now.values().copied().chain(d.unsynced.values().flatten().filter_map(|(_, e)| *e))
            {
                match entry {
                    DiskEntry::Dir(i) => open.push(i),
                    DiskEntry::File(i) => drop(seen.insert(i)),
                }
            }
        }
        self.files.retain(|i, _| seen.contains(i));
        self.dirs.retain(|i, _| seen.contains(i));
    }

    /// Drops a file that no name leads to, now or after a power cut.
    pub fn drop_if_nameless(&mut self, ino: Ino) {
        if !self.dirs.values().any(|d| d.may_lead_to(ino)) {
            self.files.remove(&ino);
        }
    }

    /// Returns the files that a sync of this directory may leave without a name.
    pub fn replaced_in(&self, dir: Ino) -> Vec<Ino> {
        let states = self.dir(dir).into_iter().flat_map(|d| d.unsynced.values().flatten());
        states
            .filter_map(|(_, e)| if let Some(DiskEntry::File(i)) = e { Some(*i) } else { None })
            .collect()
    }
}
