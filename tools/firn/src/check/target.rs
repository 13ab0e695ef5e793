//! Targets of `firn check`: their bounds, features and missing features, each figure with its
//! source.
//!
//! - *Cassandra 5* is Apache Cassandra 5.0, *Cassandra 4* is 4.0 and 4.1. Settings are from
//!   `conf/cassandra.yaml` as released. Refusals were observed on nodes of 5.0.9 and 4.1.10.
//! - *ScyllaDB* is described by its manual (docs.scylladb.com/manual): the pages "Limits",
//!   "ScyllaDB and Apache Cassandra Compatibility", "Large Partitions", "Large Rows and Large
//!   Cells" and "Configuration Parameters".

use clap::ValueEnum;

/// Target database of a migration.
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

/// A bound with a threshold for warnings and one for refusal.
#[derive(Clone, Copy, Debug)]
pub struct TargetBound {
    /// Larger values work badly. `None`: no documented threshold.
    pub warn: Option<u64>,
    /// Larger values are refused. `None`: no limit.
    pub fail: Option<u64>,
    /// Source of the bound.
    pub source: &'static str,
}

/// Support of a feature by a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSupport {
    /// Supported.
    There,
    /// Supported only if this setting is on; it is off by default.
    Off(&'static str),
    /// Not supported.
    Missing,
    /// Depends on the version.
    Unsure,
}

/// Bounds and features of a target.
#[derive(Debug)]
pub struct TargetTable {
    /// Displayed name.
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
    /// Latest possible expiry, in seconds since 1970.
    pub last_expiry: TargetBound,
    /// Bytes of a batch over several partitions.
    pub batch_bytes: TargetBound,
    /// Partitions of an unlogged batch.
    pub batch_partitions: TargetBound,
    /// Bytes that one statement writes.
    pub write_bytes: TargetBound,
    /// Values of `IN` for a column of the primary key.
    pub in_values: TargetBound,
    /// Tables of all keyspaces.
    pub tables: TargetBound,
    /// Columns of a table.
    pub columns: TargetBound,
    /// SASI indexes.
    pub sasi: FeatureSupport,
    /// Storage-attached indexes.
    pub storage_attached: FeatureSupport,
    /// Vector indexes.
    pub vector_indexes: FeatureSupport,
    /// Whether a query by a secondary index without a partition asks node by node.
    pub indexes_ask_every_node: bool,
    /// Materialized views.
    pub views: FeatureSupport,
    /// Masked columns and masking functions.
    pub masks: FeatureSupport,
    /// Vectors.
    pub vectors: FeatureSupport,
    /// Unified compaction strategy.
    pub unified: FeatureSupport,
    /// Incremental compaction strategy.
    pub incremental: FeatureSupport,
    /// `WITH COMPACT STORAGE`.
    pub compact_storage: FeatureSupport,
    /// Counter tables.
    pub counters: FeatureSupport,
    /// Functions of 5.0, and `writetime` of whole collections.
    pub functions_of_5: FeatureSupport,
    /// `dateOf` and `unixTimestampOf`, which 5.0 removed.
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
        "the limit of older versions of the native protocol; a collection is read as a whole",
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
        "chosen by this check: there each partition is a separate read, without a limit on their number",
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
    // Settings of that name are unused: reads continue in pages.
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
    /// Returns the data of the target.
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
    fn a_bound_has_its_source_and_warns_before_it_fails() {
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
