//! Changes with explicit timestamps have the same result in any order, whatever the engine does in
//! between (model 2.2, 3.2, 3.3). Random histories run in their order and shuffled, with flushes,
//! compactions and reopening. Operations that read before they write, and those that use the
//! clock's time as a name (elements of lists), are excluded.

use std::sync::Arc;
use std::time::Duration;

use firn_cql::internals::values::literal;
use firn_cql::{Rows, Session};
use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::{Options, Wide};

const HISTORIES: u64 = 30;
const CHANGES: u64 = 24;
/// TTLs in seconds: some expire between the two halves of a history.
const LIVES: [u32; 3] = [10, 20, 1000];
const PAUSE: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
enum Step {
    Change(usize, String),
    Flush,
    Compact,
    Reopen,
    /// Advances the clock. No change is moved across it.
    Wait,
}

/// Generates changes. There are few timestamps, so that many are equal. Those in one half of a
/// history are odd, in the other even. Otherwise results would depend on compactions: an expired
/// cell becomes a deletion with the same timestamp as soon as a compaction reads it.
struct Maker {
    rng: Rng,
    half: i64,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn number(&mut self) -> String {
        match self.below(8) {
            0 => "null".into(),
            n => n.to_string(),
        }
    }

    fn timestamp(&mut self) -> i64 {
        10 + 2 * self.below(6) as i64 + self.half
    }

    /// Returns `USING …`; empty in a batch with its own timestamp.
    fn using(&mut self, has_timestamp: bool, may_expire: bool) -> String {
        let mut all = vec![];
        if has_timestamp {
            all.push(format!("TIMESTAMP {}", self.timestamp()));
        }
        if may_expire && self.below(3) == 0 {
            let life = LIVES[self.below(3) as usize];
            all.push(format!("TTL {life}"));
        }
        if all.is_empty() { String::new() } else { format!(" USING {}", all.join(" AND ")) }
    }

    fn set(&mut self) -> String {
        let all: Vec<_> = (0..self.below(3)).map(|_| self.below(4).to_string()).collect();
        format!("{{{}}}", all.join(", "))
    }

    fn map(&mut self) -> String {
        let all: Vec<_> =
            (0..self.below(3)).map(|_| format!("{}: {}", self.below(4), self.below(9))).collect();
        format!("{{{}}}", all.join(", "))
    }

    /// Returns the value of a column for an `INSERT`.
    fn value(&mut self, column: &str) -> String {
        match column {
            "s" | "ss" => self.set(),
            "m" => self.map(),
            "u" => format!("{{x: {}, y: {}}}", self.number(), self.number()),
            "fl" => format!("[{}, {}]", self.below(9), self.below(9)),
            _ => self.number(),
        }
    }

    fn column(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len() as u64) as usize]
    }

    fn assignment(&mut self, column: &str) -> String {
        match (column, self.below(4)) {
            ("s" | "ss", 0) => format!("{column} = {column} - {}", self.set()),
            ("s" | "ss", 1 | 2) => format!("{column} = {column} + {}", self.set()),
            ("m", 0) => format!("m = m - {}", self.set()),
            ("m", 1) => format!("m = m + {}", self.map()),
            ("m", 2) => format!("m[{}] = {}", self.below(4), self.number()),
            ("u", 0 | 1) => format!("u.x = {}", self.number()),
            ("u", 2) => format!("u.y = {}", self.number()),
            _ => format!("{column} = {}", self.value(column)),
        }
    }

    fn rows(&mut self, only_one: bool) -> String {
        let (p, c) = (self.below(2), self.below(4));
        match (only_one, self.below(6)) {
            (false, 0) => format!("p = {p}"),
            (false, 1) => format!("p = {p} AND c >= {c} AND c < {}", c + 1 + self.below(3)),
            (false, 2) => format!("p = {p} AND c > {c}"),
            (_, 3) => format!("p = {p} AND c IN ({c}, {})", self.below(4)),
            _ => format!("p = {p} AND c = {c}"),
        }
    }

    fn statement(&mut self, has_timestamp: bool) -> String {
        const COLUMNS: [&str; 7] = ["v", "s", "m", "u", "fl", "st", "ss"];
        match self.below(10) {
            0..3 => {
                let (a, b) = (self.column(&["v", "m", "u", "st"]), self.column(&["s", "fl", "ss"]));
                let (p, c, x, y) = (self.below(2), self.below(4), self.value(a), self.value(b));
                let using = self.using(has_timestamp, true);
                format!("INSERT INTO t (p, c, {a}, {b}) VALUES ({p}, {c}, {x}, {y}){using}")
            }
            3..7 => {
                let column = self.column(&COLUMNS);
                let using = self.using(has_timestamp, true);
                let what = self.assignment(column);
                let rows = if column.starts_with("s") && column != "s" {
                    format!("p = {}", self.below(2))
                } else {
                    self.rows(true)
                };
                format!("UPDATE t{using} SET {what} WHERE {rows}")
            }
            7 | 8 => {
                let (using, rows) = (self.using(has_timestamp, false), self.rows(false));
                format!("DELETE FROM t{using} WHERE {rows}")
            }
            _ => {
                let column = self.column(&[
                    "v", "s", "m", "u", "fl", "s[1]", "m[1]", "u.x", "st", "ss", "ss[2]",
                ]);
                let using = self.using(has_timestamp, false);
                let rows = if column.starts_with("ss") || column == "st" {
                    "p = 1".into()
                } else {
                    self.rows(true)
                };
                format!("DELETE {column} FROM t{using} WHERE {rows}")
            }
        }
    }

    fn change(&mut self) -> String {
        match self.below(6) {
            0 => {
                let own = self.below(2) == 0;
                let using = if own {
                    String::new()
                } else {
                    format!(" USING TIMESTAMP {}", self.timestamp())
                };
                let all: Vec<_> =
                    (0..1 + self.below(3)).map(|_| self.statement(own) + ";").collect();
                format!("BEGIN BATCH{using} {} APPLY BATCH", all.join(" "))
            }
            _ => self.statement(true),
        }
    }
}

struct World {
    env: MemEnv,
    session: Option<Session>,
}

impl World {
    fn new() -> World {
        let env = MemEnv::new(1);
        let mut world = World { env, session: None };
        world.open();
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE ks.pt (x int, y int)",
            "CREATE TABLE ks.t (p int, c int, v int, s set<int>, m map<int, int>, u pt, fl frozen<list<int>>, st int static, \
             ss set<int> static, PRIMARY KEY (p, c))",
        ] {
            world.session().execute(text, ()).unwrap();
        }
        world.session().execute("USE ks", ()).unwrap();
        world
    }

    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn open(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().unwrap();
        }
        let mut options = Options::default();
        options.store.db = DbOptions {
            background_threads: 0,
            memory_budget: 8 << 20,
            wal_segment: 256 << 10,
            ..DbOptions::default()
        };
        let session =
            Session::new(Wide::open_in(Arc::new(self.env.clone()), "db", options).unwrap())
                .unwrap();
        if session.engine().catalog().keyspace("ks").is_some() {
            session.execute("USE ks", ()).unwrap();
        }
        self.session = Some(session);
    }

    fn each_tree(&self, work: impl Fn(&firn_kv::Tree)) {
        let db = self.session().engine().store().db();
        db.tree_names()
            .iter()
            .filter(|n| n.starts_with("cf-"))
            .for_each(|n| work(&db.existing_tree(n).unwrap()));
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Change(_, text) => {
                drop(self.session().execute(text, ()).unwrap_or_else(|e| panic!("{text}: {e}")))
            }
            Step::Flush => self.each_tree(|t| t.flush().unwrap()),
            Step::Compact => self.each_tree(|t| t.compact().unwrap()),
            Step::Reopen => self.open(),
            Step::Wait => self.env.advance(PAUSE),
        }
    }

    /// Returns the state.
    fn state(&self) -> String {
        let shown = |rows: &Rows| {
            let line = |row: firn_cql::Row<'_>| {
                let each = rows
                    .columns()
                    .iter()
                    .enumerate()
                    .map(|(i, c)| literal(&c.column_type.value_type, row.bytes(i)));
                each.collect::<Vec<_>>().join(" | ")
            };
            rows.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        let all = self.session().execute("SELECT * FROM t", ()).unwrap();
        let times = "SELECT p, c, writetime(v), ttl(v), writetime(st), ttl(st) FROM t";
        format!("{}\n{}", shown(&all), shown(&self.session().execute(times, ()).unwrap()))
    }
}

/// Returns the states after each half.
fn run<'s>(steps: impl IntoIterator<Item = &'s Step>) -> Vec<String> {
    let mut world = World::new();
    let mut states = vec![];
    for step in steps {
        if let Step::Wait = step {
            states.push(world.state());
        }
        world.take(step);
        if let Step::Wait = step {
            states.push(world.state());
        }
    }
    states.push(world.state());
    states
}

/// Returns the changes of a half of a history in their order.
fn in_order(steps: &[Step]) -> Vec<&Step> {
    let mut all = vec![];
    for half in steps.split(|s| matches!(s, Step::Wait)) {
        if !all.is_empty() {
            all.push(&Step::Wait);
        }
        let mut changes: Vec<&Step> =
            half.iter().filter(|s| matches!(s, Step::Change(..))).collect();
        changes.sort_by_key(|s| if let Step::Change(i, _) = s { *i } else { 0 });
        all.extend(changes);
    }
    all
}

fn differs(steps: &[Step]) -> Option<(Vec<String>, Vec<String>)> {
    let (shuffled, plain) = (run(steps), run(in_order(steps)));
    (shuffled != plain).then_some((shuffled, plain))
}

fn history(seed: u64) -> Vec<Step> {
    let mut maker = Maker { rng: Rng::new(seed), half: 0 };
    let mut steps = vec![];
    for half in 0..2 {
        maker.half = half;
        let mut changes: Vec<_> =
            (0..CHANGES as usize).map(|i| Step::Change(i, maker.change())).collect();
        maker.rng.shuffle(&mut changes);
        for change in changes {
            steps.push(change);
            match maker.below(12) {
                0 => steps.push(Step::Flush),
                1 => steps.push(Step::Compact),
                2 => steps.push(Step::Reopen),
                _ => {}
            }
        }
        if half == 0 {
            steps.push(Step::Wait);
        }
    }
    steps
}

/// Uuids, positions in lists and times come from the environment, so each run of a history has the
/// same result.
#[test]
fn a_history_is_the_same_each_time() {
    let run = |seed: u64| {
        let world = World { env: MemEnv::new(seed), session: None };
        let mut world = world;
        world.open();
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, a uuid, b timeuuid, l list<int>)",
            "INSERT INTO ks.t (k, a, b, l) VALUES (1, uuid(), now(), [1, 2])",
            "UPDATE ks.t SET l = [0] + l, a = uuid() WHERE k = 2",
        ] {
            world.session().execute(text, ()).unwrap();
        }
        let session = world.session();
        let table = session.engine().catalog().keyspace("ks").unwrap().table("t").unwrap().uuid;
        let rows =
            session.execute("SELECT k, a, b, l, writetime(a), uuid() FROM ks.t", ()).unwrap();
        let row = |row: firn_cql::Row<'_>| {
            (0..6).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        // The stored cells, including paths of lists.
        let family =
            session.engine().store().db().tree_names().into_iter().filter(|n| n.starts_with("cf-"));
        let cells = family.flat_map(|name| {
            let tree = session.engine().store().db().existing_tree(&name).unwrap();
            tree.prefix(b"")
                .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
                .collect::<Vec<_>>()
        });
        (table, rows.iter().map(row).collect::<Vec<_>>(), cells.collect::<Vec<_>>())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn the_order_of_changes_does_not_matter() {
    let mut rows = 0;
    for seed in 0..HISTORIES {
        let mut steps = history(seed);
        if differs(&steps).is_none() {
            rows += run(&steps).last().map_or(0, |s| s.lines().count());
            continue;
        }
        // Removes steps that are not needed for the difference.
        let mut i = 0;
        while i < steps.len() {
            let mut fewer = steps.clone();
            let was_wait = matches!(fewer.remove(i), Step::Wait);
            if !was_wait && differs(&fewer).is_some() {
                steps = fewer;
            } else {
                i += 1;
            }
        }
        let (shuffled, plain) = differs(&steps).unwrap();
        panic!("seed {seed}: {steps:#?}\nshuffled: {shuffled:#?}\nin order: {plain:#?}");
    }
    assert!(rows > 125, "histories that end in {rows} rows in all test little");
}
