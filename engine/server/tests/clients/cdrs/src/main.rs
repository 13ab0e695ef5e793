//! Tests the crate `cdrs-tokio` against servers that it starts: clients-cdrs FIRN

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cassandra_protocol::compression::Compression;
use cassandra_protocol::frame::Version;
use cassandra_protocol::frame::events::ServerEvent;
use cdrs_tokio::cluster::session::{Session, SessionBuilder, TcpSessionBuilder};
use cdrs_tokio::cluster::{NodeTcpConfigBuilder, TcpConnectionManager};
use cdrs_tokio::error::Error;
use cdrs_tokio::load_balancing::RoundRobinLoadBalancingStrategy;
use cdrs_tokio::query::BatchQueryBuilder;
use cdrs_tokio::query_values;
use cdrs_tokio::retry::ConstantReconnectionPolicy;
use cdrs_tokio::transport::TransportTcp;
use cdrs_tokio::types::blob::Blob;
use cdrs_tokio::types::decimal::Decimal;
use cdrs_tokio::types::list::List;
use cdrs_tokio::types::map::Map;
use cdrs_tokio::types::rows::Row;
use cdrs_tokio::types::tuple::Tuple;
use cdrs_tokio::types::udt::Udt;
use cdrs_tokio::types::{AsRust, ByName, IntoRustByIndex, IntoRustByName};
use num_bigint::BigInt;
use uuid::Uuid;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
type Client = Session<
    TransportTcp,
    TcpConnectionManager,
    RoundRobinLoadBalancingStrategy<TransportTcp, TcpConnectionManager>,
>;

/// A server on a store, killed when dropped.
struct Firn(Child);

impl Drop for Firn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and returns its port. 0: any.
fn start(firn: &Path, store: &Path, port: u16) -> Outcome<(Firn, u16)> {
    let listen = format!("127.0.0.1:{port}");
    let mut command = Command::new(firn);
    command.arg("--db").arg(store).args(["serve", "--listen", &listen]);
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let said = child.stderr.take().ok_or("no standard error")?;
    let line = BufReader::new(said).lines().next().ok_or("the server said nothing")??;
    let at = line.split(" at ").nth(1).and_then(|at| at.split(';').next()).ok_or(line.clone())?;
    let port = at.rsplit(':').next().ok_or(line.clone())?.parse()?;
    Ok((Firn(child), port))
}

async fn connect(port: u16, version: Version, compression: Compression) -> Outcome<Client> {
    let address = format!("127.0.0.1:{port}");
    let node = NodeTcpConfigBuilder::new()
        .with_contact_point(address.into())
        .with_version(version)
        .build()
        .await?;
    let again = ConstantReconnectionPolicy::new(Duration::from_millis(50));
    Ok(TcpSessionBuilder::new(RoundRobinLoadBalancingStrategy::new(), node)
        .with_compression(compression)
        .with_reconnection_policy(Arc::new(again))
        .build()
        .await?)
}

async fn rows(session: &Client, cql: &str) -> Outcome<Vec<Row>> {
    Ok(session.query(cql).await?.response_body()?.into_rows().unwrap_or_default())
}

/// Writes and reads a value of a type.
macro_rules! round_trip {
    ($session:expr, $cql:literal, $of:ty, $value:expr) => {{
        let value = $value;
        $session.query("DROP TABLE IF EXISTS cdrs.every").await?;
        $session
            .query(concat!("CREATE TABLE cdrs.every (k int PRIMARY KEY, v ", $cql, ")"))
            .await?;
        let put = $session.prepare("INSERT INTO cdrs.every (k, v) VALUES (?, ?)").await?;
        $session.exec_with_values(&put, query_values!(1, value.clone())).await?;
        let found = rows($session, "SELECT v FROM cdrs.every WHERE k = 1").await?;
        let read: $of = found[0].get_r_by_name("v")?;
        assert_eq!(read, value, $cql);
    }};
}

async fn every_type(session: &Client, version: Version) -> Outcome {
    round_trip!(session, "ascii", String, "plain".to_owned());
    round_trip!(session, "bigint", i64, i64::MIN);
    round_trip!(session, "blob", Blob, Blob::new(vec![0, 255]));
    round_trip!(session, "boolean", bool, true);
    round_trip!(session, "decimal", Decimal, Decimal::new(BigInt::from(-150), 2));
    round_trip!(session, "double", f64, 1.7976931348623157e308);
    round_trip!(session, "float", f32, 0.5f32);
    round_trip!(session, "inet", IpAddr, "::1".parse::<IpAddr>()?);
    round_trip!(session, "inet", IpAddr, "127.0.0.1".parse::<IpAddr>()?);
    round_trip!(session, "int", i32, -7);
    round_trip!(session, "text", String, "grüße, \u{1f600}".to_owned());
    round_trip!(session, "timestamp", i64, 1_250_557_904_007i64);
    round_trip!(session, "uuid", Uuid, Uuid::new_v4());
    round_trip!(session, "timeuuid", Uuid, "8e14e760-7fa8-11eb-bc66-000000000001".parse::<Uuid>()?);
    round_trip!(session, "varint", BigInt, "1000000000000000000000000000000".parse::<BigInt>()?);
    if version > Version::V3 {
        round_trip!(session, "date", i32, i32::MIN + 1);
        round_trip!(session, "smallint", i16, i16::MIN);
        round_trip!(session, "time", i64, 29_574_123_456_789i64);
        round_trip!(session, "tinyint", i8, -128i8);
    }
    for cql in [
        "DROP TABLE IF EXISTS cdrs.made",
        "DROP TYPE IF EXISTS cdrs.pair",
        "CREATE TYPE cdrs.pair (x int, y text)",
        "CREATE TABLE cdrs.made (k int PRIMARY KEY, l list<text>, m map<text, int>, t tuple<int, text>, u frozen<pair>)",
        "INSERT INTO cdrs.made (k, t, u) VALUES (1, (5, 'five'), {x: 6, y: 'six'})",
    ] {
        session.query(cql).await?;
    }
    let (list, map) = (vec!["b".to_owned(), String::new()], HashMap::from([("k".to_owned(), 3)]));
    let values = query_values!(list.clone(), map.clone());
    session.query_with_values("UPDATE cdrs.made SET l = ?, m = ? WHERE k = 1", values).await?;
    let row = rows(session, "SELECT l, m, t, u FROM cdrs.made").await?.remove(0);
    let read: Vec<String> = row.r_by_name::<List>("l")?.as_r_rust()?;
    assert_eq!(read, list);
    let read: HashMap<String, i32> = row.r_by_name::<Map>("m")?.as_r_rust()?;
    assert_eq!(read, map);
    let pair: Tuple = row.get_r_by_name("t")?;
    let read: (i32, Option<String>) = (pair.get_r_by_index(0)?, pair.get_by_index(1)?);
    assert_eq!(read, (5, Some("five".to_owned())));
    let pair: Udt = row.get_r_by_name("u")?;
    let read: (i32, String) = (pair.get_r_by_name("x")?, pair.get_r_by_name("y")?);
    assert_eq!(read, (6, "six".to_owned()));
    Ok(())
}

/// Returns the error of a refused statement, beginning with its type, such as `Invalid` or
/// `SyntaxError`.
async fn refusal(session: &Client, cql: &str) -> Outcome<String> {
    match session.query(cql).await {
        Err(Error::Server { body, .. }) => Ok(format!("{:?}: {}", body.ty, body.message)),
        Err(other) => Err(format!("{cql}: {other}").into()),
        Ok(_) => Err(format!("{cql} was not refused").into()),
    }
}

async fn conversation(session: &Client, version: Version) -> Outcome {
    let mut events = session.create_event_receiver();
    for cql in [
        "DROP KEYSPACE IF EXISTS cdrs",
        "CREATE KEYSPACE cdrs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE cdrs.rows (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        session.query(cql).await?;
    }
    let reported = tokio::time::timeout(Duration::from_secs(30), events.recv()).await??;
    assert!(matches!(reported, ServerEvent::SchemaChange(_)), "{reported:?}");
    // The node and schema metadata that it has read.
    let known = session.cluster_metadata();
    let nodes: Vec<_> = known.nodes().values().collect();
    assert_eq!(
        (nodes.len(), nodes[0].datacenter(), nodes[0].tokens().len()),
        (1, "datacenter1", 16)
    );
    assert!(known.keyspaces().contains_key("system_schema"), "{:?}", known.keyspaces().keys());
    every_type(session, version).await?;

    let put = session.prepare("INSERT INTO cdrs.rows (k, c, v) VALUES (?, ?, ?)").await?;
    let each =
        (0..500).map(|i| session.exec_with_values(&put, query_values!(i % 3, i, format!("v{i}"))));
    futures::future::try_join_all(each).await?;
    let mut pager = session.paged(31);
    let mut pages = pager.query("SELECT k, c, v FROM cdrs.rows");
    let mut sizes = vec![];
    loop {
        sizes.push(pages.next().await?.len());
        if !pages.has_more() {
            break;
        }
    }
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (17, 500), "{sizes:?}");

    let mut batch = BatchQueryBuilder::new();
    for c in 0..20 {
        batch = batch.add_query_prepared(&put, query_values!(9, c, "b"));
    }
    let text = "INSERT INTO cdrs.rows (k, c, v) VALUES (?, ?, ?)";
    session.batch(batch.add_query(text, query_values!(9, 20, "b")).build()?).await?;
    let count: i64 =
        rows(session, "SELECT count(*) FROM cdrs.rows WHERE k = 9").await?[0].get_r_by_index(0)?;
    assert_eq!(count, 21);
    let once = "INSERT INTO cdrs.rows (k, c, v) VALUES (9, 0, 'x') IF NOT EXISTS";
    let row = rows(session, once).await?.remove(0);
    let (applied, was): (bool, String) = (row.get_r_by_name("[applied]")?, row.get_r_by_name("v")?);
    assert_eq!((applied, &*was), (false, "b"));

    let read = session.prepare("SELECT * FROM cdrs.rows WHERE k = ? AND c = ?").await?;
    session.exec_with_values(&read, query_values!(9, 1)).await?;
    session.query("ALTER TABLE cdrs.rows ADD a int").await?;
    session.query("UPDATE cdrs.rows SET a = 77 WHERE k = 9 AND c = 1").await?;
    let wide = session.exec_with_values(&read, query_values!(9, 1)).await?;
    let wide = wide.response_body()?.into_rows().ok_or("no rows")?.remove(0);
    let (v, a): (String, i32) = (wide.get_r_by_name("v")?, wide.get_r_by_name("a")?);
    assert_eq!((&*v, a), ("b", 77));

    for (cql, wanted) in [
        ("SELEKT", "Syntax"),
        ("SELECT * FROM cdrs.nowhere", "Invalid"),
        ("CREATE TABLE cdrs.rows (k int PRIMARY KEY)", "AlreadyExists"),
        ("DROP TABLE system.local", "Unauthorized"),
    ] {
        let text = refusal(session, cql).await?;
        assert!(text.starts_with(wanted), "{cql}: {text}");
    }
    Ok(())
}

/// The driver reconnects to a server that was killed and restarted, and finds the written data.
async fn restart(firn: &Path, store: &Path) -> Outcome {
    let (server, port) = start(firn, store, 0)?;
    let session = connect(port, Version::V5, Compression::None).await?;
    for cql in [
        "CREATE KEYSPACE restarted WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE restarted.t (k int PRIMARY KEY, v text)",
    ] {
        session.query(cql).await?;
    }
    let put = session.prepare("INSERT INTO restarted.t (k, v) VALUES (?, ?)").await?;
    session.exec_with_values(&put, query_values!(1, "before")).await?;
    drop(server);
    assert!(session.exec_with_values(&put, query_values!(2, "lost")).await.is_err());
    let (_server, _) = start(firn, store, port)?;
    let mut left = 200;
    while let Err(e) = session.exec_with_values(&put, query_values!(3, "after")).await {
        left -= 1;
        if left == 0 {
            return Err(format!("not found again: {e}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = rows(&session, "SELECT k FROM restarted.t WHERE k IN (1, 3)").await?;
    assert_eq!(found.len(), 2);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let firn = PathBuf::from(std::env::args().nth(1).ok_or("which command?")?);
    let folder = std::env::temp_dir().join(format!("clients-cdrs-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (server, port) = start(&firn, &folder.join("store"), 0)?;
    for (version, compression) in [
        (Version::V3, Compression::None),
        (Version::V3, Compression::Snappy),
        (Version::V4, Compression::Lz4),
        (Version::V5, Compression::None),
        (Version::V5, Compression::Lz4),
    ] {
        let session = connect(port, version, compression).await?;
        conversation(&session, version).await?;
        println!("cdrs-tokio: protocol {version}, compression {compression:?}: good");
    }
    drop(server);
    restart(&firn, &folder.join("restarted")).await?;
    println!("cdrs-tokio: a restart: good");
    Ok(std::fs::remove_dir_all(folder)?)
}
