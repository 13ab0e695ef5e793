//! The targets: what each of them bounds, what it has and what it lacks. All that `firn check` knows
//! of them is here, each figure with where it is from.
//!
//! - *Cassandra 5* is Apache Cassandra 5.0, *Cassandra 4* is 4.0 and 4.1. What is said of settings
//!   is `conf/cassandra.yaml` as it is released; what is said to be refused was refused by nodes of
//!   5.0.9 and 4.1.10.
//! - *ScyllaDB* is what its manual says (docs.scylladb.com/manual): the pages "Limits",
//!   "ScyllaDB and Apache Cassandra Compatibility", "Large Partitions", "Large Rows and Large Cells"
//!   and "Configuration Parameters".

use clap::ValueEnum;

/// A database that a store may move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckTarget {
    /// Apache Cassandra 5.0
    #[value(name = "cassandra-5")]
    Cassandra5,
    /// Apache Cassandra 4.0 and 4.1
    #[value(name = "cassandra-4")]
    Cassandra4,
    /// ScyllaDB
    Scylla,
}

/// A bound: from where on something goes badly, and from where on it is refused.
#[derive(Clone, Copy, Debug)]
pub struct TargetBound {
    /// More than this goes badly. `None`: nobody says when.
    pub warn: Option<u64>,
    /// More than this is refused. `None`: nothing is.
    pub fail: Option<u64>,
    /// Where that is from.
    pub source: &'static str,
}

/// Whether a target has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSupport {
    /// It has.
    There,
    /// Only where this setting, which is off at first, is on.
    Off(&'static str),
    /// It has not.
    Missing,
    /// By its version; nothing more can be said here.
    Unsure,
}

/// All that is known of a target.
#[derive(Debug)]
pub struct TargetTable {
    /// Its name for people.
    pub title: &'static str,
    /// Bytes of a partition.
    pub partition_bytes: TargetBound,
    /// Rows of a partition.
    pub partition_rows: TargetBound,
    /// Tombstones that a read of a partition steps over.
    pub partition_tombstones: TargetBound,
    /// Bytes of a row.
    pub row_bytes: TargetBound,
    /// Bytes of a value.
    pub cell_bytes: TargetBound,
    /// Elements of a collection.
    pub collection_elements: TargetBound,
    /// Bytes of a partition key.
    pub key_bytes: TargetBound,
    /// The last second since 1970 in which something may expire.
    pub last_expiry: TargetBound,
    /// Bytes of a batch over several partitions.
    pub batch_bytes: TargetBound,
    /// Partitions of a batch that is not logged.
    pub batch_partitions: TargetBound,
    /// Bytes of what one statement writes.
    pub write_bytes: TargetBound,
    /// Values of `IN` for a column of the primary key.
    pub in_values: TargetBound,
    /// Tables of all keyspaces.
    pub tables: TargetBound,
    /// Columns of a table.
    pub columns: TargetBound,
    /// Indexes of the class SASI.
    pub sasi: FeatureSupport,
    /// Storage-attached indexes.
    pub storage_attached: FeatureSupport,
    /// Those of vectors.
    pub vector_indexes: FeatureSupport,
    /// Whether an index without a class is asked node by node, where the partition is not named.
    pub indexes_ask_every_node: bool,
    /// Materialized views.
    pub views: FeatureSupport,
    /// Columns with masks, and functions that mask.
    pub masks: FeatureSupport,
    /// Vectors.
    pub vectors: FeatureSupport,
    /// The unified compaction strategy.
    pub unified: FeatureSupport,
    /// The incremental compaction strategy.
    pub incremental: FeatureSupport,
    /// `WITH COMPACT STORAGE`.
    pub compact_storage: FeatureSupport,
    /// Tables of counters.
    pub counters: FeatureSupport,
    /// Functions of 5.0, and `writetime` of whole collections.
    pub functions_of_5: FeatureSupport,
    /// `dateOf` and `unixTimestampOf`, which 5.0 has no more.
    pub functions_before_5: FeatureSupport,
    /// `BETWEEN`.
    pub between: FeatureSupport,
}

const NONE: TargetBound = TargetBound { warn: None, fail: None, source: "" };

const fn warns(warn: u64, source: &'static str) -> TargetBound {
    TargetBound { warn: Some(warn), fail: None, source }
}

const fn bounds(warn: u64, fail: u64, source: &'static str) -> TargetBound {
    TargetBound { warn: Some(warn), fail: Some(fail), source }
}

const fn fails(fail: u64, source: &'static str) -> TargetBound {
    TargetBound { warn: None, fail: Some(fail), source }
}

const MIB: u64 = 1 << 20;

const CASSANDRA_5: TargetTable = TargetTable {
    title: "Cassandra 5",
    partition_bytes: warns(
        100 * MIB,
        "the size from which compactions of 4.0 and 4.1 warn, 100 MiB",
    ),
    partition_rows: NONE,
    partition_tombstones: bounds(
        1_000,
        100_000,
        "cassandra.yaml: tombstone_warn_threshold, tombstone_failure_threshold",
    ),
    row_bytes: NONE,
    cell_bytes: bounds(
        MIB,
        16 * MIB,
        "the types of CQL: less than 1 MB is recommended; cassandra.yaml: half of commitlog_segment_size, 32 MiB",
    ),
    collection_elements: warns(
        65_535,
        "what older versions of the native protocol could count; a collection is read as a whole",
    ),
    key_bytes: fails(65_535, "the length of a key has two bytes"),
    last_expiry: fails(
        2_147_483_646,
        "2038-01-19T03:14:06Z; 5.0 has later ones with storage_compatibility_mode: NONE",
    ),
    batch_bytes: bounds(
        5 << 10,
        50 << 10,
        "cassandra.yaml: batch_size_warn_threshold, batch_size_fail_threshold",
    ),
    batch_partitions: warns(10, "cassandra.yaml: unlogged_batch_across_partitions_warn_threshold"),
    write_bytes: fails(16 * MIB, "cassandra.yaml: half of commitlog_segment_size, 32 MiB"),
    in_values: warns(
        100,
        "this check's own: there each partition is a read of its own, and nothing bounds them",
    ),
    tables: warns(150, "cassandra.yaml of 4.0: table_count_warn_threshold"),
    columns: NONE,
    sasi: FeatureSupport::Off("sasi_indexes_enabled"),
    storage_attached: FeatureSupport::There,
    vector_indexes: FeatureSupport::There,
    indexes_ask_every_node: true,
    views: FeatureSupport::Off("materialized_views_enabled"),
    masks: FeatureSupport::Off("dynamic_data_masking_enabled"),
    vectors: FeatureSupport::There,
    unified: FeatureSupport::There,
    incremental: FeatureSupport::Missing,
    compact_storage: FeatureSupport::There,
    counters: FeatureSupport::There,
    functions_of_5: FeatureSupport::There,
    functions_before_5: FeatureSupport::Missing,
    between: FeatureSupport::Missing,
};

const CASSANDRA_4: TargetTable = TargetTable {
    title: "Cassandra 4",
    last_expiry: fails(2_147_483_646, "2038-01-19T03:14:06Z"),
    partition_bytes: warns(
        100 * MIB,
        "cassandra.yaml: compaction_large_partition_warning_threshold",
    ),
    storage_attached: FeatureSupport::Missing,
    vector_indexes: FeatureSupport::Missing,
    masks: FeatureSupport::Missing,
    vectors: FeatureSupport::Missing,
    unified: FeatureSupport::Missing,
    functions_of_5: FeatureSupport::Missing,
    functions_before_5: FeatureSupport::There,
    ..CASSANDRA_5
};

const SCYLLA: TargetTable = TargetTable {
    title: "ScyllaDB",
    partition_bytes: warns(
        1_000 * MIB,
        "scylla.yaml: compaction_large_partition_warning_threshold_mb",
    ),
    partition_rows: warns(100_000, "scylla.yaml: compaction_rows_count_warning_threshold"),
    // Its settings of that name are unused: reads go on in pages.
    partition_tombstones: NONE,
    row_bytes: warns(10 * MIB, "scylla.yaml: compaction_large_row_warning_threshold_mb"),
    cell_bytes: warns(MIB, "scylla.yaml: compaction_large_cell_warning_threshold_mb"),
    collection_elements: warns(
        10_000,
        "scylla.yaml: compaction_collection_elements_count_warning_threshold",
    ),
    key_bytes: fails(65_533, "the page \"Limits\": key length"),
    last_expiry: NONE,
    batch_bytes: bounds(
        128 << 10,
        1_024 << 10,
        "scylla.yaml: batch_size_warn_threshold_in_kb, batch_size_fail_threshold_in_kb",
    ),
    batch_partitions: NONE,
    write_bytes: NONE,
    in_values: fails(
        100,
        "scylla.yaml: max_partition_key_restrictions_per_query, max_clustering_key_restrictions_per_query",
    ),
    tables: warns(5_000, "the page \"Limits\": tested with 5000 tables"),
    columns: warns(1_000, "the page \"Limits\": hundreds of columns in a table"),
    sasi: FeatureSupport::Missing,
    storage_attached: FeatureSupport::Missing,
    vector_indexes: FeatureSupport::Unsure,
    indexes_ask_every_node: false,
    views: FeatureSupport::There,
    masks: FeatureSupport::Missing,
    vectors: FeatureSupport::Unsure,
    unified: FeatureSupport::Missing,
    incremental: FeatureSupport::Unsure,
    compact_storage: FeatureSupport::Off("enable_create_table_with_compact_storage"),
    counters: FeatureSupport::Unsure,
    functions_of_5: FeatureSupport::Unsure,
    functions_before_5: FeatureSupport::There,
    between: FeatureSupport::Unsure,
};

impl CheckTarget {
    /// What is known of it.
    pub fn table(self) -> &'static TargetTable {
        match self {
            CheckTarget::Cassandra5 => &CASSANDRA_5,
            CheckTarget::Cassandra4 => &CASSANDRA_4,
            CheckTarget::Scylla => &SCYLLA,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_says_where_it_is_from_and_warns_before_it_fails() {
        for target in CheckTarget::value_variants() {
            let t = target.table();
            for bound in [
                t.partition_bytes,
                t.partition_rows,
                t.partition_tombstones,
                t.row_bytes,
                t.cell_bytes,
                t.collection_elements,
                t.key_bytes,
                t.last_expiry,
                t.batch_bytes,
                t.batch_partitions,
                t.write_bytes,
                t.in_values,
                t.tables,
                t.columns,
            ] {
                let is_one = bound.warn.is_some() || bound.fail.is_some();
                assert_eq!(is_one, !bound.source.is_empty(), "{} {bound:?}", t.title);
                if let (Some(warn), Some(fail)) = (bound.warn, bound.fail) {
                    assert!(warn < fail, "{} {bound:?}", t.title);
                }
            }
        }
    }
}
