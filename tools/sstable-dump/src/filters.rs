//! `sstable-dump filters`: how often tables' filters say "maybe" of keys that are not there, measured.
//!
//! Probes are keys of the table with a few bytes changed, which are then looked for in the table itself: so they are close to what is
//! there and surely not in it. They are the same in every run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_kv::FilterKind;
use firn_kv::base::cursor::Cursor as _;
use firn_kv::base::hash::key_hash;
use firn_kv::base::key::Trailer;
use firn_kv::manifest::Manifest;
use firn_kv::merge::run::table_path;
use firn_kv::sstable::Table;
use firn_kv::{Error, ErrorKind};
use firn_tools::output::{Done, Failure, bytes, count, listing, print_table};
use serde_json::json;

use crate::props::filter_name;
use crate::target::{Kind, env, kind, open_file, open_table};
use crate::{Screen, text};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Also looks up keys that are there: a filter that denies one is damaged, and the exit code is 1.

Examples:
  sstable-dump filters firn-data
  sstable-dump filters firn-data/00000012.sst --probes 1000000";

/// What `filters` takes.
#[derive(Args, Clone, Debug)]
pub struct FiltersArgs {
    /// A store or a table
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Probes of each table
    #[arg(long, value_name = "PROBES", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub probes: u64,
}

struct Measured {
    name: String,
    kind: FilterKind,
    keys: u64,
    bytes: u64,
    probes: u64,
    wrong: u64,
    denied: u64,
    prefixed: bool,
}

/// A fixed sequence of numbers: splitmix64.
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

fn measure(name: String, t: &Arc<Table>, probes: u64) -> Done<Measured> {
    let p = t.properties();
    let prefixed = !p.filter_prefix.is_empty();
    let bits = p.filter as u64;
    let mut m = Measured {
        name,
        kind: p.filter,
        keys: p.filter_keys,
        bytes: p.filter_keys * bits,
        probes: 0,
        wrong: 0,
        denied: 0,
        prefixed,
    };
    if p.filter == FilterKind::None || p.entries == 0 {
        return Ok(m);
    }
    let mut next = numbers();
    if prefixed {
        // Which prefixes are in it only the program knows; any other hash is surely none of them.
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
            // The last bytes are changed, and in short keys some added.
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

fn tables(args: &FiltersArgs) -> Done<Vec<Measured>> {
    match kind(&args.path)? {
        Kind::Table(_) => Ok(vec![measure(crate::newstore::name(&args.path), &open_table(&args.path)?, args.probes)?]),
        Kind::Store => {
            let (state, _) = Manifest::load(&*env(), &args.path)?
                .ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no store in this directory").in_file(&args.path))?;
            let one = |m: &Arc<firn_kv::manifest::TableMeta>| {
                let path = table_path(&args.path, m.id);
                let t = open_file(env().open_read(&path, false)?, &path, m.id, m.ingested_seq)?;
                measure(crate::newstore::name(&path), &t, args.probes)
            };
            state.trees.values().flat_map(|t| t.tables()).map(one).collect()
        }
        _ => Err(Failure::with_next("this is neither a store nor a table", "only tables have filters")),
    }
}

/// Runs `filters`.
pub fn run(screen: &mut Screen<'_>, args: &FiltersArgs) -> Done {
    let all = tables(args)?;
    let rate = |m: &Measured| if m.probes == 0 { 0.0 } else { m.wrong as f64 / m.probes as f64 };
    let expected = |k: FilterKind| if k == FilterKind::None { 1.0 } else { 256f64.powi(-(k as i32)) };
    if screen.json {
        let one = |m: &Measured| {
            json!({
                "table": m.name, "filter": filter_name(m.kind), "hashes": m.keys, "probes": m.probes, "false_positives": m.wrong,
                "rate": rate(m), "expected": expected(m.kind), "keys_denied": m.denied,
            })
        };
        writeln!(screen.out, "{:#}", all.iter().map(one).collect::<Vec<_>>().into_iter().collect::<serde_json::Value>())?;
    } else {
        let mut t =
            listing(&["table", "filter", "hashes", "about", "probes", "false", "rate", "expected", "keys denied"], "llrrrrrrr");
        for m in &all {
            let percent = |f: f64| format!("{:.3} %", f * 100.0);
            let denied = if m.prefixed { "prefixes".into() } else { count(m.denied) };
            t.add_row([
                m.name.clone(),
                filter_name(m.kind).into(),
                count(m.keys),
                bytes(m.bytes * 9 / 8),
                count(m.probes),
                count(m.wrong),
                if m.probes == 0 { "-".into() } else { percent(rate(m)) },
                if m.kind == FilterKind::None { "-".into() } else { percent(expected(m.kind)) },
                denied,
            ]);
        }
        write!(screen.out, "{}", print_table(&t, screen.style))?;
        if all.len() > 1 {
            let (probes, wrong) = (all.iter().map(|m| m.probes).sum::<u64>(), all.iter().map(|m| m.wrong).sum::<u64>());
            writeln!(screen.out, "\nall: {} of {} probes, {}", count(wrong), count(probes), text::share(wrong, probes))?;
        }
    }
    if all.iter().any(|m| m.denied > 0) { Err(Failure::Found) } else { Ok(()) }
}
