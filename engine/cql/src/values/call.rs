//! The arguments of a call, as the choice of what it calls sees them.

use std::fmt;

use firn_wide::Type;

use super::function::is_value_of;

/// How well an argument fits a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArgumentFit {
    /// Not at all.
    Never,
    /// It can be of the type.
    Weak,
    /// It is of the type.
    Exact,
}

impl ArgumentFit {
    /// Of an argument of this type, where that is known.
    pub fn of(own: Option<&Type>, wanted: &Type) -> ArgumentFit {
        match own {
            None => ArgumentFit::Weak,
            Some(own) if own.unreversed() == wanted => ArgumentFit::Exact,
            Some(own) if is_value_of(own, wanted) => ArgumentFit::Weak,
            Some(_) => ArgumentFit::Never,
        }
    }
}

/// The arguments of a call, for the choice of what it calls.
#[derive(Clone, Copy)]
pub struct CallArguments<'a> {
    /// Their types; `None`: unknown.
    pub types: &'a [Option<Type>],
    /// How messages show them.
    pub shown: &'a dyn Fn(usize) -> String,
    /// How well each fits a type.
    pub fit: &'a dyn Fn(usize, &Type) -> ArgumentFit,
}

impl fmt::Debug for CallArguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.types).finish()
    }
}
