//! `IF …`: conditions of conditional changes.

use std::borrow::Cow;
use std::cmp::Ordering;

use firn_wide::Type;

use crate::catalog::{TableColumn, TableSchema, has_duration};
use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast::{self, Comparison, ConditionPart};
use crate::values::{BoundTerm, BoundValue, Context, EvalEnv, HeapBytes, Receiver, split};

/// A prepared condition on a column.
#[derive(Clone, Debug)]
pub(super) struct ChangeCondition {
    /// Index of the column in [`TableSchema::columns`].
    pub column: usize,
    part: ConditionPlace,
    test: ConditionTest,
}

#[derive(Clone, Debug)]
enum ConditionPlace {
    Whole,
    /// Element of a map or a list.
    Element(BoundTerm),
    Field(usize),
}

#[derive(Clone, Debug)]
enum ConditionTest {
    Compare(Comparison, BoundTerm),
    In(Vec<BoundTerm>),
    /// One marker for all values, a list of this type.
    InMarker(BoundTerm, Type),
    Contains(BoundTerm),
    ContainsKey(BoundTerm),
}

impl HeapBytes for ChangeCondition {
    fn heap_bytes(&self) -> usize {
        let part = match &self.part {
            ConditionPlace::Element(term) => term.heap_bytes(),
            ConditionPlace::Whole | ConditionPlace::Field(_) => 0,
        };
        part + match &self.test {
            ConditionTest::In(terms) => terms.heap_bytes(),
            ConditionTest::Compare(_, term)
            | ConditionTest::InMarker(term, _)
            | ConditionTest::Contains(term)
            | ConditionTest::ContainsKey(term) => term.heap_bytes(),
        }
    }
}

/// Returns the value that a test compares with.
fn value_of<'v>(term: &'v BoundTerm, env: &EvalEnv<'v>) -> Result<Option<Cow<'v, [u8]>>> {
    match term.value(env)? {
        BoundValue::Unset => Err(invalid("Invalid 'unset' value in condition")),
        BoundValue::Null => Ok(None),
        BoundValue::Bytes(bytes) => Ok(Some(bytes)),
    }
}

/// The tested expression.
struct Tested<'v> {
    of: &'v Type,
    value: Option<&'v [u8]>,
    /// Whether it is a multi-cell collection. Without elements it is null, so the empty collection
    /// equals null.
    is_cells: bool,
}

impl Tested<'_> {
    fn is(&self, comparison: Comparison, wanted: Option<&[u8]>) -> Result<bool> {
        let nothing = match (wanted, self.of) {
            (None, _) => Some("null"),
            (Some([0, 0, 0, 0]), Type::List(_)) if self.is_cells => Some("an empty list"),
            (Some([0, 0, 0, 0]), Type::Set(_)) if self.is_cells => Some("an empty set"),
            (Some([0, 0, 0, 0]), Type::Map(_)) if self.is_cells => Some("an empty map"),
            _ => None,
        };
        if let Some(nothing) = nothing {
            return match comparison {
                Comparison::Eq => Ok(self.value.is_none()),
                Comparison::Ne => Ok(self.value.is_some()),
                other => Err(invalid!(
                    "Invalid comparison with {nothing} for operator \"{}\"",
                    other.sign()
                )),
            };
        }
        let (Some(there), Some(wanted)) = (self.value, wanted) else {
            return Ok(comparison == Comparison::Ne);
        };
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

impl ChangeCondition {
    /// Prepares and checks a condition.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn prepare(
        table: &TableSchema,
        condition: &ast::Condition<'_>,
        context: &mut Context<'_>,
    ) -> Result<ChangeCondition> {
        let column = table.known_column(&condition.target.column.text)?;
        let index = table.columns().iter().position(|c| c.name == column.name).unwrap_or_default();
        bail_if!(column.is_counter(), "Conditions on counters are not supported");
        let whole = Receiver::column(table, column);
        let (part, receiver) = place(column, &condition.target.part, &whole, context)?;
        let test = test(&condition.test, &receiver, column, context)?;
        if column.is_primary_key() {
            bail!("PRIMARY KEY column '{}' cannot have IF conditions", column.name);
        }
        Ok(ChangeCondition { column: index, part, test })
    }

    /// Checks the values bound to it. Cassandra does this before it evaluates any condition.
    ///
    /// # Errors
    /// `Invalid` for bytes that are not a valid value.
    pub fn check(&self, env: &EvalEnv<'_>) -> Result<()> {
        let terms = match &self.test {
            ConditionTest::In(terms) => &terms[..],
            ConditionTest::Compare(_, term)
            | ConditionTest::InMarker(term, _)
            | ConditionTest::Contains(term)
            | ConditionTest::ContainsKey(term) => std::slice::from_ref(term),
        };
        terms.iter().try_for_each(|term| term.value(env).map(drop))
    }

    /// Reports whether the condition holds for the value of the column; `None` is null.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values.
    pub fn holds(
        &self,
        column: &TableColumn,
        value: Option<&[u8]>,
        env: &EvalEnv<'_>,
    ) -> Result<bool> {
        let part;
        let tested = match &self.part {
            ConditionPlace::Whole => Tested {
                of: &column.of.value_type,
                value,
                is_cells: column.of.multicell && column.of.is_collection(),
            },
            ConditionPlace::Element(key) => {
                part = element(&column.of.value_type, value, key, env)?;
                let of = match &column.of.value_type {
                    Type::Map(kv) => &kv.1,
                    Type::List(element) => &**element,
                    other => other,
                };
                Tested { of, value: part.as_deref(), is_cells: false }
            }
            ConditionPlace::Field(i) => {
                let Type::Udt(user) = &column.of.value_type else { return Ok(false) };
                let found = value.map(|v| split(&column.of.value_type, v)).transpose()?;
                part = found.and_then(|f| f.get(*i).copied().flatten().map(<[u8]>::to_vec));
                Tested { of: &user.fields[*i].1, value: part.as_deref(), is_cells: false }
            }
        };
        match &self.test {
            ConditionTest::Compare(comparison, term) => {
                tested.is(*comparison, value_of(term, env)?.as_deref())
            }
            ConditionTest::In(terms) => {
                for term in terms {
                    let is = match term.value(env)? {
                        BoundValue::Unset => false,
                        BoundValue::Null => tested.is(Comparison::Eq, None)?,
                        BoundValue::Bytes(bytes) => tested.is(Comparison::Eq, Some(&bytes))?,
                    };
                    if is {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            ConditionTest::InMarker(term, list) => {
                let all = value_of(term, env)?
                    .ok_or_else(|| invalid("Invalid null list in IN condition"))?;
                for wanted in split(list, &all)? {
                    if tested.is(Comparison::Eq, wanted)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            ConditionTest::Contains(term) => contains(&tested, term.value(env)?, false),
            ConditionTest::ContainsKey(term) => contains(&tested, term.value(env)?, true),
        }
    }
}

fn place(
    column: &TableColumn,
    part: &ConditionPart<'_>,
    whole: &Receiver,
    context: &mut Context<'_>,
) -> Result<(ConditionPlace, Receiver)> {
    let name = &column.name;
    Ok(match (part, &column.of.value_type) {
        (ConditionPart::Whole, _) => (ConditionPlace::Whole, whole.clone()),
        (ConditionPart::Element(key), Type::Map(kv)) => {
            let key = BoundTerm::prepare(key, &whole.key(&kv.0), context)?;
            (ConditionPlace::Element(key), whole.value(&kv.1))
        }
        (ConditionPart::Element(key), Type::List(element)) => {
            let key = BoundTerm::prepare(key, &whole.index(), context)?;
            (ConditionPlace::Element(key), whole.value(element))
        }
        (ConditionPart::Element(_), Type::Set(_)) => {
            bail!("Invalid element access syntax for set column {name}");
        }
        (ConditionPart::Element(_), _) => {
            bail!("Invalid element access syntax for non-collection column {name}");
        }
        (ConditionPart::Field(field), Type::Udt(user)) => {
            let found = user.fields.iter().position(|f| f.0 == field.text);
            let i = found.ok_or_else(|| invalid!("Unknown field {field} for column {name}"))?;
            (
                ConditionPlace::Field(i),
                whole.other(format!("{name}.{field}"), user.fields[i].1.clone()),
            )
        }
        (ConditionPart::Field(_), _) => {
            bail!("Invalid field access syntax for non-UDT column {name}");
        }
    })
}

/// Refuses order comparisons of durations, which have no order.
fn refuse_durations(of: &Type, comparison: Comparison) -> Result<()> {
    if matches!(comparison, Comparison::Eq | Comparison::Ne) || !has_duration(of) {
        return Ok(());
    }
    let within = match of {
        Type::List(_) | Type::Set(_) | Type::Map(_) => "collections",
        Type::Tuple(_) => "tuples",
        Type::Udt(_) => "UDTs",
        _ => {
            bail!("Slice conditions ( {} ) are not supported on durations", comparison.sign());
        }
    };
    Err(invalid!("Slice conditions are not supported on {within} containing durations"))
}

fn test(
    test: &ast::ChangeTest<'_>,
    receiver: &Receiver,
    column: &TableColumn,
    context: &mut Context<'_>,
) -> Result<ConditionTest> {
    Ok(match test {
        ast::ChangeTest::Compare(comparison, term) => {
            refuse_durations(&receiver.of.value_type, *comparison)?;
            ConditionTest::Compare(*comparison, BoundTerm::prepare(term, receiver, context)?)
        }
        ast::ChangeTest::In(ast::InsertValues::List(terms)) => ConditionTest::In(
            terms
                .iter()
                .map(|t| BoundTerm::prepare(t, receiver, context))
                .collect::<Result<_>>()?,
        ),
        ast::ChangeTest::In(ast::InsertValues::Marker(marker)) => {
            let list = Type::List(receiver.of.value_type.clone().into());
            let all = receiver.other(format!("in({})", receiver.name), list.clone());
            ConditionTest::InMarker(BoundTerm::prepare(marker, &all, context)?, list)
        }
        ast::ChangeTest::Contains(term) => {
            let element = match &column.of.value_type {
                Type::List(of) | Type::Set(of) => (**of).clone(),
                Type::Map(kv) => kv.1.clone(),
                _ => {
                    bail!("Cannot use CONTAINS on non-collection column {}", column.name);
                }
            };
            ConditionTest::Contains(BoundTerm::prepare(
                term,
                &receiver.other(format!("value({})", column.name), element),
                context,
            )?)
        }
        ast::ChangeTest::ContainsKey(term) => {
            let Type::Map(kv) = &column.of.value_type else {
                bail!("Cannot use CONTAINS KEY on non-map column {}", column.name);
            };
            let receiver = receiver.other(format!("key({})", column.name), kv.0.clone());
            ConditionTest::ContainsKey(BoundTerm::prepare(term, &receiver, context)?)
        }
    })
}

/// Returns an element of a serialised map or list.
fn element(
    of: &Type,
    value: Option<&[u8]>,
    key: &BoundTerm,
    env: &EvalEnv<'_>,
) -> Result<Option<Vec<u8>>> {
    let what = if matches!(of, Type::Map(_)) { "map" } else { "list" };
    let key = match key.value(env)? {
        BoundValue::Bytes(bytes) => bytes,
        BoundValue::Null => {
            bail!("Invalid null value for {what} element access");
        }
        // A map has no element at an unset key.
        BoundValue::Unset if matches!(of, Type::Map(_)) => return Ok(None),
        BoundValue::Unset => bail!("Invalid 'unset' value in condition"),
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
                .map_err(|_| invalid!("Invalid negative list index {index}"))?;
            parts.get(i).copied().flatten()
        }
    };
    Ok(found.map(<[u8]>::to_vec))
}

fn contains(tested: &Tested<'_>, wanted: BoundValue<Cow<'_, [u8]>>, key: bool) -> Result<bool> {
    let wanted: &[u8] = match &wanted {
        BoundValue::Bytes(bytes) => bytes,
        BoundValue::Null => {
            bail!("Invalid comparison with null for operator \"{}\"", word(key));
        }
        // An unset value is in no collection.
        BoundValue::Unset => return Ok(false),
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
