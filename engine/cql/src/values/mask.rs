//! Column masks: resolves the function and arguments of a definition, and applies them to values.

use firn_wide::Type;

use super::aggregate::AggregateKind;
use super::call::{ArgumentFit, CallArguments};
use super::function::{Function, is_value_of, wrong_argument};
use super::infer::{is_assignable, own_type, term_fit};
use super::term::BoundTerm;
use super::user::{Callee, find_callee, user_function};
use super::{Context, EvalEnv, Receiver};
use crate::catalog::{ColumnMask, ColumnType, Resource, TableColumn, TableSchema};
use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast::{AstName, MaskSyntax, Pos, QualifiedName};

/// Resolves the mask of a column in a definition.
///
/// # Errors
/// `Invalid` for a function that is not a mask function, or not applicable to the column.
pub fn column_mask(
    mask: &MaskSyntax<'_>,
    table: &TableSchema,
    column: &TableColumn,
    env: &EvalEnv<'_>,
    context: &mut Context<'_>,
) -> Result<ColumnMask> {
    let arguments: Vec<String> = mask.arguments.iter().map(ToString::to_string).collect();
    let shown = format!("{}({})", mask.function, arguments.join(", "));
    let not_for_masks =
        |what: &str| invalid!("{what} function {shown} cannot be used for masking table columns");
    let is_own = mask.function.keyspace.as_ref().is_none_or(|k| k.text == "system");
    if is_own && AggregateKind::named(&mask.function.name.text.to_ascii_lowercase()).is_some() {
        return Err(not_for_masks("Aggregate"));
    }
    let function = match lookup(mask, &column.of.value_type, context)? {
        None => {
            bail!(
                "Unable to find masking function for {}, no declared function matches the signature {shown}",
                column.name
            );
        }
        Some(Callee::Aggregate(_)) => return Err(not_for_masks("Aggregate")),
        Some(Callee::Function(function)) => function,
    };
    let (keyspace, name) = function.name.split_once('.').unwrap_or(("system", &function.name));
    if function.resource.is_none() && !name.starts_with("mask_") {
        return Err(not_for_masks("Not-masking"));
    }
    if let Some(first) = function.arguments.first()
        && !is_value_of(&column.of.value_type, first)
    {
        return Err(wrong_argument(&function.name, 0, first, &column.of.value_type.full_name()));
    }
    let (types, result) = signature(&function, column, context);
    bail_if!(
        result != column.of,
        "Masking function {shown} return type is {result}. This is different to the type of the masked column {} of type {}. Masking \
             functions can only be attached to table columns if they return the same data type as the masked column.",
        column.name,
        column.of
    );
    let mut values = vec![];
    for (i, (term, of)) in mask.arguments.iter().zip(&function.arguments[1..]).enumerate() {
        if !is_assignable(term, of, context) {
            return Err(wrong_argument(&function.name, i + 1, of, term));
        }
        let receiver = Receiver::new(table, &column.name, of.clone());
        let value = BoundTerm::prepare(term, &receiver, context)?.eval(env)?;
        values.push(value.into_bytes());
    }
    Ok(ColumnMask { keyspace: keyspace.to_owned(), name: name.to_owned(), types, values })
}

/// Resolves a mask's function; returns `None` if there is none with this name.
fn lookup(mask: &MaskSyntax<'_>, of: &Type, context: &Context<'_>) -> Result<Option<Callee>> {
    let mut types = vec![Some(of.clone())];
    types.extend(mask.arguments.iter().map(|term| own_type(term, context)));
    let shown = |i: usize| match i.checked_sub(1).and_then(|i| mask.arguments.get(i)) {
        Some(term) => term.to_string(),
        None => of.full_name(),
    };
    let fit = |i: usize, wanted: &Type| {
        let own = types.get(i).and_then(Option::as_ref);
        match i.checked_sub(1).and_then(|i| mask.arguments.get(i)) {
            Some(term) => term_fit(term, own, wanted, context),
            None => ArgumentFit::of(own, wanted),
        }
    };
    let arguments = CallArguments { types: &types, shown: &shown, fit: &fit };
    let unknown = super::function::unknown(&mask.function).to_string();
    match find_callee(&mask.function, &arguments, None, context) {
        Err(e) if e.to_string() == unknown => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the types of a function's arguments, and of its result for this column. Native functions
/// return the type of their argument.
fn signature(
    function: &Function,
    column: &TableColumn,
    context: &Context<'_>,
) -> (Vec<ColumnType>, ColumnType) {
    let stored = match &function.resource {
        Some(Resource::Function(keyspace, name, types)) => {
            let home = context.catalog.keyspace(keyspace);
            home.and_then(|home| home.function(&(name.clone(), types.clone())))
        }
        _ => None,
    };
    if let Some(stored) = stored {
        return (stored.arguments.clone(), stored.result.clone());
    }
    let of = |of: &Type| {
        let multicell = matches!(of, Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Udt(_));
        ColumnType { value_type: of.clone(), multicell }
    };
    let types = function.arguments.iter().map(of).collect();
    match function.result == column.of.value_type {
        true => (types, column.of.clone()),
        false => (types, of(&function.result)),
    }
}

/// A resolved mask.
#[derive(Debug)]
pub struct MaskCall {
    function: Function,
    values: Vec<Option<Vec<u8>>>,
}

impl MaskCall {
    /// Resolves a stored mask.
    ///
    /// # Errors
    /// `Invalid` if the function does not exist.
    pub fn new(mask: &ColumnMask, context: &Context<'_>) -> Result<MaskCall> {
        let values = mask.values.clone();
        if let Some(home) = context.catalog.keyspace(&mask.keyspace)
            && let Some(stored) = home.function(&mask.signature())
        {
            return Ok(MaskCall { function: user_function(stored), values });
        }
        let [keyspace, name] = [&mask.keyspace, &mask.name]
            .map(|text| AstName { text: text.as_str().into(), at: Pos(0) });
        let name = QualifiedName { keyspace: Some(keyspace), name };
        let types: Vec<Option<Type>> =
            mask.types.iter().map(|of| Some(of.value_type.clone())).collect();
        let shown = |i: usize| mask.types.get(i).map(ToString::to_string).unwrap_or_default();
        let fit = |i: usize, of: &Type| ArgumentFit::of(types.get(i).and_then(Option::as_ref), of);
        let arguments = CallArguments { types: &types, shown: &shown, fit: &fit };
        match find_callee(&name, &arguments, None, context)? {
            Callee::Function(function) => Ok(MaskCall { function, values }),
            Callee::Aggregate(_) => Err(super::function::unknown(&name)),
        }
    }

    /// Returns the masked form of a value; `None` is null.
    ///
    /// # Errors
    /// Those of the function.
    pub fn apply(&self, env: &EvalEnv<'_>, value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut all = vec![value];
        all.extend(self.values.iter().map(Option::as_deref));
        self.function.call(env, &all)
    }
}
