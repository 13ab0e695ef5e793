//! A prepared change: its rows, operations and conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_wide::internals::key::{KeyPlace, Layout, STATIC};
use firn_wide::internals::store::{StoreFamily, StoreMutation, StoreSlice, StoreView};
use smallvec::SmallVec;

use super::attributes::Attributes;
use super::condition::ChangeCondition;
use super::json;
use super::limits::{ChangeWeight, RANGE, ROW};
use super::operation::{MutationWriter, Operation};
use crate::analysis::{Purpose, Restrictions, ValueIntervals};
use crate::catalog::{Catalog, Resource, TableSchema, check_not_system};
use crate::error::{Result, bail, bail_if, invalid};
use crate::exec::engine::Engine;
use crate::exec::lists::ListClock;
use crate::syntax::ast::{self, Comparison, Inserted, Relation};
use crate::values::{BoundValue, Context, EvalEnv, HeapBytes, Markers};

/// Maximum number of rows that one statement may name in all its partitions.
const MAX_ROWS: usize = 1 << 20;

/// Initial capacity of a position.
const ROOM: usize = 64;

/// Timestamps of a change.
#[derive(Clone, Copy, Debug)]
pub struct ChangeTimes {
    /// Timestamp of cells and of row deletions.
    pub of_rows: i64,
    /// Timestamp of partition deletions and range deletions. In conditional changes it is older, so
    /// that these do not delete other writes of the same statement.
    pub of_ranges: i64,
}

impl From<i64> for ChangeTimes {
    fn from(timestamp: i64) -> ChangeTimes {
        ChangeTimes { of_rows: timestamp, of_ranges: timestamp }
    }
}

/// Kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

/// Condition of a change.
#[derive(Clone, Debug)]
pub(super) enum StatementGuard {
    None,
    Exists,
    NotExists,
    Columns(Vec<ChangeCondition>),
}

impl StatementGuard {
    /// Returns the columns in its conditions, as indexes into [`TableSchema::columns`].
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let all: &[ChangeCondition] =
            if let StatementGuard::Columns(all) = self { all } else { &[] };
        all.iter().map(|c| c.column)
    }
}

/// A prepared change.
#[derive(Clone, Debug)]
pub(super) struct ChangeStatement {
    pub table: Arc<TableSchema>,
    pub verb: Verb,
    pub restrictions: Restrictions,
    pub attributes: Attributes,
    pub guard: StatementGuard,
    /// Operations on regular columns.
    operations: Vec<Operation>,
    /// Operations on static columns.
    statics: Vec<Operation>,
    /// Values of `INSERT JSON`, used as the values of the markers of all columns.
    json: Option<json::JsonSource>,
    /// Layout of the rows.
    pub layout: Layout,
    /// Name of the row marker in positions.
    marker: Vec<u8>,
    /// TTL of the table in seconds.
    default_ttl: u32,
    /// User-defined functions that it calls.
    pub calls: Vec<Resource>,
}

impl HeapBytes for ChangeStatement {
    fn heap_bytes(&self) -> usize {
        let guard = match &self.guard {
            StatementGuard::Columns(all) => all.heap_bytes(),
            StatementGuard::None | StatementGuard::Exists | StatementGuard::NotExists => 0,
        };
        let operations = self.operations.heap_bytes() + self.statics.heap_bytes();
        let others = self.attributes.heap_bytes() + self.json.heap_bytes();
        let names = self.marker.heap_bytes() + self.calls.heap_bytes();
        let layout = 48 + self.table.clustering().len() * size_of::<firn_wide::Type>();
        self.restrictions.heap_bytes() + guard + operations + others + names + layout
    }
}

/// Prepared relations, operations and conditions of a statement.
struct StatementParts<'a> {
    verb: Verb,
    relations: Vec<Relation<'a>>,
    operations: Vec<Operation>,
    guard: StatementGuard,
    attributes: Attributes,
}

fn checked_guard(
    table: &TableSchema,
    guard: &ast::ChangeGuard<'_>,
    context: &mut Context<'_>,
) -> Result<StatementGuard> {
    Ok(match guard {
        ast::ChangeGuard::None => StatementGuard::None,
        ast::ChangeGuard::Exists => StatementGuard::Exists,
        ast::ChangeGuard::Conditions(all) => StatementGuard::Columns(
            all.iter()
                .map(|c| ChangeCondition::prepare(table, c, context))
                .collect::<Result<_>>()?,
        ),
    })
}

/// Evaluated input of a change, the same for all of its partitions.
pub(super) struct RowWrites<'w> {
    family: StoreFamily,
    /// Values of the row.
    values: &'w EvalEnv<'w>,
    lists: &'w ListClock,
    /// State before the statement, for operations that read.
    view: Option<&'w StoreView>,
    times: ChangeTimes,
    ttl: u32,
    /// Positions of the named rows.
    rows: SmallVec<[Vec<u8>; 1]>,
    /// Ranges of rows to be deleted.
    slices: ValueIntervals,
}

impl RowWrites<'_> {
    /// Refuses too many rows in this number of partitions.
    pub fn check_count(&self, partitions: usize) -> Result<()> {
        if partitions.saturating_mul(self.rows.len()) > MAX_ROWS {
            bail!("the IN lists name more than {MAX_ROWS} rows together");
        }
        Ok(())
    }
}

impl ChangeStatement {
    /// Checks and prepares a change, and sets the types of its markers in `markers`.
    ///
    /// # Errors
    /// `Invalid` with Cassandra's text.
    pub fn prepare(
        engine: &Engine,
        catalog: &Catalog,
        keyspace: Option<&str>,
        change: &ast::ChangeClause<'_>,
        markers: &mut Markers,
    ) -> Result<ChangeStatement> {
        let name = match change {
            ast::ChangeClause::Insert(insert) => &insert.table,
            ast::ChangeClause::Update(update) => &update.table,
            ast::ChangeClause::Delete(delete) => &delete.table,
        };
        let table = catalog.table(name, keyspace)?.clone();
        check_not_system(&table.keyspace)?;
        let taken = std::mem::take(markers);
        let mut context = Context::of_table(catalog, &table, engine.partitioner(), taken);
        let prepared = match change {
            ast::ChangeClause::Insert(insert) => {
                ChangeStatement::insert(&table, insert, &mut context)
            }
            ast::ChangeClause::Update(update) => {
                ChangeStatement::update(&table, update, &mut context)
            }
            ast::ChangeClause::Delete(delete) => {
                ChangeStatement::delete(&table, delete, &mut context)
            }
        };
        *markers = context.markers;
        if prepared.is_ok() && table.view().is_some() {
            bail!("Cannot directly modify a materialized view");
        }
        prepared
    }

    fn insert(
        table: &Arc<TableSchema>,
        insert: &ast::Insert<'_>,
        context: &mut Context<'_>,
    ) -> Result<ChangeStatement> {
        bail_if!(
            table.is_counter(),
            "INSERT statements are not allowed on counter tables, use UPDATE instead"
        );
        let attributes = Attributes::prepare(&insert.using, table, context)?;
        let guard =
            if insert.if_not_exists { StatementGuard::NotExists } else { StatementGuard::None };
        let prepare = |given, names_columns: bool, context: &mut Context<'_>| {
            let (relations, operations) = values_of(table, given, context)?;
            if names_columns {
                check_compact(table, &operations)?;
            }
            let parts =
                StatementParts { verb: Verb::Insert, relations, operations, guard, attributes };
            ChangeStatement::of(table, parts, context)
        };
        match &insert.what {
            Inserted::Values { columns, values } => {
                bail_if!(columns.len() != values.len(), "Unmatched column names/values");
                let doubled = |(i, c): (usize, &ast::AstName<'_>)| {
                    columns[..i].iter().any(|b| b.text == c.text)
                };
                bail_if!(
                    columns.iter().enumerate().any(doubled),
                    "The column names contains duplicates"
                );
                let given = columns.iter().cloned().zip(values.iter().cloned()).collect();
                prepare(given, true, context)
            }
            Inserted::Json { value, default_unset } => {
                let json = json::JsonSource::prepare(table, value, *default_unset, context)?;
                // The statement's own markers are those of its columns.
                let own = Markers::new(table.columns().len() as u16);
                let outer = std::mem::replace(&mut context.markers, own);
                let change = prepare(json::all_columns(table), false, context)?;
                context.markers = outer;
                Ok(ChangeStatement { json: Some(json), ..change })
            }
        }
    }

    fn update(
        table: &Arc<TableSchema>,
        update: &ast::Update<'_>,
        context: &mut Context<'_>,
    ) -> Result<ChangeStatement> {
        let attributes = Attributes::prepare(&update.using, table, context)?;
        let mut operations = vec![];
        for assignment in &update.assignments {
            let column = table.known_column(&assignment.column.text)?;
            bail_if!(column.is_primary_key(), "PRIMARY KEY part {} found in SET part", column.name);
            operations.push(Operation::assign(table, column, &assignment.operation, context)?);
        }
        let guard = checked_guard(table, &update.guard, context)?;
        let relations = update.relations.clone();
        let verb = Verb::Update;
        let parts = StatementParts { verb, relations, operations, guard, attributes };
        ChangeStatement::of(table, parts, context)
    }

    fn delete(
        table: &Arc<TableSchema>,
        delete: &ast::Delete<'_>,
        context: &mut Context<'_>,
    ) -> Result<ChangeStatement> {
        let using = ast::Using { timestamp: delete.timestamp.clone(), ttl: None };
        let attributes = Attributes::prepare(&using, table, context)?;
        let mut operations = vec![];
        for target in &delete.targets {
            let column = table.known_column(&target.column.text)?;
            bail_if!(
                column.is_primary_key(),
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            );
            operations.push(Operation::delete(table, column, &target.part, context)?);
        }
        let guard = checked_guard(table, &delete.guard, context)?;
        let relations = delete.relations.clone();
        let verb = Verb::Delete;
        let parts = StatementParts { verb, relations, operations, guard, attributes };
        ChangeStatement::of(table, parts, context)
    }

    fn of(
        table: &Arc<TableSchema>,
        parts: StatementParts<'_>,
        context: &mut Context<'_>,
    ) -> Result<ChangeStatement> {
        let StatementParts { verb, relations, operations, guard, attributes } = parts;
        let (statics, operations): (Vec<_>, Vec<_>) =
            operations.into_iter().partition(|o| o.column.is_static());
        let tests_regular = guard.columns().any(|c| !table.columns()[c].is_static());
        let sets_clustering =
            verb == Verb::Insert && !relations.is_empty() && names_clustering(table, &relations);
        // A `DELETE` that names no columns deletes whole rows.
        let deletes_rows = verb == Verb::Delete && operations.is_empty() && statics.is_empty();
        let has_statics = !statics.is_empty() || guard.columns().next().is_some();
        let only_statics = operations.is_empty()
            && !deletes_rows
            && !tests_regular
            && has_statics
            && !sets_clustering;
        let purpose = if verb == Verb::Delete { Purpose::Delete } else { Purpose::Update };
        let restrictions =
            Restrictions::prepare(purpose, only_statics, table, &relations, context)?;
        let change = ChangeStatement {
            table: table.clone(),
            verb,
            restrictions,
            attributes,
            guard,
            operations,
            statics,
            json: None,
            layout: table.layout(context.partitioner),
            marker: table.cell_name(None),
            default_ttl: table.options.default_ttl(),
            calls: std::mem::take(&mut context.calls),
        };
        change.check(tests_regular)?;
        Ok(change)
    }

    fn check(&self, tests_regular: bool) -> Result<()> {
        let (is_guarded, is_counter) =
            (!matches!(self.guard, StatementGuard::None), self.table.is_counter());
        let refused = |text: &str| Err(invalid(text));
        if is_guarded && is_counter {
            return refused("Conditional updates are not supported on counter tables");
        }
        if is_guarded && self.attributes.has_timestamp() {
            return refused("Cannot provide custom timestamp for conditional updates");
        }
        if is_counter && self.attributes.has_timestamp() {
            return refused("Cannot provide custom timestamp for counter updates");
        }
        if is_counter && self.attributes.has_ttl() {
            return refused("Cannot provide custom TTL for counter updates");
        }
        if self.verb != Verb::Delete {
            return Ok(());
        }
        if is_guarded && !self.restrictions.is_one_row() {
            let text = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
            if !self.operations.is_empty() || self.statics.is_empty() {
                bail!("{text} delete non static columns");
            }
            bail_if!(tests_regular, "{text} use IF condition on non static columns");
        }
        let of_columns = !self.operations.is_empty()
            || (!self.statics.is_empty() && self.restrictions.has_clustering());
        if of_columns && !self.restrictions.names_rows() {
            return refused("Range deletions are not supported for specific columns");
        }
        Ok(())
    }

    /// Reports whether it needs the current state without being conditional.
    pub fn reads(&self) -> bool {
        self.operations.iter().chain(&self.statics).any(Operation::reads)
            || (self.deletes_ranges() && self.table.is_counter())
    }

    fn deletes_rows(&self) -> bool {
        self.verb == Verb::Delete && self.operations.is_empty() && self.statics.is_empty()
    }

    fn deletes_ranges(&self) -> bool {
        self.deletes_rows() && self.restrictions.has_clustering() && !self.restrictions.names_rows()
    }

    /// Reports whether it has conditions.
    pub fn is_conditional(&self) -> bool {
        !matches!(self.guard, StatementGuard::None)
    }

    /// Reports whether it changes rows, and not only the static cells of a partition.
    pub fn concerns_rows(&self) -> bool {
        self.table.clustering().is_empty() || self.restrictions.has_clustering()
    }

    /// Reports whether it writes static cells.
    pub fn concerns_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    /// Returns the values of the markers, if they come from JSON.
    pub fn json_values(&self, env: &EvalEnv<'_>) -> Result<Option<Vec<BoundValue>>> {
        self.json.as_ref().map(|json| json.values(&self.table, env)).transpose()
    }

    /// Reports whether it writes without reading, with the values bound to its own markers.
    pub fn is_plain(&self) -> bool {
        !self.is_conditional() && !self.reads() && self.json.is_none()
    }

    /// Evaluates its writes. `envs` are the environments of the statement and of its row, which
    /// differ for `INSERT JSON` only. `times` are the timestamps of statements that specify none.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values.
    pub fn writes<'w>(
        &self,
        engine: &'w Engine,
        envs: (&EvalEnv<'_>, &'w EvalEnv<'w>),
        times: ChangeTimes,
        view: Option<&'w StoreView>,
    ) -> Result<RowWrites<'w>> {
        let (env, values) = envs;
        let family = engine.family(&self.table)?;
        let times = self.attributes.timestamp(env)?.map_or(times, ChangeTimes::from);
        let ttl = self.attributes.ttl(env, self.default_ttl)?;
        let rows = self.places(values)?;
        let slices = match self.deletes_rows() && !self.restrictions.names_rows() {
            true => self.restrictions.intervals(values, &self.layout)?,
            false => ValueIntervals::all(),
        };
        Ok(RowWrites { family, values, lists: engine.lists(), view, times, ttl, rows, slices })
    }

    /// Appends its writes to the mutation of a partition.
    ///
    /// # Errors
    /// `Invalid` for invalid bound values.
    pub fn write(
        &self,
        writes: &RowWrites<'_>,
        mutation: &mut StoreMutation,
        weight: &mut ChangeWeight,
    ) -> Result<()> {
        let RowWrites { family, values, lists, view, times, ttl, rows, slices } = writes;
        // An `IN` without values writes nothing, static cells included.
        if rows.is_empty() && self.concerns_rows() && self.restrictions.names_rows() {
            return Ok(());
        }
        let mut writer = MutationWriter {
            mutation,
            family,
            env: values,
            lists,
            view: *view,
            timestamp: times.of_rows,
            ttl: *ttl,
            place: Vec::with_capacity(ROOM),
            row_len: 0,
            dropped_until: None,
            written: self.reads().then(BTreeMap::new),
            weight,
        };
        if self.deletes_rows() {
            return self.delete_rows(&mut writer, rows, slices, times.of_ranges);
        }
        for row in rows {
            writer.begin(row);
            writer.weight.rows += ROW + row.len();
            if self.verb == Verb::Insert && self.table.marks_rows() {
                writer.place.extend_from_slice(&self.marker);
                writer.mark();
            }
            self.operations.iter().try_for_each(|o| o.apply(&mut writer))?;
        }
        writer.begin(&[STATIC]);
        self.statics.iter().try_for_each(|o| o.apply(&mut writer))
    }

    /// Returns the clustering values of the named rows.
    pub fn rows(&self, values: &EvalEnv<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
        let rows = self.restrictions.rows(values)?;
        rows.iter().try_for_each(|row| self.check_row(row))?;
        Ok(rows)
    }

    /// Refuses clustering values that no row can have.
    fn check_row(&self, row: &[impl AsRef<[u8]>]) -> Result<()> {
        TableSchema::check_clustering(row)?;
        let mut values = self.table.clustering().iter().zip(row);
        match values.find(|(column, v)| v.as_ref().is_empty() && self.table.is_name(column)) {
            Some((column, _)) => {
                Err(invalid!("Invalid empty or null value for column {}", column.name))
            }
            None => Ok(()),
        }
    }

    /// Returns the positions of the named rows, each once.
    fn places(&self, values: &EvalEnv<'_>) -> Result<SmallVec<[Vec<u8>; 1]>> {
        let mut places = SmallVec::new();
        if !self.concerns_rows() || !self.restrictions.names_rows() {
            return Ok(places);
        }
        if let Some(row) = self.restrictions.one_row(values)? {
            self.check_row(&row)?;
            let mut place = Vec::with_capacity(ROOM);
            self.layout.put_row(&row, &mut place)?;
            places.push(place);
            return Ok(places);
        }
        for row in self.rows(values)? {
            let mut place = vec![];
            self.layout.put_row(&row, &mut place)?;
            places.push(place);
        }
        if self.restrictions.has_clustering_in() {
            places.sort();
            places.dedup();
        }
        Ok(places)
    }

    /// Deletes a whole partition, single rows, or ranges of rows.
    fn delete_rows(
        &self,
        w: &mut MutationWriter<'_>,
        rows: &[Vec<u8>],
        slices: &ValueIntervals,
        of_ranges: i64,
    ) -> Result<()> {
        let are_cells = self.table.rows_are_cells();
        if !self.restrictions.has_clustering() {
            w.mutation.delete_partition(w.family, of_ranges);
        } else if self.restrictions.names_rows() {
            for row in rows {
                w.weight.rows += ROW + row.len();
                delete_row(w, row, are_cells);
            }
        } else {
            for slice in slices.slices() {
                w.weight.rest += RANGE + slice.from.len() + slice.until.len();
                match w.view.filter(|_| self.table.is_counter()) {
                    Some(view) => delete_counters(w, view, &slice, are_cells)?,
                    None => drop(w.mutation.delete_range(
                        w.family,
                        &slice.from,
                        &slice.until,
                        of_ranges,
                    )),
                }
            }
        }
        Ok(())
    }
}

/// Deletes the rows of a slice one by one: counter families have no range deletions.
fn delete_counters(
    w: &mut MutationWriter<'_>,
    view: &StoreView,
    slice: &StoreSlice,
    are_cells: bool,
) -> Result<()> {
    let mut reader = view.read(w.family, w.mutation.key(), slice)?;
    let mut row = vec![];
    while let Some(item) = reader.next()? {
        if (item.new_row || are_cells) && !item.place.is_static {
            row.clear();
            let name = if are_cells { item.place.name } else { &[] };
            KeyPlace { name, path: None, ..item.place }.put(&mut row);
            delete_row(w, &row, are_cells);
        }
    }
    Ok(())
}

/// Deletes the row at a position: all of its cells, or the one cell that it is.
fn delete_row(w: &mut MutationWriter<'_>, row: &[u8], is_cell: bool) {
    match is_cell {
        true => w.mutation.delete(w.family, row, w.timestamp),
        false => w.mutation.delete_row(w.family, row, w.timestamp),
    };
}

/// Refuses an `INSERT` without values into a compact table, whose rows have no markers.
fn check_compact(table: &TableSchema, operations: &[Operation]) -> Result<()> {
    match table.compact_value() {
        Some(value) if operations.is_empty() => {
            Err(invalid!("Column {} is mandatory for this COMPACT STORAGE table", value.name))
        }
        // Cassandra names a hidden column here.
        None if operations.is_empty() && !table.marks_rows() => {
            Err(invalid("Some clustering keys are missing: column1"))
        }
        _ => Ok(()),
    }
}

fn names_clustering(table: &TableSchema, relations: &[Relation<'_>]) -> bool {
    let is = |name: &str| table.clustering().iter().any(|c| c.name == name);
    relations.iter().any(|r| matches!(r, Relation::Compare { column, .. } if is(&column.text)))
}

/// Splits the columns of an `INSERT`: those of the primary key become relations, the others
/// operations.
fn values_of<'a>(
    table: &TableSchema,
    given: Vec<(ast::AstName<'a>, ast::Term<'a>)>,
    context: &mut Context<'_>,
) -> Result<(Vec<Relation<'a>>, Vec<Operation>)> {
    let (mut relations, mut operations) = (vec![], vec![]);
    for (name, value) in given {
        let column = table.known_column(&name.text)?;
        if column.is_primary_key() {
            relations.push(Relation::Compare { column: name, comparison: Comparison::Eq, value });
        } else {
            operations.push(Operation::set(table, column, &value, context)?);
        }
    }
    Ok((relations, operations))
}
