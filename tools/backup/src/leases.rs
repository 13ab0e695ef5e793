//! Who works on a repository says so first, and so a prune never removes what a backup that is being
//! made relies on.
//!
//! Each run writes a file of [`RUNNING`], then looks at those of others: of two that begin at once
//! at least one sees the other. It writes the file anew every [`RENEWAL`]; one that was not renewed
//! for [`LEASE`] is what a crash left. A backup that was held up for longer than that fails before
//! it counts, because a prune may have gone by. Times are those of the machines that write: their
//! clocks must agree to within [`SKEW`]. The place must show to all what was written before, as folders
//! and S3 do.

use std::sync::Arc;

use firn_kv::{Env, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::names::{RUNNING, shown_time, within};
use crate::place::{BackupPlace, put};

/// A run that was not heard of for so long, in microseconds, is over.
const LEASE: u64 = 3600 * 1_000_000;
/// How often a run tells that it is not over.
const RENEWAL: u64 = 300 * 1_000_000;
/// How far clocks of machines may be apart.
const SKEW: u64 = 600 * 1_000_000;
/// The longest announcement that is read.
const MAX_ANNOUNCED: u64 = 4096;

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// It makes a backup: any number at once.
    Backup,
    /// It removes what no backup needs: alone.
    Prune,
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Announced {
    run: RunKind,
    began_micros: u64,
    renewed_micros: u64,
}

/// A run that has been announced; it is over when this is dropped.
pub struct RunLease {
    env: Arc<dyn Env>,
    place: Arc<dyn BackupPlace>,
    file: String,
    said: Announced,
}

impl RunLease {
    /// Announces a run, and refuses it beside one that it can't be beside. With `alone`, the caller
    /// vouches that nobody else works there.
    pub fn announce(
        env: &Arc<dyn Env>,
        place: &Arc<dyn BackupPlace>,
        run: RunKind,
        alone: bool,
    ) -> Result<RunLease> {
        let now = env.wall_micros();
        let mut lease = RunLease {
            env: env.clone(),
            place: place.clone(),
            file: within(RUNNING, &format!("{:016x}", env.random())),
            said: Announced { run, began_micros: now, renewed_micros: now },
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
                // It is over.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                bytes => bytes?,
            };
            let said: Announced = serde_json::from_slice(&bytes).map_err(|_| {
                Error::corruption(
                    "what another run announced is damaged; remove the file when no backup is being made or pruned here",
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

    /// Says again that the run goes on, where that is due.
    pub fn keep(&mut self) -> Result<()> {
        let silent = self.silent();
        if silent >= LEASE {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the run stood still for over an hour, and what it relied on may have been removed meanwhile; run it again: what was copied \
                 is not copied again",
            ));
        }
        if silent >= RENEWAL {
            // One that was removed is not to come back.
            self.check_own()?;
            self.say()?;
        }
        Ok(())
    }

    fn silent(&self) -> u64 {
        self.env.wall_micros().saturating_sub(self.said.renewed_micros)
    }

    /// Whether nobody has taken the run for one that is over.
    pub fn check(&mut self) -> Result<()> {
        self.keep()?;
        self.check_own()
    }

    fn check_own(&self) -> Result<()> {
        match self.place.size(&self.file) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::Conflict,
                "somebody removed what this run had announced, and perhaps what it relied on; run it again when no prune runs",
            )
            .in_file(&self.file)),
            Err(e) => Err(e),
        }
    }

    /// The name of its file.
    pub fn file(&self) -> &str {
        &self.file
    }
}

fn refused(said: &Announced) -> Error {
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
        // What stays is over when its time has passed, and is removed by a prune.
        let _ = self.place.remove(std::slice::from_ref(&self.file));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firn_kv::MemEnv;

    use super::*;
    use crate::folder::FolderPlace;

    #[test]
    fn a_run_is_renewed_and_one_that_was_removed_does_not_come_back() {
        let mem = MemEnv::new(1);
        let env: Arc<dyn Env> = Arc::new(mem.clone());
        let place: Arc<dyn BackupPlace> = Arc::new(FolderPlace::new(env.clone(), "/backups"));
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
        // One that is killed is over in the end.
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
