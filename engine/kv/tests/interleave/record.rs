//! Records the calls of a program's threads, their outcomes and their times; and encodes keys and
//! values.

use std::sync::Arc;

use firn_crash::CrashEnv;
use firn_testkit::linear::{
    CallKind, LinearCall, LinearHandle, LinearKey, LinearRead, WriteNumber,
};
use parking_lot::Mutex;

/// A disk after a crash. The crash happened between `from` and `until`.
pub struct Image {
    pub from: u64,
    pub until: u64,
    pub power: bool,
    pub disk: CrashEnv,
}

#[derive(Default)]
pub struct Log {
    pub clock: u64,
    pub calls: Vec<LinearCall>,
    pub images: Vec<Image>,
    /// Calls that made checkpoints and exports, which are checked at the end.
    pub checkpoints: Vec<usize>,
    pub exports: Vec<(usize, LinearHandle, LinearKey, LinearKey)>,
    /// Calls that imported the export of this number.
    pub imports: Vec<(usize, usize, LinearHandle)>,
    /// Whether a thread has closed the store.
    pub closed: bool,
    handles: usize,
    pieces: WriteNumber,
}

/// Record of a run. Its lock is deliberately invisible to the scheduler: it must not order any
/// calls.
#[derive(Clone, Default)]
pub struct Record(pub Arc<Mutex<Log>>);

impl Record {
    pub fn now(&self) -> u64 {
        let mut log = self.0.lock();
        log.clock += 1;
        log.clock
    }

    pub fn begin(&self, thread: usize, words: String, what: CallKind) -> usize {
        let start = self.now();
        let mut log = self.0.lock();
        log.calls.push(LinearCall { thread, start, end: None, what, words, durable: None });
        log.calls.len() - 1
    }

    pub fn end(&self, call: usize, what: CallKind, durable: bool) {
        let end = self.now();
        let mut log = self.0.lock();
        let c = &mut log.calls[call];
        // A call without effect has nothing to make durable.
        let durable = durable
            && matches!(
                what,
                CallKind::Create(..)
                    | CallKind::Drop(_)
                    | CallKind::Write(_)
                    | CallKind::Commit(..)
            );
        (c.end, c.what, c.durable) = (Some(end), what, durable.then_some(end));
    }

    /// Records a further observation at the moment of a call.
    pub fn saw(&self, call: usize, look: LinearRead) {
        if let CallKind::Read(looks) | CallKind::Commit(looks, _) =
            &mut self.0.lock().calls[call].what
        {
            looks.push(look);
        }
    }

    pub fn handle(&self) -> LinearHandle {
        let mut log = self.0.lock();
        log.handles += 1;
        log.handles
    }

    pub fn piece(&self) -> WriteNumber {
        let mut log = self.0.lock();
        log.pieces += 1;
        log.pieces
    }
}

/// Encodes a key. Four keys share each first letter.
pub fn key(k: u32) -> Vec<u8> {
    vec![b'a' + (k / 4) as u8, b'0' + (k % 4) as u8]
}

pub fn key_of(bytes: &[u8]) -> LinearKey {
    match bytes {
        [a @ b'a'..=b'd', n @ b'0'..=b'3'] => (a - b'a') * 4 + (n - b'0'),
        other => panic!("a key that was never written: {}", other.escape_ascii()),
    }
}

const HEADER: usize = 6;

/// Returns the bytes of a piece: its number, its length, and filler.
pub fn bytes_of(piece: WriteNumber, len: u32) -> Vec<u8> {
    let len = (len as usize).max(HEADER);
    let mut bytes = vec![piece as u8; len];
    bytes[..2].copy_from_slice(&piece.to_le_bytes());
    bytes[2..HEADER].copy_from_slice(&(len as u32).to_le_bytes());
    bytes
}

/// Returns the pieces of a value.
pub fn pieces_of(mut value: &[u8]) -> Vec<WriteNumber> {
    let mut pieces = vec![];
    while let Some((head, _)) = value.split_first_chunk::<HEADER>() {
        let piece = u16::from_le_bytes([head[0], head[1]]);
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let whole =
            value.get(HEADER..len).is_some_and(|filler| filler.iter().all(|b| *b == piece as u8));
        assert!(
            whole,
            "a value that was never written: piece {piece} of {len} bytes, cut or garbled"
        );
        pieces.push(piece);
        value = &value[len..];
    }
    assert!(value.is_empty(), "a value that was never written: {}", value.escape_ascii());
    pieces
}
