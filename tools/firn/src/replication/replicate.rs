//! `firn replicate`: follows a primary, without serving its store.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use firn_kv::OsEnv;
use firn_replication::{Replica, ReplicaStatus, replica_state};
use firn_tools::io::stdout;
use firn_tools::output::{Done, Failure, Progress, count, things};
use serde_json::{Value, json};

use super::{ReplicaHandles, ReplicaIdentityArgs, start_replica};
use crate::shell::interrupt;
use crate::store::Global;

pub const EXAMPLES: &str = "\
Copies the store of a primary into the directory of --db, then applies its changes as they come, each batch whole. The primary is a
`firn serve --replicas`, or a program with the crate firn-replication. Meanwhile, commands that read may use the replica: `firn get`,
`firn cql`, `firn stats`. A write is refused until `firn promote`. Ctrl-C stops; the next run continues. Replication is asynchronous: the
primary does not wait for replicas.

Examples:
  firn --db shop serve --replicas 9043            the primary
  firn --db standby replicate 127.0.0.1:9043      the replica
  firn --db standby replicate 9043 --once         end when it has all that the primary had at the start
  firn --db standby replicate --status            position of the replica
  firn --db standby serve --replica-of 9043       follow, and serve it to Cassandra clients for reading";

/// Interval of checks.
const TICK: Duration = Duration::from_millis(50);
/// Interval of lines about the state, if standard error is no terminal.
const LINE_TICKS: u32 = 200;

/// Arguments of `firn replicate`.
#[derive(Args, Clone, Debug)]
pub struct ReplicateArgs {
    /// Address of the primary, or a port of this machine
    #[arg(value_name = "HOST:PORT", required_unless_present = "status")]
    primary: Option<String>,
    #[command(flatten)]
    identity: ReplicaIdentityArgs,
    /// End when the replica has everything that the primary had when it connected
    #[arg(long)]
    once: bool,
    /// Print the position of the replica, which may be running, and end
    #[arg(long, conflicts_with_all = ["primary", "once"])]
    status: bool,
}

/// Runs `firn replicate`.
pub fn replicate(global: &Global, args: &ReplicateArgs) -> Done {
    let primary = match &args.primary {
        Some(primary) if !args.status => primary,
        _ => return status(global),
    };
    interrupt::watch().map_err(|e| Failure::new(format!("cannot watch for Ctrl-C: {e}")))?;
    let handles = Arc::new(ReplicaHandles::without_server());
    let replica = start_replica(global, primary, &args.identity, global.defaults(), &handles)?;
    let ended = follow(global, args, &replica);
    let status = replica.status();
    replica.stop();
    if global.store.json {
        writeln!(stdout(), "{}", json_of(&status))?;
    } else {
        eprintln!("{}", words(&status));
    }
    ended.and_then(|()| handles.failure())
}

/// Shows the state until Ctrl-C, or until everything was received.
fn follow(global: &Global, args: &ReplicateArgs, replica: &Replica) -> Done {
    let env = OsEnv::new();
    let mut copy: Option<Progress> = None;
    let mut last = String::new();
    let mut ticks = 0;
    // The newest number that the primary had when it was first heard of.
    let mut target = None;
    while !interrupt::is_set() {
        let status = replica.status();
        match status.copy {
            Some(now) => {
                let bar = || Progress::bytes("copy the store", Some(now.bytes));
                copy.get_or_insert_with(bar).at(now.received);
            }
            None => copy = None,
        }
        if status.is_connected && status.newest > 0 && target.is_none() {
            target = Some(status.newest);
        }
        if args.once {
            if let (Some(target), Some(position)) = (target, status.position)
                && position.seq >= target
                && status.copy.is_none()
            {
                return Ok(());
            }
            if let Some(e) = status.error.as_ref().filter(|_| !status.is_connected) {
                return Err(Failure::new(e.clone()));
            }
        }
        let state = (status.is_connected, status.error.clone(), status.copy.is_some());
        let changed = format!("{state:?}");
        let is_due = ticks % LINE_TICKS == 0 && status.behind > 0;
        if !global.store.json && copy.is_none() && (changed != last || is_due) {
            // At first it connects, which takes a moment.
            if status.is_connected || status.error.is_some() {
                eprintln!("{}", words(&status));
                last = changed;
            }
        }
        ticks += 1;
        env.sleep(TICK);
    }
    Ok(())
}

fn words(s: &ReplicaStatus) -> String {
    let at = match s.position {
        None => "no copy yet".to_owned(),
        Some(p) => format!("at change {}", count(p.seq)),
    };
    let state = match (&s.error, s.is_connected) {
        (Some(e), false) => format!("not connected: {e}"),
        (_, false) => "not connected".to_owned(),
        (_, true) if s.behind == 0 => "has all changes".to_owned(),
        (_, true) => format!("{} behind", things(s.behind, "change", "changes")),
    };
    format!("{at}; {state}")
}

fn json_of(s: &ReplicaStatus) -> Value {
    json!({
        "connected": s.is_connected,
        "position": s.position.map(|p| p.to_string()),
        "behind": s.behind,
        "lag_seconds": s.lag.as_secs_f64(),
        "changes": s.changes,
        "copies": s.copies,
        "error": s.error,
    })
}

/// Prints the recorded state of a replica.
fn status(global: &Global) -> Done {
    let db = global.open_to_read()?;
    let Some(state) = replica_state(&db)? else {
        return Err(Failure::new(format!("{} is no replica", global.store.db.display())));
    };
    if global.store.json {
        return global.print_json(json!({ "position": state.position.to_string() }));
    }
    let position = state.position;
    writeln!(stdout(), "primary  {:016x}\nchange   {}", position.store, count(position.seq))?;
    Ok(())
}
