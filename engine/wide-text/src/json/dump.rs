//! Formats rows like Cassandra's `sstabledump` (model 5.1), in the form that 3.x gives column
//! families (model 2.12). A column of a Standard family is a row whose clustering is its name. A
//! super column is a row whose columns are elements of a map without a name.

use std::io::{self, Write};

use firn_wide::Type;
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::internals::key::KeyPlace;
use firn_wide::internals::store::Body;

use super::JsonFailure;
use super::emit::Emit;
use super::times::Times;
use crate::files::{BoundText, DescribedFile, bound};
use crate::text::{self, JsonText};

/// Prints entries, which must come in key order.
pub struct Dump<W: Write> {
    family: DescribedFile,
    times: Times,
    now: i64,
    emit: Emit<W>,
    partition: Vec<u8>,
    /// Whether the list of the partition's rows is open.
    rows: bool,
    row: Vec<u8>,
    /// Whether a row's list of cells is open.
    cells: bool,
    name: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Dump<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dump").finish_non_exhaustive()
    }
}

impl<W: Write> Dump<W> {
    /// Creates a dump; `now`, in seconds since 1970, determines expired cells.
    pub fn new(family: DescribedFile, times: Times, now: i64, out: W) -> Dump<W> {
        let mut emit = Emit::new(out);
        emit.open(b'[');
        Dump {
            family,
            times,
            now,
            emit,
            partition: vec![],
            rows: false,
            row: vec![],
            cells: false,
            name: vec![],
        }
    }

    /// Prints an entry: the partition part of its key, the partition key, its position and its
    /// contents.
    ///
    /// # Errors
    /// Errors of the output, and `Corrupt`.
    /// Errors of the output, and `Corrupt`.
    pub fn entry(
        &mut self,
        partition: &[u8],
        key: &[u8],
        place: &KeyPlace<'_>,
        body: &Body<'_>,
    ) -> Result<(), JsonFailure> {
        if self.partition != partition {
            self.leave_partition();
            self.partition.extend_from_slice(partition);
            self.emit.member()?;
            self.emit.open(b'{');
            self.emit.named("partition")?;
            self.emit.raw("{\"key\": [");
            self.emit.quote(&text::show(self.family.def.key_validator(), key).text)?;
            self.emit.raw("]");
            if let Body::PartitionDeletion(d) = body {
                self.deletion(d)?;
            }
            self.emit.raw("}");
            self.emit.named("rows")?;
            self.emit.open(b'[');
            self.rows = true;
        }
        match body {
            Body::PartitionDeletion(_) => {}
            Body::RangeDeletion { start, end, deletion } => self.range(start, end, deletion)?,
            Body::RowDeletion(d) => {
                self.leave_row();
                self.row.extend_from_slice(place.row);
                self.open_row(place.row, None)?;
                self.deletion(d)?;
                self.emit.raw(", \"cells\": ");
                self.emit.open(b'[');
                self.cells = true;
            }
            Body::Cell(cell) => self.cell(place, cell)?,
            // Column families have no complex columns.
            Body::ComplexDeletion(_) => {}
        }
        Ok(())
    }

    fn leave_row(&mut self) {
        self.row.clear();
        if std::mem::take(&mut self.cells) {
            self.emit.close(b']');
            self.emit.raw("}");
        }
    }

    fn leave_partition(&mut self) {
        self.leave_row();
        self.partition.clear();
        if std::mem::take(&mut self.rows) {
            self.emit.close(b']');
            self.emit.close(b'}');
        }
    }

    fn open_row(&mut self, row: &[u8], name: Option<&[u8]>) -> Result<(), JsonFailure> {
        self.emit.member()?;
        self.emit.raw("{\"type\": \"row\", \"clustering\": [");
        let mut parts = vec![];
        self.family.layout.clustering_of(row, &mut parts)?;
        parts.extend(name.map(<[u8]>::to_vec));
        for (i, raw) in parts.iter().enumerate() {
            if i > 0 {
                self.emit.raw(", ");
            }
            self.emit.value(&text::show(self.family.def.comparator(), raw))?;
        }
        self.emit.raw("]");
        Ok(())
    }

    fn cell(&mut self, place: &KeyPlace<'_>, cell: &Cell<'_>) -> Result<(), JsonFailure> {
        self.name.clear();
        self.family.layout.name_of(place.name, &mut self.name)?;
        let name = std::mem::take(&mut self.name);
        let in_super_column = self.family.def.is_super();
        if !in_super_column || self.row != place.row || !self.cells {
            self.leave_row();
            self.row.extend_from_slice(place.row);
            self.open_row(place.row, (!in_super_column).then_some(&name))?;
            self.emit.raw(", \"cells\": ");
            self.emit.open(b'[');
            self.cells = true;
        }
        self.emit.member()?;
        if in_super_column {
            self.emit.raw("{\"name\": \"\", \"path\": [");
            self.emit.quote(&text::show(self.family.def.cell_comparator(), &name).text)?;
            self.emit.raw("]");
        } else {
            self.emit.raw("{\"name\": \"value\"");
        }
        self.said(cell, self.family.def.clone().validator(&name))?;
        self.name = name;
        Ok(())
    }

    /// Prints a cell's contents, and its end.
    fn said(&mut self, cell: &Cell<'_>, of: &Type) -> io::Result<()> {
        match cell.state {
            CellState::Live(v) | CellState::Expiring { value: v, .. } => {
                self.emit.raw(", \"value\": ");
                self.emit.value(&text::show(of, v))?;
            }
            CellState::Counter(n) => self.emit.raw(&format!(", \"value\": {n}")),
            CellState::Tombstone { deleted } => {
                let at = self.times.second(deleted);
                self.emit.raw(&format!(", \"deletion_info\": {{\"local_delete_time\": {at}}}"));
            }
        }
        let at = self.times.micros(cell.timestamp);
        self.emit.raw(&format!(", \"tstamp\": {at}"));
        if let CellState::Expiring { ttl, expires, .. } = cell.state {
            let (at, gone) = (self.times.second(expires), expires <= self.now);
            self.emit.raw(&format!(", \"ttl\": {ttl}, \"expires_at\": {at}, \"expired\": {gone}"));
        }
        self.emit.raw("}");
        Ok(())
    }

    fn deletion(&mut self, d: &CellDeletion) -> io::Result<()> {
        let (marked, local) = (self.times.micros(d.timestamp), self.times.second(d.local));
        self.emit.raw(&format!(
            ", \"deletion_info\": {{\"marked_deleted\": {marked}, \"local_delete_time\": {local}}}"
        ));
        Ok(())
    }

    fn range(
        &mut self,
        start: &[u8],
        end: &[u8],
        deletion: &CellDeletion,
    ) -> Result<(), JsonFailure> {
        for (which, place, is_start) in [("start", start, true), ("end", end, false)] {
            let bound = bound(&self.family.layout, place).ok_or_else(|| damaged(place))?;
            self.emit.member()?;
            self.emit.raw(&format!("{{\"type\": \"range_tombstone_bound\", \"{which}\": "));
            self.bound(&bound, is_start)?;
            self.deletion(deletion)?;
            self.emit.raw("}");
        }
        Ok(())
    }

    fn bound(&mut self, bound: &BoundText, is_start: bool) -> io::Result<()> {
        let kind = if bound.after == is_start { "exclusive" } else { "inclusive" };
        self.emit.raw(&format!("{{\"type\": \"{kind}\", \"clustering\": ["));
        if bound.parts.is_empty() {
            self.emit.quote("*")?;
        }
        for (i, part) in bound.parts.iter().enumerate() {
            if i > 0 {
                self.emit.raw(", ");
            }
            self.emit.value(&JsonText { text: part.into(), bare: false })?;
        }
        self.emit.raw("]}");
        Ok(())
    }

    /// Ends the dump.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.leave_partition();
        self.emit.close(b']');
        self.emit.finish()
    }
}

fn damaged(place: &[u8]) -> firn_wide::Error {
    firn_wide::Error::Corrupt(format!(
        "the bound of a deleted range can't be read: \"{}\"",
        place.escape_ascii()
    ))
}
