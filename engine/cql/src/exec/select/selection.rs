//! Evaluates prepared selectors over the values of a row.

use std::borrow::Cow;
use std::sync::Arc;

use firn_wide::Type;

use super::fold::RowFold;
use crate::analysis::RowValues;
use crate::catalog::{ColumnKind, ColumnType, PartitionKey, TableSchema};
use crate::error::{Result, invalid};
use crate::exec::row::{CellTimes, Row};
use crate::syntax::ast::About;
use crate::values::function::Function;
use crate::values::{
    BoundTerm, BoundValue, EvalEnv, HeapBytes, MaskCall, heap_bytes, put_many, put_parts, split,
};

/// Location of a column's value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnSlot {
    /// Component of the partition key.
    Key(usize),
    /// Clustering column.
    Clustering(usize),
    /// Slot of the static cells.
    Static(usize),
    /// Slot of the row.
    Regular(usize),
}

/// A prepared selector.
#[derive(Debug)]
pub enum SelectionNode {
    Column(ColumnSlot),
    /// A column whose value is masked for roles without the permission `UNMASK`.
    Masked(ColumnSlot, Arc<MaskCall>),
    /// Value of the term with this index, the same for all rows.
    Term(usize),
    /// Write time or TTL of a column's cells, or of a part of it. `parts`: the parts of the column
    /// are separate cells.
    Times {
        about: About,
        of: Box<SelectionNode>,
        parts: bool,
    },
    Call(Arc<Function>, Vec<SelectionNode>),
    /// Field with this index in a value of this type.
    Field(Box<SelectionNode>, Type, usize),
    /// Element of the collection of this name, with the key given by a term.
    Element(Box<SelectionNode>, Type, String, usize),
    /// Elements of the collection of this name between two terms, both inclusive.
    Slice {
        of: Box<SelectionNode>,
        collection: ColumnType,
        name: String,
        ends: [Option<usize>; 2],
    },
    /// Collection or tuple of these; for a map, keys and values alternate.
    Many(Type, Vec<SelectionNode>),
    /// Result of the aggregate with this index.
    Aggregate(usize),
}

/// An aggregate in a selection.
#[derive(Debug)]
pub struct Aggregate {
    pub fold: RowFold,
    /// Arguments; none for `count(*)`.
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
    /// Place of each column that is read, by its index in [`TableSchema::columns`].
    pub places: Vec<Option<ColumnSlot>>,
}

impl HeapBytes for SelectionNode {
    fn heap_bytes(&self) -> usize {
        match self {
            SelectionNode::Column(_)
            | SelectionNode::Masked(..)
            | SelectionNode::Term(_)
            | SelectionNode::Aggregate(_) => 0,
            SelectionNode::Times { of, .. } | SelectionNode::Field(of, ..) => of.heap_bytes(),
            SelectionNode::Call(function, arguments) => {
                function.heap_bytes() + arguments.heap_bytes()
            }
            SelectionNode::Element(of, _, name, _) | SelectionNode::Slice { of, name, .. } => {
                of.heap_bytes() + name.heap_bytes()
            }
            SelectionNode::Many(_, parts) => parts.heap_bytes(),
        }
    }
}

heap_bytes!(OutputColumn { node, name });

impl HeapBytes for Aggregate {
    fn heap_bytes(&self) -> usize {
        let fold = match &self.fold {
            RowFold::Native(..) => 0,
            RowFold::User(user) => {
                let finish = user.finish.heap_bytes() + user.initial.heap_bytes();
                user.name.heap_bytes() + user.step.heap_bytes() + finish
            }
        };
        fold + self.arguments.heap_bytes()
    }
}

heap_bytes!(RowSelection { outputs, terms, aggregates });

impl RowSelection {
    /// Refuses null keys of collection elements and slices, whether there are rows or not.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn check_parts(&self, terms: &[BoundValue]) -> Result<()> {
        // Element and slice keys are terms, so without terms there are none.
        if terms.is_empty() {
            return Ok(());
        }
        let outputs = self.outputs.iter().map(|output| &output.node);
        let folded = self.aggregates.iter().flat_map(|aggregate| &aggregate.arguments);
        outputs.chain(folded).try_for_each(|node| node.check_parts(terms))
    }
}

/// Returns the value of the term with this index, which selects a part of a collection.
fn part_term<'t>(terms: &'t [BoundValue], term: usize, what: &str, of: &str) -> Result<&'t [u8]> {
    let word = match terms.get(term) {
        Some(BoundValue::Bytes(bytes)) => return Ok(bytes),
        Some(BoundValue::Unset) => "unset",
        Some(BoundValue::Null) | None => "null",
    };
    Err(invalid!("Invalid {word} value for {what} selection on {of}"))
}

/// Returns the bounds of a slice; an unset one is open.
fn slice_ends<'t>(
    terms: &'t [BoundValue],
    name: &str,
    ends: &[Option<usize>; 2],
) -> Result<SliceEnds<'t>> {
    let end = |end: Option<usize>| {
        let end = end.filter(|term| terms.get(*term) != Some(&BoundValue::Unset));
        end.map(|term| part_term(terms, term, "slice", name)).transpose()
    };
    Ok([end(ends[0])?, end(ends[1])?])
}

/// A row with the context that selectors need.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    pub table: &'a TableSchema,
    pub key: &'a PartitionKey,
    pub statics: &'a Row,
    /// `None` if the partition has only static cells.
    pub row: Option<&'a Row>,
    pub places: &'a [Option<ColumnSlot>],
    pub terms: &'a [BoundValue],
    pub aggregates: &'a [Option<Vec<u8>>],
    /// Whether masked columns are shown unmasked.
    pub sees_all: bool,
    pub env: &'a EvalEnv<'a>,
}

impl<'a> RowContext<'a> {
    fn at(&self, place: ColumnSlot) -> Option<&'a [u8]> {
        match place {
            ColumnSlot::Key(i) => self.key.part(i),
            ColumnSlot::Clustering(i) => self.row.and_then(|r| r.clustering(i)),
            ColumnSlot::Static(slot) => self.statics.value(slot),
            ColumnSlot::Regular(slot) => self.row.and_then(|r| r.value(slot)),
        }
    }

    /// Returns the times of a column's cells.
    fn times(&self, place: ColumnSlot, parts: bool) -> SelectedTimes {
        let all = match place {
            ColumnSlot::Static(slot) => self.statics.times(slot),
            ColumnSlot::Regular(slot) => self.row.map_or(&[][..], |row| row.times(slot)),
            ColumnSlot::Key(_) | ColumnSlot::Clustering(_) => &[],
        };
        match parts {
            true => SelectedTimes::Parts(all.to_vec()),
            false => SelectedTimes::One(all.first().copied().flatten()),
        }
    }

    fn term(&self, term: usize) -> Option<&'a [u8]> {
        self.terms.get(term).and_then(BoundValue::bytes)
    }

    fn is_unset(&self, term: usize) -> bool {
        self.terms.get(term) == Some(&BoundValue::Unset)
    }
}

impl RowValues for RowContext<'_> {
    fn value(&self, column: usize) -> Option<&[u8]> {
        let place = match self.places.get(column).copied().flatten() {
            Some(place) => place,
            // Columns of the key have places even if they are not selected.
            None => {
                let column = self.table.columns().get(column)?;
                match column.kind {
                    ColumnKind::Partition => ColumnSlot::Key(column.position),
                    ColumnKind::Clustering => ColumnSlot::Clustering(column.position),
                    ColumnKind::Static | ColumnKind::Regular => return None,
                }
            }
        };
        self.at(place)
    }
}

type ValueBytes<'a> = Option<Cow<'a, [u8]>>;

impl SelectionNode {
    /// Reports whether it is an unset marker.
    pub fn is_unset(&self, source: &RowContext<'_>) -> bool {
        matches!(self, SelectionNode::Term(term) if source.is_unset(*term))
    }

    /// Refuses null keys of collection elements and slices.
    fn check_parts(&self, terms: &[BoundValue]) -> Result<()> {
        match self {
            SelectionNode::Element(of, _, name, key) => {
                part_term(terms, *key, "element", name)?;
                of.check_parts(terms)
            }
            SelectionNode::Slice { of, name, ends, .. } => {
                slice_ends(terms, name, ends)?;
                of.check_parts(terms)
            }
            SelectionNode::Field(of, ..) | SelectionNode::Times { of, .. } => of.check_parts(terms),
            SelectionNode::Call(_, nodes) | SelectionNode::Many(_, nodes) => {
                nodes.iter().try_for_each(|node| node.check_parts(terms))
            }
            SelectionNode::Column(_)
            | SelectionNode::Masked(..)
            | SelectionNode::Term(_)
            | SelectionNode::Aggregate(_) => Ok(()),
        }
    }

    /// Evaluates the selector on a row.
    ///
    /// # Errors
    /// `Invalid` if a function refuses its arguments; errors for truncated values.
    pub fn eval<'a>(&'a self, source: &RowContext<'a>) -> Result<ValueBytes<'a>> {
        Ok(match self {
            SelectionNode::Column(place) => source.at(*place).map(Cow::Borrowed),
            SelectionNode::Masked(place, _) if source.sees_all => {
                source.at(*place).map(Cow::Borrowed)
            }
            SelectionNode::Masked(place, mask) => {
                mask.apply(source.env, source.at(*place))?.map(Cow::Owned)
            }
            SelectionNode::Term(term) => source.term(*term).map(Cow::Borrowed),
            SelectionNode::Times { about, of, parts } => {
                // Masks hide values, but not their times.
                let is_there = match &**of {
                    SelectionNode::Masked(place, _) => source.at(*place).is_some(),
                    other => other.eval(source)?.is_some(),
                };
                match is_there {
                    true => of.times(source, *parts)?.value(*about)?.map(Cow::Owned),
                    false => None,
                }
            }
            SelectionNode::Call(function, arguments) => {
                if arguments.iter().any(|a| a.is_unset(source)) {
                    return Err(function.unset_argument());
                }
                let values =
                    arguments.iter().map(|a| a.eval(source)).collect::<Result<Vec<_>>>()?;
                let slices: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                function.call(source.env, &slices)?.map(Cow::Owned)
            }
            SelectionNode::Field(of, udt, field) => match of.eval(source)? {
                Some(bytes) => part_of(bytes, udt, |parts| parts.get(*field).copied().flatten())?,
                None => None,
            },
            SelectionNode::Element(of, collection, name, key) => {
                let key = part_term(source.terms, *key, "element", name)?;
                match of.eval(source)? {
                    Some(bytes) => part_of(bytes, collection, |parts| {
                        element(collection, parts, key).and_then(|e| e.1)
                    })?,
                    None => None,
                }
            }
            SelectionNode::Slice { of, collection, name, ends } => {
                let ends = slice_ends(source.terms, name, ends)?;
                match of.eval(source)? {
                    Some(bytes) => slice(collection, &bytes, ends)?.map(Cow::Owned),
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

    /// Returns the times of the selected cells; none for values that are not cells.
    fn times(&self, source: &RowContext<'_>, parts: bool) -> Result<SelectedTimes> {
        let (of, SelectedTimes::Parts(all)) = (match self {
            SelectionNode::Column(place) | SelectionNode::Masked(place, _) => {
                return Ok(source.times(*place, parts));
            }
            SelectionNode::Field(of, ..)
            | SelectionNode::Element(of, ..)
            | SelectionNode::Slice { of, .. } => match of.times(source, parts)? {
                one @ SelectedTimes::One(_) => {
                    // An empty slice of a frozen collection has no write time.
                    let is_none = self.eval(source)?.is_none_or(|part| *part == [0; 4]);
                    let is_slice = matches!(self, SelectionNode::Slice { .. });
                    return Ok(if is_slice && is_none { SelectedTimes::One(None) } else { one });
                }
                parts => (of, parts),
            },
            _ => return Ok(SelectedTimes::One(None)),
        }) else {
            return Ok(SelectedTimes::One(None));
        };
        let bytes = of.eval(source)?.unwrap_or_default();
        let at = |number: Option<usize>| {
            SelectedTimes::One(number.and_then(|n| all.get(n).copied().flatten()))
        };
        Ok(match self {
            SelectionNode::Field(_, _, field) => at(Some(*field)),
            SelectionNode::Element(_, collection, name, key) => {
                let key = part_term(source.terms, *key, "element", name)?;
                at(element(collection, &split(collection, &bytes)?, key).map(|found| found.0))
            }
            SelectionNode::Slice { collection, name, ends, .. } => {
                let inside = inside(&collection.value_type, slice_ends(source.terms, name, ends)?);
                let parts = split(&collection.value_type, &bytes)?;
                let each = parts.chunks_exact(width(&collection.value_type)).zip(&all);
                SelectedTimes::Parts(
                    each.filter(|(part, _)| inside(part)).map(|(_, times)| *times).collect(),
                )
            }
            _ => SelectedTimes::One(None),
        })
    }
}

/// Times of the cells of a value.
enum SelectedTimes {
    One(Option<CellTimes>),
    /// Times of each part, if parts are separate cells.
    Parts(Vec<Option<CellTimes>>),
}

impl SelectedTimes {
    /// Returns the selected write time or TTL.
    fn value(&self, about: About) -> Result<Option<Vec<u8>>> {
        let one = |times: &Option<CellTimes>| match about {
            About::Ttl => times
                .and_then(|t| t.left)
                .map(|left| i32::try_from(left).unwrap_or(i32::MAX).to_be_bytes().to_vec()),
            About::WriteTime | About::MaxWriteTime => {
                times.map(|t| t.written.to_be_bytes().to_vec())
            }
        };
        let all = match self {
            SelectedTimes::One(times) => return Ok(one(times)),
            SelectedTimes::Parts(all) => all,
        };
        if about == About::MaxWriteTime {
            return Ok(one(all.iter().max_by_key(|t| t.map(|t| t.written)).unwrap_or(&None)));
        }
        let parts: Vec<_> = all.iter().map(one).collect();
        let mut out = vec![];
        put_parts(parts.len(), parts.iter().map(Option::as_deref), &mut out)?;
        Ok(Some(out))
    }
}

/// Returns a part of a serialised value, without a copy if possible.
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

/// Returns the type of the keys of a map, or of the elements of a set.
fn key_of(of: &Type) -> Option<&Type> {
    match of {
        Type::Map(kv) => Some(&kv.0),
        Type::Set(of) => Some(of),
        _ => None,
    }
}

/// Returns the number of parts of an element.
fn width(of: &Type) -> usize {
    if matches!(of, Type::Map(_)) { 2 } else { 1 }
}

/// Returns the element with this key: its index, and the map's value or the set's element.
fn element<'b>(
    of: &Type,
    parts: &[Option<&'b [u8]>],
    key: &[u8],
) -> Option<(usize, Option<&'b [u8]>)> {
    let by = key_of(of)?;
    let mut all = parts.chunks_exact(width(of)).enumerate();
    let found = all.find(|(_, p)| p[0].is_some_and(|k| by.compare(k, key).is_eq()));
    found.map(|(number, part)| (number, part[part.len() - 1]))
}

/// Two keys, both inclusive. `None` is an open side.
type SliceEnds<'e> = [Option<&'e [u8]>; 2];

/// Returns a predicate for elements between two keys.
fn inside<'e>(of: &'e Type, [from, to]: SliceEnds<'e>) -> impl Fn(&[Option<&[u8]>]) -> bool + 'e {
    let key = key_of(of);
    move |part| {
        key.zip(part[0]).is_some_and(|(key, k)| {
            from.is_none_or(|from| key.compare(k, from).is_ge())
                && to.is_none_or(|to| key.compare(k, to).is_le())
        })
    }
}

/// Returns the elements between two keys. An empty result is null if elements are separate cells.
fn slice(of: &ColumnType, bytes: &[u8], ends: SliceEnds<'_>) -> Result<Option<Vec<u8>>> {
    let parts = split(&of.value_type, bytes)?;
    let inside = inside(&of.value_type, ends);
    let inside_parts: Vec<_> =
        parts.chunks_exact(width(&of.value_type)).filter(|part| inside(part)).collect();
    if inside_parts.is_empty() && of.multicell {
        return Ok(None);
    }
    let mut out = vec![];
    put_parts(inside_parts.len(), inside_parts.into_iter().flatten().copied(), &mut out)?;
    Ok(Some(out))
}
