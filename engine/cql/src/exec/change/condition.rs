//! `IF …`: what must hold for a conditional change.

use std::cmp::Ordering;

use firn_wide::types::Type;

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

/// The value that a test is with; an empty collection of cells is none.
fn value_of<'v>(term: &'v Term, env: &Env<'v>, empty_is_null: bool) -> Result<Option<std::borrow::Cow<'v, [u8]>>> {
    match term.value(env)? {
        Given::Unset => Err(invalid("Invalid 'unset' value in condition")),
        Given::Null => Ok(None),
        Given::Bytes(bytes) if empty_is_null && *bytes == [0; 4] => Ok(None),
        Given::Bytes(bytes) => Ok(Some(bytes)),
    }
}

fn holds(comparison: Comparison, of: &Type, there: Option<&[u8]>, wanted: Option<&[u8]>) -> Result<bool> {
    let Some(wanted) = wanted else {
        return match comparison {
            Comparison::Eq => Ok(there.is_none()),
            Comparison::Ne => Ok(there.is_some()),
            other => Err(invalid(format!("Invalid comparison with null for operator \"{}\"", other.sign()))),
        };
    };
    let Some(there) = there else { return Ok(comparison == Comparison::Ne) };
    let order = of.compare(there, wanted);
    Ok(match comparison {
        Comparison::Eq => order == Ordering::Equal,
        Comparison::Ne => order != Ordering::Equal,
        Comparison::Lt => order == Ordering::Less,
        Comparison::Le => order != Ordering::Greater,
        Comparison::Gt => order == Ordering::Greater,
        Comparison::Ge => order != Ordering::Less,
    })
}

impl Condition {
    /// Checks a condition.
    ///
    /// # Errors
    /// `Invalid` with the servers' text.
    pub fn prepare(table: &Table, condition: &ast::Condition<'_>, context: &mut Context<'_>) -> Result<Condition> {
        let column = table.known_column(&condition.target.column.text)?;
        let index = table.columns().iter().position(|c| c.name == column.name).unwrap_or_default();
        if column.is_primary_key() {
            return Err(invalid(format!("PRIMARY KEY column '{}' cannot have IF conditions", column.name)));
        }
        if column.is_counter() {
            return Err(invalid("Conditions on counters are not supported"));
        }
        let whole = Receiver::column(table, column);
        let (part, receiver) = place(column, &condition.target.part, &whole, context)?;
        let test = test(&condition.test, &receiver, column, context)?;
        Ok(Condition { column: index, part, test })
    }

    /// Whether it holds for the value of the column; `None` is null.
    ///
    /// # Errors
    /// `Invalid` for bound values that can't be.
    pub fn holds(&self, column: &Column, value: Option<&[u8]>, env: &Env<'_>) -> Result<bool> {
        let part;
        let (value, of, is_cells) = match &self.part {
            Place::Whole => (value, &column.of.of, column.of.multicell),
            Place::Element(key) => {
                part = element(&column.of.of, value, key, env)?;
                let of = match &column.of.of {
                    Type::Map(kv) => &kv.1,
                    Type::List(element) => &**element,
                    other => other,
                };
                (part.as_deref(), of, false)
            }
            Place::Field(i) => {
                let Type::Udt(user) = &column.of.of else { return Ok(false) };
                let found = value.map(|v| split(&column.of.of, v)).transpose()?;
                part = found.and_then(|f| f.get(*i).copied().flatten().map(<[u8]>::to_vec));
                (part.as_deref(), &user.fields[*i].1, false)
            }
        };
        match &self.test {
            Test::Compare(comparison, term) => holds(*comparison, of, value, value_of(term, env, is_cells)?.as_deref()),
            Test::In(terms) => {
                for term in terms {
                    if holds(Comparison::Eq, of, value, value_of(term, env, is_cells)?.as_deref())? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::InMarker(term, list) => {
                let all = value_of(term, env, false)?.ok_or_else(|| invalid("Invalid null list in IN condition"))?;
                for wanted in split(list, &all)? {
                    if holds(Comparison::Eq, of, value, wanted)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::Contains(term) => contains(of, value, value_of(term, env, false)?.as_deref(), false),
            Test::ContainsKey(term) => contains(of, value, value_of(term, env, false)?.as_deref(), true),
        }
    }
}

fn place(column: &Column, part: &Part<'_>, whole: &Receiver, context: &mut Context<'_>) -> Result<(Place, Receiver)> {
    let name = &column.name;
    Ok(match (part, &column.of.of) {
        (Part::Whole, _) => (Place::Whole, whole.clone()),
        (Part::Element(key), Type::Map(kv)) => {
            let key = Term::prepare(key, &whole.other(format!("key({name})"), kv.0.clone()), context)?;
            (Place::Element(key), whole.other(format!("value({name})"), kv.1.clone()))
        }
        (Part::Element(key), Type::List(element)) => {
            let key = Term::prepare(key, &whole.other(format!("idx({name})"), Type::Int32), context)?;
            (Place::Element(key), whole.other(format!("value({name})"), (**element).clone()))
        }
        (Part::Element(_), Type::Set(_)) => {
            return Err(invalid(format!("Invalid element access syntax for set column {name}")));
        }
        (Part::Element(_), _) => {
            return Err(invalid(format!("Invalid element access syntax for non-collection column {name}")));
        }
        (Part::Field(field), Type::Udt(user)) => {
            let found = user.fields.iter().position(|f| f.0 == field.text);
            let i = found.ok_or_else(|| invalid(format!("Unknown field {field} for column {name}")))?;
            (Place::Field(i), whole.other(format!("{name}.{field}"), user.fields[i].1.clone()))
        }
        (Part::Field(field), _) => return Err(invalid(format!("Unknown field {field} for column {name}"))),
    })
}

fn test(test: &ast::Test<'_>, receiver: &Receiver, column: &Column, context: &mut Context<'_>) -> Result<Test> {
    Ok(match test {
        ast::Test::Compare(comparison, term) => {
            if receiver.of.of == Type::Duration && !matches!(comparison, Comparison::Eq | Comparison::Ne) {
                return Err(invalid(format!("Slice conditions ( {} ) are not supported on durations", comparison.sign())));
            }
            Test::Compare(*comparison, Term::prepare(term, receiver, context)?)
        }
        ast::Test::In(ast::Values::List(terms)) => {
            Test::In(terms.iter().map(|t| Term::prepare(t, receiver, context)).collect::<Result<_>>()?)
        }
        ast::Test::In(ast::Values::Marker(marker)) => {
            let list = Type::List(receiver.of.of.clone().into());
            let all = receiver.other(format!("in({})", receiver.name), list.clone());
            Test::InMarker(Term::prepare(marker, &all, context)?, list)
        }
        ast::Test::Contains(term) => {
            let element = match &column.of.of {
                Type::List(of) | Type::Set(of) => (**of).clone(),
                Type::Map(kv) => kv.1.clone(),
                _ => return Err(invalid(format!("Cannot use CONTAINS on non-collection column {}", column.name))),
            };
            Test::Contains(Term::prepare(term, &receiver.other(format!("value({})", column.name), element), context)?)
        }
        ast::Test::ContainsKey(term) => {
            let Type::Map(kv) = &column.of.of else {
                return Err(invalid(format!("Cannot use CONTAINS KEY on non-map column {}", column.name)));
            };
            let receiver = receiver.other(format!("key({})", column.name), kv.0.clone());
            Test::ContainsKey(Term::prepare(term, &receiver, context)?)
        }
    })
}

/// An element of a serialised map or list.
fn element(of: &Type, value: Option<&[u8]>, key: &Term, env: &Env<'_>) -> Result<Option<Vec<u8>>> {
    let what = if matches!(of, Type::Map(_)) { "map" } else { "list" };
    let key = value_of(key, env, false)?.ok_or_else(|| invalid(format!("Invalid null value for {what} element access")))?;
    let Some(value) = value else { return Ok(None) };
    let parts = split(of, value)?;
    let found = match of {
        Type::Map(kv) => {
            let pair = parts.chunks_exact(2).find(|p| p[0].is_some_and(|k| kv.0.compare(k, &key) == Ordering::Equal));
            pair.and_then(|p| p[1])
        }
        _ => {
            let index = <[u8; 4]>::try_from(&*key).map(i32::from_be_bytes).map_err(|_| invalid("Invalid list index"))?;
            usize::try_from(index).ok().and_then(|i| parts.get(i).copied().flatten())
        }
    };
    Ok(found.map(<[u8]>::to_vec))
}

fn contains(of: &Type, value: Option<&[u8]>, wanted: Option<&[u8]>, key: bool) -> Result<bool> {
    let wanted = wanted.ok_or_else(|| invalid(format!("Invalid comparison with null for operator \"{}\"", word(key))))?;
    let Some(value) = value else { return Ok(false) };
    let parts = split(of, value)?;
    let same = |of: &Type, part: Option<&[u8]>| part.is_some_and(|p| of.compare(p, wanted) == Ordering::Equal);
    Ok(match of {
        Type::Map(kv) if key => parts.iter().step_by(2).any(|p| same(&kv.0, *p)),
        Type::Map(kv) => parts.iter().skip(1).step_by(2).any(|p| same(&kv.1, *p)),
        Type::List(e) | Type::Set(e) => parts.iter().any(|p| same(e, *p)),
        _ => false,
    })
}

fn word(key: bool) -> &'static str {
    if key { "CONTAINS KEY" } else { "CONTAINS" }
}
