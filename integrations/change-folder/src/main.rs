//! Writes the changes of a store into a folder of Parquet files.
//!
//! ```text
//! lake STORE FOLDER              write what has changed since the last time
//! lake STORE FOLDER churn SEED   write numbers to the store, and follow, until the process is killed
//! ```
#![allow(clippy::disallowed_methods)] // an application may start threads

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_change_folder::ChangeFolder;
use firn_changes::ChangeDecoder;
use firn_cql::Session;
use firn_kv::{Batch, Db, TreeOptions};
use firn_tools::output::{Color, Done, Failure, Style, finish};

const USAGE: &str = "usage: lake STORE FOLDER [churn SEED]";
/// Log that the store retains while nothing follows, in bytes.
const HOLD_LOG: u64 = 1 << 30;
/// Tree in which the data model has its definitions.
const SCHEMA_TREE: &str = "system.schema";

/// Opens a store, with the tables of CQL if it has them.
fn open(dir: &Path) -> Done<(Db, ChangeDecoder)> {
    let db = Db::open(dir)?;
    if !db.tree_names().iter().any(|name| name == SCHEMA_TREE) {
        return Ok((db, ChangeDecoder::of_trees(false)));
    }
    drop(db);
    let session = Session::open(dir).map_err(|e| Failure::new(e.to_string()))?;
    let db = session.engine().store().db().clone();
    Ok((db, ChangeDecoder::of_tables(session)?))
}

/// Writes ascending numbers, in batches of a random size, and prints a line for each thousand.
fn churn(db: &Db, mut random: u64) -> Done {
    let tree = db.tree("numbers", TreeOptions::default())?;
    let last = tree.last()?.and_then(|(key, _)| key.to_array().ok().map(u64::from_be_bytes));
    let mut next = last.map_or(0, |n| n + 1);
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (mut batch, thousands) = (Batch::new(), next / 1000);
        for _ in 0..1 + (random >> 33) % 5 {
            batch.put(&tree, next.to_be_bytes(), format!("{next}"))?;
            next += 1;
        }
        db.write(batch)?;
        if next / 1000 > thousands {
            writeln!(std::io::stdout(), "{}", next / 1000 * 1000)?;
        }
        if random >> 54 == 0 {
            tree.flush()?;
        }
    }
}

fn run(arguments: &[&str]) -> Done {
    let [dir, folder, rest @ ..] = arguments else { return Err(Failure::new(USAGE)) };
    let (db, mut decoder) = open(Path::new(dir))?;
    let mut folder = ChangeFolder::open(Path::new(folder))?;
    match rest {
        [] => folder.follow(&db, &mut decoder, HOLD_LOG, &AtomicBool::new(true)),
        ["churn", seed] => {
            let seed = seed.parse().map_err(|_| Failure::new(USAGE))?;
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let done = churn(&db, seed);
                    is_over.store(true, Ordering::Release);
                    done
                });
                // Short files, so that kills hit all their moments.
                folder = folder.with_file_events(500);
                let followed = folder.follow(&db, &mut decoder, HOLD_LOG, &is_over);
                writer.join().map_err(|_| Failure::new("the writer panicked"))?.and(followed)
            })
        }
        _ => Err(Failure::new(USAGE)),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    finish(done, Style::new(Color::Auto), |_| None)
}
