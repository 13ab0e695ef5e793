//! Schema of a cluster, read from its `system_schema` tables, as statements that create the same in
//! Firn. Cassandra has these tables since 3.0, and ScyllaDB has them.
//!
//! Invariants: a statement has only options that Firn accepts; omissions are reported
//! ([`SourceSchema::left`]). System keyspaces are never included.

use std::collections::{BTreeMap, BTreeSet};

use firn_cluster::Session;
use firn_cql::internals::catalog::{TableOptions, quoted_map};
use firn_cql::internals::syntax::ast::Statement;
use firn_cql::internals::syntax::parse;
use firn_cql::internals::values::literal;
use firn_cql::{ErrorClass, FromRow, Row, Rows, quote_if_needed};
use firn_tools::output::{Done, Failure};

use crate::definitions::{CarriedDefinition, DefinitionPhase, full_name};
use firn_table_events::cql_trouble;

/// The table options that are read.
const OPTIONS: [&str; 15] = [
    "additional_write_policy",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "gc_grace_seconds",
    "max_index_interval",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];

/// A definition that is not migrated, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedDefinition {
    /// Its type and name.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Schema of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSchema {
    /// The tables that can be migrated, each a keyspace and a name, in order.
    pub tables: Vec<(String, String)>,
    /// The statements that create them, in an order that can be executed.
    pub definitions: Vec<CarriedDefinition>,
    /// The tables that are not migrated, each a keyspace and a name; [`left`](SourceSchema::left)
    /// has the reasons.
    pub tables_left: Vec<(String, String)>,
    /// Definitions that are not migrated.
    pub left: Vec<OmittedDefinition>,
}

/// A column of a table, from the cluster's schema.
#[derive(Debug, FromRow)]
struct SourceColumn {
    table_name: String,
    column_name: String,
    kind: String,
    position: i32,
    clustering_order: String,
    #[firn(rename = "type")]
    of: String,
}

#[derive(Debug, FromRow)]
struct SourceIndex {
    table_name: String,
    index_name: String,
    kind: String,
    options: BTreeMap<String, String>,
}

#[derive(Debug, FromRow)]
struct SourceView {
    view_name: String,
    base_table_name: String,
    include_all_columns: bool,
    where_clause: String,
}

#[derive(Debug, FromRow)]
struct SourceType {
    type_name: String,
    field_names: Vec<String>,
    field_types: Vec<String>,
}

#[derive(Debug, FromRow)]
struct SourceFunction {
    function_name: String,
    argument_types: Vec<String>,
    argument_names: Vec<String>,
    body: String,
    called_on_null_input: bool,
    language: String,
    return_type: String,
}

#[derive(Debug, FromRow)]
struct SourceAggregate {
    aggregate_name: String,
    argument_types: Vec<String>,
    final_func: Option<String>,
    initcond: Option<String>,
    state_func: String,
    state_type: String,
}

/// Reports whether it is a system keyspace.
fn is_of_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// Reads a keyspace's rows of a schema table. A cluster without such a table has none of these
/// definitions.
fn rows(session: &Session, table: &str, keyspace: &str) -> Done<Rows> {
    let cql = format!("SELECT * FROM system_schema.{table} WHERE keyspace_name = ?");
    match session.execute(&cql, (keyspace,)) {
        Err(e) if e.class() == ErrorClass::Invalid => Ok(Rows::void()),
        other => other.map_err(|e| cql_trouble(&e)),
    }
}

fn typed<T: FromRow>(session: &Session, table: &str, keyspace: &str) -> Done<Vec<T>> {
    rows(session, table, keyspace)?.typed().map_err(|e| cql_trouble(&e))
}

/// Returns the name of a cluster's partitioner.
///
/// # Errors
/// Errors of the cluster.
pub fn partitioner(session: &Session) -> Done<String> {
    let rows = session.execute("SELECT partitioner FROM system.local", ());
    let rows = rows.map_err(|e| cql_trouble(&e))?;
    let row =
        rows.row(0).ok_or_else(|| Failure::new("the cluster does not tell its partitioner"))?;
    row.get("partitioner").map_err(|e| cql_trouble(&e))
}

/// Returns the bytes and partitions of a table, estimated by one node for its part of the ring.
/// `None`: it has no estimates.
///
/// # Errors
/// Errors of the cluster, except missing estimates.
pub fn estimate(session: &Session, keyspace: &str, table: &str) -> Done<Option<(u64, u64)>> {
    let cql = "SELECT mean_partition_size, partitions_count FROM system.size_estimates \
               WHERE keyspace_name = ? AND table_name = ?";
    let rows = match session.execute(cql, (keyspace, table)) {
        Err(e) if e.class() == ErrorClass::Invalid => return Ok(None),
        other => other.map_err(|e| cql_trouble(&e))?,
    };
    let each: Vec<(i64, i64)> = rows.typed().map_err(|e| cql_trouble(&e))?;
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let sum = |(bytes, all): (u64, u64), (mean, n): &(i64, i64)| {
        let (mean, n) = (count(*mean), count(*n));
        (bytes.saturating_add(mean.saturating_mul(n)), all.saturating_add(n))
    };
    Ok((!each.is_empty()).then(|| each.iter().fold((0, 0), sum)))
}

/// Reads the schema of a cluster: of the named tables, each `KEYSPACE.TABLE` or a keyspace, or of
/// all.
///
/// # Errors
/// A name that the cluster does not have; errors of the cluster.
pub fn source_schema(session: &Session, names: &[String]) -> Done<SourceSchema> {
    let cql = "SELECT keyspace_name, durable_writes, replication FROM system_schema.keyspaces";
    let all = session.execute(cql, ()).map_err(|e| cql_trouble(&e))?;
    type SourceKeyspace = (String, bool, BTreeMap<String, String>);
    let mut keyspaces: Vec<SourceKeyspace> = all.typed().map_err(|e| cql_trouble(&e))?;
    keyspaces.retain(|k| !is_of_system(&k.0));
    keyspaces.sort();
    let mut schema = SourceSchema::default();
    let mut unknown: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    for (keyspace, durable_writes, replication) in &keyspaces {
        let wanted = |table: &str| {
            let is_it = |n: &&String| **n == *keyspace || **n == format!("{keyspace}.{table}");
            names.is_empty() || names.iter().any(|n| is_it(&n))
        };
        if unknown.remove(&**keyspace)
            || names.is_empty()
            || names.iter().any(|n| n.starts_with(&format!("{keyspace}.")))
        {
            let mut reader = SourceReader { session, keyspace, schema: &mut schema };
            let found = reader.keyspace(*durable_writes, replication, &wanted)?;
            unknown
                .retain(|name| !found.iter().any(|table| *name == format!("{keyspace}.{table}")));
        }
    }
    if let Some(missing) = unknown.first() {
        let known: Vec<&str> = keyspaces.iter().map(|k| &*k.0).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Failure::with_next(
            format!("the cluster has no table or keyspace {missing:?}"),
            format!("name KEYSPACE.TABLE or a keyspace, exactly; its keyspaces are {known}"),
        ));
    }
    let order = |d: &CarriedDefinition| match d.phase {
        DefinitionPhase::Before => 0,
        DefinitionPhase::After => 1,
        DefinitionPhase::Never => 2,
    };
    schema.definitions.sort_by_key(order);
    Ok(schema)
}

/// Reader of a keyspace's definitions.
struct SourceReader<'a> {
    session: &'a Session,
    keyspace: &'a str,
    schema: &'a mut SourceSchema,
}

impl SourceReader<'_> {
    fn add(&mut self, kind: &str, name: &str, phase: DefinitionPhase, text: String) {
        self.schema.definitions.push(CarriedDefinition {
            kind: kind.to_owned(),
            keyspace: self.keyspace.to_owned(),
            name: name.to_owned(),
            text,
            phase,
        });
    }

    fn leave(&mut self, what: String, why: &str) {
        self.schema.left.push(OmittedDefinition { what, why: why.to_owned() });
    }

    fn full(&self, name: &str) -> String {
        full_name(self.keyspace, name)
    }

    /// Reads everything; returns the names of its tables.
    fn keyspace(
        &mut self,
        durable_writes: bool,
        replication: &BTreeMap<String, String>,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Done<Vec<String>> {
        let (session, keyspace) = (self.session, self.keyspace);
        self.add(
            "keyspace",
            keyspace,
            DefinitionPhase::Before,
            format!(
                "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {} AND durable_writes = {durable_writes}",
                quote_if_needed(keyspace),
                quoted_map(replication)
            ),
        );
        self.types()?;
        let columns: Vec<SourceColumn> = typed(session, "columns", keyspace)?;
        let tables = rows(session, "tables", keyspace)?;
        let mut names = vec![];
        for row in tables.iter() {
            let name: String = row.get("table_name").map_err(|e| cql_trouble(&e))?;
            if wanted(&name) {
                self.table(&name, &row, &columns)?;
            }
            names.push(name);
        }
        let wanted =
            |table: &str| self.schema.tables.iter().any(|t| t.0 == keyspace && t.1 == table);
        let wanted: BTreeSet<String> = names.iter().filter(|n| wanted(n)).cloned().collect();
        self.functions()?;
        let indexes = self.indexes(&wanted)?;
        self.views(&wanted, &indexes, &columns)?;
        for masked in masked_columns(session, keyspace)?.iter().filter(|m| wanted.contains(&m.0)) {
            let what =
                format!("the mask of {}.{}", self.full(&masked.0), quote_if_needed(&masked.1));
            self.leave(what, "masks are not carried: log in as a role that sees values (UNMASK), and mask the column again");
        }
        Ok(names)
    }

    /// Reads the user types, each after the types that it uses.
    fn types(&mut self) -> Done {
        let mut left: Vec<SourceType> = typed(self.session, "types", self.keyspace)?;
        while !left.is_empty() {
            let needs = |t: &SourceType, other: &SourceType| {
                other.type_name != t.type_name && mentions(&t.field_types, &other.type_name)
            };
            let ready = left.iter().position(|t| !left.iter().any(|other| needs(t, other)));
            // Cyclic types are impossible.
            let t = left.remove(ready.unwrap_or(0));
            let field = |(name, of): (&String, &String)| format!("{} {of}", quote_if_needed(name));
            let fields: Vec<String> = t.field_names.iter().zip(&t.field_types).map(field).collect();
            let (name, fields) = (self.full(&t.type_name), fields.join(", "));
            let text = format!("CREATE TYPE IF NOT EXISTS {name} ({fields})");
            self.add("type", &t.type_name, DefinitionPhase::Before, text);
        }
        Ok(())
    }

    fn table(&mut self, name: &str, row: &Row<'_>, columns: &[SourceColumn]) -> Done {
        let flags: BTreeSet<String> = row.get("flags").map_err(|e| cql_trouble(&e))?;
        let full = self.full(name);
        if flags.contains("super") || flags.contains("dense") || !flags.contains("compound") {
            self.schema.tables_left.push((self.keyspace.to_owned(), name.to_owned()));
            self.leave(
                format!("the table {full}"),
                "it has compact storage: ALTER TABLE … DROP COMPACT STORAGE makes it one that can be carried",
            );
            return Ok(());
        }
        let of: Vec<&SourceColumn> = columns.iter().filter(|c| c.table_name == name).collect();
        let mut parts: Vec<String> = of
            .iter()
            .map(|c| {
                let end = if c.kind == "static" { " static" } else { "" };
                format!("{} {}{end}", quote_if_needed(&c.column_name), c.of)
            })
            .collect();
        parts.push(primary_key(&of));
        let mut clauses: Vec<String> = clustering_order(&of).into_iter().collect();
        for option in OPTIONS {
            let Some(at) = row.columns().iter().position(|c| c.name == option) else { continue };
            let Some(bytes) = row.bytes(at) else { continue };
            let clause = format!(
                "{option} = {}",
                literal(&row.columns()[at].column_type.value_type, Some(bytes))
            );
            match is_taken(&clause) {
                true => clauses.push(clause),
                false => self.leave(
                    format!("of the table {full} {clause}"),
                    "Firn does not take that option",
                ),
            }
        }
        let with = if clauses.is_empty() { "" } else { " WITH " };
        let text = format!(
            "CREATE TABLE IF NOT EXISTS {full} ({}){with}{}",
            parts.join(", "),
            clauses.join(" AND ")
        );
        self.add("table", name, DefinitionPhase::Before, text);
        self.schema.tables.push((self.keyspace.to_owned(), name.to_owned()));
        Ok(())
    }

    fn functions(&mut self) -> Done {
        for f in typed::<SourceFunction>(self.session, "functions", self.keyspace)? {
            let argument =
                |(name, of): (&String, &String)| format!("{} {of}", quote_if_needed(name));
            let arguments: Vec<String> =
                f.argument_names.iter().zip(&f.argument_types).map(argument).collect();
            let null = if f.called_on_null_input { "CALLED" } else { "RETURNS NULL" };
            let text = format!(
                "CREATE FUNCTION IF NOT EXISTS {} ({}) {null} ON NULL INPUT RETURNS {} LANGUAGE {} AS '{}'",
                self.full(&f.function_name),
                arguments.join(", "),
                f.return_type,
                f.language,
                f.body.replace('\'', "''")
            );
            self.add("function", &f.function_name, DefinitionPhase::After, text);
        }
        for a in typed::<SourceAggregate>(self.session, "aggregates", self.keyspace)? {
            let mut text = format!(
                "CREATE AGGREGATE IF NOT EXISTS {} ({}) SFUNC {} STYPE {}",
                self.full(&a.aggregate_name),
                a.argument_types.join(", "),
                quote_if_needed(&a.state_func),
                a.state_type
            );
            if let Some(last) = &a.final_func {
                text.push_str(&format!(" FINALFUNC {}", quote_if_needed(last)));
            }
            if let Some(first) = &a.initcond {
                text.push_str(&format!(" INITCOND {first}"));
            }
            self.add("aggregate", &a.aggregate_name, DefinitionPhase::After, text);
        }
        Ok(())
    }

    /// Reads the indexes of these tables; returns their names.
    fn indexes(&mut self, wanted: &BTreeSet<String>) -> Done<Vec<String>> {
        let mut names = vec![];
        for i in typed::<SourceIndex>(self.session, "indexes", self.keyspace)? {
            names.push(i.index_name.clone());
            if !wanted.contains(&i.table_name) {
                continue;
            }
            let mut options = i.options;
            let target = options.remove("target").unwrap_or_default();
            let class = options.remove("class_name").filter(|_| i.kind == "CUSTOM");
            let (custom, using) = match &class {
                Some(class) if options.is_empty() => ("CUSTOM ", format!(" USING '{class}'")),
                Some(class) => {
                    ("CUSTOM ", format!(" USING '{class}' WITH OPTIONS = {}", quoted_map(&options)))
                }
                None => ("", String::new()),
            };
            let text = format!(
                "CREATE {custom}INDEX IF NOT EXISTS {} ON {} ({target}){using}",
                quote_if_needed(&i.index_name),
                self.full(&i.table_name)
            );
            self.add("index", &i.index_name, DefinitionPhase::After, text);
        }
        Ok(names)
    }

    /// Reads the views of these tables.
    fn views(
        &mut self,
        wanted: &BTreeSet<String>,
        indexes: &[String],
        columns: &[SourceColumn],
    ) -> Done {
        for v in typed::<SourceView>(self.session, "views", self.keyspace)? {
            // ScyllaDB implements an index as a view.
            let is_index =
                v.view_name.strip_suffix("_index").is_some_and(|i| indexes.iter().any(|n| n == i));
            if is_index || !wanted.contains(&v.base_table_name) {
                continue;
            }
            let of: Vec<&SourceColumn> =
                columns.iter().filter(|c| c.table_name == v.view_name).collect();
            let names: Vec<_> = of.iter().map(|c| quote_if_needed(&c.column_name)).collect();
            let selected = if v.include_all_columns { "*".to_owned() } else { names.join(", ") };
            let order = clustering_order(&of).map(|order| format!(" WITH {order}"));
            let text = format!(
                "CREATE MATERIALIZED VIEW IF NOT EXISTS {} AS SELECT {selected} FROM {} WHERE {} {}{}",
                self.full(&v.view_name),
                self.full(&v.base_table_name),
                v.where_clause,
                primary_key(&of),
                order.unwrap_or_default()
            );
            self.add("materialized_view", &v.view_name, DefinitionPhase::After, text);
        }
        Ok(())
    }
}

/// Reports whether one of these types uses the user type of this name.
fn mentions(types: &[String], name: &str) -> bool {
    let quoted = quote_if_needed(name);
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    types.iter().any(|of| of.split(|c| !is_part(c)).any(|word| word == quoted))
}

/// Returns the columns of one part of the primary key, in order.
fn of_kind<'c>(columns: &[&'c SourceColumn], kind: &str) -> Vec<&'c SourceColumn> {
    let mut all: Vec<&SourceColumn> = columns.iter().copied().filter(|c| c.kind == kind).collect();
    all.sort_by_key(|c| c.position);
    all
}

fn primary_key(columns: &[&SourceColumn]) -> String {
    let names = |kind: &str| {
        let of = of_kind(columns, kind);
        of.iter().map(|c| quote_if_needed(&c.column_name).into_owned()).collect::<Vec<_>>()
    };
    let mut all = vec![format!("({})", names("partition_key").join(", "))];
    all.extend(names("clustering"));
    format!("PRIMARY KEY ({})", all.join(", "))
}

fn clustering_order(columns: &[&SourceColumn]) -> Option<String> {
    let order = |c: &&SourceColumn| {
        format!("{} {}", quote_if_needed(&c.column_name), c.clustering_order.to_ascii_uppercase())
    };
    let orders: Vec<String> = of_kind(columns, "clustering").iter().map(order).collect();
    (!orders.is_empty()).then(|| format!("CLUSTERING ORDER BY ({})", orders.join(", ")))
}

/// Reports whether Firn accepts a table option.
fn is_taken(clause: &str) -> bool {
    let text = format!("CREATE TABLE t (k int PRIMARY KEY) WITH {clause}");
    match parse(&text).map(|parsed| parsed.statement) {
        Ok(Statement::CreateTable(c)) => TableOptions::default().with(&c.properties).is_ok(),
        _ => false,
    }
}

/// Returns the masked columns of a keyspace, each with its table.
fn masked_columns(session: &Session, keyspace: &str) -> Done<Vec<(String, String)>> {
    let all = rows(session, "column_masks", keyspace)?;
    let column = |row: Row<'_>| Ok((row.get("table_name")?, row.get("column_name")?));
    all.iter().map(column).collect::<firn_cql::Result<_>>().map_err(|e| cql_trouble(&e))
}
