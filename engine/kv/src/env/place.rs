//! Resolves file names in directories that are held open.
//!
//! Invariants:
//! - A name in a held directory is resolved from the directory's descriptor. A change of the
//!   working directory, or another directory at the same path, cannot redirect it. On systems
//!   without such calls, the path is made absolute when the directory is opened.
//! - Opening a file never waits (a FIFO blocks no thread), and only a regular file is accepted.
//!   Opening for writing follows no symbolic link.
//! - After a lock has been taken in a held directory, every name change and every sync there checks
//!   the lock's path. The operation fails if the path no longer leads to the locked file: the
//!   directory or the lock file was moved, replaced or removed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // part of `os`, the allowed user

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::FileTerms;
use crate::base::error::{Error, ErrorKind, Result};

/// The mode in which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file for writing, or an existing one that is truncated.
    Create,
    /// A file for reading and writing that must not exist yet.
    CreateNew,
    /// A file for writing at the end; created if missing.
    Append,
    /// A file for locking; created if missing.
    Lock,
}

/// A directory that is held open.
pub(super) struct HeldDir {
    /// The path that the caller uses.
    path: PathBuf,
    /// The same path, independent of the working directory.
    absolute: PathBuf,
    #[cfg(unix)]
    descriptor: std::os::fd::OwnedFd,
    /// The lock file that was locked here, with its identity.
    locked: OnceLock<(PathBuf, Identity)>,
}

impl HeldDir {
    fn open(path: &Path, absolute: PathBuf) -> io::Result<HeldDir> {
        Ok(HeldDir {
            #[cfg(unix)]
            descriptor: unix::open_dir(&absolute)?,
            path: path.to_path_buf(),
            absolute,
            locked: OnceLock::new(),
        })
    }

    /// Records the locked file, which must stay at its path from now on.
    pub fn set_locked(&self, file: &Path, locked: &File) -> io::Result<()> {
        if let Ok(below) = file.strip_prefix(&self.path)
            && let Some(identity) = identity_of(locked)?
        {
            let _ = self.locked.set((self.absolute.join(below), identity));
        }
        Ok(())
    }

    /// Returns an error if the lock's path no longer leads to the locked file.
    pub fn check(&self) -> Result<()> {
        let Some((path, identity)) = self.locked.get() else { return Ok(()) };
        if is_at(path, identity) {
            return Ok(());
        }
        let words = "the directory was moved, replaced or removed while the store was open, or its LOCK file was; \
                     nothing is written any more: close the store, and open the one that you mean";
        Err(Error::new(ErrorKind::Io, words).in_file(&self.path))
    }
}

/// The held directories of an environment, and its file policy.
#[derive(Clone, Default)]
pub(super) struct HeldDirs {
    dirs: Vec<Arc<HeldDir>>,
    terms: FileTerms,
}

impl HeldDirs {
    /// Returns a copy with the directory at `path` added. A directory held by the same path is
    /// replaced by the present one.
    pub fn with(&self, path: &Path) -> io::Result<HeldDirs> {
        let dir = HeldDir::open(path, std::path::absolute(self.absolute(path))?)?;
        let others = self.dirs.iter().filter(|held| held.path != path).cloned();
        let dirs = others.chain([Arc::new(dir)]).collect();
        Ok(HeldDirs { dirs, terms: self.terms })
    }

    /// Returns a copy with another file policy.
    pub fn with_terms(&self, terms: FileTerms) -> HeldDirs {
        HeldDirs { terms, ..self.clone() }
    }

    /// Returns the file policy.
    pub fn terms(&self) -> FileTerms {
        self.terms
    }

    /// Returns the permission bits of new directories: read or write access to files implies access
    /// to their directory.
    #[cfg(unix)]
    fn dir_mode(&self) -> u32 {
        let files = self.terms.file_mode;
        files | (files >> 2 | files >> 1) & 0o111
    }

    /// Returns the held directory that contains or equals the path, and the rest of the path.
    fn find<'a>(&'a self, path: &'a Path) -> Option<(&'a Arc<HeldDir>, &'a Path)> {
        self.dirs.iter().rev().find_map(|dir| Some((dir, path.strip_prefix(&dir.path).ok()?)))
    }

    /// Returns a path independent of the working directory, if the path is in a held directory.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.find(path).map_or_else(|| path.to_path_buf(), |(dir, rest)| dir.absolute.join(rest))
    }

    /// Returns the held directory that contains the path.
    pub fn dir_of(&self, path: &Path) -> Option<Arc<HeldDir>> {
        self.find(path).map(|(dir, _)| dir.clone())
    }

    /// Runs [`HeldDir::check`] on the directory that contains the path.
    pub fn check(&self, path: &Path) -> Result<()> {
        self.find(path).map_or(Ok(()), |(dir, _)| dir.check())
    }
}

/// Returns the error for a path that leads to no regular file.
fn not_regular() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "this is not a regular file but a link, a directory, a FIFO or a device",
    )
}

#[cfg(unix)]
pub(super) use unix::Identity;
#[cfg(unix)]
use unix::{identity_of, is_at};

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
    use rustix::io::Errno;

    use super::*;

    /// Device and inode.
    pub type Identity = (u64, u64);

    #[allow(clippy::unnecessary_cast)] // field widths differ between systems
    fn identity(stat: &rustix::fs::Stat) -> Identity {
        (stat.st_dev as u64, stat.st_ino as u64)
    }

    pub(super) fn identity_of(file: &File) -> io::Result<Option<Identity>> {
        Ok(Some(identity(&rustix::fs::fstat(file)?)))
    }

    /// Reports whether a path leads to this file. Returns `true` if the path cannot be followed for
    /// another reason than a missing file, such as missing permission.
    pub(super) fn is_at(path: &Path, expected: &Identity) -> bool {
        match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => identity(&stat) == *expected,
            Err(e) => ![Errno::NOENT, Errno::NOTDIR].contains(&e),
        }
    }

    pub(super) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(retry(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?)
    }

    /// Repeats a call that a signal interrupted.
    fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        loop {
            match call() {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    impl HeldDirs {
        /// Returns the directory from which a path is resolved, and the name there.
        fn place<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
            match self.find(path) {
                Some((dir, rest)) if rest.as_os_str().is_empty() => {
                    (dir.descriptor.as_fd(), Path::new("."))
                }
                Some((dir, rest)) => (dir.descriptor.as_fd(), rest),
                None => (CWD, path),
            }
        }

        pub fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
            let to_write = OFlags::NOFOLLOW | OFlags::CREATE;
            let flags = match mode {
                OpenMode::Read => OFlags::RDONLY,
                OpenMode::Write => OFlags::RDWR | OFlags::NOFOLLOW,
                OpenMode::Create => OFlags::WRONLY | to_write,
                OpenMode::CreateNew => OFlags::RDWR | OFlags::EXCL | to_write,
                OpenMode::Append => OFlags::WRONLY | OFlags::APPEND | to_write,
                OpenMode::Lock => OFlags::WRONLY | to_write,
            };
            let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
            let (dir, name) = self.place(path);
            let mode_of_new = Mode::from_raw_mode(self.terms.file_mode as rustix::fs::RawMode);
            let file = match retry(|| rustix::fs::openat(dir, name, flags, mode_of_new)) {
                // A FIFO without a reader, or a socket.
                Err(Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP | Errno::MLINK | Errno::ISDIR) => {
                    return Err(not_regular());
                }
                opened => File::from(opened?),
            };
            let stat = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(not_regular());
            }
            if mode == OpenMode::Create && stat.st_size > 0 {
                // Truncate only after the file is known to be regular.
                file.set_len(0)?;
            }
            Ok(file)
        }

        pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            let ((old, from), (new, to)) = (self.place(from), self.place(to));
            Ok(retry(|| rustix::fs::renameat(old, from, new, to))?)
        }

        pub fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            let ((old, from), (new, to)) = (self.place(from), self.place(to));
            Ok(retry(|| rustix::fs::linkat(old, from, new, to, AtFlags::empty()))?)
        }

        pub fn remove(&self, path: &Path) -> io::Result<()> {
            let (dir, name) = self.place(path);
            Ok(retry(|| rustix::fs::unlinkat(dir, name, AtFlags::empty()))?)
        }

        pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
            let (dir, name) = self.place(path);
            Ok(retry(|| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))?)
        }

        pub fn len(&self, path: &Path) -> io::Result<u64> {
            let (dir, name) = self.place(path);
            let stat = retry(|| rustix::fs::statat(dir, name, AtFlags::empty()))?;
            Ok(stat.st_size as u64)
        }

        /// Opens a directory for listing or syncing.
        pub fn open_dir(&self, path: &Path) -> io::Result<File> {
            let (dir, name) = self.place(path);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(File::from(retry(|| rustix::fs::openat(dir, name, flags, Mode::empty()))?))
        }

        /// Returns the names in a directory, in any order.
        pub fn list(&self, path: &Path) -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::new(self.open_dir(path)?)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Ok(names)
        }

        pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            use std::os::unix::fs::DirBuilderExt;
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(self.dir_mode()).create(self.absolute(path))
        }
    }
}

#[cfg(not(unix))]
pub(super) use by_path::Identity;
#[cfg(not(unix))]
use by_path::{identity_of, is_at};

/// Path-based variant for systems without `openat`. Windows neither renames nor removes a directory
/// while a file in it is open, and the store's lock file is.
#[cfg(not(unix))]
mod by_path {
    use std::fs::OpenOptions;

    use super::*;

    /// Empty: the standard library exposes no file identity here.
    pub type Identity = ();

    pub(super) fn identity_of(_file: &File) -> io::Result<Option<Identity>> {
        Ok(None)
    }

    pub(super) fn is_at(_path: &Path, _expected: &Identity) -> bool {
        true
    }

    impl HeldDirs {
        pub fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
            let mut options = OpenOptions::new();
            match mode {
                OpenMode::Read => options.read(true),
                OpenMode::Write => options.read(true).write(true),
                OpenMode::Create => options.write(true).create(true).truncate(true),
                OpenMode::CreateNew => options.read(true).write(true).create_new(true),
                OpenMode::Append => options.append(true).create(true),
                OpenMode::Lock => options.write(true).create(true).truncate(false),
            };
            let file = options.open(self.absolute(path))?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
        }

        pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            std::fs::rename(self.absolute(from), self.absolute(to))
        }

        pub fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
            std::fs::hard_link(self.absolute(from), self.absolute(to))
        }

        pub fn remove(&self, path: &Path) -> io::Result<()> {
            std::fs::remove_file(self.absolute(path))
        }

        pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
            std::fs::remove_dir(self.absolute(path))
        }

        pub fn len(&self, path: &Path) -> io::Result<u64> {
            Ok(std::fs::metadata(self.absolute(path))?.len())
        }

        /// Checks that a directory exists, as opening it to sync it would.
        pub fn open_dir(&self, path: &Path) -> io::Result<()> {
            std::fs::metadata(self.absolute(path)).map(drop)
        }

        /// Returns the names in a directory, in any order.
        pub fn list(&self, path: &Path) -> io::Result<Vec<String>> {
            std::fs::read_dir(self.absolute(path))?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        }

        pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            std::fs::create_dir_all(self.absolute(path))
        }
    }
}
