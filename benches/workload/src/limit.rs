//! A memory limit that a process sets for itself: its own control group, page cache included.
//! Linux, control groups of either version. It needs the right to create a group, which root has,
//! and users with a delegated subtree.
//!
//! The limit counts memory that a process touches after it has entered. So the measured process is
//! restarted and enters first of all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A control group with a memory limit; removed when dropped, after its processes have ended.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    version: u8,
}

impl MemoryGroup {
    /// Creates a group whose processes may use `bytes` of memory.
    ///
    /// # Errors
    /// The system's error for the last attempted location, if no group could be created.
    pub fn new(bytes: u64) -> io::Result<MemoryGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mut last =
            io::Error::new(io::ErrorKind::Unsupported, "there are no control groups for memory");
        for (version, parent) in places(&groups) {
            match MemoryGroup::make(version, &parent, bytes) {
                Ok(group) => return Ok(group),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn make(version: u8, parent: &Path, bytes: u64) -> io::Result<MemoryGroup> {
        if version == 2 {
            // Fails if the parent group has processes of its own; then a higher one is tried.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let path = parent.join(format!("firn-{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = MemoryGroup { path, version };
        let limit = if version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(group.path.join(limit), bytes.to_string())?;
        // Without it the limit would only move the process to swap. It is missing without swap.
        let _ = match version {
            1 => fs::write(group.path.join("memory.memsw.limit_in_bytes"), bytes.to_string()),
            _ => fs::write(group.path.join("memory.swap.max"), "0"),
        };
        Ok(group)
    }

    /// Returns the group's directory, for [`enter`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version of control groups: 1 or 2.
    pub fn version(&self) -> u8 {
        self.version
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group that still has a process stays, and so does the one of a killed process. Both are
        // empty directories of the system.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Moves this process into a group.
///
/// # Errors
/// Errors of the system.
pub fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Returns possible parents of a group for the process with this `/proc/self/cgroup`: its own
/// group, then the ones above.
fn places(groups: &str) -> Vec<(u8, PathBuf)> {
    let mut places = vec![];
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (version, root) = match controllers {
            "" => (2, "/sys/fs/cgroup"),
            c if c.split(',').any(|c| c == "memory") => (1, "/sys/fs/cgroup/memory"),
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        places.extend(below.ancestors().map(|p| (version, Path::new(root).join(p))));
    }
    // Without a memory controller of version 2, the root lacks these files.
    places.retain(|(version, p)| {
        *version == 1
            || fs::read_to_string(p.join("cgroup.controllers")).is_ok_and(|c| c.contains("memory"))
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_in_the_own_one_or_above() {
        let of = |text: &str| {
            places(text).into_iter().map(|(v, p)| (v, p.display().to_string())).collect::<Vec<_>>()
        };
        let v1 = of("7:cpu:/x\n4:memory:/a/b\n");
        let expected =
            ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/"];
        assert_eq!(v1, expected.map(|p| (1, p.to_owned())));
        assert!(of("nonsense").is_empty());
    }

    /// Succeeds if the machine permits it; otherwise the error has a text.
    #[test]
    fn a_group_limits_or_says_why_not() {
        match MemoryGroup::new(64 << 20) {
            Ok(group) => {
                let path = group.path().to_owned();
                assert!(path.is_dir());
                drop(group);
                assert!(!path.exists());
            }
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
}
