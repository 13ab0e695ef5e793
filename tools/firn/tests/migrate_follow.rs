//! Tests `firn migrate --follow` killed at any moment, while clients update counters. At the end
//! the cluster has the content of the store, except for counters reported as unknown. The store has
//! all acknowledged updates.
#![cfg(feature = "cluster")]
#![allow(clippy::disallowed_methods, reason = "a test kills processes at times of its own")]

use super::common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::Temp;
use firn_cluster::Session as ClusterSession;
use firn_cql::Session;
use firn_server::{Options, Server};
use firn_testkit::rng::Rng;

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.visits (shop int, day int, visitors counter, PRIMARY KEY (shop, day))",
];

/// Starts a migration that follows and serves the store; returns the address of the server.
fn follow(temp: &Temp, url: &str, more: &[&str]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(["--db", "shop", "migrate", "--to", url, "--settle", "0", "--follow"]);
    command.args(["--listen", "127.0.0.1:0"]).args(more).current_dir(&temp.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.starts_with("serving shop at ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
    }
    // Reads the rest of the output, so that a full pipe does not block the process.
    let rest = child.stderr.take().unwrap();
    std::thread::spawn(move || BufReader::new(rest).lines().map_while(Result::ok).for_each(drop));
    (child, line.trim_start_matches("serving shop at ").trim().to_owned())
}

/// A statement of a client.
#[derive(Clone, Copy)]
enum Statement {
    Add { shop: i32, day: i32, visitors: i64 },
    Truncate,
}

impl Statement {
    fn draw(rng: &mut Rng) -> Statement {
        let (shop, day) = (rng.below(10) as i32, rng.below(20) as i32);
        match rng.one_in(400) {
            true => Statement::Truncate,
            false => Statement::Add { shop, day, visitors: 1 + rng.below(1000) as i64 },
        }
    }

    fn cql(self) -> String {
        match self {
            Statement::Truncate => "TRUNCATE shop.visits".to_owned(),
            Statement::Add { shop, day, visitors } => format!(
                "UPDATE shop.visits SET visitors = visitors + {visitors} WHERE shop = {shop} AND day = {day}"
            ),
        }
    }
}

/// Possible values of each counter of the store: the outcome of an interrupted statement is
/// unknown.
struct Possible(BTreeMap<(i32, i32), BTreeSet<i64>>);

impl Possible {
    fn new() -> Possible {
        let keys = (0..10).flat_map(|shop| (0..20).map(move |day| (shop, day)));
        Possible(keys.map(|key| (key, [0].into())).collect())
    }

    /// Applies `statement`, or with `maybe` both outcomes.
    fn take(&mut self, statement: Statement, maybe: bool) {
        for (key, values) in &mut self.0 {
            let done: BTreeSet<i64> = match statement {
                Statement::Truncate => [0].into(),
                Statement::Add { shop, day, visitors } if *key == (shop, day) => {
                    values.iter().map(|value| value + visitors).collect()
                }
                Statement::Add { .. } => continue,
            };
            match maybe {
                true => values.extend(done),
                false => *values = done,
            }
        }
    }
}

/// Returns the counters of a side.
fn visits(execute: impl Fn(&str) -> firn_cql::Rows) -> BTreeMap<(i32, i32), i64> {
    let rows: Vec<(i32, i32, i64)> = execute("SELECT * FROM shop.visits").typed().unwrap();
    rows.into_iter().map(|(shop, day, visitors)| ((shop, day), visitors)).collect()
}

#[test]
fn followed_counters_arrive_or_are_reported_as_unknown_after_a_kill() {
    let temp = Temp::new("migrate", "follow-killed");
    let source = Session::open(temp.path("shop")).unwrap();
    SCHEMA.iter().for_each(|cql| drop(source.execute(cql, ()).unwrap()));
    let count = "UPDATE shop.visits SET visitors = visitors + 1 WHERE shop = 0 AND day = 0";
    source.execute(count, ()).unwrap();
    source.close().unwrap();
    let server = Server::start(Options::ephemeral()).unwrap();
    let url = format!("cassandra://{}", server.address());
    let mut rng = Rng::new(30);
    let mut possible_here = Possible::new();
    possible_here.take(Statement::Add { shop: 0, day: 0, visitors: 1 }, false);
    let mut output = 0;
    for _ in 0..12 {
        let resume = temp.path("shop.migration").exists();
        // Slow enough that most kills interrupt a round in progress.
        let more = ["--rate", "800", "--resume"];
        let (mut child, at) = follow(&temp, &url, &more[..if resume { 3 } else { 2 }]);
        let writer = std::thread::spawn({
            let mut rng = Rng::new(rng.next_u64());
            // All statements succeed except the last.
            move || {
                let Ok(client) = ClusterSession::connect(&format!("cassandra://{at}")) else {
                    return Vec::new();
                };
                let mut statements = Vec::new();
                loop {
                    let statement = Statement::draw(&mut rng);
                    statements.push(statement);
                    if client.execute(&statement.cql(), ()).is_err() {
                        return statements;
                    }
                }
            }
        });
        std::thread::sleep(Duration::from_millis(200 + rng.below(1200)));
        child.kill().unwrap();
        child.wait().unwrap();
        let statements = writer.join().unwrap();
        for (nth, statement) in statements.iter().enumerate() {
            possible_here.take(*statement, nth + 1 == statements.len());
        }
        output += statements.len().saturating_sub(1);
    }
    let (child, _) = follow(&temp, &url, &["--resume", "--until-idle", "1", "--json"]);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let said: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    let mut unknown: BTreeMap<(i32, i32), Vec<i64>> = BTreeMap::new();
    for words in said["unknown_counters"].as_array().unwrap() {
        let words = words.as_str().unwrap();
        let numbers = words.split([' ', ':']).filter_map(|word| word.parse::<i64>().ok());
        let [shop, day, visitors] = numbers.collect::<Vec<_>>()[..] else { panic!("{words}") };
        unknown.entry((shop as i32, day as i32)).or_default().push(visitors);
    }
    assert_eq!(done.status.code(), Some(i32::from(!unknown.is_empty())), "{said}");
    assert_eq!(said["missing_counters"], serde_json::json!([]));
    let source = Session::open(temp.path("shop")).unwrap();
    let target = ClusterSession::connect(&url).unwrap();
    let here = visits(|cql| source.execute(cql, ()).unwrap());
    let there = visits(|cql| target.execute(cql, ()).unwrap());
    assert!(output > 0, "no client counted");
    let journal = std::fs::read_to_string(temp.path("shop.migration")).unwrap();
    assert!(journal.contains("\"unanswered\":[0"), "no kill met rows that were being sent");
    for (key, values) in &possible_here.0 {
        let value = here.get(key).copied().unwrap_or_default();
        assert!(
            values.contains(&value),
            "{key:?} is {value} here, clients expect one of {values:?}"
        );
    }
    for key in here.keys().chain(there.keys()).collect::<BTreeSet<_>>() {
        let value = |side: &BTreeMap<_, i64>| side.get(key).copied().unwrap_or_default();
        let mut possible: BTreeSet<i64> = [0].into();
        for sum in unknown.get(key).into_iter().flatten() {
            possible = possible.iter().flat_map(|s| [*s, s + sum]).collect();
        }
        let away = value(&here) - value(&there);
        assert!(possible.contains(&away), "{key:?} is {away} away, not known: {unknown:?}");
    }
    server.stop().unwrap();
}
