//! Asking the memory for a cache line before it is wanted. A room of `unsafe`, of one line.
//!
//! The safety argument: a prefetch is a hint. It reads nothing that the program can see, and an
//! address that is not mapped, or not the program's, makes it a no-op instead of a fault; so any
//! pointer will do.
#![allow(unsafe_code)]

/// Asks for the line at `at`. On processors that this does not know, nothing happens.
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
