//! Effects of the attributes of a family: the default TTL of columns. Every accepted attribute is
//! described again, also after reopening the store.

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::*;

struct Opened {
    wide: Wide,
    clock: Arc<ManualClock>,
}

fn open(env: &MemEnv, seconds: i64) -> Opened {
    let clock = Arc::new(ManualClock::new(seconds * 1_000_000));
    let db = DbOptions { background_threads: 0, ..DbOptions::default() };
    let store = StoreOptions { db, clock: Some(clock.clone()), ..StoreOptions::default() };
    let options = Options { store, ..Options::default() };
    Opened { wide: Wide::open_in(Arc::new(env.clone()), "/wide", options).unwrap(), clock }
}

fn why<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::InvalidRequest(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_way_to_write_a_column_gives_it_the_default_time_to_live() {
    let opened = open(&MemEnv::new(1), 1_700_000_000);
    opened.wide.system_add_keyspace(&KsDef::new("K")).unwrap();
    let brief = CfDef { default_time_to_live: 20, ..CfDef::new("K", "F") };
    opened.wide.system_add_column_family(&brief).unwrap();
    let supers = CfDef { column_type: "Super".into(), ..brief.clone() };
    opened.wide.system_add_column_family(&CfDef { name: "S".into(), ..supers }).unwrap();
    let ks = opened.wide.keyspace("K").unwrap();
    let (f, s) = (ColumnParent::new("F"), ColumnParent::new("S"));

    ks.insert(b"r", &f, &Column::new("insert", "v", 1)).unwrap();
    ks.insert(b"r", &f, &Column::new("forever", "v", 1).ttl(0)).unwrap();
    ks.insert(b"r", &f, &Column::new("longer", "v", 1).ttl(60)).unwrap();
    let batch = ["batch", "batch too"].map(|name| Column::new(name, "v", 1));
    ks.batch_mutate(&[RowMutation::new("r", "F", batch)]).unwrap();
    ks.insert(b"r", &s.clone().super_column("s"), &Column::new("insert", "v", 1)).unwrap();
    let inner = SuperColumn::new("s", [Column::new("batch", "v", 1)]);
    ks.batch_mutate(&[RowMutation::new("r", "S", [inner])]).unwrap();
    ks.family("F").unwrap().row("r").insert("builder", "v").unwrap();
    let mut chunks =
        firn_wide::internals::api::Chunks::new(&ks, "F", 10, opened.wide.durability()).unwrap();
    let loaded = [("loaded", "v")].map(|(n, v)| Ok((n.as_bytes().into(), v.as_bytes().into())));
    chunks.record(b"r", None, loaded.into_iter()).unwrap();
    chunks.flush().unwrap();

    let left = |parent: &ColumnParent| -> Vec<(String, Option<i32>)> {
        let found = ks.get_slice(b"r", parent, &SlicePredicate::all()).unwrap();
        let columns = found.iter().filter_map(ColumnOrSuperColumn::column);
        columns.map(|c| (String::from_utf8(c.name.clone()).unwrap(), c.ttl)).collect()
    };
    let of = |name: &str, ttl: Option<i32>| (name.to_owned(), ttl);
    let brief = ["batch", "batch too", "builder"].map(|name| of(name, Some(20)));
    let lasting = [of("forever", None), of("insert", Some(20)), of("loaded", Some(20))];
    assert_eq!(left(&f), [&brief[..], &lasting, &[of("longer", Some(60))]].concat());
    let inside = s.super_column("s");
    assert_eq!(left(&inside), [of("batch", Some(20)), of("insert", Some(20))]);
    opened.clock.advance(21_000_000);
    assert_eq!(left(&f), [of("forever", None), of("longer", Some(60))]);
    assert_eq!(left(&inside), []);
    assert_eq!(
        why(ks.insert(b"r", &f, &Column::new("c", "v", 1).ttl(-1))),
        "ttl must be greater or equal to 0"
    );
}

#[test]
fn attributes_are_described_as_they_were_defined_or_are_refused() {
    let env = MemEnv::new(1);
    let full = CfDef {
        default_time_to_live: 100,
        speculative_retry: Some("99PERCENTILE".into()),
        memtable_flush_period_in_ms: Some(60_000),
        min_index_interval: Some(64),
        max_index_interval: Some(512),
        cells_per_row_to_cache: Some("ALL".into()),
        ..CfDef::new("K", "F")
    };
    let describe = |wide: &Wide| wide.describe_keyspace("K").unwrap().cf_defs.remove(0);
    let said = |def: &CfDef| {
        let CfDef { speculative_retry, cells_per_row_to_cache, .. } = def.clone();
        let numbers = [
            Some(def.default_time_to_live),
            def.memtable_flush_period_in_ms,
            def.min_index_interval,
            def.max_index_interval,
        ];
        (numbers, speculative_retry, cells_per_row_to_cache)
    };
    {
        let opened = open(&env, 1);
        opened.wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        opened.wide.system_add_column_family(&full).unwrap();
        let described = describe(&opened.wide);
        assert_eq!(said(&described), said(&full));
        let plain = CfDef::new("K", "F");
        opened.wide.system_update_column_family(&plain).unwrap();
        assert_eq!(said(&describe(&opened.wide)), said(&plain));
        opened.wide.system_update_column_family(&full).unwrap();
        let refused = |def: CfDef| why(opened.wide.system_update_column_family(&def));
        for (ttl, text) in [
            (-5, "default_time_to_live must be greater than or equal to 0 (got -5)"),
            (
                MAX_TTL + 1,
                "default_time_to_live must be less than or equal to 630720000 (got 630720001)",
            ),
        ] {
            assert_eq!(refused(CfDef { default_time_to_live: ttl, ..full.clone() }), text);
        }
        assert_eq!(
            refused(CfDef { memtable_flush_period_in_ms: Some(-1), ..full.clone() }),
            "memtable_flush_period_in_ms must be greater than or equal to 0 (got -1)"
        );
        assert_eq!(
            refused(CfDef { min_index_interval: Some(0), ..full.clone() }),
            "min_index_interval must be greater than or equal to 1 (got 0)"
        );
        assert_eq!(
            refused(CfDef { min_index_interval: Some(600), ..full.clone() }),
            "max_index_interval must be greater than or equal to min_index_interval (600) (got 512)"
        );
        for wrong in ["", "p", "-1ms", "101p", "soon"] {
            let text = format!("Invalid value {wrong} for option 'speculative_retry'");
            assert_eq!(
                refused(CfDef { speculative_retry: Some(wrong.into()), ..full.clone() }),
                text
            );
        }
        assert_eq!(
            refused(CfDef { cells_per_row_to_cache: Some("few".into()), ..full.clone() }),
            "Invalid value few for option 'cells_per_row_to_cache'"
        );
        let counters = CfDef {
            name: "C".into(),
            default_validation_class: "CounterColumnType".into(),
            ..full.clone()
        };
        assert_eq!(
            why(opened.wide.system_add_column_family(&counters)),
            "Cannot set default_time_to_live on a table with counters"
        );
    }
    assert_eq!(said(&describe(&open(&env, 2).wide)), said(&full));
}
