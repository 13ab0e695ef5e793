//! The event log: one JSON object a line in `EVENTS.jsonl`, for flushes, compactions, stalls, opens and failures.
//!
//! Invariants: the log is for people and tools; nothing depends on it, and a failure to write it is ignored. Every line has
//! `at` (wall clock, microseconds since 1970) and `event`. At open, a log over 16 MiB becomes `EVENTS.old.jsonl`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use crate::base::sync::Mutex;

use crate::env::{Env, WriteFile};

const LIMIT: u64 = 16 << 20;

/// The event log of an open Db.
pub struct Events {
    env: Arc<dyn Env>,
    file: Mutex<Option<Box<dyn WriteFile>>>,
}

/// One event in the making.
pub struct Event(String);

impl Event {
    /// Adds a number.
    pub fn num(&mut self, name: &str, v: u64) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.0, ",\"{name}\":{v}");
        self
    }

    /// Adds a text.
    pub fn str(&mut self, name: &str, v: &str) -> &mut Self {
        let _ = write!(self.0, ",\"{name}\":\"");
        for c in v.chars() {
            match c {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                c if (c as u32) < 0x20 => {
                    let _ = write!(self.0, "\\u{:04x}", c as u32);
                }
                c => self.0.push(c),
            }
        }
        self.0.push('"');
        self
    }

    /// Adds a list of numbers.
    pub fn list(&mut self, name: &str, v: impl IntoIterator<Item = u64>) -> &mut Self {
        let v: Vec<String> = v.into_iter().map(|n| n.to_string()).collect();
        let _ = write!(self.0, ",\"{name}\":[{}]", v.join(","));
        self
    }
}

impl Events {
    /// The log in `dir`, or none at all.
    pub fn open(env: Arc<dyn Env>, dir: &Path, on: bool) -> Events {
        let path = dir.join("EVENTS.jsonl");
        if on && env.file_len(&path).is_ok_and(|n| n > LIMIT) {
            let _ = env.rename(&path, &dir.join("EVENTS.old.jsonl"));
        }
        let file = if on { env.append(&path).ok() } else { None };
        Events { env, file: Mutex::new(file) }
    }

    /// Writes one event.
    pub fn note(&self, event: &str, fill: impl FnOnce(&mut Event)) {
        let mut file = self.file.lock();
        let Some(f) = file.as_mut() else { return };
        let mut e = Event(format!("{{\"at\":{},\"event\":\"{event}\"", self.env.wall_micros()));
        fill(&mut e);
        e.0.push_str("}\n");
        let _ = f.append(e.0.as_bytes());
    }
}
