//! Migrates a store to a server in the role of a cluster: everything that CQL can express arrives.

use super::common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Scratch, TABLES, assert_same, fill, write, write_cells};
use firn_cluster::Session as ClusterSession;
use firn_cql::Session;
use firn_kv::OsEnv;
use firn_migrate::cluster_export::ClusterExport;
use firn_migrate::definitions::{DefinitionPhase, check_columns, define, definitions};
use firn_migrate::follow::{Follower, feed};
use firn_migrate::journal::MigrateJournal;
use firn_migrate::target::MigrateTarget;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;
use firn_tools::output::{Done, Progress};

fn names() -> Vec<(String, String)> {
    TABLES.map(|(keyspace, table)| (keyspace.to_owned(), table.to_owned())).to_vec()
}

fn define_all(source: &Session, target: &ClusterSession, phase: DefinitionPhase) {
    let source = ClusterSession::from(source.clone());
    let all = definitions(&source, &names(), None).unwrap();
    all.iter().filter(|d| d.phase == phase).for_each(|d| define(target, d).unwrap());
    for (keyspace, table) in TABLES {
        check_columns(&source, target, keyspace, table).unwrap();
    }
}

/// Migrates everything, or stops after this many cells.
fn carry(
    source: &Session,
    target: ClusterSession,
    journal: &Path,
    resume: bool,
    stop_after: Option<u64>,
) -> Done<Arc<MigrateTarget>> {
    let env = OsEnv::new();
    let stop = Arc::new(AtomicBool::new(false));
    let outward = Arc::new(ClusterExport::new(env.clone(), source, &names(), None)?);
    let head = outward.head(&["here".to_owned()]);
    let target = Arc::new(MigrateTarget::new(target, env.clone(), None, stop.clone()));
    if !resume {
        outward.check_empty(target.session())?;
    }
    let journal = Arc::new(MigrateJournal::open(&env, journal, &head, resume)?);
    let watcher = stop_after.map(|cells| {
        let (target, stop) = (target.clone(), stop.clone());
        let watch = move || {
            while target.counts.cells.load(Ordering::Relaxed) < cells
                && !stop.load(Ordering::Relaxed)
            {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        };
        env.spawn("watch", Box::new(watch)).unwrap()
    });
    let progress = Progress::operations("test", None);
    let done = outward.send_all(&target, &journal, 4, Duration::ZERO, &stop, &progress);
    stop.store(true, Ordering::Relaxed);
    watcher.into_iter().for_each(|w| w.join());
    done.map(|()| {
        assert_eq!(target.refused(), []);
        assert_eq!(outward.unknown(&journal), Vec::<String>::new());
        target
    })
}

fn connect(server: &Server) -> ClusterSession {
    ClusterSession::connect(&format!("cassandra://{}", server.address())).unwrap()
}

#[test]
fn everything_is_there_with_its_times() {
    for seed in 1..=4 {
        let dir = Scratch::new(&format!("whole-{seed}"));
        let source = Session::open(dir.0.join("store")).unwrap();
        fill(&source, &mut Rng::new(seed), 1500);
        let server = Server::start(Options::ephemeral()).unwrap();
        let target = connect(&server);
        define_all(&source, &target, DefinitionPhase::Before);
        carry(&source, target.clone(), &dir.0.join("journal"), false, None).unwrap();
        define_all(&source, &target, DefinitionPhase::After);
        assert_same(&source, &server.session(), &format!("seed {seed}"));
        let view = "SELECT * FROM k.by_v";
        let rows = |rows: firn_cql::Rows| rows.len();
        assert_eq!(
            rows(source.execute(view, ()).unwrap()),
            rows(target.execute(view, ()).unwrap())
        );
        server.stop().unwrap();
    }
}

#[test]
fn one_that_is_stopped_again_and_again_ends_the_same() {
    let dir = Scratch::new("stopped");
    let source = Session::open(dir.0.join("store")).unwrap();
    let mut rng = Rng::new(77);
    fill(&source, &mut rng, 3000);
    let server = Server::start(Options::ephemeral()).unwrap();
    define_all(&source, &connect(&server), DefinitionPhase::Before);
    let journal = dir.0.join("journal");
    let mut stopped = 0;
    for run in 0.. {
        let most = (run < 20).then(|| rng.below(150));
        match carry(&source, connect(&server), &journal, run > 0, most) {
            Ok(_) => break,
            Err(_) => stopped += 1,
        }
    }
    assert!(stopped >= 10, "it was stopped {stopped} times");
    assert_same(&source, &server.session(), "in the end");
    // Finished ranges are not sent again.
    let again = carry(&source, connect(&server), &journal, true, None).unwrap();
    assert_eq!(again.counts.cells.load(Ordering::Relaxed), 0);
    server.stop().unwrap();
}

#[test]
fn concurrent_writes_follow() {
    for seed in 1..=3 {
        let dir = Scratch::new(&format!("follow-{seed}"));
        let source = Session::open(dir.0.join("store")).unwrap();
        let mut rng = Rng::new(100 + seed);
        fill(&source, &mut rng, 700);
        let server = Server::start(Options::ephemeral()).unwrap();
        let session = connect(&server);
        define_all(&source, &session, DefinitionPhase::Before);
        let (env, journal) = (OsEnv::new(), dir.0.join("journal"));
        // Statements continue during the copy, and between two rounds of following.
        let begun = feed(&source, None, 1 << 30).unwrap();
        let writer = {
            let (source, mut rng) = (source.clone(), Rng::new(200 + seed));
            let work = move || write_cells(&source, &mut rng, 2_000_000, 700);
            env.spawn("writer", Box::new(work)).unwrap()
        };
        carry(&source, session.clone(), &journal, false, None).unwrap();
        writer.join();
        let mut begun = Some(begun);
        for part in 0..2 {
            let outward =
                Arc::new(ClusterExport::new(env.clone(), &source, &names(), None).unwrap());
            let head = outward.head(&["here".to_owned()]);
            let journal = MigrateJournal::open(&env, &journal, &head, true).unwrap();
            let from = journal.follows_from();
            let changes = begun.take().map_or_else(|| feed(&source, from, 1 << 30), Ok).unwrap();
            let mut follower = Follower::new(outward, source.clone(), changes, &journal).unwrap();
            write(&source, &mut rng, 3_000_000 + part * 100_000, 500);
            if part == 1 {
                source.execute("TRUNCATE k.keys", ()).unwrap();
                write(&source, &mut rng, 3_500_000, 50);
            }
            let stop = Arc::new(AtomicBool::new(false));
            let target = MigrateTarget::new(session.clone(), env.clone(), None, stop);
            let progress = Progress::operations("test", None);
            follower.run(&target, &journal, Some(Duration::ZERO), &progress).unwrap();
            while follower.behind() > 0 {
                follower.run(&target, &journal, Some(Duration::ZERO), &progress).unwrap();
            }
            assert_eq!(target.refused(), []);
            assert_same(&source, &server.session(), &format!("seed {seed}, part {part}"));
        }
        server.stop().unwrap();
    }
}

#[test]
fn counters_go_into_empty_tables_only() {
    let dir = Scratch::new("counters");
    let source = Session::open(dir.0.join("store")).unwrap();
    fill(&source, &mut Rng::new(5), 300);
    let server = Server::start(Options::ephemeral()).unwrap();
    let target = connect(&server);
    define_all(&source, &target, DefinitionPhase::Before);
    target.execute("UPDATE k.counts SET n = n + 1 WHERE p = 1 AND c = 1", ()).unwrap();
    let refused = carry(&source, target, &dir.0.join("journal"), false, None).unwrap_err();
    assert!(format!("{refused:?}").contains(
        "k.counts has rows at the cluster already: a migration would add to its counters"
    ));
    server.stop().unwrap();
}
