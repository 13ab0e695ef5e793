//! The selection: prepared selectors, evaluated over the values of a row.

use std::borrow::Cow;
use std::sync::Arc;

use firn_wide::Type;

use super::fold::RowFold;
use crate::analysis::RowValues;
use crate::catalog::{ColumnKind, ColumnType, PartitionKey, TableSchema};
use crate::error::{Result, invalid};
use crate::exec::row::Row;
use crate::values::function::Function;
use crate::values::{Bound, BoundTerm, EvalEnv, MaskCall, put_many, put_parts, split};

/// Where a column's value is found in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnPlace {
    /// A part of the partition key.
    Key(usize),
    /// A clustering column.
    Clustering(usize),
    /// A slot of the static cells.
    Static(usize),
    /// A slot of the row.
    Regular(usize),
}

/// A prepared selector.
#[derive(Debug)]
pub enum SelectionNode {
    Column(ColumnPlace),
    /// The same, but a mask stands for it where the role may not see it.
    Masked(ColumnPlace, Arc<MaskCall>),
    /// The value of the term with this number, the same for all rows.
    Term(usize),
    WriteTime(ColumnPlace),
    Ttl(ColumnPlace),
    Call(Arc<Function>, Vec<SelectionNode>),
    /// The field with this number of a value of this type.
    Field(Box<SelectionNode>, Type, usize),
    /// The element of the collection of this name with the key that a term gives.
    Element(Box<SelectionNode>, Type, String, usize),
    /// The elements of the collection of this name between two terms, both included.
    Slice(Box<SelectionNode>, Type, String, Option<usize>, Option<usize>),
    /// A collection or tuple of these; of a map, keys and values in turns.
    Many(Type, Vec<SelectionNode>),
    /// The result of the aggregate with this number.
    Aggregate(usize),
}

/// An aggregate of a selection.
#[derive(Debug)]
pub struct Aggregate {
    pub fold: RowFold,
    /// Its arguments; none for `count(*)`.
    pub arguments: Vec<SelectionNode>,
}

/// A column of the result.
#[derive(Debug)]
pub struct OutputColumn {
    pub node: SelectionNode,
    pub of: ColumnType,
    pub name: String,
}

/// The selection of a statement.
#[derive(Debug)]
pub struct RowSelection {
    pub outputs: Vec<OutputColumn>,
    pub terms: Vec<BoundTerm>,
    pub aggregates: Vec<Aggregate>,
    /// The place of each column of the table that is read: by its number in
    /// [`TableSchema::columns`].
    pub places: Vec<Option<ColumnPlace>>,
}

/// A row with all that selectors need.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    pub table: &'a TableSchema,
    pub key: &'a PartitionKey,
    pub statics: &'a Row,
    /// Nothing: the partition has static cells only.
    pub row: Option<&'a Row>,
    pub places: &'a [Option<ColumnPlace>],
    pub terms: &'a [Bound],
    pub aggregates: &'a [Option<Vec<u8>>],
    /// Whether masks hide nothing.
    pub sees_all: bool,
    pub env: &'a EvalEnv<'a>,
}

impl<'a> RowContext<'a> {
    fn at(&self, place: ColumnPlace) -> Option<&'a [u8]> {
        match place {
            ColumnPlace::Key(i) => self.key.part(i),
            ColumnPlace::Clustering(i) => self.row.and_then(|r| r.clustering(i)),
            ColumnPlace::Static(slot) => self.statics.value(slot),
            ColumnPlace::Regular(slot) => self.row.and_then(|r| r.value(slot)),
        }
    }

    fn cells(&self, place: ColumnPlace) -> Option<(&'a Row, usize)> {
        match place {
            ColumnPlace::Static(slot) => Some((self.statics, slot)),
            ColumnPlace::Regular(slot) => self.row.map(|r| (r, slot)),
            ColumnPlace::Key(_) | ColumnPlace::Clustering(_) => None,
        }
    }

    fn term(&self, term: usize) -> Option<&'a [u8]> {
        self.terms.get(term).and_then(Bound::bytes)
    }

    fn is_unset(&self, term: usize) -> bool {
        self.terms.get(term) == Some(&Bound::Unset)
    }

    /// The value of a term that says which part of a collection is selected.
    fn part(&self, term: usize, what: &str, of: &str) -> Result<&'a [u8]> {
        let word = if self.is_unset(term) { "unset" } else { "null" };
        self.term(term)
            .ok_or_else(|| invalid(format!("Invalid {word} value for {what} selection on {of}")))
    }
}

impl RowValues for RowContext<'_> {
    fn value(&self, column: usize) -> Option<&[u8]> {
        let place = match self.places.get(column).copied().flatten() {
            Some(place) => place,
            // Columns of the key have their place whether they are selected or not.
            None => {
                let column = self.table.columns().get(column)?;
                match column.kind {
                    ColumnKind::Partition => ColumnPlace::Key(column.position),
                    ColumnKind::Clustering => ColumnPlace::Clustering(column.position),
                    ColumnKind::Static | ColumnKind::Regular => return None,
                }
            }
        };
        self.at(place)
    }
}

type ValueBytes<'a> = Option<Cow<'a, [u8]>>;

impl SelectionNode {
    /// Whether it is a marker that nothing is bound to.
    pub fn is_unset(&self, source: &RowContext<'_>) -> bool {
        matches!(self, SelectionNode::Term(term) if source.is_unset(*term))
    }

    /// Its value over a row.
    ///
    /// # Errors
    /// `Invalid` when a function refuses its arguments; values whose bytes break off.
    pub fn eval<'a>(&'a self, source: &RowContext<'a>) -> Result<ValueBytes<'a>> {
        let of_number = |bytes: Vec<u8>| Some(Cow::Owned(bytes));
        Ok(match self {
            SelectionNode::Column(place) => source.at(*place).map(Cow::Borrowed),
            SelectionNode::Masked(place, _) if source.sees_all => {
                source.at(*place).map(Cow::Borrowed)
            }
            SelectionNode::Masked(place, mask) => {
                mask.apply(source.env, source.at(*place))?.map(Cow::Owned)
            }
            SelectionNode::Term(term) => source.term(*term).map(Cow::Borrowed),
            SelectionNode::WriteTime(place) => {
                let time = source.cells(*place).and_then(|(row, slot)| row.timestamp(slot));
                time.and_then(|t| of_number(t.to_be_bytes().to_vec()))
            }
            SelectionNode::Ttl(place) => {
                let ttl = source.cells(*place).and_then(|(row, slot)| row.ttl(slot));
                ttl.and_then(|t| {
                    of_number(i32::try_from(t).unwrap_or(i32::MAX).to_be_bytes().to_vec())
                })
            }
            SelectionNode::Call(function, arguments) => {
                if arguments.iter().any(|a| a.is_unset(source)) {
                    return Err(function.unset_argument());
                }
                let values =
                    arguments.iter().map(|a| a.eval(source)).collect::<Result<Vec<_>>>()?;
                let lent: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                function.call(source.env, &lent)?.map(Cow::Owned)
            }
            SelectionNode::Field(of, udt, field) => match of.eval(source)? {
                Some(bytes) => part_of(bytes, udt, |parts| parts.get(*field).copied().flatten())?,
                None => None,
            },
            SelectionNode::Element(of, collection, name, key) => {
                let key = source.part(*key, "element", name)?;
                match of.eval(source)? {
                    Some(bytes) => {
                        part_of(bytes, collection, |parts| element(collection, parts, key))?
                    }
                    None => None,
                }
            }
            SelectionNode::Slice(of, collection, name, from, to) => {
                // An end that is unset is open.
                let end = |end: &Option<usize>| {
                    end.filter(|t| !source.is_unset(*t))
                        .map(|t| source.part(t, "slice", name))
                        .transpose()
                };
                let (from, to) = (end(from)?, end(to)?);
                match of.eval(source)? {
                    Some(bytes) => slice(collection, &bytes, from, to)?.map(Cow::Owned),
                    None => None,
                }
            }
            SelectionNode::Many(of, nodes) => {
                let values = nodes
                    .iter()
                    .map(|n| Ok(n.eval(source)?.map(Cow::into_owned)))
                    .collect::<Result<Vec<_>>>()?;
                Some(Cow::Owned(put_many(of, values)?))
            }
            SelectionNode::Aggregate(number) => {
                source.aggregates.get(*number).and_then(Option::as_deref).map(Cow::Borrowed)
            }
        })
    }
}

/// A part of a serialised value, without copying it where that is possible.
fn part_of<'a>(
    bytes: Cow<'a, [u8]>,
    of: &Type,
    choose: impl for<'b> Fn(&[Option<&'b [u8]>]) -> Option<&'b [u8]>,
) -> Result<ValueBytes<'a>> {
    Ok(match bytes {
        Cow::Borrowed(bytes) => choose(&split(of, bytes)?).map(Cow::Borrowed),
        Cow::Owned(bytes) => choose(&split(of, &bytes)?).map(|p| Cow::Owned(p.to_vec())),
    })
}

fn element<'b>(of: &Type, parts: &[Option<&'b [u8]>], key: &[u8]) -> Option<&'b [u8]> {
    match of {
        Type::Map(kv) => {
            let found =
                parts.chunks_exact(2).find(|p| p[0].is_some_and(|k| kv.0.compare(k, key).is_eq()));
            found.and_then(|p| p[1])
        }
        Type::Set(of) => parts.iter().copied().flatten().find(|e| of.compare(e, key).is_eq()),
        _ => None,
    }
}

/// The elements between two keys, both included. A side that is not given is open.
fn slice(
    of: &Type,
    bytes: &[u8],
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    let (key, each) = match of {
        Type::Map(kv) => (&kv.0, 2),
        Type::Set(of) => (&**of, 1),
        _ => return Ok(None),
    };
    let parts = split(of, bytes)?;
    let inside = |part: &&[Option<&[u8]>]| {
        part[0].is_some_and(|k| {
            from.is_none_or(|from| key.compare(k, from).is_ge())
                && to.is_none_or(|to| key.compare(k, to).is_le())
        })
    };
    let kept: Vec<_> = parts.chunks_exact(each).filter(inside).collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let mut out = vec![];
    put_parts(kept.len(), kept.into_iter().flatten().map(|p| p.unwrap_or_default()), &mut out)?;
    Ok(Some(out))
}
