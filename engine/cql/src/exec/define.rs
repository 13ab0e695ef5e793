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
use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast::{QualifiedName, Statement};
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
            request.stop,
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
    let home = |name: &QualifiedName<'_>| keyspace_of(name, keyspace).map(str::to_owned);
    let told = |done: bool, change, target, keyspace: &str, name: Option<&str>| {
        let (keyspace, name) = (keyspace.to_owned(), name.map(str::to_owned));
        let change = SchemaChange { change, target, keyspace, name, arguments: vec![] };
        if done {
            engine.tell(&change);
        }
        let told = warnings::of_definition(statement, &engine.catalog(), &change.keyspace);
        let schema = || Rows::schema(change).with_warnings(told);
        Ok(Some(if done { schema() } else { Rows::void() }))
    };
    match statement {
        Statement::Use(name) => {
            let catalog = engine.fresh_catalog()?;
            let missing = || invalid!("Keyspace '{}' does not exist", name.text);
            let found = catalog.any_keyspace(&name.text).ok_or_else(missing)?;
            Ok(Some(Rows::set_keyspace(&found.name)))
        }
        Statement::CreateKeyspace(s) => {
            let made = Resource::Keyspace(s.name.text.to_string());
            let functions = Resource::FunctionsOf(s.name.text.to_string());
            let done = engine.change(stop, |c| {
                let created = c.create_keyspace(s)?.map(|c| c.made_by(role, &made)).transpose()?;
                created.map(|c| c.made_by(role, &functions)).transpose()
            });
            told(done?, "CREATED", "KEYSPACE", &s.name.text, None)
        }
        Statement::AlterKeyspace(s) => told(
            engine.change(stop, |c| c.alter_keyspace(s))?,
            "UPDATED",
            "KEYSPACE",
            &s.name.text,
            None,
        ),
        Statement::DropKeyspace(s) => told(
            engine.change(stop, |c| c.drop_keyspace(s))?,
            "DROPPED",
            "KEYSPACE",
            &s.name.text,
            None,
        ),
        Statement::CreateTable(s) => {
            let home = home(&s.name)?;
            let made = Resource::Table(home.clone(), s.name.name.text.to_string());
            let done = engine.change(stop, |c| {
                let Some(created) = c.create_table(s, &home, engine.random_bits())? else {
                    return Ok(None);
                };
                masked(engine, created.made_by(role, &made)?, &home, statement).map(Some)
            });
            told(done?, "CREATED", "TABLE", &home, Some(&s.name.name.text))
        }
        Statement::AlterTable(s) => {
            let home = home(&s.name)?;
            let now = engine.store().timestamp();
            told(
                engine.change(stop, |c| {
                    let altered = c.alter_table(s, &home, now)?;
                    altered.map(|c| masked(engine, c, &home, statement)).transpose()
                })?,
                "UPDATED",
                "TABLE",
                &home,
                Some(&s.name.name.text),
            )
        }
        Statement::DropTable(s) => {
            let home = home(&s.name)?;
            told(
                engine.change(stop, |c| c.drop_table(s, &home))?,
                "DROPPED",
                "TABLE",
                &home,
                Some(&s.name.name.text),
            )
        }
        Statement::CreateView(s) => {
            if parse(&s.to_string())?.markers > 0 {
                bail!("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements");
            }
            let (home, name) = (home(&s.name)?, &*s.name.name.text);
            let done = engine.change(stop, |c| {
                let next = c.create_view(s, &home, engine.random_bits())?;
                let checked = |c: &Catalog| check_clause(engine.partitioner(), c, &home, name);
                next.as_ref().map_or(Ok(()), checked)?;
                Ok(next)
            })?;
            told(done, "CREATED", "TABLE", &home, Some(name))
        }
        Statement::AlterView(s) => {
            let home = home(&s.name)?;
            let done = engine.change(stop, |c| c.alter_view(s, &home))?;
            told(done, "UPDATED", "TABLE", &home, Some(&s.name.name.text))
        }
        Statement::DropView(s) => {
            let home = home(&s.name)?;
            let done = engine.change(stop, |c| c.drop_view(s, &home))?;
            told(done, "DROPPED", "TABLE", &home, Some(&s.name.name.text))
        }
        Statement::CreateIndex(s) => {
            let home = home(&s.table)?;
            told(
                engine.change(stop, |c| c.create_index(s, &home))?,
                "UPDATED",
                "TABLE",
                &home,
                Some(&s.table.name.text),
            )
        }
        Statement::DropIndex(s) => {
            let home = home(&s.name)?;
            let mut table = None;
            let done = engine.change(stop, |c| {
                let found = c.keyspace(&home).and_then(|k| k.index(&s.name.name.text));
                table = found.map(|(t, _)| t.name.clone());
                c.drop_index(s, &home)
            });
            told(done?, "UPDATED", "TABLE", &home, table.as_deref())
        }
        Statement::CreateType(s) => {
            let home = home(&s.name)?;
            told(
                engine.change(stop, |c| c.create_type(s, &home))?,
                "CREATED",
                "TYPE",
                &home,
                Some(&s.name.name.text),
            )
        }
        Statement::AlterType(s) => {
            let home = home(&s.name)?;
            told(
                engine.change(stop, |c| c.alter_type(s, &home))?,
                "UPDATED",
                "TYPE",
                &home,
                Some(&s.name.name.text),
            )
        }
        Statement::DropType(s) => {
            let home = home(&s.name)?;
            told(
                engine.change(stop, |c| c.drop_type(s, &home))?,
                "DROPPED",
                "TYPE",
                &home,
                Some(&s.name.name.text),
            )
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
            functions::carry_out(engine, keyspace, role, statement, stop)
        }
        Statement::Describe(s) => describe::describe(engine, keyspace, s).map(Some),
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::DropRole(_)
        | Statement::GrantRole(_)
        | Statement::GrantPermissions(_)
        | Statement::ListRoles(_) => roles::carry_out(engine, role, keyspace, statement),
        Statement::Change(_) | Statement::Batch(_) | Statement::Select(_) => Ok(None),
    }
}
