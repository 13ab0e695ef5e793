//! A compiled change, or a batch of changes.

use std::collections::BTreeSet;

use firn_kv::ErrorKind;
use firn_wide::internals::store::{CellStore, StoreMutation, StoreView};

use super::attributes::Attributes;
use super::limits::{BatchLimits, ChangeWeight, PARTITION};
use super::mutations::Mutations;
use super::statement::{ChangeStatement, ChangeTimes};
use crate::catalog::TableSchema;
use crate::error::{Error, Result, invalid};
use crate::exec::access::RequiredPermission;
use crate::exec::engine::Engine;
use crate::exec::plan::Request;
use crate::exec::rows::Rows;
use crate::syntax::ast::BatchKind;
use crate::values::{BoundValue, ColumnSpec, EvalEnv};

/// One change, or a batch of changes.
pub struct ChangePlan {
    pub(super) markers: Vec<ColumnSpec>,
    /// Permissions that it needs.
    pub(super) needs: Vec<RequiredPermission>,
    /// Markers bound to the partition key.
    pub(super) partition_key: Vec<u16>,
    pub(super) changes: Vec<ChangeStatement>,
    /// Attributes of the batch.
    pub(super) attributes: Attributes,
    /// `None` for one change.
    pub(super) batch: Option<BatchKind>,
}

/// A change with its bound values, the values of its row and the keys of its partitions.
pub struct BoundStatement<'p> {
    pub(super) change: &'p ChangeStatement,
    /// Values bound to its statement.
    bound: &'p [BoundValue],
    json: Option<Vec<BoundValue>>,
    pub(super) keys: Vec<Vec<u8>>,
}

impl<'p> BoundStatement<'p> {
    /// Binds a change of the statement to these values.
    pub fn new(
        change: &'p ChangeStatement,
        bound: &'p [BoundValue],
        env: &EvalEnv<'_>,
    ) -> Result<BoundStatement<'p>> {
        let json = change.json_values(&EvalEnv { bound, ..*env })?;
        let mut given = BoundStatement { change, bound, json, keys: vec![] };
        given.keys = change.restrictions.keys(&given.env(env))?;
        given.keys.iter().try_for_each(|key| TableSchema::check_key(key))?;
        Ok(given)
    }

    /// Returns the environment with the values of the change's row.
    pub fn env<'e>(&'e self, env: &EvalEnv<'e>) -> EvalEnv<'e> {
        EvalEnv { bound: self.json.as_deref().unwrap_or(self.bound), ..*env }
    }
}

/// All changes of one execution, applied atomically.
pub struct ChangeSet<'p> {
    pub(super) all: Vec<BoundStatement<'p>>,
    /// `None` for one change.
    pub(super) batch: Option<BatchKind>,
    pub(super) limits: Option<BatchLimits>,
    /// Timestamp of changes that specify none.
    pub(super) timestamp: Option<i64>,
    /// Store as of the second that the changes use.
    pub(super) store: CellStore,
}

impl ChangeSet<'_> {
    /// Returns the mutations of all changes.
    pub(super) fn write(
        &self,
        engine: &Engine,
        env: &EvalEnv<'_>,
        times: ChangeTimes,
        view: Option<&StoreView>,
    ) -> Result<Mutations> {
        let mut out = Mutations::default();
        for given in &self.all {
            let (statement, values) = (EvalEnv { bound: given.bound, ..*env }, given.env(env));
            let envs = (&statement, &values);
            let writes = given.change.writes(engine, envs, times, view)?;
            writes.check_count(given.keys.len())?;
            let mut weight = ChangeWeight::default();
            for key in &given.keys {
                given.change.write(&writes, out.of(key), &mut weight)?;
            }
            out.weight.rows += weight.rows;
            out.weight.rest += weight.rest;
        }
        Ok(out)
    }

    /// Reads and writes these partitions under their locks, so that no other writer interferes. If
    /// `work` fails, nothing is written.
    pub(super) fn with_locked_keys<T>(
        &self,
        engine: &Engine,
        keys: &[&[u8]],
        work: impl FnOnce(&StoreView) -> Result<(Vec<StoreMutation>, T)>,
    ) -> Result<T> {
        let work = |view: &StoreView| match work(view) {
            Ok((mutations, result)) => Ok((mutations, Ok(result))),
            Err(e) => Ok((vec![], Err(e))),
        };
        self.store.update(keys, engine.wide().durability(), work).map_err(refused)?
    }
}

impl ChangeSet<'_> {
    /// Returns the result after these mutations are written.
    ///
    /// # Errors
    /// `Invalid` for a batch that is too large.
    pub(super) fn done(&self, written: &Mutations) -> Result<Rows> {
        let done = Rows::void().with_warnings(self.check_limits(written)?);
        let Some(kind) = self.batch.filter(|_| !written.all.is_empty()) else { return Ok(done) };
        Ok(done.with_batch(kind, self.partitions(written)))
    }

    /// Returns the number of partitions written to, counted in each keyspace.
    fn partitions(&self, written: &Mutations) -> usize {
        let mut keyspaces = self.all.iter().map(|given| &given.change.table.keyspace);
        let first = keyspaces.next();
        if keyspaces.all(|keyspace| Some(keyspace) == first) {
            return written.all.len();
        }
        let mut all = BTreeSet::new();
        for given in &self.all {
            all.extend(given.keys.iter().map(|key| (&given.change.table.keyspace, key)));
        }
        all.len()
    }

    /// Returns the warnings for a batch with these mutations.
    ///
    /// # Errors
    /// `Invalid` for a batch that is too large.
    fn check_limits(&self, written: &Mutations) -> Result<Vec<String>> {
        let (Some(limits), Some(kind)) = (self.limits, self.batch) else { return Ok(vec![]) };
        let parts = || {
            let of = |g: &BoundStatement<'_>| g.keys.len();
            self.all.iter().map(of).sum::<usize>()
        };
        let many = kind != BatchKind::Logged && parts() > limits.warn_partitions;
        if written.most_weight() + PARTITION * parts() <= limits.warn_bytes && !many {
            return Ok(vec![]);
        }
        let (mut tables, mut updates) = (BTreeSet::new(), BTreeSet::new());
        let (mut mutations, mut partitions) = (BTreeSet::new(), BTreeSet::new());
        for given in &self.all {
            let table = &given.change.table;
            tables.insert(format!("{}.{}", table.keyspace, table.name));
            for key in &given.keys {
                updates.insert((table.id, key));
                mutations.insert((&table.keyspace, key));
                partitions.insert(key);
            }
        }
        let tables = tables.into_iter().collect::<Vec<_>>();
        let names = tables.join(", ");
        let mut warnings = vec![];
        // A batch on one partition is one write, whatever its size.
        if mutations.len() > 1 {
            let bytes = written.whole_weight()? + PARTITION * updates.len();
            if bytes > limits.fail_bytes {
                let help = format!(
                    "it weighs {bytes} bytes over {} partitions, and the limit is {}: put writes to the same partition into one batch, \
                     and execute the others separately",
                    mutations.len(),
                    limits.fail_bytes
                );
                return Err(invalid("Batch too large").with_help(help));
            }
            if bytes > limits.warn_bytes {
                warnings.push(format!(
                    "Batch for [{names}] is of size {bytes}, exceeding specified threshold of {} by {}.",
                    limits.warn_bytes,
                    bytes - limits.warn_bytes
                ));
            }
        }
        if kind != BatchKind::Logged && partitions.len() > limits.warn_partitions {
            let plural = if tables.len() > 1 { "s" } else { "" };
            warnings.push(format!(
                "Unlogged batch covering {} partitions detected against table{plural} [{names}]. You should use a logged batch for \
                 atomicity, or asynchronous writes for performance.",
                partitions.len()
            ));
        }
        Ok(warnings)
    }
}

/// Executes a change of one partition that is alone in its statement and
/// [plain](ChangeStatement::is_plain).
///
/// # Errors
/// `Invalid` for invalid bound values; errors of the engine.
pub fn run_alone(
    change: &ChangeStatement,
    engine: &Engine,
    request: &Request<'_>,
    env: &EvalEnv<'_>,
    key: &[u8],
) -> Result<Rows> {
    TableSchema::check_key(key)?;
    let times = request.run.timestamp.unwrap_or(env.now).into();
    let writes = change.writes(engine, (env, env), times, None)?;
    writes.check_count(1)?;
    let mut mutation = StoreMutation::recycled(key);
    change.write(&writes, &mut mutation, &mut ChangeWeight::default())?;
    let (store, durability) = (request.store(engine, env.now), engine.wide().durability());
    store.apply(std::slice::from_ref(&mutation), durability).map_err(refused)?;
    mutation.recycle();
    Ok(Rows::void())
}

/// Converts an error of the engine. Invalid arguments, such as a collection element with a path
/// that is too long, are errors of the statement.
pub fn refused(e: firn_wide::Error) -> Error {
    match e {
        firn_wide::Error::Store(e) if e.kind() == ErrorKind::InvalidArgument => {
            invalid(e.to_string())
        }
        e => e.into(),
    }
}
