//! Memory maps of files.
//!
//! There are three types:
//! - [`ForkMark`]: a page that a `fork()` child finds empty.
//! - [`ReadMap`]: a private view of a finished file, read as a slice.
//! - [`LogMap`]: a shared writable map of a log file, written through [`LogMap::write`]. Its bytes
//!   before a mark can be read as slices, and are not written any more.
//!
//! Safety argument:
//! - A `ReadMap` returns `&[u8]`, so nobody may change or truncate the file while the map lives.
//!   The engine maps only finished files. A table is never written after it has been opened for
//!   reading. Unlinking removes it, which preserves its pages. The store's lock excludes other
//!   engines. If another program truncates a table under a running engine, a signal kills that
//!   engine, as with every program that maps files. `ReadMode::Pread` avoids even that.
//! - A `LogMap` is written by bounds-checked copies, and only at and after its mark
//!   (`LogMap::viewed`). Slices exist only of bytes before the mark, which only grows. So no byte is
//!   written through the map while a slice of it exists, and no source of a copy overlaps its
//!   target. Callers make concurrent writes disjoint from each other and from the bytes that they
//!   put before the mark (the contract of [`LogFile`](super::LogFile)); the log does both under its
//!   lock. If a caller fails to make writes disjoint, the overlapping bytes of the *file* are a
//!   mixture of both.
//! - A log file is overwritten through another map only when no view of it is left
//!   (`wal/writer.rs`): a writer recycles only files of its own, and those only without a view.
//! - A map is never longer than its file. It has the file's length at the time of mapping. Before a
//!   log file is shortened, a shorter map replaces its map under exclusive access. The engine
//!   shortens no file that it has mapped for reading.
//! - A `ForkMark` on Linux is private memory of one owner, written before it is shared. A child
//!   changes only its own copy.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions, MmapRaw};

use super::{FileMap, LogView};

/// Maximum number of files that a process maps for reading. Linux limits a process to 65,530 maps
/// (`vm.max_map_count`), and a process without free maps gets no memory either.
const MOST_MAPS: usize = 32 << 10;

static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A read-only map of a whole file.
pub(super) struct ReadMap(Mmap);

impl ReadMap {
    /// Maps `len` bytes of a finished file; `len` is its length and not zero. Returns `None` if the
    /// process has reached the limit of maps.
    ///
    /// The advice makes a page fault read only its own page. Without it the system reads ahead by
    /// the device's setting: 128 KiB on most, 8 MiB on some.
    pub fn new(file: &File, len: usize) -> io::Result<Option<ReadMap>> {
        if MAPS.fetch_add(1, Ordering::Relaxed) >= MOST_MAPS {
            MAPS.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        // SAFETY: the file is finished: nobody changes or truncates it while the map lives (see the
        // module's argument).
        let map = unsafe { MmapOptions::new().len(len).map(file) };
        let map = map.inspect_err(|_| {
            MAPS.fetch_sub(1, Ordering::Relaxed);
        })?;
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        Ok(Some(ReadMap(map)))
    }
}

impl FileMap for ReadMap {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn will_need(&self, offset: u64, len: u64) {
        #[cfg(unix)]
        {
            let all = self.0.len() as u64;
            let (from, until) = (offset.min(all), offset.saturating_add(len).min(all));
            let _ = self.0.advise_range(
                memmap2::Advice::WillNeed,
                from as usize,
                (until - from) as usize,
            );
        }
        #[cfg(not(unix))]
        let _ = (offset, len);
    }
}

impl Drop for ReadMap {
    fn drop(&mut self) {
        MAPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Distinguishes a process from its `fork()` children, by a page that is wiped in a child. Apple's
/// systems cannot wipe pages, but reading the process id there is no system call, so the mark is
/// that id.
pub(super) struct ForkMark(
    #[cfg(not(target_vendor = "apple"))] memmap2::MmapMut,
    #[cfg(target_vendor = "apple")] u32,
);

#[cfg(not(target_vendor = "apple"))]
impl ForkMark {
    /// Returns `None` if the system cannot wipe pages (before Linux 4.14, and elsewhere).
    pub fn new() -> Option<ForkMark> {
        #[cfg(target_os = "linux")]
        {
            let mut map = MmapOptions::new().len(4096).map_anon().ok()?;
            map[0] = 1;
            // SAFETY: the advice covers exactly this mapping; it changes nothing in this process.
            unsafe {
                rustix::mm::madvise(
                    map.as_mut_ptr().cast(),
                    map.len(),
                    rustix::mm::Advice::LinuxWipeOnFork,
                )
            }
            .ok()?;
            Some(ForkMark(map))
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Reports whether this process is a child of the one that created the mark. Costs one load.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.0[0] == 0
    }
}

#[cfg(target_vendor = "apple")]
impl ForkMark {
    /// Creates a mark; never fails.
    pub fn new() -> Option<ForkMark> {
        Some(ForkMark(std::process::id()))
    }

    /// Reports whether this process is a child of the one that created the mark.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.0 != std::process::id()
    }
}

/// A shared, writable map of a log file whose blocks are reserved.
pub(super) struct LogMap {
    map: MmapRaw,
    /// Bytes before this offset are not written any more.
    viewed: AtomicU64,
}

impl LogMap {
    /// Maps `len` bytes of the file; `len` is its length and not zero.
    pub fn new(file: &File, len: usize) -> io::Result<LogMap> {
        Ok(LogMap { map: MmapOptions::new().len(len).map_raw(file)?, viewed: AtomicU64::new(0) })
    }

    /// Ends writing before `end`, so that those bytes can be read.
    #[cfg(unix)]
    pub fn end_writing_before(&self, end: u64) {
        self.viewed.fetch_max(end, Ordering::Relaxed);
    }

    /// Copies `bytes` to `offset`. Returns `false`, and copies nothing, if they do not fit, or
    /// writing has ended there.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let len = self.map.len();
        let Ok(start) = usize::try_from(offset) else { return false };
        if start > len || bytes.len() > len - start || offset < self.viewed.load(Ordering::Relaxed)
        {
            return false;
        }
        // SAFETY: `start + bytes.len() <= len`, so the target is within the map, which is writable
        // and lives as long as `self`. Slices of the map end at the mark, so neither the source nor
        // any other one overlaps the target. Concurrent calls write disjoint ranges (the contract of
        // `LogFile`).
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(start),
                bytes.len(),
            )
        };
        true
    }

    /// Populates the pages of a range for writing, if the system can. The range is clipped to the
    /// map.
    pub fn populate(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        {
            let end = offset.saturating_add(len).min(self.map.len() as u64);
            if offset < end {
                // A kernel without this advice (before 5.14) returns EINVAL. Then the first write
                // to a page faults as usual.
                let _ = self.map.advise_range(
                    memmap2::Advice::PopulateWrite,
                    offset as usize,
                    (end - offset) as usize,
                );
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    /// Writes dirty pages to the file, on systems where syncing the descriptor does not.
    #[cfg(not(target_os = "linux"))]
    pub fn flush(&self) -> io::Result<()> {
        self.map.flush()
    }
}

impl LogView for LogMap {
    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let end = offset.checked_add(len as u64)?;
        if end > self.viewed.load(Ordering::Relaxed).min(self.map.len() as u64) {
            return None;
        }
        // SAFETY: within the map, which lives as long as `self`. The bytes are before the mark, so
        // they are not written any more (the module's argument).
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(offset as usize), len) })
    }
}

#[cfg(all(test, any(target_os = "linux", target_vendor = "apple")))]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    unsafe extern "C" {
        safe fn fork() -> i32;
        safe fn _exit(status: i32) -> !;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    }

    /// Bytes can be read only where writing has ended, also after the file was removed.
    #[test]
    #[allow(clippy::disallowed_methods)] // the test is about a file's map
    fn a_log_is_read_only_before_its_mark() {
        let path = std::env::temp_dir().join(format!("firn-log-map-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        file.set_len(8192).unwrap();
        let map = LogMap::new(&file, 8192).unwrap();
        assert!(map.write(0, b"head") && map.write(5000, b"tail"));
        assert_eq!(map.bytes(0, 4), None);
        map.end_writing_before(4);
        assert_eq!(map.bytes(0, 4), Some(&b"head"[..]));
        assert_eq!((map.bytes(1, 4), map.bytes(5, 0), map.bytes(u64::MAX, 2)), (None, None, None));
        assert!(!map.write(3, b"x") && !map.write(0, b""), "what can be read was written");
        assert!(map.write(4, b"more") && !map.write(8190, b"over"));
        map.end_writing_before(2);
        assert!(!map.write(3, b"x"), "the mark went back");
        std::fs::remove_file(&path).unwrap();
        map.end_writing_before(u64::MAX);
        assert_eq!(map.bytes(4, 4), Some(&b"more"[..]));
        assert_eq!((map.bytes(5000, 4), map.bytes(8190, 3)), (Some(&b"tail"[..]), None));
    }

    #[test]
    fn a_child_knows_that_it_is_one() {
        let mark = ForkMark::new().unwrap();
        assert!(!mark.is_child());
        let child = fork();
        if child == 0 {
            _exit(if mark.is_child() { 7 } else { 1 });
        }
        let mut status = 0;
        // SAFETY: the status is a local that lives until the call returns.
        let waited = unsafe { waitpid(child, &mut status, 0) };
        assert_eq!((waited, status >> 8), (child, 7));
        assert!(!mark.is_child());
    }

    /// Each child may open a store of its own, with an environment that the parent had created or
    /// used.
    #[test]
    fn children_draw_different_numbers() {
        let env = super::super::os::OsEnv::new();
        env.random();
        let (mut reader, mut writer) = io::pipe().unwrap();
        for _ in 0..2 {
            let child = fork();
            if child == 0 {
                let written = writer.write_all(&env.random().to_le_bytes());
                _exit(if written.is_ok() { 7 } else { 1 });
            }
            let mut status = 0;
            // SAFETY: the status is a local that lives until the call returns.
            let waited = unsafe { waitpid(child, &mut status, 0) };
            assert_eq!((waited, status >> 8), (child, 7));
        }
        let mut drawn = [[0; 8]; 2];
        drawn.iter_mut().for_each(|d| reader.read_exact(d).unwrap());
        assert!(drawn[0] != drawn[1], "two children drew {drawn:?}");
    }
}
