//! Conditional changes (lightweight transactions). They read, compare and write under a lock on the
//! partition, so they are serialised.
//!
//! Invariant: an applied change is visible whatever the clock does. Its timestamp is larger than
//! those of all rows that were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_wide::Type;
use firn_wide::internals::key::{AFTER, ROWS};
use firn_wide::internals::store::{Body, StoreFamily, StoreSlice, StoreView};

use super::plan::{BoundStatement, ChangeSet};
use super::statement::{ChangeTimes, StatementGuard, Verb};
use crate::catalog::{ColumnKind, ColumnType, PartitionKey, TableSchema};
use crate::error::{Result, bail, invalid};
use crate::exec::engine::Engine;
use crate::exec::row::{Row, RowShape, ShapeReader};
use crate::exec::rows::{RowCells, Rows};
use crate::values::{ColumnSpec, EvalEnv};

/// State of the partition before the change.
struct Partition<'p> {
    table: &'p TableSchema,
    key: &'p [u8],
    view: &'p StoreView,
    family: &'p StoreFamily,
    shape: &'p RowShape,
    statics: Row,
}

/// Target of a guard: a row, or the static cells.
type ConditionalTarget = Option<Vec<Vec<u8>>>;

fn target(given: &BoundStatement<'_>, env: &EvalEnv<'_>) -> Result<ConditionalTarget> {
    let change = given.change;
    let is_about_row = match &change.guard {
        StatementGuard::Columns(_) => {
            change.guard.columns().any(|c| !change.table.columns()[c].is_static())
        }
        _ => change.concerns_rows(),
    };
    // Check the clustering values even if no condition refers to the row.
    let rows = match change.concerns_rows() && change.restrictions.names_rows() {
        true => change.rows(&given.env(env))?,
        false => vec![],
    };
    Ok(rows.into_iter().next().filter(|_| is_about_row))
}

/// Refuses guards of one row that exclude each other.
fn check_guards(targets: &[(&BoundStatement<'_>, ConditionalTarget)]) -> Result<()> {
    let mut seen: BTreeMap<&ConditionalTarget, &StatementGuard> = BTreeMap::new();
    for (given, target) in targets {
        let guard = &given.change.guard;
        let text = match (seen.insert(target, guard), guard) {
            (Some(StatementGuard::Exists), StatementGuard::NotExists)
            | (Some(StatementGuard::NotExists), StatementGuard::Exists) => {
                "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
            }
            (Some(StatementGuard::Columns(_)), StatementGuard::Exists) => {
                "Cannot mix IF conditions and IF EXISTS for the same row"
            }
            // Cassandra names the other guard here, whichever it is.
            (Some(StatementGuard::Columns(_)), StatementGuard::NotExists)
            | (
                Some(StatementGuard::Exists | StatementGuard::NotExists),
                StatementGuard::Columns(_),
            ) => "Cannot mix IF conditions and IF NOT EXISTS for the same row",
            _ => continue,
        };
        return Err(invalid(text));
    }
    Ok(())
}

impl<'p> Partition<'p> {
    fn read(
        table: &'p TableSchema,
        key: &'p [u8],
        view: &'p StoreView,
        family: &'p StoreFamily,
        shape: &'p RowShape,
    ) -> Result<Partition<'p>> {
        let mut reader =
            ShapeReader::new(shape, view.read(family, key, &StoreSlice::statics())?, false);
        reader.start()?;
        let statics = reader.statics().clone();
        Ok(Partition { table, key, view, family, shape, statics })
    }

    /// Returns the slice of the row with these clustering values; of all rows if there are none.
    fn slice(&self, clustering: &[Vec<u8>]) -> Result<StoreSlice> {
        let layout = self.shape.layout();
        let (mut from, mut until) = (vec![], vec![]);
        if clustering.is_empty() {
            layout.put_bound(clustering, false, &mut from)?;
            layout.put_bound(clustering, true, &mut until)?;
        } else {
            layout.put_row(clustering, &mut from)?;
            until.extend_from_slice(&from);
            until.push(AFTER);
        }
        Ok(StoreSlice::between(from, until))
    }

    /// Returns the newest timestamp, deletions included, in the rows of the guards and in the
    /// static cells.
    fn newest(&self, targets: &[(&BoundStatement<'_>, ConditionalTarget)]) -> Result<i64> {
        // Ahead of the rows are the deletions of the partition and of ranges, and the static cells.
        let mut slices = vec![StoreSlice::between(vec![], vec![ROWS])];
        for row in targets.iter().filter_map(|t| t.1.as_ref()) {
            let slice = self.slice(row)?;
            if let Some(deletion) = self.shape.layout().super_deletion(&slice.from) {
                let after = [&deletion[..], &[0]].concat();
                slices.push(StoreSlice::between(deletion, after));
            }
            slices.push(slice);
        }
        let mut newest = i64::MIN;
        for slice in slices {
            let mut reader = self.view.read(self.family, self.key, &slice.raw())?;
            while let Some(item) = reader.next()? {
                newest = newest.max(match item.body {
                    Body::Cell(cell) => cell.timestamp,
                    Body::PartitionDeletion(d)
                    | Body::RowDeletion(d)
                    | Body::ComplexDeletion(d) => d.timestamp,
                    Body::RangeDeletion { deletion, .. } => deletion.timestamp,
                });
            }
        }
        Ok(newest)
    }

    /// Returns a row if it exists.
    fn row(&self, clustering: &[Vec<u8>]) -> Result<Option<Row>> {
        self.first(clustering, self.shape)
    }

    /// Returns the first row. If no change refers to rows, Cassandra reads only static columns;
    /// then it finds only rows with a marker.
    fn first_row(&self, about_rows: bool) -> Result<Option<Row>> {
        match about_rows {
            true => self.first(&[], self.shape),
            false => self.first(&[], &self.shape.clone().by_markers()),
        }
    }

    fn first(&self, clustering: &[Vec<u8>], shape: &RowShape) -> Result<Option<Row>> {
        let reader = self.view.read(self.family, self.key, &self.slice(clustering)?)?;
        let mut rows = ShapeReader::new(shape, reader, false);
        rows.start()?;
        Ok(rows.advance()?.then(|| rows.row().clone()))
    }

    /// Returns the slot of a column's value in rows.
    fn slot(&self, column: usize) -> usize {
        column - self.table.partition().len() - self.table.clustering().len()
    }

    fn value<'v>(&'v self, row: Option<&'v Row>, column: usize) -> Option<&'v [u8]> {
        match self.table.columns()[column].is_static() {
            true => self.statics.value(self.slot(column)),
            false => row?.value(self.slot(column)),
        }
    }

    fn holds(
        &self,
        given: &BoundStatement<'_>,
        row: Option<&Row>,
        is_static: bool,
        env: &EvalEnv<'_>,
    ) -> Result<bool> {
        let exists = if is_static { self.statics.exists() } else { row.is_some() };
        match &given.change.guard {
            StatementGuard::None => Ok(true),
            StatementGuard::Exists => Ok(exists),
            StatementGuard::NotExists => Ok(!exists),
            StatementGuard::Columns(all) => {
                all.iter().try_for_each(|condition| condition.check(env))?;
                for condition in all {
                    let column = &self.table.columns()[condition.column];
                    if !condition.holds(column, self.value(row, condition.column), env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Writes a result row with the applied flag and the current values. Columns that were not read
    /// are null.
    fn show(
        &self,
        row: Option<&Row>,
        columns: &[usize],
        is_read: impl Fn(usize) -> bool,
        out: &mut RowCells,
    ) -> Result<()> {
        let mut key = PartitionKey::default();
        key.set(self.table, self.key)?;
        let value = |i: usize| {
            let column = &self.table.columns()[i];
            match column.kind {
                ColumnKind::Partition => key.part(column.position),
                ColumnKind::Clustering => row.and_then(|r| r.clustering(column.position)),
                ColumnKind::Static | ColumnKind::Regular if !is_read(i) => None,
                ColumnKind::Static | ColumnKind::Regular => self.value(row, i),
            }
        };
        out.push(Some(&[0]));
        columns.iter().for_each(|i| out.push(value(*i)));
        Ok(())
    }
}

/// Returns the result that consists of the applied flag only.
fn only_applied(table: &TableSchema, done: bool) -> Rows {
    let mut cells = RowCells::default();
    cells.push(Some(&[u8::from(done)]));
    Rows::new(Arc::new([applied(table)]), cells)
}

fn applied(table: &TableSchema) -> ColumnSpec {
    ColumnSpec::new(table, "[applied]", &ColumnType::frozen(Type::Boolean))
}

impl ChangeSet<'_> {
    /// Executes changes some of which have conditions: all are applied, or none.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub(super) fn run_conditional(&self, engine: &Engine, env: &EvalEnv<'_>) -> Result<Rows> {
        let key = self.one_key()?;
        let Some(first) = self.all.first() else { return Ok(Rows::void()) };
        let table = &first.change.table;
        let mut targets: Vec<(&BoundStatement<'_>, ConditionalTarget)> = vec![];
        for given in self.all.iter().filter(|g| g.change.is_conditional()) {
            targets.push((given, target(given, env)?));
        }
        check_guards(&targets)?;
        let family = engine.family(table)?;
        let columns = table.columns().iter().filter(|c| !c.is_primary_key());
        let shape = RowShape::new(table, engine.partitioner(), columns, false);
        self.with_locked_keys(engine, &[key], |view| {
            let partition = Partition::read(table, key, view, &family, &shape)?;
            let mut rows = vec![];
            let mut good = true;
            for (given, target) in &targets {
                let row = target.as_ref().map(|t| partition.row(t)).transpose()?.flatten();
                good &= partition.holds(given, row.as_ref(), target.is_none(), &given.env(env))?;
                rows.push(row);
            }
            if good {
                let timestamp =
                    engine.store().timestamp().max(partition.newest(&targets)?.saturating_add(1));
                let times = ChangeTimes { of_rows: timestamp, of_ranges: timestamp - 1 };
                let written = self.write(engine, env, times, Some(view))?;
                return Ok((written.all, only_applied(table, true)));
            }
            Ok((vec![], self.refused(&partition, &targets, rows)?))
        })
    }

    /// Returns the result when a condition does not hold: the rows that were read.
    fn refused(
        &self,
        partition: &Partition<'_>,
        targets: &[(&BoundStatement<'_>, ConditionalTarget)],
        rows: Vec<Option<Row>>,
    ) -> Result<Rows> {
        let table = partition.table;
        let mut columns: Vec<usize> = vec![];
        let mut want = |i: usize| {
            if !columns.contains(&i) {
                columns.push(i);
            }
        };
        let guards = || targets.iter().map(|(g, _)| &g.change.guard);
        let whole =
            guards().any(|g| matches!(g, StatementGuard::Exists | StatementGuard::NotExists));
        // For `EXISTS` guards Cassandra reads static columns only if a change writes some, and
        // other columns likewise.
        let is_read = |i: usize| {
            !whole
                || targets.iter().any(|(g, _)| match table.columns()[i].is_static() {
                    true => g.change.concerns_statics(),
                    false => g.change.concerns_rows(),
                })
        };
        if whole {
            (0..table.columns().len()).for_each(want);
        } else {
            if self.batch.is_some() {
                (0..table.partition().len() + table.clustering().len()).for_each(&mut want);
            }
            for guard in guards() {
                let of = |is_static: bool| {
                    guard.columns().filter(move |c| table.columns()[*c].is_static() == is_static)
                };
                of(false).chain(of(true)).for_each(&mut want);
            }
        }
        let mut there: Vec<Row> = rows.into_iter().flatten().collect();
        if targets.iter().all(|(_, t)| t.is_none()) {
            let about_rows = self.all.iter().any(|g| g.change.concerns_rows());
            there.extend(partition.first_row(about_rows)?);
        }
        there.sort_by(|a, b| a.place().cmp(b.place()));
        there.dedup_by(|a, b| a.place() == b.place());
        let mut cells = RowCells::default();
        there
            .iter()
            .try_for_each(|row| partition.show(Some(row), &columns, is_read, &mut cells))?;
        // Without a row, the static values form a result row: those in conditions, or all of them
        // if a change writes static columns.
        let writes_statics = self.all.iter().any(|g| g.change.concerns_statics());
        let is_shown = |i: usize| {
            table.columns()[i].is_static()
                && is_read(i)
                && (writes_statics || columns.contains(&i))
                && partition.value(None, i).is_some()
        };
        if cells.is_empty() && (0..table.columns().len()).any(is_shown) {
            partition.show(None, &columns, is_read, &mut cells)?;
        }
        if cells.is_empty() {
            return Ok(only_applied(table, false));
        }
        let shown =
            |i: &usize| ColumnSpec::new(table, &table.columns()[*i].name, &table.columns()[*i].of);
        let specs = std::iter::once(applied(table)).chain(columns.iter().map(shown));
        Ok(Rows::new(specs.collect(), cells))
    }

    /// Returns the key of the only partition that the changes may refer to.
    fn one_key(&self) -> Result<&[u8]> {
        let mut key: Option<&[u8]> = None;
        for BoundStatement { change, keys, .. } in &self.all {
            let what = if change.verb == Verb::Delete { "deletions" } else { "updates" };
            let [one] = &**keys else {
                return Err(match self.batch.is_some() {
                    true => {
                        let text = "(you cannot use IN on the partition key)";
                        invalid!("Batch with conditions cannot span multiple partitions {text}")
                    }
                    false => {
                        invalid!("IN on the partition key is not supported with conditional {what}")
                    }
                });
            };
            if change.restrictions.has_key_in() && self.batch.is_none() {
                bail!("IN on the partition key is not supported with conditional {what}");
            }
            if change.restrictions.has_clustering_in() {
                bail!("IN on the clustering key columns is not supported with conditional {what}");
            }
            if **key.get_or_insert(one) != **one {
                bail!("Batch with conditions cannot span multiple partitions");
            }
        }
        key.ok_or_else(|| invalid("a batch without statements has no conditions"))
    }
}
