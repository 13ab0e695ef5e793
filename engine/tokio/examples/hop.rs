//! Measures the cost of moving a call to another thread: gets from memory, directly and with
//! `AsyncTree::get`, on both of tokio's runtimes. It prints the fastest and the median of 200 rounds
//! of 1,000 gets.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::Instant;

use firn_kv::{Db, Result, TreeOptions};
use firn_tokio::{AsyncDb, AsyncTree};
use tokio::runtime::{Builder, Runtime};

const GETS: u32 = 1000;
const ROUNDS: usize = 200;

fn report(name: &str, mut round: impl FnMut() -> Result<()>) -> Result<()> {
    let mut nanos = vec![];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        nanos.push(start.elapsed().as_nanos() / u128::from(GETS));
    }
    nanos.sort_unstable();
    println!("{name:<26} {:>7} {:>7}", nanos[0], nanos[ROUNDS / 2]);
    Ok(())
}

/// Gets one key after the other, each with a move to another thread.
fn moved(runtime: &Runtime, tree: &AsyncTree) -> Result<()> {
    runtime.block_on(async {
        for n in 0..GETS {
            assert!(tree.get(n.to_be_bytes()).await?.is_some());
        }
        Ok(())
    })
}

fn main() -> Result<()> {
    let db = Db::in_memory()?;
    let tree = db.tree("t", TreeOptions::default())?;
    for n in 0..GETS {
        tree.put(n.to_be_bytes(), [7; 100])?;
    }
    let threads = Builder::new_multi_thread().build().expect("a runtime");
    let current = Builder::new_current_thread().build().expect("a runtime");
    let moving = AsyncDb::new(db).wrap(tree.clone());
    println!("ns a get                   fastest  median");
    report("direct", || {
        (0..GETS).try_for_each(|n| {
            assert!(tree.get(n.to_be_bytes())?.is_some());
            Ok(())
        })
    })?;
    report("moved, current-thread", || moved(&current, &moving))?;
    report("moved, multi-thread", || moved(&threads, &moving))?;
    report("moved as one call", || {
        current.block_on(moving.call(|tree| {
            (0..GETS).try_for_each(|n| {
                assert!(tree.get(n.to_be_bytes())?.is_some());
                Ok(())
            })
        }))
    })
}
