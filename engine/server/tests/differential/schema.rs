//! Tables, drawn: what the statements of a history are about.

use firn_testkit::rng::Rng;

use crate::types::{DrawnType, UserType, draw_key_type, draw_type};

/// Which part of a row a column is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnRole {
    Partition,
    Clustering,
    Static,
    Regular,
}

#[derive(Clone, Debug)]
pub struct DrawnColumn {
    pub name: String,
    pub of: DrawnType,
    pub role: ColumnRole,
    /// What an index on it is of: the column, or `keys(…)` and the like.
    pub indexed: Option<String>,
    /// Whether it is a clustering column in descending order.
    pub descending: bool,
}

#[derive(Clone, Debug)]
pub struct DrawnTable {
    pub name: String,
    pub columns: Vec<DrawnColumn>,
    pub counts: bool,
    /// Whether writes have no timestamps and conditions, or the one and not the other: conditions
    /// write at the server's time.
    pub conditional: bool,
}

#[derive(Clone, Debug)]
pub struct DrawnSchema {
    pub users: Vec<UserType>,
    pub tables: Vec<DrawnTable>,
}

impl DrawnTable {
    pub fn of(&self, role: ColumnRole) -> Vec<&DrawnColumn> {
        self.columns.iter().filter(|c| c.role == role).collect()
    }

    fn draw(rng: &mut Rng, name: String, users: &[UserType]) -> DrawnTable {
        let counts = rng.one_in(6);
        let mut columns = vec![];
        let mut add = |name: String, of: DrawnType, role| {
            columns.push(DrawnColumn { name, of, role, indexed: None, descending: false });
        };
        let key = |rng: &mut Rng| {
            if rng.one_in(8) {
                let drawn = draw_type(rng, users.len(), 1).frozen();
                if !drawn.has_duration(users) {
                    return drawn;
                }
            }
            draw_key_type(rng)
        };
        for i in 0..if rng.one_in(3) { 2 } else { 1 } {
            add(format!("p{i}"), key(rng), ColumnRole::Partition);
        }
        let clustering = rng.below(4);
        for i in 0..clustering {
            add(format!("c{i}"), key(rng), ColumnRole::Clustering);
        }
        let value = |rng: &mut Rng| match counts {
            true => DrawnType::Native("counter"),
            false => draw_type(rng, users.len(), 2),
        };
        if clustering > 0 {
            for i in 0..rng.below(3) {
                add(format!("s{i}"), value(rng), ColumnRole::Static);
            }
        }
        for i in 0..u64::from(counts) + rng.below(if counts { 2 } else { 6 }) {
            let name = if rng.one_in(12) { format!("\"V {i}\"") } else { format!("v{i}") };
            add(name, value(rng), ColumnRole::Regular);
        }
        for column in columns.iter_mut().filter(|c| c.role == ColumnRole::Clustering) {
            column.descending = rng.one_in(3);
        }
        let conditional = !counts && rng.one_in(4);
        let mut table = DrawnTable { name, columns, counts, conditional };
        if !counts && rng.one_in(2) {
            table.draw_indexes(rng, users);
        }
        table
    }

    fn draw_indexes(&mut self, rng: &mut Rng, users: &[UserType]) {
        let keys = self.columns.iter().filter(|c| c.role == ColumnRole::Partition).count();
        for column in &mut self.columns {
            let alone = column.role == ColumnRole::Partition && keys == 1;
            if alone || !rng.one_in(4) || column.of.has_duration(users) {
                continue;
            }
            let name = &column.name;
            column.indexed = match &column.of {
                DrawnType::Map(_, _, false) => match rng.below(3) {
                    0 => Some(format!("keys({name})")),
                    1 => Some(format!("entries({name})")),
                    _ => Some(name.clone()),
                },
                DrawnType::User(_, false) => None,
                of if of.is_collection() && !of.is_multicell() => Some(format!("full({name})")),
                _ => Some(name.clone()),
            };
        }
    }

    fn statements(&self, users: &[UserType]) -> Vec<String> {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|c| {
                let is_static = if c.role == ColumnRole::Static { " static" } else { "" };
                format!("{} {}{is_static}", c.name, c.of.cql(users))
            })
            .collect();
        let names =
            |role| self.of(role).iter().map(|c| c.name.clone()).collect::<Vec<_>>().join(", ");
        let clustering = names(ColumnRole::Clustering);
        let partition = names(ColumnRole::Partition);
        let behind = if clustering.is_empty() { String::new() } else { format!(", {clustering}") };
        let orders: Vec<_> = self
            .of(ColumnRole::Clustering)
            .iter()
            .map(|c| format!("{} {}", c.name, if c.descending { "DESC" } else { "ASC" }))
            .collect();
        let with = match orders.is_empty() {
            true => String::new(),
            false => format!(" WITH CLUSTERING ORDER BY ({})", orders.join(", ")),
        };
        let mut all = vec![format!(
            "CREATE TABLE {} ({}, PRIMARY KEY (({partition}){behind})){with}",
            self.name,
            columns.join(", ")
        )];
        for (i, column) in self.columns.iter().enumerate() {
            if let Some(target) = &column.indexed {
                all.push(format!("CREATE INDEX {}_{i} ON {} ({target})", self.name, self.name));
            }
        }
        all
    }
}

impl DrawnSchema {
    pub fn draw(rng: &mut Rng) -> DrawnSchema {
        let mut users: Vec<UserType> = vec![];
        for i in 0..rng.below(3) {
            let fields = (0..1 + rng.below(3)).map(|f| {
                let of = draw_type(rng, users.len(), 1);
                (format!("f{f}"), of.frozen())
            });
            let fields = fields.collect();
            users.push((format!("u{i}"), fields));
        }
        let tables = 1 + rng.below(2);
        let tables = (0..tables).map(|i| DrawnTable::draw(rng, format!("t{i}"), &users)).collect();
        DrawnSchema { users, tables }
    }

    /// What makes it.
    pub fn statements(&self) -> Vec<String> {
        let mut all = vec![];
        for (name, fields) in &self.users {
            let fields: Vec<_> =
                fields.iter().map(|(n, t)| format!("{n} {}", t.cql(&self.users))).collect();
            all.push(format!("CREATE TYPE {name} ({})", fields.join(", ")));
        }
        all.extend(self.tables.iter().flat_map(|t| t.statements(&self.users)));
        all
    }
}
