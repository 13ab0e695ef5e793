//! Data of the operating system about this process and a store's directory. Linux; on other systems
//! unknown values are `None` or 0.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Memory and device traffic of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident anonymous memory in bytes: heap, stacks, private pages.
    pub rss_anon: u64,
    /// Resident pages of mapped files, in bytes.
    pub rss_file: u64,
    /// Address space in bytes, mapped or not.
    pub size: u64,
    /// Bytes that this process caused to be written to the device, including later writeback.
    pub written: u64,
    /// Bytes that this process caused to be read from the device.
    pub read: u64,
    /// User and system time of all threads, in clock ticks.
    pub cpu_ticks: u64,
    /// Number of threads of the process.
    #[serde(default)]
    pub threads: u64,
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    })
}

impl Usage {
    /// Returns the current values; `None` without `/proc`.
    pub fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The command in parentheses may have blanks: the fields are counted from after it; utime
        // and stime are the 12th and 13th from there.
        let ticks = stat.rsplit_once(')').map_or(0, |(_, rest)| {
            rest.split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|t| t.parse::<u64>().ok())
                .sum::<u64>()
        });
        Some(Usage {
            rss_anon: field(&status, "RssAnon")? * 1024,
            rss_file: field(&status, "RssFile")? * 1024,
            size: field(&status, "VmSize")? * 1024,
            written: field(&io, "write_bytes").unwrap_or(0),
            read: field(&io, "read_bytes").unwrap_or(0),
            cpu_ticks: ticks,
            threads: field(&status, "Threads").unwrap_or(0),
        })
    }
}

/// Returns the free bytes of memory, excluding caches; `None` if unknown.
pub fn free_memory() -> Option<u64> {
    field(&fs::read_to_string("/proc/meminfo").ok()?, "MemFree").map(|kib| kib * 1024)
}

/// The device of a directory, with its total I/O by all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name, as in `/proc/diskstats`.
    pub name: String,
    /// Read-ahead in kilobytes; `None` if unknown.
    pub read_ahead_kb: Option<u64>,
    /// Bytes read since the start of the machine.
    pub read: u64,
    /// Bytes written since the start of the machine.
    pub written: u64,
}

impl Device {
    /// Returns the current state of the device of `folder`; `None` if it cannot be determined.
    #[cfg(unix)]
    pub fn of(folder: &Path) -> Option<Device> {
        let number = std::os::unix::fs::MetadataExt::dev(&fs::metadata(folder).ok()?);
        // Linux packs a device's two numbers into one.
        let major = (number >> 8) & 0xfff | (number >> 32) & !0xfff;
        let minor = number & 0xff | (number >> 12) & !0xff;
        Device::from_stats(&fs::read_to_string("/proc/diskstats").ok()?, major, minor).map(|d| {
            // A partition has no queue of its own.
            let link = format!("/sys/dev/block/{major}:{minor}");
            let ahead = ["queue", "../queue"]
                .iter()
                .find_map(|q| fs::read_to_string(format!("{link}/{q}/read_ahead_kb")).ok());
            Device { read_ahead_kb: ahead.and_then(|t| t.trim().parse().ok()), ..d }
        })
    }

    /// Returns `None`: unknown on this system.
    #[cfg(not(unix))]
    pub fn of(_folder: &Path) -> Option<Device> {
        None
    }

    #[cfg(unix)]
    fn from_stats(diskstats: &str, major: u64, minor: u64) -> Option<Device> {
        diskstats.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
            // The numbers of sectors read and written, always of 512 bytes, are the 6th and the
            // 10th field.
            let found = number(0)? == major && number(1)? == minor;
            let name = fields.get(2)?.to_string();
            found.then_some(Device {
                name,
                read_ahead_kb: None,
                read: number(5)? * 512,
                written: number(9)? * 512,
            })
        })
    }
}

/// Returns the bytes that the files in `folder` occupy on disk, in blocks, so that holes do not
/// count.
pub fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A store may delete a file after the listing.
        let Ok(meta) = entry.metadata() else { continue };
        sum += if meta.is_dir() { disk_bytes(&entry.path())? } else { occupied(&meta) };
    }
    Ok(sum)
}

#[cfg(unix)]
fn occupied(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta) * 512
}

#[cfg(not(unix))]
fn occupied(meta: &fs::Metadata) -> u64 {
    meta.len()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_shows_up() {
        let before = Usage::now().unwrap();
        let held = std::hint::black_box(vec![1u8; 32 << 20]);
        let after = Usage::now().unwrap();
        assert!(after.rss_anon >= before.rss_anon + (30 << 20), "{before:?} {after:?}");
        assert!(after.cpu_ticks >= before.cpu_ticks);
        drop(held);
    }

    #[test]
    fn devices_are_found_by_their_numbers() {
        let text =
            " 254       0 vda 10 0 16 7 20 0 32 9 0 0 0\n 254       1 vda1 1 0 2 7 3 0 4 9 0 0 0\n";
        let d = Device::from_stats(text, 254, 1).unwrap();
        assert_eq!((d.name.as_str(), d.read, d.written), ("vda1", 1024, 2048));
        assert_eq!(Device::from_stats(text, 8, 0), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "cancelled_write_bytes: 5\nwrite_bytes: 7\nRssAnon:\t  12 kB\n";
        assert_eq!(
            (field(text, "write_bytes"), field(text, "RssAnon"), field(text, "Rss")),
            (Some(7), Some(12), None)
        );
    }
}
