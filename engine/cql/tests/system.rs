//! System tables as clients read them when they connect, through ordinary `SELECT`.

#![allow(clippy::disallowed_methods, reason = "it removes what it has made")]

use super::common;

use firn_cql::{Error, ResultKind, RunOptions, Session, TableAccess, Values};

fn session() -> Session {
    let session = Session::in_memory().unwrap();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE ks.address (street text, zips frozen<set<int>>)",
        "CREATE TABLE ks.t (a int, b text, c int, s int static, l list<int>, m map<text, frozen<address>>, \
         PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (b DESC, c ASC) AND comment = 'it''s'",
        "CREATE INDEX by_l ON ks.t (values(l))",
        "CREATE TABLE ks.n (a int, b int, n counter, PRIMARY KEY ((a, b)))",
        "ALTER TABLE ks.t ADD gone text",
        "ALTER TABLE ks.t DROP gone",
    ] {
        session.execute(cql, ()).unwrap();
    }
    session
}

/// Returns each row as the JSON of `SELECT JSON`.
fn json(session: &Session, cql: &str) -> Vec<String> {
    let rows = session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    rows.iter().map(|row| row.at::<String>(0).unwrap()).collect()
}

#[test]
fn every_system_table_is_read_whole_in_pages_and_by_its_columns() {
    let session = session();
    let tables =
        session.execute("SELECT keyspace_name, table_name FROM system_schema.tables", ()).unwrap();
    let mut all: Vec<(String, String)> = tables.typed().unwrap();
    let shown = session
        .execute("SELECT keyspace_name, table_name FROM system_virtual_schema.tables", ())
        .unwrap();
    all.extend(shown.typed::<(String, String)>().unwrap());
    all.retain(|(keyspace, _)| keyspace != "ks");
    assert!(all.len() > 30, "{}", all.len());
    for (keyspace, table) in all {
        let name = format!("{keyspace}.\"{table}\"");
        let whole = session.execute(&format!("SELECT * FROM {name}"), ()).unwrap();
        let mut paged = vec![];
        let mut how = RunOptions { page_size: Some(3), ..RunOptions::default() };
        loop {
            let page = session.execute_with(&format!("SELECT * FROM {name}"), (), &how).unwrap();
            let bytes = page.iter().map(|r| {
                (0..r.columns().len()).map(|i| r.bytes(i).map(<[u8]>::to_vec)).collect::<Vec<_>>()
            });
            paged.extend(bytes);
            how.paging = page.paging().cloned();
            if how.paging.is_none() {
                break;
            }
        }
        assert_eq!(paged.len(), whole.len(), "{name}");
        for (row, cells) in whole.iter().zip(&paged) {
            let volatile = ["gossip_generation", "hit_count", "request_count", "hit_ratio"];
            for (i, column) in row.columns().iter().enumerate() {
                assert!(
                    volatile.contains(&&*column.name) || row.bytes(i) == cells[i].as_deref(),
                    "{name}.{}",
                    column.name
                );
            }
        }
        // The columns of the table match the schema.
        let of = if keyspace == "system_views" || keyspace == "system_virtual_schema" {
            "system_virtual_schema"
        } else {
            "system_schema"
        };
        let cql = format!(
            "SELECT column_name FROM {of}.columns WHERE keyspace_name = ? AND table_name = ?"
        );
        let listed: Vec<(String,)> =
            session.execute(&cql, (&*keyspace, &*table)).unwrap().typed().unwrap();
        let mut listed: Vec<String> = listed.into_iter().map(|c| c.0).collect();
        let mut columns: Vec<String> = whole.columns().iter().map(|c| c.name.clone()).collect();
        listed.sort();
        columns.sort();
        assert_eq!(listed, columns, "{name}");
        let count = session.execute(&format!("SELECT count(*) FROM {name}"), ()).unwrap();
        assert_eq!(count.row(0).unwrap().at::<i64>(0).unwrap(), whole.len() as i64, "{name}");
    }
}

/// `vectors/system-tables-5.0.txt` has the columns of a 5.0.9 server.
#[test]
fn system_tables_have_the_columns_of_a_released_server() {
    let session = session();
    let (mut keyspace, mut count) = ("", 0);
    for line in include_str!("vectors/system-tables-5.0.txt").lines() {
        if let Some(name) = line.strip_prefix("-- keyspace ") {
            keyspace = name.split(' ').next().unwrap();
            continue;
        }
        let (table, columns) = line.split_once(" (").unwrap();
        let columns = columns.split(", PRIMARY KEY").next().unwrap();
        let mut depth = 0;
        let ends_column = |c: char| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            c == ',' && depth == 0
        };
        let mut there: Vec<(String, String)> = columns
            .split(ends_column)
            .map(|column| column.trim().split_once(' ').unwrap())
            .map(|(name, of)| (name.to_owned(), of.to_owned()))
            .collect();
        let cql = format!(
            "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        );
        let mut here: Vec<(String, String)> = session.execute(&cql, ()).unwrap().typed().unwrap();
        there.sort();
        here.sort();
        assert_eq!(here, there, "{keyspace}.{table}");
        count += 1;
    }
    assert!(count > 40, "{count}");
}

#[test]
fn the_schema_is_told_as_drivers_read_it() {
    let session = session();
    let columns = json(
        &session,
        "SELECT JSON column_name, clustering_order, kind, position, type FROM system_schema.columns \
         WHERE keyspace_name = 'ks' AND table_name = 't'",
    );
    let wanted = [
        r#"{"column_name": "a", "clustering_order": "none", "kind": "partition_key", "position": 0, "type": "int"}"#,
        r#"{"column_name": "b", "clustering_order": "desc", "kind": "clustering", "position": 0, "type": "text"}"#,
        r#"{"column_name": "c", "clustering_order": "asc", "kind": "clustering", "position": 1, "type": "int"}"#,
        r#"{"column_name": "l", "clustering_order": "none", "kind": "regular", "position": -1, "type": "list<int>"}"#,
        r#"{"column_name": "m", "clustering_order": "none", "kind": "regular", "position": -1, "type": "map<text, frozen<address>>"}"#,
        r#"{"column_name": "s", "clustering_order": "none", "kind": "static", "position": -1, "type": "int"}"#,
    ];
    assert_eq!(columns, wanted);
    let tables = json(
        &session,
        "SELECT JSON table_name, comment, flags, caching, bloom_filter_fp_chance, cdc, default_time_to_live, \
         gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = 'ks'",
    );
    assert_eq!(
        tables,
        [
            r#"{"table_name": "n", "comment": "", "flags": ["compound", "counter"], "caching": {"keys": "ALL", "rows_per_partition": "NONE"}, "bloom_filter_fp_chance": 0.01, "cdc": null, "default_time_to_live": 0, "gc_grace_seconds": 864000}"#,
            r#"{"table_name": "t", "comment": "it's", "flags": ["compound"], "caching": {"keys": "ALL", "rows_per_partition": "NONE"}, "bloom_filter_fp_chance": 0.01, "cdc": null, "default_time_to_live": 0, "gc_grace_seconds": 864000}"#,
        ]
    );
    assert_eq!(
        json(&session, "SELECT JSON * FROM system_schema.indexes"),
        [
            r#"{"keyspace_name": "ks", "table_name": "t", "index_name": "by_l", "kind": "COMPOSITES", "options": {"target": "values(l)"}}"#
        ]
    );
    assert_eq!(
        json(&session, "SELECT JSON * FROM system_schema.types"),
        [
            r#"{"keyspace_name": "ks", "type_name": "address", "field_names": ["street", "zips"], "field_types": ["text", "frozen<set<int>>"]}"#
        ]
    );
    assert_eq!(
        json(
            &session,
            "SELECT JSON keyspace_name, column_name, kind, type FROM system_schema.dropped_columns"
        ),
        [r#"{"keyspace_name": "ks", "column_name": "gone", "kind": "regular", "type": "text"}"#]
    );
    let found = "SELECT toJson(replication) AS r FROM system_schema.keyspaces WHERE keyspace_name IN ('ks', 'system')";
    assert_eq!(
        json(&session, found),
        [
            r#"{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"}"#,
            r#"{"class": "org.apache.cassandra.locator.LocalStrategy"}"#,
        ]
    );
    // No keyspace occurs twice, in any order.
    let down = json(
        &session,
        "SELECT table_name FROM system_schema.columns WHERE keyspace_name = 'ks' ORDER BY table_name DESC",
    );
    assert_eq!((down.len(), &*down[0], &*down[8]), (9, "t", "n"));
}

#[test]
fn the_node_keeps_its_identity_and_the_schema_its_version() {
    let dir = std::env::temp_dir().join(format!("firn-cql-system-{}", std::process::id()));
    let ask = |session: &Session| -> (uuid::Uuid, uuid::Uuid) {
        let cql = "SELECT host_id, schema_version FROM system.local WHERE key = 'local'";
        session.execute(cql, ()).unwrap().typed().unwrap()[0]
    };
    let first = {
        let session = Session::open(&dir).unwrap();
        let empty = ask(&session);
        session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ()).unwrap();
        let with = ask(&session);
        assert_eq!(empty.0, with.0);
        assert_ne!(empty.1, with.1);
        session.execute("CREATE TABLE k.t (a int PRIMARY KEY)", ()).unwrap();
        assert_ne!(ask(&session).1, with.1);
        ask(&session)
    };
    assert_eq!(ask(&Session::open(&dir).unwrap()), first);
    std::fs::remove_dir_all(dir).ok();
    let session = session();
    let address = "10.1.2.3:19042".parse().unwrap();
    let how = RunOptions { endpoint: Some(address), ..RunOptions::default() };
    let rows =
        session.execute_with("SELECT rpc_address, rpc_port, tokens FROM system.local", (), &how);
    let rows: Vec<(std::net::IpAddr, i32, Vec<String>)> = rows.unwrap().typed().unwrap();
    assert_eq!((rows[0].0, rows[0].1, rows[0].2.len()), (address.ip(), 19042, 16));
}

#[test]
fn nobody_changes_what_the_system_keeps() {
    let session = session();
    for cql in [
        "INSERT INTO system.local (key) VALUES ('other')",
        "UPDATE system_schema.tables SET comment = '' WHERE keyspace_name = 'ks' AND table_name = 't'",
        "DELETE FROM system.local WHERE key = 'local'",
        "TRUNCATE system.local",
        "DROP TABLE system.local",
        "ALTER TABLE system_schema.tables ADD x int",
        "DROP KEYSPACE system",
    ] {
        let error = session.execute(cql, ()).unwrap_err();
        assert_eq!(error.code(), 0x2100, "{cql}: {error}");
    }
    for cql in
        ["SELECT * FROM system.scylla_tables", "SELECT * FROM system_schema.scylla_keyspaces"]
    {
        assert_eq!(session.execute(cql, ()).unwrap_err().code(), 0x2200, "{cql}");
    }
    session.execute("USE system", ()).unwrap();
    assert_eq!(session.execute("SELECT key FROM local", ()).unwrap().len(), 1);
    let text = json(&session, "DESCRIBE KEYSPACES");
    assert!(text.contains(&"system_schema".to_owned()) && text.contains(&"ks".to_owned()));
}

#[test]
fn a_prepared_statement_tells_what_the_partition_key_is_bound_to() {
    let session = session();
    for (cql, wanted) in [
        ("INSERT INTO ks.n (b, a) VALUES (1, 2) IF NOT EXISTS", &[][..]),
        ("UPDATE ks.n SET n = n + ? WHERE b = ? AND a = ?", &[2, 1]),
        ("UPDATE ks.n SET n = n + :more WHERE b = :b AND a = :a", &[2, 1]),
        ("SELECT * FROM ks.t WHERE b = ? AND c = 1 AND a = ?", &[1]),
        ("SELECT * FROM ks.t WHERE a IN (?, ?)", &[]),
        ("SELECT * FROM ks.t WHERE a IN ?", &[]),
        ("SELECT * FROM ks.t WHERE token(a) > ?", &[]),
        ("SELECT * FROM ks.t WHERE a = 1 LIMIT ?", &[]),
        (
            "BEGIN BATCH INSERT INTO ks.t (a, b, c) VALUES (?, ?, ?); DELETE FROM ks.t WHERE a = ? APPLY BATCH",
            &[],
        ),
        ("BEGIN BATCH INSERT INTO ks.t (a, b, c) VALUES (?, ?, ?) APPLY BATCH", &[0]),
        ("DELETE FROM ks.n WHERE a = 1 AND b = ?", &[]),
    ] {
        match session.prepare(cql) {
            Ok(prepared) => assert_eq!(prepared.partition_key(), wanted, "{cql}"),
            Err(e) => assert!(cql.contains("IF NOT"), "{cql}: {e}"),
        }
    }
}

#[test]
fn a_prepared_statement_tells_which_tables_it_reads_and_writes() {
    use TableAccess::{Read, Scan, Write};
    let session = session();
    for (cql, wanted) in [
        ("SELECT * FROM ks.t WHERE a = 1", &[(Read, "ks", "t")][..]),
        ("SELECT * FROM ks.t WHERE a IN (1, 2)", &[(Read, "ks", "t")]),
        ("SELECT * FROM ks.t", &[(Scan, "ks", "t")]),
        ("SELECT * FROM ks.t WHERE token(a) > 7", &[(Scan, "ks", "t")]),
        ("DELETE FROM ks.n WHERE a = 1 AND b = ?", &[(Write, "ks", "n")]),
        (
            "BEGIN BATCH INSERT INTO ks.t (a, b, c) VALUES (?, ?, ?); DELETE FROM ks.t WHERE a = ? APPLY BATCH",
            &[(Write, "ks", "t"), (Write, "ks", "t")],
        ),
        ("SELECT * FROM system.local", &[]),
        ("TRUNCATE ks.t", &[]),
    ] {
        assert_eq!(session.prepare(cql).unwrap().accesses(), wanted, "{cql}");
    }
}

#[test]
fn definitions_are_prepared_too_and_told_to_those_who_listen() {
    let session = session();
    let heard = std::sync::Arc::new(common::Heard::default());
    session.engine().add_listener(heard.clone());
    let choose = session.prepare("USE ks").unwrap();
    assert!(matches!(
        session.run(&choose, (), &RunOptions::default()).unwrap().kind(),
        ResultKind::SetKeyspace(_)
    ));
    assert_eq!(session.keyspace().as_deref(), Some("ks"));
    let create = session.prepare("CREATE TABLE x (a int PRIMARY KEY)").unwrap();
    assert!(matches!(
        session.run(&create, (), &RunOptions::default()).unwrap().kind(),
        ResultKind::Schema(_)
    ));
    match session.run(&create, (), &RunOptions::default()).unwrap_err() {
        Error::AlreadyExists { keyspace, table } => {
            assert_eq!((&*keyspace, table.as_deref()), ("ks", Some("x")));
        }
        other => panic!("{other}"),
    }
    let read = session.prepare("DESCRIBE TABLE x").unwrap();
    assert_eq!(session.run(&read, (), &RunOptions::default()).unwrap().len(), 1);
    session.clone().execute("DROP TABLE IF EXISTS x", ()).unwrap();
    session.execute("DROP TABLE IF EXISTS x", ()).unwrap();
    assert_eq!(heard.take(), ["CREATED TABLE ks x", "DROPPED TABLE ks x"]);
}

#[test]
fn a_batch_of_prepared_changes_is_whole_or_not_at_all() {
    use firn_cql::BatchKind::{Logged, Unlogged};
    let session = session();
    let put = session.prepare("INSERT INTO ks.t (a, b, c, l) VALUES (?, ?, 1, ?)").unwrap();
    let json = session.prepare("INSERT INTO ks.t JSON ?").unwrap();
    let drop = session.prepare("DELETE FROM ks.t WHERE a = ?").unwrap();
    let count = session.prepare("UPDATE ks.n SET n = n + 1 WHERE a = ? AND b = 2").unwrap();
    let once =
        session.prepare("INSERT INTO ks.t (a, b, c) VALUES (?, 'x', 1) IF NOT EXISTS").unwrap();
    let read = session.prepare("SELECT * FROM ks.t").unwrap();
    let of =
        |p: &firn_cql::Prepared,
         values: &dyn Fn(&firn_cql::Prepared) -> Vec<firn_cql::BoundValue>| values(p);
    let put_of = |a: i32, b: &str| of(&put, &|p| (a, b, vec![a]).bind(p.markers()).unwrap());
    let how = RunOptions { timestamp: Some(5), ..RunOptions::default() };
    let row = r#"{"a": 3, "b": "z", "c": 9}"#;
    let members = vec![
        (&put, put_of(1, "x")),
        (&put, put_of(2, "y")),
        (&json, (row,).bind(json.markers()).unwrap()),
    ];
    session.batch(Unlogged, &members, &how).unwrap();
    let times = session.execute("SELECT a, l FROM ks.t", ()).unwrap();
    assert_eq!(times.len(), 3);
    // A refused member, in any position, prevents all others.
    for (members, text) in [
        (vec![(&put, put_of(7, "x")), (&read, vec![])], "only UPDATE, INSERT and DELETE"),
        (
            vec![(&put, put_of(7, "x")), (&count, (1,).bind(count.markers()).unwrap())],
            "Counter and non-counter",
        ),
        (vec![(&put, put_of(7, "x")), (&drop, vec![])], "Invalid amount of bind variables"),
        (
            vec![(&put, put_of(7, "x")), (&drop, vec![firn_cql::BoundValue::Bytes(vec![1])])],
            "Expected 4 or 0 byte int",
        ),
    ] {
        let error = session.batch(Logged, &members, &RunOptions::default()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(session.execute("SELECT * FROM ks.t", ()).unwrap().len(), 3);
    let members = vec![
        (&once, (1,).bind(once.markers()).unwrap()),
        (&drop, (1,).bind(drop.markers()).unwrap()),
    ];
    let rows = session.batch(Logged, &members, &RunOptions::default()).unwrap();
    assert!(!rows.row(0).unwrap().get::<bool>("[applied]").unwrap());
}

#[test]
fn a_compaction_that_runs_is_listed_with_how_far_it_is() {
    let session = session();
    session.execute("CREATE TABLE ks.big (k int PRIMARY KEY, v text)", ()).unwrap();
    let put = session.prepare("INSERT INTO ks.big (k, v) VALUES (?, ?)").unwrap();
    let engine = session.engine();
    let catalog = engine.catalog();
    let table = catalog.keyspace("ks").unwrap().table("big").unwrap();
    let tree = engine.family(table).unwrap().tree().clone();
    for _ in 0..2 {
        for k in 0..2000 {
            session.run(&put, (k, "x".repeat(100)), &RunOptions::default()).unwrap();
        }
        tree.flush().unwrap();
    }
    let tasks = || {
        let cql = "SELECT table_name, kind, unit, sstables, progress, total, completion_ratio \
                   FROM system_views.sstable_tasks WHERE keyspace_name = 'ks'";
        session.execute(cql, ()).unwrap()
    };
    assert!(tasks().is_empty());
    let db = engine.store().db();
    db.set_background_rate(Some(64 << 10)).unwrap();
    std::thread::scope(|threads| {
        let running = threads.spawn(|| tree.compact());
        let rows = loop {
            let rows = tasks();
            if !rows.is_empty() {
                break rows;
            }
            std::thread::yield_now();
        };
        db.set_background_rate(None).unwrap();
        running.join().unwrap().unwrap();
        type TaskRow = (String, String, String, i32, i64, i64, f64);
        let all: Vec<TaskRow> = rows.typed().unwrap();
        let [(table, kind, unit, sstables, progress, total, ratio)] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((&**table, &**kind, &**unit), ("big", "compaction", "bytes"));
        assert!(*sstables == 2 && *total > 0 && progress <= total, "{all:?}");
        assert_eq!(*ratio, *progress as f64 / *total as f64);
    });
    assert!(tasks().is_empty());
}
