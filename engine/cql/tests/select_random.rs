//! Random selects, compared with a plain list of rows. They have bounds of one and of several
//! clustering columns in mixed orders, `IN`, both directions, limits, pages, and conditions. Some
//! rows are deleted.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_cql::{Rows, RunOptions, Session};
use firn_kv::MemEnv;
use firn_testkit::rng::Rng;
use firn_wide::{Options, Wide};

/// Partition, three clustering columns, value.
type Line = (i32, [i32; 3], i32);

const NAMES: [&str; 3] = ["a", "b", "c"];
const MAX: u64 = 4;

struct World {
    session: Session,
    descending: [bool; 3],
    rows: Vec<Line>,
}

/// A condition in CQL, and its predicate on a row.
type Condition = (String, Box<dyn Fn(&Line) -> bool>);

fn holds(sign: &str, order: Ordering) -> bool {
    match sign {
        "=" => order.is_eq(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

impl World {
    fn new(rng: &mut Rng, descending: [bool; 3]) -> World {
        let env = MemEnv::new(1);
        let session =
            Session::new(Wide::open_in(Arc::new(env), "db", Options::default()).unwrap()).unwrap();
        let run = |text: &str| session.execute(text, ()).unwrap();
        run(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        run("USE ks");
        let order: Vec<_> = NAMES
            .iter()
            .zip(descending)
            .map(|(n, d)| format!("{n} {}", if d { "DESC" } else { "ASC" }))
            .collect();
        let order = order.join(", ");
        run(&format!(
            "CREATE TABLE t (p int, a int, b int, c int, s int static, v int, PRIMARY KEY (p, a, b, c)) WITH CLUSTERING ORDER BY ({order})"
        ));
        let mut rows = vec![];
        for p in 0..3 {
            for i in 0..MAX.pow(3) {
                let key = [(i / MAX / MAX) as i32, (i / MAX % MAX) as i32, (i % MAX) as i32];
                if rng.one_in(3) {
                    continue;
                }
                let v = rng.below(5) as i32;
                let [a, b, c] = key;
                run(&format!("INSERT INTO t (p, a, b, c, v) VALUES ({p}, {a}, {b}, {c}, {v})"));
                if rng.one_in(8) {
                    run(&format!(
                        "DELETE FROM t WHERE p = {p} AND a = {a} AND b = {b} AND c = {c}"
                    ));
                } else {
                    rows.push((p, key, v));
                }
            }
            run(&format!("INSERT INTO t (p, s) VALUES ({p}, {p})"));
        }
        // The order of a scan: partitions by token, which is 1, 0, 2 for these keys.
        let place = |p: i32| [1, 0, 2].iter().position(|q| *q == p);
        rows.sort_by(|x, y| {
            let key = (0..3)
                .map(|i| if descending[i] { y.1[i].cmp(&x.1[i]) } else { x.1[i].cmp(&y.1[i]) });
            place(x.0).cmp(&place(y.0)).then(key.fold(Ordering::Equal, Ordering::then))
        });
        World { session, descending, rows }
    }

    /// Returns conditions on the clustering columns.
    fn clustering(&self, rng: &mut Rng) -> Vec<Condition> {
        let mut all: Vec<Condition> = vec![];
        let mut at = 0;
        while at < 3 && rng.one_in(2) {
            let i = at;
            if rng.one_in(3) {
                let list: Vec<i32> = (0..rng.below(3)).map(|_| rng.below(MAX) as i32).collect();
                let shown: Vec<_> = list.iter().map(i32::to_string).collect();
                all.push((
                    format!("{} IN ({})", NAMES[i], shown.join(", ")),
                    Box::new(move |l| list.contains(&l.1[i])),
                ));
            } else {
                let n = rng.below(MAX) as i32;
                all.push((format!("{} = {n}", NAMES[i]), Box::new(move |l| l.1[i] == n)));
            }
            at += 1;
        }
        if at < 3 {
            for signs in [[">", ">="], ["<", "<="]] {
                if rng.one_in(2) {
                    let len = 1 + rng.below(3 - at as u64) as usize;
                    let sign = signs[rng.below(2) as usize];
                    all.push(bound(rng, at, len, sign));
                }
            }
        }
        all
    }

    fn select(&self, text: &str, page: Option<usize>) -> Vec<Line> {
        let line = |rows: &Rows| {
            let each =
                rows.typed::<(i32, i32, i32, i32, Option<i32>, Option<i32>)>().unwrap().into_iter();
            each.map(|(p, a, b, c, v, s)| {
                assert_eq!(s, Some(p), "{text}");
                (p, [a, b, c], v.unwrap())
            })
            .collect::<Vec<_>>()
        };
        let prepared = self.session.prepare(text).unwrap();
        let how = RunOptions { page_size: page, ..RunOptions::default() };
        let walk = self.session.query_with(text, (), &how).unwrap();
        let walked: Vec<i32> = walk.map(|row| row.unwrap().get("b").unwrap()).collect();
        let (mut all, mut paging) = (Vec::<Line>::new(), None);
        loop {
            let rows = self
                .session
                .run(
                    &prepared,
                    (),
                    &RunOptions { page_size: page, paging, ..RunOptions::default() },
                )
                .unwrap();
            assert!(page.is_none_or(|n| rows.len() <= n), "{text}");
            all.extend(line(&rows));
            paging = rows.paging().cloned();
            if paging.is_none() {
                assert_eq!(walked, all.iter().map(|l| l.1[1]).collect::<Vec<i32>>(), "{text}");
                return all;
            }
        }
    }

    /// Returns whether any row was found.
    fn check(&self, rng: &mut Rng) -> bool {
        let mut conditions = self.clustering(rng);
        let p = rng.below(4) as i32;
        let (one, filters) = (rng.one_in(2), rng.one_in(2));
        if one {
            conditions.push((format!("p = {p}"), Box::new(move |l| l.0 == p)));
        }
        if filters {
            let n = rng.below(5) as i32;
            conditions.push((format!("v >= {n}"), Box::new(move |l| l.2 >= n)));
        }
        let reverse = one && rng.one_in(2);
        let limit = if rng.one_in(3) { 1 + rng.below(12) as usize } else { usize::MAX };
        let per_partition = if rng.one_in(4) { 1 + rng.below(6) as usize } else { usize::MAX };
        let shown: Vec<_> = conditions.iter().map(|c| &*c.0).collect();
        let mut text = "SELECT p, a, b, c, v, s FROM t".to_owned();
        // Partitions without rows would be shown for their static column.
        if shown.is_empty() {
            return false;
        }
        text.push_str(&format!(" WHERE {}", shown.join(" AND ")));
        if reverse {
            text.push_str(&format!(
                " ORDER BY a {}",
                if self.descending[0] { "ASC" } else { "DESC" }
            ));
        }
        if per_partition < usize::MAX {
            text.push_str(&format!(" PER PARTITION LIMIT {per_partition}"));
        }
        if limit < usize::MAX {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        text.push_str(" ALLOW FILTERING");
        let mut wanted: Vec<Line> =
            self.rows.iter().filter(|l| conditions.iter().all(|c| c.1(l))).copied().collect();
        if reverse {
            wanted.reverse();
        }
        let mut seen = [0; 4];
        wanted.retain(|l| {
            seen[l.0 as usize] += 1;
            seen[l.0 as usize] <= per_partition
        });
        wanted.truncate(limit);
        if wanted.is_empty() && conditions.iter().all(|c| c.0.starts_with("p =")) {
            return false;
        }
        assert_eq!(self.select(&text, None), wanted, "{text}");
        let page = 1 + rng.below(5) as usize;
        assert_eq!(self.select(&text, Some(page)), wanted, "{text} in pages of {page}");
        !wanted.is_empty()
    }
}

/// Returns a bound of `len` columns from `at` on.
fn bound(rng: &mut Rng, at: usize, len: usize, sign: &'static str) -> Condition {
    let values: Vec<i32> = (0..len).map(|_| rng.below(MAX) as i32).collect();
    let shown: Vec<_> = values.iter().map(i32::to_string).collect();
    let text = format!("({}) {sign} ({})", NAMES[at..at + len].join(", "), shown.join(", "));
    (text, Box::new(move |l| holds(sign, l.1[at..at + len].cmp(&values))))
}

#[test]
fn what_is_asked_for_is_what_comes() {
    let mut rng = Rng::new(7);
    let mut found = 0;
    for order in 0..8 {
        let world = World::new(&mut rng, [order & 1 > 0, order & 2 > 0, order & 4 > 0]);
        found += (0..150).filter(|_| world.check(&mut rng)).count();
    }
    assert!(found > 400, "only {found} of 1200 found anything");
}
