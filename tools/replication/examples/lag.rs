//! Measures a primary and a replica on this machine: the copy, the rate of changes, and the lag of
//! single writes.
//!
//! `cargo run --release -p firn-replication --example lag [KEYS]`

use std::time::Duration;

use firn_kv::{Batch, Db, OsEnv, TreeOptions};
use firn_replication::{Primary, PrimaryOptions, Replica, ReplicaOptions};

/// Bytes of a value.
const VALUE: usize = 100;
/// Number of writes whose lag is measured.
const SINGLE: u64 = 1000;

fn main() -> firn_kv::Result<()> {
    let keys: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    let env = OsEnv::new();
    let seconds = |from: u64| (env.monotonic_nanos() - from) as f64 / 1e9;
    let dir = std::env::temp_dir().join(format!("firn-lag-{}", env.random()));
    let db = Db::open(dir.join("primary"))?;
    let tree = db.tree("t", TreeOptions::default())?;
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let load = |from: u64| -> firn_kv::Result<()> {
        for start in (from..from + keys).step_by(100) {
            let mut batch = Batch::new();
            for n in start..start + 100 {
                batch.put(&tree, key(n), [n as u8; VALUE])?;
            }
            db.write(batch)?;
        }
        Ok(())
    };
    load(0)?;
    let primary = Primary::start(&db, PrimaryOptions::at(([127, 0, 0, 1], 0).into()))?;
    let begin = env.monotonic_nanos();
    let options = ReplicaOptions::of(primary.address().to_string(), "copy");
    let replica = Replica::start(dir.join("replica"), options)?;
    let copy = replica.wait_for_copy(Duration::from_secs(600))?;
    let bytes = db.stats().table_bytes() as f64;
    let time = seconds(begin);
    println!(
        "copy: {keys} keys, {:.0} MB in {time:.2} s, {:.0} MB/s",
        bytes / 1e6,
        bytes / 1e6 / time
    );

    let begin = env.monotonic_nanos();
    load(keys)?;
    let written = seconds(begin);
    let is_equal = replica.wait_for(db.snapshot().seq(), Duration::from_secs(600));
    let time = seconds(begin);
    println!(
        "changes: {keys} puts in batches of 100, written in {written:.2} s, applied after {time:.2} s ({:.0} k/s): {is_equal}",
        keys as f64 / time / 1e3
    );

    let seen = copy.existing_tree("t")?;
    let mut lags: Vec<u64> = vec![];
    for n in 0..SINGLE {
        let begin = env.monotonic_nanos();
        tree.put(n.to_be_bytes(), b"new")?;
        while seen.get(n.to_be_bytes())?.is_none() {
            std::hint::spin_loop();
        }
        lags.push(env.monotonic_nanos() - begin);
        env.sleep(Duration::from_millis(n % 3));
    }
    lags.sort_unstable();
    let at = |share: f64| lags[(share * (lags.len() - 1) as f64) as usize] as f64 / 1e6;
    println!(
        "lag of a single put: median {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    replica.stop();
    primary.stop();
    drop((seen, copy, replica, primary, tree, db));
    println!("the stores are in {}", dir.display());
    Ok(())
}
