//! What many rows are made into one by: an aggregate of the database, or one of a user.

use firn_wide::Type;

use crate::error::{Error, Result, invalid};
use crate::values::EvalEnv;
use crate::values::aggregate::{Accumulator, AggregateKind};
use crate::values::function::Function;
use crate::values::is_callable;

/// An aggregate of a user, with its functions.
#[derive(Debug)]
pub struct UserFold {
    /// The name that messages quote: `ks.total`.
    pub name: String,
    /// Makes of the state and the arguments the next state.
    pub step: Function,
    /// Whether rows with nulls are given to it; else they are left out.
    pub called_on_null: bool,
    /// Makes the value of the last state.
    pub finish: Option<Function>,
    /// The first state.
    pub initial: Option<Vec<u8>>,
}

/// An aggregate.
#[derive(Debug)]
pub enum RowFold {
    /// Of the database, over values of this type.
    Native(AggregateKind, Type),
    /// Of a user.
    User(Box<UserFold>),
}

impl RowFold {
    /// The error for an argument that is unset.
    pub fn unset_argument(&self) -> Error {
        match self {
            RowFold::Native(kind, _) => kind.unset_argument(),
            RowFold::User(user) => invalid(format!(
                "Invalid unset value for argument in call to function {}",
                user.name
            )),
        }
    }
}

/// An aggregate under way.
pub enum FoldState<'p> {
    Native(Accumulator),
    User(&'p UserFold, Option<Vec<u8>>),
}

impl<'p> FoldState<'p> {
    /// Before the first row.
    pub fn new(fold: &'p RowFold) -> FoldState<'p> {
        match fold {
            RowFold::Native(kind, of) => FoldState::Native(Accumulator::new(*kind, of)),
            RowFold::User(user) => FoldState::User(user, user.initial.clone()),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        match self {
            FoldState::Native(accumulator) => accumulator.clear(),
            FoldState::User(user, state) => state.clone_from(&user.initial),
        }
    }

    /// Takes in what the arguments are of a row.
    ///
    /// # Errors
    /// As [`Accumulator::add`]; those of the user's function.
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

    /// The value over all rows so far.
    ///
    /// # Errors
    /// As [`Accumulator::result`]; those of the user's function.
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
