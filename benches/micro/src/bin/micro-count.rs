//! Counts instructions per operation, which a busy machine does not change.
//!
//! Runs itself twice under `valgrind --tool=callgrind` for each benchmark, with few and with many
//! operations. The difference is the cost of the operations. Valgrind's processor has no AVX-512,
//! so checksums and copies may count slightly more instructions than on real hardware.

use std::hint::black_box;
use std::process::ExitCode;

use clap::Parser;
use firn_kv::internals::base::key::MAX_SEQ;
use firn_kv::internals::memtable::Memtable;
use firn_kv::internals::util::hash::key_hash;
use firn_kv::{Compression, DbOptions, Result};
use firn_micro::{BenchKey, BenchValues, keys, pieces, valgrind};

const EXAMPLES: &str = "\
Examples:
  micro-count                     every piece, as lines of name, tab, instructions (for `micro-table --counts`)
  micro-count sstable/search      those whose names contain this

Exit codes: 0 counted, 2 could not run (valgrind is needed).";

/// Instructions an operation, by callgrind.
#[derive(Parser)]
#[command(name = "micro-count", after_help = EXAMPLES)]
struct CountCli {
    /// Benchmarks whose names contain this
    #[arg(default_value = "")]
    filter: String,
    /// Run this number of operations of the one benchmark that is named in full, and count nothing
    #[arg(long, value_name = "N", hide = true)]
    operations: Option<usize>,
}

const FEW: usize = 5_000;
const MANY: usize = 55_000;

type CountedPiece = (&'static str, fn(usize) -> Result<()>);

const PIECES: [CountedPiece; 11] = [
    ("sstable/search/4 KiB", search),
    ("memtable/get-hit/firn", memtable_get),
    ("memtable/get-miss/firn, key filter", memtable_miss),
    ("memtable/insert-random/firn", memtable_insert),
    ("db/write/put", put),
    ("db/get/memtable", |n| get(n, pieces::store_in_memory(&all())?, 1)),
    ("db/get/cache", |n| get(n, in_cache()?, 1)),
    ("db/get/missing", |n| get(n, in_cache()?, 2)),
    ("db/seek/memtable", |n| seek(n, pieces::store_in_memory(&all())?)),
    ("db/seek/cache", |n| seek(n, in_cache()?)),
    ("db/first/memtable", |n| first(n, pieces::store_in_memory(&all())?)),
];

/// Returns the keys of every benchmark, one for each operation, so that no operation repeats a key.
fn all() -> Vec<BenchKey> {
    keys(MANY, 1)
}

fn search(n: usize) -> Result<()> {
    let block = pieces::one_block(4096)?;
    let guard = firn_kv::internals::util::epoch::pin();
    for key in block.keys.iter().cycle().take(n) {
        black_box(block.table.get(key, None, MAX_SEQ, &guard)?.map(|h| h.trailer));
    }
    Ok(())
}

fn memtable_get(n: usize) -> Result<()> {
    let keys = all();
    let table = pieces::memtable(&keys)?;
    for key in &keys[..n] {
        black_box(table.get(key, MAX_SEQ).map(|f| f.value.len()));
    }
    Ok(())
}

fn memtable_miss(n: usize) -> Result<()> {
    let table = pieces::memtable(&all())?;
    for key in &keys(MANY, 2)[..n] {
        black_box(table.may_contain(key_hash(key)) && table.get(key, MAX_SEQ).is_some());
    }
    Ok(())
}

fn memtable_insert(n: usize) -> Result<()> {
    let (keys, values, capacity) = (all(), BenchValues::new(), pieces::capacity(MANY));
    let table = Memtable::new(&pieces::arenas(capacity)?, capacity)?;
    keys[..n]
        .iter()
        .enumerate()
        .for_each(|(i, k)| pieces::insert(&table, k, i as u64 + 1, values.get(i)));
    Ok(())
}

fn put(n: usize) -> Result<()> {
    let (keys, values, store) = (all(), BenchValues::new(), pieces::store_for_writes()?);
    keys[..n].iter().enumerate().try_for_each(|(i, k)| store.tree.put(k, values.get(i)))
}

fn in_cache() -> Result<pieces::BenchStore> {
    let store = pieces::store_on_disk(&all(), Compression::Lz4, DbOptions::default())?;
    for key in &all() {
        store.tree.get(key)?;
    }
    Ok(store)
}

fn get(n: usize, store: pieces::BenchStore, seed: u64) -> Result<()> {
    for key in &keys(MANY, seed)[..n] {
        black_box(store.tree.get(key)?.map(|v| v.len()));
    }
    Ok(())
}

/// Returns the number of instructions that this program executes for `operations` of a benchmark.
fn collected(piece: &str, operations: usize) -> std::result::Result<u64, String> {
    valgrind::instructions(None, &[piece, "--operations", &operations.to_string()])
}

fn run(cli: &CountCli) -> std::result::Result<(), String> {
    if let Some(n) = cli.operations {
        let piece = PIECES
            .iter()
            .find(|p| p.0 == cli.filter)
            .ok_or_else(|| format!("there is no piece {:?}", cli.filter))?;
        return (piece.1)(n.min(MANY)).map_err(|e| format!("{}: {e}", piece.0));
    }
    let chosen: Vec<&CountedPiece> = PIECES.iter().filter(|p| p.0.contains(&cli.filter)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = PIECES.iter().map(|p| p.0).collect();
        return Err(format!(
            "no piece is named like {:?}; there are {}",
            cli.filter,
            names.join("; ")
        ));
    }
    for (name, _) in chosen {
        let more = collected(name, MANY)?.saturating_sub(collected(name, FEW)?);
        println!("{name}\t{:.1}", more as f64 / (MANY - FEW) as f64);
    }
    Ok(())
}

/// Seeks with one cursor.
fn seek(n: usize, store: pieces::BenchStore) -> Result<()> {
    let mut c = store.tree.cursor(..)?;
    for key in all().iter().take(n) {
        c.seek(key)?;
        black_box(c.key());
    }
    Ok(())
}

/// Opens iterators and reads one key from each.
fn first(n: usize, store: pieces::BenchStore) -> Result<()> {
    for key in all().iter().take(n) {
        black_box(store.tree.range(key.as_slice()..).next().transpose()?);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&CountCli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("micro-count: {words}");
            ExitCode::from(2)
        }
    }
}
