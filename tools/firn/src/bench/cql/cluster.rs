//! `firn bench --model cql --connect`: the time of statements at a cluster, compared with the same
//! statements on a fresh local store.
//!
//! Invariants:
//! - Results of reads are checked on both sides.
//! - The bench drops its keyspace from the cluster at its end, also after a failure.

use firn_cluster::{ClusterUrl, Prepared, Session};
use firn_cql::{BatchKind, RunOptions, Values};
use firn_tools::output::{Done, Failure, bytes, count};
use serde_json::json;

use super::rows::{INSERT, SELECT, TEXT, id};
use super::store::{KEYSPACE, PAGE, any, expect, refused};
use crate::bench::args::ModelBenchArgs;
use crate::shell::connect::not_connected;
use firn_bench::Setting;
use firn_bench::duel::{DuelMeter, DuelReport, ROUNDS};

/// Statements of a round: each takes as long as a network round trip.
const EACH: u64 = 100;
/// Rows of a batch.
const TOGETHER: u64 = 20;
/// Batches of a round.
const BATCHES: u64 = EACH / TOGETHER;

const TABLE: &str = "CREATE TABLE bench.rows (id bigint PRIMARY KEY, a text, b text, n int)";

/// The table on one side, with its statements.
struct BenchSide {
    session: Session,
    insert: Prepared,
    select: Prepared,
    scan: Prepared,
}

fn number(n: u64) -> i32 {
    (n % 1000) as i32
}

impl BenchSide {
    /// Creates the table.
    fn new(session: Session, replication: &str) -> Done<BenchSide> {
        let keyspace = format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}");
        session.execute(&keyspace, ()).map_err(|e| match e {
            firn_cql::Error::AlreadyExists { .. } => Failure::with_next(
                format!(
                    "the cluster already has a keyspace {KEYSPACE}, which the bench does not change"
                ),
                format!("DROP KEYSPACE {KEYSPACE}, where an earlier bench has left it"),
            ),
            other => refused(other),
        })?;
        session.execute(TABLE, ()).map_err(refused)?;
        let prepare = |cql: &str| session.prepare(cql).map_err(refused);
        let insert = prepare(INSERT)?;
        let (select, scan) = (prepare(SELECT)?, prepare("SELECT id FROM bench.rows")?);
        Ok(BenchSide { session, insert, select, scan })
    }

    fn insert(&self, n: u64) -> Done {
        let row = (id(n), TEXT, TEXT, number(n));
        self.session.run(&self.insert, row, &RunOptions::default()).map_err(refused).map(drop)
    }

    fn batch(&self, from: u64) -> Done {
        let member = |n: u64| (id(n), TEXT, TEXT, number(n)).bind(self.insert.markers());
        let members = (from..from + TOGETHER).map(|n| Ok((&self.insert, member(n)?)));
        let members = members.collect::<firn_cql::Result<Vec<_>>>().map_err(refused)?;
        let done = self.session.batch(BatchKind::Unlogged, &members, &RunOptions::default());
        done.map_err(refused).map(drop)
    }

    fn select(&self, n: u64) -> Done {
        let row =
            self.session.run(&self.select, (id(n),), &RunOptions::default()).map_err(refused)?;
        let found: Option<i32> = row.row(0).map(|r| r.at(3)).transpose().map_err(refused)?;
        expect("the number of a row", found, Some(number(n)))
    }

    fn text(&self, n: u64) -> Done {
        let rows = self.session.execute(SELECT, (id(n),)).map_err(refused)?;
        expect("rows", rows.len(), 1)
    }

    fn scan(&self, rows: u64) -> Done {
        let how = RunOptions { page_size: Some(PAGE), ..RunOptions::default() };
        let mut walk = self.session.query_prepared(&self.scan, (), &how).map_err(refused)?;
        let found = walk.try_fold(0, |found, row| row.map(|_| found + 1)).map_err(refused)?;
        expect("rows of a scan", found, rows)
    }
}

/// Runs the benchmark.
pub fn run(setting: &Setting<'_>, args: &ModelBenchArgs, url: ClusterUrl) -> Done {
    let nodes = url.nodes().join(", ");
    let cluster = Session::connect_to(url).map_err(|e| not_connected(&e))?;
    setting.make_room(&setting.store.db)?;
    let wide = args.open_wide(&setting.store.db, args.engine.budget())?;
    let folder = firn_cql::Session::new(wide).map_err(refused)?.into();
    firn_bench::mark(&setting.store.db)?;
    let simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let replication = format!(
        "{{'class': 'NetworkTopologyStrategy', 'replication_factor': {}}}",
        args.replication
    );
    let here = BenchSide::new(folder, simple)?;
    let mut report = DuelReport::default();
    let there = BenchSide::new(cluster.clone(), &replication)?;
    let measured = measure(&there, &here, args.rows, &mut report);
    let dropped = cluster.execute(&format!("DROP KEYSPACE {KEYSPACE}"), ()).map_err(refused);
    measured?;
    dropped?;
    let (consistency, _) = cluster.consistencies().unwrap_or_default();
    report.notes.push(format!(
        "One statement at a time; a cluster completes more statements per second with concurrent clients. Consistency {consistency}, replication {}.",
        args.replication
    ));
    let rows = count(args.rows);
    let head = format!(
        "{rows} rows of 4 columns at {nodes}, compared with a local store; its memory {}",
        bytes(args.engine.budget())
    );
    let options = json!({
        "rows": args.rows, "budget": args.engine.budget(), "nodes": nodes,
        "consistency": consistency, "replication": args.replication,
    });
    report.print(setting, "cql", &head, options)
}

fn measure(there: &BenchSide, here: &BenchSide, rows: u64, report: &mut DuelReport) -> Done {
    let mut meter = DuelMeter::new("INSERT rows", rows.div_ceil(EACH), EACH);
    for from in (0..rows).step_by(EACH as usize) {
        let all = from..rows.min(from + EACH);
        meter.round(
            || all.clone().try_for_each(|n| there.insert(n)),
            || all.clone().try_for_each(|n| here.insert(n)),
        )?;
    }
    report.add("prepared INSERT of 4 columns", "in the store", meter.done(), None);

    let mut meter = DuelMeter::new("INSERT batches", ROUNDS, EACH);
    for round in 0..ROUNDS {
        // Uses the same rows again: the scans need this number of rows.
        let first = round * EACH % (rows - EACH + 1);
        let all = (0..BATCHES).map(|at| first + at * TOGETHER);
        meter.round(
            || all.clone().try_for_each(|from| there.batch(from)),
            || all.clone().try_for_each(|from| here.batch(from)),
        )?;
    }
    let what = format!("a row of an unlogged batch of {TOGETHER}");
    report.add(what, "in the store", meter.done(), None);

    type Read = fn(&BenchSide, u64) -> Done;
    let reads: [(&str, Read); 2] =
        [("prepared SELECT by key", BenchSide::select), ("execute() of the text", BenchSide::text)];
    for (what, read) in reads {
        let mut meter = DuelMeter::new(what, ROUNDS, EACH);
        for round in 0..ROUNDS {
            let keys: Vec<u64> = (0..EACH).map(|i| any(round * EACH + i, rows)).collect();
            meter.round(
                || keys.iter().try_for_each(|n| read(there, *n)),
                || keys.iter().try_for_each(|n| read(here, *n)),
            )?;
        }
        report.add(what, "in the store", meter.done(), None);
    }

    let mut meter = DuelMeter::new("scan", 3, rows);
    for _ in 0..3 {
        meter.round(|| there.scan(rows), || here.scan(rows))?;
    }
    report.add(format!("a row of a scan, {PAGE} to a page"), "in the store", meter.done(), None);
    Ok(())
}
