//! Options of tables and keyspaces in the output of other releases and other databases. They are
//! mapped to supported options, or ignored.

use std::collections::BTreeMap;

/// Options that are ignored or renamed: name, the product that has the option, treatment.
const FOREIGN_OPTIONS: [(&str, &str, &str); 9] = [
    ("index_interval", "Cassandra 2.0", "is read as min_index_interval"),
    ("populate_io_cache_on_flush", "Cassandra 2.0", "is left out"),
    ("replicate_on_write", "Cassandra 2.0", "is left out"),
    ("tombstone_gc", "ScyllaDB", "is left out"),
    ("per_partition_rate_limit", "ScyllaDB", "is left out"),
    ("paxos_grace_seconds", "ScyllaDB", "is left out"),
    ("synchronous_updates", "ScyllaDB", "is left out: views always are up to date"),
    ("tablets", "ScyllaDB", "is left out"),
    ("nodesync", "DSE", "is left out"),
];
/// Values of `caching` in 1.2 and 2.0: name, setting for keys, setting for rows.
const OLD_CACHING: [(&str, &str, &str); 4] = [
    ("ALL", "ALL", "ALL"),
    ("KEYS_ONLY", "ALL", "NONE"),
    ("ROWS_ONLY", "NONE", "ALL"),
    ("NONE", "NONE", "NONE"),
];

/// Returns the product that has the option, and how the option is treated.
pub fn foreign_option(name: &str) -> Option<(&'static str, &'static str)> {
    let found = FOREIGN_OPTIONS.iter().find(|(option, ..)| *option == name);
    found.map(|(_, product, treatment)| (*product, *treatment))
}

/// Reads `caching` as releases before 3.0 wrote it: one word, or JSON.
pub(super) fn old_caching(text: &str) -> Option<BTreeMap<String, String>> {
    if let Some((_, keys, rows)) = OLD_CACHING.iter().find(|(w, ..)| w.eq_ignore_ascii_case(text)) {
        let pairs = [("keys", *keys), ("rows_per_partition", *rows)];
        return Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
    serde_json::from_str(text).ok()
}
