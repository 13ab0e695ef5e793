//! Conversion between the driver's types and those of `firn-cql`. Values pass through as bytes:
//! only `firn-cql`'s codecs encode and decode them.

use std::sync::Arc;

use firn_cql::{BoundValue, ColumnSpec, ColumnType, PagingState, Result, Rows};
use firn_wide::{Type, UserType};
use scylla::deserialize::row::ColumnIterator;
use scylla::frame::response::result as theirs;
use scylla::frame::response::result::{CollectionType, NativeType};
use scylla::response::query_result::{ColumnSpecs, QueryResult, QueryRowsResult};
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use crate::failure::unreadable;

/// Encoded values.
#[derive(Debug)]
pub(crate) struct RawValues<'a>(pub &'a [BoundValue]);

impl SerializeRow for RawValues<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> std::result::Result<(), SerializationError> {
        for value in self.0 {
            let cell = writer.make_cell_writer();
            match value {
                BoundValue::Bytes(bytes) => {
                    cell.set_value(bytes).map_err(SerializationError::new)?;
                }
                BoundValue::Null => {
                    cell.set_null();
                }
                BoundValue::Unset => {
                    cell.set_unset();
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn native(of: &NativeType) -> Option<Type> {
    Some(match of {
        NativeType::Ascii => Type::Ascii,
        NativeType::Boolean => Type::Boolean,
        NativeType::Blob => Type::Bytes,
        NativeType::Counter => Type::Counter,
        NativeType::Date => Type::SimpleDate,
        NativeType::Decimal => Type::Decimal,
        NativeType::Double => Type::Double,
        NativeType::Duration => Type::Duration,
        NativeType::Float => Type::Float,
        NativeType::Int => Type::Int32,
        NativeType::BigInt => Type::Long,
        NativeType::Text => Type::Utf8,
        NativeType::Timestamp => Type::Timestamp,
        NativeType::Inet => Type::Inet,
        NativeType::SmallInt => Type::Short,
        NativeType::TinyInt => Type::Byte,
        NativeType::Time => Type::Time,
        NativeType::Timeuuid => Type::TimeUuid,
        NativeType::Uuid => Type::Uuid,
        NativeType::Varint => Type::Integer,
        _ => return None,
    })
}

/// Converts a type; `None` for one of a newer driver.
fn type_of(of: &theirs::ColumnType<'_>) -> Option<Type> {
    Some(match of {
        theirs::ColumnType::Native(of) => native(of)?,
        theirs::ColumnType::Collection { typ, .. } => match typ {
            CollectionType::List(of) => Type::List(Arc::new(type_of(of)?)),
            CollectionType::Set(of) => Type::Set(Arc::new(type_of(of)?)),
            CollectionType::Map(key, of) => Type::Map(Arc::new((type_of(key)?, type_of(of)?))),
            _ => return None,
        },
        theirs::ColumnType::Vector { typ, dimensions } => {
            Type::Vector(Arc::new(type_of(typ)?), (*dimensions).into())
        }
        theirs::ColumnType::UserDefinedType { definition, .. } => {
            let field = |(name, of): &(std::borrow::Cow<'_, str>, theirs::ColumnType<'_>)| {
                Some((name.clone().into_owned(), type_of(of)?))
            };
            Type::Udt(Arc::new(UserType {
                keyspace: definition.keyspace.clone().into_owned(),
                name: definition.name.clone().into_owned(),
                fields: definition.field_types.iter().map(field).collect::<Option<_>>()?,
            }))
        }
        theirs::ColumnType::Tuple(parts) => {
            Type::Tuple(parts.iter().map(type_of).collect::<Option<Vec<_>>>()?.into())
        }
        _ => return None,
    })
}

/// Converts the columns of a result, or the markers of a statement. The protocol does not say
/// whether a type is frozen.
pub(crate) fn columns(specs: ColumnSpecs<'_, '_>) -> Result<Arc<[ColumnSpec]>> {
    let column = |spec: &theirs::ColumnSpec<'_>| {
        let of = type_of(spec.typ()).ok_or_else(|| {
            unreadable(format!("the column {} is of a type that is not known", spec.name()))
        })?;
        Ok(ColumnSpec::from_parts(
            spec.table_spec().ks_name().to_owned(),
            spec.table_spec().table_name().to_owned(),
            spec.name().to_owned(),
            ColumnType::frozen(of),
        ))
    };
    specs.iter().map(column).collect()
}

/// Converts one or several pages to a result, with the paging state of the next one.
pub(crate) fn rows(pages: Vec<QueryResult>, next: Option<PagingState>) -> Result<Rows> {
    let (mut warnings, mut given): (Vec<String>, Vec<QueryRowsResult>) = (vec![], vec![]);
    for page in pages {
        warnings.extend(page.warnings().map(str::to_owned));
        if page.is_rows() {
            given.push(page.into_rows_result().map_err(unreadable)?);
        }
    }
    let Some(first) = given.first() else { return Ok(Rows::void().with_warnings(warnings)) };
    let specs = columns(first.column_specs())?;
    let mut cells = vec![];
    for page in &given {
        if page.column_specs().len() != specs.len() {
            return Err(unreadable("the columns have changed within the result: run it again"));
        }
        for row in page.rows::<ColumnIterator<'_, '_>>().map_err(unreadable)? {
            for cell in row.map_err(unreadable)? {
                cells.push(cell.map_err(unreadable)?.slice.map(|bytes| bytes.as_slice()));
            }
        }
    }
    Ok(Rows::from_cells(specs, cells).with_paging(next).with_warnings(warnings))
}
