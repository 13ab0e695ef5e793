//! Functions that Cassandra 5.0 added or removed, as found on 5.0.9 and 4.1.10.

/// Reports whether `word` is a function of Cassandra 5.0 that 4.1 does not have.
pub fn is_of_5(word: &str) -> bool {
    const NEW: [&str; 16] = [
        "abs",
        "exp",
        "log",
        "log10",
        "round",
        "map_keys",
        "map_values",
        "collection_count",
        "collection_min",
        "collection_max",
        "collection_sum",
        "collection_avg",
        "similarity_cosine",
        "similarity_euclidean",
        "similarity_dot_product",
        "maxwritetime",
    ];
    NEW.contains(&word) || older_name(word).is_some()
}

/// Returns the name of a function before 5.0, if 5.0 renamed it.
pub fn older_name(word: &str) -> Option<&'static str> {
    const RENAMED: [(&str, &str); 11] = [
        ("to_date", "toDate"),
        ("to_timestamp", "toTimestamp"),
        ("to_unix_timestamp", "toUnixTimestamp"),
        ("min_timeuuid", "minTimeuuid"),
        ("max_timeuuid", "maxTimeuuid"),
        ("current_timestamp", "currentTimestamp"),
        ("current_date", "currentDate"),
        ("current_time", "currentTime"),
        ("current_timeuuid", "currentTimeUUID"),
        ("to_json", "toJson"),
        ("from_json", "fromJson"),
    ];
    let of_blobs = word.starts_with("blob_as_") || word.ends_with("_as_blob");
    let known = RENAMED.iter().find(|(new, _)| *new == word).map(|(_, old)| *old);
    known.or(of_blobs.then_some("typeAsBlob or blobAsType"))
}

/// Returns the replacement of a function that 5.0 removed.
pub fn newer_name(word: &str) -> Option<&'static str> {
    match word {
        "dateof" => Some("toTimestamp"),
        "unixtimestampof" => Some("toUnixTimestamp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_map_to_old_ones() {
        assert_eq!(older_name("to_timestamp"), Some("toTimestamp"));
        assert!(is_of_5("int_as_blob") && is_of_5("abs") && is_of_5("current_date"));
        for old in ["todate", "intasblob", "now", "token", "count", "max", "uuid"] {
            assert!(!is_of_5(old) && newer_name(old).is_none(), "{old}");
        }
        assert_eq!(newer_name("dateof"), Some("toTimestamp"));
    }
}
