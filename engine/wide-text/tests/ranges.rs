//! Range deletions as printed by sstabledump.

use std::sync::Arc;

use firn_kv::MemEnv;
use firn_wide::*;
use firn_wide_text::json::{Times, dump};

/// Calls delete ranges of a column family's names, possibly unbounded, and of prefixes of composite
/// names.
#[test]
fn ranges_that_calls_delete_are_dumped() {
    let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "/wide", Options::default()).unwrap();
    wide.system_add_keyspace(&KsDef::new("K")).unwrap();
    let composite = "CompositeType(UTF8Type,LongType)";
    for (name, column_type, comparator) in
        [("F", "Standard", "UTF8Type"), ("S", "Super", "UTF8Type"), ("C", "Standard", composite)]
    {
        let is_super = column_type == "Super";
        wide.system_add_column_family(&CfDef {
            column_type: column_type.into(),
            comparator_type: comparator.into(),
            subcomparator_type: is_super.then(|| "UTF8Type".into()),
            ..CfDef::new("K", name)
        })
        .unwrap();
    }
    let keyspace = wide.keyspace("K").unwrap();
    let name = |parts: &[&[u8]], end: u8| {
        let mut out = vec![];
        for (i, part) in parts.iter().enumerate() {
            out.extend((part.len() as u16).to_be_bytes());
            out.extend_from_slice(part);
            out.push(if i + 1 == parts.len() { end } else { 0 });
        }
        out
    };
    let five: &[u8] = &5i64.to_be_bytes();
    let range = |start: &[u8], finish: &[u8]| SliceRange {
        start: start.into(),
        finish: finish.into(),
        ..SliceRange::default()
    };
    let cases = [
        ("F", None, range(b"", b"c"), r#"["*"]|inclusive ["c"]|inclusive"#),
        ("F", None, range(b"a", b""), r#"["a"]|inclusive ["*"]|inclusive"#),
        ("S", None, range(b"s", b"t"), r#"["s"]|inclusive ["t"]|inclusive"#),
        ("S", Some("s"), range(b"", b"c"), r#"["s"]|inclusive ["s", "c"]|inclusive"#),
        ("S", Some("s"), range(b"b", b""), r#"["s", "b"]|inclusive ["s"]|inclusive"#),
        (
            "C",
            None,
            range(&name(&[b"a", five], 0), &name(&[b"b"], 1)),
            r#"["a", "5"]|inclusive ["b"]|inclusive"#,
        ),
    ];
    for (family, super_column, range, shown) in cases {
        keyspace.truncate(family).unwrap();
        let deletion = Deletion {
            timestamp: Some(1),
            super_column: super_column.map(Into::into),
            predicate: Some(range.into()),
        };
        keyspace.batch_mutate(&[RowMutation::new("k", family, [deletion])]).unwrap();
        let dumped: serde_json::Value = {
            let mut out = vec![];
            dump(&wide, "K", family, Times::Dates, &mut out).unwrap();
            serde_json::from_slice(&out).unwrap()
        };
        let rows = dumped[0]["rows"].as_array().unwrap();
        let bound = |row: &serde_json::Value, side: &str| {
            let parts: Vec<_> =
                row[side]["clustering"].as_array().unwrap().iter().map(|p| p.to_string()).collect();
            format!("[{}]|{}", parts.join(", "), row[side]["type"].as_str().unwrap())
        };
        assert_eq!(format!("{} {}", bound(&rows[0], "start"), bound(&rows[1], "end")), shown);
    }
}
