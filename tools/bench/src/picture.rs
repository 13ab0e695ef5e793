//! HTML page of a bench: the levels of its tree, rate and latencies over time, and the numbers of
//! each step.

use std::path::Path;

use firn_kv::internals::base::key::head;
use firn_kv::{Db, Tree};
use firn_tools::io::{self, Stopwatch};
use firn_tools::output::{Done, Failure, bytes, count, nanos, rate};
use firn_tools::page::{DrawnRun, DrawnTable, Film, FilmPage, PageFrame};

use crate::run::Bench;

const HEAD: [(&str, &str); 8] = [
    ("step", "A step of the bench: a workload, with its threads, or what it waits for."),
    ("operations", "Operations of the step."),
    ("seconds", "How long the step took."),
    ("ops/s", "Operations a second, all threads together."),
    ("p50", "Half of the operations took no longer."),
    ("p99", "99 of 100 operations took no longer."),
    (
        "write amplification",
        "Bytes that flushes and merges wrote to tables in the step, for each byte of keys and values that it wrote.",
    ),
    ("on disk", "Bytes of the store's directory after the step."),
];

/// Recorder of frames.
pub struct Picture {
    db: Db,
    tree: Tree,
    film: Film,
    watch: Stopwatch,
    /// Operations of finished steps.
    before: u64,
    /// Operations of the current step so far.
    now: u64,
}

impl Picture {
    /// Creates a recorder for this tree.
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

    /// Records a frame of a step, after this many of its operations.
    pub fn take(&mut self, step: &str, ops: u64, p99: Option<u64>) -> Done {
        self.now = ops;
        let (t, ops) = (self.watch.seconds(), self.before + ops);
        let (db, tree) = (&self.db, &self.tree);
        self.film.add(|| {
            let s = db.stats();
            Ok(PageFrame {
                t,
                ops,
                p99,
                written: [s.flush_bytes, s.compaction_written],
                held: [s.slowdown_nanos as f64 / 1e9, s.stalled_nanos as f64 / 1e9],
                did: step.to_owned(),
                runs: runs(tree)?,
                ..PageFrame::default()
            })
        })
    }

    /// Records the last frame of a step.
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
        let (cases, frames) = (steps.join(", "), self.film.into_frames());
        let page = FilmPage {
            title: "firn bench",
            about: "Measured: the tree of the bench as its steps were taken.",
            work: "operations",
            head: &HEAD,
            rows: &rows,
            cases: &[(&cases, &frames)],
            at_once: false,
        };
        io::write(path, page.html().as_bytes()).map_err(|e| Failure::file("write", path, &e))
    }
}

/// Returns the runs of the tree, newest first.
fn runs(tree: &Tree) -> Done<Vec<DrawnRun>> {
    let drawn = |t: &firn_kv::TableInfo| DrawnTable {
        level: t.level,
        run: t.run,
        bytes: t.bytes,
        heads: (head(&t.first_key), head(&t.last_key)),
    };
    Ok(DrawnRun::of_tables(&tree.tables()?.iter().map(drawn).collect::<Vec<_>>()))
}
