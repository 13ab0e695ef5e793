//! A job queue: delays, leases, retries with backoff, names that prevent duplicates, and dead
//! letters.
//!
//! Several workers take jobs. A worker that dies loses its lease. A job that fails too often is
//! stored as a dead letter with the reason.
//!
//! ```text
//! cargo run --release -p firn-kv --example jobs [DIR]
//! ```
//!
//! Each step of a job's life is one transaction over several trees. So after a crash each job is in
//! exactly one state:
//!
//! | tree | key | value |
//! |---|---|---|
//! | `jobs` | id | the job |
//! | `ready` | due time, id | nothing |
//! | `leased` | end of the lease, id | nothing |
//! | `names` | name | id: the name is taken until its job is done or dead |
//! | `dead` | id | the job and the reason |
//!
//! Workers take jobs from the start of `ready` and delete them there. This pattern is slow in an
//! LSM store that is not optimized for it.
#![allow(clippy::disallowed_methods)] // an application may read the clock

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firn_kv::{Db, Result, Transaction, Tree, TreeOptions};

/// Number of failed attempts after which a job is dead.
const MOST_ATTEMPTS: u32 = 4;
/// Delay before the second attempt, in milliseconds. It doubles with each further attempt.
const BACKOFF: u64 = 20;

/// Milliseconds since 1970.
type Time = u64;
type Id = u64;

/// A unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    attempts: u32,
    /// End of the current lease; 0 without a lease.
    lease_until: Time,
    name: String,
    payload: Vec<u8>,
}

impl Job {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![];
        out.extend(self.attempts.to_le_bytes());
        out.extend(self.lease_until.to_le_bytes());
        out.extend((self.name.len() as u32).to_le_bytes());
        out.extend(self.name.as_bytes());
        out.extend(&self.payload);
        out
    }

    /// Decodes a job; `None` if the bytes are invalid.
    fn decode(mut bytes: &[u8]) -> Option<Job> {
        let mut take = |n: usize| {
            let (head, rest) = bytes.split_at_checked(n)?;
            bytes = rest;
            Some(head)
        };
        let attempts = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let lease_until = Time::from_le_bytes(take(8)?.try_into().ok()?);
        let len = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let name = String::from_utf8(take(len as usize)?.to_vec()).ok()?;
        Some(Job { attempts, lease_until, name, payload: bytes.to_vec() })
    }
}

/// Returns a key that sorts by time, then by id.
fn timed(at: Time, id: Id) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&at.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}

fn parse_timed(key: &[u8]) -> (Time, Id) {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or_default();
    (number(&key[..8]), number(&key[8..]))
}

/// A job that a worker has leased.
#[derive(Debug)]
struct Lease {
    id: Id,
    job: Job,
}

/// Outcome of a failed attempt.
#[derive(Debug, PartialEq, Eq)]
enum Failed {
    /// The job will be tried again at this time.
    Again(Time),
    /// The job has used up its attempts.
    Dead,
    /// The lease had ended, so the attempt does not count.
    TooLate,
}

struct Queue {
    db: Db,
    jobs: Tree,
    ready: Tree,
    leased: Tree,
    names: Tree,
    dead: Tree,
    counters: Tree,
}

impl Queue {
    fn open(db: &Db) -> Result<Queue> {
        let tree = |name| db.tree(name, TreeOptions::default());
        Ok(Queue {
            db: db.clone(),
            jobs: tree("jobs")?,
            ready: tree("ready")?,
            leased: tree("leased")?,
            names: tree("names")?,
            dead: tree("dead")?,
            counters: tree("counters")?,
        })
    }

    /// Adds a job, due at `due`. Returns `None` if a job with this name exists.
    fn submit(&self, name: &str, payload: &[u8], due: Time) -> Result<Option<Id>> {
        // Draw the id outside the transaction: a lost id does no harm, and submitters do not
        // conflict.
        let next = self.counters.update("id", |old| {
            let old = old.and_then(|v| v.try_into().ok()).map_or(0, Id::from_be_bytes);
            Some((old + 1).to_be_bytes())
        })?;
        let id = next.new.as_deref().and_then(|v| v.try_into().ok()).map_or(0, Id::from_be_bytes);
        self.db.transact(|tx| {
            if tx.contains(&self.names, name)? {
                return Ok(None);
            }
            let job = Job {
                attempts: 0,
                lease_until: 0,
                name: name.to_owned(),
                payload: payload.to_vec(),
            };
            tx.put(&self.names, name, id.to_be_bytes())?;
            tx.put(&self.jobs, id.to_be_bytes(), job.encode())?;
            tx.put(&self.ready, timed(due, id), "")?;
            Ok(Some(id))
        })
    }

    /// Leases the job that is due first, for `lease` milliseconds. Returns `None` if none is due.
    fn take(&self, now: Time, lease: u64) -> Result<Option<Lease>> {
        self.inline_blob(now)?;
        self.db.transact(|tx| {
            let Some((key, _)) = tx.first(&self.ready)? else { return Ok(None) };
            let (due, id) = parse_timed(&key);
            if due > now {
                return Ok(None);
            }
            tx.delete(&self.ready, &key)?;
            let Some(mut job) = self.job(tx, id)? else { return Ok(None) };
            job.attempts += 1;
            job.lease_until = now + lease;
            tx.put(&self.jobs, id.to_be_bytes(), job.encode())?;
            tx.put(&self.leased, timed(job.lease_until, id), "")?;
            Ok(Some(Lease { id, job }))
        })
    }

    /// Ends the attempts of jobs whose lease has ended, because their workers are dead or slow.
    fn inline_blob(&self, now: Time) -> Result<()> {
        while let Some((key, _)) = self.leased.first()? {
            let (until, id) = parse_timed(&key);
            if until > now {
                break;
            }
            self.db.transact(|tx| {
                match self.job(tx, id)?.filter(|job| job.lease_until == until) {
                    Some(job) => self.end_attempt(tx, id, job, "its lease ended", now).map(drop),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn job(&self, tx: &Transaction, id: Id) -> Result<Option<Job>> {
        Ok(tx.get(&self.jobs, id.to_be_bytes())?.and_then(|v| Job::decode(&v)))
    }

    /// Returns the job of a lease, if the lease is still valid.
    fn held(&self, tx: &Transaction, lease: &Lease) -> Result<Option<Job>> {
        Ok(self.job(tx, lease.id)?.filter(|job| job.lease_until == lease.job.lease_until))
    }

    /// Marks the job as done. Returns false if the lease had ended: another worker has done the
    /// job, or will.
    fn finish(&self, lease: &Lease) -> Result<bool> {
        self.db.transact(|tx| {
            let Some(job) = self.held(tx, lease)? else { return Ok(false) };
            tx.delete(&self.leased, timed(job.lease_until, lease.id))?;
            tx.delete(&self.jobs, lease.id.to_be_bytes())?;
            tx.delete(&self.names, &job.name)?;
            Ok(true)
        })
    }

    /// Records that the attempt has failed.
    fn fail(&self, lease: &Lease, why: &str, now: Time) -> Result<Failed> {
        self.db.transact(|tx| match self.held(tx, lease)? {
            Some(job) => self.end_attempt(tx, lease.id, job, why, now),
            None => Ok(Failed::TooLate),
        })
    }

    fn end_attempt(
        &self,
        tx: &mut Transaction,
        id: Id,
        mut job: Job,
        why: &str,
        now: Time,
    ) -> Result<Failed> {
        tx.delete(&self.leased, timed(job.lease_until, id))?;
        if job.attempts >= MOST_ATTEMPTS {
            tx.delete(&self.jobs, id.to_be_bytes())?;
            tx.delete(&self.names, &job.name)?;
            tx.put(
                &self.dead,
                id.to_be_bytes(),
                format!("{}: {why} (attempt {})", job.name, job.attempts),
            )?;
            return Ok(Failed::Dead);
        }
        let due = now + (BACKOFF << (job.attempts - 1));
        job.lease_until = 0;
        tx.put(&self.jobs, id.to_be_bytes(), job.encode())?;
        tx.put(&self.ready, timed(due, id), "")?;
        Ok(Failed::Again(due))
    }
}

fn now() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as Time)
}

/// Works until every job is done or dead. Returns the number of jobs that this worker has finished.
fn work(queue: &Queue, worker: u64) -> Result<u64> {
    let mut done = 0;
    while !queue.jobs.is_empty()? {
        let Some(lease) = queue.take(now(), 50)? else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        // Job 7 always fails. At its first attempt, every tenth job is abandoned without a report,
        // as by a worker that dies.
        let first = lease.job.attempts == 1;
        match lease.id {
            7 => {
                queue.fail(&lease, "the address does not exist", now())?;
            }
            id if id % 10 == 0 && first => {}
            id if id % 5 == worker && first => {
                queue.fail(&lease, "a timeout", now())?;
            }
            _ => done += u64::from(queue.finish(&lease)?),
        }
    }
    Ok(done)
}

fn run(db: &Db, jobs: u64) -> Result<()> {
    let queue = Queue::open(db)?;
    let mut refused = 0;
    for i in 0..jobs {
        let name = format!("mail {i}");
        queue.submit(&name, b"dear reader", now())?;
        // Submit it again, as an impatient client would.
        refused += u64::from(queue.submit(&name, b"dear reader", now())?.is_none());
    }
    // The store may hold jobs and dead letters of an earlier run.
    let (waiting, dead_before) = (queue.jobs.len()?, queue.dead.len()?);
    println!("{waiting} jobs queued, {refused} duplicates rejected");
    let done: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|w| {
                scope.spawn({
                    let queue = &queue;
                    move || work(queue, w)
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("a worker panicked")).collect::<Result<_>>()
    })?;
    println!("jobs done by each worker: {done:?}");
    let dead: BTreeMap<_, _> = queue
        .dead
        .iter()
        .map(|item| item.map(|(id, why)| (parse_id(&id), why)))
        .collect::<Result<_>>()?;
    for (id, why) in &dead {
        println!("job {id} is dead: {}", String::from_utf8_lossy(why));
    }
    let ended = done.iter().sum::<u64>() + (dead.len() as u64 - dead_before);
    assert_eq!(ended, waiting, "a job was lost or done twice");
    for tree in [&queue.ready, &queue.leased, &queue.names] {
        assert!(tree.is_empty()?, "tree {} is not empty", tree.name());
    }
    Ok(())
}

fn parse_id(key: &[u8]) -> Id {
    key.try_into().map(Id::from_be_bytes).unwrap_or_default()
}

fn main() -> Result<()> {
    let db = match std::env::args_os().nth(1) {
        Some(dir) => Db::open(dir)?,
        None => Db::in_memory()?,
    };
    run(&db, 500)?;
    db.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_or_dead() {
        run(&Db::in_memory().unwrap(), 60).unwrap();
    }

    #[test]
    fn a_second_run_has_the_dead_letters_of_the_first_and_a_job_that_it_left() {
        let db = Db::in_memory().unwrap();
        run(&db, 20).unwrap();
        let queue = Queue::open(&db).unwrap();
        assert_eq!(queue.dead.len().unwrap(), 1);
        queue.submit("left", b"", now()).unwrap();
        run(&db, 20).unwrap();
        assert_eq!(queue.dead.len().unwrap(), 1);
    }

    #[test]
    fn a_lease_that_ended_finishes_nothing() {
        let queue = Queue::open(&Db::in_memory().unwrap()).unwrap();
        queue.submit("a", b"", 5).unwrap();
        assert!(queue.take(4, 10).unwrap().is_none(), "not due yet");
        let slow = queue.take(5, 10).unwrap().unwrap();
        assert!(queue.take(14, 10).unwrap().is_none(), "another worker has the lease");
        let quick = queue.take(15 + BACKOFF, 10);
        assert!(quick.unwrap().is_none(), "still waits for its second attempt");
        let quick = queue.take(15 + 2 * BACKOFF, 10).unwrap().unwrap();
        assert!(!queue.finish(&slow).unwrap());
        assert_eq!(queue.fail(&slow, "", 100).unwrap(), Failed::TooLate);
        assert!(queue.submit("a", b"", 0).unwrap().is_none());
        assert!(queue.finish(&quick).unwrap());
        assert!(queue.submit("a", b"", 0).unwrap().is_some());
    }

    #[test]
    fn jobs_survive_being_written_and_read() {
        let job =
            Job {
                attempts: 3, lease_until: 1 << 40, name: "größe".into(), payload: vec![0, 255]
            };
        assert_eq!(Job::decode(&job.encode()), Some(job));
        assert_eq!(Job::decode(&[1, 2, 3]), None);
    }
}
