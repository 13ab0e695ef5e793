//! The statements for cells: their texts, timestamps, and remaining TTLs.

use super::common;

use std::collections::BTreeMap;

use common::Scratch;
use firn_cql::{BoundValue, Session};
use firn_kv::OsEnv;
use firn_migrate::report::CarriedLosses;
use firn_migrate::statement::{CellStatement, StatementWalk, TableStatements};
use firn_table_events::ExportedTable;
use firn_wide::internals::store::Partitions;

/// Returns the statements of a table, by text.
fn made(
    session: &Session,
    name: &str,
    later: i64,
    attempt: i64,
) -> (BTreeMap<String, Vec<CellStatement>>, CarriedLosses) {
    let engine = session.engine();
    let catalog = engine.fresh_catalog().unwrap();
    let schema = catalog.keyspace("k").unwrap().table(name).unwrap().clone();
    let (family, view) = (engine.family(&schema).unwrap(), engine.store().view());
    let table = ExportedTable::new(schema, family, view, engine.partitioner(), [7; 16]).unwrap();
    let statements = TableStatements::new(&table);
    let mut walk = StatementWalk::new(&statements);
    let (mut all, mut losses) = (BTreeMap::<_, Vec<_>>::new(), CarriedLosses::default());
    let now = (OsEnv::new().wall_micros() / 1_000_000) as i64 + later;
    table
        .each(&Partitions::all(), &mut |event| {
            let (_, made) = walk.event(event, now, attempt, &mut losses)?;
            for statement in made {
                all.entry(statement.text.to_string()).or_default().push(statement);
            }
            Ok(())
        })
        .unwrap();
    (all, losses)
}

fn timestamp(value: &BoundValue) -> i64 {
    i64::from_be_bytes(value.bytes().unwrap().try_into().unwrap())
}

fn seconds(value: &BoundValue) -> i32 {
    i32::from_be_bytes(value.bytes().unwrap().try_into().unwrap())
}

#[test]
fn cells_with_the_same_times_are_one_statement() {
    let dir = Scratch::new("statements");
    let session = Session::open(dir.0.join("store")).unwrap();
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int, c int, a int, b text, m map<int, int>, l list<int>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
        "INSERT INTO k.t (p, c, a, b) VALUES (1, 1, 2, 'x') USING TIMESTAMP 10",
        "UPDATE k.t USING TIMESTAMP 20 AND TTL 1000 SET b = 'y', m[1] = 1, m[2] = 2 WHERE p = 1 AND c = 1",
        "DELETE m[3], a FROM k.t USING TIMESTAMP 30 WHERE p = 1 AND c = 1",
        "UPDATE k.t USING TIMESTAMP 40 SET l = [1] WHERE p = 1 AND c = 1",
        "UPDATE k.t USING TIMESTAMP 41 SET l = l + [2] WHERE p = 1 AND c = 1",
        "DELETE FROM k.t USING TIMESTAMP 50 WHERE p = 1 AND c > 5 AND c <= 8",
        "DELETE FROM k.t USING TIMESTAMP 60 WHERE p = 2",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let (all, losses) = made(&session, "t", 0, 3);
    let texts: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        texts,
        [
            "DELETE FROM k.t USING TIMESTAMP ? WHERE p = ?",
            "DELETE FROM k.t USING TIMESTAMP ? WHERE p = ? AND c <= ? AND c > ?",
            "DELETE a FROM k.t USING TIMESTAMP ? WHERE p = ? AND c = ?",
            "DELETE m[?] FROM k.t USING TIMESTAMP ? WHERE p = ? AND c = ?",
            "INSERT INTO k.t (p, c) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?",
            "UPDATE k.t USING TIMESTAMP ? AND TTL ? SET a = ?, b = ?, m = m + ? WHERE p = ? AND c = ?",
            "UPDATE k.t USING TIMESTAMP ? AND TTL ? SET l = ? WHERE p = ? AND c = ?",
        ]
    );
    assert_eq!(losses, CarriedLosses { mixed_lists: 1, ..CarriedLosses::default() });
    // Data with timestamp 10 is deleted, except the row marker.
    let [set] = &*all[texts[5]] else { panic!("{all:?}") };
    assert_eq!((timestamp(&set.values[0]), set.cells), (20, 3));
    assert!((990..=1000).contains(&seconds(&set.values[1])), "{set:?}");
    assert_eq!(set.values[2], BoundValue::Unset);
    let [marker] = &*all[texts[4]] else { panic!("{all:?}") };
    assert_eq!((timestamp(&marker.values[2]), seconds(&marker.values[3])), (10, 0));
    // A list that may have been sent three times replaces the sent data.
    let [list] = &*all[texts[6]] else { panic!("{all:?}") };
    assert_eq!((timestamp(&list.values[0]), timestamp(&list.again().values[0])), (89, 90));
    assert_eq!(set.again(), *set);
    let [range] = &*all[texts[1]] else { panic!("{all:?}") };
    assert_eq!((seconds(&range.values[2]), seconds(&range.values[3])), (8, 5));

    // Expired cells are deletions.
    let (all, losses) = made(&session, "t", 2000, 0);
    assert_eq!(losses.ended, 3);
    assert!(!all.contains_key(texts[5]));
    assert_eq!(all[texts[3]].len(), 3);
}

#[test]
fn elements_of_lists_have_their_own_times_where_these_rise() {
    let dir = Scratch::new("lists");
    let session = Session::open(dir.0.join("store")).unwrap();
    for cql in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (p int PRIMARY KEY, l list<int>)",
        "UPDATE k.t USING TIMESTAMP 100 SET l = [1, 2] WHERE p = 1",
        "UPDATE k.t USING TIMESTAMP 200 AND TTL 1000 SET l = l + [3] WHERE p = 1",
        "UPDATE k.t USING TIMESTAMP 300 SET l = l + [4] WHERE p = 1",
        "UPDATE k.t USING TIMESTAMP 300 SET l = [1, 2] WHERE p = 2",
        "UPDATE k.t USING TIMESTAMP 310 AND TTL 1000 SET l = [0] + l WHERE p = 2",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let times = |of: &CellStatement| -> Vec<(i64, bool)> {
        let appends = of.appends.iter().map(|a| &a.1);
        let all = std::iter::once(&of.values).chain(appends);
        all.map(|values| (timestamp(&values[0]), seconds(&values[1]) > 0)).collect()
    };
    let key = |of: &CellStatement| seconds(of.values.last().unwrap());
    let lists = |attempt: i64| {
        let (mut all, losses) = made(&session, "t", 0, attempt);
        let lists = all.remove("UPDATE k.t USING TIMESTAMP ? AND TTL ? SET l = ? WHERE p = ?");
        let mut lists = lists.unwrap();
        lists.sort_by_key(key);
        assert!(lists.iter().all(|list| list.is_list));
        (lists, losses)
    };
    let (first, losses) = lists(0);
    assert_eq!(times(&first[0]), [(100, false), (200, true), (300, false)]);
    assert_eq!(
        &*first[0].appends[0].0,
        "UPDATE k.t USING TIMESTAMP ? AND TTL ? SET l = l + ? WHERE p = ?"
    );
    // The newest element is the first, so only TTLs are preserved.
    assert_eq!(times(&first[1]), [(309, true), (310, false)]);
    assert_eq!(losses, CarriedLosses { mixed_lists: 1, ..CarriedLosses::default() });
    // A repeated list is newer than everything sent before.
    assert_eq!(times(&first[0].again()), [(301, false), (302, true), (303, false)]);
    assert_eq!(times(&first[0].again().again()), [(304, false), (305, true), (306, false)]);
    assert_eq!(times(&lists(1).0[0]), [(1322, false), (1323, true), (1324, false)]);

    // A list with more runs is written as one.
    for n in 0..70 {
        let ttl = if n % 2 == 0 { 1000 } else { 0 };
        let cql = format!(
            "UPDATE k.t USING TIMESTAMP {} AND TTL {ttl} SET l = l + [{n}] WHERE p = 2",
            400 + n
        );
        session.execute(&cql, ()).unwrap();
    }
    let (whole, losses) = lists(0);
    assert_eq!(times(&whole[1]), [(469, false)]);
    assert_eq!((losses.whole_lists, losses.mixed_lists), (1, 0));
}
