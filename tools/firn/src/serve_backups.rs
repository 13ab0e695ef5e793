//! Backups that a server makes of its own store: on request and periodically.
//!
//! One backup runs at a time, on its own thread. The log reports the result. A failed backup is
//! retried when the next one is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use firn_backup::{BackupRepository, KeepRule, Pacing};
use firn_kv::fs::Thread;
use firn_kv::{Db, Env, Error, OsEnv};
use firn_tools::output::Done;
use serde_json::{Value, json};

use crate::admin::backup::{made_words, pruned_words, repository};
use crate::store::Global;

const MINUTE_MICROS: u64 = 60_000_000;

/// Arguments of `firn serve` for backups.
#[derive(Args, Clone, Debug)]
pub struct ServeBackupArgs {
    /// Back up to this place, a folder or s3://bucket/prefix: at SIGUSR1, and as --backup-every
    /// says
    #[arg(long, value_name = "PLACE", conflicts_with = "ephemeral")]
    backup: Option<String>,
    /// Make a backup when the last is this many minutes old [default: only at SIGUSR1]
    #[arg(long, value_name = "MINUTES", requires = "backup", value_parser = clap::value_parser!(u64).range(1..))]
    backup_every: Option<u64>,
    /// Keep only this many of the newest backups, and remove the others
    #[arg(long, value_name = "N", requires = "backup", value_parser = clap::value_parser!(u64).range(1..))]
    backup_keep: Option<u64>,
}

impl ServeBackupArgs {
    /// Returns the resulting settings as JSON.
    pub fn json(&self) -> Value {
        json!({"place": self.backup, "every_minutes": self.backup_every, "keep": self.backup_keep})
    }

    /// Returns the resulting settings as text.
    pub fn words(&self) -> String {
        let Some(place) = &self.backup else { return "none".to_owned() };
        let every = self.backup_every.map_or(String::new(), |n| format!(", and every {n} min"));
        let keep =
            self.backup_keep.map_or("all are retained".to_owned(), |n| format!("{n} are retained"));
        format!("to {place}, at SIGUSR1{every}; {keep}")
    }
}

/// Backups of a server.
pub struct ServedBackups {
    env: Arc<dyn Env>,
    work: Arc<BackupWork>,
    every_micros: Option<u64>,
    /// Time at which the next one is due, in microseconds since 1970.
    due: Option<u64>,
    thread: Option<Box<dyn Thread>>,
}

/// State of the backup thread.
struct BackupWork {
    backups: BackupRepository,
    /// Returns the store; `None` for a replica before its first copy.
    store: Box<dyn Fn() -> Option<Db> + Send + Sync>,
    keep: Option<u64>,
    running: AtomicBool,
    stop: AtomicBool,
}

impl ServedBackups {
    /// Creates the backups that `args` request for this store; `None` if there are none.
    pub fn begin(
        global: &Global,
        args: &ServeBackupArgs,
        store: impl Fn() -> Option<Db> + Send + Sync + 'static,
    ) -> Done<Option<ServedBackups>> {
        let Some(place) = &args.backup else { return Ok(None) };
        let backups = repository(global, place)?;
        let env = OsEnv::new();
        let every_micros = args.backup_every.map(|n| n.saturating_mul(MINUTE_MICROS));
        let due =
            every_micros.map(|every| match store().map_or(Ok(None), |db| last(&backups, &db)) {
                Ok(made) => made.map_or(0, |made| made.saturating_add(every)),
                Err(e) => {
                    tracing::error!("the backups at {place} can't be listed: {e}");
                    0
                }
            });
        let work = BackupWork {
            backups,
            store: Box::new(store),
            keep: args.backup_keep,
            running: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        };
        Ok(Some(ServedBackups { env, work: Arc::new(work), every_micros, due, thread: None }))
    }

    /// Begins a backup if one is due or `asked` for, and none runs.
    pub fn tick(&mut self, asked: bool) {
        let now = self.env.wall_micros();
        let due = self.due.is_some_and(|due| now >= due);
        if !asked && !due {
            return;
        }
        self.due = self.every_micros.map(|every| now.saturating_add(every));
        if self.work.running.swap(true, Ordering::Relaxed) {
            tracing::warn!("no backup was begun: the last one still runs");
            return;
        }
        self.wait();
        let work = self.work.clone();
        let run = move || {
            work.run();
            work.running.store(false, Ordering::Relaxed);
        };
        match self.env.spawn("firn-backup", Box::new(run)) {
            Ok(thread) => self.thread = Some(thread),
            Err(e) => {
                self.work.running.store(false, Ordering::Relaxed);
                tracing::error!("no backup was begun: {e}");
            }
        }
    }

    fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }

    /// Stops the running backup, and waits for its end.
    pub fn stop(mut self) {
        self.work.stop.store(true, Ordering::Relaxed);
        self.wait();
    }
}

impl BackupWork {
    fn run(&self) {
        let mut pacing = Pacing::default().with_stop_flag(&self.stop);
        let Some(db) = (self.store)() else {
            tracing::warn!("no backup was made: the replica has no copy yet");
            return;
        };
        match self.backups.create(&db, &mut pacing) {
            Ok(made) => tracing::info!("backup {}: {}", made.id, made_words(&made)),
            Err(e) => {
                tracing::error!("no backup was made: {e}");
                return;
            }
        }
        let Some(keep) = self.keep else { return };
        match self
            .backups
            .prune(KeepRule { newest: Some(keep), days: None, ..KeepRule::default() }, false)
        {
            Ok(report) => tracing::info!("removed {}", pruned_words(&report)),
            Err(e) => tracing::warn!("no backup was removed: {e}"),
        }
    }
}

/// Returns the time at which the last backup of this store was made.
fn last(backups: &BackupRepository, db: &Db) -> Result<Option<u64>, Error> {
    let store = format!("{:016x}", db.identity());
    let heads = backups.list()?.into_iter().filter_map(|b| b.record.ok()).map(|r| r.head);
    Ok(heads.filter(|h| h.store == store).map(|h| h.made_micros).max())
}
