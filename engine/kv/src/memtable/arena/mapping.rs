//! A piece of memory that arenas lie in, one after the other.

use std::ptr::NonNull;

use crate::base::error::{Error, ErrorKind, Result};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Mappings of at least this many bytes may have huge pages. Smaller ones would waste most of one.
const HUGE_FROM: usize = 8 << 20;

/// Fewer bytes than this are the allocator's: the empty memtables of thousands of trees. More are
/// not, for it may keep what it gets back: of 10,000 memtables of 8 KiB that had become larger it
/// kept 80 MiB, and nothing of another size came to use it. (The interpreter has no mappings, and
/// its uninitialised memory shows it what is read before it is written.)
const ALLOCATED: usize = 8 << 10;

/// Memory of a fixed size, not cleared when it is reused: of the allocator when it is small, else
/// an anonymous mapping, of which nothing is resident before it is touched.
pub(crate) struct Mapping {
    map: Option<memmap2::MmapMut>,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that belongs to whoever owns this value.
unsafe impl Send for Mapping {}

// SAFETY: through `&Mapping` nothing but the address and the length can be had.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of `len` bytes, more than none. One that may have huge pages is aligned to them.
    pub(crate) fn new(len: usize) -> Result<Mapping> {
        let mapped = if cfg!(any(miri, target_family = "wasm")) || len < ALLOCATED {
            None
        } else {
            Self::mapped(len)
        };
        if let Some(mapping) = mapped {
            return Ok(mapping);
        }
        let failed = || {
            Error::new(
                ErrorKind::Exhausted,
                format!("there are no {len} bytes of memory; free some, and try again"),
            )
        };
        if len > isize::MAX as usize - 64 {
            return Err(failed());
        }
        // SAFETY: the size is not zero, and no more than a layout may have.
        let p = unsafe { std::alloc::alloc(Self::layout(len)) };
        NonNull::new(p).map(|base| Mapping { map: None, base, len }).ok_or_else(failed)
    }

    /// A mapping; `None` where the system gives none: a process may have some 65,000, and those of
    /// files are among them.
    fn mapped(len: usize) -> Option<Mapping> {
        let slack = if len >= HUGE_FROM { HUGE } else { 0 };
        let mut map =
            memmap2::MmapOptions::new().len(len + slack).no_reserve_swap().map_anon().ok()?;
        let start = map.as_mut_ptr();
        let skip = if slack > 0 { start.align_offset(HUGE) } else { 0 };
        let base = NonNull::new(start.wrapping_add(skip))?;
        Some(Mapping { map: Some(map), base, len })
    }

    fn layout(len: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(len.max(64), 64)
            .unwrap_or(std::alloc::Layout::new::<[u64; 8]>())
    }

    /// Where it begins.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes of memory.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether so much is counted as a whole, touched or not: that is so of what the allocator
    /// gives.
    pub(crate) fn is_small(len: usize) -> bool {
        len < ALLOCATED
    }

    /// In how large pieces it is best used.
    pub(crate) fn piece(len: usize) -> usize {
        if len >= HUGE_FROM { HUGE } else { (len / 8).next_multiple_of(4096) }
    }

    /// Says that the bytes from `from` to `to` are about to be filled, so that they get huge pages
    /// where they can.
    pub(crate) fn fill(&self, from: usize, to: usize) {
        #[cfg(target_os = "linux")]
        if let Some(map) = self.map.as_ref().filter(|_| self.len >= HUGE_FROM) {
            let (from, to) = (from / HUGE * HUGE, to.next_multiple_of(HUGE).min(self.len));
            let skip = self.base.as_ptr().addr() - map.as_ptr().addr();
            // A kernel without huge pages refuses, and small ones do.
            let _ =
                map.advise_range(memmap2::Advice::HugePage, skip + from, to.saturating_sub(from));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (from, to);
    }

    /// Touches the first `len` bytes, so that later users find them resident.
    pub(crate) fn populate(&mut self, len: usize) {
        for at in (0..len.min(self.len)).step_by(4096) {
            // SAFETY: in bounds, and `&mut self` means that no arena lives in the mapping.
            unsafe { self.base.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.map.is_none() {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), Self::layout(self.len)) }
        }
    }
}
