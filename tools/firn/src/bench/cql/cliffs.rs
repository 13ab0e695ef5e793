//! CQL rows of `firn bench cliffs`: the cost of statements after many deletions, overwrites and old
//! timestamps, as a ratio to their cost without that history.
//!
//! Invariants:
//! - Both costs of a ratio are of the same statement, in its own store.
//! - Results of reads are checked.

use std::path::PathBuf;

use firn_bench::ModelCliffs;
use firn_cql::{Prepared, RunOptions, Session, Values};
use firn_tools::output::Done;
use firn_wide::Wide;
use firn_workload::cliffs::{CliffCase, time};

use super::store::{KEYSPACE, refused};

/// Runs all of these benchmarks.
pub const RUN: ModelCliffs = |history, fresh, note| {
    let mut cliffs = CqlCliffs { n: history, fresh, note };
    cliffs.ranges()?;
    cliffs.rows()?;
    cliffs.partitions()?;
    cliffs.collections()?;
    cliffs.elements()?;
    cliffs.overwrites()?;
    cliffs.derived()?;
    cliffs.counters()
};

struct CqlCliffs<'a> {
    n: u64,
    fresh: &'a mut dyn FnMut() -> Done<PathBuf>,
    note: &'a mut dyn FnMut(CliffCase),
}

/// A store with one table.
struct CliffTable(Session);

/// Cost of a statement before the history.
struct Normal {
    statement: Prepared,
    rows: usize,
    nanos: u64,
}

impl CliffTable {
    fn prepare(&self, text: &str) -> Done<Prepared> {
        self.0.prepare(text).map_err(refused)
    }

    fn run(&self, statement: &Prepared, values: impl Values) -> Done<usize> {
        let rows = self.0.run(statement, values, &RunOptions::default()).map_err(refused)?;
        Ok(rows.len())
    }

    /// Returns the nanoseconds of a statement that returns this many rows.
    fn time(&self, statement: &Prepared, rows: usize) -> Done<u64> {
        let one = |_| {
            let found = self.0.run(statement, (), &RunOptions::default())?.len();
            match found == rows {
                true => Ok(()),
                false => Err(format!("a wrong answer: {found} rows, not {rows}").into()),
            }
        };
        time(20, one).map_err(refused)
    }

    fn normal(&self, text: &str, rows: usize) -> Done<Normal> {
        let statement = self.prepare(text)?;
        let nanos = self.time(&statement, rows)?;
        Ok(Normal { statement, rows, nanos })
    }
}

impl CqlCliffs<'_> {
    fn table(&mut self, definitions: &[&str]) -> Done<CliffTable> {
        let dir = (self.fresh)()?;
        let session = Session::new(Wide::open(&dir).map_err(refused)?).map_err(refused)?;
        firn_bench::mark(&dir)?;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let keyspace = format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}");
        for definition in [&*keyspace, &*format!("USE {KEYSPACE}")].iter().chain(definitions) {
            session.execute(definition, ()).map_err(refused)?;
        }
        Ok(CliffTable(session))
    }

    fn after(
        &mut self,
        table: &CliffTable,
        name: &'static str,
        normal: &Normal,
        is_linear: bool,
    ) -> Done {
        let after = table.time(&normal.statement, normal.rows)?;
        (self.note)(CliffCase { name, normal: normal.nanos, after, is_linear });
        Ok(())
    }

    fn numbers(&self) -> Done<std::ops::Range<i32>> {
        Ok(0..i32::try_from(self.n).map_err(refused)?)
    }

    /// Measures a queue whose days are deleted by the first clustering column.
    fn ranges(&mut self) -> Done {
        let t =
            self.table(&["CREATE TABLE t (p int, a int, b int, v int, PRIMARY KEY (p, a, b))"])?;
        let last = i32::MAX;
        let insert = t.prepare("INSERT INTO t (p, a, b, v) VALUES (1, ?, 1, 1)")?;
        let delete = t.prepare("DELETE FROM t WHERE p = 1 AND a = ?")?;
        t.run(&insert, (last,))?;
        t.run(&delete, (-1,))?;
        let first = t.normal("SELECT v FROM t WHERE p = 1 LIMIT 1", 1)?;
        let back = t.normal("SELECT v FROM t WHERE p = 1 ORDER BY a DESC LIMIT 1", 1)?;
        let by_key =
            t.normal(&format!("SELECT v FROM t WHERE p = 1 AND a = {last} AND b = 1"), 1)?;
        let scan = t.normal("SELECT p FROM t LIMIT 1", 1)?;
        let old =
            t.normal("INSERT INTO t (p, a, b, v) VALUES (1, 2, 3, 4) USING TIMESTAMP 1", 0)?;
        let again = t.normal("DELETE FROM t WHERE p = 1 AND a = -1", 0)?;
        for i in self.numbers()? {
            t.run(&insert, (i,))?;
            t.run(&delete, (i,))?;
        }
        self.after(&t, "CQL: the first row behind many deleted ranges", &first, false)?;
        self.after(&t, "CQL: the last row beside many deleted ranges", &back, false)?;
        self.after(&t, "CQL: a row by its key beside many deleted ranges", &by_key, false)?;
        self.after(&t, "CQL: a scan behind many deleted ranges", &scan, false)?;
        self.after(&t, "CQL: a write with an old timestamp into one of them", &old, false)?;
        self.after(&t, "CQL: a deletion of a range beside many", &again, false)
    }

    fn rows(&mut self) -> Done {
        let t = self
            .table(&["CREATE TABLE t (p int, a int, v int, s int STATIC, PRIMARY KEY (p, a))"])?;
        let insert = t.prepare("INSERT INTO t (p, a, v, s) VALUES (1, ?, 1, 1)")?;
        let delete = t.prepare("DELETE FROM t WHERE p = 1 AND a = ?")?;
        t.run(&insert, (i32::MAX,))?;
        t.run(&delete, (-1,))?;
        let first = t.normal("SELECT v FROM t WHERE p = 1 LIMIT 1", 1)?;
        let by_key = t.normal(&format!("SELECT v FROM t WHERE p = 1 AND a = {}", i32::MAX), 1)?;
        let shared = t.normal("SELECT DISTINCT s FROM t WHERE p = 1", 1)?;
        for i in self.numbers()? {
            t.run(&insert, (i,))?;
            t.run(&delete, (i,))?;
        }
        self.after(&t, "CQL: the first row behind many deleted rows", &first, true)?;
        self.after(&t, "CQL: a row by its key beside many deleted rows", &by_key, false)?;
        self.after(&t, "CQL: a static column before many deleted rows", &shared, false)
    }

    fn partitions(&mut self) -> Done {
        let t = self.table(&["CREATE TABLE t (p int PRIMARY KEY, v int)"])?;
        let insert = t.prepare("INSERT INTO t (p, v) VALUES (?, 1)")?;
        let delete = t.prepare("DELETE FROM t WHERE p = ?")?;
        t.run(&insert, (-1,))?;
        let first = t.normal("SELECT v FROM t LIMIT 1", 1)?;
        let by_key = t.normal("SELECT v FROM t WHERE p = -1", 1)?;
        for i in self.numbers()? {
            t.run(&insert, (i,))?;
            t.run(&delete, (i,))?;
        }
        self.after(&t, "CQL: a scan over many deleted partitions", &first, true)?;
        self.after(&t, "CQL: a partition beside many deleted ones", &by_key, false)
    }

    /// Measures a collection that is replaced repeatedly, with different elements each time.
    fn collections(&mut self) -> Done {
        let t = self.table(&["CREATE TABLE t (p int PRIMARY KEY, v int, s set<int>)"])?;
        let replace = t.prepare("UPDATE t SET v = 1, s = ? WHERE p = 1")?;
        t.run(&replace, (vec![-1],))?;
        let read = t.normal("SELECT * FROM t WHERE p = 1", 1)?;
        for i in self.numbers()? {
            t.run(&replace, (vec![i],))?;
        }
        self.after(&t, "CQL: a row whose collection was replaced often", &read, false)
    }

    fn elements(&mut self) -> Done {
        let t = self.table(&["CREATE TABLE t (p int PRIMARY KEY, v int, s set<int>)"])?;
        let add = t.prepare("UPDATE t SET v = 1, s = s + ? WHERE p = 1")?;
        let remove = t.prepare("UPDATE t SET s = s - ? WHERE p = 1")?;
        t.run(&add, (vec![-1],))?;
        let read = t.normal("SELECT * FROM t WHERE p = 1", 1)?;
        for i in self.numbers()? {
            t.run(&add, (vec![i],))?;
            t.run(&remove, (vec![i],))?;
        }
        self.after(&t, "CQL: a collection of which many elements were deleted", &read, true)
    }

    fn overwrites(&mut self) -> Done {
        let t = self.table(&["CREATE TABLE t (p int PRIMARY KEY, v int)"])?;
        let put = t.prepare("UPDATE t SET v = ? WHERE p = 1")?;
        let old = t.prepare("UPDATE t USING TIMESTAMP ? SET v = 2 WHERE p = 1")?;
        t.run(&put, (1,))?;
        let read = t.normal("SELECT v FROM t WHERE p = 1", 1)?;
        let write = t.normal("UPDATE t USING TIMESTAMP 1 SET v = 2 WHERE p = 1", 0)?;
        for i in self.numbers()? {
            t.run(&put, (i,))?;
            t.run(&old, (i64::from(i),))?;
        }
        self.after(&t, "CQL: a row that was overwritten often", &read, false)?;
        self.after(&t, "CQL: a write with an old timestamp after many", &write, false)
    }

    /// Measures an indexed column, also the key of a view, that gets a new value each time.
    fn derived(&mut self) -> Done {
        let t = self.table(&[
            "CREATE TABLE t (p int PRIMARY KEY, v int, w int)",
            "CREATE INDEX ON t (w)",
            "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND p IS NOT NULL PRIMARY KEY (v, p)",
        ])?;
        let put = t.prepare("UPDATE t SET v = ?, w = ? WHERE p = 1")?;
        let last = t.prepare("UPDATE t SET v = -1, w = -1 WHERE p = 1")?;
        t.run(&last, ())?;
        let index = t.normal("SELECT * FROM t WHERE w = -1", 1)?;
        let view = t.normal("SELECT * FROM by_v WHERE v = -1", 1)?;
        let all = t.normal("SELECT * FROM by_v LIMIT 1", 1)?;
        for i in self.numbers()? {
            t.run(&put, (i, i))?;
        }
        t.run(&last, ())?;
        self.after(&t, "CQL: an index over a column that changed often", &index, false)?;
        self.after(&t, "CQL: a row of a view whose key changed often", &view, false)?;
        self.after(&t, "CQL: a scan of that view", &all, false)
    }

    fn counters(&mut self) -> Done {
        let t = self.table(&["CREATE TABLE t (p int PRIMARY KEY, c counter)"])?;
        let add = t.prepare("UPDATE t SET c = c + 1 WHERE p = 1")?;
        t.run(&add, ())?;
        let read = t.normal("SELECT c FROM t WHERE p = 1", 1)?;
        for _ in self.numbers()? {
            t.run(&add, ())?;
        }
        self.after(&t, "CQL: a counter that was changed often", &read, false)
    }
}
