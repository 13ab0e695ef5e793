//! Output of the generator: files, and their expected contents.
//!
//! A line of `expected.jsonl` is an object with `path`, `kind` (`table`, `log`, `manifest`,
//! `store`) and `verdict` (`sound`, `damaged`, `newer`). A sound file has `content`. In the golden
//! files, which must stay small, it has `hash` instead: the XXH3-64 of the content's compact JSON
//! with sorted names. A log also has `from`, the position to read from. Keys and values are
//! hexadecimal.

use firn_kv::internals::util::hash::key_hash;
use serde_json::{Value, json};

/// A file, with its path relative to the output folder.
pub struct File {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Files and the expectations about them.
#[derive(Default)]
pub struct Made {
    pub files: Vec<File>,
    pub told: Vec<Value>,
}

impl Made {
    pub fn file(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        self.files.push(File { path: path.into(), bytes });
    }

    /// Adds the expectation for a sound file or folder.
    pub fn sound(&mut self, path: impl Into<String>, kind: &str, what: &str, content: Value) {
        self.told.push(json!({"path": path.into(), "kind": kind, "what": what, "verdict": "sound", "content": content}));
    }

    /// Adds the expectation for a file that every reader must reject, as `damaged` or as `newer`.
    pub fn refused(&mut self, path: impl Into<String>, kind: &str, what: &str, verdict: &str) {
        self.told
            .push(json!({"path": path.into(), "kind": kind, "what": what, "verdict": verdict}));
    }

    /// Retains only the expectations whose description is in `what`, and their files.
    pub fn only(mut self, what: &[&str]) -> Made {
        self.told.retain(|line| what.iter().any(|w| line["what"] == *w));
        let kept = |path: &str| {
            self.told.iter().any(|line| line["path"].as_str().is_some_and(|p| path.starts_with(p)))
        };
        self.files.retain(|f| kept(&f.path));
        self
    }

    /// Appends another output.
    pub fn add(&mut self, other: Made) {
        self.files.extend(other.files);
        self.told.extend(other.told);
    }

    /// Replaces contents by their hashes.
    pub fn hashed(mut self) -> Made {
        for line in &mut self.told {
            if let Some(content) = line.as_object_mut().and_then(|o| o.remove("content")) {
                line["hash"] = hash(&content).into();
                if !content["from"].is_null() {
                    line["from"] = content["from"].clone();
                }
            }
        }
        self
    }
}

/// Converts a description to a folder name.
pub fn slug(name: &str) -> String {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// Returns the hash of a content.
pub fn hash(content: &Value) -> String {
    format!("{:016x}", key_hash(content.to_string().as_bytes()))
}

/// Formats bytes as hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
