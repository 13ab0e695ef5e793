//! A piece of memory that arenas use, one after the other.

use std::ptr::NonNull;

use crate::base::error::{Error, ErrorKind, Result};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Minimum bytes of a mapping with huge pages. A smaller one would waste most of a page.
const HUGE_FROM: usize = 8 << 20;

/// Smaller pieces come from the allocator: the empty memtables of thousands of trees. Larger ones
/// do not, because the allocator may retain freed memory. After 10,000 memtables of 8 KiB had
/// grown, it retained 80 MiB that no other size reused. (Miri has no mappings, and its
/// uninitialised memory exposes reads before writes.)
const ALLOCATED: usize = 8 << 10;

/// Memory of a fixed size, not cleared on reuse. Small pieces come from the allocator; others are
/// anonymous mappings, whose pages are not resident before the first touch.
pub(crate) struct Mapping {
    map: Option<memmap2::MmapMut>,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory that belongs to the owner of this value.
unsafe impl Send for Mapping {}

// SAFETY: `&Mapping` gives access only to the address and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates memory of `len` bytes, more than none. A mapping with huge pages is aligned to them.
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

    /// Creates a mapping. Returns `None` if the system provides none: a process may have some
    /// 65,000, including those of files.
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

    /// Returns its start.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reports whether memory of this size comes from the allocator. It then counts in full,
    /// touched or not.
    pub(crate) fn is_small(len: usize) -> bool {
        len < ALLOCATED
    }

    /// Returns the best granularity, in bytes, for growing the used part.
    pub(crate) fn piece(len: usize) -> usize {
        if len >= HUGE_FROM { HUGE } else { (len / 8).next_multiple_of(4096) }
    }

    /// Announces that the bytes from `from` to `to` are about to be filled, so that they get huge
    /// pages if possible.
    pub(crate) fn fill(&self, from: usize, to: usize) {
        #[cfg(target_os = "linux")]
        if let Some(map) = self.map.as_ref().filter(|_| self.len >= HUGE_FROM) {
            let (from, to) = (from / HUGE * HUGE, to.next_multiple_of(HUGE).min(self.len));
            let skip = self.base.as_ptr().addr() - map.as_ptr().addr();
            // A kernel without huge pages rejects it; small pages work too.
            let _ =
                map.advise_range(memmap2::Advice::HugePage, skip + from, to.saturating_sub(from));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (from, to);
    }

    /// Touches the first `len` bytes, so that later users find them resident.
    pub(crate) fn populate(&mut self, len: usize) {
        for at in (0..len.min(self.len)).step_by(4096) {
            // SAFETY: in bounds, and `&mut self` means that no arena uses the mapping.
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
