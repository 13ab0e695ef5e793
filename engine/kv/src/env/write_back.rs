//! Starts write-back of a file before its sync: `sync_file_range`, a Linux call without a safe
//! wrapper.
//!
//! It guarantees no durability; only the following sync does. It does not hide device errors from
//! that sync either, because it waits for no write (`SYNC_FILE_RANGE_WRITE` alone).
//!
//! Safety argument: the call gets numbers and a descriptor that is open as long as the `File` is
//! borrowed. It neither reads nor writes memory of the process.
#![cfg_attr(target_os = "linux", allow(unsafe_code))]
#![allow(clippy::disallowed_types)] // part of `os`, the one allowed user

use std::fs::File;

/// Starts to write these bytes of a file to the device, if the system can. Blocks only while the
/// device's queue is full.
#[cfg(target_os = "linux")]
pub(super) fn begin_writing(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: the module's argument.
    unsafe {
        // If the call fails, the sync writes everything.
        libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Does nothing: the sync writes everything.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin_writing(_file: &File, _offset: u64, _len: u64) {}
