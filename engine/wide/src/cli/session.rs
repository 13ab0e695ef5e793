//! A session: runs statements against a store, as cassandra-cli did (model.md 2.10).
//!
//! It holds what the command held: the chosen keyspace, assumptions about types, what functions taught about columns. *Strict* is the
//! command of 1.1.12, its refusals and its stale memory of dropped families included; *lenient* (model.md finding 6, corrections 17
//! and 18) takes text where bytes are expected and it is not hexadecimal, and a column without `validation_class` takes the family's
//! default.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Condition, Definition, Operator, Path, Statement, Term};
use super::complete::{LEVELS, Names};
use super::format::{self, Row};
use super::syntax::Failure;
use super::terms::{self, Assumed, Fresh, Types, Wrapped};
use super::{Source, define, help};
use crate::api::{
    Column, ColumnOrSuperColumn, ColumnParent, ColumnPath, CounterColumn, IndexClause, IndexExpression, IndexOperator,
    KeyRange, KeySlice, Keyspace, SlicePredicate, SliceRange, Wide,
};
use crate::base::error::Error;
use crate::schema::{CfDef, Family, KsDef};
use crate::types::{Source as _, Type, Wording};
use firn_kv::env::Env;

/// Rows of `list` and of `get … where`, and columns of their rows, where nothing is said.
const DEFAULT_LIMIT: i32 = 100;

/// Columns of `get` where nothing is said.
const WHOLE_ROW: i32 = 1_000_000;

/// What a statement came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What is printed; ends with a line end or is empty.
    pub text: String,
    /// Why the statement was not done, to be printed after the text.
    pub failure: Option<Failure>,
    /// Whether the user wants to leave.
    pub exit: bool,
}

/// A conversation with a store.
pub struct Session {
    pub(super) wide: Wide,
    env: Arc<dyn Env>,
    pub(super) strict: bool,
    keyspace: Option<Keyspace>,
    /// By keyspace and family.
    assumed: HashMap<(String, String), Assumed>,
    /// Families that this session dropped and, strictly, still believes in until it asks for the schema again.
    ghosts: Vec<Arc<Family>>,
}

type Run<T = ()> = Result<T, Failure>;

/// A refusal of the server, as most statements printed it: with the exception after it.
fn refused(e: Error) -> Failure {
    match e {
        Error::InvalidRequest(why) => Failure::new(why.clone(), format!("{why}\nInvalidRequestException(why:{why})")),
        other => Failure::same(other.to_string()),
    }
}

/// A refusal of the server, as definitions and conditions printed it.
pub(super) fn refused_plainly(e: Error) -> Failure {
    Failure::same(terms::message(e))
}

fn wrong_path() -> Failure {
    Failure::same("Invalid row, super column, or column specification.")
}

impl Session {
    /// A session without a keyspace. `env` gives randomness to fresh UUIDs.
    pub fn new(wide: Wide, env: Arc<dyn Env>, strict: bool) -> Session {
        Session { wide, env, strict, keyspace: None, assumed: HashMap::new(), ghosts: Vec::new() }
    }

    /// What asks for the next statement.
    pub fn prompt(&self) -> String {
        format::prompt(self.keyspace_name())
    }

    /// The chosen keyspace.
    pub fn keyspace_name(&self) -> Option<&str> {
        self.keyspace.as_ref().map(Keyspace::name)
    }

    /// What completion offers.
    pub fn names(&self) -> Names {
        let schema = self.wide.schema();
        let keyspaces = schema.keyspaces().map(|k| k.name().to_owned()).collect();
        let chosen = self.keyspace_name().and_then(|name| schema.keyspace(name).ok());
        let columns = |f: &Family| f.columns().map(|c| terms::text(f.cell_comparator(), c.name(), self.strict)).collect();
        let families = chosen.map(|k| k.families().map(|f| (f.name().to_owned(), columns(f))).collect());
        Names { keyspaces, families: families.unwrap_or_default() }
    }

    /// What a failure says in this session.
    pub fn say<'a>(&self, failure: &'a Failure) -> &'a str {
        if self.strict { &failure.historical } else { &failure.plain }
    }

    /// Reads and runs a statement.
    pub fn run(&mut self, source: &Source) -> Answer {
        match super::parse(source) {
            Ok(statement) => self.execute(&statement),
            Err(e) => Answer { failure: Some(Failure::new(e.to_string(), e.historical())), ..Answer::default() },
        }
    }

    /// Runs a statement.
    pub fn execute(&mut self, statement: &Statement) -> Answer {
        let mut text = String::new();
        let failure = self.statement(statement, &mut text).err();
        Answer { text, failure, exit: *statement == Statement::Exit }
    }

    fn statement(&mut self, statement: &Statement, out: &mut String) -> Run {
        match statement {
            Statement::Nothing | Statement::Exit => Ok(()),
            Statement::Connect { .. } => {
                out.push_str("The store is in this process: there is nothing to connect to.\n");
                Ok(())
            }
            Statement::Help(topic) => {
                out.push_str(&help::help(*topic));
                Ok(())
            }
            Statement::Use { keyspace, .. } => self.use_keyspace(keyspace, out),
            Statement::ShowClusterName => line(out, &self.wide.describe_cluster_name()),
            Statement::ShowApiVersion => line(out, self.wide.describe_version()),
            Statement::ShowKeyspaces => {
                let namer = |f: &CfDef, name: &[u8]| self.described_name(f, name);
                self.wide.describe_keyspaces().iter().for_each(|k| format::describe_keyspace(out, k, &namer));
                Ok(())
            }
            Statement::ShowSchema(keyspace) => self.show_schema(keyspace.as_deref(), out),
            Statement::Describe(name) => self.describe(name.as_deref(), out),
            Statement::DescribeCluster => {
                let (snitch, partitioner) = (self.wide.describe_snitch(), self.wide.describe_partitioner());
                format::cluster(out, &snitch, &partitioner, &self.wide.describe_schema_versions());
                Ok(())
            }
            Statement::CreateKeyspace(d) => self.create_keyspace(d, out),
            Statement::UpdateKeyspace(d) => self.update_keyspace(d, out),
            Statement::DropKeyspace(name) => self.drop_keyspace(name, out),
            Statement::CreateFamily(d) => self.create_family(d, out),
            Statement::UpdateFamily(d) => self.update_family(d, out),
            Statement::DropFamily(name) => self.drop_family(name, out),
            Statement::DropIndex { family, column } => self.drop_index(family, column, out),
            Statement::Get { path, shown_as, limit } => self.get(path, shown_as.as_deref(), *limit, out),
            Statement::GetWhere { family, conditions, limit } => self.get_where(family, conditions, *limit, out),
            Statement::Set { path, value, ttl } => self.set(path, value, *ttl, out),
            Statement::Increment { path, by } => self.add(path, *by, "incremented", out),
            Statement::Decrement { path, by } => self.add(path, by.wrapping_neg(), "decremented", out),
            Statement::Delete(path) => self.delete(path, out),
            Statement::Count(path) => self.count(path, out),
            Statement::List { family, start, end, limit, columns, reversed } => {
                let limits = (limit.map(u32::cast_signed), columns.map(u32::cast_signed));
                self.list(family, (start.as_deref(), end.as_deref()), limits, *reversed, out)
            }
            Statement::Truncate(family) => {
                let found = self.family(family)?;
                self.chosen()?.truncate(found.name()).map_err(refused)?;
                line(out, &format!("{family} truncated."))
            }
            Statement::Assume { family, what, as_type } => self.assume(family, what, as_type, out),
            Statement::ConsistencyLevel(level) => consistency_level(level, out),
        }
    }

    // ---- names

    fn chosen(&self) -> Run<&Keyspace> {
        self.keyspace.as_ref().ok_or_else(|| {
            Failure::new("no keyspace is chosen: 'use KEYSPACE;' chooses one", "Not authenticated to a working keyspace.")
        })
    }

    /// A keyspace by its name, or by its name in another case.
    fn keyspace_called(&self, name: &str) -> Run<String> {
        let schema = self.wide.schema();
        if schema.keyspace(name).is_ok() {
            return Ok(name.to_owned());
        }
        let mut alike = schema.keyspaces().filter(|k| k.name().eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some(only), None) => Ok(only.name().to_owned()),
            _ => Err(Failure::same(format!("Keyspace '{name}' not found."))),
        }
    }

    /// A family of the chosen keyspace by its name, or by its name in another case.
    pub(super) fn family(&self, name: &str) -> Run<Arc<Family>> {
        let keyspace = self.chosen()?.name();
        let schema = self.wide.schema();
        let there = schema.keyspace(keyspace).map_err(refused_plainly)?;
        if let Some(family) = there.family(name) {
            return Ok(family.clone());
        }
        let ghosts = self.ghosts.iter().filter(|g| g.keyspace() == keyspace);
        let mut alike = there.families().chain(ghosts).filter(|f| f.name().eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(Failure::same(format!("{name} not found in current keyspace."))),
        }
    }

    fn types<'a>(&'a self, family: &'a Family) -> Types<'a> {
        let assumed = self.assumed.get(&(family.keyspace().to_owned(), family.name().to_owned()));
        Types { family, assumed, strict: self.strict }
    }

    fn assumptions(&mut self, family: &Family) -> &mut Assumed {
        self.assumed.entry((family.keyspace().to_owned(), family.name().to_owned())).or_default()
    }

    pub(super) fn type_called(&self, class: &str) -> Run<Type> {
        Type::parse(class, self.wide.registry()).map_err(|e| Failure::same(e.0))
    }

    // ---- texts

    /// The bytes of a text.
    pub(super) fn read(&self, t: &Type, text: &str, wrapped: Wrapped) -> Run<Vec<u8>> {
        terms::bytes(t, text, self.strict, &mut self.fresh(), wrapped)
    }

    fn fresh(&self) -> Fresh<'_> {
        Fresh { wide: &self.wide, env: &*self.env }
    }

    fn bytes(&self, term: &Term, t: &Type, wrapped: Wrapped) -> Run<Vec<u8>> {
        match term {
            Term::Text(text) => self.read(t, text, wrapped),
            Term::Call { function, argument } => self.call(function, argument.as_deref()).map(|(_, bytes)| bytes),
        }
    }

    /// The type that a function says, and what it makes of its argument.
    fn call(&self, function: &str, argument: Option<&str>) -> Run<(Type, Vec<u8>)> {
        let t = terms::function_type(self.wide.registry(), function).ok_or_else(|| {
            Failure::same(format!("Function '{function}' not found. Available functions: {}.", terms::functions()))
        })?;
        let bytes = match (argument.filter(|a| !a.is_empty()), &t) {
            (Some(text), _) => self.read(&t, text, Wrapped::Twice)?,
            (None, Type::TimeUuid) => self.fresh().time_uuid().to_vec(),
            (None, Type::LexicalUuid) => self.fresh().random_uuid().to_vec(),
            (None, Type::Bytes) => Vec::new(),
            (None, _) => {
                let text = format!("Argument for '{function}' could not be empty.");
                return Err(Failure::new(text.clone(), format!("java.lang.RuntimeException: {text}")));
            }
        };
        Ok((t, bytes))
    }

    // ---- sessions

    fn use_keyspace(&mut self, name: &str, out: &mut String) -> Run {
        let name = self.keyspace_called(name)?;
        self.keyspace = Some(self.wide.keyspace(&name).map_err(refused_plainly)?);
        line(out, &format!("Authenticated to keyspace: {name}"))
    }

    fn assume(&mut self, family: &str, what: &str, as_type: &str, out: &mut String) -> Run {
        let family = self.family(family)?;
        let what = what.to_ascii_uppercase();
        let Some(t) = terms::named_type(self.wide.registry(), as_type) else {
            return Err(Failure::same(format!(
                "Type '{as_type}' was not found. Available: {}. Or any class which extends o.a.c.db.marshal.AbstractType.",
                terms::functions()
            )));
        };
        let assumed = self.assumptions(&family);
        match what.as_str() {
            "COMPARATOR" => assumed.comparator = Some(t),
            "SUB_COMPARATOR" => assumed.subcomparator = Some(t),
            "VALIDATOR" => assumed.validator = Some(t),
            "KEYS" => assumed.keys = Some(t),
            _ => {
                return Err(Failure::same(format!(
                    "'{what}' is invalid. Available: VALIDATOR, COMPARATOR, KEYS, SUB_COMPARATOR."
                )));
            }
        }
        line(out, &format!("Assumption for column family '{}' added successfully.", family.name()))
    }

    // ---- definitions

    fn show_schema(&self, keyspace: Option<&str>, out: &mut String) -> Run {
        let name = match keyspace {
            Some(name) => Some(self.keyspace_called(name)?),
            None => self.keyspace_name().map(str::to_owned),
        };
        let mut all = self.wide.describe_keyspaces();
        all.retain(|k| name.as_ref().is_none_or(|name| *name == k.name));
        format::schema(out, &all, &|f, bytes| {
            self.name_type(f).map_or_else(|| terms::hexadecimal(bytes), |t| t.to_text(bytes, Wording::Cli))
        });
        Ok(())
    }

    /// The type of the names of cells.
    fn name_type(&self, f: &CfDef) -> Option<Type> {
        let class = if f.column_type == "Super" { f.subcomparator_type.as_deref()? } else { &f.comparator_type };
        Type::parse(class, self.wide.registry()).ok()
    }

    /// A column's name in descriptions: of bytes also the text, where they are one.
    fn described_name(&self, f: &CfDef, name: &[u8]) -> String {
        let Some(t) = self.name_type(f) else { return terms::hexadecimal(name) };
        match std::str::from_utf8(name) {
            Ok(text) if t == Type::Bytes => format!("{text} ({})", t.to_text(name, Wording::Cli)),
            _ => t.to_text(name, Wording::Cli),
        }
    }

    fn describe(&self, name: Option<&str>, out: &mut String) -> Run {
        let namer = |f: &CfDef, name: &[u8]| self.described_name(f, name);
        let Some(name) = name else {
            let text = "Authenticate to a Keyspace, before using `describe` or `describe <column_family>`";
            let chosen =
                self.keyspace_name().ok_or_else(|| Failure::new("no keyspace is chosen: 'use KEYSPACE;' chooses one", text))?;
            let keyspace = self.wide.describe_keyspace(chosen).map_err(refused_plainly)?;
            format::describe_keyspace(out, &keyspace, &namer);
            return Ok(());
        };
        if let Ok(keyspace) = self.wide.describe_keyspace(name) {
            format::describe_keyspace(out, &keyspace, &namer);
            return Ok(());
        }
        if self.keyspace.is_none() {
            return Err(Failure::same(format!(
                "Keyspace with name '{name}' wasn't found, to lookup ColumnFamily with that name, please, authorize to one of the \
                 keyspaces first."
            )));
        }
        let Ok(family) = self.family(name) else {
            return Err(Failure::same(format!("Sorry, no Keyspace nor ColumnFamily was found with name: {name}")));
        };
        format::describe_family(out, family.def(), &namer);
        Ok(())
    }

    /// After a change of the schema: says so, and forgets what the command of 2012 forgot when it asked for the keyspace anew.
    fn changed(&mut self, version: uuid::Uuid, keyspace: &str, out: &mut String) -> Run {
        format::schema_changed(out, &version.to_string());
        if self.strict {
            self.ghosts.retain(|g| g.keyspace() != keyspace);
            for ((_, _), assumed) in self.assumed.iter_mut().filter(|((k, _), _)| k == keyspace) {
                *assumed = Assumed { keys: assumed.keys.take(), ..Assumed::default() };
            }
        }
        Ok(())
    }

    fn create_keyspace(&mut self, d: &Definition, out: &mut String) -> Run {
        let def = define::new_keyspace(d, self.strict)?;
        let version = self.wide.system_add_keyspace(&def).map_err(refused_plainly)?;
        self.changed(version, &def.name, out)
    }

    fn update_keyspace(&mut self, d: &Definition, out: &mut String) -> Run {
        let name = self.keyspace_called(&d.name)?;
        let old = self.wide.describe_keyspace(&name).map_err(refused_plainly)?;
        let def = define::changed_keyspace(KsDef { cf_defs: Vec::new(), ..old }, &d.attributes)?;
        let version = self.wide.system_update_keyspace(&def).map_err(refused_plainly)?;
        self.changed(version, &name, out)
    }

    fn drop_keyspace(&mut self, name: &str, out: &mut String) -> Run {
        let name = self.keyspace_called(name)?;
        let version = self.wide.system_drop_keyspace(&name).map_err(refused)?;
        format::schema_changed(out, &version.to_string());
        if self.keyspace_name() == Some(&name) {
            self.keyspace = None;
        }
        self.assumed.retain(|(keyspace, _), _| *keyspace != name);
        self.ghosts.retain(|g| g.keyspace() != name);
        Ok(())
    }

    fn create_family(&mut self, d: &Definition, out: &mut String) -> Run {
        let keyspace = self.chosen()?.name().to_owned();
        let def = define::family(self, CfDef::new(&keyspace, &d.name), &d.attributes, out)?;
        let version = self.wide.system_add_column_family(&def).map_err(refused_plainly)?;
        self.changed(version, &keyspace, out)
    }

    fn update_family(&mut self, d: &Definition, out: &mut String) -> Run {
        let family = self.family(&d.name)?;
        let def = define::family(self, family.def().clone(), &d.attributes, out)?;
        let version = self.wide.system_update_column_family(&def).map_err(refused_plainly)?;
        self.changed(version, family.keyspace(), out)
    }

    fn drop_family(&mut self, name: &str, out: &mut String) -> Run {
        let family = self.family(name)?;
        let version = self.wide.system_drop_column_family(family.keyspace(), family.name()).map_err(refused)?;
        format::schema_changed(out, &version.to_string());
        if self.strict {
            self.ghosts.push(family);
        } else {
            self.assumed.remove(&(family.keyspace().to_owned(), family.name().to_owned()));
        }
        Ok(())
    }

    fn drop_index(&mut self, family: &str, column: &str, out: &mut String) -> Run {
        let family = self.family(family)?;
        let name = self.read(family.cell_comparator(), column, Wrapped::Once)?;
        let mut def = family.def().clone();
        let Some(found) = def.column_metadata.iter_mut().find(|c| c.name == name) else {
            let text = format!("Column '{column}' definition was not found in ColumnFamily '{}'.", family.name());
            return Err(Failure::same(text));
        };
        if found.index_type.take().is_none() {
            return Err(Failure::same(format!("Column '{column}' does not have an index.")));
        }
        found.index_name = None;
        found.index_options.clear();
        let version = self.wide.system_update_column_family(&def).map_err(refused)?;
        self.changed(version, family.keyspace(), out)
    }

    // ---- reads

    fn get(&mut self, path: &Path, shown_as: Option<&str>, limit: Option<u32>, out: &mut String) -> Run {
        let begin = self.wide.timestamp();
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), Wrapped::Once)?;
        if limit == Some(0) {
            return Err(Failure::same("LIMIT should be greater than zero."));
        }
        let limit = limit.map_or(WHOLE_ROW, u32::cast_signed);
        let mut names = Vec::new();
        for (i, name) in path.columns.iter().enumerate() {
            names.push(self.bytes(name, if i == 0 { types.comparator() } else { types.subcomparator() }, Wrapped::Once)?);
        }
        let mut names = names.into_iter();
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
        let path = ColumnPath { column_family: family.name().to_owned(), super_column, column: Some(column.clone()) };
        let learnt = match self.chosen()?.get(&key, &path) {
            Err(Error::NotFound) => {
                out.push_str("Value was not found\n");
                None
            }
            Err(e) => return Err(refused(e)),
            Ok(found) => {
                let mut cell = types.cell(&found, inside);
                let shown = shown_as.map(|name| self.shown_type(name)).transpose()?;
                if let (Some(t), format::Cell::Column(c), Some(raw)) = (&shown, &mut cell, found.column()) {
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

    fn shown_type(&self, name: &str) -> Run<Type> {
        terms::named_type(self.wide.registry(), name)
            .ok_or_else(|| Failure::same(format!("Unknown comparator '{name}'. Available functions: {}.", terms::functions())))
    }

    fn get_slice(&self, types: &Types<'_>, key: &[u8], parent: ColumnParent, limit: i32, begin: i64, out: &mut String) -> Run {
        let predicate = SlicePredicate::from(SliceRange { count: limit, ..SliceRange::default() });
        let cells = self.chosen()?.get_slice(key, &parent, &predicate).map_err(refused)?;
        let inside = parent.super_column.is_some();
        let cells: Vec<_> = cells.iter().map(|c| types.cell(c, inside)).collect();
        format::slice(out, &cells);
        self.elapsed(begin, out);
        Ok(())
    }

    fn get_where(&self, family: &str, conditions: &[Condition], limit: Option<u32>, out: &mut String) -> Run {
        let begin = self.wide.timestamp();
        let family = self.family(family)?;
        let types = self.types(&family);
        let mut expressions = Vec::new();
        for c in conditions {
            let column_name = self.bytes(&c.column, types.comparator(), Wrapped::Twice)?;
            let (t, of_column) = types.validator(&column_name);
            let value = self.bytes(&c.value, t, if of_column { Wrapped::Thrice } else { Wrapped::Once })?;
            let op = match c.operator {
                Operator::Eq => IndexOperator::Eq,
                Operator::Gte => IndexOperator::Gte,
                Operator::Gt => IndexOperator::Gt,
                Operator::Lte => IndexOperator::Lte,
                Operator::Lt => IndexOperator::Lt,
            };
            expressions.push(IndexExpression { column_name, op, value });
        }
        if limit == Some(0) {
            return Err(Failure::same("LIMIT should be greater than zero."));
        }
        let clause = IndexClause { expressions, start_key: Vec::new(), count: limit.map_or(DEFAULT_LIMIT, u32::cast_signed) };
        let predicate = SlicePredicate::from(SliceRange::default());
        let parent = ColumnParent::new(family.name());
        let found = self.chosen()?.get_indexed_slices(&parent, &clause, &predicate).map_err(refused_plainly)?;
        self.rows(&types, &found, begin, out);
        Ok(())
    }

    fn list(
        &self,
        family: &str,
        (start, end): (Option<&str>, Option<&str>),
        (rows, columns): (Option<i32>, Option<i32>),
        reversed: bool,
        out: &mut String,
    ) -> Run {
        let begin = self.wide.timestamp();
        let family = self.family(family)?;
        let types = self.types(&family);
        if let Some(bad) = [rows, columns].into_iter().flatten().find(|n| *n == 0) {
            return Err(Failure::same(format!("Invalid limit {bad}")));
        }
        format::default_limits(out, rows.is_none(), columns.is_none());
        // The command of 2012 read these keys as bytes unless told otherwise, whatever the schema said.
        let t = if self.strict { types.assumed_keys().unwrap_or(&terms::BYTES) } else { types.keys() };
        let key = |text: Option<&str>| text.map_or(Ok(Vec::new()), |text| self.read(t, text, Wrapped::Once));
        let range = KeyRange::keys(key(start)?, key(end)?).count(rows.unwrap_or(DEFAULT_LIMIT));
        let count = columns.unwrap_or(DEFAULT_LIMIT);
        let predicate = SlicePredicate::from(SliceRange { reversed, count, ..SliceRange::default() });
        let parent = ColumnParent::new(family.name());
        let found = self.chosen()?.get_range_slices(&parent, &predicate, &range).map_err(refused)?;
        self.rows(&types, &found, begin, out);
        Ok(())
    }

    fn rows(&self, types: &Types<'_>, found: &[KeySlice], begin: i64, out: &mut String) {
        let cells = |row: &KeySlice| row.columns.iter().map(|c: &ColumnOrSuperColumn| types.cell(c, false)).collect();
        let rows: Vec<Row> = found.iter().map(|r| Row { key: types.key_text(&r.key), cells: cells(r) }).collect();
        format::rows(out, &rows);
        self.elapsed(begin, out);
    }

    fn count(&self, path: &Path, out: &mut String) -> Run {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let mut parent = ColumnParent::new(family.name());
        match &path.columns[..] {
            [] => {}
            [name] => parent = parent.super_column(self.bytes(name, types.comparator(), Wrapped::Once)?),
            _ => return Err(wrong_path()),
        }
        let key = self.bytes(&path.key, types.keys(), Wrapped::Once)?;
        let n = self.chosen()?.get_count(&key, &parent, &SlicePredicate::all()).map_err(refused)?;
        line(out, &format!("{n} columns"))
    }

    fn elapsed(&self, begin: i64, out: &mut String) {
        let micros = self.wide.timestamp().saturating_sub(begin);
        format::elapsed(out, micros.max(0).cast_unsigned() / 1000);
    }

    // ---- writes

    fn set(&mut self, path: &Path, value: &Term, ttl: Option<u32>, out: &mut String) -> Run {
        let begin = self.wide.timestamp();
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let mut parent = ColumnParent::new(family.name());
        let name = match &path.columns[..] {
            [] => return Err(Failure::same("No column name specified, (type 'help;' or '?' for help on syntax).")),
            [_] if family.is_super() => {
                return Err(Failure::same(format!("Column family {} may only contain SuperColumns", family.name())));
            }
            [name] => self.bytes(name, types.comparator(), Wrapped::Once)?,
            [super_column, name, ..] => {
                parent = parent.super_column(self.bytes(super_column, types.comparator(), Wrapped::Once)?);
                self.bytes(name, types.subcomparator(), Wrapped::Once)?
            }
        };
        let (t, of_column) = types.validator(&name);
        if !self.strict && family.is_counter() {
            return Err(Failure::same(format!("{} holds counters: use 'incr' or 'decr'", family.name())));
        }
        let (learnt, value) = match value {
            Term::Call { function, argument } => {
                let (t, bytes) = self.call(function, argument.as_deref())?;
                (Some(t), bytes)
            }
            Term::Text(text) => {
                let wrapped = if of_column { Wrapped::Twice } else { Wrapped::Not };
                (None, self.read(t, text, wrapped)?)
            }
        };
        let key = self.bytes(&path.key, types.keys(), Wrapped::Once)?;
        if let Some(t) = learnt {
            self.assumptions(&family).columns.insert(name.clone(), t);
        }
        let column = Column { name, value, timestamp: self.wide.timestamp(), ttl: ttl.map(u32::cast_signed) };
        self.chosen()?.insert(&key, &parent, &column).map_err(refused)?;
        out.push_str("Value inserted.\n");
        self.elapsed(begin, out);
        Ok(())
    }

    fn add(&self, path: &Path, value: i64, done: &str, out: &mut String) -> Run {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), Wrapped::Once)?;
        let mut parent = ColumnParent::new(family.name());
        let name = match &path.columns[..] {
            [] => return Err(wrong_path()),
            [name] => self.bytes(name, types.comparator(), Wrapped::Once)?,
            [super_column, name, ..] => {
                parent = parent.super_column(self.bytes(super_column, types.comparator(), Wrapped::Once)?);
                self.bytes(name, types.subcomparator(), Wrapped::Once)?
            }
        };
        self.chosen()?.add(&key, &parent, &CounterColumn { name, value }).map_err(refused)?;
        line(out, &format!("Value {done}."))
    }

    fn delete(&self, path: &Path, out: &mut String) -> Run {
        let family = self.family(&path.family)?;
        let types = self.types(&family);
        let key = self.bytes(&path.key, types.keys(), Wrapped::Once)?;
        let mut at = ColumnPath::new(family.name());
        match &path.columns[..] {
            [] => {}
            [name] => {
                let name = self.bytes(name, types.comparator(), Wrapped::Once)?;
                at = if family.is_super() { at.super_column(name) } else { at.column(name) };
            }
            [super_column, name, ..] => {
                at = at.super_column(self.bytes(super_column, types.comparator(), Wrapped::Once)?);
                at = at.column(self.bytes(name, types.subcomparator(), Wrapped::Once)?);
            }
        }
        let keyspace = self.chosen()?;
        let done = if family.is_counter() {
            keyspace.remove_counter(&key, &at)
        } else {
            keyspace.remove(&key, &at, self.wide.timestamp())
        };
        done.map_err(refused)?;
        line(out, if path.columns.is_empty() { "row removed." } else { "column removed." })
    }
}

fn line(out: &mut String, text: &str) -> Run {
    out.push_str(text);
    out.push('\n');
    Ok(())
}

fn consistency_level(level: &str, out: &mut String) -> Run {
    let level = level.to_ascii_uppercase();
    if !LEVELS.contains(&level.as_str()) {
        return Err(Failure::same(format!("'{level}' is invalid. Available: {}", LEVELS.join(", "))));
    }
    line(out, &format!("Consistency level is set to '{level}'."))
}
