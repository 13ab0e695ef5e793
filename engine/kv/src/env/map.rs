//! Memory maps of files.
//!
//! There are three types:
//! - [`ForkMark`]: a page that a `fork()` child finds empty.
//! - [`ReadMap`]: a private view of a finished file, read as a slice.
//! - [`LogMap`]: a shared writable map of a log file, only ever written, through [`LogMap::write`].
//!
//! Safety argument:
//! - A `ReadMap` returns `&[u8]`, so nobody may change or truncate the file while the map lives.
//!   The engine maps only finished files. A table is never written after it has been opened for
//!   reading. Unlinking removes it, which preserves its pages. The store's lock excludes other
//!   engines. If another program truncates a table under a running engine, a signal kills that
//!   engine, as with every program that maps files. `ReadMode::Pread` avoids even that.
//! - A `LogMap` exposes neither a slice nor a pointer. The only access is a bounds-checked copy
//!   into it, from a slice that cannot be in the map (no code can create one). No reference to the
//!   mapped memory ever exists, so no aliasing rule can be broken. Callers make concurrent writes
//!   disjoint (the contract of [`LogFile`](super::LogFile)). If a caller fails to, the overlapping
//!   bytes of the *file* are a mixture of both writes, and nothing in this process reads that
//!   memory.
//! - A map is never longer than its file. It has the file's length at the time of mapping. Before a
//!   log file is shortened, a shorter map replaces its map under exclusive access. The engine
//!   shortens no file that it has mapped for reading.
//! - A `ForkMark` on Linux is private memory of one owner, written before it is shared. A child
//!   changes only its own copy.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions, MmapRaw};

use super::FileMap;

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
pub(super) struct LogMap(MmapRaw);

impl LogMap {
    /// Maps `len` bytes of the file; `len` is its length and not zero.
    pub fn new(file: &File, len: usize) -> io::Result<LogMap> {
        Ok(LogMap(MmapOptions::new().len(len).map_raw(file)?))
    }

    /// Copies `bytes` to `offset`. Returns `false`, and copies nothing, if they do not fit.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let len = self.0.len();
        let Ok(start) = usize::try_from(offset) else { return false };
        if start > len || bytes.len() > len - start {
            return false;
        }
        // SAFETY: `start + bytes.len() <= len`, so the target is within the map, which is writable
        // and lives as long as `self`. The source cannot overlap it, as no slice of the map exists.
        // Concurrent calls write disjoint ranges (the contract of `LogFile`), and nothing reads the
        // memory through this map.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.0.as_mut_ptr().add(start),
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
            let end = offset.saturating_add(len).min(self.0.len() as u64);
            if offset < end {
                // A kernel without this advice (before 5.14) returns EINVAL. Then the first write
                // to a page faults as usual.
                let _ = self.0.advise_range(
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
        self.0.flush()
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
