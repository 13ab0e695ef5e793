//! Measures the overhead of the loops: all workloads with a store that does nothing, in nanoseconds
//! per operation.
//!
//! `cargo run --release -p firn-workload --example overhead`

use firn_workload::phase::standard;
use firn_workload::{
    Config, Direction, Extent, Phase, Result, Runner, Store, StoreBatch, StoreStats,
};
use std::hint::black_box;

struct Nothing;

impl Store for Nothing {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        black_box((key, value, sync));
        Ok(())
    }

    fn write_batch(&self, batch: &StoreBatch) -> Result<()> {
        black_box(batch);
        Ok(())
    }

    fn get<T>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        black_box(key);
        Ok(Some(f(b"value")))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        black_box((key, operand));
        Ok(())
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        black_box((from, to));
        Ok(())
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut f: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        black_box((from, direction));
        (0..limit).for_each(|_| f(black_box(b"key"), black_box(b"value")));
        Ok(limit)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<StoreStats> {
        Ok(StoreStats::default())
    }
}

fn main() -> Result<()> {
    let runner = Runner::new(Config { keys: 5_000_000, ..Config::default() })?;
    for (name, mix) in standard() {
        let (name, mix) = (name.clone(), Box::new(mix.clone()));
        let extent = Some(Extent::Operations(2_000_000));
        let phase = Phase { name: name.clone(), mix, extent, threads: 1 };
        let outcome = runner.run(&Nothing, &phase, |_| ())?;
        println!("{name:>18}: {:6.1} ns", 1e9 / outcome.ops_per_second);
    }
    Ok(())
}
