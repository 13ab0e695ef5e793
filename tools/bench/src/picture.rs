//! The measurements of a bench as a page: the levels of its tree, the rate and latencies over time,
//! and the numbers of each step.

use std::path::Path;

use firn_kv::{Db, Tree};
use firn_tools::io::{self, Stopwatch};
use firn_tools::output::{Done, Failure, bytes, count, nanos, rate};
use firn_tools::page::{DrawnRun, Film, PageFrame, page};

use crate::run::Bench;

const HEAD: [&str; 8] =
    ["step", "operations", "seconds", "ops/s", "p50", "p99", "write amplification", "on disk"];

/// Bars that a run is drawn with, at most.
const MOST_BARS: usize = 200;

/// Takes frames.
pub struct Picture {
    db: Db,
    tree: Tree,
    film: Film,
    watch: Stopwatch,
    /// Operations of the steps that are over.
    before: u64,
    /// Operations of the step so far.
    now: u64,
}

impl Picture {
    /// Of this tree.
    pub fn new(db: &Db, tree: &Tree) -> Picture {
        Picture {
            db: db.clone(),
            tree: tree.clone(),
            film: Film::default(),
            watch: Stopwatch::start(),
            before: 0,
            now: 0,
        }
    }

    /// A moment of a step, after so many of its operations.
    pub fn take(&mut self, step: &str, ops: u64, p99: Option<u64>) -> Done {
        self.now = ops;
        let (t, ops) = (self.watch.seconds(), self.before + ops);
        let (db, tree) = (&self.db, &self.tree);
        self.film.add(|| {
            let s = db.stats();
            let written = [s.flush_bytes, s.compaction_written];
            Ok(PageFrame { t, ops, p99, written, did: step.to_owned(), runs: runs(tree)? })
        })
    }

    /// The last moment of a step.
    pub fn end_step(&mut self, step: &str) -> Done {
        self.take(step, self.now, None)?;
        (self.before, self.now) = (self.before + self.now, 0);
        Ok(())
    }

    /// Writes the page.
    pub fn write(self, path: &Path, bench: &Bench) -> Done {
        let row = |m: &crate::run::MeasuredRun| {
            let o = m.outcome.as_ref();
            let latency = |of: fn(&firn_workload::LatencyFigures) -> u64| {
                o.and_then(|o| o.latency.as_ref()).map_or_else(|| "-".to_owned(), |l| nanos(of(l)))
            };
            let amplification = match m.user_bytes() {
                0 => "-".to_owned(),
                user => format!("{:.2}", m.table_bytes_written() as f64 / user as f64),
            };
            vec![
                m.step.clone(),
                o.map_or_else(|| "-".to_owned(), |o| count(o.ops)),
                format!("{:.2}", m.seconds),
                o.map_or_else(|| "-".to_owned(), |o| rate(o.ops_per_second)),
                latency(|l| l.p50_ns),
                latency(|l| l.p99_ns),
                amplification,
                bytes(m.disk_bytes),
            ]
        };
        let rows: Vec<_> = bench.steps.iter().map(row).collect();
        let steps: Vec<&str> = bench.steps.iter().map(|m| m.step.as_str()).collect();
        let page = page("firn bench", &HEAD, &rows, &[(steps.join(", "), self.film.into_frames())]);
        io::write(path, page.as_bytes()).map_err(|e| Failure::file("write", path, &e))
    }
}

/// The runs of the tree, newest first, with their tables as bars.
fn runs(tree: &Tree) -> Done<Vec<DrawnRun>> {
    let tables = tree.tables()?;
    // The heads of keys are numbers that lie close together: the bars show where between the first
    // and the last.
    let head = |key: &[u8]| firn_kv::internals::base::key::head(key);
    let first = tables.iter().map(|t| head(&t.first_key)).min().unwrap_or(0);
    let width =
        tables.iter().map(|t| head(&t.last_key)).max().unwrap_or(0).saturating_sub(first).max(1);
    let thousandth = |key: &[u8]| {
        ((u128::from(head(key).saturating_sub(first)) * 1000) / u128::from(width)) as u16
    };
    let chunks = tables.chunk_by(|a, b| a.run == b.run);
    let run = |tables: &[firn_kv::TableInfo]| {
        let bar = |chunk: &[firn_kv::TableInfo]| {
            [thousandth(&chunk[0].first_key), thousandth(&chunk[chunk.len() - 1].last_key), 0]
        };
        let bars = tables.chunks(tables.len().div_ceil(MOST_BARS).max(1)).map(bar).collect();
        (tables[0].level, tables.iter().map(|t| t.bytes).sum(), tables.len(), bars)
    };
    Ok(chunks.map(run).collect())
}
