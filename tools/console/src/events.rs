//! Follows the event log of a store, and describes its events.
//!
//! Invariant: a follower holds at most [`PIECE`] bytes of an incomplete line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, Error, ErrorKind};
use firn_tools::output::{bytes, count};
use serde_json::{Value, json};

/// Bytes of the log to read at a time, and the longest line.
const PIECE: usize = 1 << 20;
/// Bytes at the end of the log that the follower begins with.
const FIRST: u64 = 128 << 10;

/// Position in an event log that a store appends to.
pub struct EventFollower {
    env: Arc<dyn Env>,
    path: PathBuf,
    /// Bytes that were read, and an incomplete line at their end.
    read: u64,
    rest: Vec<u8>,
}

impl EventFollower {
    /// Starts shortly before the end of the log in this directory.
    pub fn new(env: Arc<dyn Env>, dir: &Path) -> EventFollower {
        let path = dir.join("EVENTS.jsonl");
        let read = env.file_len(&path).unwrap_or(0).saturating_sub(FIRST);
        EventFollower { env, path, read, rest: vec![] }
    }

    /// Returns the events since the last call, oldest first. A store may have no log.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next(&mut self) -> Result<Vec<Value>, Error> {
        let file = match self.env.open_read(&self.path, false) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(e) => return Err(e),
        };
        if file.len() < self.read {
            // A new file has replaced the old one.
            self.read = 0;
            self.rest.clear();
        }
        let mut events = vec![];
        while self.read < file.len() {
            let piece = (file.len() - self.read).min(PIECE as u64) as usize;
            let begin = self.rest.len();
            self.rest.resize(begin + piece, 0);
            file.read_at(self.read, &mut self.rest[begin..])?;
            self.read += piece as u64;
            let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            let lines = self.rest.drain(..whole).collect::<Vec<u8>>();
            // An invalid line is the rest of one, or was torn by a crash.
            events.extend(
                lines
                    .split(|b| *b == b'\n')
                    .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
                    .filter(Value::is_object),
            );
            if self.rest.len() > PIECE {
                self.rest.clear();
            }
        }
        Ok(events)
    }
}

/// Returns an event for the console: time in microseconds since 1970, kind, tree, and words.
pub fn shown(event: &Value) -> Value {
    let n = |field: &str| event[field].as_u64().unwrap_or(0);
    let s = |field: &str| event[field].as_str().unwrap_or_default();
    let took = || format!("{:.1} ms", n("micros") as f64 / 1e3);
    let kind = s("event");
    let words = match kind {
        "open" => format!("opened; {} records replayed", count(n("records_replayed"))),
        "tree" if !event["policy"].is_null() => format!("opened with the policy {}", s("policy")),
        "tree" => "created".to_owned(),
        "flush" => {
            format!("{} entries, {} in {}", count(n("entries")), bytes(n("bytes_out")), took())
        }
        "compaction" if n("bytes_in") > 0 => {
            let (read, written) = (bytes(n("bytes_in")), bytes(n("bytes_out")));
            format!("{}: {read} read, {written} written in {}", s("job"), took())
        }
        "compaction" => s("job").to_owned(),
        "stall" => format!("{} for {}", s("reason"), took()),
        "drop" => {
            let removed = event["removed"].as_array().map_or(0, Vec::len);
            format!("{} tables, whose keys were all deleted", count(removed as u64))
        }
        "checkpoint" => s("dir").to_owned(),
        "log ended early" => s("reason").to_owned(),
        _ => s("error").to_owned(),
    };
    let words: String = words.chars().take(300).collect();
    json!({"at": n("at"), "event": kind, "tree": s("tree"), "words": words})
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_kv::MemEnv;

    #[test]
    fn a_log_is_followed_over_torn_lines_and_a_replacement() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::new(1));
        let dir = Path::new("/db");
        env.create_dir_all(dir).unwrap();
        let mut follower = EventFollower::new(env.clone(), dir);
        assert!(follower.next().unwrap().is_empty());
        let path = dir.join("EVENTS.jsonl");
        let append = |text: &str| env.append(&path).unwrap().append(text.as_bytes()).unwrap();
        append("{\"event\":\"flush\",\"entries\":2}\n{\"event\":");
        assert_eq!(follower.next().unwrap().len(), 1);
        append("\"drop\"}\nnot json\n7\n");
        assert_eq!(follower.next().unwrap(), [json!({"event": "drop"})]);
        env.remove(&path).unwrap();
        append("{\"event\":\"open\"}\n");
        assert_eq!(follower.next().unwrap(), [json!({"event": "open"})]);
    }

    #[test]
    fn events_have_words() {
        let event = json!({"at": 5, "event": "flush", "tree": "t", "entries": 2000, "bytes_out": 100, "micros": 1500});
        assert_eq!(
            shown(&event),
            json!({"at": 5, "event": "flush", "tree": "t", "words": "2,000 entries, 100 B in 1.5 ms"})
        );
    }
}
