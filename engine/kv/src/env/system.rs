//! The differences between operating systems: how files are read, written, reserved and synced.
//!
//! | | Linux | macOS | other Unixes | Windows | WASI |
//! |---|---|---|---|---|---|
//! | reads and writes at an offset | `pread`, `pwrite` | the same | the same | `ReadFile`, `WriteFile` with an offset | seeks |
//! | maps of tables | yes | yes | yes | no: a mapped file could not be removed | no |
//! | the log | a map, where its blocks were reserved | a map; written where a segment is used again | written | written: a mapped file could not be shortened | written |
//! | reserving | `fallocate` | `F_PREALLOCATE` | none | none | none |
//! | syncs of files | `fdatasync` | `F_FULLFSYNC`; `fsync` on volumes that don't know it | `fdatasync` | `FlushFileBuffers` | none |
//! | syncs of directories | `fsync` | as of files | `fsync` | none: NTFS keeps a journal of names | none |
//! | a child of `fork()` is found out | a page that it finds wiped | the number of the process | no | there is no `fork()` | the same |
//! | writing begins before a sync | `sync_file_range` | no | no | no | no |
//! | free space | `statvfs` | the same | the same | unknown | unknown |
//! | how many files may be open | `getrlimit` | the same | the same | no bound | unknown |
//!
//! Invariant: where a log is not reserved it is not mapped, so a full disk is an error of the write
//! that meets it and never a signal; and nobody fills it with zeros first.
#![allow(clippy::disallowed_methods)] // a part of `os`, the door that the ban leads to

use std::fs::File;
use std::io;
use std::path::Path;

/// Whether a mapped file can be removed, replaced and shortened as any other.
pub(super) const MAPS: bool = cfg!(unix);

/// Reads all of `buf` at an offset; the end of the file is `UnexpectedEof`.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, offset)
}

/// The same. The file's position moves, which nobody here goes by.
#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buf, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buf = &mut buf[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The same, for one thread.
#[cfg(not(any(unix, windows)))]
pub(super) fn read_exact_at(mut file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buf)
}

/// Writes all of `bytes` at an offset.
#[cfg(unix)]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// The same.
#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The same, for one thread.
#[cfg(not(any(unix, windows)))]
pub(super) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Gives a file `len` bytes, and all the blocks of them where the system and the file system can:
/// `true` then. `fresh`: it has none yet; one that is used again has the length.
pub(super) fn reserve(file: &File, len: u64, fresh: bool) -> io::Result<bool> {
    if blocks(file, len, fresh)? {
        return Ok(true);
    }
    file.set_len(len)?;
    Ok(false)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn blocks(file: &File, len: u64, _fresh: bool) -> io::Result<bool> {
    use rustix::io::Errno;
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Pages and blocks are no larger, in bytes.
pub(super) const LARGEST_PAGE: u64 = 64 << 10;

/// Gives back the whole pages of a file from `from` to `until`, with what is to be written of them,
/// where the system can; the file keeps its length.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn discard(file: &File, from: u64, until: u64) {
    use rustix::fs::FallocateFlags;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Some(from) = from.checked_next_multiple_of(LARGEST_PAGE).filter(|from| *from < until) {
        // Where it cannot be done the pages are written, as ever.
        let _ = rustix::fs::fallocate(file, hole, from, until - from);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn discard(_file: &File, _from: u64, _until: u64) {}

/// `F_PREALLOCATE` counts from the end of the file: one that is used again would get as much behind
/// it.
#[cfg(target_vendor = "apple")]
fn blocks(file: &File, len: u64, fresh: bool) -> io::Result<bool> {
    use rustix::io::Errno;
    if !fresh {
        return Ok(false);
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn blocks(_file: &File, _len: u64, _fresh: bool) -> io::Result<bool> {
    Ok(false)
}

/// Makes what a file contains durable, its length too.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// The same. The standard library asks for `F_FULLFSYNC`, which volumes of the network and of
/// foreign formats refuse as unknown; that is no failed sync, and the lesser one that they know is
/// all there is.
#[cfg(target_vendor = "apple")]
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    use rustix::io::Errno;
    match file.sync_data() {
        Err(e)
            if matches!(
                Errno::from_io_error(&e),
                Some(Errno::NOTSUP | Errno::NOTTY | Errno::INVAL)
            ) =>
        {
            Ok(rustix::fs::fsync(file)?)
        }
        synced => synced,
    }
}

/// Makes the names of a directory durable.
#[cfg(unix)]
pub(super) fn sync_dir(dir: &File) -> io::Result<()> {
    if cfg!(target_vendor = "apple") { sync_data(dir) } else { dir.sync_all() }
}

#[cfg(not(unix))]
pub(super) fn sync_dir(_dir: &()) -> io::Result<()> {
    Ok(())
}

/// How many files a process may have open.
#[cfg(unix)]
pub(super) fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
pub(super) fn descriptors() -> Option<u64> {
    None
}

/// Whether the system refused for want of a descriptor, the process's own or all there are.
#[cfg(unix)]
pub(super) fn is_out_of_descriptors(e: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE]
        .map(Errno::raw_os_error)
        .iter()
        .any(|n| e.raw_os_error() == Some(*n))
}

#[cfg(not(unix))]
pub(super) fn is_out_of_descriptors(_e: &io::Error) -> bool {
    false
}

/// Bytes that a user may still write.
#[cfg(unix)]
pub(super) fn free_space(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_space(_dir: &Path) -> Option<u64> {
    None
}

/// Tells the system that reads will be here and there, where it listens.
pub(super) fn at_random(file: &File) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = file;
}

/// Tells the system that these bytes will be read soon, where it listens.
pub(super) fn will_need(file: &File, offset: u64, len: u64) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (file, offset, len);
}
