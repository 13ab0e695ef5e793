//! Parameters of a statement.

use firn_cql::{Named, PagedRows, Prepared, Result, RunOptions, Session, ToValue, Value};
use firn_wide::Type;

use crate::value::value;
use crate::{Unpacker, invalid};

/// Parameters that were read for a statement.
#[derive(Debug)]
pub enum Params {
    /// A value for each marker.
    InOrder(Vec<Value>),
    /// Values by the names of markers.
    ByName(Vec<(String, Value)>),
}

impl Params {
    /// Reads packed parameters for a statement; no bytes are no parameters.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not packed parameters, or a marker has a type without such values.
    pub fn read(packed: &[u8], prepared: &Prepared) -> Result<Params> {
        if packed.is_empty() {
            return Ok(Params::InOrder(vec![]));
        }
        let (mut packed, markers) = (Unpacker::new(packed), prepared.markers());
        let form = packed.byte()?;
        let count = packed.number()?;
        match form {
            // Too many values are refused by their number.
            0 if count > markers.len() => {
                Ok(Params::InOrder(vec![Value::Null; count.min(packed.remaining())]))
            }
            0 => {
                let values = markers
                    .iter()
                    .take(count)
                    .map(|m| value(&mut packed, &m.column_type.value_type));
                Ok(Params::InOrder(values.collect::<Result<_>>()?))
            }
            1 => {
                let mut named = vec![];
                for _ in 0..count {
                    let name = packed.text()?.to_owned();
                    // An unknown name is refused when the values are bound.
                    let Some(marker) = markers.iter().find(|m| m.name == name) else {
                        named.push((name, Value::Null));
                        break;
                    };
                    named.push((name, value(&mut packed, &marker.column_type.value_type)?));
                }
                Ok(Params::ByName(named))
            }
            other => Err(invalid(format!("there is no form {other} of packed parameters"))),
        }
    }

    /// Runs the statement with these values.
    ///
    /// # Errors
    /// Those of [`Session::walk`].
    pub fn run(
        &self,
        session: &Session,
        prepared: &Prepared,
        how: &RunOptions,
    ) -> Result<PagedRows> {
        match self {
            Params::InOrder(values) => session.query_prepared(prepared, values, how),
            Params::ByName(named) => {
                let named: Vec<(&str, &dyn ToValue)> =
                    named.iter().map(|(n, v)| (n.as_str(), v as &dyn ToValue)).collect();
                session.query_prepared(prepared, Named(&named), how)
            }
        }
    }
}

/// Runs a statement with packed parameters. Without any, the statement may be a definition.
///
/// # Errors
/// Those of [`Session::query_as`] and [`Params::read`].
pub fn execute(session: &Session, cql: &str, packed: &[u8], how: &RunOptions) -> Result<PagedRows> {
    // No values by name differ from none in order: markers without a value are not set.
    match packed {
        [] | [0, 0, 0, 0, 0] => session.query_with(cql, (), how),
        [1, 0, 0, 0, 0] => session.query_with(cql, Named(&[]), how),
        _ => {
            let prepared = session.prepare(cql)?;
            Params::read(packed, &prepared)?.run(session, &prepared, how)
        }
    }
}

/// Returns the name and the CQL type of each marker.
pub fn markers(prepared: &Prepared) -> Vec<(&str, String)> {
    prepared
        .markers()
        .iter()
        .map(|m| (m.name.as_str(), Type::cql_name(&m.column_type.value_type)))
        .collect()
}
