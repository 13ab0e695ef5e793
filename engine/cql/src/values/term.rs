//! Terms of statements: checked against the expected type, then evaluated to bytes.

use std::borrow::Cow;
use std::sync::Arc;

use firn_wide::Type;

use super::function::Function;
use super::vector::null_inside;
use super::{BoundValue, EvalEnv, canonical, put_many, put_tuple};
use crate::error::{Error, Result, invalid};

/// A prepared term.
#[derive(Clone, Debug)]
pub enum BoundTerm {
    /// Known bytes, or null.
    Constant(Option<Vec<u8>>),
    /// Value bound to the marker with this number.
    Marker(u16, Type),
    /// Collection, tuple or user type of these; for a map, keys and values alternate.
    Many(Type, Vec<BoundTerm>),
    /// User type whose fields are separate cells: an unset field is not written.
    Fields(Vec<BoundTerm>),
    /// Call of a function with these arguments.
    Call(Arc<Function>, Vec<BoundTerm>),
}

impl BoundTerm {
    /// Evaluates the term, without a copy if possible.
    ///
    /// # Errors
    /// Those of [`eval`](BoundTerm::eval).
    pub fn value<'v>(&'v self, env: &EvalEnv<'v>) -> Result<BoundValue<Cow<'v, [u8]>>> {
        match self {
            BoundTerm::Constant(Some(bytes)) => Ok(BoundValue::Bytes(Cow::Borrowed(bytes))),
            BoundTerm::Constant(None) => Ok(BoundValue::Null),
            BoundTerm::Marker(index, of) => {
                let bound = env
                    .bound
                    .get(usize::from(*index))
                    .ok_or_else(|| invalid("Invalid amount of bind variables"))?;
                Ok(match bound {
                    BoundValue::Unset => BoundValue::Unset,
                    BoundValue::Null => BoundValue::Null,
                    BoundValue::Bytes(bytes) => {
                        of.validate(bytes).map_err(|e| invalid(e.0))?;
                        BoundValue::Bytes(canonical(of, bytes)?)
                    }
                })
            }
            BoundTerm::Many(..) | BoundTerm::Fields(_) | BoundTerm::Call(..) => {
                Ok(self.eval(env)?.map(Cow::Owned))
            }
        }
    }

    /// Evaluates the term.
    ///
    /// # Errors
    /// `Invalid` if a bound value does not have its type, or if a function refuses its arguments.
    pub fn eval(&self, env: &EvalEnv<'_>) -> Result<BoundValue> {
        match self {
            BoundTerm::Constant(_) | BoundTerm::Marker(..) => {
                Ok(self.value(env)?.map(Cow::into_owned))
            }
            BoundTerm::Many(of, parts) => {
                let mut values = Vec::with_capacity(parts.len());
                for (i, part) in parts.iter().enumerate() {
                    values.push(match part.eval(env)? {
                        BoundValue::Bytes(bytes) => Some(bytes),
                        BoundValue::Null => None,
                        BoundValue::Unset => return Err(unset_part(of, i)),
                    });
                }
                Ok(BoundValue::Bytes(put_many(of, values)?))
            }
            BoundTerm::Fields(fields) => {
                let fields = fields.iter().map(|f| Ok(f.eval(env)?.into_bytes()));
                Ok(BoundValue::Bytes(put_tuple(&fields.collect::<Result<Vec<_>>>()?)?))
            }
            BoundTerm::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(match argument.eval(env)? {
                        BoundValue::Bytes(bytes) => Some(bytes),
                        BoundValue::Null => None,
                        BoundValue::Unset => return Err(function.unset_argument()),
                    });
                }
                let slices: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                Ok(function.call(env, &slices)?.into())
            }
        }
    }

    /// Reports whether its value does not depend on bound values or time.
    pub fn is_constant(&self) -> bool {
        match self {
            BoundTerm::Constant(_) => true,
            BoundTerm::Marker(..) => false,
            BoundTerm::Many(_, parts) | BoundTerm::Fields(parts) => {
                parts.iter().all(BoundTerm::is_constant)
            }
            BoundTerm::Call(function, arguments) => {
                function.is_pure && arguments.iter().all(BoundTerm::is_constant)
            }
        }
    }

    /// Evaluates the term if it is constant.
    pub(super) fn folded(self) -> Result<BoundTerm> {
        if !self.is_constant() {
            return Ok(self);
        }
        let env = EvalEnv { bound: &[], now: 0, random: &|| 0 };
        Ok(BoundTerm::Constant(self.eval(&env)?.into_bytes()))
    }
}

/// Returns the error for an unset part.
fn unset_part(of: &Type, part: usize) -> Error {
    if let Type::Vector(..) = of {
        return null_inside();
    }
    invalid(match of {
        Type::Tuple(_) => format!("Invalid unset value for tuple field number {part}"),
        Type::Udt(udt) => {
            let field = udt.fields.get(part).map_or("", |f| &f.0);
            format!("Invalid unset value for field '{field}' of user defined type {}", udt.name)
        }
        _ => "unset value is not supported inside collections".to_owned(),
    })
}
