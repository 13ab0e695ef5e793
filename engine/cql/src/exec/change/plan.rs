//! A compiled change, or a batch of them.

use firn_kv::ErrorKind;
use firn_wide::internals::store::{CellStore, StoreMutation, StoreView};

use super::attributes::Attributes;
use super::mutations::Mutations;
use super::statement::ChangeStatement;
use crate::error::{Error, Result, invalid};
use crate::exec::access::Need;
use crate::exec::engine::Engine;
use crate::values::{Bound, ColumnSpec, EvalEnv};

/// One change, or a batch of them.
pub struct ChangePlan {
    pub(super) markers: Vec<ColumnSpec>,
    /// What it needs to be allowed.
    pub(super) needs: Vec<Need>,
    /// The markers of the partition key.
    pub(super) partition_key: Vec<u16>,
    pub(super) changes: Vec<ChangeStatement>,
    /// Of the batch.
    pub(super) attributes: Attributes,
    pub(super) is_batch: bool,
}

/// A change with what was bound to it: the values of its row and the keys of its partitions.
pub struct GivenValue<'p> {
    pub(super) change: &'p ChangeStatement,
    /// What was bound to its statement.
    bound: &'p [Bound],
    json: Option<Vec<Bound>>,
    pub(super) keys: Vec<Vec<u8>>,
}

impl<'p> GivenValue<'p> {
    /// A change of the statement that this was bound to.
    pub fn new(
        change: &'p ChangeStatement,
        bound: &'p [Bound],
        env: &EvalEnv<'_>,
    ) -> Result<GivenValue<'p>> {
        let json = change.json_values(&EvalEnv { bound, ..*env })?;
        let mut given = GivenValue { change, bound, json, keys: vec![] };
        given.keys = change.restrictions.keys(&given.env(env))?;
        Ok(given)
    }

    /// The values of the change's row.
    pub fn env<'e>(&'e self, env: &EvalEnv<'e>) -> EvalEnv<'e> {
        EvalEnv { bound: self.json.as_deref().unwrap_or(self.bound), ..*env }
    }
}

/// All changes that one run carries out, together or not at all.
pub struct ChangeSet<'p> {
    pub(super) all: Vec<GivenValue<'p>>,
    pub(super) is_batch: bool,
    /// That of changes that name none.
    pub(super) timestamp: Option<i64>,
    /// The store, as of the second that they go by.
    pub(super) store: CellStore,
}

impl ChangeSet<'_> {
    /// All that the changes write.
    pub(super) fn write(
        &self,
        engine: &Engine,
        env: &EvalEnv<'_>,
        timestamp: i64,
        view: Option<&StoreView>,
    ) -> Result<Vec<StoreMutation>> {
        let mut out = Mutations::default();
        for given in &self.all {
            let (statement, values) = (EvalEnv { bound: given.bound, ..*env }, given.env(env));
            let envs = (&statement, &values);
            given.change.write(engine, envs, timestamp, &given.keys, view, &mut out)?;
        }
        Ok(out.all)
    }

    /// Reads and writes these partitions without other writers in between. When `work` fails
    /// nothing is written.
    pub(super) fn alone<T>(
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

/// What the engine refuses before it writes anything is the statement's fault: an element of a
/// collection whose path is too long.
pub fn refused(e: firn_wide::Error) -> Error {
    match e {
        firn_wide::Error::Store(e) if e.kind() == ErrorKind::InvalidArgument => {
            invalid(e.to_string())
        }
        e => e.into(),
    }
}
