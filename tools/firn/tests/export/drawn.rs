//! A table of randomly drawn columns: every type, as a key, static, or with a cell for each
//! element.

use firn_cql::Session;
use firn_testkit::rng::Rng;

/// A type, and a literal of it for a small number.
type Drawn = (&'static str, fn(u64) -> String);

/// Types that keys may have.
const KEYS: [Drawn; 26] = [
    ("ascii", |n| format!("'a{n}'")),
    ("bigint", |n| format!("{}", n as i64 - 3)),
    ("blob", |n| format!("0x{n:04x}")),
    ("boolean", |n| format!("{}", n % 2 == 0)),
    ("date", |n| format!("'2026-01-0{}'", n + 1)),
    ("decimal", |n| format!("-{n}.50")),
    ("double", |n| format!("{n}.25")),
    ("float", |n| format!("-{n}.5")),
    ("inet", |n| ["'10.0.0.1'", "'2001:db8::1'"][n as usize % 2].to_owned()),
    ("int", |n| format!("{}", n as i64 - 3)),
    ("smallint", |n| format!("{}", n as i64 - 3)),
    ("text", |n| ["'x'", "'yy'", "''"][n as usize % 3].to_owned()),
    ("time", |n| format!("'01:02:0{n}.5'")),
    ("timestamp", |n| format!("{n}000")),
    ("timeuuid", |n| format!("0000000{n}-0000-1000-8080-808080808080")),
    ("tinyint", |n| format!("{}", n as i64 - 3)),
    ("uuid", |n| format!("0000000{n}-0000-4000-8080-808080808080")),
    ("varint", |n| format!("-{n}00000000000000000000")),
    ("frozen<list<int>>", |n| format!("[{n}, 1]")),
    ("frozen<set<text>>", |n| format!("{{'x', 'y{n}'}}")),
    ("frozen<map<int, frozen<place>>>", |n| format!("{{{n}: {{number: {n}}}}}")),
    ("frozen<place>", |n| format!("{{street: 's{n}'}}")),
    ("frozen<tuple<int, text>>", |n| format!("({n}, null)")),
    ("frozen<list<frozen<tuple<int, int>>>>", |n| format!("[(null, null), ({n}, null)]")),
    ("vector<int, 2>", |n| format!("[1, {n}]")),
    ("vector<text, 2>", |n| format!("['a', 'b{n}']")),
];

/// Types of other columns.
const OTHERS: [Drawn; 7] = [
    ("duration", |n| format!("1mo{n}d3h")),
    ("list<int>", |n| format!("[{n}, {n}, 1]")),
    ("set<frozen<tuple<int, text>>>", |n| format!("{{({n}, null), (null, null)}}")),
    ("map<text, frozen<list<int>>>", |n| format!("{{'k{n}': [1], 'k': []}}")),
    ("map<frozen<place>, int>", |n| format!("{{{{number: {n}}}: 1}}")),
    ("place", |n| format!("{{street: 's', number: {n}, tags: {{'t'}}}}")),
    ("list<frozen<place>>", |n| format!("[{{number: {n}}}]")),
];

/// Columns of the table.
pub struct DrawnTable {
    partition: Vec<Drawn>,
    clustering: Vec<(Drawn, bool)>,
    statics: Vec<Drawn>,
    regulars: Vec<Drawn>,
}

fn draw(rng: &mut Rng, from: u64, to: u64, with_others: bool) -> Vec<Drawn> {
    let count = rng.range(from..to);
    let mut one = || match with_others && rng.one_in(3) {
        true => OTHERS[rng.below(OTHERS.len() as u64) as usize],
        false => KEYS[rng.below(KEYS.len() as u64) as usize],
    };
    (0..count).map(|_| one()).collect()
}

fn names<'a>(kind: &'a str, of: &'a [Drawn]) -> impl Iterator<Item = String> + 'a {
    (0..of.len()).map(move |i| format!("{kind}{i}"))
}

impl DrawnTable {
    pub fn new(rng: &mut Rng) -> DrawnTable {
        let partition = draw(rng, 1, 4, false);
        let clustering = draw(rng, 0, 4, false);
        let clustering: Vec<_> = clustering.into_iter().map(|c| (c, rng.one_in(2))).collect();
        let statics = if clustering.is_empty() { vec![] } else { draw(rng, 0, 3, true) };
        DrawnTable { partition, clustering, statics, regulars: draw(rng, 1, 12, true) }
    }

    fn clusterings(&self) -> Vec<Drawn> {
        self.clustering.iter().map(|c| c.0).collect()
    }

    fn create(&self) -> String {
        let column = |kind: &str, of: &[Drawn], end: &str| -> String {
            of.iter().enumerate().map(|(i, d)| format!("{kind}{i} {}{end}, ", d.0)).collect()
        };
        let clustering = self.clusterings();
        let keys: Vec<String> = names("p", &self.partition).collect();
        let after: String = names("c", &clustering).map(|n| format!(", {n}")).collect();
        let order: Vec<String> = names("c", &clustering)
            .zip(&self.clustering)
            .map(|(name, (_, falls))| format!("{name} {}", if *falls { "DESC" } else { "ASC" }))
            .collect();
        let order = match order.is_empty() {
            true => String::new(),
            false => format!(" WITH CLUSTERING ORDER BY ({})", order.join(", ")),
        };
        format!(
            "CREATE TABLE way.drawn ({}{}{}{}PRIMARY KEY (({}){after})){order}",
            column("p", &self.partition, ""),
            column("c", &clustering, ""),
            column("s", &self.statics, " static"),
            column("v", &self.regulars, ""),
            keys.join(", ")
        )
    }

    /// Creates and fills the table.
    pub fn fill(&self, session: &Session, rng: &mut Rng, count: u64) {
        session.execute(&self.create(), ()).unwrap_or_else(|e| panic!("{}: {e}", self.create()));
        for _ in 0..count {
            let text = self.statement(rng);
            session.execute(&text, ()).unwrap_or_else(|e| panic!("{text}: {e}\n{}", self.create()));
        }
    }

    fn statement(&self, rng: &mut Rng) -> String {
        let timestamp = 1_700_000_000_000_000 + rng.below(100);
        let deletes = format!("USING TIMESTAMP {timestamp}");
        let ttl = if rng.one_in(3) { " AND TTL 200000000" } else { "" };
        let using = format!("{deletes}{ttl}");
        let mut equal = |kind: &str, of: &[Drawn], most: u64| -> Vec<(String, String)> {
            names(kind, of).zip(of).map(|(name, d)| (name, d.1(rng.below(most)))).collect()
        };
        let partition = equal("p", &self.partition, 2);
        let clustering = equal("c", &self.clusterings(), 3);
        let (mut values, statics) = (equal("v", &self.regulars, 6), equal("s", &self.statics, 6));
        values.retain(|_| rng.one_in(2));
        let clauses = |all: &[&[(String, String)]]| {
            let all: Vec<String> = all.concat().iter().map(|(n, v)| format!("{n} = {v}")).collect();
            all.join(" AND ")
        };
        let of_row = clauses(&[&partition, &clustering]);
        match rng.below(10) {
            0..6 => {
                values.extend(statics.into_iter().filter(|_| rng.one_in(3)));
                let all = [partition, clustering, values].concat();
                let (names, values): (Vec<String>, Vec<String>) = all.into_iter().unzip();
                let (names, values) = (names.join(", "), values.join(", "));
                format!("INSERT INTO way.drawn ({names}) VALUES ({values}) {using}")
            }
            6 | 7 if !values.is_empty() => {
                let sets = clauses(&[&values]).replace(" AND ", ", ");
                format!("UPDATE way.drawn {using} SET {sets} WHERE {of_row}")
            }
            8 if clustering.len() > 1 => {
                let prefix = clauses(&[&partition, &clustering[..1]]);
                format!("DELETE FROM way.drawn {deletes} WHERE {prefix}")
            }
            8 => format!("DELETE FROM way.drawn {deletes} WHERE {}", clauses(&[&partition])),
            _ => format!("DELETE v0 FROM way.drawn {deletes} WHERE {of_row}"),
        }
    }

    /// Returns the query that the test compares.
    pub fn select(&self) -> String {
        let times = names("v", &self.regulars).chain(names("s", &self.statics));
        let times: String = times.map(|n| format!(", writetime({n}), ttl({n})")).collect();
        let clustering = self.clusterings();
        let all = names("p", &self.partition).chain(names("c", &clustering));
        let all: Vec<String> =
            all.chain(names("s", &self.statics)).chain(names("v", &self.regulars)).collect();
        format!("{}{times}", all.join(", "))
    }
}
