//! A temporary directory for a test, and the `firn` binary run in it.
#![allow(clippy::disallowed_methods, reason = "temporary directories, and what feeds a command")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// A directory that is removed at the end of the test.
pub struct Temp(pub PathBuf);

/// Directories in use.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl Temp {
    /// Creates a directory. `kind` names the test file, `name` the test.
    pub fn new(kind: &str, name: &str) -> Temp {
        let dir = std::env::temp_dir().join(format!("firn-{kind}-{name}-{}", std::process::id()));
        assert!(
            IN_USE.lock().unwrap().insert(dir.clone()),
            "two tests have the name {kind} {name}"
        );
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `firn --db DB ARGS` in this directory, with `input` on standard input.
    pub fn run(&self, db: &str, args: &[&str], input: &[u8]) -> Output {
        self.firn_with(&[&["--db", db], args].concat(), input)
    }

    /// Runs `firn ARGS` in this directory, with `input` on standard input.
    pub fn firn_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder =
            std::thread::Builder::new().spawn(move || stdin.write_all(&input).ok()).unwrap();
        let done = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        done
    }

    /// Runs `firn --db db ARGS` in this directory.
    pub fn firn(&self, args: &[&str]) -> Ran {
        Ran::of(self.run("db", args, b""))
    }

    /// Runs `firn --db db ARGS` and parses its output as JSON.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let text = self.firn(args).good();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
        if let Ok(mut used) = IN_USE.lock() {
            used.remove(&self.0);
        }
    }
}

/// Result of a command: exit code, standard output, standard error.
pub struct Ran(pub i32, pub String, pub String);

impl Ran {
    /// Converts the output of a command that printed text.
    pub fn of(done: Output) -> Ran {
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        Ran(done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
    }

    /// Asserts success; returns standard output.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.0, 0, "{}{}", self.1, self.2);
        self.1
    }

    /// Asserts that it exited with `code` and printed all of `parts` on standard error; returns
    /// standard output.
    #[track_caller]
    pub fn said(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.0, code, "{}{}", self.1, self.2);
        parts
            .iter()
            .for_each(|part| assert!(self.2.contains(part), "{part:?} is not in\n{}", self.2));
        self.1
    }
}
