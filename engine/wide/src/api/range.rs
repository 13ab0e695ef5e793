//! Reads of rows by ranges of keys and tokens, and by indexes (model 2.4, 2.5).
//!
//! A filter uses the whole row: the compared columns need not be selected. (Cassandra 1.1 compared
//! only the selected columns, so that such filters found nothing; model 6.5.)

use std::ops::Bound;
use std::sync::Arc;

use super::read::{ReadSelection, read_row, read_slice};
use super::state::ApiTable;
use super::{
    ColumnParent, IndexClause, IndexExpression, IndexOperator, KeyBound, KeyRange, KeySlice,
    Keyspace, SlicePredicate, SliceRange, check,
};
use crate::base::error::{Result, invalid};
use crate::ring::{Partitioner, Token};
use crate::store::{Partitions, SliceReader, StoreSlice, StoreView};

/// Maximum number of entries read in each candidate index to choose the one with the fewest.
const PROBE: usize = 128;

/// Returns the partitions of a key range, in reading order; two ranges if it wraps around the ring.
fn key_ranges(
    table: &ApiTable,
    partitioner: Partitioner,
    range: &KeyRange,
) -> Result<Vec<Partitions>> {
    let partition = |key: &[u8]| -> Result<Vec<u8>> {
        let mut out = vec![];
        table.layout().put_partition(key, &mut out)?;
        Ok(out)
    };
    let from = |key: &[u8]| -> Result<Bound<Vec<u8>>> {
        Ok(if key.is_empty() { Bound::Unbounded } else { Bound::Included(partition(key)?) })
    };
    let (start, end) = match (&range.start, &range.end) {
        (KeyBound::Token(start), KeyBound::Token(end)) => {
            return token_ranges(partitioner, start, end);
        }
        (KeyBound::Token(_), KeyBound::Key(_)) => {
            return Err(invalid("start token + end key is not a supported key range"));
        }
        (KeyBound::Key(start), KeyBound::Key(end)) => (from(start)?, from(end)?),
        (KeyBound::Key(start), KeyBound::Token(end)) => {
            (from(start)?, until_token(partitioner, token(partitioner, end)?))
        }
    };
    let partitions = Partitions { from: start, until: end };
    if let (Bound::Included(from), Some(until)) = (&partitions.from, end_of(&partitions))
        && *from >= until
    {
        return Err(invalid(
            match (&range.end, partitioner.preserves_order(), partitioner == Partitioner::Random) {
                (KeyBound::Token(_), _, _) => "Start key's token sorts after end token",
                (_, true, _) => {
                    "start key must sort before (or equal to) finish key in your partitioner!"
                }
                (_, _, true) => {
                    "start key's md5 sorts after end key's md5.  this is not allowed; you probably should not specify end key at all, under RandomPartitioner"
                }
                _ => {
                    "start key's token sorts after end key's token.  this is not allowed; you probably should not specify end key at all except with an ordered partitioner"
                }
            },
        ));
    }
    Ok(vec![partitions])
}

/// Returns the partitions after one token, up to another.
pub fn token_ranges(partitioner: Partitioner, start: &str, end: &str) -> Result<Vec<Partitions>> {
    let (start, end) = (token(partitioner, start)?, token(partitioner, end)?);
    let goes_round = start >= end && end.is_some();
    let from = start.map_or(Bound::Unbounded, |t| Bound::Included(after_token(partitioner, &t)));
    let until = until_token(partitioner, end);
    if !goes_round {
        return Ok(vec![Partitions { from, until }]);
    }
    Ok(vec![
        Partitions { from, until: Bound::Unbounded },
        Partitions { from: Bound::Unbounded, until },
    ])
}

/// Returns the text of the smallest token: before all keys, and at the end of a range after all of
/// them.
pub fn minimum_token(partitioner: Partitioner) -> &'static str {
    match partitioner {
        Partitioner::Murmur3 => "-9223372036854775808",
        Partitioner::Random => "-1",
        _ => "",
    }
}

/// Parses a token; returns `None` for the smallest.
fn token(partitioner: Partitioner, text: &str) -> Result<Option<Token>> {
    if text == minimum_token(partitioner) {
        Ok(None)
    } else {
        Ok(Some(partitioner.parse_token(text)?))
    }
}

fn after_token(partitioner: Partitioner, token: &Token) -> Vec<u8> {
    let mut bound = vec![];
    partitioner.put_token_bound(token, true, &mut bound);
    bound
}

fn until_token(partitioner: Partitioner, token: Option<Token>) -> Bound<Vec<u8>> {
    token.map_or(Bound::Unbounded, |t| Bound::Excluded(after_token(partitioner, &t)))
}

/// Returns the position after all partitions that begin with these bytes.
fn after(bound: &[u8]) -> Vec<u8> {
    [bound, &[crate::key::BEYOND]].concat()
}

/// Returns the first position after a range.
fn end_of(range: &Partitions) -> Option<Vec<u8>> {
    match &range.until {
        Bound::Included(b) => Some(after(b)),
        Bound::Excluded(b) => Some(b.clone()),
        Bound::Unbounded => None,
    }
}

fn contains(range: &Partitions, partition: &[u8]) -> bool {
    let begun = match &range.from {
        Bound::Included(b) => partition >= &**b,
        Bound::Excluded(b) => partition >= &*after(b),
        Bound::Unbounded => true,
    };
    begun && end_of(range).is_none_or(|end| partition < &*end)
}

/// Expressions with the positions of their columns.
struct RangeFilter<'a> {
    table: &'a ApiTable,
    terms: Vec<(Vec<u8>, &'a IndexExpression)>,
}

impl<'a> RangeFilter<'a> {
    fn new(table: &'a ApiTable, expressions: &'a [IndexExpression]) -> Result<RangeFilter<'a>> {
        let mut terms = vec![];
        for e in expressions {
            let mut place = vec![];
            table.layout().put_cell(&[], &e.column_name, &mut place)?;
            terms.push((place, e));
        }
        Ok(RangeFilter { table, terms })
    }

    /// Reports whether a row meets all of them.
    fn matches(&self, view: &StoreView, key: &[u8]) -> Result<bool> {
        for (place, e) in &self.terms {
            let Some(cell) = view.get(&self.table.cells, key, place)? else { return Ok(false) };
            let validator = self.table.def.validator(&e.column_name);
            let order = match cell.cell().counter() {
                Some(sum) => validator.compare(&sum.to_be_bytes(), &e.value),
                None => validator.compare(cell.value(), &e.value),
            };
            if !e.op.holds(order) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the index and the value that find the fewest rows; `None` if no expression has an
    /// index.
    fn driver(&self, view: &StoreView) -> Result<Option<(u32, &'a [u8])>> {
        let equal = self.terms.iter().filter(|(_, e)| e.op == IndexOperator::Eq);
        let mut candidates = vec![];
        for (_, e) in equal {
            if let Some(index) = self.table.index(&e.column_name) {
                candidates.push((index.id, &*e.value));
            }
        }
        if candidates.len() < 2 {
            return Ok(candidates.pop());
        }
        // Step through all candidates in turn: the first one to end is the shortest.
        let mut scans = vec![];
        for (id, value) in &candidates {
            scans.push(view.index(&self.table.cells, *id, value, None)?);
        }
        for _ in 0..PROBE {
            for (scan, candidate) in scans.iter_mut().zip(&candidates) {
                if scan.next()?.is_none() {
                    return Ok(Some(*candidate));
                }
            }
        }
        Ok(candidates.first().copied())
    }
}

/// A query for rows: selected columns, filter and limit.
struct Query<'a> {
    table: &'a ApiTable,
    parent: &'a ColumnParent,
    selection: ReadSelection,
    filter: RangeFilter<'a>,
    count: usize,
}

impl Query<'_> {
    fn row(&self, view: &StoreView, key: &[u8]) -> Result<KeySlice> {
        Ok(KeySlice {
            key: key.to_vec(),
            columns: read_row(self.table, self.parent, &self.selection, view, key)?,
        })
    }

    /// Reads all partitions of a range.
    fn scan(&self, view: &StoreView, range: &Partitions, out: &mut Vec<KeySlice>) -> Result<()> {
        let rows = StoreSlice::rows();
        let slice =
            if let ReadSelection::Slice { slice, .. } = &self.selection { slice } else { &rows };
        let mut reader = view.scan(&self.table.cells, range, slice)?;
        while out.len() < self.count && reader.next_partition()? {
            if !self.filter.matches(view, reader.key())? {
                continue;
            }
            out.push(match &self.selection {
                ReadSelection::Slice { slice, count } => {
                    let columns =
                        read_slice(self.table, self.parent, &mut reader, *count, slice.reverse)?;
                    KeySlice { key: reader.key().to_vec(), columns }
                }
                _ => self.row(view, reader.key())?,
            });
        }
        Ok(())
    }

    /// Reads the rows that an index has for a value, in a range.
    fn lookup(
        &self,
        view: &StoreView,
        (index, value): (u32, &[u8]),
        from: Option<&[u8]>,
        range: &Partitions,
        out: &mut Vec<KeySlice>,
    ) -> Result<()> {
        let mut hits = view.index(&self.table.cells, index, value, from)?;
        let end = end_of(range);
        while out.len() < self.count
            && let Some(hit) = hits.next()?
        {
            if end.as_ref().is_some_and(|end| hit.partition >= &**end) {
                break;
            }
            if contains(range, hit.partition) && self.filter.matches(view, hit.key)? {
                out.push(self.row(view, hit.key)?);
            }
        }
        Ok(())
    }
}

/// Iterator over the rows of a key range.
pub struct RowReader {
    table: Arc<ApiTable>,
    parent: ColumnParent,
    count: usize,
    view: StoreView,
    slice: StoreSlice,
    /// Remaining ranges, the next one last.
    ranges: Vec<Partitions>,
    reader: Option<SliceReader>,
}

impl RowReader {
    pub fn new(
        keyspace: &Keyspace,
        parent: &ColumnParent,
        columns: &SliceRange,
        range: &KeyRange,
    ) -> Result<RowReader> {
        let table = keyspace.table(&parent.column_family)?;
        let mut ranges = key_ranges(&table, keyspace.wide.shared.partitioner, range)?;
        ranges.reverse();
        let (slice, count) = match ReadSelection::new(&table, parent, &columns.clone().into())? {
            ReadSelection::Slice { slice, count } => (slice, count),
            _ => (StoreSlice::rows(), 0),
        };
        let view = keyspace.store().view();
        Ok(RowReader { table, parent: parent.clone(), count, view, slice, ranges, reader: None })
    }

    pub fn next(&mut self) -> Result<Option<KeySlice>> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(range) = self.ranges.pop() else { return Ok(None) };
                self.reader = Some(self.view.scan(&self.table.cells, &range, &self.slice)?);
                continue;
            };
            if !reader.next_partition()? {
                self.reader = None;
                continue;
            }
            let columns = read_slice(&self.table, &self.parent, reader, self.count, false)?;
            if !columns.is_empty() {
                return Ok(Some(KeySlice { key: reader.key().to_vec(), columns }));
            }
        }
    }
}

impl Keyspace {
    fn query<'a>(
        &self,
        table: &'a ApiTable,
        parent: &'a ColumnParent,
        predicate: &SlicePredicate,
        filter: &'a [IndexExpression],
        count: i32,
    ) -> Result<Query<'a>> {
        let selection = ReadSelection::new(table, parent, predicate)?;
        check::filter(table, filter)?;
        Ok(Query {
            table,
            parent,
            selection,
            filter: RangeFilter::new(table, filter)?,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    /// Returns the rows of a range, in the order of the partitioner. A row is returned without
    /// columns if it has none of the selected ones. That includes a deleted row, as long as
    /// anything of it is stored.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid request; errors of the engine.
    pub fn get_range_slices(
        &self,
        parent: &ColumnParent,
        predicate: &SlicePredicate,
        range: &KeyRange,
    ) -> Result<Vec<KeySlice>> {
        let table = self.table(&parent.column_family)?;
        // Errors of names are reported before those of the range.
        ReadSelection::new(&table, parent, predicate)?;
        let partitions = key_ranges(&table, self.wide.shared.partitioner, range)?;
        let query = self.query(&table, parent, predicate, &range.row_filter, range.count)?;
        if range.count <= 0 {
            return Err(invalid("maxRows must be positive"));
        }
        let view = self.store().view();
        let driver = query.filter.driver(&view)?;
        let from = match &range.start {
            KeyBound::Key(key) if !key.is_empty() => Some(&**key),
            _ => None,
        };
        let mut out = vec![];
        for range in &partitions {
            match driver {
                Some(driver) => query.lookup(&view, driver, from, range, &mut out)?,
                None => query.scan(&view, range, &mut out)?,
            }
        }
        Ok(out)
    }

    /// Returns up to `range.count` columns of the rows of a range. All rows are complete except the
    /// first and the last one. The row of the range's first key (with tokens, the first row) is
    /// read from `start_column` on, so that the next page begins where this one ended. Rows without
    /// columns are omitted.
    ///
    /// # Errors
    /// Those of [`get_range_slices`](Keyspace::get_range_slices).
    pub fn get_paged_slice(
        &self,
        column_family: &str,
        range: &KeyRange,
        start_column: &[u8],
    ) -> Result<Vec<KeySlice>> {
        let table = self.table(column_family)?;
        let parent = ColumnParent::new(column_family);
        let selection = |start: &[u8], count| {
            let range = SliceRange { start: start.to_vec(), count, ..SliceRange::default() };
            ReadSelection::new(&table, &parent, &range.into())
        };
        selection(start_column, 0)?;
        let partitions = key_ranges(&table, self.wide.shared.partitioner, range)?;
        check::filter(&table, &range.row_filter)?;
        if range.count <= 0 {
            return Err(invalid("maxRows must be positive"));
        }
        let filter = RangeFilter::new(&table, &range.row_filter)?;
        let view = self.store().view();
        let (mut out, mut left, mut first) = (vec![], range.count, true);
        for partitions in &partitions {
            let mut reader = view.scan(&table.cells, partitions, &StoreSlice::rows())?;
            while left > 0 && reader.next_partition()? {
                let is_first = match &range.start {
                    KeyBound::Key(key) => key == reader.key(),
                    KeyBound::Token(_) => first,
                };
                first = false;
                if !filter.matches(&view, reader.key())? {
                    continue;
                }
                let columns = if is_first && !start_column.is_empty() {
                    read_row(&table, &parent, &selection(start_column, left)?, &view, reader.key())?
                } else {
                    read_slice(
                        &table,
                        &parent,
                        &mut reader,
                        usize::try_from(left).unwrap_or(0),
                        false,
                    )?
                };
                left -= i32::try_from(columns.len()).unwrap_or(left);
                if !columns.is_empty() {
                    out.push(KeySlice { key: reader.key().to_vec(), columns });
                }
            }
        }
        Ok(out)
    }

    /// Returns the rows that match an index clause, in the order of the partitioner.
    ///
    /// If several indexed columns have equality conditions, the one that finds the fewest rows
    /// drives the query; the rest filters.
    ///
    /// # Errors
    /// Those of [`get_range_slices`](Keyspace::get_range_slices).
    pub fn get_indexed_slices(
        &self,
        parent: &ColumnParent,
        clause: &IndexClause,
        predicate: &SlicePredicate,
    ) -> Result<Vec<KeySlice>> {
        let table = self.table(&parent.column_family)?;
        check::kind(&table, false)?;
        let query = self.query(&table, parent, predicate, &[], clause.count)?;
        check::clause(&table, &clause.expressions, clause.count)?;
        let query = Query { filter: RangeFilter::new(&table, &clause.expressions)?, ..query };
        let view = self.store().view();
        let from = Some(&*clause.start_key).filter(|key| !key.is_empty());
        let mut out = vec![];
        if query.count > 0
            && let Some(driver) = query.filter.driver(&view)?
        {
            query.lookup(&view, driver, from, &Partitions::all(), &mut out)?;
        }
        Ok(out)
    }

    /// Returns the keys of the rows in a range that have any content, as in Cassandra 0.4.
    ///
    /// # Errors
    /// Those of [`get_range_slices`](Keyspace::get_range_slices).
    pub fn get_key_range(
        &self,
        column_family: &str,
        start: &[u8],
        finish: &[u8],
        count: i32,
    ) -> Result<Vec<Vec<u8>>> {
        let table = self.table(column_family)?;
        let range = KeyRange::keys(start, finish);
        let mut out = vec![];
        for partitions in &key_ranges(&table, self.wide.shared.partitioner, &range)? {
            let mut reader = self.store().scan(&table.cells, partitions, &StoreSlice::rows())?;
            while out.len() < usize::try_from(count).unwrap_or(0) && reader.next_partition()? {
                if reader.next()?.is_some() {
                    out.push(reader.key().to_vec());
                }
            }
        }
        Ok(out)
    }
}
