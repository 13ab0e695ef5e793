//! Bulk writes of rows to a family, in atomic chunks.
//!
//! Each chunk is written by one atomic call of the store. Its partitions are sorted by token, which
//! is the fastest order for the store.

use std::borrow::Cow;
use std::sync::Arc;

use firn_kv::Durability;

use super::Keyspace;
use super::check;
use super::state::ApiTable;
use crate::base::error::Result;
use crate::cell::{Cell, CellDeletion, CellState};
use crate::schema::Family;
use crate::store::{CellStore, StoreMutation};
use crate::types::Type;

/// Maximum bytes of names and values in a chunk.
const CHUNK_BYTES: usize = 16 << 20;

/// Number of rows and columns read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows with content. A row in two parts counts twice.
    pub rows: u64,
    /// Columns, including tombstones.
    pub columns: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts { rows: self.rows + other.rows, columns: self.columns + other.columns }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = *self + other;
    }
}

/// Collects rows, validates them, and writes them in chunks. Use it to write many rows.
///
/// ```
/// use firn_wide::internals::api::Chunks;
/// use firn_wide::{CfDef, KsDef, Wide};
/// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-chunks-{}", std::process::id()));
/// let wide = Wide::open(&dir)?;
/// wide.system_add_keyspace(&KsDef::new("K"))?;
/// wide.system_add_column_family(&CfDef::new("K", "F"))?;
/// let keyspace = wide.keyspace("K")?;
///
/// let mut chunks = Chunks::new(&keyspace, "F", 10_000, wide.durability())?;
/// for key in ["ann", "bob"] {
///     let columns = [("city", "Rome"), ("age", "40")];
///     chunks.record(key.as_bytes(), None, columns.iter().map(|(n, v)| Ok((n.as_bytes().into(), v.as_bytes().into()))))?;
/// }
/// chunks.flush()?;
/// assert_eq!((chunks.written().rows, chunks.written().columns), (2, 4));
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok::<(), firn_wide::Error>(())
/// ```
///
/// Refused rows are not written, but earlier chunks may have been. Rows that are not
/// [flushed](Chunks::flush) are not written.
pub struct Chunks {
    store: CellStore,
    table: Arc<ApiTable>,
    durability: Durability,
    limit: usize,
    /// The first `used` mutations belong to the current chunk; others are retained for their
    /// memory.
    mutations: Vec<StoreMutation>,
    used: usize,
    cells: usize,
    bytes: usize,
    place: Vec<u8>,
    key: Vec<u8>,
    /// Whether the row was begun and has no content yet.
    is_bare: bool,
    counts: Counts,
    written: Counts,
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Creates a writer for a family, with at most `limit` columns in a chunk (at least 1).
    ///
    /// # Errors
    /// `InvalidRequest` if there is no such family.
    pub fn new(
        keyspace: &Keyspace,
        family: &str,
        limit: usize,
        durability: Durability,
    ) -> Result<Chunks> {
        Ok(Chunks {
            store: keyspace.store().clone(),
            table: keyspace.table(family)?,
            durability,
            limit: limit.max(1),
            mutations: vec![],
            used: 0,
            cells: 0,
            bytes: 0,
            place: vec![],
            key: vec![],
            is_bare: false,
            counts: Counts::default(),
            written: Counts::default(),
        })
    }

    /// Returns the family's definition ([`internals::schema`](crate::internals::schema)).
    pub fn family(&self) -> &Arc<Family> {
        &self.table.def
    }

    /// Returns a timestamp of the current time, larger than all earlier ones.
    pub fn timestamp(&self) -> i64 {
        self.store.timestamp()
    }

    /// Returns the current time in seconds since 1970.
    pub fn now(&self) -> i64 {
        self.store.now()
    }

    /// Returns the number of rows and columns written.
    pub fn written(&self) -> Counts {
        self.written
    }

    /// Returns the number of rows and columns accepted, written or not.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of rows that are not written yet.
    pub fn pending(&self) -> usize {
        self.used
    }

    /// Begins a row. The following cells belong to it.
    ///
    /// # Errors
    /// `InvalidRequest` for an invalid key; errors of [`flush`](Chunks::flush).
    pub fn row(&mut self, key: &[u8]) -> Result<()> {
        check::key(&self.table, key)?;
        if self.is_full() {
            self.flush()?;
        }
        self.is_bare = true;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.begin();
        Ok(())
    }

    /// Reports whether the chunk is full: it will be written before anything is added.
    pub fn is_full(&self) -> bool {
        self.cells >= self.limit || self.bytes >= CHUNK_BYTES
    }

    fn begin(&mut self) {
        match self.mutations.get_mut(self.used) {
            Some(m) => m.reset(&self.key),
            None => self.mutations.push(StoreMutation::new(&self.key)),
        }
        self.used += 1;
    }

    /// Writes a record as a row, or as a super column of one, with a current timestamp. A record is
    /// never split over chunks. If it is refused, or if one of its columns is an error, nothing of
    /// it is written.
    ///
    /// # Errors
    /// Those of [`row`](Chunks::row) and [`cell`](Chunks::cell), and the first error among the
    /// columns.
    pub fn record<'a>(
        &mut self,
        key: &[u8],
        super_column: Option<&[u8]>,
        columns: impl Iterator<Item = Result<(Cow<'a, [u8]>, Cow<'a, [u8]>)>>,
    ) -> Result<()> {
        let before = self.counts;
        self.row(key)?;
        let (cells, bytes) = (self.cells, self.bytes);
        let timestamp = self.store.timestamp();
        let mut put = |(name, value): (Cow<'_, [u8]>, Cow<'_, [u8]>)| {
            let state = self.state_by_default(&value);
            self.put(super_column, &name, Cell { timestamp, state })
        };
        let done = columns.into_iter().try_for_each(|column| column.and_then(&mut put));
        if done.is_err() {
            (self.counts, self.cells, self.bytes) = (before, cells, bytes);
            self.used -= 1;
        }
        done
    }

    /// Returns the state of a value that is written now without a TTL: it expires if the family has
    /// a default TTL.
    pub fn state_by_default<'v>(&self, value: &'v [u8]) -> CellState<'v> {
        match self.table.def.default_ttl() {
            Some(ttl) => {
                let expires = self.store.now().saturating_add(i64::from(ttl));
                CellState::Expiring { value, ttl, expires }
            }
            None => CellState::Live(value),
        }
    }

    /// Writes a column of the row, in a super column if one is named.
    ///
    /// # Errors
    /// `InvalidRequest` with the texts of an insert; errors of [`flush`](Chunks::flush), if the row
    /// continues in another chunk.
    pub fn cell(&mut self, super_column: Option<&[u8]>, name: &[u8], cell: Cell<'_>) -> Result<()> {
        self.make_room()?;
        self.put(super_column, name, cell)
    }

    fn put(&mut self, super_column: Option<&[u8]>, name: &[u8], cell: Cell<'_>) -> Result<()> {
        let table = &*self.table;
        check::kind(table, cell.counter().is_some())?;
        check::path(table, super_column, Some(name))?;
        if let CellState::Live(value) | CellState::Expiring { value, .. } = cell.state {
            let validate = |t: &Type, value: &[u8]| t.validate(value).map_err(|why| why.0);
            check::value(table, super_column.is_some(), name, value, validate)?;
        }
        self.place.clear();
        table.layout().put_cell(super_column.as_slice(), name, &mut self.place)?;
        self.bytes += self.place.len() + cell.value().len();
        self.cells += 1;
        self.count_row();
        self.counts.columns += 1;
        if let Some(m) = self.used.checked_sub(1).and_then(|i| self.mutations.get_mut(i)) {
            m.put_cell(&self.table.cells, &self.place, cell);
        }
        Ok(())
    }

    /// Deletes the row, or a super column of it.
    ///
    /// # Errors
    /// Those of [`cell`](Chunks::cell).
    pub fn delete(&mut self, super_column: Option<&[u8]>, deletion: CellDeletion) -> Result<()> {
        check::kind(&self.table, false)?;
        if let Some(name) = super_column {
            check::path(&self.table, Some(name), None)?;
        }
        self.make_room()?;
        self.place.clear();
        if let Some(name) = super_column {
            self.table.layout().put_row(&[name], &mut self.place)?;
        }
        self.cells += 1;
        self.count_row();
        if let Some(m) = self.used.checked_sub(1).and_then(|i| self.mutations.get_mut(i)) {
            m.delete_as(&self.table.cells, &self.place, deletion);
        }
        Ok(())
    }

    /// Counts the row at its first column or deletion.
    fn count_row(&mut self) {
        self.counts.rows += u64::from(std::mem::take(&mut self.is_bare));
    }

    /// Ends a full chunk in the middle of a row.
    fn make_room(&mut self) -> Result<()> {
        if self.is_full() {
            self.flush()?;
            self.begin();
        }
        Ok(())
    }

    /// Writes the collected rows.
    ///
    /// # Errors
    /// Errors of the store. Then nothing of the chunk was written.
    pub fn flush(&mut self) -> Result<()> {
        let layout = self.table.layout();
        let chunk = &mut self.mutations[..self.used];
        chunk.sort_by_cached_key(|m| {
            let mut part = vec![];
            // A key that cannot be encoded is refused when it is written.
            layout.put_partition(m.key(), &mut part).map(|()| part).unwrap_or_default()
        });
        (self.used, self.cells, self.bytes) = (0, 0, 0);
        self.store.apply(chunk, self.durability)?;
        self.written = self.counts;
        Ok(())
    }
}
