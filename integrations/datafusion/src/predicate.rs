//! Conditions of SQL on the columns of a key, as values of CQL.
//!
//! Invariant: a condition that is [`is_exact`](KeyPredicate::is_exact) selects the same rows in the
//! store as in DataFusion. Any other selects at least these.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use firn_transfer::arrow::read;
use firn_wide::Type;

/// Maximum bytes of a pushed value; an empty one is not pushed either. Stores refuse long keys, and
/// empty ones.
const MAX_VALUE: usize = 4 << 10;

/// Comparison of a column with values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyComparison {
    /// Equal to one of these values.
    In(Vec<Vec<u8>>),
    /// Greater than the value; or equal to it, if `true`.
    Above(Vec<u8>, bool),
    /// Less than the value; or equal to it, if `true`.
    Below(Vec<u8>, bool),
}

/// A condition on one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyPredicate {
    /// Index of the column in the table.
    pub column: usize,
    pub comparison: KeyComparison,
    /// Whether DataFusion need not check the condition again.
    pub is_exact: bool,
}

impl KeyPredicate {
    /// Returns the single value that the condition allows.
    pub fn equal(&self) -> Option<&[u8]> {
        match &self.comparison {
            KeyComparison::In(values) if values.len() == 1 => Some(&values[0]),
            _ => None,
        }
    }
}

/// Reports whether equal values of the type have equal bytes.
fn has_equality(of: &Type) -> bool {
    has_order(of) || matches!(of, Type::Uuid | Type::TimeUuid | Type::LexicalUuid)
}

/// Reports whether SQL orders values of the type as the store does.
fn has_order(of: &Type) -> bool {
    matches!(
        of,
        Type::Byte
            | Type::Short
            | Type::Int32
            | Type::Long
            | Type::Timestamp
            | Type::SimpleDate
            | Type::Time
    ) || is_text(of)
}

/// Reports whether every byte sequence of the type is a value, the empty one included. The empty
/// value of other types is null in SQL, and the smallest value in the store.
fn is_text(of: &Type) -> bool {
    matches!(of, Type::Ascii | Type::Utf8 | Type::Bytes)
}

/// Reads conditions on the columns of a table.
pub(crate) struct PredicateReader<'a> {
    pub schema: &'a SchemaRef,
    /// Types of the columns.
    pub types: &'a [Type],
}

impl PredicateReader<'_> {
    /// Returns the condition; `None` if the store cannot evaluate it.
    pub fn read(&self, expr: &Expr) -> Option<KeyPredicate> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let (left, right) = (self.read(left)?, self.read(right)?);
                match (left.comparison, right.comparison) {
                    (KeyComparison::In(mut values), KeyComparison::In(more))
                        if left.column == right.column =>
                    {
                        values.extend(more);
                        let comparison = KeyComparison::In(values);
                        Some(KeyPredicate { column: left.column, comparison, is_exact: true })
                    }
                    _ => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match self.column(left) {
                Some(column) => self.compare(column, *op, right),
                None => self.compare(self.column(right)?, op.swap()?, left),
            },
            Expr::InList(list) if !list.negated => {
                let column = self.column(&list.expr)?;
                let values = list.list.iter().map(|value| self.value(column, value));
                let comparison = KeyComparison::In(values.collect::<Option<_>>()?);
                has_equality(&self.types[column]).then_some(KeyPredicate {
                    column,
                    comparison,
                    is_exact: true,
                })
            }
            _ => None,
        }
    }

    /// Returns the index of the column that an expression is. SQL casts a uuid for the comparison
    /// with binary values.
    fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(Column { name, .. }) => self.schema.index_of(name).ok(),
            Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Binary => {
                let column = self.column(expr)?;
                let of = self.schema.field(column).data_type();
                matches!(of, DataType::FixedSizeBinary(_)).then_some(column)
            }
            _ => None,
        }
    }

    fn compare(&self, column: usize, op: Operator, literal: &Expr) -> Option<KeyPredicate> {
        let of = &self.types[column];
        let value = self.value(column, literal)?;
        let comparison = match op {
            Operator::Eq if has_equality(of) => KeyComparison::In(vec![value]),
            Operator::Gt | Operator::GtEq if has_order(of) => {
                KeyComparison::Above(value, op == Operator::GtEq)
            }
            Operator::Lt | Operator::LtEq if has_order(of) => {
                KeyComparison::Below(value, op == Operator::LtEq)
            }
            _ => return None,
        };
        let is_exact = matches!(comparison, KeyComparison::In(_)) || is_text(of);
        Some(KeyPredicate { column, comparison, is_exact })
    }

    /// Returns a literal as a value of the column's type.
    fn value(&self, column: usize, literal: &Expr) -> Option<Vec<u8>> {
        let Expr::Literal(scalar, _) = literal else { return None };
        let (of, own) = (&self.types[column], scalar.data_type());
        let is_uuid_bytes = matches!(scalar, ScalarValue::Binary(Some(b)) if b.len() == 16)
            && matches!(self.schema.field(column).data_type(), DataType::FixedSizeBinary(16));
        if own != *self.schema.field(column).data_type() && !is_uuid_bytes {
            return None;
        }
        // Bytes become any type of uuid without a conversion.
        let target = if has_order(of) { of } else { &Type::Bytes };
        let value = read(&scalar.to_array().ok()?, 0, target, false).ok()??;
        let is_valid = *of != Type::Ascii || value.is_ascii();
        ((1..=MAX_VALUE).contains(&value.len()) && is_valid).then_some(value)
    }
}
