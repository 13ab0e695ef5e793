//! The differences between operating systems in reading, writing, reserving and syncing files.
//!
//! | | Linux | macOS | other Unixes | Windows | WASI |
//! |---|---|---|---|---|---|
//! | reads and writes at an offset | `pread`, `pwrite` | same | same | `ReadFile`, `WriteFile` with an offset | seeks |
//! | maps of tables | yes | yes | yes | no: a mapped file cannot be removed | no |
//! | log writes | map, if its blocks are reserved | map; writes for a recycled segment | writes | writes: a mapped file cannot be shortened | writes |
//! | reserving | `fallocate` | `F_PREALLOCATE` | none | none | none |
//! | syncs of files | `fdatasync` | `F_FULLFSYNC`; `fsync` on volumes without it | `fdatasync` | `FlushFileBuffers` | none |
//! | syncs of directories | `fsync` | like files | `fsync` | none: NTFS journals names | none |
//! | detection of `fork()` children | a page that is wiped in a child | process id | no | no `fork()` | no `fork()` |
//! | write-back before a sync | `sync_file_range` | no | no | no | no |
//! | free space | `statvfs` | same | same | unknown | unknown |
//! | limit of open files | `getrlimit` | same | same | unlimited | unknown |
//!
//! Invariant: a log without reserved blocks is not mapped. So a full disk is an error of the write
//! that meets it and never a signal. The log need not be filled with zeros first.
#![allow(clippy::disallowed_methods)] // part of `os`, the one allowed user

use std::fs::File;
use std::io;
use std::path::Path;

/// Whether a mapped file can be removed, replaced and shortened like any other.
pub(super) const MAPS: bool = cfg!(unix);

/// Reads all of `buf` at an offset; the end of the file is `UnexpectedEof`.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, offset)
}

/// Reads all of `buf` at an offset. Moves the file's position, which no caller uses.
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

/// Reads all of `buf` at an offset, on systems with one thread.
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

/// Writes all of `bytes` at an offset.
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

/// Writes all of `bytes` at an offset, on systems with one thread.
#[cfg(not(any(unix, windows)))]
pub(super) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Sets a file's length to `len` bytes. Reserves all its blocks, and returns `true`, if the system
/// and the file system can. `fresh`: the file is empty; a recycled one has the length already.
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

/// Upper bound of the size of pages and blocks, in bytes.
pub(super) const LARGEST_PAGE: u64 = 64 << 10;

/// Discards the whole pages of a file from `from` to `until`, including dirty ones, if the system
/// can. The file's length stays.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn discard(file: &File, from: u64, until: u64) {
    use rustix::fs::FallocateFlags;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Some(from) = from.checked_next_multiple_of(LARGEST_PAGE).filter(|from| *from < until) {
        // If the call fails, the pages are written as usual.
        let _ = rustix::fs::fallocate(file, hole, from, until - from);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn discard(_file: &File, _from: u64, _until: u64) {}

/// Reserves blocks with `F_PREALLOCATE`, which counts from the end of the file. A recycled file
/// would get the same amount again after its end.
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

/// Makes a file's content and length durable.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Makes a file's content and length durable. The standard library uses `F_FULLFSYNC`, which
/// network volumes and foreign formats reject as unknown. That is no failed sync; `fsync` is then
/// the strongest call available.
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

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(super) fn sync_dir(dir: &File) -> io::Result<()> {
    if cfg!(target_vendor = "apple") { sync_data(dir) } else { dir.sync_all() }
}

#[cfg(not(unix))]
pub(super) fn sync_dir(_dir: &()) -> io::Result<()> {
    Ok(())
}

/// Returns how many files a process may have open.
#[cfg(unix)]
pub(super) fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
pub(super) fn descriptors() -> Option<u64> {
    None
}

/// Reports whether the system refused for want of a descriptor, of the process or of the whole
/// system.
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

/// Returns the bytes that an unprivileged user may still write.
#[cfg(unix)]
pub(super) fn free_space(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_space(_dir: &Path) -> Option<u64> {
    None
}

/// Advises the system to expect random reads, if it supports that.
pub(super) fn at_random(file: &File) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = file;
}

/// Advises the system that these bytes will be read soon, if it supports that.
pub(super) fn will_need(file: &File, offset: u64, len: u64) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (file, offset, len);
}
