//! Resolves selectors: finds types, assigns slots to columns, and names result columns as Cassandra
//! does (model 3.4).

use std::sync::Arc;

use firn_wide::Type;

use super::fold::{RowFold, UserFold};
use super::infer::{
    SelectorTypes, aggregate_of, column_within, key_and_value, term_of, type_of_times,
};
use super::selection::{Aggregate, ColumnSlot, OutputColumn, RowSelection, SelectionNode};
use crate::catalog::{
    ColumnKind, ColumnType, Resource, Signature, StoredAggregate, TableColumn, TableSchema,
    native_type,
};
use crate::error::{Result, bail, invalid};
use crate::syntax::ast::{
    self, About, AstName, FunctionCall, Operator, Selected, Selector, SelectorKind,
    SelectorPrimary, TermKind, TermPrimary,
};
use crate::values::aggregate::AggregateKind;
use crate::values::function;
use crate::values::vector::check_count;
use crate::values::{
    BoundTerm, Callee, Context, MaskCall, Receiver, ambiguous, is_assignable, is_marker, own_type,
    user_function,
};

/// A resolved selector.
struct Resolved {
    node: SelectionNode,
    of: ColumnType,
    name: String,
}

/// Prepares the selection of a statement.
pub struct Preparer<'a, 'c> {
    table: &'a TableSchema,
    context: &'a mut Context<'c>,
    places: Vec<Option<ColumnSlot>>,
    /// Columns that have slots, in their order.
    wanted: Vec<usize>,
    /// Indexes of the selected columns, in order of appearance.
    pub requested: Vec<usize>,
    terms: Vec<BoundTerm>,
    aggregates: Vec<Aggregate>,
    in_aggregate: bool,
    /// Whether write times or TTLs are selected.
    pub asks_times: bool,
}

impl<'a, 'c> Preparer<'a, 'c> {
    /// Creates a preparer for a statement on this table.
    pub fn new(table: &'a TableSchema, context: &'a mut Context<'c>) -> Preparer<'a, 'c> {
        Preparer {
            table,
            context,
            places: vec![None; table.columns().len()],
            wanted: vec![],
            requested: vec![],
            terms: vec![],
            aggregates: vec![],
            in_aggregate: false,
            asks_times: false,
        }
    }

    /// Returns the place of the column with this index, and assigns one if it has none.
    pub fn want(&mut self, column: usize) -> ColumnSlot {
        if let Some(place) = self.places[column] {
            return place;
        }
        let found = &self.table.columns()[column];
        let slot = self.wanted.len();
        let place = match found.kind {
            ColumnKind::Partition => ColumnSlot::Key(found.position),
            ColumnKind::Clustering => ColumnSlot::Clustering(found.position),
            ColumnKind::Static => ColumnSlot::Static(slot),
            ColumnKind::Regular => ColumnSlot::Regular(slot),
        };
        if !found.is_primary_key() {
            self.wanted.push(column);
        }
        self.places[column] = Some(place);
        place
    }

    /// Prepares the selectors; none means `*`.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn outputs(&mut self, selection: &[Selected<'_>]) -> Result<Vec<OutputColumn>> {
        if selection.is_empty() {
            let all = 0..self.table.columns().len();
            return all
                .map(|i| self.select(i))
                .map(|k| k.map(|k| OutputColumn { node: k.node, of: k.of, name: k.name }))
                .collect();
        }
        let mut outputs = vec![];
        for selected in selection {
            let known = self.selector(&selected.selector, None)?;
            let name = selected.alias.as_ref().map_or(known.name, |a| a.text.to_string());
            outputs.push(OutputColumn { node: known.node, of: known.of, name });
        }
        Ok(outputs)
    }

    /// Returns the prepared selection, and the columns that have slots.
    pub fn finish(self, outputs: Vec<OutputColumn>) -> (RowSelection, Vec<usize>) {
        let Preparer { places, wanted, terms, aggregates, .. } = self;
        (RowSelection { outputs, terms, aggregates, places }, wanted)
    }

    fn select(&mut self, column: usize) -> Result<Resolved> {
        if !self.requested.contains(&column) {
            self.requested.push(column);
        }
        let found = &self.table.columns()[column];
        let mask = found.mask.as_ref().map(|mask| MaskCall::new(mask, self.context)).transpose()?;
        let place = self.want(column);
        let node = match mask {
            Some(mask) => SelectionNode::Masked(place, Arc::new(mask)),
            None => SelectionNode::Column(place),
        };
        Ok(Resolved { node, of: found.of.clone(), name: found.name.clone() })
    }

    fn number(&self, name: &AstName<'_>) -> Result<usize> {
        let column: *const TableColumn = self.table.known_column(&name.text)?;
        let at = self.table.columns().iter().position(|c| std::ptr::eq(c, column));
        at.ok_or_else(|| invalid!("Undefined column name {name}"))
    }

    fn term(&mut self, term: &ast::Term<'_>, name: &str, of: Type) -> Result<usize> {
        let receiver = Receiver::new(self.table, name, of);
        self.terms.push(BoundTerm::prepare(term, &receiver, self.context)?);
        Ok(self.terms.len() - 1)
    }

    fn types(&self) -> SelectorTypes<'_, 'c> {
        SelectorTypes { table: self.table, context: self.context }
    }

    fn selector(&mut self, selector: &Selector<'_>, wanted: Option<&Type>) -> Result<Resolved> {
        Ok(match &selector.kind {
            SelectorKind::Primary(primary) => self.primary(primary, wanted)?,
            SelectorKind::Call(call) => self.call(call, wanted)?,
            SelectorKind::Cast(inner, to) => {
                let inner = self.selector(inner, None)?;
                let to_type = native_type(*to);
                if inner.of.value_type == to_type {
                    return Ok(inner);
                }
                let function = function::cast(&inner.of.value_type, &to_type);
                let function = function.map_err(|_| {
                    invalid!("{} cannot be cast to {}", inner.name, to_type.cql_name())
                })?;
                let name = format!("cast({} as {})", inner.name, to_type.cql_name());
                frozen(SelectionNode::Call(Arc::new(function), vec![inner.node]), to_type, name)
            }
            SelectorKind::Hint(hint) => {
                let (of, inner) = &**hint;
                let of = self.context.catalog.resolve_type(self.context.keyspace, of)?.value_type;
                let known = self.selector(inner, Some(&of))?;
                if !function::is_value_of(&known.of.value_type, &of) {
                    let (shown, name) = (of.cql_name(), &known.name);
                    bail!("Cannot assign value ({shown}){name} to ({shown}){name} of type {shown}");
                }
                let name = format!("({}){}", hint.0, known.name);
                frozen(known.node, of, name)
            }
            SelectorKind::List(_)
            | SelectorKind::Set(_)
            | SelectorKind::Map(_)
            | SelectorKind::Tuple(_) => self.many(selector, wanted)?,
            SelectorKind::Negate(inner) => {
                if term_of(inner).is_some_and(is_marker) {
                    bail!("Ambiguous negation: use type casts to disambiguate");
                }
                let of = self.types().type_of(inner).or_else(|| wanted.cloned());
                let known = self.selector(inner, of.as_ref())?;
                let function = function::negate(&known.of.value_type)?;
                let name = format!("-{}", known.name);
                frozen(
                    SelectionNode::Call(Arc::new(function), vec![known.node]),
                    known.of.value_type,
                    name,
                )
            }
            SelectorKind::Binary(binary) => {
                let (left, right) = self.sides(binary.operator, &binary.left, &binary.right)?;
                let function = function::arithmetic(
                    binary.operator,
                    &left.of.value_type,
                    &right.of.value_type,
                )
                .ok_or_else(|| function::unsupported(binary.operator, &left.name, &right.name))?;
                let (of, name) = (
                    function.result.clone(),
                    format!("{} {} {}", left.name, binary.operator.sign(), right.name),
                );
                frozen(
                    SelectionNode::Call(Arc::new(function), vec![left.node, right.node]),
                    of,
                    name,
                )
            }
        })
    }

    fn primary(
        &mut self,
        primary: &SelectorPrimary<'_>,
        wanted: Option<&Type>,
    ) -> Result<Resolved> {
        Ok(match primary {
            SelectorPrimary::Column(name) => {
                let column = self.number(name)?;
                self.select(column)?
            }
            SelectorPrimary::Term(term) => {
                let constant = is_constant(term) && self.in_aggregate;
                let own = if constant { own_type(term, self.context) } else { None };
                let of = wanted.cloned().or(own).ok_or_else(|| unknown_type(term))?;
                frozen(
                    SelectionNode::Term(self.term(term, "[selection]", of.clone())?),
                    of,
                    term.to_string(),
                )
            }
            SelectorPrimary::CountRows => self.aggregate(AggregateKind::CountRows, &[])?,
            SelectorPrimary::About(about, of) => self.about(*about, of)?,
            SelectorPrimary::Field(field) => self.field(&field.0, &field.1)?,
            SelectorPrimary::Element(element) => {
                let of = self.collection(&element.0, "Element")?;
                let (key, result) = key_and_value(&of.of.value_type);
                let term =
                    self.term(&element.1, &element_name(&of.of.value_type, &of.name), key)?;
                let name = format!("{}[{}]", of.name, element.1);
                frozen(
                    SelectionNode::Element(Box::new(of.node), of.of.value_type, of.name, term),
                    result,
                    name,
                )
            }
            SelectorPrimary::Slice(slice) => {
                let (of, from, to) = &**slice;
                let of = self.collection(of, "Slice")?;
                let (key, _) = key_and_value(&of.of.value_type);
                let shown = |t: &Option<ast::Term<'_>>| {
                    t.as_ref().map_or(String::new(), ToString::to_string)
                };
                let name = format!("{}[{}..{}]", of.name, shown(from), shown(to));
                let mut side = |t: &Option<ast::Term<'_>>| {
                    t.as_ref()
                        .map(|t| {
                            self.term(t, &element_name(&of.of.value_type, &of.name), key.clone())
                        })
                        .transpose()
                };
                let (from, to) = (side(from)?, side(to)?);
                let node = SelectionNode::Slice {
                    of: Box::new(of.node),
                    collection: of.of.clone(),
                    name: of.name,
                    ends: [from, to],
                };
                Resolved { node, of: of.of, name }
            }
        })
    }

    /// Resolves both sides of an operator. A constant keeps its own type; if it has none, the
    /// expression is ambiguous.
    fn sides(
        &mut self,
        operator: Operator,
        left: &Selector<'_>,
        right: &Selector<'_>,
    ) -> Result<(Resolved, Resolved)> {
        let is_open = |term: &ast::Term<'_>| {
            is_marker(term) || matches!(term.kind, TermKind::Primary(TermPrimary::Null))
        };
        if [left, right].iter().any(|side| term_of(side).is_some_and(is_open)) {
            return Err(ambiguous(operator, left, right));
        }
        let (lt, rt) = (self.types().operand_type(left), self.types().operand_type(right));
        Ok((self.selector(left, lt.as_ref())?, self.selector(right, rt.as_ref())?))
    }

    fn call(
        &mut self,
        call: &FunctionCall<'_, Selector<'_>>,
        wanted: Option<&Type>,
    ) -> Result<Resolved> {
        if let Some(kind) = aggregate_of(call) {
            return self.aggregate(kind, &call.arguments);
        }
        let function = match self.types().callee(call, wanted)? {
            Callee::Function(function) => function,
            Callee::Aggregate(aggregate) => return self.user_aggregate(&aggregate, call),
        };
        self.context.calls.extend(function.resource.clone());
        let (nodes, name) = self.arguments(&function.name, &function.arguments, call)?;
        let of = ColumnType::frozen(function.result.clone());
        Ok(Resolved { node: SelectionNode::Call(Arc::new(function), nodes), of, name })
    }

    /// Resolves the arguments of a call, and returns them with the name of its column.
    fn arguments(
        &mut self,
        function: &str,
        types: &[Type],
        call: &FunctionCall<'_, Selector<'_>>,
    ) -> Result<(Vec<SelectionNode>, String)> {
        let (mut nodes, mut names) = (vec![], vec![]);
        for (i, (argument, of)) in call.arguments.iter().zip(types).enumerate() {
            if let Some(term) = term_of(argument)
                && !is_assignable(term, of, self.context)
            {
                return Err(function::wrong_argument(function, i, of, term));
            }
            let known = self.selector(argument, Some(of))?;
            if !function::is_value_of(&known.of.value_type, of) {
                let own = (&known.name as &dyn std::fmt::Display, &known.of.value_type);
                return Err(function::mistyped_argument(function, i, of, own));
            }
            nodes.push(known.node);
            names.push(known.name);
        }
        Ok((nodes, format!("{function}({})", names.join(", "))))
    }

    /// Resolves a call of a user-defined aggregate.
    fn user_aggregate(
        &mut self,
        aggregate: &StoredAggregate,
        call: &FunctionCall<'_, Selector<'_>>,
    ) -> Result<Resolved> {
        if self.in_aggregate {
            return Err(nested_aggregate());
        }
        let types: Vec<Type> = aggregate.arguments.iter().map(|of| of.value_type.clone()).collect();
        let shown = format!("{}.{}", aggregate.keyspace, aggregate.name);
        self.in_aggregate = true;
        let prepared = self.arguments(&shown, &types, call);
        self.in_aggregate = false;
        let (arguments, name) = prepared?;
        let home = self.context.catalog.keyspace(&aggregate.keyspace);
        let function = |key: &Signature| {
            let found = home.and_then(|home| home.function(key));
            found.ok_or_else(|| invalid!("Unknown function '{}'", key.0))
        };
        let step = function(&aggregate.state_signature())?;
        let finish = aggregate.final_signature().map(|key| function(&key)).transpose()?;
        let fold = UserFold {
            name: shown,
            called_on_null: step.called_on_null,
            step: user_function(step),
            finish: finish.map(user_function),
            initial: aggregate.initial.clone(),
        };
        let (own, types) = aggregate.signature();
        let own = Resource::Function(aggregate.keyspace.clone(), own, types);
        self.context.calls.push(own);
        self.context.calls.extend(fold.step.resource.clone());
        self.context.calls.extend(fold.finish.as_ref().and_then(|f| f.resource.clone()));
        self.aggregates.push(Aggregate { fold: RowFold::User(Box::new(fold)), arguments });
        Ok(frozen(
            SelectionNode::Aggregate(self.aggregates.len() - 1),
            aggregate.result.value_type.clone(),
            name,
        ))
    }

    fn aggregate(&mut self, kind: AggregateKind, arguments: &[Selector<'_>]) -> Result<Resolved> {
        if self.in_aggregate {
            return Err(nested_aggregate());
        }
        let mut argument = None;
        if kind != AggregateKind::CountRows {
            let [only] = arguments else {
                let text = "Invalid number of arguments in call to function";
                bail!("{text} system.{}: 1 required but {} provided", kind.name(), arguments.len());
            };
            // `count(1)` counts rows.
            if kind == AggregateKind::Count && term_of(only).is_some_and(is_constant) {
                return self.aggregate(AggregateKind::CountRows, &[]);
            }
            self.in_aggregate = true;
            let known = self.selector(only, None);
            self.in_aggregate = false;
            argument = Some(known?);
        }
        let of = argument.as_ref().map_or(Type::Long, |a| a.of.value_type.clone());
        let result = kind.result(&of)?;
        let name = match &argument {
            Some(argument) => format!("system.{}({})", kind.name(), argument.name),
            None => "count".to_owned(),
        };
        let arguments = argument.map(|a| a.node).into_iter().collect();
        self.aggregates.push(Aggregate { fold: RowFold::Native(kind, of), arguments });
        Ok(frozen(SelectionNode::Aggregate(self.aggregates.len() - 1), result, name))
    }

    fn about(&mut self, about: About, of: &Selector<'_>) -> Result<Resolved> {
        let table = self.table;
        let found = &table.columns()[self.number(column_within(of)?)?];
        if found.is_primary_key() {
            bail!("Cannot use selection function {about} on PRIMARY KEY part {}", found.name);
        }
        self.asks_times = true;
        let known = self.selector(of, None)?;
        let name = format!("{about}({})", known.name);
        let of = type_of_times(about, known.of.multicell);
        let node = Box::new(known.node);
        Ok(frozen(SelectionNode::Times { about, of: node, parts: found.of.multicell }, of, name))
    }

    fn field(&mut self, of: &Selector<'_>, field: &AstName<'_>) -> Result<Resolved> {
        let of = self.selector(of, None)?;
        let Type::Udt(udt) = &of.of.value_type else {
            bail!("Invalid field selection: {} of type {} is not a user type", of.name, of.of);
        };
        let Some(at) = udt.fields.iter().position(|f| f.0 == field.text) else {
            bail!("{} of type {} has no field {field}", of.name, of.of);
        };
        let (result, name) = (udt.fields[at].1.clone(), format!("{}.{}", of.name, field.text));
        Ok(frozen(SelectionNode::Field(Box::new(of.node), of.of.value_type, at), result, name))
    }

    fn collection(&mut self, of: &Selector<'_>, word: &str) -> Result<Resolved> {
        let known = self.selector(of, None)?;
        match known.of.value_type {
            Type::Map(_) | Type::Set(_) => Ok(known),
            Type::List(_) => Err(invalid!(
                "{word} selection is only allowed on sets and maps, but {} is a list",
                known.name
            )),
            _ => {
                let (name, of) = (known.name, &known.of);
                Err(invalid(match word {
                    "Element" => format!(
                        "Invalid element selection: {name} is of type {of} is not a collection"
                    ),
                    _ => {
                        format!("Invalid slice selection: {name} of type {of} is not a collection")
                    }
                }))
            }
        }
    }

    /// Resolves a collection, tuple or user type of selectors.
    fn many(&mut self, selector: &Selector<'_>, wanted: Option<&Type>) -> Result<Resolved> {
        let unknown = || unknown_type(selector);
        let (items, types, brackets, of): (Vec<&Selector<'_>>, Vec<Type>, [&str; 2], Type) =
            match (&selector.kind, wanted) {
                (SelectorKind::Tuple(items), w)
                    if items.len() == 1 && !matches!(w, Some(Type::Tuple(_))) =>
                {
                    let known = self.selector(&items[0], wanted)?;
                    return Ok(Resolved { name: format!("({})", known.name), ..known });
                }
                (SelectorKind::Tuple(items), _) => {
                    let own = |(i, s): (usize, &Selector<'_>)| match wanted {
                        Some(Type::Tuple(types)) => types.get(i).cloned(),
                        _ => self.types().type_of(s),
                    };
                    let types: Option<Vec<_>> = items.iter().enumerate().map(own).collect();
                    let types = types.ok_or_else(unknown)?;
                    let of = match wanted {
                        Some(of @ Type::Tuple(_)) => of.clone(),
                        _ => Type::Tuple(types.clone().into()),
                    };
                    (items.iter().collect(), types, ["(", ")"], of)
                }
                (SelectorKind::Set(items), Some(of @ Type::Map(_))) if items.is_empty() => {
                    (vec![], vec![], ["{", "}"], of.clone())
                }
                (SelectorKind::List(items), Some(of @ Type::Vector(element, _))) => {
                    check_count("[selection]", of, items.len())?;
                    let types = vec![(**element).clone(); items.len()];
                    (items.iter().collect(), types, ["[", "]"], of.clone())
                }
                (SelectorKind::List(items) | SelectorKind::Set(items), _) => {
                    let is_list = matches!(selector.kind, SelectorKind::List(_));
                    let element = match wanted {
                        Some(Type::List(e)) if is_list => Some((**e).clone()),
                        Some(Type::Set(e)) if !is_list => Some((**e).clone()),
                        _ => items.iter().find_map(|i| self.types().type_of(i)),
                    };
                    let element = element.ok_or_else(unknown)?;
                    let (of, brackets) = match is_list {
                        true => (Type::List(Arc::new(element.clone())), ["[", "]"]),
                        false => (Type::Set(Arc::new(element.clone())), ["{", "}"]),
                    };
                    (items.iter().collect(), vec![element; items.len()], brackets, of)
                }
                (SelectorKind::Map(pairs), Some(Type::Udt(udt))) => return self.user(pairs, udt),
                (SelectorKind::Map(pairs), _) => {
                    let (key, value) = match wanted {
                        Some(Type::Map(kv)) => (Some(kv.0.clone()), Some(kv.1.clone())),
                        _ => (
                            pairs.iter().find_map(|p| self.types().type_of(&p.0)),
                            pairs.iter().find_map(|p| self.types().type_of(&p.1)),
                        ),
                    };
                    let (key, value) = (key.ok_or_else(unknown)?, value.ok_or_else(unknown)?);
                    let of = Type::Map(Arc::new((key.clone(), value.clone())));
                    let types = pairs.iter().flat_map(|_| [key.clone(), value.clone()]).collect();
                    (pairs.iter().flat_map(|p| [&p.0, &p.1]).collect(), types, ["{", "}"], of)
                }
                _ => return Err(unknown()),
            };
        let (mut nodes, mut names) = (vec![], vec![]);
        for (item, of) in items.into_iter().zip(&types) {
            let known = self.selector(item, Some(of))?;
            if !function::is_value_of(&known.of.value_type, of) {
                bail!("Invalid literal: {} is not of type {}", known.name, of.cql_name());
            }
            nodes.push(known.node);
            names.push(known.name);
        }
        let inside = match of {
            Type::Map(_) => names
                .chunks_exact(2)
                .map(|p| format!("{}: {}", p[0], p[1]))
                .collect::<Vec<_>>()
                .join(", "),
            _ => names.join(", "),
        };
        let name = format!("{}{inside}{}", brackets[0], brackets[1]);
        Ok(frozen(SelectionNode::Many(of.clone(), nodes), of, name))
    }

    /// Resolves `{field: selector, …}` as a user type.
    fn user(
        &mut self,
        pairs: &[(Selector<'_>, Selector<'_>)],
        udt: &Arc<firn_wide::UserType>,
    ) -> Result<Resolved> {
        let mut values: Vec<Option<Resolved>> = udt.fields.iter().map(|_| None).collect();
        let mut names = vec![];
        for (field, value) in pairs {
            let SelectorKind::Primary(SelectorPrimary::Column(name)) = &field.kind else {
                return Err(unknown_type(field));
            };
            let Some(at) = udt.fields.iter().position(|f| f.0 == name.text) else {
                bail!("Unknown field '{name}' in value of user defined type {}", udt.name);
            };
            let known = self.selector(value, Some(&udt.fields[at].1))?;
            names.push(format!("{name}: {}", known.name));
            values[at] = Some(known);
        }
        let mut nodes = vec![];
        for value in values {
            nodes.push(match value {
                Some(known) => known.node,
                None => {
                    self.terms.push(BoundTerm::Constant(None));
                    SelectionNode::Term(self.terms.len() - 1)
                }
            });
        }
        let of = Type::Udt(udt.clone());
        let name = format!("{{{}}}", names.join(", "));
        Ok(frozen(SelectionNode::Many(of.clone(), nodes), of, name))
    }
}

fn nested_aggregate() -> crate::error::Error {
    invalid("aggregate functions cannot be used as arguments of aggregate functions")
}

fn frozen(node: SelectionNode, of: Type, name: String) -> Resolved {
    Resolved { node, of: ColumnType::frozen(of), name }
}

fn is_constant(term: &ast::Term<'_>) -> bool {
    matches!(term.kind, TermKind::Primary(TermPrimary::Constant(_)))
}

fn unknown_type(what: &impl std::fmt::Display) -> crate::error::Error {
    invalid!(
        "Cannot infer type for term {what} in selection clause (try using a cast to force a type)"
    )
}

/// Returns the name of the marker for a map key or a set element.
fn element_name(of: &Type, column: &str) -> String {
    format!("{}({column})", if matches!(of, Type::Set(_)) { "value" } else { "key" })
}
