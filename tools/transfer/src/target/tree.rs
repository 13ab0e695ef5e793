//! Imports into trees of keys and values.

use firn_cql::internals::values::exported_json;
use firn_kv::{Batch, Db, Durability, ErrorKind, Tree, TreeOptions};
use firn_tools::output::{Done, Failure};
use firn_wide::Type;

use super::position::{ImportPosition, other_source};
use super::{CommittedChunk, RowRefusal, RowTarget};
use crate::form::ByteForm;
use crate::source::{RowPlace, SourceCell, SourceColumn};

/// Tree with the positions of unfinished imports, by the names of their target trees.
pub const POSITIONS: &str = "firn-import";

/// The columns of a source that become keys and values.
#[derive(Clone, Debug)]
pub struct PairColumns {
    key: usize,
    value: ValueColumns,
    forms: [ByteForm; 2],
    columns: Vec<SourceColumn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueColumns {
    /// The bytes of this column.
    One(usize),
    /// A JSON object of these columns.
    Object(Vec<usize>),
}

impl PairColumns {
    /// Selects columns. The default key is the column `key`, or the first. The default value is the
    /// column `value`, or the only other one, or a JSON object of all others.
    ///
    /// # Errors
    /// The source has no such column.
    pub fn new(
        columns: &[SourceColumn],
        key: Option<&str>,
        value: &[String],
        forms: [ByteForm; 2],
    ) -> Done<PairColumns> {
        let find = |name: &str| columns.iter().position(|c| c.name == name);
        let named = |name: &str| {
            find(name).ok_or_else(|| {
                let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
                let what = format!("the source has no column {name:?}");
                Failure::with_next(what, format!("it has {}", names.join(", ")))
            })
        };
        let key = key.map_or_else(|| Ok(find("key").unwrap_or(0)), named)?;
        let value = match value {
            [] => {
                let rest: Vec<usize> = (0..columns.len()).filter(|i| *i != key).collect();
                match (find("value"), &rest[..]) {
                    (Some(at), [only]) if at == *only => ValueColumns::One(at),
                    (_, [only]) => ValueColumns::One(*only),
                    _ => ValueColumns::Object(rest),
                }
            }
            [one] => ValueColumns::One(named(one)?),
            many => ValueColumns::Object(many.iter().map(|n| named(n)).collect::<Done<_>>()?),
        };
        Ok(PairColumns { key, value, forms, columns: columns.to_vec() })
    }

    /// Returns the key and the value of a row.
    fn pair(&self, cells: &mut [SourceCell]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let bytes = |cells: &mut [SourceCell], i: usize, form: ByteForm| {
            let column = &self.columns[i];
            let named = |why: String| format!("column {}: {why}", column.name);
            let written = match std::mem::take(&mut cells[i]) {
                SourceCell::Null => Err("it is null".to_owned()),
                SourceCell::Value(v) => {
                    form.write(column.value_type.as_ref().unwrap_or(&Type::Utf8), v)
                }
                SourceCell::Typed(of, v) => form.write(&of, v),
                SourceCell::Text(v) | SourceCell::Json(v) => form.write(&Type::Utf8, v),
            };
            written.map_err(named)
        };
        let key = bytes(cells, self.key, self.forms[0])?;
        let value = match &self.value {
            ValueColumns::One(at) => bytes(cells, *at, self.forms[1])?,
            ValueColumns::Object(all) => self.object(cells, all)?,
        };
        Ok((key, value))
    }

    fn object(&self, cells: &[SourceCell], all: &[usize]) -> Result<Vec<u8>, String> {
        let mut out = String::from("{");
        for (n, i) in all.iter().enumerate() {
            let column = &self.columns[*i];
            let json = |of: &Type, v: &[u8]| exported_json(of, Some(v));
            let value = match &cells[*i] {
                SourceCell::Null => "null".to_owned(),
                SourceCell::Value(v) => json(column.value_type.as_ref().unwrap_or(&Type::Utf8), v),
                SourceCell::Typed(of, v) => json(of, v),
                SourceCell::Text(v) | SourceCell::Json(v) => json(&Type::Utf8, v),
            };
            let comma = if n > 0 { "," } else { "" };
            out += &format!("{comma}{}:{value}", json(&Type::Utf8, column.name.as_bytes()));
        }
        out.push('}');
        Ok(out.into_bytes())
    }
}

/// The opened trees of an import.
struct OpenTrees {
    db: Db,
    tree: Tree,
    positions: Tree,
}

impl OpenTrees {
    /// Drops the tree of positions if no import is unfinished.
    fn drop_unused(&self) -> Done {
        if self.positions.is_empty()? {
            self.db.drop_tree(POSITIONS)?;
        }
        Ok(())
    }
}

/// A tree.
pub struct TreeTarget {
    /// `None`: rows are only checked.
    trees: Option<OpenTrees>,
    name: String,
    source: String,
    pairs: PairColumns,
    durability: Durability,
    batch: Batch,
    rows: usize,
    bytes: usize,
}

impl TreeTarget {
    /// Opens a tree of a database, which is created if it does not exist. Without a database, rows
    /// are only checked. `source` names the source in the stored position.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn new(
        db: Option<&Db>,
        name: &str,
        source: &str,
        pairs: PairColumns,
        durability: Durability,
    ) -> Done<TreeTarget> {
        let open = |db: &Db| -> Done<OpenTrees> {
            let tree = |name: &str| match db.tree_names().iter().any(|n| n == name) {
                true => db.existing_tree(name),
                false => db.tree(name, TreeOptions::default()),
            };
            Ok(OpenTrees { db: db.clone(), tree: tree(name)?, positions: tree(POSITIONS)? })
        };
        Ok(TreeTarget {
            trees: db.map(open).transpose()?,
            name: name.to_owned(),
            source: source.to_owned(),
            pairs,
            durability,
            batch: Batch::new(),
            rows: 0,
            bytes: 0,
        })
    }
}

impl RowTarget for TreeTarget {
    fn resume(&mut self) -> Done<Option<u64>> {
        let Some(trees) = &self.trees else { return Ok(None) };
        let Some(found) = trees.positions.get(&self.name)? else {
            return trees.drop_unused().map(|()| None);
        };
        let position: ImportPosition = serde_json::from_slice(&found).map_err(|e| {
            Failure::new(format!("the position in the tree {POSITIONS:?} is malformed: {e}"))
        })?;
        if position.source != self.source {
            return Err(other_source(&position.source, &self.source));
        }
        Ok(Some(position.rows))
    }

    fn begin(&mut self) -> Done {
        self.commit(0).map(drop)
    }

    fn add(
        &mut self,
        _place: RowPlace,
        _read: u64,
        cells: &mut [SourceCell],
    ) -> Result<(), RowRefusal> {
        let (key, value) = self.pairs.pair(cells).map_err(RowRefusal::Row)?;
        if let Some(trees) = &self.trees {
            self.batch.put(&trees.tree, &key, &value).map_err(|e| match e.kind() {
                ErrorKind::InvalidArgument => RowRefusal::Row(e.message().to_owned()),
                _ => RowRefusal::Store(e.into()),
            })?;
        }
        self.rows += 1;
        self.bytes += key.len() + value.len();
        Ok(())
    }

    fn pending(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    fn commit(&mut self, read: u64) -> Done<CommittedChunk> {
        let done = CommittedChunk { rows: self.rows as u64, read, refused: vec![] };
        (self.rows, self.bytes) = (0, 0);
        let Some(trees) = &self.trees else { return Ok(done) };
        let mut batch = std::mem::take(&mut self.batch);
        let position = ImportPosition { source: self.source.clone(), rows: read };
        let position = serde_json::to_vec(&position).map_err(|e| Failure::new(e.to_string()))?;
        batch.put(&trees.positions, &self.name, &position)?;
        trees.db.with_durability(self.durability).write(batch)?;
        Ok(done)
    }

    fn finish(&mut self) -> Done {
        let Some(trees) = &self.trees else { return Ok(()) };
        // The next open need not replay the log.
        trees.tree.flush()?;
        trees.positions.delete(&self.name)?;
        trees.drop_unused()?;
        Ok(trees.db.sync()?)
    }
}
