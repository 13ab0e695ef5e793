//! `IF …`: what must hold for a conditional change.

use std::borrow::Cow;
use std::cmp::Ordering;

use firn_wide::Type;

use crate::analysis::has_duration;
use crate::catalog::{Column, Table};
use crate::error::{Result, invalid};
use crate::syntax::ast::{self, Comparison, Part};
use crate::values::{Context, Env, Given, Receiver, Term, split};

/// A condition on a column, prepared.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// The column, by its number in [`Table::columns`].
    pub column: usize,
    part: Place,
    test: Test,
}

#[derive(Clone, Debug)]
enum Place {
    Whole,
    /// Of a map or a list.
    Element(Term),
    Field(usize),
}

#[derive(Clone, Debug)]
enum Test {
    Compare(Comparison, Term),
    In(Vec<Term>),
    /// One marker for all values, a list of this type.
    InMarker(Term, Type),
    Contains(Term),
    ContainsKey(Term),
}

/// The value that a test is with.
fn value_of<'v>(term: &'v Term, env: &Env<'v>) -> Result<Option<Cow<'v, [u8]>>> {
    match term.value(env)? {
        Given::Unset => Err(invalid("Invalid 'unset' value in condition")),
        Given::Null => Ok(None),
        Given::Bytes(bytes) => Ok(Some(bytes)),
    }
}

/// What is tested.
struct Tested<'v> {
    of: &'v Type,
    value: Option<&'v [u8]>,
    /// Whether it is a collection of cells: without elements it is null, and compared with another
    /// one it is empty.
    is_cells: bool,
}

impl Tested<'_> {
    fn is(&self, comparison: Comparison, wanted: Option<&[u8]>) -> Result<bool> {
        let Some(wanted) = wanted else {
            return match comparison {
                Comparison::Eq => Ok(self.value.is_none()),
                Comparison::Ne => Ok(self.value.is_some()),
                other => Err(invalid(format!(
                    "Invalid comparison with null for operator \"{}\"",
                    other.sign()
                ))),
            };
        };
        let there = self.value.or(self.is_cells.then_some(&[0; 4]));
        let Some(there) = there else { return Ok(comparison == Comparison::Ne) };
        let order = self.of.compare(there, wanted);
        Ok(match comparison {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            Comparison::Ge => order.is_ge(),
        })
    }
}

impl Condition {
    /// Checks a condition.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
    pub fn prepare(
        table: &Table,
        condition: &ast::Condition<'_>,
        context: &mut Context<'_>,
    ) -> Result<Condition> {
        let column = table.known_column(&condition.target.column.text)?;
        let index = table.columns().iter().position(|c| c.name == column.name).unwrap_or_default();
        if column.is_counter() {
            return Err(invalid("Conditions on counters are not supported"));
        }
        let whole = Receiver::column(table, column);
        let (part, receiver) = place(column, &condition.target.part, &whole, context)?;
        let test = test(&condition.test, &receiver, column, context)?;
        if column.is_primary_key() {
            return Err(invalid(format!(
                "PRIMARY KEY column '{}' cannot have IF conditions",
                column.name
            )));
        }
        Ok(Condition { column: index, part, test })
    }

    /// Whether it holds for the value of the column; `None` is null.
    ///
    /// # Errors
    /// `Invalid` for bound values that can't be.
    pub fn holds(&self, column: &Column, value: Option<&[u8]>, env: &Env<'_>) -> Result<bool> {
        let part;
        let tested = match &self.part {
            Place::Whole => Tested {
                of: &column.of.of,
                value,
                is_cells: column.of.multicell && column.of.is_collection(),
            },
            Place::Element(key) => {
                part = element(&column.of.of, value, key, env)?;
                let of = match &column.of.of {
                    Type::Map(kv) => &kv.1,
                    Type::List(element) => &**element,
                    other => other,
                };
                Tested { of, value: part.as_deref(), is_cells: false }
            }
            Place::Field(i) => {
                let Type::Udt(user) = &column.of.of else { return Ok(false) };
                let found = value.map(|v| split(&column.of.of, v)).transpose()?;
                part = found.and_then(|f| f.get(*i).copied().flatten().map(<[u8]>::to_vec));
                Tested { of: &user.fields[*i].1, value: part.as_deref(), is_cells: false }
            }
        };
        match &self.test {
            Test::Compare(comparison, term) => {
                tested.is(*comparison, value_of(term, env)?.as_deref())
            }
            Test::In(terms) => {
                for term in terms {
                    let is = match term.value(env)? {
                        Given::Unset => false,
                        Given::Null => tested.is(Comparison::Eq, None)?,
                        Given::Bytes(bytes) => tested.is(Comparison::Eq, Some(&bytes))?,
                    };
                    if is {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::InMarker(term, list) => {
                let all = value_of(term, env)?
                    .ok_or_else(|| invalid("Invalid null list in IN condition"))?;
                for wanted in split(list, &all)? {
                    if tested.is(Comparison::Eq, wanted)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::Contains(term) => contains(&tested, term.value(env)?, false),
            Test::ContainsKey(term) => contains(&tested, term.value(env)?, true),
        }
    }
}

fn place(
    column: &Column,
    part: &Part<'_>,
    whole: &Receiver,
    context: &mut Context<'_>,
) -> Result<(Place, Receiver)> {
    let name = &column.name;
    Ok(match (part, &column.of.of) {
        (Part::Whole, _) => (Place::Whole, whole.clone()),
        (Part::Element(key), Type::Map(kv)) => {
            let key =
                Term::prepare(key, &whole.other(format!("key({name})"), kv.0.clone()), context)?;
            (Place::Element(key), whole.other(format!("value({name})"), kv.1.clone()))
        }
        (Part::Element(key), Type::List(element)) => {
            let key =
                Term::prepare(key, &whole.other(format!("idx({name})"), Type::Int32), context)?;
            (Place::Element(key), whole.other(format!("value({name})"), (**element).clone()))
        }
        (Part::Element(_), Type::Set(_)) => {
            return Err(invalid(format!("Invalid element access syntax for set column {name}")));
        }
        (Part::Element(_), _) => {
            return Err(invalid(format!(
                "Invalid element access syntax for non-collection column {name}"
            )));
        }
        (Part::Field(field), Type::Udt(user)) => {
            let found = user.fields.iter().position(|f| f.0 == field.text);
            let i =
                found.ok_or_else(|| invalid(format!("Unknown field {field} for column {name}")))?;
            (Place::Field(i), whole.other(format!("{name}.{field}"), user.fields[i].1.clone()))
        }
        (Part::Field(_), _) => {
            return Err(invalid(format!("Invalid field access syntax for non-UDT column {name}")));
        }
    })
}

/// Durations have no order.
fn refuse_durations(of: &Type, comparison: Comparison) -> Result<()> {
    if matches!(comparison, Comparison::Eq | Comparison::Ne) || !has_duration(of) {
        return Ok(());
    }
    let within = match of {
        Type::List(_) | Type::Set(_) | Type::Map(_) => "collections",
        Type::Tuple(_) => "tuples",
        Type::Udt(_) => "UDTs",
        _ => {
            return Err(invalid(format!(
                "Slice conditions ( {} ) are not supported on durations",
                comparison.sign()
            )));
        }
    };
    Err(invalid(format!("Slice conditions are not supported on {within} containing durations")))
}

fn test(
    test: &ast::Test<'_>,
    receiver: &Receiver,
    column: &Column,
    context: &mut Context<'_>,
) -> Result<Test> {
    Ok(match test {
        ast::Test::Compare(comparison, term) => {
            refuse_durations(&receiver.of.of, *comparison)?;
            Test::Compare(*comparison, Term::prepare(term, receiver, context)?)
        }
        ast::Test::In(ast::Values::List(terms)) => Test::In(
            terms.iter().map(|t| Term::prepare(t, receiver, context)).collect::<Result<_>>()?,
        ),
        ast::Test::In(ast::Values::Marker(marker)) => {
            let list = Type::List(receiver.of.of.clone().into());
            let all = receiver.other(format!("in({})", receiver.name), list.clone());
            Test::InMarker(Term::prepare(marker, &all, context)?, list)
        }
        ast::Test::Contains(term) => {
            let element = match &column.of.of {
                Type::List(of) | Type::Set(of) => (**of).clone(),
                Type::Map(kv) => kv.1.clone(),
                _ => {
                    return Err(invalid(format!(
                        "Cannot use CONTAINS on non-collection column {}",
                        column.name
                    )));
                }
            };
            Test::Contains(Term::prepare(
                term,
                &receiver.other(format!("value({})", column.name), element),
                context,
            )?)
        }
        ast::Test::ContainsKey(term) => {
            let Type::Map(kv) = &column.of.of else {
                return Err(invalid(format!(
                    "Cannot use CONTAINS KEY on non-map column {}",
                    column.name
                )));
            };
            let receiver = receiver.other(format!("key({})", column.name), kv.0.clone());
            Test::ContainsKey(Term::prepare(term, &receiver, context)?)
        }
    })
}

/// An element of a serialised map or list.
fn element(of: &Type, value: Option<&[u8]>, key: &Term, env: &Env<'_>) -> Result<Option<Vec<u8>>> {
    let what = if matches!(of, Type::Map(_)) { "map" } else { "list" };
    let key = match key.value(env)? {
        Given::Bytes(bytes) => bytes,
        Given::Null => {
            return Err(invalid(format!("Invalid null value for {what} element access")));
        }
        // A map has nothing at a key that isn't said.
        Given::Unset if matches!(of, Type::Map(_)) => return Ok(None),
        Given::Unset => return Err(invalid("Invalid 'unset' value in condition")),
    };
    let parts = value.map_or(Ok(vec![]), |v| split(of, v))?;
    let found = match of {
        Type::Map(kv) => {
            let pair = parts
                .chunks_exact(2)
                .find(|p| p[0].is_some_and(|k| kv.0.compare(k, &key) == Ordering::Equal));
            pair.and_then(|p| p[1])
        }
        _ => {
            let index = <[u8; 4]>::try_from(&*key)
                .map(i32::from_be_bytes)
                .map_err(|_| invalid("Invalid list index"))?;
            let i = usize::try_from(index)
                .map_err(|_| invalid(format!("Invalid negative list index {index}")))?;
            parts.get(i).copied().flatten()
        }
    };
    Ok(found.map(<[u8]>::to_vec))
}

fn contains(tested: &Tested<'_>, wanted: Given<'_>, key: bool) -> Result<bool> {
    let wanted: &[u8] = match &wanted {
        Given::Bytes(bytes) => bytes,
        Given::Null => {
            return Err(invalid(format!(
                "Invalid comparison with null for operator \"{}\"",
                word(key)
            )));
        }
        // Nothing is asked, and no collection has it.
        Given::Unset => return Ok(false),
    };
    let Some(value) = tested.value else { return Ok(false) };
    let parts = split(tested.of, value)?;
    let same = |of: &Type, part: Option<&[u8]>| {
        part.is_some_and(|p| of.compare(p, wanted) == Ordering::Equal)
    };
    Ok(match tested.of {
        Type::Map(kv) if key => parts.iter().step_by(2).any(|p| same(&kv.0, *p)),
        Type::Map(kv) => parts.iter().skip(1).step_by(2).any(|p| same(&kv.1, *p)),
        Type::List(e) | Type::Set(e) => parts.iter().any(|p| same(e, *p)),
        _ => false,
    })
}

fn word(key: bool) -> &'static str {
    if key { "CONTAINS KEY" } else { "CONTAINS" }
}
