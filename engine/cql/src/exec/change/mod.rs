//! `INSERT`, `UPDATE`, `DELETE` and batches of them (model 3.2, 3.3, 3.5).
//!
//! - `statement`: one change: its rows and its operations.
//! - `operation`: an operation on a column; `attributes`: timestamp and TTL; `json`.
//! - `plan`: all changes of a statement; `mutations`: their writes.
//! - `limits`: limits on the size of a batch.
//! - `condition`, `conditional`: conditions, and conditional changes.
//!
//! Storage of a row: one cell for each column, whose name is the column's id. A collection or user
//! type that is not frozen has one cell for each element, and the path of the cell orders them. An
//! `INSERT` also writes a cell with the empty name, the row marker: it keeps the row alive when all
//! its columns are null. Static columns are static cells.
//!
//! Invariants:
//! - All changes of a statement, or of a batch, are one atomic write. A refused statement has
//!   written nothing.
//! - A statement that reads before it writes (lists by index or value, conditions) locks its
//!   partitions meanwhile.

mod attributes;
mod condition;
mod conditional;
mod json;
mod limits;
mod mutations;
mod operation;
mod plan;
mod statement;

use std::any::Any;
use std::sync::Arc;

use super::access::{RequiredPermission, of_table, to_call};
use super::engine::Engine;
use super::plan::{ChangeKind, Request, StatementPlan, TableAccess};
use super::rows::Rows;
use crate::catalog::{Catalog, TableSchema};
use crate::error::{Result, bail_if, invalid};
use crate::syntax::ast::{self, BatchKind, Permission};
use crate::values::{BoundValue, ColumnSpec, Context, EvalEnv, HeapBytes, Markers};
use attributes::Attributes;
pub use limits::BatchLimits;
pub(super) use plan::ChangePlan;
use plan::{BoundStatement, ChangeSet, refused, run_alone};
use statement::ChangeStatement;

impl ChangePlan {
    /// Compiles a change with this number of markers.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn change(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        change: &ast::ChangeClause<'_>,
        markers: u16,
    ) -> Result<ChangePlan> {
        let mut markers = Markers::new(markers);
        let change = ChangeStatement::prepare(engine, catalog, keyspace, change, &mut markers)?;
        let attributes = Attributes::default();
        Ok(ChangePlan {
            needs: needs([&change]),
            partition_key: markers.of_partition_key(&change.table),
            markers: markers.into_specs()?,
            changes: vec![change],
            attributes,
            batch: None,
        })
    }

    /// Compiles a batch with this number of markers.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn batch(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        batch: &ast::BatchStatement<'_>,
        markers: u16,
    ) -> Result<ChangePlan> {
        let mut markers = Markers::new(markers);
        let mut changes = vec![];
        for change in &batch.changes {
            changes.push(ChangeStatement::prepare(
                engine,
                catalog,
                keyspace,
                change,
                &mut markers,
            )?);
        }
        let keyspace = keyspace.unwrap_or_default();
        let context = Context::new(catalog, keyspace, engine.partitioner());
        let mut context = Context { markers, ..context };

        let attributes =
            Attributes::prepare_in(&batch.using, ("[batch]", "[batch]"), &mut context)?;
        check_batch(batch.kind, &attributes, &changes.iter().collect::<Vec<_>>())?;
        let first = changes.first().map(|c: &ChangeStatement| &c.table);
        let is_of_one = changes.iter().all(|c| Some(c.table.id) == first.map(|t| t.id));
        let partition_key = first
            .filter(|_| is_of_one)
            .map_or(vec![], |table| context.markers.of_partition_key(table));
        Ok(ChangePlan {
            needs: needs(&changes),
            partition_key,
            markers: context.markers.into_specs()?,
            changes,
            attributes,
            batch: Some(batch.kind),
        })
    }
}

/// Returns the permissions of changes. A conditional change needs the read permission too, because
/// its result reveals data.
fn needs<'c>(changes: impl IntoIterator<Item = &'c ChangeStatement>) -> Vec<RequiredPermission> {
    let mut all: Vec<RequiredPermission> = vec![];
    for change in changes {
        let table = of_table(&change.table);
        let reads = change.is_conditional().then(|| (Permission::Select, table.clone()));
        all.extend(reads.into_iter().chain([(Permission::Modify, table)]));
        all.extend(to_call(change.calls.iter().cloned()));
    }
    all.sort();
    all.dedup();
    all
}

/// Refuses changes that cannot be in one batch.
fn check_batch(
    kind: BatchKind,
    attributes: &Attributes,
    changes: &[&ChangeStatement],
) -> Result<()> {
    let has_conditions = changes.iter().any(|c| c.is_conditional());
    let has_counters = changes.iter().any(|c| c.table.is_counter());
    let has_others = changes.iter().any(|c| !c.table.is_counter());
    bail_if!(attributes.has_ttl(), "Global TTL on the BATCH statement is not supported.");
    if attributes.has_timestamp() {
        let twice = changes.iter().any(|c| c.attributes.has_timestamp());
        bail_if!(has_conditions, "Cannot provide custom timestamp for conditional BATCH");
        bail_if!(kind == BatchKind::Counter, "Cannot provide custom timestamp for counter BATCH");
        bail_if!(twice, "Timestamp must be set either on BATCH or individual statements");
        bail_if!(has_counters, "Cannot provide custom timestamp for a BATCH containing counters");
    }
    bail_if!(
        kind == BatchKind::Counter && has_others,
        "Cannot include non-counter statement in a counter batch"
    );
    bail_if!(
        has_counters && has_others,
        "Counter and non-counter mutations cannot exist in the same batch"
    );
    bail_if!(
        kind == BatchKind::Logged && has_counters,
        "Cannot include a counter statement in a logged batch"
    );
    let tables = || changes.iter().map(|c| c.table.id);
    let is_of_many = tables().any(|t| Some(t) != tables().next());
    bail_if!(has_conditions && is_of_many, "Batch with conditions cannot span multiple tables");
    Ok(())
}

/// Executes a batch of compiled changes, each with its bound values. It uses only the times and
/// limits of the request.
///
/// # Errors
/// `Invalid` with Cassandra's text.
pub fn run_batch(
    engine: &Engine,
    kind: BatchKind,
    members: &[(&dyn StatementPlan, &[BoundValue])],
    request: &Request<'_>,
) -> Result<Rows> {
    let (now, random) = (engine.store().timestamp(), || engine.random_bits());
    let env = EvalEnv { bound: &[], now, random: &random };
    let mut changes = vec![];
    let mut all = vec![];
    for (plan, bound) in members {
        let plan: &dyn Any = *plan;
        let change = plan.downcast_ref::<ChangePlan>().filter(|change| change.batch.is_none());
        let change = change.and_then(|plan| plan.changes.first()).ok_or_else(|| {
            invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            )
        })?;
        changes.push(change);
        all.push(BoundStatement::new(change, bound, &env)?);
    }
    check_batch(kind, &Attributes::default(), &changes)?;
    let (timestamp, limits) = (request.run.timestamp, request.run.batch_limits);
    let store = request.store(engine, now);
    ChangeSet { all, batch: Some(kind), limits, timestamp, store }.run(engine, &env)
}

impl ChangeSet<'_> {
    fn is_conditional(&self) -> bool {
        self.all.iter().any(|g| g.change.is_conditional())
    }

    /// Executes the changes.
    pub fn run(&self, engine: &Engine, env: &EvalEnv<'_>) -> Result<Rows> {
        if self.is_conditional() {
            return self.run_conditional(engine, env);
        }
        let timestamp = self.timestamp.unwrap_or(env.now);
        if self.all.iter().any(|g| g.change.reads()) {
            let mut keys: Vec<&[u8]> =
                self.all.iter().flat_map(|g| g.keys.iter().map(|k| &**k)).collect();
            keys.sort_unstable();
            keys.dedup();
            if keys.is_empty() {
                return Ok(Rows::void());
            }
            return self.with_locked_keys(engine, &keys, |view| {
                let written = self.write(engine, env, timestamp.into(), Some(view))?;
                let done = self.done(&written)?;
                Ok((written.all, done))
            });
        }
        let written = self.write(engine, env, timestamp.into(), None)?;
        let done = self.done(&written)?;
        self.store.apply(&written.all, engine.wide().durability()).map_err(refused)?;
        Ok(done)
    }
}

impl StatementPlan for ChangePlan {
    fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        None
    }

    fn heap_bytes(&self) -> usize {
        let ChangePlan { markers, needs, partition_key, changes, attributes, batch: _ } = self;
        let keys = needs.heap_bytes() + partition_key.heap_bytes();
        markers.heap_bytes() + changes.heap_bytes() + attributes.heap_bytes() + keys
    }

    fn needs(&self) -> &[RequiredPermission] {
        &self.needs
    }

    fn partition_key(&self) -> &[u16] {
        &self.partition_key
    }

    fn accesses(&self) -> Vec<(TableAccess, &TableSchema)> {
        self.changes.iter().map(|change| (TableAccess::Write, &*change.table)).collect()
    }

    fn change_kind(&self) -> Option<ChangeKind<'_>> {
        if self.changes.iter().any(|c| c.is_conditional()) {
            return Some(ChangeKind::Conditional);
        }
        Some(match &*self.changes {
            [one] if one.table.is_counter() => ChangeKind::Counter(&one.table.name),
            [_] => ChangeKind::Plain,
            _ => ChangeKind::Batch,
        })
    }

    fn is_quick(&self) -> bool {
        self.changes.len() == 1
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let now = engine.store().timestamp();
        let random = || engine.random_bits();
        let env = EvalEnv { bound: request.bound, now, random: &random };
        if let ([change], None) = (&self.changes[..], self.batch)
            && change.is_plain()
            && let Some(key) = change.restrictions.one_key(&env)?
        {
            return run_alone(change, engine, request, &env, &key);
        }
        let mut all = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            all.push(BoundStatement::new(change, request.bound, &env)?);
        }
        let timestamp = self.attributes.timestamp(&env)?.or(request.run.timestamp);
        let (store, limits) = (request.store(engine, now), request.run.batch_limits);
        ChangeSet { all, batch: self.batch, limits, timestamp, store }.run(engine, &env)
    }
}
