//! `INSERT`, `UPDATE`, `DELETE` and batches of them (model 3.2, 3.3, 3.5).
//!
//! - `statement`: one change: which rows, what is done to them.
//! - `operation`: what is done to a column; `attributes`: timestamp and time to live; `json`.
//! - `plan`: all changes of a statement; `mutations`: what they write.
//! - `condition`, `conditional`: what must hold, and changes that happen only then.
//!
//! How a row is stored: a cell for each column, whose name is the column's number; of a collection
//! or user type that is not frozen, a cell for each element, whose path orders them. An `INSERT`
//! writes a cell of the empty name too, the row's marker: by it the row is there even when all of
//! its columns are null. Static columns are static cells.
//!
//! Invariants:
//! - All changes of a statement, or of a batch, are one atomic write; what is refused has written
//!   nothing.
//! - What reads before it writes (lists by index or value, conditions) is alone on its partitions
//!   meanwhile.

mod attributes;
mod condition;
mod conditional;
mod json;
mod mutations;
mod operation;
mod plan;
mod statement;

use std::sync::Arc;

use super::engine::Engine;
use super::plan::{Request, StatementPlan};
use super::rows::Rows;
use crate::catalog::Catalog;
use crate::error::{Result, invalid};
use crate::syntax::ast::{self, BatchKind};
use crate::values::{ColumnSpec, EvalEnv, Markers};
use attributes::Attributes;
pub(super) use plan::ChangePlan;
use plan::{alone, refused, write};
use statement::ChangeStatement;

impl ChangePlan {
    /// Compiles a change with so many markers.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
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
            markers: markers.into_specs()?,
            changes: vec![change],
            attributes,
            is_batch: false,
        })
    }

    /// Compiles a batch with so many markers.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
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
        let mut context = crate::values::Context {
            catalog,
            keyspace,
            partition: vec![],
            partitioner: engine.partitioner(),
            markers,
        };
        let (ts, ttl) = (batch.using.timestamp.as_ref(), batch.using.ttl.as_ref());
        let attributes = Attributes::prepare(ts, ttl, "[batch]", "[batch]", &mut context)?;
        let plan = ChangePlan {
            markers: context.markers.into_specs()?,
            changes,
            attributes,
            is_batch: true,
        };
        plan.check(batch.kind)?;
        Ok(plan)
    }

    fn check(&self, kind: BatchKind) -> Result<()> {
        let refused = |text: &str| Err(invalid(text));
        let (has_conditions, has_timestamp) =
            (self.is_conditional(), self.attributes.has_timestamp());
        if self.attributes.has_ttl() {
            return refused("Global TTL on the BATCH statement is not supported.");
        }
        if has_timestamp && has_conditions {
            return refused("Cannot provide custom timestamp for conditional BATCH");
        }
        if has_timestamp && kind == BatchKind::Counter {
            return refused("Cannot provide custom timestamp for counter BATCH");
        }
        if has_timestamp && self.changes.iter().any(|c| c.attributes.has_timestamp()) {
            return refused("Timestamp must be set either on BATCH or individual statements");
        }
        let has_counters = self.changes.iter().any(|c| c.table.is_counter());
        let has_others = self.changes.iter().any(|c| !c.table.is_counter());
        if has_timestamp && has_counters {
            return refused("Cannot provide custom timestamp for a BATCH containing counters");
        }
        if kind == BatchKind::Counter && has_others {
            return refused("Cannot include non-counter statement in a counter batch");
        }
        if has_counters && has_others {
            return refused("Counter and non-counter mutations cannot exist in the same batch");
        }
        if kind == BatchKind::Logged && has_counters {
            return refused("Cannot include a counter statement in a logged batch");
        }
        let tables = || self.changes.iter().map(|c| c.table.id);
        if has_conditions && tables().any(|t| Some(t) != tables().next()) {
            return refused("Batch with conditions cannot span multiple tables");
        }
        Ok(())
    }
}

impl StatementPlan for ChangePlan {
    fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        None
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let now = engine.store().timestamp();
        let random = || engine.random_bits();
        let env = EvalEnv { bound: request.bound, now, random: &random };
        let all = self.given(&env)?;
        if self.is_conditional() {
            return self.run_conditional(engine, &all, &env);
        }
        let timestamp = self.attributes.timestamp(&env)?.or(request.timestamp).unwrap_or(now);
        if all.iter().any(|g| g.change.reads()) {
            let mut keys: Vec<&[u8]> =
                all.iter().flat_map(|g| g.keys.iter().map(|k| &**k)).collect();
            keys.sort_unstable();
            keys.dedup();
            if !keys.is_empty() {
                alone(engine, &keys, |view| {
                    Ok((write(engine, &all, &env, timestamp, Some(view))?, ()))
                })?;
            }
        } else {
            let mutations = write(engine, &all, &env, timestamp, None)?;
            engine.store().apply(&mutations, engine.wide().durability()).map_err(refused)?;
        }
        Ok(Rows::void())
    }
}
