//! Costs of secondary indexes, materialized views, vector search and groups: on writes, and for the
//! reads that use them.
//!
//! All tables have the same rows: row `i` is row `i % 10` of partition `i / 10`. Its `n`, the
//! column of the indexes and the view, is shared with nine rows of other partitions.

use firn_cql::{Prepared, RunOptions, Value};
use firn_tools::output::{Done, count, nanos};

use super::store::{CqlBench, any, expect, refused};
use firn_bench::duel::{DuelMeter, DuelReport, EACH, ROUNDS, scattered};
use firn_tools::io::Stopwatch;

/// Rows of a partition, and of a value of `n`.
const TOGETHER: u64 = 10;
/// Number of vectors, and their dimensions.
const VECTORS: u64 = 10_000;
const NUMBERS: u64 = 64;
/// Number of nearest-neighbour queries.
const ASKED: u64 = 20;

const COLUMNS: &str = "(p int, c int, t text, n int, m int, PRIMARY KEY (p, c))";

/// A table with an index or a view.
struct Kept {
    table: &'static str,
    name: &'static str,
    definitions: &'static [&'static str],
}

const PLAIN: &str = "plain";
const KEPT: [Kept; 4] = [
    Kept {
        table: "indexed",
        name: "an index",
        definitions: &["CREATE INDEX ON bench.indexed (n)"],
    },
    Kept {
        table: "attached",
        name: "two storage-attached indexes",
        definitions: &[
            "CREATE INDEX ON bench.attached (n) USING 'sai'",
            "CREATE INDEX ON bench.attached (m) USING 'sai'",
        ],
    },
    Kept {
        table: "texts",
        name: "an index of texts (SASI)",
        definitions: &[
            "CREATE CUSTOM INDEX ON bench.texts (t) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
        ],
    },
    Kept {
        table: "based",
        name: "a view",
        definitions: &[
            "CREATE MATERIALIZED VIEW bench.by_n AS SELECT * FROM bench.based WHERE n IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL PRIMARY KEY (n, p, c)",
        ],
    },
];

/// A query by an index or a view.
struct Question {
    what: &'static str,
    statement: &'static str,
    /// Returns the bound values of the query for a value of `n`.
    bound: fn(u64) -> Vec<Value>,
    /// Rows of the answer.
    rows: usize,
}

const QUESTIONS: [Question; 6] = [
    Question {
        what: "10 rows by an index",
        statement: "SELECT * FROM bench.indexed WHERE n = ?",
        bound: |n| vec![Value::Int(int(n))],
        rows: 10,
    },
    Question {
        what: "10 rows by a storage-attached index",
        statement: "SELECT * FROM bench.attached WHERE n = ?",
        bound: |n| vec![Value::Int(int(n))],
        rows: 10,
    },
    Question {
        what: "10 rows by a range of one",
        statement: "SELECT * FROM bench.attached WHERE n >= ? AND n <= ?",
        bound: |n| vec![Value::Int(int(n)), Value::Int(int(n))],
        rows: 10,
    },
    Question {
        what: "5 rows by two of them",
        statement: "SELECT * FROM bench.attached WHERE n = ? AND m < 5",
        bound: |n| vec![Value::Int(int(n))],
        rows: 5,
    },
    Question {
        what: "10 rows by LIKE 'a%'",
        statement: "SELECT * FROM bench.texts WHERE t LIKE ?",
        bound: |n| vec![Value::Text(text(n) + "%")],
        rows: 10,
    },
    Question {
        what: "10 rows of a view",
        statement: "SELECT * FROM bench.by_n WHERE n = ?",
        bound: |n| vec![Value::Int(int(n))],
        rows: 10,
    },
];

fn int(n: u64) -> i32 {
    n as i32
}

/// Returns the text of the rows with this `n`, and of no others.
fn text(n: u64) -> String {
    format!("{:08x}", (n as u32).wrapping_mul(0x9E37_79B9))
}

impl CqlBench {
    /// Runs all of these benchmarks.
    pub fn derived(&self, report: &mut DuelReport) -> Done {
        for table in KEPT.iter().map(|kept| kept.table).chain([PLAIN]) {
            self.define(&format!("CREATE TABLE bench.{table} {COLUMNS}"))?;
        }
        KEPT.iter().flat_map(|kept| kept.definitions).try_for_each(|text| self.define(text))?;
        self.inserts_beside_what_is_kept(report)?;
        self.compact()?;
        self.reads_by_what_is_kept(report)?;
        self.groups(report)?;
        self.nearest(report)
    }

    fn define(&self, statement: &str) -> Done {
        self.session.execute(statement, ()).map(|_| ()).map_err(refused)
    }

    /// Returns the number of distinct values of `n`.
    fn values(&self) -> u64 {
        self.rows / TOGETHER
    }

    fn inserts_beside_what_is_kept(&self, report: &mut DuelReport) -> Done {
        let into = |table: &str| {
            self.prepare(&format!(
                "INSERT INTO bench.{table} (p, c, t, n, m) VALUES (?, ?, ?, ?, ?)"
            ))
        };
        let (plain, values) = (into(PLAIN)?, self.values());
        let insert = |statement: &Prepared, i: u64| -> Done {
            let n = i % values;
            let row = (int(i / TOGETHER), int(i % TOGETHER), text(n), int(n), int(i / values));
            self.session.run(statement, row, &RunOptions::default()).map(|_| ()).map_err(refused)
        };
        let rows = values * TOGETHER;
        for kept in &KEPT {
            let with = into(kept.table)?;
            let mut meter =
                DuelMeter::new(&format!("INSERT beside {}", kept.name), rows.div_ceil(EACH), EACH);
            for from in (0..rows).step_by(EACH as usize) {
                let all = from..rows.min(from + EACH);
                meter.round(
                    || all.clone().try_for_each(|i| insert(&with, i)),
                    || all.clone().try_for_each(|i| insert(&plain, i)),
                )?;
            }
            let what = format!("INSERT of 5 columns beside {}", kept.name);
            report.add(what, "into the table alone", meter.done(), None);
        }
        Ok(self.session.engine().store().db().wait_idle()?)
    }

    /// Reads a few rows at a time: by the index or view, and as a partition of the plain table.
    fn reads_by_what_is_kept(&self, report: &mut DuelReport) -> Done {
        let (how, values) = (RunOptions::default(), self.values());
        let partition = self.prepare("SELECT * FROM bench.plain WHERE p = ?")?;
        for question in &QUESTIONS {
            let statement = self.prepare(question.statement)?;
            let mut meter = DuelMeter::new(question.what, ROUNDS, EACH);
            for round in 0..ROUNDS {
                let asked: Vec<u64> = (0..EACH).map(|i| any(round * EACH + i, values)).collect();
                meter.round(
                    || {
                        asked.iter().try_for_each(|n| {
                            let found = self.session.run(&statement, (question.bound)(*n), &how);
                            expect(question.what, found.map_err(refused)?.len(), question.rows)
                        })
                    },
                    || {
                        asked.iter().try_for_each(|p| {
                            let found = self.session.run(&partition, (int(*p),), &how);
                            expect("rows", found.map_err(refused)?.len() as u64, TOGETHER)
                        })
                    },
                )?;
            }
            report.add(question.what, "10 rows of a partition", meter.done(), None);
        }
        Ok(())
    }

    /// Measures sums of all partitions, compared with a scan of all rows.
    fn groups(&self, report: &mut DuelReport) -> Done {
        let groups = "SELECT p, count(*), sum(m) FROM bench.plain GROUP BY p";
        let (groups, rows) = (self.prepare(groups)?, self.prepare("SELECT p, m FROM bench.plain")?);
        let all = self.values() * TOGETHER;
        let mut meter = DuelMeter::new("GROUP BY", 3, all);
        for _ in 0..3 {
            meter.round(|| self.pages(&groups, self.values()), || self.pages(&rows, all))?;
        }
        report.add(
            "a row that is grouped by its partition",
            "one that is given",
            meter.done(),
            None,
        );
        Ok(())
    }

    /// Measures the nearest neighbours among some thousand vectors, found by comparing all of them.
    fn nearest(&self, report: &mut DuelReport) -> Done {
        self.define(&format!(
            "CREATE TABLE bench.vectors (id int PRIMARY KEY, v vector<float, {NUMBERS}>)"
        ))?;
        self.define("CREATE INDEX ON bench.vectors (v) USING 'sai'")?;
        let vector = |id: u64| -> Vec<f32> {
            (0..NUMBERS)
                .map(|i| 1.0 + scattered(id * NUMBERS + i) as f32 / u64::MAX as f32)
                .collect()
        };
        let insert = self.prepare("INSERT INTO bench.vectors (id, v) VALUES (?, ?)")?;
        let ask = self.prepare("SELECT id FROM bench.vectors ORDER BY v ANN OF ? LIMIT 10")?;
        let how = RunOptions::default();
        for id in 0..VECTORS {
            self.session.run(&insert, (int(id), vector(id)), &how).map_err(refused)?;
        }
        let watch = Stopwatch::start();
        for asked in 0..ASKED {
            let found = self.session.run(&ask, (vector(asked),), &how).map_err(refused)?;
            let first: Option<i32> = found.row(0).map(|r| r.at(0)).transpose().map_err(refused)?;
            expect("the nearest", (found.len(), first), (10, Some(int(asked))))?;
        }
        let (each, vectors) = (nanos(watch.nanos() / ASKED), count(VECTORS));
        report
            .notes
            .push(format!("The 10 nearest of {vectors} vectors of {NUMBERS} numbers: {each}."));
        Ok(())
    }
}
