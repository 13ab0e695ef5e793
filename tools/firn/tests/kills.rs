//! Tests a server that is killed while clients write, read, batch, define tables, create roles and
//! grant. After its restart it has all acknowledged changes; an unacknowledged one is complete or
//! absent.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "a process that is killed, and clients in threads")]

use super::common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::Duration;

use common::Temp;
use firn_server::client::{ClientError, ClientOptions, ClientRun, CqlClient};
use firn_testkit::rng::Rng;
use serde_json::Value;

const CYCLES: u64 = 6;
const WRITERS: u64 = 3;
/// Rows of each writer.
const KEYS: u64 = 40;

struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(temp: &Temp) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["--db", "store", "--json", "serve", "--listen", "127.0.0.1:0", "--no-login"])
            .current_dir(&temp.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at: Value = serde_json::from_str(&line).unwrap();
        Serving { child, address: format!("127.0.0.1:{}", at["port"]) }
    }

    fn connect(&self) -> CqlClient {
        CqlClient::connect(&ClientOptions::new(self.address.clone())).unwrap()
    }

    /// Kills the server by SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Values of the rows of a writer; missing rows have no entry.
type WrittenRows = BTreeMap<u64, i64>;

/// State known to a client: the acknowledged state, and the state after the last unanswered
/// statement.
#[derive(Default)]
struct Known<T> {
    there: T,
    maybe: Option<T>,
}

fn how() -> ClientRun {
    ClientRun::default()
}

/// Runs a statement. Returns `false` if the server is gone and the outcome is unknown.
fn ask(client: &mut CqlClient, cql: &str) -> bool {
    match client.query(cql, &how()) {
        Ok(_) => true,
        Err(e @ ClientError::Refused { .. }) => panic!("{cql}: {e}"),
        Err(_) => false,
    }
}

/// Runs a statement and applies its effect to the known state. Returns `false` if the server is
/// gone.
fn change<T: Clone>(
    client: &mut CqlClient,
    known: &mut Known<T>,
    cql: &str,
    effect: impl FnOnce(&mut T),
) -> bool {
    let mut after = known.there.clone();
    effect(&mut after);
    if ask(client, cql) {
        known.there = after;
        return true;
    }
    known.maybe = Some(after);
    false
}

fn rows(client: &mut CqlClient, cql: &str) -> firn_cql::Rows {
    client.query(cql, &how()).unwrap_or_else(|e| panic!("{cql}: {e}")).rows
}

fn written(client: &mut CqlClient, table: &str, writer: u64) -> WrittenRows {
    let cql = format!("SELECT k, v FROM ks.{table} WHERE w = {writer}");
    let all: Vec<(i64, i64)> = rows(client, &cql).typed().unwrap();
    all.into_iter().map(|(k, v)| (k as u64, v)).collect()
}

/// Known rows of one writer: those of two tables that are always alike, and those that it changes
/// under conditions.
#[derive(Default)]
struct WriterView {
    both: Known<WrittenRows>,
    guarded: Known<WrittenRows>,
}

/// Writes to the writer's own rows until the server is gone, and reads them back.
fn write(client: &mut CqlClient, writer: u64, view: &mut WriterView, rng: &mut Rng) -> u64 {
    for step in 0.. {
        let (k, v) = (rng.next_u64() % KEYS, (rng.next_u64() % 1_000_000) as i64);
        let at = format!("w = {writer} AND k = {k}");
        let both = |of: &dyn Fn(&str) -> String| {
            format!("BEGIN BATCH {} {} APPLY BATCH", of("a"), of("b"))
        };
        let done = match rng.next_u64() % 10 {
            0..=4 => {
                let put =
                    |t: &str| format!("INSERT INTO ks.{t} (w, k, v) VALUES ({writer}, {k}, {v})");
                change(client, &mut view.both, &both(&put), |rows| rows.extend([(k, v)]))
            }
            5 => {
                let delete = |t: &str| format!("DELETE FROM ks.{t} WHERE {at}");
                change(client, &mut view.both, &both(&delete), |rows| rows.retain(|at, _| *at != k))
            }
            6 | 7 => {
                let before = view.guarded.there.get(&k);
                let guard = before.map_or("null".to_owned(), i64::to_string);
                let cql = format!("UPDATE ks.c SET v = {v} WHERE {at} IF v = {guard}");
                change(client, &mut view.guarded, &cql, |rows| rows.extend([(k, v)]))
            }
            _ => match client.query(&format!("SELECT v FROM ks.a WHERE {at}"), &how()) {
                Ok(answer) => {
                    let found: Vec<(i64,)> = answer.rows.typed().unwrap();
                    let wanted: Vec<_> =
                        view.both.there.get(&k).map(|v| (*v,)).into_iter().collect();
                    assert_eq!(found, wanted, "{at}");
                    true
                }
                Err(_) => false,
            },
        };
        if !done {
            return step;
        }
    }
    0
}

/// Tables with their columns, and roles with their permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Defined {
    tables: BTreeMap<String, BTreeSet<String>>,
    roles: BTreeMap<String, BTreeSet<String>>,
}

/// Creates and drops definitions until the server is gone.
fn define(client: &mut CqlClient, known: &mut Known<Defined>, rng: &mut Rng) -> u64 {
    for step in 0.. {
        let (n, add) = (rng.next_u64() % 4, rng.next_u64() % 1_000_000);
        let (table, role) = (format!("t{n}"), format!("r{n}"));
        let has = known.there.tables.contains_key(&table);
        let is_role = known.there.roles.contains_key(&role);
        let permission = ["SELECT", "MODIFY", "ALTER"][(add % 3) as usize];
        let done = match rng.next_u64() % 8 {
            0 | 1 if !has => {
                let cql = format!("CREATE TABLE d.{table} (k int PRIMARY KEY)");
                let columns = BTreeSet::from(["k".to_owned()]);
                change(client, known, &cql, |d| drop(d.tables.insert(table, columns)))
            }
            0 if known.there.tables[&table].len() > 4 => {
                let cql = format!("DROP TABLE d.{table}");
                change(client, known, &cql, |d| drop(d.tables.remove(&table)))
            }
            0..=3 if has => {
                let column = format!("c{add}");
                if known.there.tables[&table].contains(&column) {
                    continue;
                }
                let cql = format!("ALTER TABLE d.{table} ADD {column} text");
                change(client, known, &cql, |d| {
                    d.tables.entry(table).or_default().insert(column);
                })
            }
            4 | 5 if !is_role => {
                let cql = format!("CREATE ROLE {role}");
                change(client, known, &cql, |d| drop(d.roles.insert(role, BTreeSet::new())))
            }
            4 if add % 3 == 0 => {
                let cql = format!("DROP ROLE {role}");
                change(client, known, &cql, |d| drop(d.roles.remove(&role)))
            }
            5 | 6 if is_role => {
                let cql = format!("GRANT {permission} ON KEYSPACE d TO {role}");
                change(client, known, &cql, |d| {
                    d.roles.entry(role).or_default().insert(permission.to_owned());
                })
            }
            7 if is_role => {
                let cql = format!("REVOKE {permission} ON KEYSPACE d FROM {role}");
                change(client, known, &cql, |d| {
                    d.roles.entry(role).or_default().remove(permission);
                })
            }
            _ => true,
        };
        if !done {
            return step;
        }
    }
    0
}

fn defined(client: &mut CqlClient) -> Defined {
    let mut found = Defined::default();
    let columns =
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = 'd'";
    for (table, column) in rows(client, columns).typed::<(String, String)>().unwrap() {
        found.tables.entry(table).or_default().insert(column);
    }
    for (role,) in rows(client, "SELECT role FROM system_auth.roles").typed::<(String,)>().unwrap()
    {
        found.roles.entry(role).or_default();
    }
    for row in rows(client, "LIST ALL PERMISSIONS").iter() {
        let text = |name: &str| row.get::<String>(name).unwrap();
        assert_eq!(text("resource"), "<keyspace d>");
        found.roles.entry(text("role")).or_default().insert(text("permission"));
    }
    found
}

/// Checks that the found state is the acknowledged one, or the one after the unanswered statement;
/// records it as known.
fn settle<T: PartialEq + std::fmt::Debug>(known: &mut Known<T>, found: T, what: &str) {
    let there = &known.there;
    let is_begun = known.maybe.as_ref() == Some(&found);
    assert!(
        found == *there || is_begun,
        "{what}: {found:?}, and not {there:?}, or {:?}",
        known.maybe
    );
    *known = Known { there: found, maybe: None };
}

#[test]
fn acknowledged_writes_survive_a_killed_server() {
    let temp = Temp::new("kills", "acknowledged");
    let mut rng = Rng::new(21);
    let mut views: Vec<WriterView> = (0..WRITERS).map(|_| WriterView::default()).collect();
    let mut definitions = Known::<Defined>::default();
    let mut steps = 0;
    for cycle in 0..=CYCLES {
        let mut server = Serving::start(&temp);
        let mut client = server.connect();
        if cycle == 0 {
            let one = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
            for keyspace in ["ks", "d"] {
                assert!(ask(&mut client, &format!("CREATE KEYSPACE {keyspace} WITH {one}")));
            }
            for table in ["a", "b", "c"] {
                let columns = "(w bigint, k bigint, v bigint, PRIMARY KEY (w, k))";
                assert!(ask(&mut client, &format!("CREATE TABLE ks.{table} {columns}")));
            }
        }
        for (writer, view) in (0..).zip(&mut views) {
            let found = written(&mut client, "a", writer);
            assert_eq!(found, written(&mut client, "b", writer), "a batch of writer {writer}");
            settle(&mut view.both, found, "rows");
            settle(&mut view.guarded, written(&mut client, "c", writer), "guarded rows");
        }
        settle(&mut definitions, defined(&mut client), "definitions");
        if cycle == CYCLES {
            break;
        }
        let pause = Duration::from_millis(50 + rng.next_u64() % 400);
        let mut seeds: Vec<Rng> = (0..=WRITERS).map(|_| Rng::new(rng.next_u64())).collect();
        let mut own = seeds.pop().unwrap();
        let serving = &mut server;
        steps += scope(|threads| {
            let mut working = vec![];
            for ((writer, view), mut seed) in (0..).zip(&mut views).zip(seeds) {
                let mut client = serving.connect();
                working.push(threads.spawn(move || write(&mut client, writer, view, &mut seed)));
            }
            let known = &mut definitions;
            working.push(threads.spawn(move || define(&mut client, known, &mut own)));
            sleep(pause);
            serving.kill();
            working.into_iter().map(|w| w.join().unwrap()).sum::<u64>()
        });
    }
    assert!(steps > CYCLES * WRITERS, "{steps} steps are too few for this test");
}
