//! Statements of a session that read and write rows.

use firn_wide::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause,
    IndexExpression, KeyRange, KeySlice, SlicePredicate, SliceRange, Type,
};

use super::ast::{CliCondition, CliTerm, Path};
use super::format::{self, CliRow};
use super::session::{CliRun, CliSession, line, refused, refused_plainly};
use super::store::CliTrouble;
use super::syntax::SyntaxFailure;
use super::terms::{self, ExceptionDepth, Types};

/// Default limit of rows of `list` and of `get … where`, and of columns of their rows.
const DEFAULT_LIMIT: i32 = 100;

/// Default limit of columns of `get`.
const WHOLE_ROW: i32 = 1_000_000;

fn wrong_path() -> SyntaxFailure {
    SyntaxFailure::same("Invalid row, super column, or column specification.")
}

impl CliSession {
    pub(super) fn get(
        &mut self,
        path: &Path,
        shown_as: Option<&str>,
        limit: Option<u32>,
        out: &mut String,
    ) -> CliRun {
        let begin = self.store.timestamp();
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), ExceptionDepth::Once)?;
        if limit == Some(0) {
            return Err(SyntaxFailure::same("LIMIT should be greater than zero."));
        }
        let limit = limit.map_or(WHOLE_ROW, u32::cast_signed);
        let mut names = self.column_names(path, &types)?.into_iter();
        let parent = ColumnParent::new(family.name());
        let (super_column, column) = match (names.next(), names.next()) {
            (None, _) => return self.get_slice(&types, &key, parent, limit, begin, out),
            (Some(name), None) if family.is_super() => {
                return self.get_slice(&types, &key, parent.super_column(name), limit, begin, out);
            }
            (Some(name), None) => (None, name),
            (Some(super_column), Some(name)) => (Some(super_column), name),
        };
        let inside = super_column.is_some();
        let taken = self.taken(path, &types);
        let path = ColumnPath {
            column_family: family.name().to_owned(),
            super_column,
            column: Some(column.clone()),
        };
        let learnt = match self.store.get(self.chosen()?, &key, &path) {
            Err(CliTrouble::NotFound) => {
                out.push_str(&taken);
                out.push_str("Value was not found\n");
                None
            }
            Err(e) => return Err(refused(e)),
            Ok(found) => {
                let mut cell = types.cell(&found, inside);
                let shown = shown_as.map(|name| self.shown_type(name)).transpose()?;
                if let (Some(t), format::CliCell::Column(c), Some(raw)) =
                    (&shown, &mut cell, found.column())
                {
                    c.value = terms::text(t, &raw.value, self.strict);
                }
                format::cell(out, &cell);
                shown
            }
        };
        if let Some(t) = learnt {
            self.assumptions(&family).columns.insert(column, t);
        }
        self.elapsed(begin, out);
        Ok(())
    }

    /// Reads the names of a path.
    fn column_names(&self, path: &Path, types: &Types<'_>) -> CliRun<Vec<Vec<u8>>> {
        let types = [types.comparator(), types.subcomparator()];
        let names = path.columns.iter().zip(types);
        names.map(|(name, of)| self.bytes(name, of, ExceptionDepth::Once)).collect()
    }

    /// Reads the path of a column: its parent and its name; `None` without a name.
    fn cell_path(&self, path: &Path, types: &Types<'_>) -> CliRun<Option<(ColumnParent, Vec<u8>)>> {
        let mut names = self.column_names(path, types)?;
        let Some(name) = names.pop() else { return Ok(None) };
        let column_family = types.family.name().to_owned();
        Ok(Some((ColumnParent { column_family, super_column: names.pop() }, name)))
    }

    /// Returns notices for the words of a path that were read as hexadecimal.
    fn taken(&self, path: &Path, types: &Types<'_>) -> String {
        let mut taken = String::new();
        if !self.strict {
            terms::note_hexadecimal("key", &path.key, types.keys(), &mut taken);
            for (name, of) in path.columns.iter().zip([types.comparator(), types.subcomparator()]) {
                terms::note_hexadecimal("name", name, of, &mut taken);
            }
        }
        taken
    }

    fn shown_type(&self, name: &str) -> CliRun<Type> {
        terms::named_type(&self.store.registry(), name).ok_or_else(|| {
            SyntaxFailure::same(format!(
                "Unknown comparator '{name}'. Available functions: {}.",
                terms::functions()
            ))
        })
    }

    fn get_slice(
        &self,
        types: &Types<'_>,
        key: &[u8],
        parent: ColumnParent,
        limit: i32,
        begin: i64,
        out: &mut String,
    ) -> CliRun {
        let predicate = SlicePredicate::from(SliceRange { count: limit, ..SliceRange::default() });
        let cells =
            self.store.get_slice(self.chosen()?, key, &parent, &predicate).map_err(refused)?;
        let inside = parent.super_column.is_some();
        let cells: Vec<_> = cells.iter().map(|c| types.cell(c, inside)).collect();
        format::slice(out, &cells);
        self.elapsed(begin, out);
        Ok(())
    }

    pub(super) fn get_where(
        &self,
        family: &str,
        conditions: &[CliCondition],
        limit: Option<u32>,
        out: &mut String,
    ) -> CliRun {
        let begin = self.store.timestamp();
        let family = self.family(family)?;
        let types = self.types(&family);
        let mut expressions = Vec::new();
        for c in conditions {
            let column_name = self.bytes(&c.column, types.comparator(), ExceptionDepth::Twice)?;
            let (t, of_column) = types.validator(&column_name);
            let value = self.bytes(
                &c.value,
                t,
                if of_column { ExceptionDepth::Thrice } else { ExceptionDepth::Once },
            )?;
            expressions.push(IndexExpression { column_name, op: c.operator, value });
        }
        if limit == Some(0) {
            return Err(SyntaxFailure::same("LIMIT should be greater than zero."));
        }
        let clause = IndexClause {
            expressions,
            start_key: Vec::new(),
            count: limit.map_or(DEFAULT_LIMIT, u32::cast_signed),
        };
        let predicate = SlicePredicate::from(SliceRange::default());
        let parent = ColumnParent::new(family.name());
        let found = self
            .store
            .get_indexed_slices(self.chosen()?, &parent, &clause, &predicate)
            .map_err(refused_plainly)?;
        self.rows(&types, &found, begin, out);
        Ok(())
    }

    pub(super) fn list(
        &self,
        family: &str,
        (start, end): (Option<&CliTerm>, Option<&CliTerm>),
        (rows, columns): (Option<i32>, Option<i32>),
        reversed: bool,
        out: &mut String,
    ) -> CliRun {
        let begin = self.store.timestamp();
        let family = self.family(family)?;
        let types = self.types(&family);
        if let Some(bad) = [rows, columns].into_iter().flatten().find(|n| *n == 0) {
            return Err(SyntaxFailure::same(format!("Invalid limit {bad}")));
        }
        format::default_limits(out, rows.is_none(), columns.is_none());
        // The command of 2012 read these keys as bytes, regardless of the schema, unless `assume`
        // set a type.
        let t =
            if self.strict { types.assumed_keys().unwrap_or(&terms::BYTES) } else { types.keys() };
        let key = |term: Option<&CliTerm>| {
            term.map_or(Ok(Vec::new()), |term| self.bytes(term, t, ExceptionDepth::Once))
        };
        let range = KeyRange::keys(key(start)?, key(end)?).count(rows.unwrap_or(DEFAULT_LIMIT));
        let count = columns.unwrap_or(DEFAULT_LIMIT);
        let predicate =
            SlicePredicate::from(SliceRange { reversed, count, ..SliceRange::default() });
        let parent = ColumnParent::new(family.name());
        let keyspace = self.chosen()?;
        let found =
            self.store.get_range_slices(keyspace, &parent, &predicate, &range).map_err(refused)?;
        self.rows(&types, &found, begin, out);
        Ok(())
    }

    fn rows(&self, types: &Types<'_>, found: &[KeySlice], begin: i64, out: &mut String) {
        let cells = |row: &KeySlice| {
            row.columns.iter().map(|c: &ColumnOrSuperColumn| types.cell(c, false)).collect()
        };
        let rows: Vec<CliRow> =
            found.iter().map(|r| CliRow { key: types.key_text(&r.key), cells: cells(r) }).collect();
        format::rows(out, &rows);
        self.elapsed(begin, out);
    }

    pub(super) fn count(&self, path: &Path, out: &mut String) -> CliRun {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        if path.columns.len() > 1 {
            return Err(wrong_path());
        }
        let super_column = self.column_names(path, &types)?.pop();
        let parent = ColumnParent { super_column, ..ColumnParent::new(family.name()) };
        let key = self.bytes(&path.key, types.keys(), ExceptionDepth::Once)?;
        let n = self.store.get_count(self.chosen()?, &key, &parent).map_err(refused)?;
        line(out, &format!("{n} columns"))
    }

    fn elapsed(&self, begin: i64, out: &mut String) {
        let micros = self.store.timestamp().saturating_sub(begin);
        format::elapsed(out, micros.max(0).cast_unsigned() / 1000);
    }

    pub(super) fn set(
        &mut self,
        path: &Path,
        value: &CliTerm,
        ttl: Option<u32>,
        out: &mut String,
    ) -> CliRun {
        let begin = self.store.timestamp();
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        if path.columns.len() == 1 && family.is_super() {
            return Err(SyntaxFailure::same(format!(
                "Column family {} may only contain SuperColumns",
                family.name()
            )));
        }
        let Some((parent, name)) = self.cell_path(path, &types)? else {
            return Err(SyntaxFailure::same(
                "No column name specified, (type 'help;' or '?' for help on syntax).",
            ));
        };
        let (t, of_column) = types.validator(&name);
        if !self.strict && family.is_counter() {
            return Err(SyntaxFailure::same(format!(
                "{} holds counters: use 'incr' or 'decr'",
                family.name()
            )));
        }
        let written = value;
        let (learnt, value) = match value {
            CliTerm::Call { function, argument } => {
                let (t, bytes) = self.call(function, argument.as_deref())?;
                (Some(t), bytes)
            }
            term => {
                let wrapped = if of_column { ExceptionDepth::Twice } else { ExceptionDepth::Not };
                (None, self.bytes(term, t, wrapped)?)
            }
        };
        let key = self.bytes(&path.key, types.keys(), ExceptionDepth::Once)?;
        if self.strict && ttl == Some(0) {
            return Err(refused(CliTrouble::Invalid("ttl must be positive".to_owned())));
        }
        let column = Column {
            name,
            value,
            timestamp: self.store.timestamp(),
            ttl: ttl.map(u32::cast_signed),
        };
        let mut taken = self.taken(path, &types);
        if !self.strict {
            terms::note_hexadecimal("value", written, t, &mut taken);
        }
        let done = self.store.insert(self.chosen()?, &key, &parent, &column).map_err(refused);
        // The command of 2012 remembered the types of refused writes, too.
        if let Some(t) = learnt.filter(|_| self.strict || done.is_ok()) {
            self.assumptions(&family).columns.insert(column.name, t);
        }
        done?;
        out.push_str(&taken);
        out.push_str("Value inserted.\n");
        self.elapsed(begin, out);
        Ok(())
    }

    pub(super) fn add(&self, path: &Path, value: i64, done: &str, out: &mut String) -> CliRun {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), ExceptionDepth::Once)?;
        let (parent, name) = self.cell_path(path, &types)?.ok_or_else(wrong_path)?;
        let counter = CounterColumn { name, value };
        self.store.add(self.chosen()?, &key, &parent, &counter).map_err(refused)?;
        line(out, &format!("Value {done}."))
    }

    pub(super) fn delete(&self, path: &Path, out: &mut String) -> CliRun {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), ExceptionDepth::Once)?;
        let mut names = self.column_names(path, &types)?;
        let column = if family.is_super() && names.len() == 1 { None } else { names.pop() };
        let column_family = family.name().to_owned();
        let at = ColumnPath { column_family, super_column: names.pop(), column };
        let keyspace = self.chosen()?;
        let done = if family.is_counter() {
            self.store.remove_counter(keyspace, &key, &at)
        } else {
            self.store.remove(keyspace, &key, &at, self.store.timestamp())
        };
        done.map_err(refused)?;
        line(out, if path.columns.is_empty() { "row removed." } else { "column removed." })
    }
}
