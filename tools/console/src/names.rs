//! Displayed names of trees in a store with keyspaces: the table or family in each tree, and the
//! meaning of its keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_cql::Session;
use firn_cql::internals::catalog::{PartitionKey, TableSchema};
use firn_cql::internals::values::literal;
use firn_cql::quote_if_needed;
use firn_kv::Db;
use firn_wide::Type;
use firn_wide::internals::key::{
    AFTER, BEFORE, DELETION, END, KeyNameList as CellNames, Layout, RANGES, ROWS, STATIC,
};
use firn_wide::internals::store::{TreeName, loss};
use firn_wide::internals::types::EMPTY;
use firn_wide_text::files::DescribedFile;
use serde_json::{Value, json};

/// Displayed names of a store's trees.
#[derive(Debug, Default)]
pub struct StoreNames {
    trees: BTreeMap<TreeName, NamedKey>,
    /// Whether the names are complete: the store has keyspaces, and their definitions were
    /// readable.
    are_all: bool,
}

/// Content of a tree.
#[derive(Debug)]
struct NamedKey {
    /// "table shop.items".
    words: String,
    /// The same as JSON.
    json: Value,
    /// Names that users write: "shop.items", for an index "shop.items_name"; quoted as CQL writes
    /// it, and without quotes.
    paths: [String; 2],
    keys: KeyNames,
}

impl NamedKey {
    /// Describes the tree of a family, of a table, or of an index of one.
    fn new(
        kind: &str,
        keyspace: &str,
        name: &str,
        index: Option<&str>,
        keys: KeyNames,
    ) -> NamedKey {
        let quoted = |name: &str| {
            if kind == "table" { quote_if_needed(name).into_owned() } else { name.to_owned() }
        };
        let whose = format!("{kind} {}.{}", quoted(keyspace), quoted(name));
        let words =
            index.map_or(whose.clone(), |index| format!("index {} on {whose}", quoted(index)));
        let mut json = json!({"kind": if index.is_some() { "index" } else { kind }, "keyspace": keyspace, kind: name});
        if let Some(index) = index {
            json["index"] = index.into();
        }
        let last = index.unwrap_or(name);
        let paths = [
            format!("{}.{}", quote_if_needed(keyspace), quote_if_needed(last)),
            format!("{keyspace}.{last}"),
        ];
        NamedKey { words, json, paths, keys }
    }
}

/// Structure of its keys.
#[derive(Debug)]
enum KeyNames {
    Family(Box<DescribedFile>),
    Table(Arc<TableSchema>, Layout),
    Index,
}

impl KeyNames {
    fn layout(&self) -> Option<&Layout> {
        match self {
            KeyNames::Family(f) => Some(&f.layout),
            KeyNames::Table(_, layout) => Some(layout),
            KeyNames::Index => None,
        }
    }

    /// Formats the key of a partition in the types of its columns.
    fn partition(&self, partition: &[u8]) -> Option<String> {
        let mut raw = vec![];
        self.layout()?.key_of(partition, &mut raw).ok()?;
        match self {
            KeyNames::Family(f) => Some(literal(f.def.key_validator(), Some(&raw))),
            KeyNames::Table(table, _) => {
                let mut parts = PartitionKey::default();
                parts.set(table, &raw).ok()?;
                let part = |(i, c): (usize, &firn_cql::internals::catalog::TableColumn)| {
                    format!(
                        "{} = {}",
                        quote_if_needed(&c.name),
                        literal(&c.of.value_type, parts.part(i))
                    )
                };
                Some(
                    table
                        .partition()
                        .iter()
                        .enumerate()
                        .map(part)
                        .collect::<Vec<_>>()
                        .join(" AND "),
                )
            }
            KeyNames::Index => None,
        }
    }
}

/// Position of a key in its partition.
#[derive(PartialEq)]
enum Where {
    /// At its begin, before or among its deletions.
    Beginning,
    /// Among its static cells.
    Statics,
    /// Before, at or after a row, or the rows that begin with these values.
    Row { side: &'static str, values: String, column: Option<String> },
}

impl KeyNames {
    /// Returns the name and type of a clustering column; in a family, those of a super column.
    fn clustering(&self, number: usize, of: &Type) -> (String, Type) {
        let column = if let KeyNames::Table(table, _) = self {
            table.clustering().get(number)
        } else {
            None
        };
        column.map_or_else(
            || ("super column".to_owned(), of.clone()),
            |c| (quote_if_needed(&c.name).into_owned(), c.of.value_type.clone()),
        )
    }

    /// Returns the column of the cell at this position of its row.
    fn column(&self, layout: &Layout, mut rest: &[u8]) -> Option<String> {
        match (layout.names(), self) {
            (CellNames::Typed(of), _) => {
                let mut raw = vec![];
                of.take_component(&mut rest, &mut raw).ok()?;
                Some(format!("column {}", literal(of, Some(&raw))))
            }
            (CellNames::Columns, _) if rest.first() == Some(&EMPTY) => {
                Some("its marker".to_owned())
            }
            (CellNames::Columns, KeyNames::Table(table, _)) => {
                let (id, path) = (
                    u16::from_be_bytes(rest.get(1..3)?.try_into().ok()?),
                    rest.get(4..).unwrap_or_default(),
                );
                let column = table.column_by_id(id)?;
                let (mut raw, mut left) = (vec![], path);
                let key = column.of.path_type().filter(|of| {
                    !path.is_empty() && of.take_component(&mut left, &mut raw).is_ok()
                });
                let key =
                    key.map_or_else(String::new, |of| format!("[{}]", literal(&of, Some(&raw))));
                Some(format!("column {}{key}", quote_if_needed(&column.name)))
            }
            _ => None,
        }
    }

    /// Returns the position of a key, from its bytes after the partition.
    fn place(&self, place: &[u8]) -> Option<Where> {
        let layout = self.layout()?;
        let mut rest = match place {
            [] | [DELETION | RANGES, ..] => return Some(Where::Beginning),
            [STATIC, ..] => return Some(Where::Statics),
            [ROWS, rest @ ..] => rest,
            _ => return None,
        };
        let mut values = vec![];
        for (i, of) in layout.clustering().iter().enumerate() {
            if rest.first().is_none_or(|b| [BEFORE, END, END + 1, AFTER].contains(b)) {
                break;
            }
            let mut raw = vec![];
            let there = of.take_component(&mut rest, &mut raw).ok()?;
            let (name, of) = self.clustering(i, of);
            values.push(format!("{name} = {}", literal(&of, there.then_some(&*raw))));
        }
        let values = values.join(" AND ");
        let (side, column) = match rest {
            [] | [BEFORE, ..] => ("before", None),
            [END, rest @ ..] => ("at", self.column(layout, rest)),
            _ => ("after", None),
        };
        Some(Where::Row { side, values, column })
    }
}

impl StoreNames {
    /// Returns the names of a session's store.
    pub fn of_session(session: &Session) -> StoreNames {
        let mut names = BTreeMap::new();
        let engine = session.engine();
        let layout = |id: u32| engine.store().family(id).map(|f| f.layout().clone());
        let mut put = |tree: TreeName, named: NamedKey| drop(names.insert(tree, named));
        for family in engine.wide().schema().families() {
            let (keyspace, name) = (family.keyspace(), family.name());
            // A compact table has the keys of a family.
            let what = if family.is_table() { "table" } else { "family" };
            for (_, index) in family.indexes() {
                put(
                    TreeName::Index(index.id),
                    NamedKey::new(what, keyspace, name, Some(&index.name), KeyNames::Index),
                );
            }
            let keys = layout(family.id()).map(|layout| {
                KeyNames::Family(Box::new(DescribedFile { def: family.clone(), layout }))
            });
            put(
                TreeName::Family(family.id()),
                NamedKey::new(what, keyspace, name, None, keys.unwrap_or(KeyNames::Index)),
            );
        }
        for table in engine.catalog().own_tables().filter(|t| !t.is_own_family()) {
            let (keyspace, name) = (&*table.keyspace, &*table.name);
            for index in table.indexes() {
                put(
                    TreeName::Index(index.id),
                    NamedKey::new("table", keyspace, name, Some(&index.name), KeyNames::Index),
                );
            }
            let keys = layout(table.id).map(|layout| KeyNames::Table(table.clone(), layout));
            put(
                TreeName::Family(table.id),
                NamedKey::new("table", keyspace, name, None, keys.unwrap_or(KeyNames::Index)),
            );
        }
        StoreNames { trees: names, are_all: true }
    }

    /// Returns the trees of tables and families whose definitions were lost; empty if this is
    /// unknown.
    pub fn undefined(&self, db: &Db) -> Vec<String> {
        if !self.are_all {
            return vec![];
        }
        loss::undefined(db, |id| self.trees.contains_key(&TreeName::Family(id))).unwrap_or_default()
    }

    fn named(&self, tree: &str) -> Option<&NamedKey> {
        self.trees.get(&TreeName::parse(tree)?)
    }

    /// Describes the content of the tree: "table shop.items". `None` if it is unknown, or if the
    /// tree's name already describes it.
    pub fn of_tree(&self, tree: &str) -> Option<&str> {
        self.named(tree).map(|n| n.words.as_str())
    }

    /// Returns the tree of a table, a family or an index with the name KEYSPACE.NAME.
    pub fn tree_at(&self, path: &str) -> Option<String> {
        let mut all = self.trees.iter();
        all.find(|(_, n)| n.paths.iter().any(|p| p == path)).map(|(tree, _)| tree.to_string())
    }

    /// Returns a tree's name with a description of its content, unless the name describes it.
    pub fn both(&self, tree: &str) -> String {
        self.of_tree(tree).map_or_else(|| tree.to_owned(), |words| format!("{tree} ({words})"))
    }

    /// Returns the same as JSON: kind, keyspace, name. Null if it is unknown.
    pub fn json(&self, tree: &str) -> Value {
        self.named(tree).map_or(Value::Null, |n| n.json.clone())
    }

    /// Returns the partition of a key in the tree of a table or family: "id = 1". `None` if the key
    /// has no partition.
    pub fn partition(&self, tree: &str, key: &[u8]) -> Option<String> {
        let keys = &self.named(tree)?.keys;
        keys.partition(&key[..keys.layout()?.partition_len(key).ok()?])
    }

    fn place(&self, tree: &str, key: &[u8]) -> Option<Where> {
        let keys = &self.named(tree)?.keys;
        keys.place(&key[keys.layout()?.partition_len(key).ok()?..])
    }

    /// Returns the position of a cell in its partition: "row at = 5, column name", "static cells".
    pub fn cell(&self, tree: &str, key: &[u8]) -> Option<String> {
        match self.place(tree, key)? {
            Where::Beginning => None,
            Where::Statics => Some("static cells".to_owned()),
            Where::Row { values, column, .. } => {
                let row =
                    Some(values).filter(|v| !v.is_empty()).map(|values| format!("row {values}"));
                Some([row, column].into_iter().flatten().collect::<Vec<_>>().join(", "))
                    .filter(|s| !s.is_empty())
            }
        }
    }

    /// Describes the rows of a partition in a range of keys: "row at = 5", "rows after at = 5
    /// before at = 9". Deletions come before all rows: "deletions, and rows to at = 5". `None` if
    /// the range is the whole partition, or more than one.
    pub fn rows(&self, tree: &str, from: &[u8], until: Option<&[u8]>) -> Option<String> {
        let first = self.place(tree, from)?;
        let same = |until: &&[u8]| self.partition(tree, until) == self.partition(tree, from);
        let last = until.filter(same).and_then(|until| self.place(tree, until));
        let side = |w: &Where, starts: bool| match w {
            Where::Row { values, .. } if values.is_empty() => None,
            Where::Row { side: "after", values, .. } => {
                Some(if starts { format!("after {values}") } else { format!("to {values}") })
            }
            Where::Row { values, .. } => {
                Some(if starts { format!("from {values}") } else { format!("before {values}") })
            }
            Where::Beginning | Where::Statics => None,
        };
        match (&first, &last) {
            (Where::Statics, Some(Where::Row { values, .. })) if values.is_empty() => {
                return Some("static cells".to_owned());
            }
            (
                Where::Row { side: "before" | "at", values, .. },
                Some(Where::Row { side: "after", values: end, .. }),
            ) if values == end && !values.is_empty() => {
                return Some(format!("row {values}"));
            }
            _ => {}
        }
        let what = if first == Where::Beginning { "deletions, and rows" } else { "rows" };
        let sides: Vec<String> = [side(&first, true), last.and_then(|w| side(&w, false))]
            .into_iter()
            .flatten()
            .collect();
        (!sides.is_empty()).then(|| format!("{what} {}", sides.join(" ")))
    }
}
