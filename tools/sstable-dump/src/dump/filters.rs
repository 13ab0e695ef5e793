//! `sstable-dump filters`: measures the false positive rate of table filters.
//!
//! Probes are keys of the table with a few bytes changed. A lookup in the table excludes probes
//! that exist. So probes are close to existing keys but absent. They are the same in every run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Trailer;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::TableMeta;
use firn_kv::internals::sstable::Table;
use firn_kv::internals::util::hash::key_hash;
use firn_tools::escape;
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table, things};
use serde_json::json;

use crate::Screen;
use crate::dump::props::filter_name;
use crate::dump::text;
use crate::store::retry::retry_while_changing;
use crate::store::target::{TargetKind, env, kind, open_file, open_table, state_of};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Also looks up existing keys: a filter that rejects one is damaged, and the exit code is 1. For a store it also prints the sums of each
tree and of all trees, and the cost of reading a missing key.

Examples:
  sstable-dump filters firn-data
  sstable-dump filters firn-data/00000012.sst --probes 1000000";

/// Arguments of `filters`.
#[derive(Args, Clone, Debug)]
pub struct FiltersArgs {
    /// A store or a table
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Number of probes per table
    #[arg(long, value_name = "PROBES", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub probes: u64,
}

#[derive(Clone, Default)]
struct MeasuredFilter {
    name: String,
    /// Tree and run of the table; empty for a single table.
    tree: String,
    run: u64,
    entries: u64,
    /// Number of bits of a fingerprint; 0 without a filter.
    bits: u8,
    keys: u64,
    bytes: u64,
    probes: u64,
    wrong: u64,
    denied: u64,
    prefixed: bool,
}

/// Returns a generator with a fixed sequence of numbers: splitmix64.
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 0x5eed_u64;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl MeasuredFilter {
    fn rate(&self) -> f64 {
        if self.probes == 0 { 0.0 } else { self.wrong as f64 / self.probes as f64 }
    }

    /// Adds the counts of another table.
    fn add(&mut self, m: &MeasuredFilter) {
        self.keys += m.keys;
        self.bytes += m.bytes;
        self.probes += m.probes;
        self.wrong += m.wrong;
        self.denied += m.denied;
    }

    fn cells(&self) -> [String; 9] {
        let percent = |f: f64| format!("{:.3} %", f * 100.0);
        [
            self.name.clone(),
            filter_name(self.bits),
            count(self.keys),
            bytes(self.bytes * 9 / 8),
            count(self.probes),
            count(self.wrong),
            if self.probes == 0 { "-".into() } else { percent(self.rate()) },
            if self.bits == 0 { "-".into() } else { percent(expected(self.bits)) },
            if self.prefixed { "prefixes".into() } else { count(self.denied) },
        ]
    }
}

fn expected(bits: u8) -> f64 {
    0.5f64.powi(bits.into())
}

/// Returns the sums over these tables. Omits cells that have no sum.
fn sum(name: String, all: &[MeasuredFilter]) -> [String; 9] {
    let none = MeasuredFilter { name, ..MeasuredFilter::default() };
    let sum = all.iter().fold(none, |mut sum, m| {
        sum.add(m);
        sum
    });
    let mut cells = sum.cells();
    cells[1] = String::new();
    cells[7] = String::new();
    cells
}

/// Cost of reading a missing key in a tree: the number of runs, and the expected number of table
/// lookups. A filter that answers "maybe" costs a lookup; a run without a filter always does.
struct FilterCost {
    runs: usize,
    looks: f64,
}

fn cost(tables: &[MeasuredFilter]) -> FilterCost {
    // A key can be in only one table of a run: weight each table by its number of keys.
    let runs: Vec<f64> = tables
        .chunk_by(|a, b| a.run == b.run)
        .map(|run| {
            let rate = |m: &MeasuredFilter| if m.bits == 0 { 1.0 } else { m.rate() };
            let weight = |m: &MeasuredFilter| m.entries.max(1) as f64;
            run.iter().map(|m| rate(m) * weight(m)).sum::<f64>()
                / run.iter().map(weight).sum::<f64>()
        })
        .collect();
    FilterCost { runs: runs.len(), looks: runs.iter().sum() }
}

fn measure(name: String, t: &Arc<Table>, probes: u64) -> Done<MeasuredFilter> {
    let p = t.properties();
    let prefixed = !p.filter_prefix.is_empty();
    let mut m = MeasuredFilter {
        name,
        entries: p.entries,
        bits: p.filter_bits(),
        keys: p.filter_keys,
        bytes: (p.filter_keys * u64::from(p.filter_bits())).div_ceil(8),
        prefixed,
        ..MeasuredFilter::default()
    };
    if p.filter_bits() == 0 || p.entries == 0 {
        return Ok(m);
    }
    let mut next = numbers();
    if prefixed {
        // Only the program knows the prefixes in the filter. A random hash is not one of them.
        m.probes = probes;
        m.wrong = (0..probes).filter(|_| t.may_contain(next())).count() as u64;
        return Ok(m);
    }
    let per_key = probes.div_ceil(p.entries).max(1);
    let step = (p.entries / probes.max(1)).max(1);
    let (mut walk, mut look) = (t.cursor(false), t.cursor(false));
    walk.first()?;
    let mut n = 0;
    while walk.valid() && m.probes < probes {
        m.denied += u64::from(!t.may_contain(key_hash(walk.key())));
        for _ in 0..if n % step == 0 { per_key.min(probes - m.probes) } else { 0 } {
            let mut probe = walk.key().to_vec();
            let noise = next().to_le_bytes();
            // Change the last bytes; in short keys add some.
            let at = probe.len().saturating_sub(3);
            probe.truncate(at);
            probe.extend_from_slice(&noise[..4]);
            if probe.len() > firn_kv::MAX_KEY_LEN {
                probe.truncate(firn_kv::MAX_KEY_LEN);
            }
            let hit = t.may_contain(key_hash(&probe));
            if hit {
                look.seek(&probe, Trailer::NEWEST)?;
                if look.valid() && look.key() == probe {
                    continue;
                }
            }
            m.probes += 1;
            m.wrong += u64::from(hit);
        }
        n += 1;
        walk.next()?;
    }
    Ok(m)
}

fn tables(args: &FiltersArgs) -> Done<Vec<MeasuredFilter>> {
    match kind(&args.path)? {
        TargetKind::Table(_) => {
            Ok(vec![measure(text::file_name(&args.path), &open_table(&args.path)?, args.probes)?])
        }
        TargetKind::Store => {
            let state = state_of(&args.path)?;
            let one = |(tree, run, m): (&str, u64, &Arc<TableMeta>)| {
                let path = table_path(&args.path, m.id);
                let t = open_file(env().open_read(&path, false)?, &path, m.id, m.ingested_seq)?;
                Ok(MeasuredFilter {
                    tree: tree.to_owned(),
                    run,
                    ..measure(text::file_name(&path), &t, args.probes)?
                })
            };
            let runs =
                state.trees.values().flat_map(|t| t.runs.iter().map(move |r| (t.name.as_str(), r)));
            runs.flat_map(|(tree, r)| r.tables.iter().map(move |m| (tree, r.number, m)))
                .map(one)
                .collect()
        }
        _ => Err(Failure::with_next(
            "this is neither a store nor a table",
            "only tables have filters",
        )),
    }
}

/// Runs `filters`.
pub fn run(screen: &mut Screen<'_>, args: &FiltersArgs) -> Done {
    let all = retry_while_changing(|| tables(args))?;
    let of_store = all.iter().any(|m| !m.tree.is_empty());
    let trees: Vec<&[MeasuredFilter]> = all.chunk_by(|a, b| a.tree == b.tree).collect();
    if screen.json {
        let one = |m: &MeasuredFilter| {
            json!({
                "tree": of_store.then_some(&m.tree), "table": m.name, "filter": filter_name(m.bits), "hashes": m.keys, "probes": m.probes,
                "false_positives": m.wrong, "rate": m.rate(), "expected": expected(m.bits), "keys_denied": m.denied,
            })
        };
        writeln!(screen.out, "{:#}", all.iter().map(one).collect::<serde_json::Value>())?;
    } else {
        let header = [
            "table",
            "filter",
            "hashes",
            "about",
            "probes",
            "false",
            "rate",
            "expected",
            "keys denied",
        ];
        let mut t = listing(&header, "llrrrrrrr");
        for tables in &trees {
            t.add_rows(tables.iter().map(MeasuredFilter::cells));
            if of_store {
                t.add_row(sum(
                    format!("tree {}", escape::words(tables[0].tree.as_bytes())),
                    tables,
                ));
            }
        }
        if trees.len() > 1 {
            t.add_row(sum("all".into(), &all));
        }
        write!(screen.out, "{}", print_table(&t, screen.style))?;
        for tables in trees.iter().filter(|_| of_store) {
            let (tree, c) = (escape::words(tables[0].tree.as_bytes()), cost(tables));
            let runs = things(c.runs as u64, "run", "runs");
            writeln!(
                screen.out,
                "tree {tree}: a read of a key that is not there asks {runs}, and looks into {:.3} tables",
                c.looks
            )?;
        }
    }
    if all.iter().any(|m| m.denied > 0) { Err(Failure::Found) } else { Ok(()) }
}
