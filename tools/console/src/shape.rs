//! The runs and tables of a tree, for drawings to scale.

use firn_kv::internals::base::key::head;
use firn_kv::stats::{Pin, PinKind, Stats};
use firn_kv::{Db, Error, TableInfo};
use firn_tools::escape::words;
use firn_tools::page::{DrawnRun, DrawnTable};
use serde_json::{Value, json};

use crate::names::StoreNames;

/// Maximum number of tables in a drawing. A tree with more is drawn with neighbours together.
const MAX_TABLES: usize = 4000;

/// Returns the tables of a tree: newest run first, by key within a run.
///
/// # Errors
/// Errors of opening tables.
pub fn drawn_runs(db: &Db, tree: &str) -> Result<Vec<DrawnRun>, Error> {
    let drawn = |t: &TableInfo| DrawnTable {
        level: t.level,
        run: t.run,
        bytes: t.bytes,
        heads: (head(&t.first_key), head(&t.last_key)),
    };
    let tables: Vec<_> = db.existing_tree(tree)?.tables()?.iter().map(drawn).collect();
    Ok(DrawnRun::of_tables(&tables))
}

/// Returns the running flushes and compactions of a tree, or of all trees.
pub fn jobs(stats: &Stats, tree: Option<&str>) -> Vec<Value> {
    let is_job = |p: &&Pin| matches!(p.kind, PinKind::Flush | PinKind::Compaction);
    let job = |p: &Pin| {
        json!({
            "kind": p.kind.name(), "job": p.name, "tree": p.tree, "age_micros": p.age_micros,
            "tables": p.tables, "total": p.total, "done": p.done,
        })
    };
    let of = stats.pins.iter().filter(is_job).filter(|p| tree.is_none_or(|tree| p.tree == tree));
    of.map(job).collect()
}

/// Positions of keys on an axis whose lengths are bytes of tables: a range of keys with twice the
/// bytes is twice as long. So few keys far from the others do not squeeze these.
struct DataScale<'t> {
    /// The bounds of all tables, in order, with the bytes below each.
    bounds: Vec<(&'t [u8], f64)>,
}

impl<'t> DataScale<'t> {
    fn of(tables: &'t [TableInfo]) -> DataScale<'t> {
        let mut keys: Vec<&[u8]> =
            tables.iter().flat_map(|t| [&*t.first_key, &*t.last_key]).collect();
        keys.sort_unstable();
        keys.dedup();
        // The bytes of a table are spread over the intervals between bounds that it covers.
        let index = |key: &[u8]| keys.partition_point(|k| *k < key);
        let mut changes = vec![0.0; keys.len() + 1];
        for t in tables {
            let (from, to) = (index(&t.first_key), index(&t.last_key));
            let each = t.bytes.max(1) as f64 / (to - from).max(1) as f64;
            changes[from] += each;
            changes[to.max(from + 1)] -= each;
        }
        let (mut below, mut density) = (0.0, 0.0);
        let place = |(key, change): (&'t [u8], f64)| {
            let at = below;
            density += change;
            below += f64::max(density, 0.0);
            (key, at)
        };
        DataScale { bounds: keys.into_iter().zip(changes).map(place).collect() }
    }

    /// Returns the position of a bound in millionths.
    fn place(&self, key: &[u8]) -> u64 {
        let at = self.bounds.partition_point(|(k, _)| *k < key);
        let whole = self.bounds.last().map_or(0.0, |(_, at)| *at).max(1.0);
        self.bounds.get(at).map_or(1_000_000, |(_, at)| (at / whole * 1e6) as u64)
    }
}

/// Returns a tree as JSON: its runs with the tables of each as `[from, to, bytes, entries, id]`,
/// the first two in millionths of the bytes of the tree ([`DataScale`]).
///
/// # Errors
/// A tree that does not exist, and errors of opening tables.
pub fn shape_json(db: &Db, names: &StoreNames, tree: &str) -> Result<Value, Error> {
    let of = db.existing_tree(tree)?;
    let tables = of.tables()?;
    let stats = db.stats();
    let first = tables.iter().map(|t| &t.first_key).min();
    let last = tables.iter().map(|t| &t.last_key).max();
    let scale = DataScale::of(&tables);
    let together = tables.len().div_ceil(MAX_TABLES).max(1);
    let runs = tables.chunk_by(|a, b| (a.level, a.run) == (b.level, b.run)).map(|run| {
        let sum = |of: fn(&TableInfo) -> u64| run.iter().map(of).sum::<u64>();
        let bars = run.chunks(together).map(|part| {
            let (from, to) =
                (scale.place(&part[0].first_key), scale.place(&part[part.len() - 1].last_key));
            let bytes = part.iter().map(|t| t.bytes).sum::<u64>();
            json!([from, to, bytes, part.iter().map(|t| t.entries).sum::<u64>(), part[0].id])
        });
        json!({
            "level": run[0].level, "number": run[0].run, "bytes": sum(|t| t.bytes),
            "entries": sum(|t| t.entries), "count": run.len(), "tables": bars.collect::<Vec<_>>(),
        })
    });
    let key =
        |key: Option<&Vec<u8>>| key.map(|k| names.partition(tree, k).unwrap_or_else(|| words(k)));
    let own = stats.trees.iter().find(|t| t.name == tree);
    Ok(json!({
        "tree": tree,
        "holds": names.of_tree(tree),
        "policy": of.options().policy.to_string(),
        "runs": runs.collect::<Vec<_>>(),
        "together": together,
        "first_key": key(first),
        "last_key": key(last),
        "memtable_bytes": own.map(|t| t.memtable_bytes),
        "sealed": own.map(|t| t.sealed),
        "debt": own.map(|t| t.debt),
        "jobs": jobs(&stats, Some(tree)),
    }))
}

#[cfg(test)]
mod tests {
    use firn_kv::{DbOptions, TreeOptions};

    use super::*;

    #[test]
    fn a_key_far_from_the_others_takes_the_place_of_its_bytes() {
        let options = DbOptions { background_threads: 0, ..DbOptions::default() };
        let env = std::sync::Arc::new(firn_kv::MemEnv::new(1));
        let db = Db::open_in(env, "/db", options).unwrap();
        let tree = db.tree("t", TreeOptions::default()).unwrap();
        tree.put("a", "far").unwrap();
        tree.flush().unwrap();
        for (from, to) in [(0, 500), (500, 1000)] {
            (from..to).for_each(|i| tree.put(format!("z{i:04}"), [i as u8; 40]).unwrap());
            tree.flush().unwrap();
        }
        let shape = shape_json(&db, &StoreNames::default(), "t").unwrap();
        let tables: Vec<(u64, u64)> = shape["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| {
                (run["tables"][0][0].as_u64().unwrap(), run["tables"][0][1].as_u64().unwrap())
            })
            .collect();
        let [newest, middle, far] = tables[..] else { panic!("{tables:?}") };
        assert!(far.1 < 150_000 && middle.0 < 150_000, "{tables:?}");
        assert!((400_000..700_000).contains(&middle.1) && newest.0 >= middle.1, "{tables:?}");
        assert_eq!(newest.1, 1_000_000);
        assert_eq!(
            (shape["first_key"].as_str(), shape["last_key"].as_str()),
            (Some("a"), Some("z0999"))
        );
        assert!(shape_json(&db, &StoreNames::default(), "other").is_err());
    }
}
