//! Execution of definitions: `CREATE`, `ALTER`, `DROP`, `USE`, `TRUNCATE`, `DESCRIBE`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::access::check_definition;
use super::describe;
use super::engine::Engine;
use super::functions;
use super::masks::masked;
use super::materialized::check_clause;
use super::plan::{Request, StatementPlan};
use super::roles;
use super::rows::{Rows, SchemaChange};
use super::warnings;
use crate::catalog::{Catalog, Resource, check_not_system, keyspace_of};
use crate::error::{Result, bail_if, invalid};
use crate::syntax::ast::{AstName, QualifiedName, Statement};
use crate::syntax::parse;
use crate::values::{ColumnSpec, HeapBytes};

/// A definition as a compiled statement. It is parsed and checked when it runs.
pub(super) struct PreparedDefinition {
    /// Text of the statement.
    pub text: String,
    /// Keyspace that was current when it was compiled.
    pub keyspace: Option<Arc<str>>,
}

impl StatementPlan for PreparedDefinition {
    fn markers(&self) -> &[ColumnSpec] {
        &[]
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        None
    }

    fn heap_bytes(&self) -> usize {
        self.text.heap_bytes()
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let parsed = parse(&self.text)?;
        let done = define(
            engine,
            self.keyspace.as_deref(),
            request.role,
            &parsed.statement,
            request.run.stop.as_ref(),
        )?;
        Ok(done.unwrap_or_else(Rows::void))
    }
}

/// Executes a definition; returns `None` for a statement that reads or writes rows. `keyspace` is
/// the current keyspace, `role` the logged-in role. Setting `stop` cancels the building of an
/// index.
///
/// # Errors
/// Errors of the definition, with Cassandra's texts, and `Stopped`. Then nothing was changed.
pub fn define(
    engine: &Engine,
    keyspace: Option<&str>,
    role: Option<&str>,
    statement: &Statement<'_>,
    stop: Option<&Arc<AtomicBool>>,
) -> Result<Option<Rows>> {
    check_definition(&engine.catalog(), role, keyspace, statement)?;
    match statement {
        Statement::Use(name) => {
            let catalog = engine.fresh_catalog()?;
            let missing = || invalid!("Keyspace '{}' does not exist", name.text);
            let found = catalog.any_keyspace(&name.text).ok_or_else(missing)?;
            Ok(Some(Rows::set_keyspace(&found.name)))
        }
        Statement::Truncate(name) => {
            let catalog = engine.catalog();
            let table = catalog.table(name, keyspace)?;
            check_not_system(&table.keyspace)?;
            bail_if!(
                table.view().is_some(),
                "Cannot TRUNCATE materialized view directly; must truncate base table instead"
            );
            engine.store().truncate(&engine.family(table)?)?;
            Ok(Some(Rows::void()))
        }
        Statement::CreateFunction(_)
        | Statement::CreateAggregate(_)
        | Statement::DropFunction(_)
        | Statement::DropAggregate(_) => {
            functions::execute(engine, keyspace, role, statement, stop)
        }
        Statement::Describe(s) => describe::describe(engine, keyspace, s).map(Some),
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::DropRole(_)
        | Statement::GrantRole(_)
        | Statement::GrantPermissions(_)
        | Statement::ListRoles(_) => roles::execute(engine, role, keyspace, statement),
        Statement::Change(_) | Statement::Batch(_) | Statement::Select(_) => Ok(None),
        _ => change_schema(engine, keyspace, role, statement, stop).map(Some),
    }
}

/// Returns the event of a statement that changes a keyspace, a table or a type.
fn schema_change(keyspace: Option<&str>, statement: &Statement<'_>) -> Result<SchemaChange> {
    let of = |change, target, name: &QualifiedName<'_>| {
        let home = keyspace_of(name, keyspace)?;
        Ok(SchemaChange::new(change, target, home, Some(&name.name.text)))
    };
    let keyspace =
        |change, name: &AstName<'_>| Ok(SchemaChange::new(change, "KEYSPACE", &name.text, None));
    match statement {
        Statement::CreateKeyspace(s) => keyspace("CREATED", &s.name),
        Statement::AlterKeyspace(s) => keyspace("UPDATED", &s.name),
        Statement::DropKeyspace(s) => keyspace("DROPPED", &s.name),
        Statement::CreateTable(s) => of("CREATED", "TABLE", &s.name),
        Statement::AlterTable(s) => of("UPDATED", "TABLE", &s.name),
        Statement::DropTable(s) => of("DROPPED", "TABLE", &s.name),
        Statement::CreateView(s) => of("CREATED", "TABLE", &s.name),
        Statement::AlterView(s) => of("UPDATED", "TABLE", &s.name),
        Statement::DropView(s) => of("DROPPED", "TABLE", &s.name),
        Statement::CreateIndex(s) => of("UPDATED", "TABLE", &s.table),
        Statement::DropIndex(s) => of("UPDATED", "TABLE", &s.name),
        Statement::CreateType(s) => of("CREATED", "TYPE", &s.name),
        Statement::AlterType(s) => of("UPDATED", "TYPE", &s.name),
        Statement::DropType(s) => of("DROPPED", "TYPE", &s.name),
        _ => Err(invalid("the statement changes no schema")),
    }
}

/// Changes a keyspace, a table or a type, and reports the change to the listeners.
fn change_schema(
    engine: &Engine,
    keyspace: Option<&str>,
    role: Option<&str>,
    statement: &Statement<'_>,
    stop: Option<&Arc<AtomicBool>>,
) -> Result<Rows> {
    if let Statement::CreateView(s) = statement {
        bail_if!(
            parse(&s.to_string())?.markers > 0,
            "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements"
        );
    }
    let mut change = schema_change(keyspace, statement)?;
    let home = change.keyspace.clone();
    let done = engine.change(stop, |c| match statement {
        Statement::CreateKeyspace(s) => {
            let (made, functions) =
                (Resource::Keyspace(home.clone()), Resource::FunctionsOf(home.clone()));
            let granted = |c: Catalog| {
                c.granted_to_creator(role, &made)?.granted_to_creator(role, &functions)
            };
            c.create_keyspace(s)?.map(granted).transpose()
        }
        Statement::AlterKeyspace(s) => c.alter_keyspace(s),
        Statement::DropKeyspace(s) => c.drop_keyspace(s),
        Statement::CreateTable(s) => {
            let made = Resource::Table(home.clone(), s.name.name.text.to_string());
            let created = c.create_table(s, &home, engine.random_bits())?;
            let granted =
                |c: Catalog| masked(engine, c.granted_to_creator(role, &made)?, &home, statement);
            created.map(granted).transpose()
        }
        Statement::AlterTable(s) => {
            let altered = c.alter_table(s, &home, engine.store().timestamp())?;
            altered.map(|c| masked(engine, c, &home, statement)).transpose()
        }
        Statement::DropTable(s) => c.drop_table(s, &home),
        Statement::CreateView(s) => {
            let next = c.create_view(s, &home, engine.random_bits())?;
            if let Some(next) = &next {
                check_clause(engine.partitioner(), next, &home, &s.name.name.text)?;
            }
            Ok(next)
        }
        Statement::AlterView(s) => c.alter_view(s, &home),
        Statement::DropView(s) => c.drop_view(s, &home),
        Statement::CreateIndex(s) => c.create_index(s, &home),
        Statement::DropIndex(s) => {
            let found = c.keyspace(&home).and_then(|k| k.index(&s.name.name.text));
            change.name = found.map(|(table, _)| table.name.clone());
            c.drop_index(s, &home)
        }
        Statement::CreateType(s) => c.create_type(s, &home),
        Statement::AlterType(s) => c.alter_type(s, &home),
        Statement::DropType(s) => c.drop_type(s, &home),
        _ => Ok(None),
    })?;
    if !done {
        return Ok(Rows::void());
    }
    engine.report(&change);
    let warnings = warnings::of_definition(statement, &engine.catalog(), &home);
    Ok(Rows::schema(change).with_warnings(warnings))
}
