//! What the operating system tells of this process and of a store's folder. Linux; elsewhere what is unknown is `None` or 0.

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
    /// Bytes that this process caused to be written to the device; includes what is written back later.
    pub written: u64,
    /// Bytes that this process caused to be read from the device.
    pub read: u64,
    /// User and system time of all threads, in clock ticks.
    pub cpu_ticks: u64,
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok())
}

impl Usage {
    /// As of now; `None` where there is no `/proc`.
    pub fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The command in parentheses may hold blanks: the fields are counted from behind it; utime and stime are the 12th and
        // 13th from there.
        let ticks = stat
            .rsplit_once(')')
            .map_or(0, |(_, rest)| rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum::<u64>());
        Some(Usage {
            rss_anon: field(&status, "RssAnon")? * 1024,
            rss_file: field(&status, "RssFile")? * 1024,
            written: field(&io, "write_bytes").unwrap_or(0),
            read: field(&io, "read_bytes").unwrap_or(0),
            cpu_ticks: ticks,
        })
    }
}

/// Bytes that the files in `folder` occupy on disk: blocks, so that holes do not count.
pub fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A store may drop a file between the listing and the look at it.
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
    fn fields_are_found_by_their_whole_name() {
        let text = "cancelled_write_bytes: 5\nwrite_bytes: 7\nRssAnon:\t  12 kB\n";
        assert_eq!((field(text, "write_bytes"), field(text, "RssAnon"), field(text, "Rss")), (Some(7), Some(12), None));
    }
}
