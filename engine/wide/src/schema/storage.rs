//! Converts the storage attributes of a family's definition to options of the engine.
//!
//! | attribute | option of the tree |
//! |---|---|
//! | `SizeTieredCompactionStrategy` | `Tiered` with the two thresholds; with Cassandra's defaults (4 and 32), or without automatic compaction, the engine's own |
//! | `LeveledCompactionStrategy` | `Leveled`: tables of `sstable_size_in_mb`, ten of them in level 1 |
//! | `compression_options` | none, or no compressor: uncompressed blocks; every compressor means LZ4 |
//! | `bloom_filter_fp_chance` | 1: no filter; below 0.0039: the larger one |
//!
//! Other attributes are only stored and shown. Invariant: for any definition, the resulting engine
//! options are within the engine's bounds.

use firn_kv::policy::{Leveled, Tiered};
use firn_kv::{Compression, FilterKind, Policy, TreeOptions};

use super::Family;

/// False-positive rate of the default filter.
const USUAL_FP_CHANCE: f64 = 0.0039;
/// Default of `sstable_size_in_mb`.
const TABLE_MB: u64 = 160;
/// Size ratio of adjacent levels of `LeveledCompactionStrategy`.
const FANOUT: u64 = 10;
/// Default of `bucket_high`.
const BUCKET_HIGH: f64 = 1.5;

impl Family {
    /// Returns the engine's options for the family.
    pub fn tree(&self) -> TreeOptions {
        let (def, mut options) = (self.def(), TreeOptions::default());
        if def.compaction_strategy.ends_with("LeveledCompactionStrategy") {
            let size = def
                .compaction_strategy_options
                .get("sstable_size_in_mb")
                .and_then(|text| text.parse().ok());
            (options.policy, options.table_size) = leveled(size.unwrap_or(TABLE_MB), FANOUT);
        } else if def.max_compaction_threshold != 0 {
            let threshold = |n: i32| n.max(0).unsigned_abs();
            let (min, max) = (def.min_compaction_threshold, def.max_compaction_threshold);
            options.policy = size_tiered(threshold(min), threshold(max), BUCKET_HIGH);
        }
        if def.compression_options.get("sstable_compression").is_none_or(String::is_empty) {
            options.compression = vec![Compression::None];
        }
        options.filter = def
            .bloom_filter_fp_chance
            .map_or(options.filter, |chance| vec![filter_of_chance(chance)]);
        options
    }
}

/// Returns the filter for a false-positive rate.
pub fn filter_of_chance(chance: f64) -> FilterKind {
    match chance {
        _ if chance >= 1.0 => FilterKind::None,
        _ if chance < USUAL_FP_CHANCE => FilterKind::Fuse16,
        _ => FilterKind::Fuse8,
    }
}

/// Returns the policy of size-tiered thresholds and `bucket_high`; the engine's own for Cassandra's
/// defaults.
pub fn size_tiered(min: u32, max: u32, bucket_high: f64) -> Policy {
    if (min, max, bucket_high) == (4, 32, BUCKET_HIGH) {
        return Policy::default();
    }
    let bucket = if bucket_high == BUCKET_HIGH { Tiered::default().bucket } else { bucket_high };
    Policy::from(Tiered { min_runs: min, max_runs: max.max(min), bucket, ..Tiered::default() })
        .clamped()
}

/// Returns the policy of leveled tables of `table_mb` MiB with `fanout` of them in level 1, and the
/// table size in bytes.
pub fn leveled(table_mb: u64, fanout: u64) -> (Policy, u64) {
    let (table, fanout) = (table_mb.clamp(1, 1 << 20) << 20, fanout.clamp(2, 64));
    (Leveled { ratio: fanout as u32, base: fanout * table, ..Leveled::default() }.into(), table)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::schema::{CfDef, KsDef, Registry, Schema};

    fn tree(def: CfDef) -> TreeOptions {
        let schema = Schema::new(Arc::new(Registry::new())).add_keyspace(&KsDef::new("K")).unwrap();
        schema.add_family(&def).unwrap().family("K", "F").unwrap().tree()
    }

    fn family() -> CfDef {
        CfDef::new("K", "F")
    }

    #[test]
    fn the_default_is_the_engines() {
        let (tree, default) = (tree(family()), TreeOptions::default());
        assert_eq!(
            (tree.policy, tree.compression, tree.filter),
            (default.policy, default.compression, default.filter)
        );
    }

    #[test]
    fn attributes_become_options() {
        let thresholds = |min, max| CfDef {
            min_compaction_threshold: min,
            max_compaction_threshold: max,
            ..family()
        };
        assert!(matches!(
            tree(thresholds(3, 5)).policy,
            Policy::Tiered(Tiered { min_runs: 3, max_runs: 5, .. })
        ));
        assert_eq!(tree(thresholds(-7, 0)).policy, Policy::default());

        let leveled = CfDef { compaction_strategy: "LeveledCompactionStrategy".into(), ..family() };
        let options = BTreeMap::from([("sstable_size_in_mb".to_owned(), "8".to_owned())]);
        let small = tree(CfDef { compaction_strategy_options: options, ..leveled.clone() });
        assert_eq!(small.table_size, 8 << 20);
        assert!(
            matches!(small.policy, Policy::Leveled(Leveled { ratio: 10, base, .. }) if base == 80 << 20)
        );
        assert_eq!(tree(leveled).table_size, 160 << 20);

        assert_eq!(
            tree(CfDef { compression_options: BTreeMap::new(), ..family() }).compression,
            [Compression::None]
        );
        let chance =
            |chance| tree(CfDef { bloom_filter_fp_chance: Some(chance), ..family() }).filter;
        assert_eq!(
            [chance(1.0), chance(0.01), chance(0.001)],
            [[FilterKind::None], [FilterKind::Fuse8], [FilterKind::Fuse16]]
        );
    }

    #[test]
    fn definitions_are_within_the_engines_bounds() {
        for strategy in ["SizeTieredCompactionStrategy", "LeveledCompactionStrategy"] {
            for size in ["0", "1", "160", "-1", "18446744073709551615", "x", ""] {
                for (min, max) in
                    [(2, 2), (4, 32), (2, i32::MAX), (i32::MAX, i32::MAX), (63, 65), (i32::MIN, 0)]
                {
                    for chance in [None, Some(f64::MIN_POSITIVE), Some(0.5), Some(1.0)] {
                        let def = CfDef {
                            compaction_strategy: strategy.into(),
                            compaction_strategy_options: BTreeMap::from([(
                                "sstable_size_in_mb".into(),
                                size.into(),
                            )]),
                            min_compaction_threshold: min,
                            max_compaction_threshold: max,
                            bloom_filter_fp_chance: chance,
                            ..family()
                        };
                        tree(def.clone()).check().unwrap_or_else(|e| panic!("{def:?}: {e}"));
                    }
                }
            }
        }
    }
}
