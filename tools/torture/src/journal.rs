//! Progress of each thread, in a file that outlives its process.
//!
//! Steps are computed from their numbers. So the journal only has the last begun step, the last
//! done step, and the steps that the store refused. The file is written through a memory map,
//! without a system call, and its content survives a SIGKILL.
//!
//! Invariant: a step is *begun* before its first call of the store, and *done* after the store has
//! acknowledged it. So a killed thread has at most one open step, and the store has all of it or
//! none of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::Result;
use firn_kv::fs::LogFile;

const CAPACITY: u64 = 64 << 10;
const BEGUN: u64 = 0;
const DONE: u64 = 8;
const REFUSALS: u64 = 16;
const FIRST: u64 = 24;

/// Journal of a thread, for writing.
pub struct TortureJournal {
    file: Arc<dyn LogFile>,
    refused: u64,
}

/// Content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TortureProgress {
    /// Number of begun steps.
    pub begun: u64,
    /// Number of done or refused steps.
    pub done: u64,
    /// Numbers of steps that the store refused without a change.
    pub refused: Vec<u64>,
}

fn path(dir: &Path, cycle: u64, thread: u64) -> PathBuf {
    dir.join(format!("journal-{cycle}-{thread}"))
}

impl TortureJournal {
    /// Creates a journal.
    pub fn create(env: &dyn Env, dir: &Path, cycle: u64, thread: u64) -> Result<TortureJournal> {
        Ok(TortureJournal {
            file: Arc::from(env.create_log(&path(dir, cycle, thread), CAPACITY)?),
            refused: 0,
        })
    }

    fn write(&self, at: u64, n: u64) -> Result<()> {
        self.file.write_at(at, &n.to_le_bytes())
    }

    /// Records that this step begins.
    pub fn begin(&self, step: u64) -> Result<()> {
        self.write(BEGUN, step + 1)
    }

    /// Records that this step has been acknowledged.
    pub fn done(&self, step: u64) -> Result<()> {
        self.write(DONE, step + 1)
    }

    /// Records that the store refused this step. Returns `false` if the journal is full.
    pub fn refuse(&mut self, step: u64) -> Result<bool> {
        let at = FIRST + 8 * self.refused;
        if at + 8 > CAPACITY {
            return Ok(false);
        }
        self.write(at, step)?;
        self.refused += 1;
        self.write(REFUSALS, self.refused)?;
        self.done(step)?;
        Ok(true)
    }
}

/// Reads the journal of a thread; empty if there is none.
pub fn read(env: &dyn Env, dir: &Path, cycle: u64, thread: u64) -> Result<TortureProgress> {
    let path = path(dir, cycle, thread);
    if env.file_len(&path).is_err() {
        return Ok(TortureProgress::default());
    }
    let bytes = env.read_all(&path, CAPACITY)?;
    let number = |at: u64| {
        bytes
            .get(at as usize..)
            .and_then(|b| b.first_chunk::<8>())
            .map_or(0, |b| u64::from_le_bytes(*b))
    };
    let refused = (0..number(REFUSALS)).map(|i| number(FIRST + 8 * i)).collect();
    Ok(TortureProgress { begun: number(BEGUN), done: number(DONE), refused })
}

/// Removes the journals of a cycle.
pub fn remove(env: &dyn Env, dir: &Path, cycle: u64, threads: u64) {
    for thread in 0..threads {
        // A leftover journal is not read again.
        let _ = env.remove(&path(dir, cycle, thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_kv::MemEnv;

    #[test]
    fn a_journal_says_what_was_done() {
        let (env, dir) = (MemEnv::new(1), Path::new("/t"));
        env.create_dir_all(dir).unwrap();
        assert_eq!(read(&env, dir, 1, 0).unwrap(), TortureProgress::default());
        let mut j = TortureJournal::create(&env, dir, 1, 0).unwrap();
        j.begin(0).unwrap();
        j.done(0).unwrap();
        j.begin(1).unwrap();
        assert!(j.refuse(1).unwrap());
        j.begin(2).unwrap();
        assert_eq!(
            read(&env, dir, 1, 0).unwrap(),
            TortureProgress { begun: 3, done: 2, refused: vec![1] }
        );
    }
}
