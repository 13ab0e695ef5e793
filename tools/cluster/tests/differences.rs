//! Differences between sessions with a cluster and with a directory: tests each row of the table in
//! the crate's docs on both sides. The cluster is Firn's server, or the one at `$FIRN_CLUSTER`.

#![allow(clippy::disallowed_methods, reason = "a test has no environment")]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_cluster::{ClusterUrl, Session};
use firn_cql::{
    BatchKind, Error, ErrorClass, ResultKind, RunOptions, TombstoneLimits, Value, Values,
};
use firn_server::{Options, Server};

/// Both sides of a row of the table.
struct Sides<'a> {
    folder: &'a Session,
    cluster: &'a Session,
}

/// A row by its first column, with its test.
type Difference = (&'static str, fn(&Sides<'_>));

const DIFFERENCES: [Difference; 13] = [
    ("kind of a definition", kind_of_a_definition),
    ("frozen types", frozen_types),
    ("place of a syntax error", place_of_a_syntax_error),
    ("USE prepared", use_prepared),
    ("now_in_seconds", now_in_seconds),
    ("limits and endpoint", limits_and_endpoint),
    ("large batches", large_batches),
    ("kind of a batch", kind_of_a_batch),
    ("a flag that stops", a_flag_that_stops),
    ("definitions of others", definitions_of_others),
    ("logging in", logging_in),
    ("consistency", consistency),
    ("types of other classes", types_of_other_classes),
];

const KEYSPACE: &str = "CREATE KEYSPACE differences WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Runs `act` on each side.
fn both<T>(sides: &Sides<'_>, act: impl Fn(&Session) -> T) -> (T, T) {
    (act(sides.folder), act(sides.cluster))
}

fn done(session: &Session, cql: &str) -> firn_cql::Rows {
    session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"))
}

fn class<T: std::fmt::Debug>(result: firn_cql::Result<T>) -> ErrorClass {
    result.unwrap_err().class()
}

fn kind_of_a_definition(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| done(s, "CREATE TABLE defined (id int PRIMARY KEY)"));
    assert!(
        matches!(folder.kind(), ResultKind::Schema(made) if made.name.as_deref() == Some("defined"))
    );
    assert_eq!(*cluster.kind(), ResultKind::Void);
}

fn frozen_types(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE lists (id int PRIMARY KEY, v list<int>)");
        let insert = s.prepare("INSERT INTO lists (id, v) VALUES (?, ?)").unwrap();
        insert.markers()[1].column_type.to_string()
    });
    assert_eq!((&*folder, &*cluster), ("list<int>", "frozen<list<int>>"));
}

fn place_of_a_syntax_error(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| s.execute("SELECT FROM t", ()).unwrap_err());
    assert!(matches!(folder, Error::Syntax(_)), "{folder:?}");
    assert_eq!((folder.class(), cluster.class()), (ErrorClass::Syntax, ErrorClass::Syntax));
    assert!(cluster.to_string().contains("line 1"), "{cluster}");
}

fn use_prepared(sides: &Sides<'_>) {
    let chosen = sides.folder.prepare("USE differences").unwrap();
    let rows = sides.folder.run(&chosen, (), &RunOptions::default()).unwrap();
    assert_eq!(*rows.kind(), ResultKind::SetKeyspace("differences".to_owned()));
    assert_eq!(class(sides.cluster.prepare("USE differences")), ErrorClass::Invalid);
}

fn now_in_seconds(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE times (id int PRIMARY KEY, v int)");
        done(s, "INSERT INTO times (id, v) VALUES (1, 1) USING TTL 100000");
        let how = RunOptions { now_in_seconds: Some(2_000_000_000), ..RunOptions::default() };
        s.execute_with("SELECT * FROM times", (), &how).map(|rows| rows.len())
    });
    assert_eq!((folder.unwrap(), class(cluster)), (0, ErrorClass::Invalid));
}

fn limits_and_endpoint(sides: &Sides<'_>) {
    let read = "SELECT rpc_address FROM system.local";
    let endpoint =
        || RunOptions { endpoint: Some("127.0.0.9:7".parse().unwrap()), ..RunOptions::default() };
    let limits = || RunOptions {
        tombstone_limits: Some(TombstoneLimits::default()),
        ..RunOptions::default()
    };
    let batches = || RunOptions { batch_limits: Some(Default::default()), ..RunOptions::default() };
    for how in [endpoint(), limits(), batches()] {
        let (folder, cluster) = both(sides, |s| s.execute_with(read, (), &how));
        assert_eq!((folder.unwrap().len(), class(cluster)), (1, ErrorClass::Invalid));
    }
}

fn large_batches(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE large (id int PRIMARY KEY, v blob)");
        let put = s.prepare("INSERT INTO large (id, v) VALUES (?, ?)").unwrap();
        let values = |id: i32| (id, vec![7_u8; 10_000]).bind(put.markers()).unwrap();
        let members: Vec<_> = (0..10).map(|id| (&put, values(id))).collect();
        s.batch(BatchKind::Unlogged, &members, &RunOptions::default()).map(drop)
    });
    assert_eq!((folder.unwrap(), class(cluster)), ((), ErrorClass::Invalid));
}

fn kind_of_a_batch(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE batched (id int PRIMARY KEY)");
        let put = s.prepare("INSERT INTO batched (id) VALUES (1)").unwrap();
        s.batch(BatchKind::Logged, &[(&put, vec![])], &RunOptions::default()).unwrap().batch()
    });
    assert_eq!((folder, cluster), (Some((BatchKind::Logged, 1)), None));
}

fn a_flag_that_stops(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE stopped (id int PRIMARY KEY)");
        done(s, "INSERT INTO stopped (id) VALUES (1)");
        let how =
            RunOptions { stop: Some(Arc::new(AtomicBool::new(true))), ..RunOptions::default() };
        let read = s.execute_with("SELECT * FROM stopped", (), &how);
        assert!(matches!(read, Err(Error::Stopped)), "{read:?}");
        s.execute_with("INSERT INTO stopped (id) VALUES (2)", (), &how).map(drop)
    });
    assert!(
        matches!((&folder, &cluster), (Ok(()), Err(Error::Stopped))),
        "{folder:?}, {cluster:?}"
    );
}

fn definitions_of_others(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| {
        done(s, "CREATE TABLE changed (id int PRIMARY KEY, v int)");
        let put = s.prepare("INSERT INTO changed (id, v) VALUES (?, ?)").unwrap();
        let all = s.prepare("SELECT * FROM changed").unwrap();
        done(s, "DROP TABLE changed");
        done(s, "CREATE TABLE changed (id int PRIMARY KEY, v bigint, w int)");
        let wide = s.run(&put, (1, 5_i64), &RunOptions::default()).map(drop);
        let again = s.prepare("INSERT INTO changed (id, v) VALUES (?, ?)").unwrap();
        s.run(&again, (2, 6_i64), &RunOptions::default()).unwrap();
        assert_eq!(s.run(&all, (), &RunOptions::default()).unwrap().columns().len(), 3);
        wide
    });
    assert!(folder.is_ok(), "{folder:?}");
    assert_eq!(class(cluster), ErrorClass::Invalid);
}

fn logging_in(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, |s| s.role().map(str::to_owned));
    assert_eq!((folder, cluster), (None, None));
    let dir = std::env::temp_dir().join(format!("firn-cluster-login-{}", std::process::id()));
    let first = Session::connect(&format!("firn:{}", dir.display())).unwrap();
    done(&first, "CREATE ROLE ann WITH PASSWORD = 'p:@/%' AND LOGIN = true AND SUPERUSER = true");
    first.close().unwrap();
    let mut options = Options::directory(&dir);
    options.address.set_port(0);
    let server = Server::start(options).unwrap();
    let at = server.address();
    let ann = Session::connect(&format!("cassandra://ann:p%3A%40%2F%25@{at}")).unwrap();
    assert_eq!(ann.role(), Some("ann"));
    assert_eq!(done(&ann, "SELECT key FROM system.local").len(), 1);
    let url = ClusterUrl::parse(&format!("cassandra://{at}")).unwrap();
    assert!(Session::connect_to(url.with_login("ann", "p:@/%")).is_ok());
    for login in ["", "ann:wrong@", "bob:p@"] {
        let refused = Session::connect(&format!("cassandra://{login}{at}")).map(drop);
        let refused = refused.expect_err(login);
        assert_eq!(refused.class(), ErrorClass::BadCredentials, "{login}: {refused}");
    }
    server.stop().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

fn consistency(sides: &Sides<'_>) {
    let (folder, cluster) = both(sides, Session::consistencies);
    assert_eq!((folder, cluster), (None, Some(("LOCAL_QUORUM", "LOCAL_SERIAL"))));
    let named = |s: &Session| s.with_consistency("QUORUM")?.with_serial_consistency("serial");
    let (folder, cluster) = both(sides, |s| named(s).unwrap().consistencies());
    assert_eq!((folder, cluster), (None, Some(("QUORUM", "SERIAL"))));
    let (folder, cluster) = both(sides, |s| s.with_consistency("MOST").map(drop));
    assert_eq!((folder.unwrap(), class(cluster)), ((), ErrorClass::Configuration));
    // Firn's server represents all replicas; Cassandra cannot satisfy more replicas than nodes.
    if std::env::var_os("FIRN_CLUSTER").is_some() {
        let all = sides.cluster.with_consistency("ALL").unwrap();
        done(&all, "DROP KEYSPACE IF EXISTS differences_9");
        done(
            &all,
            "CREATE KEYSPACE differences_9 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 9}",
        );
        done(&all, "CREATE TABLE differences_9.t (id int PRIMARY KEY)");
        let insert = all.execute("INSERT INTO differences_9.t (id) VALUES (?)", (1,));
        assert_eq!(class(insert), ErrorClass::Unavailable);
        done(&all, "DROP KEYSPACE differences_9");
    }
}

fn types_of_other_classes(sides: &Sides<'_>) {
    let composite = "'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.Int32Type)'";
    let (folder, cluster) = both(sides, |s| {
        done(s, &format!("CREATE TABLE odd (id int PRIMARY KEY, v {composite})"));
        done(s, "INSERT INTO odd (id, v) VALUES (1, '7')");
        let rows = s.execute("SELECT v FROM odd", ())?;
        rows.row(0).expect("it was written").at::<Value>(0)
    });
    assert_eq!(folder.unwrap(), Value::Blob(vec![0, 4, 0, 0, 0, 7, 0]));
    assert_eq!(class(cluster), ErrorClass::Server);
}

#[test]
fn each_row_of_the_table_is_true() {
    let table = include_str!("../src/lib.rs").lines().filter_map(|l| l.strip_prefix("//! | `"));
    let rows: Vec<&str> =
        table.filter_map(|line| line.split_once('`')).map(|(row, _)| row).collect();
    assert_eq!(rows, DIFFERENCES.map(|(row, _)| row));

    let dir = std::env::temp_dir().join(format!("firn-cluster-differ-{}", std::process::id()));
    let server = Server::start(Options::ephemeral()).unwrap();
    let own = format!("cassandra://{}", server.address());
    let folder = Session::connect(&format!("firn:{}", dir.display())).unwrap();
    let cluster = Session::connect(&std::env::var("FIRN_CLUSTER").unwrap_or(own)).unwrap();
    done(&cluster, "DROP KEYSPACE IF EXISTS differences");
    let sides = Sides { folder: &folder, cluster: &cluster };
    both(&sides, |s| (done(s, KEYSPACE), done(s, "USE differences")));
    for (row, test) in DIFFERENCES {
        println!("{row}");
        test(&sides);
    }
    both(&sides, |s| done(s, "DROP KEYSPACE differences"));
    server.stop().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_statement_is_refused_by_another_database() {
    let dir = std::env::temp_dir().join(format!("firn-cluster-place-{}", std::process::id()));
    let server = Server::start(Options::ephemeral()).unwrap();
    let folder = Session::connect(&format!("firn:{}", dir.display())).unwrap();
    let cluster = Session::connect(&format!("cassandra://{}", server.address())).unwrap();
    let read = "SELECT key FROM system.local";
    let (here, there) = (folder.prepare(read).unwrap(), cluster.prepare(read).unwrap());
    assert_eq!(class(folder.run(&there, (), &RunOptions::default())), ErrorClass::Invalid);
    assert_eq!(class(cluster.run(&here, (), &RunOptions::default())), ErrorClass::Invalid);
    assert_eq!(
        class(cluster.batch(BatchKind::Logged, &[(&here, vec![])], &RunOptions::default())),
        ErrorClass::Invalid
    );
    // A directory is closed and reopened, with the keyspace of the URL.
    done(&folder, KEYSPACE);
    folder.close().unwrap();
    assert_eq!(class(folder.execute(read, ())), ErrorClass::Server);
    let again = Session::connect(&format!("firn:{}?keyspace=differences", dir.display())).unwrap();
    assert_eq!(again.keyspace().as_deref(), Some("differences"));
    cluster.close().unwrap();
    assert_eq!(class(cluster.execute(read, ())), ErrorClass::Server);
    drop(again);
    server.stop().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_task_may_wait_and_drop_the_session() {
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let read = move || {
        let how = RunOptions { stop: Some(Arc::default()), ..RunOptions::default() };
        let session = Session::connect(&url)?;
        session.execute_with("SELECT key FROM system.local", (), &how).map(|rows| rows.len())
    };
    let found = runtime.block_on(async {
        let (here, beside) = (read(), tokio::task::spawn_blocking(read).await.unwrap());
        (here.unwrap(), beside.unwrap())
    });
    assert_eq!(found, (1, 1));
    server.stop().unwrap();
}

#[test]
fn errors_name_the_unreachable_address() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = Session::connect(&format!("cassandra://{closed}")).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Unanswered, "{refused}");
    assert!(refused.to_string().contains(&format!("cannot connect to {closed}: ")), "{refused}");
    // A listening server that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "cassandra://{}?connect_timeout=0.2&request_timeout=0.2",
        silent.local_addr().unwrap()
    );
    assert_eq!(class(Session::connect(&url).map(drop)), ErrorClass::Unanswered);
    assert_eq!(class(Session::connect("mysql://h").map(drop)), ErrorClass::Configuration);

    let server = Server::start(Options::ephemeral()).unwrap();
    let at = server.address();
    let missing = Session::connect(&format!("cassandra://{at}/missing")).map(drop);
    assert_eq!(class(missing), ErrorClass::Invalid);
    for compression in ["none", "lz4", "snappy"] {
        let url =
            format!("cassandra://{at}/system?compression={compression}&datacenter=datacenter1");
        let session = Session::connect(&url).unwrap();
        assert_eq!(
            session.execute("SELECT key FROM local WHERE key = ?", ("local",)).unwrap().len(),
            1
        );
    }
    let session = Session::connect(&format!("cassandra://{at}")).unwrap();
    server.stop().unwrap();
    assert_eq!(class(session.execute("SELECT key FROM system.local", ())), ErrorClass::Unanswered);
}
