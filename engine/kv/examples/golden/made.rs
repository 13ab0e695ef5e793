//! What the generator makes: files, and what is told of them.
//!
//! A line of `expected.jsonl` is an object with `path`, `kind` (`table`, `log`, `manifest`,
//! `store`) and `verdict` (`sound`, `damaged`, `newer`). A sound one has `content`, or in the
//! golden files, which must stay small, `hash`: the XXH3-64 of the content's JSON, compact and with
//! sorted names; of a log also `from`, the position to read from. Keys and values are hexadecimal.

use firn_kv::internals::util::hash::key_hash;
use serde_json::{Value, json};

/// A file, by its path below the folder of all.
pub struct File {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Files and what is told of them.
#[derive(Default)]
pub struct Made {
    pub files: Vec<File>,
    pub told: Vec<Value>,
}

impl Made {
    pub fn file(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        self.files.push(File { path: path.into(), bytes });
    }

    /// Tells of a sound file or folder.
    pub fn sound(&mut self, path: impl Into<String>, kind: &str, what: &str, content: Value) {
        self.told.push(json!({"path": path.into(), "kind": kind, "what": what, "verdict": "sound", "content": content}));
    }

    /// Tells of one that every reader must refuse, as `damaged` or as `newer`.
    pub fn refused(&mut self, path: impl Into<String>, kind: &str, what: &str, verdict: &str) {
        self.told
            .push(json!({"path": path.into(), "kind": kind, "what": what, "verdict": verdict}));
    }

    /// Only what is told as one of `what`, with its files.
    pub fn only(mut self, what: &[&str]) -> Made {
        self.told.retain(|line| what.iter().any(|w| line["what"] == *w));
        let kept = |path: &str| {
            self.told.iter().any(|line| line["path"].as_str().is_some_and(|p| path.starts_with(p)))
        };
        self.files.retain(|f| kept(&f.path));
        self
    }

    /// Takes in another one.
    pub fn add(&mut self, other: Made) {
        self.files.extend(other.files);
        self.told.extend(other.told);
    }

    /// With hashes in place of contents.
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

/// The name of a folder.
pub fn slug(name: &str) -> String {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

/// What stands for a content.
pub fn hash(content: &Value) -> String {
    format!("{:016x}", key_hash(content.to_string().as_bytes()))
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
