//! Table definitions from a node's files. Missing keyspaces, user types and tables are created by
//! CQL statements; existing ones are compared.

use std::path::Path;
use std::sync::Arc;

use firn_cassandra::{HeaderColumn, MarshalClass, NodeHeader};
use firn_cql::Session;
use firn_cql::internals::catalog::{ColumnType, TableColumn, TableSchema};
use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::{Script, quote_if_needed};
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};
use firn_wide::{Registry, Type, UserType};

use super::source::NodeSource;

/// A column with cells in the files.
struct PlanColumn {
    name: String,
    of: ColumnType,
    is_static: bool,
}

/// Definition of a table, derived from its files.
pub struct TablePlan {
    /// Target keyspace.
    pub keyspace: String,
    /// Target table.
    pub table: String,
    partition: Vec<Type>,
    /// Types of the clustering columns; descending ones are wrapped in `ReversedType`.
    clustering: Vec<Type>,
    columns: Vec<PlanColumn>,
    /// User types, each after the types that it contains.
    types: Vec<Arc<UserType>>,
    /// Class of the partitioner.
    pub partitioner: String,
}

/// Parses a type that a file names.
fn type_of(class: &MarshalClass, file: &Path) -> Done<Type> {
    Type::parse(&class.to_string(), &Registry::new()).map_err(|e| {
        let why = format!("{}: a type that Firn does not have: {}", file.display(), e.0);
        Failure::with_next(why, "import the other tables; `sstable-dump cassandra` shows this one")
    })
}

fn parts_of(class: &MarshalClass, file: &Path) -> Done<Vec<Type>> {
    Ok(match type_of(class, file)? {
        Type::Composite(parts) => parts.to_vec(),
        single => vec![single],
    })
}

/// Adds the user types in `of`, each after the types that it contains. If several types have one
/// name, it uses the one with the most fields: `ALTER TYPE` has added them.
fn collect_types(of: &Type, into: &mut Vec<Arc<UserType>>) {
    match of {
        Type::List(e) | Type::Set(e) | Type::Reversed(e) | Type::Vector(e, _) => {
            collect_types(e, into)
        }
        Type::Map(kv) => [&kv.0, &kv.1].into_iter().for_each(|of| collect_types(of, into)),
        Type::Tuple(parts) => parts.iter().for_each(|of| collect_types(of, into)),
        Type::Udt(user) => {
            user.fields.iter().for_each(|(_, of)| collect_types(of, into));
            match into.iter_mut().find(|known| known.name == user.name) {
                Some(known) if known.fields.len() < user.fields.len() => *known = user.clone(),
                Some(_) => {}
                None => into.push(user.clone()),
            }
        }
        _ => {}
    }
}

fn key_text(of: &Type) -> String {
    ColumnType::frozen(of.unreversed().clone()).to_string()
}

fn differs(file: &Path, what: &str, here: &str, there: &str) -> Failure {
    Failure::with_next(
        format!("{}: {what} is {here} in this file, and {there} elsewhere", file.display()),
        "import it into another table (--family NAME), or give the schema that it was written with (--schema FILE)",
    )
}

impl TablePlan {
    /// Combines the definitions in all files of one table.
    pub fn new(keyspace: &str, table: &str, files: &[NodeSource]) -> Done<TablePlan> {
        let mut plan: Option<TablePlan> = None;
        for NodeSource { table: file, .. } in files {
            let (header, data) = (&file.header, &*file.data);
            let partition = parts_of(&header.key, data)?;
            let clustering = header.clustering.iter().map(|c| type_of(c, data));
            let clustering = clustering.collect::<Done<Vec<_>>>()?;
            let plan = plan.get_or_insert_with(|| TablePlan {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
                partition: partition.clone(),
                clustering: clustering.clone(),
                columns: vec![],
                types: vec![],
                partitioner: header.partitioner.clone(),
            });
            let key = |partition: &[Type], clustering: &[Type]| {
                let all: Vec<String> = partition.iter().chain(clustering).map(Type::name).collect();
                format!("({})", all.join(", "))
            };
            let (here, there) =
                (key(&partition, &clustering), key(&plan.partition, &plan.clustering));
            if here != there || partition.len() != plan.partition.len() {
                return Err(differs(data, "the primary key", &here, &there));
            }
            if plan.partitioner != header.partitioner {
                let (here, there) = (&header.partitioner, &plan.partitioner);
                return Err(differs(data, "the partitioner", here, there));
            }
            plan.add_columns(header, data)?;
        }
        let mut plan = plan.ok_or_else(|| Failure::new("there are no files"))?;
        let of_keys = plan.partition.iter().chain(&plan.clustering);
        let all = of_keys.chain(plan.columns.iter().map(|c| &c.of.value_type));
        let mut types = vec![];
        all.for_each(|of| collect_types(of, &mut types));
        plan.types = types;
        Ok(plan)
    }

    fn add_columns(&mut self, header: &NodeHeader, file: &Path) -> Done {
        for is_static in [true, false] {
            for HeaderColumn { name, class } in header.columns(is_static) {
                let name = String::from_utf8_lossy(name).into_owned();
                if name.is_empty() {
                    return Err(Failure::with_next(
                        format!("{}: a compact table, whose cells have no name", file.display()),
                        "`sstable-dump cassandra` shows it; ALTER TABLE … DROP COMPACT STORAGE makes it one that can be imported",
                    ));
                }
                let of = ColumnType::from_parts(
                    type_of(class, file)?.unreversed().clone(),
                    class.is_multi_cell(),
                );
                match self.columns.iter().find(|c| c.name == name) {
                    Some(c) if c.of.to_string() != of.to_string() || c.is_static != is_static => {
                        let (here, there) = (of.to_string(), c.of.to_string());
                        return Err(differs(file, &format!("column {name:?}"), &here, &there));
                    }
                    Some(_) => {}
                    None => self.columns.push(PlanColumn { name, of, is_static }),
                }
            }
        }
        Ok(())
    }

    fn full_name(&self) -> String {
        format!("{}.{}", quote_if_needed(&self.keyspace), quote_if_needed(&self.table))
    }

    /// Returns names for key columns that no other column has. The files do not contain their
    /// names.
    fn key_names(&self, word: &str, count: usize, first_plain: bool) -> Vec<String> {
        let name = |i: usize| match (i, first_plain) {
            (0, true) => word.to_owned(),
            (i, _) => format!("{word}{}", i + 1),
        };
        let free = |mut name: String| {
            while self.columns.iter().any(|c| c.name == name) {
                name.push('_');
            }
            name
        };
        (0..count).map(name).map(free).collect()
    }

    /// Returns the statement that creates the table.
    fn create(&self) -> String {
        let keys = self.key_names("key", self.partition.len(), true);
        let clustering = self.key_names("column", self.clustering.len(), false);
        let mut columns: Vec<String> = keys
            .iter()
            .chain(&clustering)
            .zip(self.partition.iter().chain(&self.clustering))
            .map(|(name, of)| format!("{name} {}", key_text(of)))
            .collect();
        columns.extend(self.columns.iter().map(PlanColumn::definition));
        let after: String = clustering.iter().map(|c| format!(", {c}")).collect();
        columns.push(format!("PRIMARY KEY (({}){after})", keys.join(", ")));
        let order: Vec<String> = clustering
            .iter()
            .zip(&self.clustering)
            .map(|(name, of)| format!("{name} {}", if of.is_reversed() { "DESC" } else { "ASC" }))
            .collect();
        let order = match order.is_empty() {
            true => String::new(),
            false => format!(" WITH CLUSTERING ORDER BY ({})", order.join(", ")),
        };
        format!("CREATE TABLE {} ({}){order}", self.full_name(), columns.join(", "))
    }

    /// Returns the table in the store. Unless a schema was given, creates it or adds its missing
    /// columns.
    pub fn table_in(&self, session: &Session, with_schema: bool) -> Done<Arc<TableSchema>> {
        let find = || -> Done<Option<Arc<TableSchema>>> {
            let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
            Ok(catalog.keyspace(&self.keyspace).and_then(|k| k.table(&self.table)).cloned())
        };
        let execute =
            |text: String| session.execute(&text, ()).map(drop).map_err(|e| cql_trouble(&e));
        if find()?.is_none() {
            if with_schema {
                let why = format!("the schema does not define {}", self.full_name());
                let next = "give --schema a file that does, or leave it out";
                return Err(Failure::with_next(why, next));
            }
            for user in &self.types {
                execute(create_type(&self.keyspace, user))?;
            }
            execute(self.create())?;
        }
        let gone = || Failure::new(format!("{} was dropped meanwhile", self.full_name()));
        let mut table = find()?.ok_or_else(gone)?;
        if !with_schema {
            let lacks = |c: &&PlanColumn| table.column(&c.name).is_none();
            let missing: Vec<&PlanColumn> = self.columns.iter().filter(lacks).collect();
            for user in self.types.iter().filter(|_| !missing.is_empty()) {
                execute(create_type(&self.keyspace, user))?;
            }
            for column in missing {
                execute(format!("ALTER TABLE {} ADD {}", self.full_name(), column.definition()))?;
            }
            table = find()?.ok_or_else(gone)?;
        }
        self.compare(&table)?;
        Ok(table)
    }

    fn compare(&self, table: &TableSchema) -> Done {
        let refuse = |what: String, here: &str, there: &str| {
            Err(Failure::with_next(
                format!(
                    "{}: {what} is {here} in the files, and {there} in the store",
                    self.full_name()
                ),
                "import into another table (--family NAME) or another store",
            ))
        };
        if table.form().is_some() || table.view().is_some() {
            let kind = if table.view().is_some() { "a view" } else { "a compact table" };
            return refuse("it".to_owned(), "a table", kind);
        }
        let here: Vec<String> =
            self.partition.iter().chain(&self.clustering).map(key_shape).collect();
        let of_column =
            |c: &TableColumn| format!("{}{}", c.of, if c.descending { " descending" } else { "" });
        let there: Vec<String> =
            table.partition().iter().chain(table.clustering()).map(of_column).collect();
        if here != there || self.partition.len() != table.partition().len() {
            return refuse("the primary key".to_owned(), &here.join(", "), &there.join(", "));
        }
        for column in &self.columns {
            let Some(known) = table.column(&column.name) else { continue };
            let (here, there) = (column.of.to_string(), known.of.to_string());
            if here != there || column.is_static != known.is_static() || known.is_primary_key() {
                return refuse(format!("column {:?}", column.name), &here, &there);
            }
        }
        Ok(())
    }
}

fn key_shape(of: &Type) -> String {
    format!("{}{}", key_text(of), if of.is_reversed() { " descending" } else { "" })
}

impl PlanColumn {
    fn definition(&self) -> String {
        let end = if self.is_static { " static" } else { "" };
        format!("{} {}{end}", quote_if_needed(&self.name), self.of)
    }
}

fn create_type(keyspace: &str, user: &UserType) -> String {
    let fields: Vec<String> = user
        .fields
        .iter()
        .map(|(name, of)| format!("{} {}", quote_if_needed(name), ColumnType::frozen(of.clone())))
        .collect();
    format!(
        "CREATE TYPE IF NOT EXISTS {}.{} ({})",
        quote_if_needed(keyspace),
        quote_if_needed(&user.name),
        fields.join(", ")
    )
}

/// Creates the missing keyspaces.
pub fn keyspaces<'a>(session: &Session, names: impl Iterator<Item = &'a str>) -> Done {
    for name in names {
        let text = format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
            quote_if_needed(name)
        );
        session.execute(&text, ()).map_err(|e| cql_trouble(&e))?;
    }
    Ok(())
}

/// Runs the statements of a schema. Existing objects do not change; they are compared with the
/// files later.
pub fn run_schema(session: &Session, file: &Path, text: &str) -> Done {
    for piece in Script::new(text) {
        let run = || {
            let mut parsed = piece.parse()?;
            match &mut parsed.statement {
                Statement::CreateKeyspace(c) => c.if_not_exists = true,
                Statement::CreateTable(c) => c.if_not_exists = true,
                Statement::CreateType(c) => c.if_not_exists = true,
                Statement::CreateIndex(c) => c.if_not_exists = true,
                Statement::CreateView(c) => c.if_not_exists = true,
                _ => {}
            }
            session.execute(&parsed.statement.to_string(), ())
        };
        let Err(e) = run() else { continue };
        let at = text[..piece.start].bytes().filter(|b| *b == b'\n').count() + 1;
        let place = format!("{}, line {at}", file.display());
        let is_function = |s: &Statement<'_>| {
            matches!(s, Statement::CreateFunction(_) | Statement::CreateAggregate(_))
        };
        // The files do not need functions, and those of nodes are in Java.
        if piece.parse().is_ok_and(|parsed| is_function(&parsed.statement)) {
            eprintln!("note: {place}: a function is left out: {e}");
            continue;
        }
        return Err(Failure::with_next(
            format!("{place}: {e}"),
            "correct the statement, or leave --schema out to take the types from the files",
        ));
    }
    Ok(())
}
