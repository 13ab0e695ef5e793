//! A store with sessions of both interfaces, and random histories of cells in families.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_cql::{Result, Rows, RunOptions, Session};
use firn_crash::CrashEnv;
use firn_testkit::rng::Rng;
use firn_wide::{CfDef, ColumnFamily, KsDef, ManualClock, Options, StoreOptions, Wide};

pub struct Both {
    pub env: CrashEnv,
    pub clock: Arc<ManualClock>,
    pub wide: Wide,
    pub session: Session,
}

impl Both {
    pub fn new(seed: u64) -> Both {
        let (env, clock) = (CrashEnv::new(seed), Arc::new(ManualClock::new(1_763_800_000_000_000)));
        let (wide, session) = Both::open(&env, &clock);
        wide.system_add_keyspace(&KsDef::new("rec")).unwrap();
        session.execute("USE rec", ()).unwrap();
        Both { env, clock, wide, session }
    }

    pub fn open(env: &CrashEnv, clock: &Arc<ManualClock>) -> (Wide, Session) {
        let wide = open_wide(env, clock);
        (wide.clone(), Session::new(wide).unwrap())
    }

    /// Opens the closed store with the Thrift interface alone.
    pub fn open_wide(&self) -> Wide {
        open_wide(&self.env, &self.clock)
    }

    /// Opens the closed store.
    pub fn open_again(&mut self) {
        (self.wide, self.session) = Both::open(&self.env, &self.clock);
        self.session.execute("USE rec", ()).unwrap();
    }

    /// Compacts all tables, and reopens the store.
    pub fn reopen(&mut self) {
        let db = self.wide.db();
        db.tree_names().iter().for_each(|t| db.existing_tree(t).unwrap().compact().unwrap());
        self.wide.close().unwrap();
        self.open_again();
    }

    pub fn family(&self, name: &str) -> ColumnFamily {
        self.wide.keyspace("rec").unwrap().family(name).unwrap()
    }

    pub fn ask(&self, statement: &str) -> Rows {
        self.session.execute(statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"))
    }

    /// Returns the values of all rows as bytes.
    pub fn rows(&self, statement: &str) -> Vec<Vec<Option<Vec<u8>>>> {
        values(&self.ask(statement))
    }

    pub fn refusal(&self, statement: &str) -> String {
        self.session.execute(statement, ()).unwrap_err().to_string()
    }
}

fn open_wide(env: &CrashEnv, clock: &Arc<ManualClock>) -> Wide {
    let store = StoreOptions { clock: Some(clock.clone()), ..Default::default() };
    let options = Options { store, ..Options::default() };
    Wide::open_in(Arc::new(env.clone()), "db", options).unwrap()
}

pub fn values(rows: &Rows) -> Vec<Vec<Option<Vec<u8>>>> {
    let row = |row: firn_cql::Row<'_>| {
        (0..row.columns().len()).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect()
    };
    rows.iter().map(row).collect()
}

pub fn pages(session: &Session, statement: &str, page_size: Option<usize>) -> Result<Vec<Rows>> {
    let mut how = RunOptions { page_size, ..RunOptions::default() };
    let mut pages = vec![];
    loop {
        let page = session.execute_with(statement, (), &how)?;
        how.paging = page.paging().cloned();
        pages.push(page);
        if how.paging.is_none() {
            return Ok(pages);
        }
    }
}

pub fn family_tree(both: &Both, name: &str) -> firn_kv::Tree {
    let id = both.wide.schema().family("rec", name).unwrap().id();
    both.wide.store().family(id).unwrap().tree().clone()
}

/// Sets the flag on drop, also if a test fails.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// ----------------------------------------------------------------------------------------------
// random histories

/// Number of cells in a row of the histories.
pub const CELLS: usize = 9;
/// Number of cells in a group: in a super column, or with the same first component.
pub const GROUP: usize = 3;
pub const KEYS: [&str; 3] = ["k", "l", "m"];

/// A family of the histories: cell `i` is before cell `i + 1`.
pub struct Shape {
    pub def: CfDef,
    /// The statement that creates it, if it is not created through the Thrift interface.
    pub statement: Option<&'static str>,
    /// Name in its row or super column.
    pub name: fn(usize) -> Vec<u8>,
    /// Its row in CQL.
    pub place: fn(usize) -> String,
    /// Common condition of all cells of a group, if there are groups.
    pub group: Option<fn(usize) -> String>,
    /// Values of its clustering columns.
    pub clustering: fn(usize) -> Vec<Vec<u8>>,
}

pub fn letter(n: usize) -> String {
    char::from(b'a' + n as u8).to_string()
}

pub fn long(n: usize) -> Vec<u8> {
    (n as i64).to_be_bytes().to_vec()
}

pub fn composite(parts: &[Vec<u8>]) -> Vec<u8> {
    let part = |p: &Vec<u8>| [&(p.len() as u16).to_be_bytes()[..], p, &[0]].concat();
    parts.iter().map(part).collect::<Vec<_>>().concat()
}

/// Returns the shapes of families created through the Thrift interface, and of compact tables with
/// the same cells.
pub fn shapes() -> Vec<Shape> {
    let tables = families().into_iter().zip([
        "CREATE TABLE t_flat (key text, column1 text, value text, PRIMARY KEY (key, column1)) WITH COMPACT STORAGE",
        "CREATE TABLE t_down (key text, column1 bigint, value text, PRIMARY KEY (key, column1))
         WITH CLUSTERING ORDER BY (column1 DESC) AND COMPACT STORAGE",
        "CREATE TABLE t_comp (key text, column1 text, column2 bigint, value text,
         PRIMARY KEY (key, column1, column2)) WITH COMPACT STORAGE",
    ]);
    let table = |(shape, statement): (Shape, &'static str)| {
        let name = format!("t_{}", shape.def.name);
        Shape { def: CfDef { name, ..shape.def }, statement: Some(statement), ..shape }
    };
    families().into_iter().chain(tables.map(table)).collect()
}

fn families() -> Vec<Shape> {
    let def = |name: &str, comparator: &str| CfDef {
        comparator_type: comparator.into(),
        default_validation_class: "UTF8Type".into(),
        key_validation_class: "UTF8Type".into(),
        ..CfDef::new("rec", name)
    };
    let pair = |i: usize| vec![letter(i / GROUP).into_bytes(), long(i % GROUP)];
    vec![
        Shape {
            def: def("flat", "UTF8Type"),
            statement: None,
            name: |i| letter(i).into_bytes(),
            place: |i| format!("column1 = '{}'", letter(i)),
            group: None,
            clustering: |i| vec![letter(i).into_bytes()],
        },
        Shape {
            def: def("down", "ReversedType(LongType)"),
            statement: None,
            name: |i| long(CELLS - i),
            place: |i| format!("column1 = {}", CELLS - i),
            group: None,
            clustering: |i| vec![long(CELLS - i)],
        },
        Shape {
            def: def("comp", "CompositeType(UTF8Type, LongType)"),
            statement: None,
            name: |i| composite(&[letter(i / GROUP).into_bytes(), long(i % GROUP)]),
            place: |i| format!("column1 = '{}' AND column2 = {}", letter(i / GROUP), i % GROUP),
            group: Some(|i| format!("column1 = '{}'", letter(i / GROUP))),
            clustering: pair,
        },
        Shape {
            def: CfDef {
                column_type: "Super".into(),
                subcomparator_type: Some("LongType".into()),
                ..def("sup", "UTF8Type")
            },
            statement: None,
            name: |i| long(i % GROUP),
            place: |i| format!("column1 = '{}' AND column2 = {}", letter(i / GROUP), i % GROUP),
            group: Some(|i| format!("column1 = '{}'", letter(i / GROUP))),
            clustering: pair,
        },
    ]
}

#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// Writes the cell, or deletes it.
    Cell { cell: usize, value: Option<String> },
    /// Deletes the cells from one to before another.
    Range { from: usize, until: usize },
}

#[derive(Clone, Debug)]
pub struct Did {
    pub key: usize,
    pub timestamp: i64,
    pub deed: Deed,
}

/// Reports whether the cells from one to before another are a group.
fn is_group(from: usize, until: usize) -> bool {
    from.is_multiple_of(GROUP) && until == from + GROUP
}

impl Shape {
    /// Creates it.
    pub fn make(&self, both: &Both) {
        match self.statement {
            Some(statement) => drop(both.ask(statement)),
            None => drop(both.wide.system_add_column_family(&self.def).unwrap()),
        }
    }

    pub fn is_reversed(&self) -> bool {
        self.def.comparator_type.starts_with("Reversed")
    }

    pub fn is_super(&self) -> bool {
        self.def.column_type == "Super"
    }

    /// Executes a step through either interface.
    pub fn carry_out(
        &self,
        family: &ColumnFamily,
        session: &Session,
        did: &Did,
        by_statement: bool,
    ) {
        // Ranges of names are deleted by statements only.
        if by_statement || !self.carry_out_by_call(family, did) {
            self.carry_out_by_statement(session, did);
        }
    }

    /// Executes a step through the Thrift interface, if that supports it.
    fn carry_out_by_call(&self, family: &ColumnFamily, did: &Did) -> bool {
        let Did { key, timestamp, deed } = did;
        let row = |cell: usize| {
            let row = family.row(KEYS[*key]);
            let row = match self.is_super() {
                true => row.super_column(letter(cell / GROUP)),
                false => row,
            };
            row.at(*timestamp)
        };
        match deed {
            Deed::Cell { cell, value: Some(value) } => {
                row(*cell).insert((self.name)(*cell), value.as_str()).unwrap();
            }
            Deed::Cell { cell, value: None } => row(*cell).delete((self.name)(*cell)).unwrap(),
            Deed::Range { from: 0, until: CELLS } => {
                family.row(KEYS[*key]).at(*timestamp).delete_all().unwrap();
            }
            Deed::Range { from, until } if self.is_super() && is_group(*from, *until) => {
                row(*from).delete_all().unwrap();
            }
            Deed::Range { .. } => return false,
        }
        true
    }

    pub fn carry_out_by_statement(&self, session: &Session, did: &Did) {
        let Did { key, timestamp, deed } = did;
        let (key, name) = (KEYS[*key], &self.def.name);
        let delete = |rows: &str| {
            format!("DELETE FROM {name} USING TIMESTAMP {timestamp} WHERE key = '{key}'{rows}")
        };
        let statement = match deed {
            Deed::Cell { cell, value: Some(value) } => {
                let place = (self.place)(*cell);
                format!(
                    "UPDATE {name} USING TIMESTAMP {timestamp} SET value = '{value}' WHERE key = '{key}' AND {place}"
                )
            }
            Deed::Cell { cell, value: None } => delete(&format!(" AND {}", (self.place)(*cell))),
            Deed::Range { from: 0, until: CELLS } => delete(""),
            Deed::Range { from, until } => {
                let (below, above) = match self.is_reversed() {
                    true => ("<=", ">="),
                    false => (">=", "<="),
                };
                let bound = |cell: usize, how: &str| match self.group {
                    None => (self.place)(cell).replace('=', how),
                    Some(_) => {
                        let (group, within) = (letter(cell / GROUP), cell % GROUP);
                        format!("(column1, column2) {how} ('{group}', {within})")
                    }
                };
                let bounds = match (from, until, self.group) {
                    (_, _, Some(group)) if is_group(*from, *until) => group(*from),
                    // A range without an end on one side has no bound there.
                    (0, _, _) => bound(until - 1, above),
                    (_, &CELLS, _) => bound(*from, below),
                    _ => format!("{} AND {}", bound(*from, below), bound(until - 1, above)),
                };
                delete(&format!(" AND {bounds}"))
            }
        };
        session.execute(&statement, ()).unwrap_or_else(|e| panic!("{statement}: {e}"));
    }

    pub fn random(&self, rng: &mut Rng, timestamp: i64) -> Did {
        let key = rng.below(KEYS.len() as u64) as usize;
        let cell = rng.below(CELLS as u64) as usize;
        let deed = match rng.below(12) {
            0 => Deed::Range { from: 0, until: CELLS },
            1 if self.group.is_some() => {
                let from = cell / GROUP * GROUP;
                Deed::Range { from, until: from + GROUP }
            }
            1 | 2 => {
                let until = cell + 1 + rng.below((CELLS - cell) as u64) as usize;
                let from = if rng.below(3) == 0 { 0 } else { cell };
                Deed::Range { from, until }
            }
            3 | 4 => Deed::Cell { cell, value: None },
            _ => Deed::Cell { cell, value: Some(format!("v{}", rng.below(50))) },
        };
        Did { key, timestamp, deed }
    }
}

/// Returns the expected cells of a row after all steps, in any order: cells with values and
/// timestamps.
pub fn expected(all: &[Did], key: usize) -> Vec<(usize, String, i64)> {
    let mut out = vec![];
    for cell in 0..CELLS {
        let (mut best, mut covered) = (None, i64::MIN);
        for did in all.iter().filter(|d| d.key == key) {
            match &did.deed {
                Deed::Cell { cell: c, value } if *c == cell => {
                    best = best.max(Some((did.timestamp, value.is_none(), value.clone())));
                }
                Deed::Range { from, until } if (*from..*until).contains(&cell) => {
                    covered = covered.max(did.timestamp);
                }
                _ => {}
            }
        }
        if let Some((timestamp, _, Some(value))) = best.filter(|b| b.0 > covered) {
            out.push((cell, value, timestamp));
        }
    }
    out
}

/// Checks that both interfaces return the state after all steps.
pub fn check(both: &Both, shape: &Shape, all: &[Did], rng: &mut Rng) {
    check_rows(both, shape, all, rng);
    let (name, family) = (&shape.def.name, both.family(&shape.def.name));
    for (number, key) in KEYS.iter().enumerate() {
        let expected = expected(all, number);
        let cells = |found: &[firn_wide::Column]| {
            let cell = |c: &firn_wide::Column| (c.name.clone(), c.value.clone(), c.timestamp);
            found.iter().map(cell).collect::<Vec<_>>()
        };
        let named = |e: &&(usize, String, i64)| ((shape.name)(e.0), e.1.clone().into_bytes(), e.2);
        if shape.is_super() {
            for found in family.row(*key).slice().super_columns().unwrap() {
                let of_group =
                    expected.iter().filter(|e| letter(e.0 / GROUP).as_bytes() == found.name);
                let of_group: Vec<_> = of_group.collect();
                assert_eq!(cells(&found.columns), of_group.iter().map(named).collect::<Vec<_>>());
            }
        } else {
            let found = family.row(*key).slice().columns().unwrap();
            let found: Vec<_> = found.map(|c| c.unwrap()).collect();
            let all: Vec<_> = expected.iter().collect();
            assert_eq!(cells(&found), all.iter().map(named).collect::<Vec<_>>(), "{name} {key}");
        }
    }
}

/// Checks that statements return the state after all steps.
pub fn check_rows(both: &Both, shape: &Shape, all: &[Did], rng: &mut Rng) {
    let name = &shape.def.name;
    let columns = if shape.group.is_some() { "column1, column2" } else { "column1" };
    let mut count = 0;
    for (number, key) in KEYS.iter().enumerate() {
        let expected = expected(all, number);
        count += expected.len();
        let row = |(cell, value, timestamp): &(usize, String, i64)| {
            let mut row: Vec<_> = (shape.clustering)(*cell).into_iter().map(Some).collect();
            row.push(Some(value.as_bytes().to_vec()));
            row.push(Some(timestamp.to_be_bytes().to_vec()));
            row
        };
        let rows: Vec<_> = expected.iter().map(row).collect();
        let select =
            format!("SELECT {columns}, value, writetime(value) FROM {name} WHERE key = '{key}'");
        assert_eq!(both.rows(&select), rows, "{select}");
        let paged = pages(&both.session, &select, Some(1 + rng.below(4) as usize)).unwrap();
        assert_eq!(paged.iter().flat_map(values).collect::<Vec<_>>(), rows, "paged {select}");
        let back = format!(
            "{select} ORDER BY column1 {}",
            if shape.is_reversed() { "ASC" } else { "DESC" }
        );
        assert_eq!(both.rows(&back), rows.iter().rev().cloned().collect::<Vec<_>>(), "{back}");
        let cell = rng.below(CELLS as u64) as usize;
        let one = format!("{select} AND {}", (shape.place)(cell));
        let of_one: Vec<_> = expected.iter().filter(|e| e.0 == cell).map(row).collect();
        assert_eq!(both.rows(&one), of_one, "{one}");
        if let Some(group) = shape.group {
            let some = format!("{select} AND {}", group(cell));
            let of_group = expected.iter().filter(|e| e.0 / GROUP == cell / GROUP);
            assert_eq!(both.rows(&some), of_group.map(row).collect::<Vec<_>>(), "{some}");
        }
    }
    let counted = both.rows(&format!("SELECT count(*) FROM {name}"));
    assert_eq!(counted, [[Some((count as i64).to_be_bytes().to_vec())]]);
}
