//! Exports column families as JSON, in the article's two notations.

use std::io::{self, Write};
use std::sync::Arc;

use firn_wide::internals::api::Counts;
use firn_wide::internals::cell::{Cell, CellDeletion, CellState};
use firn_wide::internals::key::KeyPlace;
use firn_wide::internals::schema::Family;
use firn_wide::internals::store::{Body, Partitions, StoreSlice, StoreView};
use firn_wide::{Error, Wide};

use super::JsonFailure;
use super::dump::Dump;
use super::emit::Emit;
use super::times::Times;
use crate::files::DescribedFile;
use crate::text;

/// The exported parts of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Triples of name, value and timestamp, with TTLs, tombstones and deletions: the complete
    /// contents of a column family.
    Full,
    /// Names and values of live columns.
    Short,
}

/// The deletions that cover the cells of a forward, raw reader.
#[derive(Default)]
pub(super) struct OpenDeletions {
    partition: Option<i64>,
    row: Option<i64>,
    in_row: Vec<u8>,
}

impl OpenDeletions {
    /// Reports whether an entry is visible, given the deletions.
    pub fn shows(&mut self, place: &KeyPlace<'_>, body: &Body<'_>) -> bool {
        if self.in_row != place.row {
            self.in_row.clear();
            self.in_row.extend_from_slice(place.row);
            self.row = None;
        }
        match body {
            Body::PartitionDeletion(d) => {
                self.partition = Some(d.timestamp);
                true
            }
            Body::RowDeletion(d) => {
                let counts = self.partition.is_none_or(|t| d.timestamp > t);
                self.row = counts.then_some(d.timestamp);
                counts
            }
            Body::Cell(c) => self.partition.max(self.row).is_none_or(|t| c.timestamp > t),
            Body::RangeDeletion { .. } | Body::ComplexDeletion(_) => true,
        }
    }
}

struct Export<'a, W: Write> {
    def: &'a Family,
    notation: Notation,
    now: i64,
    emit: Emit<&'a mut W>,
    key: Vec<u8>,
    /// Whether the row is open, and the components of the open super column.
    row: bool,
    super_column: Vec<u8>,
    name: Vec<u8>,
    counts: Counts,
}

/// Exports column families of a keyspace from one snapshot. Without names: every family except
/// those of types unknown to this program.
///
/// # Errors
/// `InvalidRequest` for an unknown column family, or one with contents that the notation cannot
/// express; errors of the store and of `out`.
pub fn export<W: Write>(
    wide: &Wide,
    keyspace: &str,
    families: &[String],
    notation: Notation,
    out: &mut W,
) -> Result<Counts, JsonFailure> {
    let schema = wide.schema();
    let chosen: Vec<Arc<Family>> = if families.is_empty() {
        let all = schema.keyspace(keyspace)?.families();
        all.filter(|def| def.check_registered().is_ok()).cloned().collect()
    } else {
        let known = |name: &String| {
            let def = schema.family(keyspace, name)?;
            def.check_registered().map(|()| def.clone())
        };
        families.iter().map(known).collect::<firn_wide::Result<_>>()?
    };
    let view = wide.store().view();
    let mut emit = Emit::new(out);
    emit.open(b'{');
    let mut counts = Counts::default();
    for def in &chosen {
        emit.named(def.name())?;
        emit.open(b'{');
        let mut export = Export {
            def,
            notation,
            now: wide.store().now(),
            emit,
            key: vec![],
            row: false,
            super_column: vec![],
            name: vec![],
            counts,
        };
        export.family(wide, &view)?;
        (emit, counts) = (export.emit, export.counts);
        emit.close(b'}');
    }
    emit.close(b'}');
    emit.finish()?;
    Ok(counts)
}

impl<W: Write> Export<'_, W> {
    fn family(&mut self, wide: &Wide, view: &StoreView) -> Result<(), JsonFailure> {
        let Some(family) = wide.store().family(self.def.id()) else {
            return Err(Error::NotFound.into());
        };
        let slice = if self.notation == Notation::Full {
            StoreSlice::all().raw()
        } else {
            StoreSlice::all()
        };
        let mut reader = view.scan(&family, &Partitions::all(), &slice)?;
        while reader.next_partition()? {
            self.key.clear();
            self.key.extend_from_slice(reader.key());
            let mut cover = OpenDeletions::default();
            while let Some(item) = reader.next()? {
                if self.notation == Notation::Full && !cover.shows(&item.place, &item.body) {
                    continue;
                }
                self.item(family.layout(), &item.place, &item.body)?;
            }
            self.close_super_column();
            if std::mem::take(&mut self.row) {
                self.emit.close(b'}');
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        layout: &firn_wide::internals::key::Layout,
        place: &KeyPlace<'_>,
        body: &Body<'_>,
    ) -> Result<(), JsonFailure> {
        self.open_row()?;
        if !place.row.is_empty() && self.super_column != place.row {
            self.close_super_column();
            self.open_super_column(layout, place.row)?;
        }
        match body {
            Body::PartitionDeletion(d) | Body::RowDeletion(d) => {
                self.emit.named("")?;
                self.deletion(d);
            }
            Body::Cell(cell) => {
                self.name.clear();
                layout.name_of(place.name, &mut self.name)?;
                self.cell(cell)?;
            }
            Body::RangeDeletion { .. } | Body::ComplexDeletion(_) => {
                let name = self.def.name();
                return Err(firn_wide::internals::base::error::invalid(format!(
                    "{name} holds deletions of ranges, which the article's notations can't say; a dump can"
                ))
                .into());
            }
        }
        Ok(())
    }

    fn open_row(&mut self) -> io::Result<()> {
        if self.row {
            return Ok(());
        }
        self.row = true;
        self.counts.rows += 1;
        self.emit.named(&text::show_name(self.def.key_validator(), &self.key))?;
        self.emit.open(b'{');
        Ok(())
    }

    fn open_super_column(
        &mut self,
        layout: &firn_wide::internals::key::Layout,
        row: &[u8],
    ) -> Result<(), JsonFailure> {
        self.super_column.extend_from_slice(row);
        let mut parts = vec![];
        layout.clustering_of(row, &mut parts)?;
        let raw = parts.first().map_or(&[][..], |p| p);
        let name = text::show_name(self.def.comparator(), raw);
        self.emit.named(&name)?;
        if self.notation == Notation::Full {
            self.emit.raw("{\"name\": ");
            self.emit.quote(&name)?;
            self.emit.raw(", \"value\": ");
        }
        self.emit.open(b'{');
        Ok(())
    }

    fn close_super_column(&mut self) {
        if self.super_column.is_empty() {
            return;
        }
        self.super_column.clear();
        self.emit.close(b'}');
        if self.notation == Notation::Full {
            self.emit.raw("}");
        }
    }

    fn deletion(&mut self, d: &CellDeletion) {
        self.emit.raw(&format!("{{\"timestamp\": {}, \"deleted\": {}}}", d.timestamp, d.local));
    }

    fn cell(&mut self, cell: &Cell<'_>) -> io::Result<()> {
        self.counts.columns += 1;
        let name = text::show_name(self.def.cell_comparator(), &self.name);
        let of = self.def.validator(&self.name);
        self.emit.named(&name)?;
        if self.notation == Notation::Short {
            return match cell.state {
                CellState::Counter(n) => {
                    self.emit.raw(&n.to_string());
                    Ok(())
                }
                _ => self.emit.value(&text::show(of, cell.value())),
            };
        }
        self.emit.raw("{\"name\": ");
        self.emit.quote(&name)?;
        let rest = match cell.state {
            CellState::Live(_) => String::new(),
            CellState::Expiring { ttl, expires, .. } => {
                format!(", \"ttl\": {ttl}, \"expires\": {expires}")
            }
            CellState::Tombstone { deleted } => format!(", \"deleted\": {deleted}"),
            CellState::Counter(n) => format!(", \"counter\": {n}"),
        };
        let value = match cell.state {
            CellState::Live(value) => Some(value),
            // An expired cell has no value, whether a compaction has removed it yet or not.
            CellState::Expiring { value, expires, .. } => {
                Some(if expires <= self.now { &[][..] } else { value })
            }
            CellState::Tombstone { .. } | CellState::Counter(_) => None,
        };
        if let Some(value) = value {
            self.emit.raw(", \"value\": ");
            self.emit.value(&text::show(of, value))?;
        }
        self.emit.raw(&format!(", \"timestamp\": {}{rest}}}", cell.timestamp));
        Ok(())
    }
}

/// Writes a column family like `sstabledump` prints a table: its data without covered entries, and
/// its deletions.
///
/// # Errors
/// `InvalidRequest` for an unknown column family; errors of the store and of `out`.
pub fn dump<W: Write>(
    wide: &Wide,
    keyspace: &str,
    family: &str,
    times: Times,
    out: &mut W,
) -> Result<Counts, JsonFailure> {
    let def = wide.schema().family(keyspace, family)?.clone();
    let Some(cells) = wide.store().family(def.id()) else { return Err(Error::NotFound.into()) };
    let described = DescribedFile { def, layout: cells.layout().clone() };
    let mut dump = Dump::new(described, times, wide.store().now(), out);
    let mut counts = Counts::default();
    let mut reader =
        wide.store().view().scan(&cells, &Partitions::all(), &StoreSlice::all().raw())?;
    let (mut partition, mut key) = (vec![], vec![]);
    while reader.next_partition()? {
        partition.clear();
        partition.extend_from_slice(reader.partition());
        key.clear();
        key.extend_from_slice(reader.key());
        let mut cover = OpenDeletions::default();
        let before = counts.columns;
        while let Some(item) = reader.next()? {
            if cover.shows(&item.place, &item.body) {
                dump.entry(&partition, &key, &item.place, &item.body)?;
                counts.columns += u64::from(item.cell().is_some());
            }
        }
        counts.rows += u64::from(counts.columns > before);
    }
    dump.finish()?;
    Ok(counts)
}
