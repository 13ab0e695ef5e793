//! The process that is killed: opens the store, compares all of it with the expected state, and
//! runs the threads of a cycle.
//!
//! Invariant: the expected state on disk is replaced only after the whole store was compared with
//! it, and after the journals that continue it exist. So a kill at any moment, also during the
//! open, leaves an expected state with its journals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_cql::Session;
use firn_crash::{Fault, FaultEnv};
use firn_kv::{Batch, Db, ErrorKind};
use firn_kv::{Env, OsEnv};
use firn_tools::io::Stopwatch;
use serde_json::{Value, json};

use super::check::{KnownState, check_shared, resolve_open_step};
use super::error::{CheckError, Checked, wrong};
use super::expected::ExpectedStore;
use super::journal::{self, TortureJournal};
use super::layout::{ACCOUNTS, BANK, DEPOSIT, LayoutVersion, NAMES, account};
use super::plan::{PlanEnd, TorturePlan, TortureSettings};
use super::served::Served;
use super::tables::{self, Tables};
use super::worker::{SharedWork, TortureWorker};
use super::{NEXT, STORE};

/// Sends a message to the supervisor.
fn send(what: Value) {
    println!("{what}");
}

/// Makes every panic end the process. Otherwise panics of a server or of a worker of the store
/// would go unnoticed.
fn die_with_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// Runs a cycle. Returns an error if the store is wrong.
pub fn run(settings: &TortureSettings, dir: &Path, cycle: u64) -> Checked {
    die_with_panics();
    let plan = settings.plan(cycle);
    let plain = OsEnv::new();
    let disk = FaultEnv::new(plain.clone());
    let is_wrapped = plan.failing.is_some() || matches!(plan.end, PlanEnd::DieAt { .. });
    let env: Arc<dyn Env> = if is_wrapped { Arc::new(disk.clone()) } else { plain.clone() };
    disk.only(&plan.counted);
    if let PlanEnd::DieAt { operation } = plan.end {
        disk.call_at(operation, || {
            send(json!({ "event": "dies" }));
            std::process::abort();
        });
    }
    let watch = Stopwatch::start();
    let (db, opened, keys) = match open(settings, &plan, &*plain, env.clone(), dir) {
        Err(CheckError::Failed(e)) => return wrong(format!("opening failed: {e}")),
        other => other?,
    };
    send(
        json!({ "event": "open", "millis": (watch.seconds() * 1000.0) as u64, "keys": keys, "counts": opened.counts }),
    );
    let expected = opened.expected;
    let journals: Vec<TortureJournal> = (0..plan.threads)
        .map(|t| TortureJournal::create(&*plain, dir, cycle, t))
        .collect::<Result<_, _>>()?;
    expected.save(&*plain, dir)?;
    if opened.before > 0 {
        journal::remove(&*plain, dir, opened.before, settings.threads);
    }
    let (db, known, session) = db;
    let served = plan.served.as_ref().map(|plan| Served::start(session, plan)).transpose()?;
    let shared = Arc::new(SharedWork {
        bank: db.existing_tree(BANK)?,
        db,
        known,
        space: settings.space(&plan),
        stop: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        served,
        failing: plan.failing.is_some(),
        drops: Default::default(),
        dir: dir.to_path_buf(),
        env: plain.clone(),
    });
    send(json!({ "event": "start" }));
    if let Some(f) = &plan.failing {
        let from = disk.count() + f.from;
        if f.millis > 0 { disk.fail_from(from, f.fault) } else { disk.fail_nth(from, f.fault) }
    }
    let results = threads(&shared, &plan, journals, expected, &disk, settings.millis)?;
    send(json!({ "event": "stop", "injected": disk.injected() }));
    for result in results {
        result?;
    }
    if shared.closing.load(Ordering::SeqCst) {
        // The server has closed the store while the threads were working.
        send(json!({ "event": "closed", "at_work": true }));
        return Ok(());
    }
    disk.heal();
    close(shared, &plan, dir)
}

/// Result of opening a store.
struct OpenedStore {
    /// Expected content, which the store has.
    expected: ExpectedStore,
    /// Previous cycle, whose journals were applied.
    before: u64,
    /// Completed steps of that cycle, by their kinds.
    counts: BTreeMap<String, u64>,
}

/// Opens the store and compares all of it with the expected state.
fn open(
    settings: &TortureSettings,
    plan: &TorturePlan,
    plain: &dyn Env,
    env: Arc<dyn Env>,
    dir: &Path,
) -> Checked<((Db, KnownState, Session), OpenedStore, u64)> {
    let mut expected = ExpectedStore::load(plain, dir, settings.shards)?;
    let (before, mut counts, mut open) = (expected.cycle, BTreeMap::new(), vec![]);
    if before > 0 {
        let space = settings.space(&settings.plan(before));
        for thread in 0..space.threads {
            let progress = journal::read(plain, dir, before, thread)?;
            let refused: std::collections::BTreeSet<u64> =
                progress.refused.iter().copied().collect();
            for number in 0..progress.done {
                let step = space.step(thread, number);
                if refused.contains(&number) {
                    *counts.entry("refused for want of space".to_owned()).or_insert(0) += 1;
                    continue;
                }
                expected.apply(step.done());
                let served = space.is_served(&step, number);
                *counts.entry(step.kind(served)).or_insert(0) += 1;
            }
            if progress.begun > progress.done {
                open.push((
                    LayoutVersion::new(before, thread, progress.done),
                    space.step(thread, progress.done),
                ));
            }
        }
    }
    let wide = tables::open(env, &dir.join(STORE), plan.db.clone())?;
    let db = wide.store().db().clone();
    let trees = db.trees(NAMES.iter().zip(plan.trees.iter().cloned()))?;
    trees.iter().zip(&plan.trees).try_for_each(|(t, options)| t.set_options(options.clone()))?;
    let bank = db.tree(BANK, plan.trees[0].clone())?;
    if bank.get(&account(0))?.is_none() {
        if before > 0 {
            return wrong(format!("the accounts of {BANK} are gone"));
        }
        let mut batch = Batch::with_capacity(64);
        for n in 0..ACCOUNTS {
            batch.put(&bank, &account(n), &DEPOSIT.to_le_bytes())?;
        }
        db.write(batch)?;
    }
    let session = Session::new(wide)?;
    let tables = Tables::new(session.clone())?;
    let known = KnownState { trees, tables: Some(Arc::new(tables)) };
    for (version, step) in &open {
        if resolve_open_step(&known, &mut expected, step.open(), *version)? {
            *counts.entry("begun, killed, and there".to_owned()).or_insert(0) += 1;
        }
    }
    let keys = known.check_all("after opening", &expected)?;
    check_shared("after opening", &db, &known.trees)?;
    expected.cycle = plan.cycle;
    Ok(((db, known, session), OpenedStore { expected, before, counts }, keys))
}

/// Runs the threads until the cycle's time is over, or until they fail.
#[allow(clippy::disallowed_methods, reason = "they stand for an application's threads")]
fn threads(
    shared: &Arc<SharedWork>,
    plan: &TorturePlan,
    journals: Vec<TortureJournal>,
    expected: ExpectedStore,
    disk: &FaultEnv,
    longest: u64,
) -> Checked<Vec<Checked>> {
    let mut parts: Vec<BTreeMap<u32, _>> = (0..plan.threads).map(|_| BTreeMap::new()).collect();
    for (n, shard) in (0u32..).zip(expected.shards) {
        parts[n as usize % plan.threads as usize].insert(n, shard);
    }
    let workers: Vec<TortureWorker> = (0..)
        .zip(journals.into_iter().zip(parts))
        .map(|(t, (journal, shards))| TortureWorker::new(shared.clone(), t, journal, shards))
        .collect::<Checked<_>>()?;
    let millis = match plan.end {
        PlanEnd::Close { millis } => millis,
        // Killed earlier, or at an operation that may never happen.
        PlanEnd::Kill { .. } | PlanEnd::DieAt { .. } => longest * 2,
    };
    let stops = shared.served.as_ref().filter(|_| {
        matches!(plan.end, PlanEnd::Close { .. })
            && plan.served.as_ref().is_some_and(|s| s.stops_at_work)
    });
    let heals = plan.failing.as_ref().map_or(0, |f| f.millis);
    Ok(std::thread::scope(|scope| {
        let handles: Vec<_> = workers.into_iter().map(|w| scope.spawn(|| w.run())).collect();
        let watch = Stopwatch::start();
        let mut healthy = heals == 0;
        let mut stopped = None;
        while !handles.iter().all(|h| h.is_finished()) {
            let now = (watch.seconds() * 1000.0) as u64;
            if let Some(served) = stops.filter(|_| now >= millis && stopped.is_none()) {
                shared.closing.store(true, Ordering::SeqCst);
                stopped = Some(served.stop());
            }
            if now >= millis || handles.iter().any(|h| h.is_finished()) {
                shared.stop.store(true, Ordering::Relaxed);
            }
            if !healthy && now >= heals.min(millis) {
                disk.heal();
                healthy = true;
            }
            shared.env.sleep(Duration::from_millis(2));
        }
        let stopped = stopped.map(|done| match done {
            Err(e) => wrong(format!("the server did not close the store well: {e}")),
            Ok(()) => Ok(()),
        });
        let joined = handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|_| wrong("a thread panicked; its message is above")));
        joined.chain(stopped).collect()
    }))
}

/// Closes a store that was not killed. If the plan says so, first makes the checkpoint with which
/// the next cycle continues.
fn close(shared: Arc<SharedWork>, plan: &TorturePlan, dir: &Path) -> Checked {
    let db = shared.db.clone();
    let latched = db.sync().is_err();
    if plan.failing.is_none() {
        if latched {
            return wrong(format!(
                "the store takes no writes, though nothing has failed: {:?}",
                db.sync().err()
            ));
        }
        db.wait_idle()?;
        let found = db.verify(|_, _| {})?;
        if let Some(e) = found.errors.first() {
            return wrong(format!("verify: {e}"));
        }
    } else if !latched {
        // Operations refused for lack of space must succeed now.
        match db.wait_idle() {
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                return wrong(format!("there is space again, but: {e}"));
            }
            _ => {}
        }
    }
    if plan.restore && !latched && plan.failing.is_none() {
        let next = dir.join(NEXT);
        super::remove_store(&*shared.env, &next)?;
        db.checkpoint(&next)?;
        send(json!({ "event": "restore" }));
    }
    let closed = match &shared.served {
        Some(served) => {
            // The server still answers, also after a disk failure.
            served.client()?.execute("SELECT cluster_name FROM system.local")?;
            served.stop()
        }
        None => db.close(),
    };
    if closed.is_err() != latched {
        return wrong(format!(
            "the store takes {} writes, and closing it gave {closed:?}",
            if latched { "no" } else { "" }
        ));
    }
    drop(shared);
    send(
        json!({ "event": "closed", "latched": latched, "failing": plan.failing.as_ref().map(|f| f.fault != Fault::Enospc) }),
    );
    Ok(())
}
