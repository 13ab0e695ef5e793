//! What was written to a file goes to the device before a sync asks for it: `sync_file_range`, a call
//! of Linux that no safe library wraps.
//!
//! It promises nothing: what is durable says the sync that follows. It does not take the errors of
//! the device from that sync either, for it waits for none (`SYNC_FILE_RANGE_WRITE` alone).
//!
//! Safety argument: the call is given numbers, and a descriptor that is open as long as the `File` is
//! borrowed. It neither reads nor writes memory of the process.
#![cfg_attr(target_os = "linux", allow(unsafe_code))]
#![allow(clippy::disallowed_types)] // a part of `os`, the door that the ban leads to

use std::fs::File;

/// Begins to write these bytes of a file to the device, where the system can. It waits only while
/// the device's queue is full.
#[cfg(target_os = "linux")]
pub(super) fn begin_writing(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: the module's argument.
    unsafe {
        // Where it cannot be done the sync writes everything, as ever.
        libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// The sync writes everything.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin_writing(_file: &File, _offset: u64, _len: u64) {}
