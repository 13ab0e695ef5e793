//! Leases announce runs on a repository, so that a prune never removes files that a running backup
//! needs.
//!
//! Each run writes a file in [`RUNNING`], then reads those of others: of two runs that begin at
//! once, at least one sees the other. It rewrites the file every [`RENEWAL`]; a lease that was not
//! renewed for [`LEASE`] is left from a crash. A backup that was paused for longer fails before its
//! record is written, because a prune may have run. Times are those of the writing machines: their
//! clocks must agree to within [`SKEW`]. The storage must be consistent: all readers see earlier
//! writes, as with directories and S3.

use std::sync::Arc;

use firn_kv::{Env, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::names::{RUNNING, shown_time, within};
use crate::storage::{BackupStorage, put};

/// Time without renewal after which a run is over, in microseconds.
const LEASE: u64 = 3600 * 1_000_000;
/// Interval of renewals.
const RENEWAL: u64 = 300 * 1_000_000;
/// Maximum difference between the clocks of machines.
const SKEW: u64 = 600 * 1_000_000;
/// Largest lease file to read.
const MAX_ANNOUNCED: u64 = 4096;

/// The type of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Creates a backup; any number may run at once.
    Backup,
    /// Removes unused files; exclusive.
    Prune,
}

/// Contents of a lease file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseState {
    run: RunKind,
    began_micros: u64,
    renewed_micros: u64,
}

/// Lease of a run; dropping it ends the run.
pub struct RunLease {
    env: Arc<dyn Env>,
    place: Arc<dyn BackupStorage>,
    file: String,
    said: LeaseState,
}

impl RunLease {
    /// Announces a run; returns an error if it conflicts with another one. With `alone`, the caller
    /// guarantees that no other run is active.
    pub fn announce(
        env: &Arc<dyn Env>,
        place: &Arc<dyn BackupStorage>,
        run: RunKind,
        alone: bool,
    ) -> Result<RunLease> {
        let now = env.wall_micros();
        let mut lease = RunLease {
            env: env.clone(),
            place: place.clone(),
            file: within(RUNNING, &format!("{:016x}", env.random())),
            said: LeaseState { run, began_micros: now, renewed_micros: now },
        };
        lease.say()?;
        if !alone {
            lease.check_others()?;
        }
        Ok(lease)
    }

    fn say(&mut self) -> Result<()> {
        self.said.renewed_micros = self.env.wall_micros();
        let text = serde_json::to_vec(&self.said).map_err(|e| Error::invalid(e.to_string()))?;
        put(&*self.place, &self.file, &text)
    }

    fn check_others(&self) -> Result<()> {
        for other in self.place.list(RUNNING)? {
            let name = within(RUNNING, &other.name);
            if name == self.file || other.name.len() != 16 {
                continue;
            }
            let bytes = match self.place.read(&name, 0, other.size.min(MAX_ANNOUNCED) as usize) {
                // That run is over.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                bytes => bytes?,
            };
            let said: LeaseState = serde_json::from_slice(&bytes).map_err(|_| {
                Error::corruption(
                    "the lease of another run is damaged; remove the file when no backup is being made or pruned here",
                )
                .in_file(&name)
            })?;
            let beside = (self.said.run, said.run) == (RunKind::Backup, RunKind::Backup);
            let over = self.env.wall_micros() >= said.renewed_micros.saturating_add(LEASE + SKEW);
            if !beside && !over {
                return Err(refused(&said).in_file(name));
            }
        }
        Ok(())
    }

    /// Renews the lease if due.
    pub fn keep(&mut self) -> Result<()> {
        let silent = self.silent();
        if silent >= LEASE {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the run was paused for over an hour, and files that it needs may have been removed; run it again: copied tables are \
                 not copied again",
            ));
        }
        if silent >= RENEWAL {
            // Do not recreate a lease that was removed.
            self.check_own()?;
            self.say()?;
        }
        Ok(())
    }

    fn silent(&self) -> u64 {
        self.env.wall_micros().saturating_sub(self.said.renewed_micros)
    }

    /// Checks that no prune has expired this run.
    pub fn check(&mut self) -> Result<()> {
        self.keep()?;
        self.check_own()
    }

    fn check_own(&self) -> Result<()> {
        match self.place.size(&self.file) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::Conflict,
                "the lease of this run was removed, and perhaps files that it needs; run it again when no prune runs",
            )
            .in_file(&self.file)),
            Err(e) => Err(e),
        }
    }

    /// Returns the name of its file.
    pub fn file(&self) -> &str {
        &self.file
    }
}

fn refused(said: &LeaseState) -> Error {
    let since = shown_time(said.began_micros);
    let until = shown_time(said.renewed_micros.saturating_add(LEASE + SKEW));
    let words = match said.run {
        RunKind::Backup => {
            format!("a backup is being made here since {since}; prune when it is done")
        }
        RunKind::Prune => format!("backups are being pruned here since {since}; wait for its end"),
    };
    Error::new(
        ErrorKind::Locked,
        format!(
            "{words}. If that run was killed, it counts as over at {until}, and with `firn backup prune --alone` at once"
        ),
    )
}

impl Drop for RunLease {
    fn drop(&mut self) {
        // If this fails, the lease expires and a prune removes it.
        let _ = self.place.remove(std::slice::from_ref(&self.file));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firn_kv::MemEnv;

    use super::*;
    use crate::folder::FolderStorage;

    #[test]
    fn a_run_is_renewed_and_one_that_was_removed_does_not_come_back() {
        let mem = MemEnv::new(1);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let place: Arc<dyn BackupStorage> = Arc::new(FolderStorage::new(env.clone(), "/backups"));
        let announce = |run, alone| RunLease::announce(&env, &place, run, alone);
        let mut backup = announce(RunKind::Backup, false).unwrap();
        for _ in 0..20 {
            mem.advance(Duration::from_secs(400));
            backup.keep().unwrap();
            assert_eq!(announce(RunKind::Prune, false).err().unwrap().kind(), ErrorKind::Locked);
        }
        place.remove(&[backup.file().to_owned()]).unwrap();
        mem.advance(Duration::from_secs(400));
        assert_eq!(backup.keep().unwrap_err().kind(), ErrorKind::Conflict);
        assert!(place.list(RUNNING).unwrap().is_empty());
        // The lease of a killed run expires.
        let killed = announce(RunKind::Backup, false).unwrap();
        std::mem::forget(killed);
        mem.advance(Duration::from_secs(3600));
        assert!(announce(RunKind::Prune, false).is_err());
        assert!(announce(RunKind::Prune, true).is_ok());
        mem.advance(Duration::from_secs(600));
        let prune = announce(RunKind::Prune, false).unwrap();
        assert_eq!(announce(RunKind::Backup, false).err().unwrap().kind(), ErrorKind::Locked);
        drop(prune);
        assert!(announce(RunKind::Backup, false).is_ok());
    }
}
