//! Sends a copy of the store and its changes to one replica.
//!
//! Invariants:
//! - The definitions of all trees are sent before the first change of a new one, and at least once
//!   on each connection.
//! - The subscription is acknowledged only up to what is durable in the replica.

use std::io::{BufWriter, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_backup::Staging;
use firn_kv::internals::replication::{
    definitions_version, encode_definitions, encoded_ops, tree_definitions,
};
use firn_kv::{Change, ChangePosition, Db, Env, ErrorKind, Result, Subscription};

use crate::message::{DATA_LEN, Message, encode_change, network, send};
use crate::state::STATE_TREE;

/// Interval of `alive`.
const ALIVE_NANOS: u64 = 1_000_000_000;
/// Time to wait for a change.
const WAIT: Duration = Duration::from_millis(50);
/// Size from which collected changes are sent.
const GROUP_BYTES: usize = 1 << 20;

/// State of a connection that both of its threads use.
#[derive(Debug, Default)]
pub struct SenderState {
    /// Sequence number that is durable in the replica.
    pub applied: AtomicU64,
    /// Whether a copy is being sent.
    pub is_copying: AtomicBool,
    /// Whether the connection has ended.
    pub is_over: AtomicBool,
}

/// Sender of one connection.
pub struct Sender<'a> {
    pub env: &'a Arc<dyn Env>,
    pub db: &'a Db,
    pub changes: Subscription,
    pub state: &'a SenderState,
    pub to: BufWriter<&'a TcpStream>,
    pub is_stopped: &'a AtomicBool,
}

impl Sender<'_> {
    /// Sends until the connection ends or the primary stops. `position` is that of the replica.
    ///
    /// # Errors
    /// Errors of the connection and of the store.
    pub fn run(&mut self, position: Option<ChangePosition>) -> Result<()> {
        let mut reason = match position {
            None => Some("the replica is new".to_owned()),
            Some(position) => match self.changes.resume(position) {
                Ok(()) => None,
                Err(e) if e.kind() == ErrorKind::Lagged => {
                    Some("the primary no longer has the log that the replica needs".to_owned())
                }
                Err(e) => return Err(e),
            },
        };
        if let Some(position) = position.filter(|_| reason.is_none()) {
            self.state.applied.store(position.seq, Ordering::Relaxed);
        }
        loop {
            let copied = match &reason {
                Some(reason) => self.copy(reason)?,
                None => 0,
            };
            match self.follow(copied) {
                Ok(None) => return Ok(()),
                Ok(Some(why)) => reason = Some(why),
                Err(e) if e.kind() == ErrorKind::Lagged => {
                    reason = Some("the replica was too slow for the log that is held".to_owned());
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed) || self.state.is_over.load(Ordering::Relaxed)
    }

    /// Sends a checkpoint, and returns the sequence number of its last write.
    fn copy(&mut self, reason: &str) -> Result<u64> {
        self.state.is_copying.store(true, Ordering::Relaxed);
        // The log is held from here on, and the checkpoint has everything before.
        drop(self.changes.snapshot()?);
        let staging = Staging::begin(self.env, self.db.dir())?;
        let seq = self.db.checkpoint(&staging.dir)?;
        let mut files = vec![];
        for name in self.env.list(&staging.dir)? {
            files.push((self.env.file_len(&staging.dir.join(&name))?, name));
        }
        // `CURRENT` makes the copy a store, so it comes last.
        files.sort_by_key(|(_, name)| name == "CURRENT");
        let bytes = files.iter().map(|(len, _)| len).sum();
        let reason = reason.to_owned();
        self.send(&Message::Copy { files: files.len() as u64, bytes, reason })?;
        for (len, name) in files {
            self.file(&staging.dir.join(&name), len, name)?;
        }
        self.send(&Message::Copied { seq })?;
        self.to.flush().map_err(network)?;
        Ok(seq)
    }

    fn file(&mut self, path: &Path, len: u64, name: String) -> Result<()> {
        self.send(&Message::File { len, name })?;
        let file = self.env.open_read(path, false)?;
        let mut at = 0;
        while at < len {
            let mut bytes =
                vec![0; usize::try_from(len - at).map_or(DATA_LEN, |n| n.min(DATA_LEN))];
            file.read_at(at, &mut bytes).map_err(|e| e.in_file(path))?;
            at += bytes.len() as u64;
            self.send(&Message::Data { bytes })?;
        }
        Ok(())
    }

    fn send(&mut self, message: &Message) -> Result<()> {
        send(&mut self.to, message)
    }

    /// Sends the changes above `copied`. Returns why a copy must be sent first, or `None` at the end.
    fn follow(&mut self, copied: u64) -> Result<Option<String>> {
        let (mut version, mut alive) = (None, None);
        let mut group: Vec<u8> = vec![];
        while !self.is_over() {
            let first = self.changes.next(WAIT)?;
            let mut loaded = false;
            let mut taken = first;
            while let Some(change) = taken {
                loaded |= change.is_loaded() && *change.seqs().end() > copied;
                append(&mut group, &change, copied);
                if loaded || group.len() >= GROUP_BYTES {
                    break;
                }
                taken = self.changes.next(Duration::ZERO)?;
            }
            if loaded {
                return Ok(Some("data was loaded past the log".to_owned()));
            }
            let now = definitions_version(self.db);
            if version.replace(now) != Some(now) {
                let mut all = tree_definitions(self.db);
                all.retain(|d| d.name != STATE_TREE);
                self.send(&Message::Trees { definitions: encode_definitions(&all) })?;
            }
            let nanos = self.env.monotonic_nanos();
            if alive.is_none_or(|at| nanos >= at + ALIVE_NANOS) {
                alive = Some(nanos);
                Message::Alive { newest: self.db.snapshot().seq() }.encode(&mut group);
            }
            self.to.write_all(&group).map_err(network)?;
            self.to.flush().map_err(network)?;
            group.clear();
            group.shrink_to(GROUP_BYTES);
            self.acknowledge(copied)?;
        }
        Ok(None)
    }

    /// Acknowledges what is durable in the replica.
    fn acknowledge(&mut self, copied: u64) -> Result<()> {
        let applied = self.state.applied.load(Ordering::Acquire);
        if applied < copied {
            return Ok(());
        }
        self.state.is_copying.store(false, Ordering::Relaxed);
        // The replica may have more than was reported here: a copy has later changes.
        self.changes.acknowledge(applied.min(self.changes.position().seq))
    }
}

/// Appends a change, unless the copy has it.
fn append(group: &mut Vec<u8>, change: &Change, copied: u64) {
    let (first, last) = change.seqs().into_inner();
    if last > copied {
        encode_change(group, first, last, encoded_ops(change));
    }
}

/// Receives what is durable in the replica, until the connection ends.
pub fn receive_applied(from: &mut impl Read, state: &SenderState) -> Result<()> {
    loop {
        match crate::message::receive(from, crate::message::SHORT_FRAME)? {
            Message::Applied { seq } => drop(state.applied.fetch_max(seq, Ordering::AcqRel)),
            other => return Err(crate::message::unexpected(&other)),
        }
    }
}
