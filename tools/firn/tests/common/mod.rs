//! A directory of a test's own, and the `firn` binary run in it.
#![allow(dead_code)] // not every test uses all of it

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory that goes away with the test.
pub struct Temp(pub PathBuf);

impl Temp {
    /// `kind` is the test file's, `name` the test's.
    pub fn new(kind: &str, name: &str) -> Temp {
        let dir = std::env::temp_dir().join(format!("firn-{kind}-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `firn --db DB ARGS` in this directory, and types `input`.
    pub fn run(&self, db: &str, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["--db", db])
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::Builder::new().spawn(move || stdin.write_all(&input).ok()).unwrap();
        let done = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        done
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
