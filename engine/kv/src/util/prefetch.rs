//! Prefetches cache lines. A module with one line of `unsafe` code.
//!
//! The safety argument: a prefetch is a hint. It reads nothing that the program can see. For an
//! address that is not mapped, or not the program's, it is a no-op instead of a fault. So any
//! pointer is valid.
#![allow(unsafe_code)]

/// Prefetches the cache line at `at`. On other processors than x86-64 it does nothing.
#[inline]
pub fn fetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint that faults nowhere and reads nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
