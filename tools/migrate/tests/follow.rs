//! Writes during a migration are followed, counters above all, with interruptions anywhere and
//! resumption.
#![allow(clippy::disallowed_methods, reason = "a test cuts off files of its own")]

use super::common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Scratch, fill};
use firn_cluster::Session as ClusterSession;
use firn_cql::Session;
use firn_crash::{Fault, FaultEnv};
use firn_kv::{Env, OsEnv};
use firn_migrate::cluster_export::ClusterExport;
use firn_migrate::definitions::{DefinitionPhase, define, definitions};
use firn_migrate::follow::{Follower, feed};
use firn_migrate::journal::MigrateJournal;
use firn_migrate::target::MigrateTarget;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;
use firn_tools::output::{Done, Progress};

/// A store, a server that receives its counters, and the journal between them.
struct FollowWay {
    dir: Scratch,
    source: Session,
    server: Server,
}

/// The result of a run.
#[derive(Debug, Default, PartialEq)]
struct FollowOutput {
    unknown: Vec<String>,
    missing: Vec<String>,
    refused: usize,
}

/// The value of each counter, by formatted row and column name.
type FollowCounts = BTreeMap<(String, &'static str), i64>;

const ROW: [&str; 2] = ["n", "o"];

/// Returns the counters of rows and of partitions, keyed as by `row_words`.
fn counts(session: &Session) -> FollowCounts {
    type CountedTuple = (i32, Option<i32>, Option<i64>, Option<i64>, Option<i64>);
    let mut all = FollowCounts::new();
    let rows: Vec<CountedTuple> =
        session.execute("SELECT p, c, n, o, sn FROM k.counts", ()).unwrap().typed().unwrap();
    for (p, c, n, o, sn) in rows {
        let row = |c| format!("k.counts WHERE p = {p} AND c = {c}");
        for (name, value) in ROW.into_iter().zip([n, o]) {
            c.zip(value).map(|(c, value)| all.insert((row(c), name), value));
        }
        sn.map(|value| all.insert((format!("k.counts WHERE p = {p}"), "sn"), value));
    }
    all
}

impl FollowWay {
    fn new(name: &str, seed: u64) -> FollowWay {
        let dir = Scratch::new(&format!("{name}-{seed}"));
        let source = Session::open(dir.0.join("store")).unwrap();
        fill(&source, &mut Rng::new(seed), 200);
        let server = Server::start(Options::ephemeral()).unwrap();
        let way = FollowWay { dir, source, server };
        way.define();
        way
    }

    fn define(&self) {
        let source = ClusterSession::from(self.source.clone());
        let all = definitions(&source, &[("k".to_owned(), "counts".to_owned())], None).unwrap();
        let before = all.iter().filter(|d| d.phase == DefinitionPhase::Before);
        before.for_each(|d| define(&self.connect(), d).unwrap());
    }

    fn connect(&self) -> ClusterSession {
        ClusterSession::connect(&format!("cassandra://{}", self.server.address())).unwrap()
    }

    fn journal(&self) -> PathBuf {
        self.dir.0.join("journal")
    }

    fn write(&self, cql: &str) {
        self.source.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }

    /// Adds to random counters and deletes some.
    fn count(&self, rng: &mut Rng, times: u64) {
        for _ in 0..times {
            let (p, c, v) = (rng.below(8), rng.below(6), rng.below(1000));
            self.write(&match rng.below(90) {
                0 => format!("DELETE FROM k.counts WHERE p = {p} AND c = {c}"),
                1 => format!("DELETE o FROM k.counts WHERE p = {p} AND c = {c}"),
                2..30 => format!("UPDATE k.counts SET sn = sn + {v} WHERE p = {p}"),
                _ => {
                    format!("UPDATE k.counts SET n = n - {v}, o = o + 2 WHERE p = {p} AND c = {c}")
                }
            });
        }
    }

    /// Copies, and follows until no change is left; this environment writes the journal.
    fn run(&self, by: &Arc<dyn Env>, resume: bool) -> Done<FollowOutput> {
        self.run_with(by, resume, &|| ())
    }

    /// As [`run`](FollowWay::run); `between` runs after the copy.
    fn run_with(&self, by: &Arc<dyn Env>, resume: bool, between: &dyn Fn()) -> Done<FollowOutput> {
        let stop: &Arc<AtomicBool> = &Arc::default();
        let env: Arc<dyn Env> = OsEnv::new();
        let names = [("k".to_owned(), "counts".to_owned())];
        let outward = Arc::new(ClusterExport::new(env.clone(), &self.source, &names, None)?);
        let head = outward.head(&["here".to_owned()]);
        let target = MigrateTarget::new(self.connect(), env.clone(), None, stop.clone());
        let target = Arc::new(target);
        let journal = Arc::new(MigrateJournal::open(by, &self.journal(), &head, resume)?);
        let progress = Progress::operations("test", None);
        let began = feed(&self.source, None, 1 << 30)?;
        outward.send_all(&target, &journal, 2, Duration::ZERO, stop, &progress)?;
        between();
        let from = journal.follows_from().filter(|from| *from < began.seq());
        let changes = from.map_or(Ok(began), |from| feed(&self.source, Some(from), 1 << 30))?;
        let session = self.source.clone();
        let mut follower = Follower::new(outward.clone(), session, changes, &journal)?;
        while follower.behind() > 0 {
            follower.run(&target, &journal, Some(Duration::ZERO), &progress)?;
        }
        let (unknown, missing) = (outward.unknown(&journal), outward.missing(&journal));
        let refused = target.counts.refused.load(Ordering::Relaxed) as usize;
        Ok(FollowOutput { unknown, missing, refused })
    }

    /// Asserts that each counter has its value of the store, except reported missing and unknown
    /// additions.
    #[track_caller]
    fn assert_there(&self, output: &FollowOutput, what: &str) {
        let (here, there) = (counts(&self.source), counts(&self.server.session()));
        let sums = |words: &[String], key: &(String, &str)| -> Vec<i64> {
            let of_row = words.iter().filter_map(|w| w.strip_prefix(&format!("{}: ", key.0)));
            let sums = of_row.flat_map(|sums| sums.split(", "));
            let mine = sums.filter_map(|s| s.strip_prefix(&format!("{} ", key.1)));
            mine.map(|s| s.parse().unwrap()).collect()
        };
        let keys: BTreeSet<_> = here.keys().chain(there.keys()).collect();
        for key in keys {
            let value = |side: &FollowCounts| side.get(key).copied().unwrap_or_default();
            let missing: i64 = sums(&output.missing, key).iter().sum();
            let mut possible: BTreeSet<i64> = [missing].into();
            for sum in sums(&output.unknown, key) {
                possible = possible.iter().flat_map(|s| [*s, s + sum]).collect();
            }
            let away = value(&here) - value(&there);
            assert!(possible.contains(&away), "{what}: {key:?} is {away} away, output: {output:?}");
        }
    }

    /// Simulates a kill before the last lines of the journal were written, from the last line of
    /// this kind on.
    fn forget_from(&self, kind: &str) {
        let text = std::fs::read_to_string(self.journal()).unwrap();
        let at = text.rfind(&format!("{{\"{kind}\":")).unwrap_or_else(|| panic!("{kind}: {text}"));
        std::fs::write(self.journal(), &text[..at]).unwrap();
    }
}

fn whole() -> Arc<dyn Env> {
    OsEnv::new()
}

#[test]
fn counters_after_a_truncation_survive_an_interruption() {
    // Killed before the round was recorded, before the responses of its rows, and before they were
    // sent.
    for (last, is_known) in [("followed", true), ("counted", true), ("added", false)] {
        let way = FollowWay::new(&format!("truncated-{last}"), 1);
        let output = way.run(&whole(), false).unwrap();
        assert_eq!(output, FollowOutput::default());
        way.count(&mut Rng::new(2), 20);
        way.write("TRUNCATE k.counts");
        way.count(&mut Rng::new(3), 50);
        way.run(&whole(), true).unwrap();
        way.assert_there(&FollowOutput::default(), last);
        way.forget_from(last);
        let output = way.run(&whole(), true).unwrap();
        assert_eq!(output.unknown.is_empty(), is_known, "{output:?}");
        way.assert_there(&output, last);
        way.count(&mut Rng::new(4), 50);
        let output = way.run(&whole(), true).unwrap();
        way.assert_there(&output, last);
        way.server.stop().unwrap();
    }
}

#[test]
fn a_truncation_that_the_journal_does_not_know_of_is_carried_out_again() {
    let way = FollowWay::new("truncated-unknown", 1);
    way.run(&whole(), false).unwrap();
    way.write("TRUNCATE k.counts");
    way.count(&mut Rng::new(3), 50);
    way.connect().execute("TRUNCATE k.counts", ()).unwrap();
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(output, FollowOutput::default());
    way.assert_there(&output, "in the end");
    way.server.stop().unwrap();
}

#[test]
fn rows_go_by_the_states_that_they_were_read_at() {
    for truncate in [false, true] {
        let way = FollowWay::new(&format!("states-{truncate}"), 5);
        // The first run sends some rows, and cannot record the last ones.
        let faulty = FaultEnv::new(whole());
        let by: Arc<dyn Env> = Arc::new(faulty.clone());
        faulty.fail_from(160, Fault::Eio);
        way.run(&by, false).unwrap_err();
        assert!(!counts(&way.server.session()).is_empty());
        way.count(&mut Rng::new(6), 100);
        if truncate {
            way.write("TRUNCATE k.counts");
            way.count(&mut Rng::new(7), 100);
        }
        let output = way.run(&whole(), true).unwrap();
        way.assert_there(&output, "in the end");
        way.server.stop().unwrap();
    }
}

#[test]
fn an_interrupted_run_reports_unknown_counters() {
    let mut interrupted = 0;
    for seed in 1..=3 {
        let way = FollowWay::new("anywhere", seed);
        let mut rng = Rng::new(100 + seed);
        let mut resume = false;
        for run in 0..14 {
            way.count(&mut rng, 40);
            if rng.one_in(4) {
                way.write("TRUNCATE k.counts");
            }
            way.count(&mut rng, 40);
            let faulty = FaultEnv::new(whole());
            let fault = [Fault::Eio, Fault::ShortWrite, Fault::SyncFails][rng.below(3) as usize];
            // Opening needs some writes, a copy many, following few.
            let first = if resume { 25 } else { 320 };
            faulty.fail_from(8 + rng.below(first), fault);
            let by: Arc<dyn Env> = Arc::new(faulty);
            match way.run(&by, resume) {
                Ok(output) => way.assert_there(&output, &format!("seed {seed}, run {run}")),
                Err(_) => interrupted += 1,
            }
            resume |= way.journal().exists();
        }
        let output = way.run(&whole(), resume).unwrap();
        way.assert_there(&output, &format!("seed {seed}, in the end"));
        way.server.stop().unwrap();
    }
    assert!(interrupted > 10, "it was interrupted {interrupted} times");
}

#[test]
fn refused_counters_are_reported_permanently() {
    let way = FollowWay::new("refused", 8);
    way.run(&whole(), false).unwrap();
    way.write("UPDATE k.counts SET n = n + 5 WHERE p = 1 AND c = 1");
    let before = counts(&way.server.session());
    // A user without write permission is refused; so is a dropped table.
    way.connect().execute("DROP TABLE k.counts", ()).unwrap();
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(output.missing, ["k.counts WHERE p = 1 AND c = 1: n +5"]);
    assert_eq!(output.refused, 1);
    way.define();
    for ((row, name), value) in before {
        let cql =
            row.replace("k.counts", &format!("UPDATE k.counts SET {name} = {name} + {value}"));
        way.connect().execute(&cql, ()).unwrap();
    }
    way.write("UPDATE k.counts SET n = n + 7 WHERE p = 1 AND c = 1");
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(output.missing, ["k.counts WHERE p = 1 AND c = 1: n +5"]);
    assert_eq!(output.refused, 0);
    way.assert_there(&output, "in the end");
    way.server.stop().unwrap();
}

#[test]
fn counters_that_the_copy_did_not_bring_are_not_there_twice() {
    for truncate in [false, true] {
        let way = FollowWay::new(&format!("behind-{truncate}"), 9);
        way.connect().execute("DROP TABLE k.counts", ()).unwrap();
        // The next run sends a refused table completely, including later additions.
        let between = || {
            way.define();
            way.count(&mut Rng::new(10), 100);
            if truncate {
                way.write("TRUNCATE k.counts");
                way.count(&mut Rng::new(11), 100);
            }
        };
        let output = way.run_with(&whole(), false, &between).unwrap();
        assert!(output.refused > 10 && output.missing.is_empty(), "{output:?}");
        way.count(&mut Rng::new(12), 100);
        let output = way.run(&whole(), true).unwrap();
        assert_eq!(output, FollowOutput::default());
        way.assert_there(&output, "in the end");
        way.server.stop().unwrap();
    }
}

#[test]
fn deletions_of_counters_are_not_carried_out_above_what_was_counted_since() {
    let way = FollowWay::new("deleted", 13);
    way.write("UPDATE k.counts SET n = n + 1 WHERE p = 1 AND c = 1");
    way.write("UPDATE k.counts SET n = n + 1 WHERE p = 2 AND c = 1");
    way.run(&whole(), false).unwrap();
    way.count(&mut Rng::new(14), 100);
    way.write("DELETE FROM k.counts WHERE p = 1 AND c = 1");
    way.write("DELETE FROM k.counts WHERE p = 2");
    way.write("DELETE n FROM k.counts WHERE p = 3 AND c = 1");
    way.write("DELETE FROM k.counts WHERE p = 9");
    way.write("UPDATE k.counts SET n = n + 9 WHERE p = 9 AND c = 9");
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(output, FollowOutput::default());
    let nine =
        |session: &Session| counts(session)[&("k.counts WHERE p = 9 AND c = 9".to_owned(), "n")];
    assert_eq!(nine(&way.server.session()), 9);
    way.assert_there(&output, "in the end");
    way.forget_from("counted");
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(output, FollowOutput::default());
    assert_eq!(nine(&way.server.session()), 9);
    way.assert_there(&output, "again");
    way.write("UPDATE k.counts SET n = n + 9 WHERE p = 9 AND c = 9");
    let output = way.run(&whole(), true).unwrap();
    assert_eq!(nine(&way.server.session()), 18);
    way.assert_there(&output, "further");
    way.server.stop().unwrap();
}
