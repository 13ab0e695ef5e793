//! Row keys, super column names and column names of 65,535 bytes each, as JSON and in
//! cassandra-cli's language.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::*;
use firn_wide::{CfDef, KsDef};
use firn_wide_text::cli::{CliSession, CliSource};
use firn_wide_text::json::{ImportOptions, Notation, export, import};

fn open(env: &MemEnv) -> Wide {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 32 << 20,
        wal_segment: 1 << 20,
        ..DbOptions::default()
    };
    let options = Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    Wide::open_in(Arc::new(env.clone()), "/wide", options).unwrap()
}

/// Returns the longest key or name with this end, with bytes that take the most space in the
/// engine's keys: zeros separated by other bytes.
fn longest(end: u8) -> Vec<u8> {
    let mut name: Vec<u8> = (0..MAX_SHORT).map(|i| (i % 2) as u8).collect();
    name[MAX_SHORT - 1] = end;
    name
}

#[test]
fn the_longest_keys_and_names_are_exported_and_imported_again() {
    let wide = open(&MemEnv::new(1));
    let bytes = || "BytesType".to_owned();
    let standard = CfDef { comparator_type: bytes(), ..CfDef::new("K", "F") };
    let super_columns = CfDef {
        column_type: "Super".into(),
        comparator_type: bytes(),
        subcomparator_type: Some(bytes()),
        ..CfDef::new("K", "S")
    };
    wide.system_add_keyspace(&KsDef { cf_defs: vec![standard, super_columns], ..KsDef::new("K") })
        .unwrap();
    let ks = wide.keyspace("K").unwrap();
    for key in [1, 2] {
        for name in [1, 2] {
            ks.family("F").unwrap().row(longest(key)).at(7).insert(longest(name), [name]).unwrap();
            let row = ks.family("S").unwrap().row(longest(key)).super_column(longest(1));
            row.at(7).insert(longest(name), [name]).unwrap();
        }
    }
    let rows = || {
        ["F", "S"].map(|family| {
            ks.get_range_slices(
                &ColumnParent::new(family),
                &SlicePredicate::all(),
                &KeyRange::keys("", ""),
            )
            .unwrap()
        })
    };
    let before = rows();
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    let mut text = vec![];
    export(&wide, "K", &[], Notation::Full, &mut text).unwrap();
    for family in ["F", "S"] {
        ks.truncate(family).unwrap();
    }
    assert_eq!(rows(), [vec![], vec![]]);
    import(
        &ks,
        &text[..],
        &ImportOptions { timestamp: Some(7), ..ImportOptions::default() },
        &mut |_, _| {},
    )
    .unwrap();
    assert!(rows() == before);
}

#[test]
fn the_shell_of_the_article_takes_the_longest_keys_and_names() {
    let env = MemEnv::new(1);
    let mut session = CliSession::new(open(&env), Arc::new(env.clone()), false);
    let (key, name, more) = ("k".repeat(MAX_SHORT), "n".repeat(MAX_SHORT), "m".repeat(MAX_SHORT));
    let mut say = |statement: String| {
        let answer = session.run(&CliSource::new(statement));
        assert!(answer.failure.is_none(), "{:.300}", format!("{:?}", answer.failure));
        answer.text
    };
    say("create keyspace K".into());
    say("use K".into());
    let types = "comparator=UTF8Type and key_validation_class=UTF8Type and default_validation_class=UTF8Type";
    say(format!(
        "create column family S with column_type=Super and subcomparator=UTF8Type and {types}"
    ));
    say(format!("set S['{key}']['{name}']['{more}'] = 'v'"));
    assert!(say(format!("get S['{key}']['{name}']['{more}']")).contains("value=v"));
    assert!(say("list S".into()).contains(&format!("(super_column={name},")));
    say(format!("del S['{key}']['{name}']['{more}']"));
    assert!(!say(format!("get S['{key}']['{name}']")).contains("value=v"));
}
