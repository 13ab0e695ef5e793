//! The process that kills: starts a process for each cycle, ends it as planned, collects its
//! messages, and reports.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use firn_kv::Env;
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::options::StoreArgs;
use firn_tools::output::{self, Done, Failure, Progress, count, things};
use firn_workload::process::disk_bytes;
use serde_json::{Value, json};

use super::plan::{PlanEnd, TorturePlan, TortureSettings};
use super::{NEXT, STORE, TortureArgs, journal};

/// Totals of a run.
#[derive(Default)]
struct TortureTally {
    cycles: u64,
    killed_working: u64,
    killed_opening: u64,
    died: u64,
    closed: u64,
    latched: u64,
    failing: u64,
    injected: u64,
    restored: u64,
    served: u64,
    at_work: u64,
    openings: Vec<u64>,
    keys: u64,
    largest: u64,
    counts: BTreeMap<String, u64>,
}

/// A cycle and its directory.
struct Cycle<'a> {
    env: &'a dyn Env,
    dir: &'a Path,
    settings: &'a TortureSettings,
    plan: TorturePlan,
}

/// Result of a cycle.
#[derive(Default)]
struct CycleOutcome {
    started: bool,
    dies: bool,
    restore: bool,
    wrong: Option<String>,
}

/// Runs cycles until the time is over or an error is found.
pub fn run(
    store: &StoreArgs,
    args: &TortureArgs,
    settings: &TortureSettings,
    env: &dyn Env,
) -> Done {
    let dir = &store.db;
    let watch = Stopwatch::start();
    let progress = Progress::operations("torture", Some(args.seconds));
    let mut tally = TortureTally::default();
    let mut cycle = last_cycle(env, dir)?;
    let end = args.cycles.map(|n| cycle.saturating_add(n));
    while watch.seconds() < args.seconds as f64 && end.is_none_or(|end| cycle < end) {
        cycle += 1;
        let this = Cycle { env, dir, settings, plan: settings.plan(cycle) };
        save_cycle_number(env, dir, cycle)?;
        recover_restore(env, dir)?;
        if args.keep {
            copy_store(env, &dir.join(STORE), &dir.join("before"))?;
        }
        let outcome = one(args, &this, &mut tally)?;
        tally.cycles += 1;
        tally.failing += u64::from(this.plan.failing.is_some());
        tally.served += u64::from(this.plan.served.is_some());
        // A missing store takes no space.
        tally.largest = tally.largest.max(disk_bytes(&dir.join(STORE)).unwrap_or(0));
        if let Some(what) = outcome.wrong {
            drop(progress);
            return failed(store, &this, &what, &tally, watch.seconds());
        }
        if outcome.restore {
            super::remove_store(env, &dir.join(STORE))?;
            env.rename(&dir.join(NEXT), &dir.join(STORE))?;
            tally.restored += 1;
        }
        progress.at(watch.seconds() as u64);
        progress.say(format!(
            "cycle {cycle}: {} kills, {} steps",
            tally.kills(),
            count(tally.steps())
        ));
    }
    drop(progress);
    report(store, settings, &tally, watch.seconds(), None)
}

/// Returns the number of the last cycle that was begun in a directory.
fn last_cycle(env: &dyn Env, dir: &Path) -> Done<u64> {
    let path = dir.join("cycle");
    if env.file_len(&path).is_err() {
        return Ok(0);
    }
    let text = String::from_utf8_lossy(&env.read_all(&path, 100)?).trim().to_owned();
    text.parse().map_err(|_| Failure::new(format!("{} holds no number", path.display())))
}

fn save_cycle_number(env: &dyn Env, dir: &Path, cycle: u64) -> Done {
    let fresh = dir.join("cycle.new");
    env.create(&fresh)?.append(format!("{cycle}\n").as_bytes())?;
    Ok(env.rename(&fresh, &dir.join("cycle"))?)
}

/// Repairs the state left by a supervisor that ended between restoring a copy and replacing the
/// store with it.
fn recover_restore(env: &dyn Env, dir: &Path) -> Done {
    let (store, next) = (dir.join(STORE), dir.join(NEXT));
    if env.list(&next).is_ok() {
        match env.list(&store) {
            Ok(_) => super::remove_store(env, &next)?,
            Err(_) => env.rename(&next, &store)?,
        }
    }
    Ok(())
}

fn copy_store(env: &dyn Env, from: &Path, to: &Path) -> Done {
    super::remove_store(env, to)?;
    let Ok(names) = env.list(from) else { return Ok(()) };
    env.create_dir_all(to)?;
    for name in names {
        let bytes = env.read_all(&from.join(&name), 1 << 34)?;
        env.create(&to.join(&name))?.append(&bytes)?;
    }
    Ok(())
}

fn spawn(dir: &Path, cycle: u64) -> Done<(Child, Receiver<Value>)> {
    let me = std::env::current_exe()?;
    let mut command = Command::new(me);
    command.arg("--db").arg(dir).args(["torture", "--cycle", &cycle.to_string()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (send, messages) = channel();
    if let Some(out) = child.stdout.take() {
        let lines = move || {
            // The last line of a killed process may be incomplete.
            for v in BufReader::new(out)
                .lines()
                .map_while(Result::ok)
                .filter_map(|l| serde_json::from_str(&l).ok())
            {
                let _ = send.send(v);
            }
        };
        firn_kv::OsEnv::new().spawn("torture-reader", Box::new(lines))?;
    }
    Ok((child, messages))
}

/// Runs a cycle.
#[allow(clippy::disallowed_methods, reason = "it waits for another process")]
fn one(args: &TortureArgs, cycle: &Cycle<'_>, tally: &mut TortureTally) -> Done<CycleOutcome> {
    let plan = &cycle.plan;
    let (mut child, lines) = spawn(cycle.dir, plan.cycle)?;
    let mut outcome = CycleOutcome::default();
    let watch = Stopwatch::start();
    let now = || (watch.seconds() * 1000.0) as u64;
    let (mut kill_at, mut last_check) = (u64::MAX, 0);
    if let PlanEnd::Kill { millis, opening: true } = plan.end {
        kill_at = millis;
    }
    // Number of completed steps of each thread, and the time of the last one.
    let mut threads: Vec<(u64, u64)> = vec![(u64::MAX, 0); plan.threads as usize];
    let status: ExitStatus = loop {
        match lines.recv_timeout(Duration::from_millis(kill_at.saturating_sub(now()).clamp(1, 50)))
        {
            Ok(line) => {
                record(&line, &mut outcome, tally);
                if let (Some("start"), PlanEnd::Kill { millis, opening: false }) =
                    (line["event"].as_str(), plan.end)
                {
                    kill_at = now() + millis;
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break child.wait()?,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if now() >= kill_at {
            // The process may have just ended by itself.
            let _ = child.kill();
            kill_at = u64::MAX;
        }
        if now() >= last_check + 1000 {
            last_check = now();
            if let Some(words) =
                hangs(cycle, &outcome, &mut threads, last_check, args.patience * 1000)?
            {
                outcome.wrong = Some(words);
                let _ = child.kill();
            }
        }
    };
    while let Ok(line) = lines.try_recv() {
        record(&line, &mut outcome, tally);
    }
    if outcome.wrong.is_none() {
        judge(plan, status, &mut outcome, tally);
    }
    Ok(outcome)
}

fn record(line: &Value, outcome: &mut CycleOutcome, tally: &mut TortureTally) {
    let number = |name: &str| line[name].as_u64().unwrap_or(0);
    match line["event"].as_str() {
        Some("open") => {
            tally.openings.push(number("millis"));
            tally.keys = number("keys");
            for (kind, n) in line["counts"].as_object().into_iter().flatten() {
                *tally.counts.entry(kind.clone()).or_insert(0) += n.as_u64().unwrap_or(0);
            }
        }
        Some("start") => outcome.started = true,
        Some("stop") => tally.injected += number("injected"),
        Some("dies") => outcome.dies = true,
        Some("restore") => outcome.restore = true,
        Some("closed") => {
            tally.latched += u64::from(line["latched"] == json!(true));
            tally.at_work += u64::from(line["at_work"] == json!(true));
        }
        Some("wrong") => outcome.wrong = line["what"].as_str().map(str::to_owned),
        _ => {}
    }
}

/// Reports whether a thread has been at one step for too long.
fn hangs(
    cycle: &Cycle<'_>,
    outcome: &CycleOutcome,
    threads: &mut [(u64, u64)],
    now: u64,
    patience: u64,
) -> Done<Option<String>> {
    let Cycle { env, dir, settings, plan } = cycle;
    for (t, (done, since)) in (0u64..).zip(threads.iter_mut()) {
        let progress = if outcome.started {
            journal::read(*env, dir, plan.cycle, t)?
        } else {
            journal::TortureProgress::default()
        };
        if *done != progress.done {
            (*done, *since) = (progress.done, now);
        } else if now - *since > patience {
            let step = settings.space(plan).step(t, progress.done);
            let at = if outcome.started {
                format!("thread {t} at step {}, {step:?}", progress.done)
            } else {
                "opening".to_owned()
            };
            return Ok(Some(format!("nothing has happened for {} s: {at}", patience / 1000)));
        }
    }
    Ok(None)
}

/// Judges whether a process ended as planned, and how.
fn judge(
    plan: &TorturePlan,
    status: ExitStatus,
    outcome: &mut CycleOutcome,
    tally: &mut TortureTally,
) {
    if outcome.dies {
        tally.died += 1;
    } else if status.success() {
        tally.closed += 1;
    } else if status.code().is_none() && matches!(plan.end, PlanEnd::Kill { .. }) {
        if outcome.started {
            tally.killed_working += 1
        } else {
            tally.killed_opening += 1
        }
        outcome.restore = false;
    } else {
        outcome.wrong =
            Some(format!("the process ended unexpectedly: {status}; its messages are above"));
    }
}

impl TortureTally {
    fn kills(&self) -> u64 {
        self.killed_working + self.killed_opening + self.died
    }

    fn steps(&self) -> u64 {
        self.counts.values().sum()
    }
}

fn failed(
    store: &StoreArgs,
    cycle: &Cycle<'_>,
    what: &str,
    tally: &TortureTally,
    seconds: f64,
) -> Done {
    let Cycle { env, dir, settings, plan } = cycle;
    let text = format!("{what}\n\n{plan}\nsettings: {}\n", settings.to_json());
    env.create(&dir.join("failure.txt"))?.append(text.as_bytes())?;
    report(store, settings, tally, seconds, Some((what, plan)))?;
    if !store.json {
        eprintln!(
            "{} is left unchanged; the cycle's plan is in {}",
            dir.display(),
            dir.join("failure.txt").display()
        );
        eprintln!(
            "again: firn --db NEW torture --cycles {} --seed {} --threads {} --keys {} --shards {} --millis {} --faults {}",
            plan.cycle,
            settings.seed,
            settings.threads,
            settings.keys,
            settings.shards,
            settings.millis,
            settings.to_json()["faults"].as_str().unwrap_or("none"),
        );
    }
    Err(Failure::Found)
}

fn report(
    store: &StoreArgs,
    settings: &TortureSettings,
    t: &TortureTally,
    seconds: f64,
    failure: Option<(&str, &TorturePlan)>,
) -> Done {
    let mut out = stdout();
    let mut openings = t.openings.clone();
    openings.sort_unstable();
    let (median, longest) = (
        openings.get(openings.len() / 2).copied().unwrap_or(0),
        openings.last().copied().unwrap_or(0),
    );
    if store.json {
        let v = json!({
            "settings": settings.to_json(), "seconds": seconds, "cycles": t.cycles,
            "killed_working": t.killed_working, "killed_opening": t.killed_opening, "died_at_operation": t.died,
            "closed": t.closed, "restored_checkpoints": t.restored, "failing_cycles": t.failing, "failed_operations": t.injected,
            "latched": t.latched, "served_cycles": t.served, "stopped_at_work": t.at_work, "openings": openings.len(), "opening_ms_median": median, "opening_ms_longest": longest,
            "keys": t.keys, "largest_bytes": t.largest, "steps": t.steps(), "counts": t.counts,
            "wrong": failure.map(|(what, plan)| json!({ "what": what, "cycle": plan.cycle })),
        });
        writeln!(out, "{v}")?;
        return Ok(());
    }
    let style = store.style();
    writeln!(
        out,
        "{}, {}: {} killed at work, {} while opening, {} at an operation on files, {} closed ({})",
        things(t.cycles, "cycle", "cycles"),
        output::nanos((seconds * 1e9) as u64),
        count(t.killed_working),
        count(t.killed_opening),
        count(t.died),
        count(t.closed),
        format_args!("{} went on with a checkpoint", count(t.restored)),
    )?;
    if t.served > 0 {
        writeln!(
            out,
            "{} with a server, {} of which closed the store while all threads worked",
            things(t.served, "cycle", "cycles"),
            count(t.at_work),
        )?;
    }
    if t.failing > 0 {
        writeln!(
            out,
            "{} with a failing disk: {} failed, the store took no more writes in {}",
            things(t.failing, "cycle", "cycles"),
            things(t.injected, "operation", "operations"),
            count(t.latched),
        )?;
    }
    writeln!(
        out,
        "{} with all of it compared: {} ms at the median, {longest} ms at most; {} at the end, {} on disk at most",
        things(openings.len() as u64, "opening", "openings"),
        count(median),
        things(t.keys, "key", "keys"),
        output::bytes(t.largest),
    )?;
    let mut table = output::listing(&["steps", "done"], "lr");
    for (kind, n) in &t.counts {
        output::row(&mut table, [kind.clone(), count(*n)]);
    }
    write!(out, "{}", output::print_table(&table, style))?;
    match failure {
        None => writeln!(
            out,
            "{}: nothing acknowledged was lost, nothing wrong was read",
            style.good("all is well")
        )?,
        Some((what, plan)) => writeln!(
            out,
            "{}\n{what}\n{plan}",
            style.bad(format!("wrong, in cycle {}", plan.cycle))
        )?,
    }
    Ok(out.flush()?)
}
