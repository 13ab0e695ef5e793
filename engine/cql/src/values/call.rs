//! Arguments of a call, for overload resolution.

use std::fmt;

use firn_wide::Type;

use super::function::is_value_of;

/// How well an argument matches a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArgumentFit {
    /// It does not match.
    Never,
    /// It can be converted to the type.
    Weak,
    /// It has exactly this type.
    Exact,
}

impl ArgumentFit {
    /// Returns the fit of an argument with this type, if it is known.
    pub fn of(own: Option<&Type>, wanted: &Type) -> ArgumentFit {
        match own {
            None => ArgumentFit::Weak,
            Some(own) if own.unreversed() == wanted => ArgumentFit::Exact,
            Some(own) if is_value_of(own, wanted) => ArgumentFit::Weak,
            Some(_) => ArgumentFit::Never,
        }
    }
}

/// Arguments of a call, for overload resolution.
#[derive(Clone, Copy)]
pub struct CallArguments<'a> {
    /// Types of the arguments; `None` if unknown.
    pub types: &'a [Option<Type>],
    /// Returns the text of an argument for messages.
    pub shown: &'a dyn Fn(usize) -> String,
    /// Returns how well an argument matches a type.
    pub fit: &'a dyn Fn(usize, &Type) -> ArgumentFit,
}

impl fmt::Debug for CallArguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.types).finish()
    }
}
