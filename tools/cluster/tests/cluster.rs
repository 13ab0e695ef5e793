//! Runs the programs in sessions selected by URL: a directory, and a cluster. The cluster is Firn's
//! own server, or the one at `$FIRN_CLUSTER`, such as `cassandra://127.0.0.1:9042`.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

#[allow(clippy::duplicate_mod, reason = "the same programs over two types of session")]
#[path = "programs/mod.rs"]
mod programs;

use firn_cluster::Session;
use firn_server::{Options, Server};
use programs::{PROGRAMS, play};

fn play_all(url: &str) {
    let session = Session::connect(url).unwrap_or_else(|e| panic!("{url}: {e}"));
    for (name, program) in PROGRAMS {
        println!("{name}");
        play(&session, name, program);
    }
    session.close().unwrap();
}

#[test]
fn the_programs_run_on_a_cluster() {
    match std::env::var("FIRN_CLUSTER") {
        Ok(url) => play_all(&url),
        Err(_) => {
            let server = Server::start(Options::ephemeral()).unwrap();
            play_all(&format!("cassandra://{}?page_size=60", server.address()));
            server.stop().unwrap();
        }
    }
}

#[test]
fn the_programs_run_on_a_directory_url() {
    let dir = std::env::temp_dir().join(format!("firn-cluster-url-{}", std::process::id()));
    play_all(&format!("firn:{}", dir.display()));
    std::fs::remove_dir_all(dir).unwrap();
}
