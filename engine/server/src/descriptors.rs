//! Shares the file descriptors of the process between connections, table files and the rest of the
//! store.
//!
//! Invariant: a connection never takes a descriptor that the store needs for a write; the server
//! refuses the connection rather than fail a write.

use std::fmt;

/// Other descriptors of a process: standard input and output, the directory, the lock, the
/// manifest, the event log and segments of the log, a backup, connections being accepted.
const FIXED: u64 = 24;
/// Files that a flush or a compaction writes at once, for each background thread.
const BY_THREAD: u64 = 2;
/// Maximum number of table files that stay open at the cost of connections.
const TABLES: u64 = 64;
/// Minimum of the bound on open table files.
const MIN_TABLES: u64 = 8;

/// Distribution of the descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorPlan {
    /// Limit of the process.
    pub limit: u64,
    /// Descriptors of the store and the server, without table files and connections.
    pub reserved: u64,
    /// Descriptors of table files.
    pub tables: u64,
    /// Maximum number of connections.
    pub connections: usize,
    /// Requested number of connections.
    pub wanted: usize,
}

/// Users of descriptors.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorNeeds {
    /// Requested number of connections.
    pub connections: usize,
    /// Threads that read the store, each with one file.
    pub workers: usize,
    /// Threads that flush and compact.
    pub background_threads: usize,
    /// Listening ports, and the connections of `/metrics`.
    pub ports: u64,
    /// Bound on open table files, if set. `None`: the plan sets it.
    pub tables: Option<u64>,
}

impl DescriptorPlan {
    /// Shares this many descriptors. Connections have priority over table files, which can be
    /// closed and reopened.
    #[doc(hidden)]
    pub fn new(limit: u64, needs: &DescriptorNeeds) -> DescriptorPlan {
        let threads = needs.background_threads as u64 * BY_THREAD;
        let reserved = FIXED + threads + needs.workers as u64 + needs.ports;
        let left = limit.saturating_sub(reserved);
        let least = needs.tables.unwrap_or((limit / 8).clamp(MIN_TABLES, TABLES));
        let room = usize::try_from(left.saturating_sub(least)).unwrap_or(usize::MAX);
        let connections = needs.connections.min(room).max(1);
        let tables = left.saturating_sub(connections as u64).min(limit / 2).max(MIN_TABLES);
        let tables = needs.tables.unwrap_or(tables);
        DescriptorPlan { limit, reserved, tables, connections, wanted: needs.connections }
    }

    /// Reports whether there are fewer connections than requested.
    pub fn is_short(&self) -> bool {
        self.connections < self.wanted
    }
}

impl fmt::Display for DescriptorPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DescriptorPlan { limit, reserved, tables, connections, wanted } = self;
        write!(
            f,
            "{connections} connections are taken, not {wanted}: this process may open {limit} files, \
             of which the store and the server need {reserved}, and tables {tables}; raise the limit \
             (ulimit -n, LimitNOFILE)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: DescriptorNeeds = DescriptorNeeds {
        connections: 1024,
        workers: 16,
        background_threads: 2,
        ports: 1,
        tables: None,
    };

    #[test]
    fn descriptors_of_all_users_are_within_the_limit() {
        for limit in [90, 128, 256, 1000, 1024, 1200, 4096, 65_536, 1 << 20] {
            for (connections, tables) in [(1024, None), (7, None), (1 << 20, Some(20))] {
                let needs = DescriptorNeeds { connections, tables, ..NEEDS };
                let plan = DescriptorPlan::new(limit, &needs);
                let sum = plan.reserved + plan.tables + plan.connections as u64;
                assert!(sum <= limit, "{limit}: {plan:?}");
                assert!(plan.connections >= 7 && plan.tables >= MIN_TABLES, "{limit}: {plan:?}");
                assert_eq!(plan.is_short(), plan.connections < connections);
            }
        }
    }

    #[test]
    fn a_large_limit_gives_half_to_tables_and_all_connections() {
        let plan = DescriptorPlan::new(65_536, &NEEDS);
        assert_eq!((plan.connections, plan.tables), (1024, 32_768));
        let short = DescriptorPlan::new(128, &NEEDS);
        assert_eq!((short.connections, short.tables, short.reserved), (67, 16, 45));
        assert!(short.to_string().contains("67 connections are taken, not 1024"), "{short}");
        // One connection always remains, even below the limit.
        assert_eq!(DescriptorPlan::new(10, &NEEDS).connections, 1);
    }
}
