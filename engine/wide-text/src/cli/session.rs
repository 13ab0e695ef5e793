//! A session runs statements against a store like cassandra-cli (model 2.10).
//!
//! It has the state of that command: the current keyspace, assumed types, and column types learned
//! from functions. *Strict* mode is the command of 1.1.12, including its refusals and its stale
//! memory of dropped column families. *Lenient* mode (model 2.10, 6.17, 6.18) accepts text where
//! bytes are expected if it is not hexadecimal. A column without `validation_class` has the column
//! family's default.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_kv::Env;
use firn_wide::internals::schema::{Family, NO_SUCH_TYPE, OWN_TYPES};
use firn_wide::internals::types::hex;
use firn_wide::{CfDef, KsDef, TimeSource as _, Type, Wording};

use super::ast::{CliStatement, CliTerm, Definition};
use super::complete::{CompletionNames, LEVELS};
use super::format;
use super::store::{CliStore, CliTrouble};
use super::syntax::SyntaxFailure;
use super::terms::{self, Assumptions, ExceptionDepth, Types, UniqueSource};
use super::{CliSource, define, help};
use crate::text::from_hex;

/// The result of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliAnswer {
    /// Output; ends with a newline or is empty.
    pub text: String,
    /// Error to print after the text.
    pub failure: Option<SyntaxFailure>,
    /// Whether the session ends.
    pub exit: bool,
}

/// A session with a store, or with a server.
pub struct CliSession {
    pub(super) store: Box<dyn CliStore>,
    env: Arc<dyn Env>,
    pub(super) strict: bool,
    keyspace: Option<String>,
    /// By keyspace and column family.
    assumed: BTreeMap<(String, String), Assumptions>,
    /// Column families that this session dropped. In strict mode they remain known until the schema
    /// is read again.
    ghosts: Vec<Arc<Family>>,
}

impl std::fmt::Debug for CliSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("keyspace", &self.keyspace)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}

pub(super) type CliRun<T = ()> = Result<T, SyntaxFailure>;

/// Returns an error of the server as most statements printed it: followed by the exception.
pub(super) fn refused(e: CliTrouble) -> SyntaxFailure {
    match e {
        CliTrouble::Invalid(why) => {
            SyntaxFailure::new(why.clone(), format!("{why}\nInvalidRequestException(why:{why})"))
        }
        other => SyntaxFailure::same(other.to_string()),
    }
}

/// Returns an error of the server as definitions and conditions printed it.
pub(super) fn refused_plainly(e: CliTrouble) -> SyntaxFailure {
    SyntaxFailure::same(e.to_string())
}

impl CliSession {
    /// Creates a session without a keyspace. `env` has the randomness for UUIDs.
    pub fn new(store: impl CliStore + 'static, env: Arc<dyn Env>, strict: bool) -> CliSession {
        CliSession {
            store: Box::new(store),
            env,
            strict,
            keyspace: None,
            assumed: BTreeMap::new(),
            ghosts: Vec::new(),
        }
    }

    /// Returns the prompt for the next statement.
    pub fn prompt(&self) -> String {
        format::prompt(self.keyspace_name())
    }

    /// Returns the current keyspace.
    pub fn keyspace_name(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Returns the names that completion offers.
    pub fn names(&self) -> CompletionNames {
        let Ok(schema) = self.store.schema() else { return CompletionNames::default() };
        let keyspaces = schema.keyspaces().map(|k| k.name().to_owned()).collect();
        let chosen = self.keyspace_name().and_then(|name| schema.keyspace(name).ok());
        let columns = |f: &Family| {
            f.columns().map(|c| terms::text(f.cell_comparator(), c.name(), self.strict)).collect()
        };
        let families =
            chosen.map(|k| k.families().map(|f| (f.name().to_owned(), columns(f))).collect());
        CompletionNames { keyspaces, families: families.unwrap_or_default() }
    }

    /// Returns the text of a failure in the mode of this session.
    pub fn say<'a>(&self, failure: &'a SyntaxFailure) -> &'a str {
        if self.strict { &failure.historical } else { &failure.plain }
    }

    /// Parses and runs a statement.
    pub fn run(&mut self, source: &CliSource) -> CliAnswer {
        match super::parse(source) {
            Ok(statement) => self.execute(&statement),
            Err(e) => CliAnswer {
                failure: Some(SyntaxFailure::new(e.to_string(), e.historical())),
                ..CliAnswer::default()
            },
        }
    }

    /// Runs a statement.
    pub fn execute(&mut self, statement: &CliStatement) -> CliAnswer {
        let mut text = String::new();
        let failure = self.statement(statement, &mut text).err();
        CliAnswer { text, failure, exit: *statement == CliStatement::Exit }
    }

    fn statement(&mut self, statement: &CliStatement, out: &mut String) -> CliRun {
        match statement {
            CliStatement::Nothing | CliStatement::Exit => Ok(()),
            CliStatement::Connect { host, port, login } => {
                let done =
                    self.store.connect(host, *port, login.as_ref()).map_err(refused_plainly)?;
                let Some(text) = done else {
                    return line(
                        out,
                        "The store is in this process: there is nothing to connect to.",
                    );
                };
                (self.keyspace, self.assumed) = (None, BTreeMap::new());
                self.ghosts.clear();
                line(out, &text)
            }
            CliStatement::Help(topic) => {
                out.push_str(&help::help(*topic));
                Ok(())
            }
            CliStatement::Use { keyspace, .. } => self.use_keyspace(keyspace, out),
            CliStatement::ShowClusterName => {
                line(out, &self.store.describe_cluster_name().map_err(refused_plainly)?)
            }
            // The version of the command of 2012 and of its server, which are both in this process.
            CliStatement::ShowApiVersion if self.strict && !self.store.is_remote() => {
                line(out, "19.33.0")
            }
            CliStatement::ShowApiVersion => {
                line(out, &self.store.describe_version().map_err(refused_plainly)?)
            }
            CliStatement::ShowKeyspaces => {
                let namer = |f: &CfDef, name: &[u8]| self.described_name(f, name);
                let all = self.store.describe_keyspaces().map_err(refused_plainly)?;
                all.iter().for_each(|k| format::describe_keyspace(out, k, &namer));
                Ok(())
            }
            CliStatement::ShowSchema(keyspace) => self.show_schema(keyspace.as_deref(), out),
            CliStatement::Describe(name) => self.describe(name.as_deref(), out),
            CliStatement::DescribeCluster => {
                let snitch = self.store.describe_snitch().map_err(refused_plainly)?;
                let partitioner = self.store.describe_partitioner().map_err(refused_plainly)?;
                let versions = self.store.describe_schema_versions().map_err(refused_plainly)?;
                format::cluster(out, &snitch, &partitioner, &versions);
                Ok(())
            }
            CliStatement::CreateKeyspace(d) => self.create_keyspace(d, out),
            CliStatement::UpdateKeyspace(d) => self.update_keyspace(d, out),
            CliStatement::DropKeyspace(name) => self.drop_keyspace(name, out),
            CliStatement::CreateFamily(d) => self.create_family(d, out),
            CliStatement::UpdateFamily(d) => self.update_family(d, out),
            CliStatement::DropFamily(name) => self.drop_family(name, out),
            CliStatement::DropIndex { family, column } => self.drop_index(family, column, out),
            CliStatement::Get { path, shown_as, limit } => {
                self.get(path, shown_as.as_deref(), *limit, out)
            }
            CliStatement::GetWhere { family, conditions, limit } => {
                self.get_where(family, conditions, *limit, out)
            }
            CliStatement::Set { path, value, ttl } => self.set(path, value, *ttl, out),
            CliStatement::Increment { path, by } => self.add(path, *by, "incremented", out),
            CliStatement::Decrement { path, by } => {
                self.add(path, by.wrapping_neg(), "decremented", out)
            }
            CliStatement::Delete(path) => self.delete(path, out),
            CliStatement::Count(path) => self.count(path, out),
            CliStatement::List { family, start, end, limit, columns, reversed } => {
                let limits = (limit.map(u32::cast_signed), columns.map(u32::cast_signed));
                self.list(family, (start.as_ref(), end.as_ref()), limits, *reversed, out)
            }
            CliStatement::Truncate(family) => {
                let found = self.family(family)?;
                self.store.truncate(self.chosen()?, found.name()).map_err(refused)?;
                line(out, &format!("{family} truncated."))
            }
            CliStatement::Assume { family, what, as_type } => {
                self.assume(family, what, as_type, out)
            }
            CliStatement::ConsistencyLevel(level) => self.consistency_level(level, out),
        }
    }

    // ---- names

    pub(super) fn chosen(&self) -> CliRun<&str> {
        self.keyspace_name().ok_or_else(|| {
            SyntaxFailure::new(
                "no keyspace is chosen: 'use KEYSPACE;' chooses one",
                "Not authenticated to a working keyspace.",
            )
        })
    }

    /// Finds a keyspace by name, exactly or ignoring case.
    fn keyspace_called(&self, name: &str) -> CliRun<String> {
        let schema = self.store.schema().map_err(refused_plainly)?;
        if schema.keyspace(name).is_ok() {
            return Ok(name.to_owned());
        }
        let mut alike = schema.keyspaces().filter(|k| k.name().eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some(only), None) => Ok(only.name().to_owned()),
            _ => Err(SyntaxFailure::same(format!("Keyspace '{name}' not found."))),
        }
    }

    /// Finds a column family of the current keyspace by name, exactly or ignoring case.
    pub(super) fn family(&self, name: &str) -> CliRun<Arc<Family>> {
        let keyspace = self.chosen()?;
        let schema = self.store.schema().map_err(refused_plainly)?;
        let there = schema.keyspace(keyspace).map_err(|e| refused_plainly(e.into()))?;
        if let Some(family) = there.family(name) {
            return Ok(family.clone());
        }
        let ghosts = self.ghosts.iter().filter(|g| g.keyspace() == keyspace);
        let mut alike =
            there.families().chain(ghosts).filter(|f| f.name().eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(SyntaxFailure::same(format!("{name} not found in current keyspace."))),
        }
    }

    pub(super) fn types<'a>(&'a self, family: &'a Family) -> Types<'a> {
        let assumed = self.assumed.get(&(family.keyspace().to_owned(), family.name().to_owned()));
        Types { family, assumed, strict: self.strict }
    }

    pub(super) fn assumptions(&mut self, family: &Family) -> &mut Assumptions {
        self.assumed.entry((family.keyspace().to_owned(), family.name().to_owned())).or_default()
    }

    pub(super) fn type_called(&self, class: &str) -> CliRun<Type> {
        Type::parse(class, &self.store.registry()).map_err(|e| {
            let known = terms::functions();
            SyntaxFailure::new(
                e.0,
                format!("java.lang.RuntimeException: Unknown comparator '{class}'. Available functions: {known}."),
            )
        })
    }

    // ---- texts

    /// Parses a text.
    pub(super) fn read(&self, t: &Type, text: &str, wrapped: ExceptionDepth) -> CliRun<Vec<u8>> {
        terms::bytes(t, text, self.strict, &mut self.fresh(), wrapped)
    }

    /// Parses a text in quotes, or a name in a definition. Where bytes are expected it is its
    /// characters, unless it begins with `0x`.
    pub(super) fn read_name(
        &self,
        t: &Type,
        text: &str,
        wrapped: ExceptionDepth,
    ) -> CliRun<Vec<u8>> {
        match from_hex(text) {
            None if !self.strict && *t == Type::Bytes => Ok(text.as_bytes().to_owned()),
            _ => self.read(t, text, wrapped),
        }
    }

    fn fresh(&self) -> UniqueSource<'_> {
        UniqueSource { store: &*self.store, env: &*self.env }
    }

    pub(super) fn bytes(
        &self,
        term: &CliTerm,
        t: &Type,
        wrapped: ExceptionDepth,
    ) -> CliRun<Vec<u8>> {
        match term {
            CliTerm::Text(text) => self.read(t, text, wrapped),
            CliTerm::Quoted(text) => self.read_name(t, text, wrapped),
            CliTerm::Call { function, argument } => {
                self.call(function, argument.as_deref()).map(|(_, bytes)| bytes)
            }
        }
    }

    /// Returns the type of a function, and the value for its argument.
    pub(super) fn call(&self, function: &str, argument: Option<&str>) -> CliRun<(Type, Vec<u8>)> {
        let t = terms::function_type(&self.store.registry(), function).ok_or_else(|| {
            SyntaxFailure::same(format!(
                "Function '{function}' not found. Available functions: {}.",
                terms::functions()
            ))
        })?;
        let bytes = match (argument.filter(|a| !a.is_empty()), &t) {
            (Some(text), _) => self.read(&t, text, ExceptionDepth::Twice)?,
            (None, Type::TimeUuid) => self.fresh().time_uuid().to_vec(),
            (None, Type::LexicalUuid) => self.fresh().random_uuid().to_vec(),
            (None, Type::Bytes) => Vec::new(),
            (None, _) => {
                let text = format!("Argument for '{function}' could not be empty.");
                return Err(SyntaxFailure::new(
                    text.clone(),
                    format!("java.lang.RuntimeException: {text}"),
                ));
            }
        };
        Ok((t, bytes))
    }

    // ---- sessions

    fn use_keyspace(&mut self, name: &str, out: &mut String) -> CliRun {
        let name = self.keyspace_called(name)?;
        line(out, &format!("Authenticated to keyspace: {name}"))?;
        self.keyspace = Some(name);
        Ok(())
    }

    fn assume(&mut self, family: &str, what: &str, as_type: &str, out: &mut String) -> CliRun {
        let family = self.family(family)?;
        let what = what.to_ascii_uppercase();
        let Some(t) = terms::named_type(&self.store.registry(), as_type) else {
            return Err(SyntaxFailure::same(format!(
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
                return Err(SyntaxFailure::same(format!(
                    "'{what}' is invalid. Available: VALIDATOR, COMPARATOR, KEYS, SUB_COMPARATOR."
                )));
            }
        }
        line(out, &format!("Assumption for column family '{}' added successfully.", family.name()))
    }

    // ---- definitions

    fn show_schema(&self, keyspace: Option<&str>, out: &mut String) -> CliRun {
        let name = match keyspace {
            Some(name) => Some(self.keyspace_called(name)?),
            None => self.keyspace_name().map(str::to_owned),
        };
        let mut all = self.store.describe_keyspaces().map_err(refused_plainly)?;
        // The keyspaces of the server itself cannot be created.
        let is_own = |k: &KsDef| k.name == "system" || k.name.starts_with("system_");
        all.retain(|k| match &name {
            Some(name) => *name == k.name,
            None => !(self.store.is_remote() && is_own(k)),
        });
        format::schema(out, &all, &|f, bytes| {
            self.name_type(f).map_or_else(|| hex(bytes), |t| self.schema_name(&t, bytes))
        });
        Ok(())
    }

    /// Formats a column's name for a statement that recreates its column family.
    fn schema_name(&self, t: &Type, name: &[u8]) -> String {
        match t {
            Type::Bytes => terms::text(t, name, self.strict),
            _ => t.to_text(name, Wording::Cli),
        }
    }

    /// Returns the type of cell names.
    fn name_type(&self, f: &CfDef) -> Option<Type> {
        let class = if f.column_type == "Super" {
            f.subcomparator_type.as_deref()?
        } else {
            &f.comparator_type
        };
        Type::parse(class, &self.store.registry()).ok()
    }

    /// Formats a column's name for descriptions; bytes also as text if they are valid.
    fn described_name(&self, f: &CfDef, name: &[u8]) -> String {
        let Some(t) = self.name_type(f) else { return hex(name) };
        match std::str::from_utf8(name) {
            Ok(text) if t == Type::Bytes => format!("{text} ({})", t.to_text(name, Wording::Cli)),
            _ => t.to_text(name, Wording::Cli),
        }
    }

    fn describe(&self, name: Option<&str>, out: &mut String) -> CliRun {
        let namer = |f: &CfDef, name: &[u8]| self.described_name(f, name);
        let Some(name) = name else {
            let text =
                "Authenticate to a Keyspace, before using `describe` or `describe <column_family>`";
            let chosen = self.keyspace_name().ok_or_else(|| {
                SyntaxFailure::new("no keyspace is chosen: 'use KEYSPACE;' chooses one", text)
            })?;
            let keyspace = self.store.describe_keyspace(chosen).map_err(refused_plainly)?;
            format::describe_keyspace(out, &keyspace, &namer);
            return Ok(());
        };
        let called = self.keyspace_called(name).ok();
        if let Some(keyspace) = called.and_then(|name| self.store.describe_keyspace(&name).ok()) {
            format::describe_keyspace(out, &keyspace, &namer);
            return Ok(());
        }
        if self.keyspace.is_none() {
            return Err(SyntaxFailure::same(format!(
                "Keyspace with name '{name}' wasn't found, to lookup ColumnFamily with that name, please, authorize to one of the \
                 keyspaces first."
            )));
        }
        let Ok(family) = self.family(name) else {
            return Err(SyntaxFailure::same(format!(
                "Sorry, no Keyspace nor ColumnFamily was found with name: {name}"
            )));
        };
        format::describe_family(out, family.def(), &namer);
        Ok(())
    }

    /// Reports a change of the schema, and clears the state that the command of 2012 lost when it
    /// read the keyspace again.
    fn changed(&mut self, version: &str, keyspace: &str, out: &mut String) -> CliRun {
        format::schema_changed(out, version);
        if self.strict {
            self.ghosts.retain(|g| g.keyspace() != keyspace);
            for ((_, _), assumed) in self.assumed.iter_mut().filter(|((k, _), _)| k == keyspace) {
                *assumed = Assumptions { keys: assumed.keys.take(), ..Assumptions::default() };
            }
        }
        Ok(())
    }

    /// Returns an error of a definition; for an unknown type, with the known ones.
    fn refused_definition(&self, e: CliTrouble) -> SyntaxFailure {
        let why = e.to_string();
        if why.starts_with(NO_SUCH_TYPE) {
            return SyntaxFailure::new(
                format!(
                    "{why}; there are {}; {OWN_TYPES}",
                    self.store.registry().names().join(", ")
                ),
                why,
            );
        }
        SyntaxFailure::same(why)
    }

    fn create_keyspace(&mut self, d: &Definition, out: &mut String) -> CliRun {
        let def = define::new_keyspace(d, self.strict)?;
        let version = self.store.system_add_keyspace(&def).map_err(refused_plainly)?;
        self.changed(&version, &def.name, out)
    }

    fn update_keyspace(&mut self, d: &Definition, out: &mut String) -> CliRun {
        let name = self.keyspace_called(&d.name)?;
        let old = self.store.describe_keyspace(&name).map_err(refused_plainly)?;
        let def = define::changed_keyspace(KsDef { cf_defs: Vec::new(), ..old }, &d.attributes)?;
        let version = self.store.system_update_keyspace(&def).map_err(refused_plainly)?;
        self.changed(&version, &name, out)
    }

    fn drop_keyspace(&mut self, name: &str, out: &mut String) -> CliRun {
        let name = self.keyspace_called(name)?;
        let version = self.store.system_drop_keyspace(&name).map_err(refused)?;
        format::schema_changed(out, &version);
        if self.keyspace_name() == Some(&name) {
            self.keyspace = None;
        }
        self.assumed.retain(|(keyspace, _), _| *keyspace != name);
        self.ghosts.retain(|g| g.keyspace() != name);
        Ok(())
    }

    fn create_family(&mut self, d: &Definition, out: &mut String) -> CliRun {
        let keyspace = self.chosen()?.to_owned();
        let def = define::family(self, CfDef::new(&keyspace, &d.name), &d.attributes, out)?;
        let version =
            self.store.system_add_column_family(&def).map_err(|e| self.refused_definition(e))?;
        self.changed(&version, &keyspace, out)
    }

    fn update_family(&mut self, d: &Definition, out: &mut String) -> CliRun {
        let family = self.family(&d.name)?;
        let def = define::family(self, family.def().clone(), &d.attributes, out)?;
        let version =
            self.store.system_update_column_family(&def).map_err(|e| self.refused_definition(e))?;
        // The definition takes precedence over types learned from functions.
        self.assumptions(&family).columns.clear();
        self.changed(&version, family.keyspace(), out)
    }

    fn drop_family(&mut self, name: &str, out: &mut String) -> CliRun {
        let family = self.family(name)?;
        let version = self
            .store
            .system_drop_column_family(family.keyspace(), family.name())
            .map_err(refused)?;
        format::schema_changed(out, &version);
        if self.strict {
            self.ghosts.push(family);
        } else {
            self.assumed.remove(&(family.keyspace().to_owned(), family.name().to_owned()));
        }
        Ok(())
    }

    fn drop_index(&mut self, family: &str, column: &str, out: &mut String) -> CliRun {
        let family = self.family(family)?;
        let name = self.read_name(family.cell_comparator(), column, ExceptionDepth::Once)?;
        let mut def = family.def().clone();
        let Some(found) = def.column_metadata.iter_mut().find(|c| c.name == name) else {
            let text = format!(
                "Column '{column}' definition was not found in ColumnFamily '{}'.",
                family.name()
            );
            return Err(SyntaxFailure::same(text));
        };
        if found.index_type.take().is_none() {
            return Err(SyntaxFailure::same(format!("Column '{column}' does not have an index.")));
        }
        found.index_name = None;
        found.index_options.clear();
        let version = self.store.system_update_column_family(&def).map_err(refused)?;
        self.changed(&version, family.keyspace(), out)
    }

    fn consistency_level(&self, level: &str, out: &mut String) -> CliRun {
        let level = level.to_ascii_uppercase();
        if !LEVELS.contains(&level.as_str()) {
            return Err(SyntaxFailure::same(format!(
                "'{level}' is invalid. Available: {}",
                LEVELS.join(", ")
            )));
        }
        self.store.set_consistency(&level);
        line(out, &format!("Consistency level is set to '{level}'."))
    }
}

pub(super) fn line(out: &mut String, text: &str) -> CliRun {
    out.push_str(text);
    out.push('\n');
    Ok(())
}
