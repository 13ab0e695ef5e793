//! A compiled change, or a batch of them.

use firn_kv::ErrorKind;
use firn_wide::internals::store::{StoreMutation, StoreView};

use super::attributes::Attributes;
use super::mutations::Mutations;
use super::statement::{ChangeStatement, StatementGuard};
use crate::error::{Error, Result, invalid};
use crate::exec::engine::Engine;
use crate::values::{Bound, ColumnSpec, EvalEnv};

/// One change, or a batch of them.
pub struct ChangePlan {
    pub(super) markers: Vec<ColumnSpec>,
    pub(super) changes: Vec<ChangeStatement>,
    /// Of the batch.
    pub(super) attributes: Attributes,
    pub(super) is_batch: bool,
}

/// A change with what was bound to it: the values of its row and the keys of its partitions.
pub struct GivenValue<'p> {
    pub(super) change: &'p ChangeStatement,
    pub(super) json: Option<Vec<Bound>>,
    pub(super) keys: Vec<Vec<u8>>,
}

impl GivenValue<'_> {
    /// The values of the change's row.
    pub fn env<'e>(&'e self, env: &EvalEnv<'e>) -> EvalEnv<'e> {
        EvalEnv { bound: self.json.as_deref().unwrap_or(env.bound), ..*env }
    }
}

impl ChangePlan {
    pub fn is_conditional(&self) -> bool {
        self.changes.iter().any(|c| !matches!(c.guard, StatementGuard::None))
    }

    pub fn given<'p>(&'p self, env: &EvalEnv<'_>) -> Result<Vec<GivenValue<'p>>> {
        let mut all = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let mut given = GivenValue { change, json: change.json_values(env)?, keys: vec![] };
            given.keys = change.restrictions.keys(&given.env(env))?;
            all.push(given);
        }
        Ok(all)
    }
}

/// All that the changes write.
pub fn write(
    engine: &Engine,
    all: &[GivenValue<'_>],
    env: &EvalEnv<'_>,
    timestamp: i64,
    view: Option<&StoreView>,
) -> Result<Vec<StoreMutation>> {
    let mut out = Mutations::default();
    for given in all {
        let values = given.env(env);
        given.change.write(engine, (env, &values), timestamp, &given.keys, view, &mut out)?;
    }
    Ok(out.all)
}

/// Reads and writes these partitions without other writers in between. When `work` fails
/// nothing is written.
pub fn alone<T>(
    engine: &Engine,
    keys: &[&[u8]],
    work: impl FnOnce(&StoreView) -> Result<(Vec<StoreMutation>, T)>,
) -> Result<T> {
    let work = |view: &StoreView| match work(view) {
        Ok((mutations, result)) => Ok((mutations, Ok(result))),
        Err(e) => Ok((vec![], Err(e))),
    };
    engine.store().update(keys, engine.wide().durability(), work).map_err(refused)?
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
