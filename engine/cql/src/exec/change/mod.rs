//! `INSERT`, `UPDATE`, `DELETE` and batches of them (model 3.2, 3.3, 3.5).
//!
//! - `statement`: one change: which rows, what is done to them.
//! - `operation`: what is done to a column; `lists`: where elements of lists go; `attributes`: timestamp and time to live; `json`.
//! - `condition`, `conditional`: what must hold, and changes that happen only then.
//!
//! How a row is stored: a cell for each column, whose name is the column's number; of a collection or user type that is not frozen, a cell for
//! each element, whose path orders them. An `INSERT` writes a cell of the empty name too, the row's marker: by it the row is there even when
//! all of its columns are null. Static columns are static cells.
//!
//! Invariants:
//! - All changes of a statement, or of a batch, are one atomic write; what is refused has written nothing.
//! - What reads before it writes (lists by index or value, conditions) is alone on its partitions meanwhile.

mod attributes;
mod condition;
mod conditional;
mod json;
pub(super) mod lists;
mod operation;
mod statement;

use std::collections::HashMap;
use std::sync::Arc;

use firn_kv::ErrorKind;
use firn_wide::internals::store::{Mutation, View};

use super::{Engine, Plan, Request, Rows};
use crate::catalog::Catalog;
use crate::error::{Error, Result, invalid};
use crate::syntax::ast::{self, BatchKind};
use crate::values::{Bound, ColumnSpec, Env, Markers};
use attributes::Attributes;
use statement::{Change, Guard};

/// What the place of a cell of this raw name ends with, after the place of its row.
fn cell_name(raw: &[u8]) -> Vec<u8> {
    use firn_wide::internals::key::END;
    use firn_wide::internals::types::{EMPTY, NEXT};
    match raw {
        [] => vec![EMPTY, END],
        _ => [&[NEXT], raw, &[END]].concat(),
    }
}

/// One change, or a batch of them.
pub(super) struct ChangePlan {
    markers: Vec<ColumnSpec>,
    changes: Vec<Change>,
    /// Of the batch.
    attributes: Attributes,
    is_batch: bool,
}

/// A change with what was bound to it: the values of its row and the keys of its partitions.
struct Given<'p> {
    change: &'p Change,
    json: Option<Vec<Bound>>,
    keys: Vec<Vec<u8>>,
}

impl Given<'_> {
    /// The values of the change's row.
    fn env<'e>(&'e self, env: &Env<'e>) -> Env<'e> {
        Env { bound: self.json.as_deref().unwrap_or(env.bound), ..*env }
    }
}

impl ChangePlan {
    /// Compiles a change with so many markers.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
    pub fn change(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        change: &ast::Change<'_>,
        markers: u16,
    ) -> Result<ChangePlan> {
        let mut markers = Markers::new(markers);
        let change = Change::prepare(engine, catalog, keyspace, change, &mut markers)?;
        let attributes = Attributes::default();
        Ok(ChangePlan { markers: markers.into_specs()?, changes: vec![change], attributes, is_batch: false })
    }

    /// Compiles a batch with so many markers.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
    pub fn batch(
        engine: &Engine,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        batch: &ast::Batch<'_>,
        markers: u16,
    ) -> Result<ChangePlan> {
        let mut markers = Markers::new(markers);
        let mut changes = vec![];
        for change in &batch.changes {
            changes.push(Change::prepare(engine, catalog, keyspace, change, &mut markers)?);
        }
        let keyspace = keyspace.unwrap_or_default();
        let mut context =
            crate::values::Context { catalog, keyspace, partition: vec![], partitioner: engine.partitioner(), markers };
        let (ts, ttl) = (batch.using.timestamp.as_ref(), batch.using.ttl.as_ref());
        let attributes = Attributes::prepare(ts, ttl, "[batch]", "[batch]", &mut context)?;
        let plan = ChangePlan { markers: context.markers.into_specs()?, changes, attributes, is_batch: true };
        plan.check(batch.kind)?;
        Ok(plan)
    }

    fn check(&self, kind: BatchKind) -> Result<()> {
        let refused = |text: &str| Err(invalid(text));
        let (has_conditions, has_timestamp) = (self.is_conditional(), self.attributes.has_timestamp());
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

    fn is_conditional(&self) -> bool {
        self.changes.iter().any(|c| !matches!(c.guard, Guard::None))
    }

    fn given<'p>(&'p self, env: &Env<'_>) -> Result<Vec<Given<'p>>> {
        let mut all = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let mut given = Given { change, json: change.json_values(env)?, keys: vec![] };
            given.keys = change.restrictions.keys(&given.env(env))?;
            all.push(given);
        }
        Ok(all)
    }
}

/// All that the changes write.
fn write(engine: &Engine, all: &[Given<'_>], env: &Env<'_>, timestamp: i64, view: Option<&View>) -> Result<Vec<Mutation>> {
    let mut out = Mutations::default();
    for given in all {
        let values = given.env(env);
        given.change.write(engine, (env, &values), timestamp, &given.keys, view, &mut out)?;
    }
    Ok(out.all)
}

/// Mutations, one for each partition.
#[derive(Default)]
struct Mutations {
    all: Vec<Mutation>,
    /// Where each is, when they are too many to be looked through.
    numbers: HashMap<Vec<u8>, usize>,
}

impl Mutations {
    /// Up to this many are looked through one by one.
    const FEW: usize = 8;

    /// That of the partition with this key.
    fn of(&mut self, key: &[u8]) -> &mut Mutation {
        if self.all.len() > Mutations::FEW && self.numbers.is_empty() {
            self.numbers = self.all.iter().enumerate().map(|(i, m)| (m.key().to_vec(), i)).collect();
        }
        let found = match self.numbers.is_empty() {
            true => self.all.iter().position(|m| m.key() == key),
            false => self.numbers.get(key).copied(),
        };
        let number = found.unwrap_or_else(|| {
            if !self.numbers.is_empty() {
                self.numbers.insert(key.to_vec(), self.all.len());
            }
            self.all.push(Mutation::new(key));
            self.all.len() - 1
        });
        &mut self.all[number]
    }
}

/// Reads and writes these partitions with nobody else writing to them in between. When `work` fails nothing is written.
fn alone<T>(engine: &Engine, keys: &[&[u8]], work: impl FnOnce(&View) -> Result<(Vec<Mutation>, T)>) -> Result<T> {
    let work = |view: &View| match work(view) {
        Ok((mutations, result)) => Ok((mutations, Ok(result))),
        Err(e) => Ok((vec![], Err(e))),
    };
    engine.store().update(keys, engine.wide().durability(), work).map_err(refused)?
}

/// What the engine refuses before it writes anything is the statement's fault: an element of a collection whose path is too long.
fn refused(e: firn_wide::Error) -> Error {
    match e {
        firn_wide::Error::Store(e) if e.kind() == ErrorKind::InvalidArgument => invalid(e.to_string()),
        e => e.into(),
    }
}

impl Plan for ChangePlan {
    fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        None
    }

    fn run(&self, engine: &Engine, request: &Request<'_>) -> Result<Rows> {
        let now = engine.store().timestamp();
        let random = || engine.random_bits();
        let env = Env { bound: request.bound, now, random: &random };
        let all = self.given(&env)?;
        if self.is_conditional() {
            return self.run_conditional(engine, &all, &env);
        }
        let timestamp = self.attributes.timestamp(&env)?.or(request.timestamp).unwrap_or(now);
        if all.iter().any(|g| g.change.reads()) {
            let mut keys: Vec<&[u8]> = all.iter().flat_map(|g| g.keys.iter().map(|k| &**k)).collect();
            keys.sort_unstable();
            keys.dedup();
            if !keys.is_empty() {
                alone(engine, &keys, |view| Ok((write(engine, &all, &env, timestamp, Some(view))?, ())))?;
            }
        } else {
            let mutations = write(engine, &all, &env, timestamp, None)?;
            engine.store().apply(&mutations, engine.wide().durability()).map_err(refused)?;
        }
        Ok(Rows::void())
    }
}
