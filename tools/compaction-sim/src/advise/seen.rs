//! The load of a store as its log has it.

use firn_kv::Policy;
use firn_tools::output::{Style, bytes, count};
use serde::Serialize;

use crate::advise::profile::StoreProfile;
use crate::advise::recommend::Advice;
use crate::history::RecordedHistory;
use crate::report::text::{HeadedLines, seconds};

/// Returns the command that sets the policy of a tree, given by name.
pub type SetPolicy<'a> = dyn Fn(&str, &str) -> String + 'a;

/// The recorded load of a store, and the recorded results.
#[derive(Clone, Debug, Serialize)]
pub struct SeenLoad {
    /// The tree.
    pub tree: String,
    /// Seconds that the log covers.
    pub seconds: f64,
    /// Bytes of keys and values written per second.
    pub ingest: f64,
    /// Number of writes per second.
    pub entries: f64,
    /// Share of the writes that are deletes.
    pub deletes: f64,
    /// Policy of the tree.
    pub policy: String,
    /// Bytes written to tables for each byte put.
    pub write_amplification: f64,
    /// Average number of runs.
    pub runs: f64,
    /// Peak bytes of tables.
    pub peak_bytes: u64,
    /// Share of the time in which writers were slowed or stalled.
    pub held_up: f64,
}

impl SeenLoad {
    pub(super) fn of(h: &RecordedHistory, q: &StoreProfile) -> SeenLoad {
        let o = h.outcome();
        let seconds = (h.elapsed as f64 / 1e6).max(1e-6);
        let [entries, deletes, ..] = h.flushed.map(|n| n as f64);
        SeenLoad {
            tree: h.tree.clone(),
            seconds,
            ingest: q.ingest,
            entries: o.ops as f64 / seconds,
            deletes: deletes / entries.max(1.0),
            policy: h.policy.as_ref().map_or_else(|| "unknown".to_owned(), Policy::to_string),
            write_amplification: o.write_amplification,
            runs: o.mean_runs,
            peak_bytes: o.peak_bytes,
            held_up: (o.slowdown_seconds + o.stalled_seconds) / seconds,
        }
    }

    /// Returns the comparison as text. `by` returns the command that sets the policy of a tree.
    pub(super) fn words(&self, by: &SetPolicy<'_>, advice: &Advice, style: Style) -> String {
        let mut out = HeadedLines::new(style);
        out.line(
            "seen",
            format!(
                "tree {:?}, {}: {}/s in {} writes a second, {:.1} % of them deletes",
                self.tree,
                seconds(self.seconds),
                bytes(self.ingest as u64),
                count(self.entries as u64),
                100.0 * self.deletes
            ),
        );
        out.line(
            "now",
            format!(
                "{}: {:.1} bytes written for each byte put, {:.1} runs, {} at most, writers held \
                 up for {:.1} % of the time",
                self.policy,
                self.write_amplification,
                self.runs,
                bytes(self.peak_bytes),
                100.0 * self.held_up
            ),
        );
        let chosen = &advice.costs[advice.chosen];
        let present = advice.costs.iter().find(|c| c.policy == self.policy);
        out.line(
            "change",
            match present {
                _ if chosen.policy == self.policy => "none: it has that policy".to_owned(),
                Some(c) => format!(
                    "simulated alike: {:.1} bytes for each byte put become {:.1}, {:.1} runs \
                     become {:.1}, {} of tables become {}",
                    c.write_amplification,
                    chosen.write_amplification,
                    c.runs,
                    chosen.runs,
                    bytes(c.peak_bytes as u64),
                    bytes(chosen.peak_bytes as u64)
                ),
                None => "the log does not say which policy the tree has".to_owned(),
            },
        );
        if chosen.policy != self.policy {
            out.line("by", by(&self.tree, &chosen.policy));
        }
        out.text
    }
}
