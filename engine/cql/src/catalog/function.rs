//! User-defined functions and aggregates.

use std::fmt;

use firn_wide::Type;

use super::ColumnType;
use crate::script::ScriptProgram;
use crate::syntax::quote_if_needed;

/// A user-defined function.
#[derive(Debug, PartialEq)]
pub struct StoredFunction {
    /// Keyspace of the function.
    pub keyspace: String,
    /// Name of the function.
    pub name: String,
    /// Types of its arguments.
    pub arguments: Vec<ColumnType>,
    /// Whether it is called if an argument is null; otherwise the result is null.
    pub called_on_null: bool,
    /// Type of its result.
    pub result: ColumnType,
    /// Language, in lower case.
    pub language: String,
    /// Names of its arguments, and its body.
    pub program: ScriptProgram,
}

/// A user-defined aggregate: each row updates a state.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAggregate {
    /// Keyspace of the aggregate.
    pub keyspace: String,
    /// Name of the aggregate.
    pub name: String,
    /// Types of its arguments.
    pub arguments: Vec<ColumnType>,
    /// Function of the keyspace that computes the next state from the state and the arguments.
    pub state_function: String,
    /// Type of the state.
    pub state: ColumnType,
    /// Function of the keyspace that computes the result from the last state.
    pub final_function: Option<String>,
    /// Type of its result.
    pub result: ColumnType,
    /// Initial state; `None` is null.
    pub initial: Option<Vec<u8>>,
}

/// Name of a function with its argument types in CQL syntax. Identifies an overload.
pub type Signature = (String, Vec<String>);

/// Returns the type as definitions show it: tuples are always frozen, so `frozen` is omitted.
pub fn argument_text(of: &ColumnType) -> String {
    let text = of.to_string();
    let bare = match of.value_type {
        Type::Tuple(_) => text.strip_prefix("frozen<").and_then(|t| t.strip_suffix('>')),
        _ => None,
    };
    bare.map(str::to_owned).unwrap_or(text)
}

/// Formats `name(type, …)`.
struct Signed<'a>(&'a str, &'a [ColumnType]);

impl fmt::Display for Signed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.1.iter().map(argument_text).collect();
        write!(f, "{}({})", quote_if_needed(self.0), types.join(", "))
    }
}

pub(super) fn signature(name: &str, arguments: &[ColumnType]) -> Signature {
    (name.to_owned(), arguments.iter().map(ToString::to_string).collect())
}

impl StoredFunction {
    /// Returns the signature.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.arguments)
    }

    /// Returns `name(type, …)`.
    pub fn signed_name(&self) -> String {
        Signed(&self.name, &self.arguments).to_string()
    }

    /// Returns this function with other types.
    pub(super) fn retyped(&self, again: impl Fn(&ColumnType) -> ColumnType) -> StoredFunction {
        let program =
            ScriptProgram::new(self.program.arguments().to_vec(), self.program.body().to_owned());
        StoredFunction {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            arguments: self.arguments.iter().map(&again).collect(),
            called_on_null: self.called_on_null,
            result: again(&self.result),
            language: self.language.clone(),
            program,
        }
    }

    /// Iterates over the types of its arguments and its result.
    pub fn types(&self) -> impl Iterator<Item = &ColumnType> {
        self.arguments.iter().chain([&self.result])
    }
}

impl StoredAggregate {
    /// Returns the signature.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.arguments)
    }

    /// Returns `name(type, …)`.
    pub fn signed_name(&self) -> String {
        Signed(&self.name, &self.arguments).to_string()
    }

    /// Returns the signature of its state function.
    pub fn state_signature(&self) -> Signature {
        let all: Vec<ColumnType> =
            std::iter::once(&self.state).chain(&self.arguments).cloned().collect();
        signature(&self.state_function, &all)
    }

    /// Returns the signature of its final function.
    pub fn final_signature(&self) -> Option<Signature> {
        let state = std::slice::from_ref(&self.state);
        self.final_function.as_ref().map(|name| signature(name, state))
    }

    /// Iterates over the types of its arguments, its state and its result.
    pub fn types(&self) -> impl Iterator<Item = &ColumnType> {
        self.arguments.iter().chain([&self.state, &self.result])
    }
}
