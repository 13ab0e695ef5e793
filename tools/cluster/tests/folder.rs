//! Runs the programs in a session of `firn-cql` with a directory.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

#[allow(clippy::duplicate_mod, reason = "the same programs over two types of session")]
#[path = "programs/mod.rs"]
mod programs;

use firn_cql::Session;
use programs::{PROGRAMS, play};

#[test]
fn the_programs_run_on_a_directory() {
    let dir = std::env::temp_dir().join(format!("firn-cluster-folder-{}", std::process::id()));
    let session = Session::open(&dir).unwrap();
    for (name, program) in PROGRAMS {
        println!("{name}");
        play(&session, name, program);
    }
    session.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}
