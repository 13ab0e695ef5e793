//! How a server shares the file descriptors that its process may have between connections, files
//! of tables and the rest of the store.
//!
//! Invariant: what the store needs for a write is never a connection's; a connection is refused
//! rather than a write.

use std::fmt;

/// Descriptors that a process has besides: standard input and output, the directory, the lock, the
/// manifest, the event log and segments of the log, a backup, connections that are just accepted.
const FIXED: u64 = 24;
/// Files that a flush or a compaction writes at once, for each background thread.
const BY_THREAD: u64 = 2;
/// The most files of tables that are kept open at the cost of connections.
const TABLES: u64 = 64;
/// The least that a bound on open files of tables may be.
const LEAST_TABLES: u64 = 8;

/// How the descriptors of a process are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorPlan {
    /// How many the process may have.
    pub limit: u64,
    /// Those of the store and the server, without files of tables and connections.
    pub reserved: u64,
    /// Those of files of tables.
    pub tables: u64,
    /// Connections at most.
    pub connections: usize,
    /// Connections that were asked for.
    pub wanted: usize,
}

/// What takes descriptors.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorNeeds {
    /// Connections that are asked for.
    pub connections: usize,
    /// Threads that read the store, each a file.
    pub workers: usize,
    /// Threads that flush and compact.
    pub background_threads: usize,
    /// Ports that are listened at, and what is served at that of `/metrics`.
    pub ports: u64,
    /// The bound on open files of tables, where it is set. `None`: the plan sets it.
    pub tables: Option<u64>,
}

impl DescriptorPlan {
    /// Shares this many descriptors. Connections come before files of tables, which are closed and
    /// opened again.
    pub fn new(limit: u64, needs: &DescriptorNeeds) -> DescriptorPlan {
        let threads = needs.background_threads as u64 * BY_THREAD;
        let reserved = FIXED + threads + needs.workers as u64 + needs.ports;
        let left = limit.saturating_sub(reserved);
        let least = needs.tables.unwrap_or((limit / 8).clamp(LEAST_TABLES, TABLES));
        let room = usize::try_from(left.saturating_sub(least)).unwrap_or(usize::MAX);
        let connections = needs.connections.min(room).max(1);
        let tables = left.saturating_sub(connections as u64).min(limit / 2).max(LEAST_TABLES);
        let tables = needs.tables.unwrap_or(tables);
        DescriptorPlan { limit, reserved, tables, connections, wanted: needs.connections }
    }

    /// Whether fewer connections are taken than were asked for.
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
    fn all_parts_together_are_within_the_limit() {
        for limit in [90, 128, 256, 1000, 1024, 1200, 4096, 65_536, 1 << 20] {
            for (connections, tables) in [(1024, None), (7, None), (1 << 20, Some(20))] {
                let needs = DescriptorNeeds { connections, tables, ..NEEDS };
                let plan = DescriptorPlan::new(limit, &needs);
                let sum = plan.reserved + plan.tables + plan.connections as u64;
                assert!(sum <= limit, "{limit}: {plan:?}");
                assert!(plan.connections >= 7 && plan.tables >= LEAST_TABLES, "{limit}: {plan:?}");
                assert_eq!(plan.is_short(), plan.connections < connections);
            }
        }
    }

    #[test]
    fn a_large_limit_takes_nothing_from_connections_and_half_goes_to_tables() {
        let plan = DescriptorPlan::new(65_536, &NEEDS);
        assert_eq!((plan.connections, plan.tables), (1024, 32_768));
        let short = DescriptorPlan::new(128, &NEEDS);
        assert_eq!((short.connections, short.tables, short.reserved), (67, 16, 45));
        assert!(short.to_string().contains("67 connections are taken, not 1024"), "{short}");
        // There is one connection however few there are.
        assert_eq!(DescriptorPlan::new(10, &NEEDS).connections, 1);
    }
}
