//! Functions and aggregates of users.

use std::fmt;

use firn_wide::Type;

use super::ColumnType;
use crate::script::ScriptProgram;
use crate::syntax::quote_if_needed;

/// A function of a keyspace.
#[derive(Debug, PartialEq)]
pub struct StoredFunction {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<ColumnType>,
    /// Whether it is called where an argument is null; else it is null then.
    pub called_on_null: bool,
    /// The type of its value.
    pub result: ColumnType,
    /// The language, in lower case.
    pub language: String,
    /// The names of its arguments, and its body.
    pub program: ScriptProgram,
}

/// An aggregate of a keyspace: a state, made another one by each row.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAggregate {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<ColumnType>,
    /// The function of its keyspace that takes the state and the arguments and gives the state.
    pub state_function: String,
    /// The type of the state.
    pub state: ColumnType,
    /// The function of its keyspace that makes the value of the last state.
    pub final_function: Option<String>,
    /// The type of its value.
    pub result: ColumnType,
    /// The first state; `None` is null.
    pub initial: Option<Vec<u8>>,
}

/// What tells functions of one name apart: the types of their arguments, as CQL writes them.
pub type Signature = (String, Vec<String>);

/// The type as a definition shows it: tuples are always frozen, and nobody says so.
pub fn argument_text(of: &ColumnType) -> String {
    let text = of.to_string();
    let bare = match of.of {
        Type::Tuple(_) => text.strip_prefix("frozen<").and_then(|t| t.strip_suffix('>')),
        _ => None,
    };
    bare.map(str::to_owned).unwrap_or(text)
}

/// `name(type, …)` of a definition.
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
    /// What tells it apart.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.arguments)
    }

    /// `name(type, …)`
    pub fn signed_name(&self) -> String {
        Signed(&self.name, &self.arguments).to_string()
    }

    /// The same with other types.
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

    /// Its types.
    pub fn types(&self) -> impl Iterator<Item = &ColumnType> {
        self.arguments.iter().chain([&self.result])
    }
}

impl StoredAggregate {
    /// What tells it apart.
    pub fn signature(&self) -> Signature {
        signature(&self.name, &self.arguments)
    }

    /// `name(type, …)`
    pub fn signed_name(&self) -> String {
        Signed(&self.name, &self.arguments).to_string()
    }

    /// What tells its state function apart.
    pub fn state_signature(&self) -> Signature {
        let all: Vec<ColumnType> =
            std::iter::once(&self.state).chain(&self.arguments).cloned().collect();
        signature(&self.state_function, &all)
    }

    /// What tells its final function apart.
    pub fn final_signature(&self) -> Option<Signature> {
        let state = std::slice::from_ref(&self.state);
        self.final_function.as_ref().map(|name| signature(name, state))
    }

    /// Its types.
    pub fn types(&self) -> impl Iterator<Item = &ColumnType> {
        self.arguments.iter().chain([&self.state, &self.result])
    }
}
