//! Maps of files.
//!
//! Three kinds: [`ForkMark`], a page that a child made by `fork()` finds empty; [`ReadMap`], a
//! private view of a finished file, read as a slice; [`LogMap`], a shared writable map of a log
//! file, which is only ever written, through [`LogMap::write`].
//!
//! Safety argument:
//! - A `ReadMap` hands out `&[u8]`, so nobody may change or truncate the file while it lives. The
//!   engine maps only files that are finished: a table is never written again once it has been
//!   opened for reading, and it leaves by unlinking, which keeps its pages. The store's lock keeps
//!   other engines out. A stranger that truncates a table under a running engine gets that engine
//!   killed by a signal (as with every program that maps files); `ReadMode::Pread` avoids even
//!   that.
//! - A `LogMap` hands out neither a slice nor a pointer: the only access is a copy into it,
//!   bounds-checked, from a slice that cannot lie in the map (nobody can make one). No reference to
//!   the mapped memory ever exists, so no aliasing rule can be broken. Callers keep concurrent
//!   writes disjoint (the contract of [`LogFile`](super::LogFile)); where a caller fails to, the
//!   overlapping bytes of the *file* are a mixture of the two writes, and nothing in this process
//!   reads that memory.
//! - A map is never longer than its file: it has the file's length of when it was mapped, and a
//!   log's map is replaced by a shorter one, under exclusive access, before the file is shortened.
//!   The engine shortens no file that it has mapped for reading.
//! - A `ForkMark` on Linux is private memory of one owner, written before it is shared; what
//!   changes in a child is the child's own copy.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions, MmapRaw};

use super::FileMap;

/// How many files of a process are mapped for reading at most. Linux gives a process 65,530 maps
/// (`vm.max_map_count`), and one that has no more of them gets no memory either.
const MOST_MAPS: usize = 32 << 10;

static MAPS: AtomicUsize = AtomicUsize::new(0);

/// A read-only map of a whole file.
pub(super) struct ReadMap(Mmap);

impl ReadMap {
    /// Maps `len` bytes of a finished file; `len` is its length and not zero. `None` when the
    /// process has as many maps as it may.
    ///
    /// A fault reads its own page only. Without the advice the system reads as far ahead as the
    /// device's setting says: 128 KiB on most, 8 MiB on some.
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

/// Tells a process from its children that `fork()` makes: a page that they find wiped, and where
/// pages can't be wiped but asking for the number of a process is no system call (Apple's), that
/// number.
pub(super) struct ForkMark(
    #[cfg(not(target_vendor = "apple"))] memmap2::MmapMut,
    #[cfg(target_vendor = "apple")] u32,
);

#[cfg(not(target_vendor = "apple"))]
impl ForkMark {
    /// `None` where the system cannot wipe pages (before Linux 4.14, and elsewhere).
    pub fn new() -> Option<ForkMark> {
        #[cfg(target_os = "linux")]
        {
            let mut map = MmapOptions::new().len(4096).map_anon().ok()?;
            map[0] = 1;
            // SAFETY: the advice is about the whole of this mapping and nothing else; it changes
            // nothing in this process.
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

    /// Whether this is a child of the process that made the mark. Costs a load.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.0[0] == 0
    }
}

#[cfg(target_vendor = "apple")]
impl ForkMark {
    /// Always a mark.
    pub fn new() -> Option<ForkMark> {
        Some(ForkMark(std::process::id()))
    }

    /// Whether this is a child of the process that made the mark.
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

    /// Copies `bytes` to `offset`; `false`, and nothing done, when they do not fit.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let len = self.0.len();
        let Ok(start) = usize::try_from(offset) else { return false };
        if start > len || bytes.len() > len - start {
            return false;
        }
        // SAFETY: `start + bytes.len() <= len`, so the target lies in the map, which is writable
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

    /// Populates the pages of a range for writing, as far as the system can; the range is clipped
    /// to the map.
    pub fn populate(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        {
            let end = offset.saturating_add(len).min(self.0.len() as u64);
            if offset < end {
                // A kernel without this advice (before 5.14) says EINVAL: then the first write to a
                // page faults, as ever.
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

    /// Hands dirty pages to the file, where syncing the descriptor alone does not.
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
        // SAFETY: the status is ours and lives until the call returns.
        let waited = unsafe { waitpid(child, &mut status, 0) };
        assert_eq!((waited, status >> 8), (child, 7));
        assert!(!mark.is_child());
    }

    /// Each may open a store of its own, with an environment that the parent had made or drawn
    /// from.
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
            // SAFETY: the status is ours and lives until the call returns.
            let waited = unsafe { waitpid(child, &mut status, 0) };
            assert_eq!((waited, status >> 8), (child, 7));
        }
        let mut drawn = [[0; 8]; 2];
        drawn.iter_mut().for_each(|d| reader.read_exact(d).unwrap());
        assert!(drawn[0] != drawn[1], "two children drew {drawn:?}");
    }
}
