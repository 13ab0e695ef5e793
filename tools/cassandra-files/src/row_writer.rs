//! Encodes rows and markers, the reverse of `rows` and `reader` (`FORMAT.md`, "Rows").
//!
//! Data that cannot be represented is refused, not changed: a second before the header's minimum, a
//! value with a length that differs from its type's, columns out of order.

use crate::class::MarshalClass;
use crate::encode::{put_sized, put_vint};
use crate::format::{
    BOUNDS, CELL_DELETED, CELL_EMPTY, CELL_EXPIRES, CELL_ROW_TIMESTAMP, CELL_ROW_TTL, CLUSTERING,
    FLAGGED, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_MORE_FLAGS, HAS_TIMESTAMP,
    HAS_TTL, IS_MARKER, IS_STATIC, MANY_COLUMNS, NO_DELETION, VALUE_EMPTY, VALUE_FOLLOWS,
    VALUE_NULL, lists_present,
};
use crate::header::{HeaderColumn, NodeHeader};
use crate::rows::{
    NodeCell, NodeCellState, NodeColumn, NodeDeletion, NodeExpiry, NodeLiveness, NodeMarker,
    NodeRow,
};

/// The reason why data cannot be written.
pub(crate) type Refusal = String;

/// An encoded row or marker, without the sizes.
#[derive(Debug, Default)]
pub(crate) struct RowBytes {
    /// Flags and clustering.
    head: Vec<u8>,
    /// The part after the sizes.
    body: Vec<u8>,
    /// Clustering or bound, as encoded in indexes.
    pub prefix: Vec<u8>,
}

impl RowBytes {
    /// Appends it, after a row of `before` bytes.
    pub(crate) fn put(&self, before: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        let mut size = vec![];
        put_vint(&mut size, before);
        put_vint(out, (self.body.len() + size.len()) as u64);
        out.extend_from_slice(&size);
        out.extend_from_slice(&self.body);
    }
}

/// Encoder of a file's rows.
pub(crate) struct RowEncoder<'h> {
    pub header: &'h NodeHeader,
}

impl RowEncoder<'_> {
    pub(crate) fn row(&self, row: &NodeRow) -> Result<RowBytes, Refusal> {
        let columns = self.header.columns(row.is_static);
        let mut flags = 0;
        let mut set = |flag: u8, is_set: bool| flags |= if is_set { flag } else { 0 };
        set(HAS_TIMESTAMP, row.liveness.is_some());
        set(HAS_TTL, row.liveness.is_some_and(|l| l.expiry.is_some()));
        set(HAS_DELETION, row.deletion.is_some());
        let deletes = row.columns.iter().any(|c| c.deletion.is_some());
        set(HAS_COMPLEX_DELETION, deletes);
        set(HAS_ALL_COLUMNS, row.columns.len() == columns.len());
        set(HAS_MORE_FLAGS, row.is_static);
        let mut bytes = RowBytes { head: vec![flags], ..RowBytes::default() };
        if row.is_static {
            bytes.head.push(IS_STATIC);
        } else {
            if row.clustering.len() != self.header.clustering.len() {
                return Err(format!(
                    "a row has {} clustering values, and its table {}",
                    row.clustering.len(),
                    self.header.clustering.len()
                ));
            }
            bytes.prefix.push(CLUSTERING);
            self.put_clustering(&row.clustering, &mut bytes.prefix)?;
            bytes.head.extend_from_slice(&bytes.prefix[1..]);
        }
        let out = &mut bytes.body;
        if let Some(l) = row.liveness {
            self.put_timestamp(l.timestamp, out);
            if let Some(e) = l.expiry {
                self.put_ttl(e.ttl, out)?;
                self.put_second(e.expires, out)?;
            }
        }
        if let Some(d) = row.deletion {
            self.put_deletion(d, out)?;
        }
        if row.columns.len() != columns.len() {
            put_subset(row, columns.len(), out);
        }
        let mut last = None;
        for column in &row.columns {
            let Some(of) = columns.get(column.column).filter(|_| last < Some(column.column)) else {
                return Err("the columns of a row are in no order, or not in the header".to_owned());
            };
            last = Some(column.column);
            self.put_column(of, column, deletes, row.liveness, out)?;
        }
        Ok(bytes)
    }

    pub(crate) fn marker(&self, marker: &NodeMarker) -> Result<RowBytes, Refusal> {
        let sides = [&marker.close, &marker.open].map(|s| s.as_ref().map(|s| s.0.inclusive));
        let Some((kind, ..)) = BOUNDS.iter().find(|b| [b.1, b.2] == sides) else {
            return Err("a range ends where another begins, and they overlap or leave a gap".into());
        };
        let bounds = [&marker.close, &marker.open].into_iter().flatten();
        let mut values = bounds.clone().map(|b| &b.0.clustering);
        let first = values.next().ok_or("a marker says nothing")?;
        if values.any(|v| v != first) || first.len() > self.header.clustering.len() {
            return Err("the bounds of a marker differ, or have too many values".to_owned());
        }
        let count = u16::try_from(first.len()).map_err(|e| e.to_string())?;
        let mut bytes = RowBytes { head: vec![IS_MARKER], ..RowBytes::default() };
        bytes.prefix.push(*kind);
        bytes.prefix.extend_from_slice(&count.to_be_bytes());
        self.put_clustering(first, &mut bytes.prefix)?;
        bytes.head.extend_from_slice(&bytes.prefix);
        for (_, deletion) in bounds {
            self.put_deletion(*deletion, &mut bytes.body)?;
        }
        Ok(bytes)
    }

    fn put_clustering(&self, values: &[Option<Vec<u8>>], out: &mut Vec<u8>) -> Result<(), Refusal> {
        for (values, classes) in values.chunks(FLAGGED).zip(self.header.clustering.chunks(FLAGGED))
        {
            let flag = |value: &Option<Vec<u8>>| match value {
                None => VALUE_NULL,
                Some(v) if v.is_empty() => VALUE_EMPTY,
                Some(_) => VALUE_FOLLOWS,
            };
            let flags = values.iter().rev().fold(0, |flags, v| flags << 2 | flag(v));
            put_vint(out, flags);
            for (value, class) in values.iter().zip(classes) {
                if let Some(value) = value.as_ref().filter(|v| !v.is_empty()) {
                    put_value(value, class, out)?;
                }
            }
        }
        Ok(())
    }

    fn put_timestamp(&self, timestamp: i64, out: &mut Vec<u8>) {
        put_vint(out, timestamp.wrapping_sub(self.header.least_timestamp) as u64);
    }

    fn put_second(&self, second: i64, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if second < self.header.least_second || second > NO_DELETION.local {
            return Err(format!(
                "the second {second} is not one of {} to {}",
                self.header.least_second, NO_DELETION.local
            ));
        }
        put_vint(out, (second - self.header.least_second) as u64);
        Ok(())
    }

    fn put_ttl(&self, ttl: u32, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let most = i64::from(i32::MAX);
        let ttl = i64::from(ttl);
        if ttl < self.header.least_ttl || ttl > most {
            let least = self.header.least_ttl;
            return Err(format!("the time to live of {ttl} s is not one of {least} to {most}"));
        }
        put_vint(out, (ttl - self.header.least_ttl) as u64);
        Ok(())
    }

    fn put_deletion(&self, d: NodeDeletion, out: &mut Vec<u8>) -> Result<(), Refusal> {
        self.put_timestamp(d.timestamp, out);
        self.put_second(d.local, out)
    }

    fn put_column(
        &self,
        of: &HeaderColumn,
        column: &NodeColumn,
        with_deletion: bool,
        liveness: Option<NodeLiveness>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if !of.class.is_multi_cell() {
            let ([cell], None) = (&column.cells[..], column.deletion) else {
                return Err(format!("a column of type {} is one cell", of.class));
            };
            return self.put_cell(of, cell, false, liveness, out);
        }
        if with_deletion {
            self.put_deletion(column.deletion.unwrap_or(NO_DELETION), out)?;
        }
        put_vint(out, column.cells.len() as u64);
        column.cells.iter().try_for_each(|cell| self.put_cell(of, cell, true, liveness, out))
    }

    fn put_cell(
        &self,
        of: &HeaderColumn,
        cell: &NodeCell,
        in_collection: bool,
        liveness: Option<NodeLiveness>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let (value, deleted, expiry): (&[u8], Option<i64>, Option<NodeExpiry>) = match &cell.state {
            NodeCellState::Live(v) => (v, None, None),
            NodeCellState::Expiring(v, e) => (v, None, Some(*e)),
            NodeCellState::Deleted(second) => (&[], Some(*second), None),
        };
        let of_row = liveness.is_some_and(|l| l.timestamp == cell.timestamp);
        let ends_with_row = expiry.is_some() && liveness.is_some_and(|l| l.expiry == expiry);
        let mut flags = 0;
        let mut set = |flag: u8, is_set: bool| flags |= if is_set { flag } else { 0 };
        set(CELL_EMPTY, value.is_empty());
        set(CELL_DELETED, deleted.is_some());
        set(CELL_EXPIRES, expiry.is_some());
        set(CELL_ROW_TIMESTAMP, of_row);
        set(CELL_ROW_TTL, ends_with_row);
        out.push(flags);
        if !of_row {
            self.put_timestamp(cell.timestamp, out);
        }
        if let Some(second) = deleted {
            self.put_second(second, out)?;
        }
        if let Some(e) = expiry.filter(|_| !ends_with_row) {
            self.put_second(e.expires, out)?;
            self.put_ttl(e.ttl, out)?;
        }
        match (&cell.path, in_collection) {
            (Some(path), true) => put_sized(out, path),
            (None, false) => {}
            (path, _) => {
                let has = if path.is_some() { "has" } else { "lacks" };
                return Err(format!("a cell of type {} {has} the path of an element", of.class));
            }
        }
        match (value.is_empty(), in_collection) {
            (true, _) => Ok(()),
            (false, true) => {
                put_sized(out, value);
                Ok(())
            }
            (false, false) => put_value(value, &of.class, out),
        }
    }
}

/// Appends the set of columns that a row has.
fn put_subset(row: &NodeRow, of: usize, out: &mut Vec<u8>) {
    let there = || row.columns.iter().map(|c| c.column);
    let mut present = there().peekable();
    let missing = (0..of).filter(|i| present.next_if_eq(i).is_none());
    if of < MANY_COLUMNS {
        put_vint(out, missing.fold(0, |word, i| word | 1 << i));
        return;
    }
    let count = row.columns.len();
    put_vint(out, of.saturating_sub(count) as u64);
    match lists_present(count, of) {
        true => there().for_each(|i| put_vint(out, i as u64)),
        false => missing.for_each(|i| put_vint(out, i as u64)),
    }
}

/// Appends a value that is not empty.
fn put_value(value: &[u8], class: &MarshalClass, out: &mut Vec<u8>) -> Result<(), Refusal> {
    match class.fixed_length() {
        Some(len) if len == value.len() => out.extend_from_slice(value),
        Some(len) => {
            return Err(format!("a value of {class} has {} bytes, not {len}", value.len()));
        }
        None => put_sized(out, value),
    }
    Ok(())
}
