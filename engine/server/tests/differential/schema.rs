//! Random tables for the statements of a history.

use firn_testkit::rng::Rng;

use crate::differential::functions;
use crate::differential::types::{DrawnType, UserType, draw_key_type, draw_type};

/// The part of the primary key, or of the row, that a column belongs to.
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
    pub indexed: Option<DrawnIndex>,
    /// Whether it is a clustering column in descending order.
    pub descending: bool,
}

/// The implementation of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DrawnClass {
    Local,
    /// With options.
    StorageAttached(&'static str),
    /// In this mode.
    Sasi(&'static str),
}

/// An index on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnIndex {
    /// The column, or `keys(…)` and the like.
    pub target: String,
    pub class: DrawnClass,
}

/// A materialized view of a table.
#[derive(Clone, Debug)]
pub struct DrawnView {
    base: String,
    /// A condition on the base's rows, besides IS NOT NULL.
    condition: Option<String>,
}

#[derive(Clone, Debug)]
pub struct DrawnTable {
    pub name: String,
    /// Its definition as a view; `None` for a table.
    pub view: Option<DrawnView>,
    /// Whether it has compact storage.
    pub compact: bool,
    pub columns: Vec<DrawnColumn>,
    pub counts: bool,
    /// Whether writes have no timestamps and conditions, or one but not the other: conditional
    /// writes use the server's time.
    pub conditional: bool,
}

#[derive(Clone, Debug)]
pub struct DrawnSchema {
    pub users: Vec<UserType>,
    pub tables: Vec<DrawnTable>,
    /// Whether it has user-defined functions.
    pub functions: bool,
}

impl DrawnTable {
    pub fn of(&self, role: ColumnRole) -> Vec<&DrawnColumn> {
        self.columns.iter().filter(|c| c.role == role).collect()
    }

    /// Reports whether each row has one cell.
    pub fn is_dense(&self) -> bool {
        let [clustering, regular] = [ColumnRole::Clustering, ColumnRole::Regular];
        self.compact && !self.of(clustering).is_empty() && !self.of(regular).is_empty()
    }

    /// Returns the primary key of the table.
    fn key(&self) -> Vec<&DrawnColumn> {
        let roles = [ColumnRole::Partition, ColumnRole::Clustering];
        roles.iter().flat_map(|role| self.of(*role)).collect()
    }

    fn draw(rng: &mut Rng, name: String, users: &[UserType]) -> DrawnTable {
        if rng.one_in(6) {
            return DrawnTable::draw_compact(rng, name, users);
        }
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
        let mut table =
            DrawnTable { name, view: None, compact: false, columns, counts, conditional };
        if !counts && rng.one_in(2) {
            table.draw_indexes(rng, users);
        }
        table
    }

    /// Draws a compact table: one column after clustering columns, or only columns.
    fn draw_compact(rng: &mut Rng, name: String, users: &[UserType]) -> DrawnTable {
        let counts = rng.one_in(8);
        let value = |rng: &mut Rng| match counts {
            true => DrawnType::Native("counter"),
            false => draw_type(rng, users.len(), 1).frozen(),
        };
        let mut columns = vec![];
        let mut add = |name: String, of: DrawnType, role| {
            columns.push(DrawnColumn { name, of, role, indexed: None, descending: false });
        };
        for i in 0..if rng.one_in(4) { 2 } else { 1 } {
            add(format!("p{i}"), draw_key_type(rng), ColumnRole::Partition);
        }
        let clustering = rng.below(3);
        for i in 0..clustering {
            add(format!("c{i}"), draw_key_type(rng), ColumnRole::Clustering);
        }
        let values = match clustering {
            0 => 1 + rng.below(4),
            _ => u64::from(counts || !rng.one_in(6)),
        };
        for i in 0..values {
            add(format!("v{i}"), value(rng), ColumnRole::Regular);
        }
        for column in columns.iter_mut().filter(|c| c.role == ColumnRole::Clustering) {
            column.descending = rng.one_in(3);
        }
        DrawnTable { name, view: None, compact: true, columns, counts, conditional: false }
    }

    /// Draws a view of the table: its key in another order, sometimes with a regular column.
    fn draw_view(&self, rng: &mut Rng, name: String, users: &[UserType]) -> DrawnTable {
        let mut key: Vec<DrawnColumn> = self.key().into_iter().cloned().collect();
        let regular = self.of(ColumnRole::Regular);
        let fits = |c: &&&DrawnColumn| matches!(c.of, DrawnType::Native(n) if n != "duration");
        let values: Vec<_> = regular.iter().filter(fits).collect();
        let more = rng.choose(&values).filter(|_| !rng.one_in(4)).map(|c| (**c).clone());
        let condition = match &more {
            Some(column) if rng.one_in(5) => {
                let value = column.of.draw(rng, users).literal;
                let sign = ["=", ">", "<="][rng.below(3) as usize];
                Some(format!("{} {sign} {value}", column.name))
            }
            _ => None,
        };
        let rest: Vec<_> = regular
            .into_iter()
            .filter(|c| more.as_ref().is_none_or(|m| m.name != c.name) && !rng.one_in(3))
            .cloned()
            .collect();
        key.extend(more);
        rng.shuffle(&mut key);
        // In Cassandra a descending base column stays descending in the partition key of a view. In
        // Firn rows with an empty partition key are not in a view; values of these types may be
        // empty.
        let may_be_empty =
            |of: &DrawnType| matches!(of, DrawnType::Native("text" | "ascii" | "blob"));
        key.sort_by_key(|column| (column.descending, may_be_empty(&column.of)));
        let rising = key.iter().filter(|c| !c.descending).count();
        let is_wide = rng.one_in(4) || may_be_empty(&key[0].of);
        let partition = if rising > 1 && is_wide { 2 } else { 1 };
        for (i, column) in key.iter_mut().enumerate() {
            let in_partition = i < partition;
            column.role = if in_partition { ColumnRole::Partition } else { ColumnRole::Clustering };
            column.descending = !in_partition && rng.one_in(3);
        }
        let mut columns = key;
        columns.extend(rest);
        columns.iter_mut().for_each(|column| column.indexed = None);
        let view = Some(DrawnView { base: self.name.clone(), condition });
        DrawnTable { name, view, columns, ..self.clone() }
    }

    /// Draws an index of this class on this column; `None`: no index.
    fn draw_class(rng: &mut Rng, class: &DrawnClass, column: &DrawnColumn) -> Option<DrawnClass> {
        let odd = rng.one_in(30);
        match (class, &column.of) {
            (DrawnClass::Sasi(_), DrawnType::Native("text" | "ascii")) => {
                Some(DrawnClass::Sasi(["PREFIX", "CONTAINS"][rng.below(2) as usize]))
            }
            (DrawnClass::Sasi(_), DrawnType::Native(_)) => Some(DrawnClass::Sasi("PREFIX")),
            (DrawnClass::Sasi(_), _) => odd.then_some(*class),
            (DrawnClass::StorageAttached(_), DrawnType::Vector(_)) => {
                let all = [
                    "",
                    "{'similarity_function': 'euclidean'}",
                    "{'similarity_function': 'dot_product'}",
                ];
                Some(DrawnClass::StorageAttached(all[rng.below(3) as usize]))
            }
            (DrawnClass::StorageAttached(_), DrawnType::Native("text" | "ascii"))
                if rng.one_in(4) && !column.descending =>
            {
                Some(DrawnClass::StorageAttached("{'case_sensitive': 'false'}"))
            }
            // In descending order all types have ranges in Cassandra.
            (
                DrawnClass::StorageAttached(_),
                DrawnType::Native("text" | "ascii" | "uuid" | "boolean"),
            ) if column.descending => None,
            (DrawnClass::StorageAttached(_), _) => Some(*class),
            (DrawnClass::Local, DrawnType::Vector(_)) => odd.then_some(*class),
            (DrawnClass::Local, _) => Some(*class),
        }
    }

    fn draw_indexes(&mut self, rng: &mut Rng, users: &[UserType]) {
        let keys = self.columns.iter().filter(|c| c.role == ColumnRole::Partition).count();
        let class = match rng.below(6) {
            0..3 => DrawnClass::Local,
            3 => DrawnClass::Sasi("PREFIX"),
            _ => DrawnClass::StorageAttached(""),
        };
        for column in &mut self.columns {
            let alone = column.role == ColumnRole::Partition && keys == 1;
            if alone || !rng.one_in(4) || column.of.has_duration(users) {
                continue;
            }
            let name = &column.name;
            let target = match &column.of {
                DrawnType::Map(_, _, false) => match rng.below(3) {
                    0 => Some(format!("keys({name})")),
                    1 => Some(format!("entries({name})")),
                    _ => Some(name.clone()),
                },
                DrawnType::User(_, false) => None,
                of if of.is_collection() && !of.is_multicell() => Some(format!("full({name})")),
                _ => Some(name.clone()),
            };
            let class = DrawnTable::draw_class(rng, &class, column);
            column.indexed = target.zip(class).map(|(target, class)| DrawnIndex { target, class });
        }
    }

    /// Returns an alteration followed by a read of all rows. The drawn schema is no longer valid
    /// then.
    pub fn alterations(&self, rng: &mut Rng) -> Vec<String> {
        let name = &self.name;
        let Some(column) = rng.choose(&self.columns).map(|c| &c.name) else { return vec![] };
        let change = match rng.below(5) {
            0 => "ADD w int".to_owned(),
            1 => "ADD w set<int> static".to_owned(),
            2 | 3 => format!("DROP {column}"),
            _ => format!("RENAME {column} TO w"),
        };
        vec![format!("ALTER TABLE {name} {change}"), format!("SELECT * FROM {name}")]
    }

    /// Returns the statement that creates a view.
    fn view_statement(&self, view: &DrawnView) -> String {
        let names = |all: Vec<&DrawnColumn>| -> Vec<String> {
            all.iter().map(|c| c.name.clone()).collect()
        };
        let (key, partition) = (self.key(), names(self.of(ColumnRole::Partition)));
        let clustering = names(self.of(ColumnRole::Clustering));
        let behind: String = clustering.iter().map(|name| format!(", {name}")).collect();
        let there = key.iter().map(|c| format!("{} IS NOT NULL", c.name));
        let conditions: Vec<_> = there.chain(view.condition.clone()).collect();
        format!(
            "CREATE MATERIALIZED VIEW {} AS SELECT {} FROM {} WHERE {} PRIMARY KEY (({}){behind}){}",
            self.name,
            names(self.columns.iter().collect()).join(", "),
            view.base,
            conditions.join(" AND "),
            partition.join(", "),
            self.with(),
        )
    }

    /// Returns the end of a definition.
    fn with(&self) -> String {
        let orders: Vec<_> = self
            .of(ColumnRole::Clustering)
            .iter()
            .map(|c| format!("{} {}", c.name, if c.descending { "DESC" } else { "ASC" }))
            .collect();
        let order = format!("CLUSTERING ORDER BY ({})", orders.join(", "));
        match (orders.is_empty(), self.compact && self.view.is_none()) {
            (true, false) => String::new(),
            (true, true) => " WITH COMPACT STORAGE".to_owned(),
            (false, false) => format!(" WITH {order}"),
            (false, true) => format!(" WITH {order} AND COMPACT STORAGE"),
        }
    }

    fn statements(&self, users: &[UserType]) -> Vec<String> {
        if let Some(view) = &self.view {
            return vec![self.view_statement(view)];
        }
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
        let with = self.with();
        let mut all = vec![format!(
            "CREATE TABLE {} ({}, PRIMARY KEY (({partition}){behind})){with}",
            self.name,
            columns.join(", ")
        )];
        for (i, column) in self.columns.iter().enumerate() {
            if let Some(DrawnIndex { target, class }) = &column.indexed {
                let on = format!("INDEX {}_{i} ON {} ({target})", self.name, self.name);
                all.push(match class {
                    DrawnClass::Local => format!("CREATE {on}"),
                    DrawnClass::StorageAttached("") => format!("CREATE {on} USING 'sai'"),
                    DrawnClass::StorageAttached(options) => {
                        format!("CREATE {on} USING 'sai' WITH OPTIONS = {options}")
                    }
                    DrawnClass::Sasi(mode) => format!(
                        "CREATE CUSTOM {on} USING 'org.apache.cassandra.index.sasi.SASIIndex' \
                         WITH OPTIONS = {{'mode': '{mode}'}}"
                    ),
                });
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
        let mut tables: Vec<_> =
            (0..tables).map(|i| DrawnTable::draw(rng, format!("t{i}"), &users)).collect();
        let base = tables.iter().find(|t| !t.counts && !t.compact && rng.one_in(3));
        if let Some(base) = base {
            let views: Vec<_> = (0..1 + rng.below(2))
                .map(|i| base.draw_view(rng, format!("mv{i}"), &users))
                .collect();
            tables.extend(views);
        }
        DrawnSchema { users, tables, functions: rng.one_in(5) }
    }

    /// Returns the statements that create the schema.
    pub fn statements(&self) -> Vec<String> {
        let mut all = vec![];
        for (name, fields) in &self.users {
            let fields: Vec<_> =
                fields.iter().map(|(n, t)| format!("{n} {}", t.cql(&self.users))).collect();
            all.push(format!("CREATE TYPE {name} ({})", fields.join(", ")));
        }
        all.extend(self.tables.iter().flat_map(|t| t.statements(&self.users)));
        if self.functions {
            all.extend(functions::definitions());
        }
        all
    }
}
