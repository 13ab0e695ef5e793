//! A collection of notes with a full-text index.
//!
//! ```text
//! notes DIR put KEY TEXT    write a note
//! notes DIR delete KEY      delete it
//! notes DIR search QUERY    print the best ten matches
//! notes DIR churn SEED      write random notes until the process is killed
//! ```
#![allow(clippy::disallowed_methods)] // an application may start threads

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_full_text::TextIndex;
use firn_kv::{Batch, Db, Tree, TreeOptions};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: notes DIR put KEY TEXT | delete KEY | search QUERY | churn SEED";
/// Log that the store retains while the index does not follow, in bytes.
const HOLD_LOG: u64 = 1 << 30;

/// Runs a program that writes, while the index follows.
fn with_index(
    dir: &Path,
    write: impl FnOnce(&Db, &Tree) -> Result<(), AnyError>,
) -> Result<TextIndex, AnyError> {
    let db = Db::open(dir.join("store"))?;
    let tree = db.tree("notes", TreeOptions::default())?;
    std::fs::create_dir_all(dir.join("index"))?;
    let mut index = TextIndex::open(&dir.join("index"))?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&db, &tree, HOLD_LOG, &is_over));
        let written = write(&db, &tree);
        is_over.store(true, Ordering::Release);
        let followed = follower.join().map_err(|_| "the index panicked")?;
        written.and(followed)
    })?;
    Ok(index)
}

/// Writes random notes, and prints a line for each hundred.
fn churn(db: &Db, tree: &Tree, mut random: u64) -> Result<(), AnyError> {
    let mut next = |below: u64| {
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for step in 1_u64.. {
        let key = format!("{:03}", next(500));
        match next(20) {
            0..4 => tree.delete(&key)?,
            4 => tree.delete_range(key.clone()..format!("{key}~"))?,
            5 => {
                let mut batch = Batch::new();
                for key in [key, format!("{:03}", next(500))] {
                    batch.put(tree, &key, format!("a batch of step {step}"))?;
                }
                db.write(batch)?;
            }
            _ => tree.put(&key, format!("the word{} of step {step}", next(100)))?,
        }
        if step % 100 == 0 {
            writeln!(std::io::stdout(), "{step}")?;
        }
        if step % 1000 == 0 {
            tree.flush()?;
        }
    }
    Ok(())
}

fn run(arguments: &[&str]) -> Result<(), AnyError> {
    let (dir, command) = arguments.split_first().ok_or(USAGE)?;
    let dir = Path::new(dir);
    match command {
        ["put", key, text] => with_index(dir, |_, tree| Ok(tree.put(key, text)?)).map(drop),
        ["delete", key] => with_index(dir, |_, tree| Ok(tree.delete(key)?)).map(drop),
        ["churn", seed] => {
            let seed = seed.parse::<u64>()?.max(1);
            with_index(dir, |db, tree| churn(db, tree, seed)).map(drop)
        }
        ["search", query] => {
            for (key, text) in with_index(dir, |_, _| Ok(()))?.search(query, 10)? {
                println!("{}\t{text}", String::from_utf8_lossy(&key));
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
