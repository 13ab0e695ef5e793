//! Aggregates: native and user-defined.

use firn_wide::Type;

use crate::error::{Error, Result, invalid};
use crate::values::EvalEnv;
use crate::values::aggregate::{Accumulator, AggregateKind};
use crate::values::function::Function;
use crate::values::is_callable;

/// A user-defined aggregate with its functions.
#[derive(Debug)]
pub struct UserFold {
    /// Name quoted in messages: `ks.total`.
    pub name: String,
    /// Computes the next state from the state and the arguments.
    pub step: Function,
    /// Whether rows with nulls are included; otherwise they are skipped.
    pub called_on_null: bool,
    /// Computes the result from the last state.
    pub finish: Option<Function>,
    /// Initial state.
    pub initial: Option<Vec<u8>>,
}

/// An aggregate.
#[derive(Debug)]
pub enum RowFold {
    /// A native aggregate over values of this type.
    Native(AggregateKind, Type),
    /// A user-defined aggregate.
    User(Box<UserFold>),
}

impl RowFold {
    /// Returns the error for an unset argument.
    pub fn unset_argument(&self) -> Error {
        match self {
            RowFold::Native(kind, _) => kind.unset_argument(),
            RowFold::User(user) => {
                invalid!("Invalid unset value for argument in call to function {}", user.name)
            }
        }
    }
}

/// State of an aggregate during its computation.
pub enum FoldState<'p> {
    Native(Accumulator),
    User(&'p UserFold, Option<Vec<u8>>),
}

impl<'p> FoldState<'p> {
    /// Creates the state before the first row.
    pub fn new(fold: &'p RowFold) -> FoldState<'p> {
        match fold {
            RowFold::Native(kind, of) => FoldState::Native(Accumulator::new(*kind, of)),
            RowFold::User(user) => FoldState::User(user, user.initial.clone()),
        }
    }

    /// Resets the state.
    pub fn clear(&mut self) {
        match self {
            FoldState::Native(accumulator) => accumulator.clear(),
            FoldState::User(user, state) => state.clone_from(&user.initial),
        }
    }

    /// Adds the arguments of a row.
    ///
    /// # Errors
    /// Those of [`Accumulator::add`]; those of the user-defined function.
    pub fn add(&mut self, env: &EvalEnv<'_>, values: &[Option<&[u8]>]) -> Result<()> {
        match self {
            FoldState::Native(accumulator) => accumulator.add(values.first().copied().flatten()),
            FoldState::User(user, state) => {
                let mut all = Vec::with_capacity(values.len() + 1);
                all.push(state.as_deref());
                all.extend(values);
                if is_callable(user.called_on_null, &user.step.arguments, &all) {
                    *state = user.step.call(env, &all)?;
                }
                Ok(())
            }
        }
    }

    /// Returns the value over all rows so far.
    ///
    /// # Errors
    /// Those of [`Accumulator::result`]; those of the user-defined function.
    pub fn result(&self, env: &EvalEnv<'_>) -> Result<Option<Vec<u8>>> {
        match self {
            FoldState::Native(accumulator) => accumulator.result(),
            FoldState::User(user, state) => match &user.finish {
                Some(finish) => finish.call(env, &[state.as_deref()]),
                None => Ok(state.clone()),
            },
        }
    }
}
