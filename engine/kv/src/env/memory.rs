//! The memory limit of this process. On Linux: the minimum of the machine's memory and the limits
//! of the process's control groups (version 1 or 2).
//!
//! Invariant: the result never exceeds the amount that the system would give. An unknown limit is
//! `None`, never a guess.
#![allow(clippy::disallowed_methods)] // part of `os`, the one allowed user

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the limit in bytes at the time of the first call; `None` if unknown. It is cached
/// because reading it takes about six files, too much for many small stores.
pub(super) fn limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(read)
}

fn read() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|t| total(&t))?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = files(&groups)
        .into_iter()
        .filter_map(|f| std::fs::read_to_string(f).ok()?.trim().parse::<u64>().ok());
    Some(limits.fold(machine, u64::min))
}

/// Returns the machine's memory in bytes from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the files that may contain a limit for a process with this `/proc/self/cgroup`: those of
/// its groups and of all their ancestors. A container often sees its own group as the root, where
/// the given path does not exist.
fn files(groups: &str) -> Vec<PathBuf> {
    let mut files = vec![];
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" => (Path::new("/sys/fs/cgroup"), "memory.max"),
            c if c.split(',').any(|c| c == "memory") => {
                (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        files.extend(below.ancestors().map(|p| root.join(p).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn limits_are_looked_for_in_all_groups_above() {
        let paths =
            |text: &str| files(text).iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            paths("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n"),
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert!(paths("nothing\n1:cpu:/x").is_empty());
    }

    #[test]
    fn the_machine_s_memory_is_read() {
        assert_eq!(total("MemTotal:       24656304 kB\nMemFree: 1 kB\n"), Some(24_656_304 * 1024));
        assert_eq!(total("MemFree: 1 kB"), None);
        #[cfg(target_os = "linux")]
        assert!(limit().is_some_and(|n| n > 1 << 20));
    }
}
