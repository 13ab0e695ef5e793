//! Rows of one table, compared with cells of a family: inserts, reads by key, statements as text,
//! scans, and collections.

use std::collections::BTreeSet;

use firn_cql::internals::syntax::parse;
use firn_cql::{Prepared, RunOptions};
use firn_tools::io::Stopwatch;
use firn_tools::output::{Done, bytes, nanos};
use firn_wide::{Column, ColumnOrSuperColumn, ColumnParent, Mutation, RowMutation, SlicePredicate};
use firn_workload::process::Usage;

use super::store::{CqlBench, PAGE, any, expect, refused};
use firn_bench::duel::{DuelMeter, DuelReport, EACH, NOISE, ROUNDS};

/// Elements of the large set and the large list.
const ELEMENTS: u64 = 10_000;

pub const INSERT: &str = "INSERT INTO bench.rows (id, a, b, n) VALUES (?, ?, ?, ?)";
pub const SELECT: &str = "SELECT * FROM bench.rows WHERE id = ?";
pub const TEXT: &str = "Firn is last year's snow, on its way to ice";

/// Returns the key of the `n`th row. Rows with consecutive `n` are not adjacent in key order.
pub fn id(n: u64) -> i64 {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64
}

impl CqlBench {
    fn insert(&self, statement: &Prepared, n: u64) -> Done {
        self.session
            .run(statement, (id(n), TEXT, TEXT, (n % 1000) as i32), &RunOptions::default())
            .map(|_| ())
            .map_err(refused)
    }

    /// Writes the same cells as the INSERT, as columns of a family.
    fn insert_beside(&self, n: u64) -> Done {
        let timestamp = self.keyspace.wide().store().timestamp();
        let number = ((n % 1000) as i32).to_be_bytes();
        // A family has no column without a name, so the row marker gets a name of one letter.
        let cells: [(&[u8], &[u8]); 4] =
            [(b"-", b""), (b"a", TEXT.as_bytes()), (b"b", TEXT.as_bytes()), (b"n", &number)];
        let cells = cells.map(|(name, value)| {
            Mutation::Write(ColumnOrSuperColumn::Column(Column::new(name, value, timestamp)))
        });
        let row = RowMutation {
            key: id(n).to_be_bytes().to_vec(),
            column_family: "Rows".into(),
            mutations: cells.into(),
        };
        self.keyspace.batch_mutate(&[row]).map_err(refused)
    }

    pub fn inserts(&self, report: &mut DuelReport) -> Done {
        let statement = self.prepare(INSERT)?;
        let mut meter = DuelMeter::new("INSERT rows", self.rows.div_ceil(EACH), EACH);
        for from in (0..self.rows).step_by(EACH as usize) {
            let all = from..self.rows.min(from + EACH);
            meter.round(
                || all.clone().try_for_each(|n| self.insert(&statement, n)),
                || all.clone().try_for_each(|n| self.insert_beside(n)),
            )?;
        }
        report.add(
            "prepared INSERT of 4 columns",
            "batch_mutate() of its cells",
            meter.done(),
            Some(2.0),
        );
        Ok(self.session.engine().store().db().wait_idle()?)
    }

    pub fn selects(&self, state: &str, seed: u64, report: &mut DuelReport) -> Done {
        let statement = self.prepare(SELECT)?;
        let (parent, all, how) =
            (ColumnParent::new("Rows"), SlicePredicate::all(), RunOptions::default());
        let mut meter = DuelMeter::new("SELECT rows", ROUNDS, EACH);
        for round in 0..ROUNDS {
            let rows: Vec<u64> =
                (0..EACH).map(|i| any(seed + round * EACH + i, self.rows)).collect();
            let ours = || {
                rows.iter().try_for_each(|n| {
                    let rows = self.session.run(&statement, (id(*n),), &how).map_err(refused)?;
                    let number: Option<i32> =
                        rows.row(0).map(|r| r.at(3)).transpose().map_err(refused)?;
                    expect("the number of a row", number, Some((n % 1000) as i32))
                })
            };
            let beside = || {
                rows.iter().try_for_each(|n| {
                    let columns = self
                        .keyspace
                        .get_slice(&id(*n).to_be_bytes(), &parent, &all)
                        .map_err(refused)?;
                    expect("columns of a row", columns.len(), 4)
                })
            };
            meter.round(ours, beside)?;
        }
        report.add(
            format!("prepared SELECT by key, {state}"),
            "get_slice() of its cells",
            meter.done(),
            Some(2.0),
        );
        Ok(())
    }

    /// Measures statements as text, which the cache finds by their bytes.
    pub fn texts(&self, report: &mut DuelReport) -> Done {
        let (statement, how) = (self.prepare(SELECT)?, RunOptions::default());
        let mut meter = DuelMeter::new("SELECT rows by text", ROUNDS, EACH);
        for round in 0..ROUNDS {
            let rows: Vec<u64> =
                (0..EACH).map(|i| any((1 << 40) + round * EACH + i, self.rows)).collect();
            let one = |found: Result<firn_cql::Rows, firn_cql::Error>| {
                expect("rows", found.map_err(refused)?.len(), 1)
            };
            meter.round(
                || rows.iter().try_for_each(|n| one(self.session.execute(SELECT, (id(*n),)))),
                || rows.iter().try_for_each(|n| one(self.session.run(&statement, (id(*n),), &how))),
            )?;
        }
        report.add("execute() of the text", "prepared", meter.done(), None);
        let watch = Stopwatch::start();
        let rounds = 100_000u64;
        for _ in 0..rounds {
            parse(INSERT).map_err(refused)?;
        }
        let each = watch.nanos() / rounds;
        report
            .notes
            .push(format!("Parsing `{INSERT}` takes {}; at most 2 us is the aim.", nanos(each)));
        Ok(())
    }

    /// Measures adding an element to a large collection, compared with small ones.
    pub fn elements(&self, report: &mut DuelReport) -> Done {
        let how = RunOptions::default();
        let run = |s: &Prepared, v: i32, id: i32, is_set: bool| -> Done {
            let done = match is_set {
                true => self.session.run(s, (BTreeSet::from([v]), id), &how),
                false => self.session.run(s, (vec![v], id), &how),
            };
            done.map(|_| ()).map_err(refused)
        };
        for (table, is_set) in [("sets", true), ("lists", false)] {
            let add = self.prepare(&format!("UPDATE bench.{table} SET v = v + ? WHERE id = ?"))?;
            (0..ELEMENTS).try_for_each(|v| run(&add, v as i32, 0, is_set))?;
            let mut meter = DuelMeter::new("add elements", ROUNDS, EACH);
            for round in 0..ROUNDS {
                let new = (0..EACH).map(|i| (ELEMENTS + round * EACH + i) as i32);
                meter.round(
                    || new.clone().try_for_each(|v| run(&add, v, 0, is_set)),
                    || new.clone().try_for_each(|v| run(&add, v, v, is_set)),
                )?;
            }
            let what = if is_set { "add to a set of 10,000" } else { "append to a list of 10,000" };
            report.add(what, "to an empty one", meter.done(), Some(NOISE));
        }
        Ok(())
    }

    /// Scans all rows in pages, with a condition and without.
    pub fn scans(&self, report: &mut DuelReport) -> Done {
        let filtered = self.prepare("SELECT id FROM bench.rows WHERE n = 7 ALLOW FILTERING")?;
        let all = self.prepare("SELECT id FROM bench.rows")?;
        let mut meter = DuelMeter::new("scan", 3, self.rows);
        let matching = (self.rows + 992) / 1000;
        self.pages(&all, self.rows)?;
        let before = Usage::now().map_or(0, |u| u.rss_anon);
        for _ in 0..3 {
            meter.round(|| self.pages(&filtered, matching), || self.pages(&all, self.rows))?;
        }
        let after = Usage::now().map_or(0, |u| u.rss_anon);
        report.add("a row of a scan with a filter", "of one without", meter.done(), None);
        let grown = bytes(after.saturating_sub(before));
        report.notes.push(format!(
            "Six scans in pages of {PAGE} rows: the process had {} before, {grown} more after.",
            bytes(before)
        ));
        Ok(())
    }
}
