//! `INSERT … JSON`: a JSON text with the values of all columns.

use std::borrow::Cow;
use std::collections::BTreeMap;

use firn_wide::Type;
use serde_json::value::RawValue;

use crate::catalog::TableSchema;
use crate::error::{Result, bail, invalid};
use crate::syntax::ast::{AstName, Marker, Pos, Term as AstTerm, TermPrimary};
use crate::values::{
    BoundTerm, BoundValue, Context, EvalEnv, Receiver, from_json, heap_bytes, is_null,
};

/// The JSON text, and the treatment of columns that it does not name.
#[derive(Clone, Debug)]
pub(super) struct JsonSource {
    text: BoundTerm,
    default_unset: bool,
}

/// Returns all columns of a table, each with a marker whose number is its index in
/// [`TableSchema::columns`].
pub(super) fn all_columns(table: &TableSchema) -> Vec<(AstName<'static>, AstTerm<'static>)> {
    let marker = |i: usize| TermPrimary::Marker(Marker { index: i as u16, name: None }).into();
    let name = |text: &str| AstName { text: text.to_owned().into(), at: Pos::default() };
    let each = |(i, c): (usize, &crate::catalog::TableColumn)| {
        (name(&c.name), AstTerm { at: Pos::default(), kind: marker(i) })
    };
    table.columns().iter().enumerate().map(each).collect()
}

heap_bytes!(JsonSource { text });

impl JsonSource {
    /// Prepares the JSON text of a statement.
    pub fn prepare(
        table: &TableSchema,
        text: &AstTerm<'_>,
        default_unset: bool,
        context: &mut Context<'_>,
    ) -> Result<JsonSource> {
        let receiver = Receiver::new(table, "[json]", Type::Utf8);
        Ok(JsonSource { text: BoundTerm::prepare(text, &receiver, context)?, default_unset })
    }

    /// Returns the values of all columns, by index.
    ///
    /// # Errors
    /// `Invalid` if the text is not a JSON object, names unknown columns, or has values of other
    /// types.
    pub fn values(&self, table: &TableSchema, env: &EvalEnv<'_>) -> Result<Vec<BoundValue>> {
        let bytes = match self.text.value(env)? {
            BoundValue::Bytes(bytes) => bytes,
            BoundValue::Null | BoundValue::Unset => {
                bail!("Got null for INSERT JSON values");
            }
        };
        let text =
            std::str::from_utf8(&bytes).map_err(|e| invalid!("JSON values are no UTF-8: {e}"))?;
        let parsed: Option<BTreeMap<String, &RawValue>> =
            serde_json::from_str(text).map_err(|e| {
                invalid!("Could not decode JSON string as a map: {e}. (String was: {text})")
            })?;
        let mut given = parsed.ok_or_else(|| invalid("Got null for INSERT JSON values"))?;
        let mut values = Vec::with_capacity(table.columns().len());
        for column in table.columns() {
            let value = take(&mut given, &column.name);
            values.push(match value {
                None if self.default_unset => BoundValue::Unset,
                None => BoundValue::Null,
                Some(json) if is_null(json) => BoundValue::Null,
                Some(json) => from_json(&column.of.value_type, json)
                    .map_err(|e| invalid!("Error decoding JSON value for {}: {e}", column.name))?,
            });
        }
        match given.keys().next() {
            Some(key) => {
                Err(invalid!("JSON values map contains unrecognized column: {}", column_name(key)))
            }
            None => Ok(values),
        }
    }
}

/// Returns the column that a name refers to: in lower case unless it is quoted.
fn column_name(key: &str) -> Cow<'_, str> {
    match key.strip_prefix('"').and_then(|k| k.strip_suffix('"')) {
        Some(exact) => exact.into(),
        None => key.to_lowercase().into(),
    }
}

/// Removes and returns the value of a column. If several spellings name it, the last one in text
/// order counts.
fn take<'j>(given: &mut BTreeMap<String, &'j RawValue>, column: &str) -> Option<&'j RawValue> {
    let keys: Vec<String> =
        given.keys().filter(|key| column_name(key) == column).cloned().collect();
    keys.iter().filter_map(|key| given.remove(key)).last()
}
