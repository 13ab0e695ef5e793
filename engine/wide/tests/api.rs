//! The operations beyond the recordings: schema changes while there is data, reopening, pages,
//! tokens, custom comparators, and all texts that the vectors do not have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_crash::{CrashEnv, Cut, FaultEnv, OpClass};
use firn_kv::DbOptions;
use firn_testkit::rng::Rng;
use firn_wide::*;
use firn_wide::{CfDef, ColumnDef, KsDef};

fn options() -> Options {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    Options {
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    }
}

fn open(env: &CrashEnv, options: Options) -> Result<Wide> {
    Wide::open_in(Arc::new(env.clone()), "/wide", options)
}

fn utf8(name: &str) -> CfDef {
    CfDef { comparator_type: "UTF8Type".into(), ..CfDef::new("K", name) }
}

fn with(families: Vec<CfDef>) -> Keyspace {
    let wide = open(&CrashEnv::new(1), options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    wide.keyspace("K").unwrap()
}

fn why<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::InvalidRequest(why) | Error::Configuration(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn definitions_and_data_survive_reopening() {
    let env = CrashEnv::new(1);
    let version = {
        let wide = open(
            &env,
            Options {
                partitioner: Some("RandomPartitioner".into()),
                cluster_name: Some("C".into()),
                ..options()
            },
        )
        .unwrap();
        wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        let version = wide.system_add_column_family(&utf8("F")).unwrap();
        wide.keyspace("K")
            .unwrap()
            .family("F")
            .unwrap()
            .row("key")
            .insert("name", "value")
            .unwrap();
        version
    };
    let wide = open(&env, options()).unwrap();
    assert_eq!(wide.describe_partitioner(), "org.apache.cassandra.dht.RandomPartitioner");
    assert_eq!(wide.describe_cluster_name(), "C");
    assert_eq!(
        wide.describe_schema_versions().into_keys().collect::<Vec<_>>(),
        [version.to_string()]
    );
    let family = wide.keyspace("K").unwrap().family("F").unwrap();
    assert_eq!(family.row("key").value::<String>("name").unwrap().unwrap(), "value");
    drop((wide, family));
    let other = open(&env, Options { partitioner: Some("Murmur3Partitioner".into()), ..options() });
    let why = why(other);
    assert!(why.contains("created with RandomPartitioner"), "{why}");
}

#[test]
fn an_index_is_built_on_existing_data_and_dropped() {
    let ks = with(vec![utf8("F")]);
    let family = ks.family("F").unwrap();
    for i in 0..300 {
        family
            .row(format!("row {i}"))
            .insert("color", if i % 3 == 0 { "red" } else { "blue" })
            .unwrap();
    }
    assert_eq!(
        why(family.find().eq("color", "red").rows()),
        "No indexed columns present in index clause with operator EQ"
    );
    let mut def = ks.wide().describe_keyspace("K").unwrap().cf_defs.remove(0);
    let without = def.clone();
    def.column_metadata = vec![ColumnDef::new("color", "UTF8Type").indexed()];
    ks.wide().system_update_column_family(&def).unwrap();
    assert_eq!(family.find().eq("color", "red").rows().unwrap().len(), 100);
    family.row("row 0").insert("color", "blue").unwrap();
    family.rebuild_index("color").unwrap();
    assert_eq!(family.find().eq("color", "red").rows().unwrap().len(), 99);
    assert_eq!(family.find().eq("color", "blue").rows().unwrap().len(), 201);
    assert_eq!(why(family.rebuild_index("size")), "there is no index on the column size of F");
    ks.wide().system_update_column_family(&without).unwrap();
    assert_eq!(
        why(family.find().eq("color", "red").rows()),
        "No indexed columns present in index clause with operator EQ"
    );
    assert!(!ks.wide().store().db().tree_names().iter().any(|t| t.starts_with("ix-")));
}

#[test]
fn a_definition_says_how_a_family_is_stored() {
    let env = CrashEnv::new(1);
    let tree = |wide: &Wide| {
        let id = wide.schema().family("K", "F").unwrap().id();
        wide.store().family(id).unwrap().tree().clone()
    };
    let is_leveled = |wide: &Wide| {
        let o = tree(wide).options();
        matches!(o.policy, firn_kv::Policy::Leveled(_))
            && o.compression == [firn_kv::Compression::None]
    };
    let wide = open(&env, options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let row = |wide: &Wide| wide.keyspace("K").unwrap().family("F").unwrap().row("r");
    row(&wide).insert("a", "1").unwrap();
    tree(&wide).flush().unwrap();
    assert!(!is_leveled(&wide));
    let def = CfDef {
        compaction_strategy: "LeveledCompactionStrategy".into(),
        compression_options: Default::default(),
        ..wide.describe_keyspace("K").unwrap().cf_defs.remove(0)
    };
    wide.system_update_column_family(&def).unwrap();
    assert!(is_leveled(&wide));
    row(&wide).insert("b", "2").unwrap();
    tree(&wide).compact().unwrap();
    drop(wide);
    let wide = open(&env, options()).unwrap();
    assert!(is_leveled(&wide));
    assert_eq!(row(&wide).slice().count().unwrap(), 2);
}

#[test]
fn the_most_selective_index_drives_and_all_expressions_hold() {
    let metadata = ["common", "rare"].map(|c| ColumnDef::new(c, "UTF8Type").indexed()).to_vec();
    let ks = with(vec![CfDef { column_metadata: metadata, ..utf8("F") }]);
    let family = ks.family("F").unwrap();
    let mut batch = ks.batch();
    for i in 0..500_i64 {
        let row = family.row(i);
        batch.insert(&row, "common", "x").insert(&row, "n", format!("{i:03}"));
        if i % 100 == 7 {
            batch.insert(&row, "rare", "y");
        }
    }
    batch.commit().unwrap();
    let find = || family.find().eq("common", "x").eq("rare", "y");
    let numbers = |find: Find| {
        let mut n: Vec<i64> =
            find.rows().unwrap().iter().map(|r| FromBytes::from_bytes(&r.key).unwrap()).collect();
        n.sort_unstable();
        n
    };
    assert_eq!(numbers(find()), [7, 107, 207, 307, 407]);
    assert_eq!(numbers(find().gt("n", "107").lte("n", "307")), [207, 307]);
    assert_eq!(find().limit(2).rows().unwrap().len(), 2);
    assert_eq!(numbers(family.find().eq("common", "x").lt("n", "003")), [0, 1, 2]);
}

#[test]
fn a_family_that_is_dropped_and_created_again_is_empty() {
    let ks = with(vec![utf8("F"), utf8("G")]);
    let family = ks.family("F").unwrap();
    family.row("k").insert("n", "v").unwrap();
    ks.wide().system_drop_column_family("K", "F").unwrap();
    assert_eq!(why(family.row("k").insert("n", "v")), "unconfigured columnfamily F");
    ks.wide().system_add_column_family(&utf8("F")).unwrap();
    assert_eq!(family.row("k").get("n").unwrap(), None);
    ks.wide().system_drop_keyspace("K").unwrap();
    assert_eq!(why(family.row("k").get("n")), "Keyspace K does not exist");
    assert!(matches!(ks.wide().describe_keyspace("K"), Err(Error::NotFound)));
    assert!(!ks.wide().store().db().tree_names().iter().any(|t| t.starts_with("cf-")));
}

#[test]
fn a_comparator_may_become_one_that_sorts_alike() {
    let ks = with(vec![utf8("F")]);
    let family = ks.family("F").unwrap();
    family.row("k").insert("n", "v").unwrap();
    assert_eq!(why(family.row("k").insert([0xFF_u8], "v")), "String didn't validate.");
    let mut def = ks.wide().describe_keyspace("K").unwrap().cf_defs.remove(0);
    def.comparator_type = "BytesType".into();
    ks.wide().system_update_column_family(&def).unwrap();
    family.row("k").insert([0xFF_u8], "v").unwrap();
    assert_eq!(family.row("k").slice().count().unwrap(), 2);
    def.comparator_type = "LongType".into();
    assert_eq!(
        why(ks.wide().system_update_column_family(&def)),
        "comparators do not match or are not compatible."
    );
}

#[test]
fn a_refused_batch_writes_nothing_and_a_good_one_everything() {
    let ks =
        with(vec![utf8("F"), CfDef { comparator_type: "LongType".into(), ..CfDef::new("K", "L") }]);
    let (f, l) = (ks.family("F").unwrap(), ks.family("L").unwrap());
    let mut bad = ks.batch();
    bad.insert(&f.row("a"), "n", "v").insert(&l.row("b"), "abc", "v");
    assert_eq!(why(bad.commit()), "Expected 8 or 0 byte long (3)");
    assert_eq!(f.rows().iter().unwrap().count(), 0);
    let mut good = ks.batch();
    good.insert(&f.row("a"), "n", "v").insert(&l.row("b"), 1_i64, "v");
    good.commit().unwrap();
    assert_eq!((f.rows().iter().unwrap().count(), l.rows().iter().unwrap().count()), (1, 1));
}

#[test]
fn pages_of_columns_and_key_ranges() {
    let env = CrashEnv::new(1);
    let wide =
        open(&env, Options { partitioner: Some("ByteOrderedPartitioner".into()), ..options() })
            .unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let ks = wide.keyspace("K").unwrap();
    let family = ks.family("F").unwrap();
    for key in ["a", "b", "c"] {
        for name in 0..4 {
            family.row(key).insert(format!("n{name}"), "v").unwrap();
        }
    }
    family.row("bb").at(1).delete("ghost").unwrap();
    let page = |key: &str, column: &str, count| {
        let rows = ks
            .get_paged_slice("F", &KeyRange::keys(key, "").count(count), column.as_bytes())
            .unwrap();
        rows.into_iter()
            .map(|r| (String::from_utf8(r.key).unwrap(), r.columns.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(page("", "", 6), [("a".into(), 4), ("b".into(), 2)]);
    assert_eq!(page("b", "n1", 6), [("b".into(), 3), ("c".into(), 3)]);
    assert_eq!(page("c", "n3", 6), [("c".into(), 1)]);
    assert_eq!(ks.get_key_range("F", b"a", b"bz", 10).unwrap(), [b"a", b"b"]);
    assert_eq!(ks.get_key_range("F", b"", b"", 2).unwrap(), [b"a", b"b"]);
    let keys = |rows: Rows| {
        rows.iter().unwrap().map(|r| String::from_utf8(r.unwrap().key).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(keys(family.rows().from("b")), ["b", "c"]);
    assert_eq!(keys(family.rows().to("b").columns(1)), ["a", "b"]);
    let splits = ks.describe_splits("F", "", "", 2).unwrap();
    assert_eq!(splits, ["", "62", ""]);
    let several = ks.multiget(&["a", "b", "x"], &ColumnPath::new("F").column("n1")).unwrap();
    assert_eq!(several.into_keys().collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn one_call_sees_one_state_and_counts_add_up() {
    let counters = CfDef { default_validation_class: "CounterColumnType".into(), ..utf8("C") };
    let ks = with(vec![counters]);
    let row = ks.family("C").unwrap().row("song");
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..200).for_each(|_| row.add("likes", 1).unwrap()));
        }
    });
    assert_eq!(row.counter("likes").unwrap(), 800);
    assert_eq!(row.slice().counters().unwrap(), [CounterColumn::new("likes", 800)]);
    assert_eq!(
        why(row.slice().columns().map(|_| ())),
        "invalid operation for commutative columnfamily C"
    );
    row.delete_all().unwrap();
    assert_eq!(row.counter("likes").unwrap(), 0);
}

#[test]
fn too_long_input_is_refused() {
    let ks = with(vec![utf8("F"), CfDef { column_type: "Super".into(), ..utf8("S") }]);
    let long = vec![b'n'; 65_536];
    let row = ks.family("S").unwrap().row("k").super_column(&long);
    assert_eq!(why(row.insert("n", "v")), "column name length must not be greater than 65535");
    assert_eq!(why(row.get("n")), "supercolumn name length must not be greater than 65535");
    let indexed =
        CfDef { column_metadata: vec![ColumnDef::new("i", "BytesType").indexed()], ..utf8("I") };
    ks.wide().system_add_column_family(&indexed).unwrap();
    let family = ks.family("I").unwrap();
    let refused = why(family.row("k").insert("i", vec![0_u8; 65_536]));
    assert_eq!(refused, "Can't index column value of size 65536 for index I_i_idx in CF I of KS K");
    let clause =
        IndexClause::new([IndexExpression::new("i", IndexOperator::Eq, vec![0_u8; 65_536])]);
    let found = ks.get_indexed_slices(&ColumnParent::new("I"), &clause, &SlicePredicate::all());
    assert_eq!(why(found), "Index expression values may not be larger than 64K");
}

#[test]
fn wrong_shapes_are_refused_when_decoded() {
    let column = || Some(Column::new("n", "v", 1));
    let one = "ColumnOrSuperColumn must have one (and only one) of column, super_column, counter and counter_super_column";
    assert_eq!(why(ColumnOrSuperColumn::from_parts(None, None, None, None)), one);
    let counter = Some(CounterColumn::new("n", 1));
    assert_eq!(why(ColumnOrSuperColumn::from_parts(column(), None, counter, None)), one);
    let neither = Deletion::from_parts(Some(1), None, Some((None, None)));
    assert_eq!(
        why(neither),
        "A SlicePredicate must be given a list of Columns, a SliceRange, or both"
    );
    let write = column().map(ColumnOrSuperColumn::Column);
    let both = Mutation::from_parts(write, Some(Deletion::row(1)));
    assert_eq!(
        why(both),
        "mutation must have one and only one of column_or_supercolumn or deletion"
    );
}

#[test]
fn super_families_have_no_index_queries() {
    let ks = with(vec![CfDef { column_type: "Super".into(), ..utf8("S") }]);
    let clause = IndexClause::new([IndexExpression::new("a", IndexOperator::Eq, "b")]);
    let found = ks.get_indexed_slices(&ColumnParent::new("S"), &clause, &SlicePredicate::all());
    assert_eq!(why(found), "super columns are not supported for indexing");
    let range = KeyRange::default().filter(clause.expressions[0].clone());
    let found = ks.get_range_slices(&ColumnParent::new("S"), &SlicePredicate::all(), &range);
    assert_eq!(why(found), "super columns are not supported for indexing");
}

fn with_old_indexed() -> CfDef {
    CfDef { column_metadata: vec![ColumnDef::new("old", "UTF8Type").indexed()], ..utf8("F") }
}

#[test]
fn an_index_without_a_name_may_be_over_a_column_of_any_name() {
    let env = CrashEnv::new(1);
    for (n, len) in [40, 48, 60, 65_535].into_iter().enumerate() {
        let wide = open(&env, options()).unwrap();
        if n == 0 {
            wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        }
        let name = "n".repeat(len);
        let columns = vec![ColumnDef::new(name.clone(), "UTF8Type").indexed()];
        let family = format!("F{len}");
        wide.system_add_column_family(&CfDef { column_metadata: columns, ..utf8(&family) })
            .unwrap();
        wide.keyspace("K").unwrap().family(&family).unwrap().row("r").insert(&name, "v").unwrap();
        drop(wide);
        let wide = open(&env, options()).unwrap();
        let found = wide
            .keyspace("K")
            .unwrap()
            .family(&family)
            .unwrap()
            .find()
            .eq(&name, "v")
            .rows()
            .unwrap();
        assert_eq!(found.len(), 1, "{len}");
        let definition = wide
            .describe_keyspace("K")
            .unwrap()
            .cf_defs
            .into_iter()
            .find(|d| d.name == family)
            .unwrap();
        assert_eq!(definition.column_metadata[0].index_name, Some(format!("{family}_{name}_idx")));
    }
    // An explicit name must be short.
    let wide = open(&env, options()).unwrap();
    let column =
        ColumnDef { index_name: Some("i".repeat(49)), ..ColumnDef::new("n", "UTF8Type").indexed() };
    let refused =
        why(wide.system_add_column_family(&CfDef { column_metadata: vec![column], ..utf8("G") }));
    assert_eq!(refused, format!("Illegal index name {}", "i".repeat(49)));
}

#[test]
fn an_index_that_cannot_be_built_is_refused_and_leaves_nothing() {
    let env = CrashEnv::new(1);
    let wide = open(&env, options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let family = wide.keyspace("K").unwrap().family("F").unwrap();
    family.row("long").insert("old", "x".repeat(530_000)).unwrap();
    family.row("short").insert("old", "v").unwrap();
    let refused = why(wide.system_update_column_family(&with_old_indexed()));
    assert!(refused.starts_with("Cannot index value of size 530000: "), "{refused}");
    assert!(!wide.schema().family("K", "F").unwrap().has_indexes());
    assert!(!wide.store().db().tree_names().iter().any(|t| t.starts_with("ix-")));
    // Neither the open database nor a reopened one has it.
    family.row("long").insert("old", "y".repeat(530_000)).unwrap();
    drop((wide, family));
    env.advance(Duration::from_secs(1));
    let wide = open(&env, options()).unwrap();
    let family = wide.keyspace("K").unwrap().family("F").unwrap();
    family.row("long").delete("old").unwrap();
    wide.system_update_column_family(&with_old_indexed()).unwrap();
    assert_eq!(family.find().eq("old", "v").rows().unwrap().len(), 1);
    let refused = why(family.row("long").insert("old", "y".repeat(65_536)));
    assert_eq!(
        refused,
        "Can't index column value of size 65536 for index F_old_idx in CF F of KS K"
    );
}

/// Creates, changes and drops definitions while there is data.
fn change_definitions(env: &CrashEnv) {
    let wide = open(env, options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F"), utf8("G")], ..KsDef::new("K") })
        .unwrap();
    let family = wide.keyspace("K").unwrap().family("F").unwrap();
    for i in 0..20_i64 {
        family.row(i).insert("old", "v").unwrap();
    }
    wide.system_update_column_family(&with_old_indexed()).unwrap();
    family.row(0_i64).insert("old", "w").unwrap();
    wide.system_update_column_family(&utf8("F")).unwrap();
    wide.system_drop_column_family("K", "F").unwrap();
    wide.system_add_column_family(&utf8("F")).unwrap();
    family.row(0_i64).insert("new", "v").unwrap();
    wide.system_drop_keyspace("K").unwrap();
}

#[test]
fn a_crash_between_changes_of_definitions_leaves_one_of_the_states() {
    let env = CrashEnv::new(1);
    env.start_journal();
    change_definitions(&env);
    let (ops, mut rng, mut shapes) =
        (env.journal_len(), Rng::new(7), std::collections::BTreeSet::new());
    for _ in 0..150 {
        let cut = match rng.below(3) {
            0 => Cut::Process,
            1 => Cut::PowerNone,
            _ => Cut::PowerRandom(rng.next_u64()),
        };
        let image = env.crash_image(rng.below(ops as u64 + 1) as usize, &cut);
        let wide = open(&image, options()).unwrap();
        let (schema, trees) = (wide.schema(), wide.store().db().tree_names());
        let count = |prefix: &str| trees.iter().filter(|t| t.starts_with(prefix)).count();
        assert_eq!(count("cf-"), schema.families().count());
        assert_eq!(count("ix-"), schema.families().flat_map(|f| f.indexes()).count());
        let Ok(ks) = wide.keyspace("K") else {
            shapes.insert((0, false, 0));
            continue;
        };
        let Ok(family) = ks.family("F") else {
            shapes.insert((1, false, 0));
            continue;
        };
        let rows: Vec<KeySlice> = family.rows().iter().unwrap().map(|r| r.unwrap()).collect();
        let names = |name: &str| {
            rows.iter().filter(|r| r.columns.iter().any(|c| c.name() == name.as_bytes())).count()
        };
        let (old, new) = (names("old"), names("new"));
        assert!(old == 0 || new == 0, "a family that was created again has {old} old rows");
        let is_indexed = schema.family("K", "F").unwrap().has_indexes();
        // An index whose build was interrupted is rebuilt.
        wide.system_update_column_family(&with_old_indexed()).unwrap();
        let found = |v: &str| family.find().eq("old", v).rows().unwrap().len();
        assert_eq!(found("v") + found("w"), old);
        shapes.insert((2 + usize::from(old > 0) + 2 * new, is_indexed, usize::from(old == 20)));
        family.row(99_i64).insert("late", "v").unwrap();
        wide.system_add_column_family(&utf8("H")).unwrap();
    }
    assert!(shapes.len() >= 6, "{shapes:?}");
}

/// Returns the number of rows that an index finds, or the error.
fn found(ks: &Keyspace, value: &str) -> Result<usize> {
    Ok(ks.family("F")?.find().eq("v", value).limit(10_000).rows()?.len())
}

fn indexed() -> CfDef {
    let index_type = Some(firn_wide::IndexType::Keys);
    let column = ColumnDef { index_type, ..ColumnDef::new("v", "UTF8Type") };
    CfDef { column_metadata: vec![column], ..utf8("F") }
}

fn is_stopped<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
}

#[test]
fn a_stopped_build_ends_early_and_leaves_no_index() {
    let env = CrashEnv::new(1);
    let wide = open(&env, options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let ks = wide.keyspace("K").unwrap();
    for i in 0..100 {
        ks.family("F").unwrap().row(format!("r{i}")).insert("v", (i % 2).to_string()).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(true));
    let hasty = wide.stoppable(stop.clone());
    let there = hasty.keyspace("K").unwrap();
    let (parent, all) = (ColumnParent::new("F"), SlicePredicate::all());
    is_stopped(there.get_slice(b"r1", &parent, &all));
    is_stopped(there.get_count(b"r1", &parent, &all));
    is_stopped(there.get_range_slices(&parent, &all, &KeyRange::keys("", "")));
    // Other handles can read, and writes are not stopped.
    assert_eq!(ks.get_slice(b"r1", &parent, &all).unwrap().len(), 1);
    there.family("F").unwrap().row("r100").insert("v", "0").unwrap();

    let trees = || wide.store().db().tree_names();
    let (before, unindexed) = (trees(), why(found(&ks, "1")));
    is_stopped(hasty.system_update_column_family(&indexed()));
    assert_eq!(trees(), before);
    assert_eq!(why(found(&ks, "1")), unindexed);
    stop.store(false, Ordering::Relaxed);
    hasty.system_update_column_family(&indexed()).unwrap();
    assert_eq!((found(&ks, "1").unwrap(), found(&there, "0").unwrap()), (50, 51));

    // An index that is being rebuilt answers no queries before it is built.
    stop.store(true, Ordering::Relaxed);
    is_stopped(found(&there, "1"));
    is_stopped(there.family("F").unwrap().rebuild_index("v"));
    assert!(why(found(&ks, "1")).contains("is being built"));
    wide.close().unwrap();
    let again = open(&env, options()).unwrap();
    assert_eq!(found(&again.keyspace("K").unwrap(), "1").unwrap(), 50);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn an_index_that_is_stopped_in_the_middle_is_whole_or_is_not_there() {
    let wide = open(&CrashEnv::new(1), options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let ks = wide.keyspace("K").unwrap();
    for i in 0..500 {
        ks.family("F").unwrap().row(format!("r{i}")).insert("v", "1").unwrap();
    }
    let unindexed = why(found(&ks, "1"));
    for _ in 0..5 {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
        let hasty = wide.stoppable(stop.clone());
        std::thread::scope(|threads| {
            threads.spawn(|| {
                // As soon as there is an entry.
                let db = wide.store().db();
                let is_begun = || {
                    let names = db.tree_names();
                    let tree = names.iter().find(|n| n.starts_with("ix-"));
                    tree.and_then(|n| db.existing_tree(n).ok())
                        .is_some_and(|t| t.len().is_ok_and(|n| n > 0))
                };
                while !done.load(Ordering::Relaxed) && !is_begun() {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
            let built = hasty.system_update_column_family(&indexed());
            done.store(true, Ordering::Relaxed);
            match built {
                Ok(_) => assert_eq!(found(&ks, "1").unwrap(), 500),
                stopped => {
                    is_stopped(stopped);
                    assert_eq!(why(found(&ks, "1")), unindexed);
                    assert!(wide.store().db().tree_names().iter().all(|n| !n.starts_with("ix-")));
                }
            }
        });
        wide.system_update_column_family(&utf8("F")).unwrap();
    }
}

#[test]
fn a_keyspace_of_many_families_is_synced_as_often_as_one_of_few() {
    let syncs = |families: usize| {
        let env = FaultEnv::new(Arc::new(CrashEnv::new(1)));
        env.only(&[OpClass::Sync]);
        let wide = Wide::open_in(Arc::new(env.clone()), "/wide", options()).unwrap();
        let before = env.count();
        let cf_defs = (0..families).map(|n| CfDef { name: format!("F{n}"), ..indexed() }).collect();
        wide.system_add_keyspace(&KsDef { cf_defs, ..KsDef::new("K") }).unwrap();
        let syncs = env.count() - before;
        let keyspace = wide.keyspace("K").unwrap();
        (0..families).for_each(|n| {
            keyspace.family(&format!("F{n}")).unwrap().row("r").insert("v", "1").unwrap()
        });
        assert_eq!(wide.store().db().tree_names().len(), 1 + 2 * families);
        syncs
    };
    assert_eq!(syncs(2), syncs(100), "with an index each");
}

#[test]
fn a_database_is_closed_for_all_its_handles() {
    let env = CrashEnv::new(1);
    let wide = open(&env, options()).unwrap();
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    let row = wide.keyspace("K").unwrap().family("F").unwrap().row("r");
    row.insert("v", "1").unwrap();
    wide.clone().close().unwrap();
    wide.close().unwrap();
    let closed = |e: Error| matches!(e, Error::Store(e) if e.kind() == firn_kv::ErrorKind::Closed);
    assert!(
        closed(row.insert("v", "2").unwrap_err()) && closed(row.value::<String>("v").unwrap_err())
    );
    assert!(closed(wide.system_add_column_family(&utf8("G")).unwrap_err()));
    // While the old handles exist.
    let again = open(&env, options()).unwrap();
    assert_eq!(
        again
            .keyspace("K")
            .unwrap()
            .family("F")
            .unwrap()
            .row("r")
            .value::<String>("v")
            .unwrap()
            .unwrap(),
        "1"
    );
}

/// A write with an earlier clock loses against existing data by its timestamp: an opening reports
/// that.
#[test]
fn a_clock_that_went_back_is_known_at_the_next_opening() {
    let (env, clock) = (CrashEnv::new(1), Arc::new(ManualClock::new(1_700_000_000_000_000)));
    let day = 86_400_000_000;
    let opened = || {
        let mut o = options();
        o.store.clock = Some(clock.clone());
        open(&env, o).unwrap()
    };
    let wide = opened();
    assert_eq!(wide.store().ahead_of_clock(), None, "an empty store");
    wide.system_add_keyspace(&KsDef { cf_defs: vec![utf8("F")], ..KsDef::new("K") }).unwrap();
    wide.keyspace("K").unwrap().family("F").unwrap().row("k").insert("c", "v").unwrap();
    assert_eq!(wide.store().ahead_of_clock(), None);
    drop(wide);
    assert_eq!(opened().store().ahead_of_clock(), None, "the bound on record is ahead by itself");
    clock.set(1_700_000_000_000_000 - day);
    let ahead = opened().store().ahead_of_clock().unwrap();
    assert!((day - 10_000_000..=day).contains(&ahead), "{ahead}");
    clock.set(1_700_000_000_000_000 + day);
    assert_eq!(opened().store().ahead_of_clock(), None);
}
