//! Reads the partitions and rows of a `SELECT`.

use std::ops::Bound as End;

use firn_wide::internals::key::{AFTER, BEFORE, END, ROWS};
use firn_wide::internals::store::{StoreFamily, StoreSlice, StoreView};

use super::collect::{CollectStep, Collector};
use super::page::Position;
use super::plan::{Grouping, SelectPlan};
use super::tombstones::{self, TombstoneTally};
use crate::analysis::{IndexUse, ValueIntervals};
use crate::catalog::TableSchema;
use crate::error::{Result, bail, bail_if, invalid};
use crate::exec::plan::Request;
use crate::exec::row::{Row, ShapeReader};
use crate::values::{BoundTerm, BoundValue, EvalEnv};

/// Evaluated input of one execution of a plan, and the collector of its rows.
pub(super) struct SelectInput<'a> {
    /// Limit for all rows.
    pub limit: Option<u64>,
    pub from: Option<Position>,
    pub intervals: ValueIntervals,
    /// Index lookups, each of which finds the rows by itself.
    pub indexes: Vec<IndexUse>,
    /// `None`: the partitions are not named individually.
    pub keys: Option<Vec<Vec<u8>>>,
    pub out: Collector<'a>,
}

/// One execution of a plan.
pub(super) struct Execution<'a> {
    pub(super) plan: &'a SelectPlan,
    /// The newest state for a single read, a snapshot if several reads must be consistent.
    pub(super) view: StoreView,
    pub(super) family: StoreFamily,
    pub(super) intervals: ValueIntervals,
    pub(super) from: Option<Position>,
    pub(super) out: Collector<'a>,
    pub(super) tombstones: TombstoneTally,
}

impl SelectPlan {
    /// Returns the value of a limit; `None` if there is no limit.
    fn limit(term: &Option<BoundTerm>, env: &EvalEnv<'_>) -> Result<Option<u64>> {
        let Some(term) = term else { return Ok(None) };
        let bytes = match term.eval(env)? {
            BoundValue::Bytes(bytes) => bytes,
            BoundValue::Null => bail!("Invalid null value of limit"),
            BoundValue::Unset => return Ok(None),
        };
        let number =
            bytes.try_into().map(i32::from_be_bytes).map_err(|_| invalid("Invalid limit value"))?;
        match u64::try_from(number) {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(invalid("LIMIT must be strictly positive")),
        }
    }

    /// Evaluates the input. `sees_all`: masked columns are shown unmasked.
    pub(super) fn input<'a>(
        &'a self,
        request: &Request<'a>,
        env: &'a EvalEnv<'a>,
        sees_all: bool,
    ) -> Result<SelectInput<'a>> {
        let limit = SelectPlan::limit(&self.limit, env)?;
        let per_partition = SelectPlan::limit(&self.per_partition, env)?;
        let page = request.run.page_size.map(|n| n.max(1) as u64);
        let from = request
            .run
            .paging
            .as_ref()
            .map(|state| Position::decode(state, &self.table))
            .transpose()?;
        // As in Cassandra, check conditions before keys and rows.
        let filter = self.restrictions.filter(env)?;
        let named = match self.restrictions.is_key_range() {
            true => None,
            false => Some(self.restrictions.keys(env)?),
        };
        let intervals = match &named {
            Some(keys) if keys.is_empty() => ValueIntervals::union(vec![]),
            _ => self.restrictions.intervals(env, self.shape.layout())?,
        };
        // If no row is named, there are no keys to read and nothing to sort.
        let is_empty = intervals.is_empty();
        let keys = if is_empty { Some(vec![]) } else { named };
        let is_short = |page: u64| is_empty || limit.is_some_and(|l| l <= page);
        let is_one_page = |page: u64| self.groups == Grouping::None && is_short(page);
        bail_if!(
            !self.order.sort.is_empty() && page.is_some_and(|p| !is_one_page(p)),
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the \
                 ORDER BY or the IN and sort client side, or disable paging for this query"
        );
        let page = page.filter(|_| self.order.sort.is_empty() && self.nearest.is_none());
        let indexes = if is_empty { vec![] } else { self.restrictions.indexes(env)? };
        for key in keys.as_deref().unwrap_or_default() {
            TableSchema::check_key(key)?;
        }
        let mut out = Collector::new(
            self,
            env,
            filter,
            (limit, per_partition),
            page,
            from.as_ref(),
            request.run.stop.as_deref(),
        )?;
        out.see_all(sees_all);
        out.limit_bytes(request.run.max_result_bytes);
        out.budget = request.run.result_budget.as_ref();
        Ok(SelectInput { limit, from, intervals, indexes, keys, out })
    }
}

impl Execution<'_> {
    pub(super) fn by_keys(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let mut first = 0;
        let from = self.from.take();
        if let Some(from) = &from {
            let at = keys.iter().position(|k| *k == from.key);
            first = at.ok_or_else(|| invalid("Invalid value for the paging state"))?;
        }
        for (i, key) in keys.iter().enumerate().skip(first) {
            let resumed = from.as_ref().filter(|_| i == first);
            let step = self.partition(key, resumed)?;
            self.end_of_read(true);
            if step == CollectStep::Stop {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Finishes the read of a partition (`is_one`) or of a range of partitions.
    pub(super) fn end_of_read(&mut self, is_one: bool) {
        let read = self.out.take_read();
        if let Some(tombstones) = self.tombstones.end_of_read() {
            let partitioner = self.family.layout().partitioner();
            let warning = tombstones::warning(self.plan, partitioner, tombstones, read, is_one);
            self.out.warn(warning);
        }
    }

    pub(super) fn by_range(&mut self, env: &EvalEnv<'_>) -> Result<()> {
        let Some(mut range) = self.plan.restrictions.partitions(env)? else { return Ok(()) };
        if let Some(from) = self.from.take() {
            if self.partition(&from.key, Some(&from))? == CollectStep::Stop {
                return Ok(());
            }
            let mut part = vec![];
            self.family.layout().put_partition(&from.key, &mut part)?;
            range.from = End::Excluded(part);
        }
        let is_whole = self.intervals.is_all();
        let slice = match (self.plan.shape.wants_statics(), is_whole) {
            (true, _) => StoreSlice::all(),
            (false, true) => StoreSlice::rows(),
            (false, false) => self.intervals.hull(),
        };
        let reader = self.view.scan(&self.family, &range, &slice)?;
        let mut rows = ShapeReader::new(&self.plan.shape, reader, false);
        let mut place = vec![];
        while rows.next_partition()? {
            self.out.enter(rows.key(), None)?;
            let mut step = CollectStep::More;
            if self.statics_suffice(rows.statics()) {
                step = self.out.row(rows.statics(), None)?;
            } else {
                let mut any = false;
                while step == CollectStep::More && rows.advance()? {
                    any = true;
                    if is_whole || self.intervals.contains(rows.row().place(), &mut place) {
                        step = self.out.row(rows.statics(), Some(rows.row()))?;
                    }
                }
                if !any && self.plan.shows_statics && rows.statics().exists() {
                    step = self.out.row(rows.statics(), None)?;
                }
            }
            if step == CollectStep::Stop {
                break;
            }
        }
        self.tombstones.step_over(rows.tombstones())
    }

    /// Reads the rows of one partition; after a row, if the page begins there.
    pub(super) fn partition(&mut self, key: &[u8], from: Option<&Position>) -> Result<CollectStep> {
        self.out.enter(key, from.map(|f| f.left_in_partition))?;
        let after = match from {
            Some(Position { row: None, .. }) => return Ok(CollectStep::NextPartition),
            Some(Position { row: Some(row), .. }) => Some(&**row),
            None => None,
        };
        let plan = self.plan;
        let reverse = plan.order.reverse;
        if plan.reads_whole && after.is_none() && !reverse && self.intervals.is_all() {
            let reader = self.view.read(&self.family, key, &StoreSlice::all())?;
            let mut rows = ShapeReader::new(&plan.shape, reader, false);
            rows.start()?;
            if self.statics_suffice(rows.statics()) {
                let step = self.out.row(rows.statics(), None)?;
                self.tombstones.step_over(rows.tombstones())?;
                return Ok(step);
            }
            let (mut any, mut step) = (false, CollectStep::More);
            while step == CollectStep::More && rows.advance()? {
                any = true;
                step = self.out.row(rows.statics(), Some(rows.row()))?;
            }
            self.tombstones.step_over(rows.tombstones())?;
            if step != CollectStep::More {
                return Ok(step);
            }
            return if any { Ok(CollectStep::More) } else { self.lone_statics(rows.statics()) };
        }
        let statics = self.statics(key)?;
        if after.is_none() && self.statics_suffice(&statics) {
            return self.out.row(&statics, None);
        }
        let mut any = after.is_some();
        let count = self.intervals.len();
        for i in 0..count {
            let slice = self.intervals.slice(if reverse { count - 1 - i } else { i });
            let Some(slice) = cut(slice, after, reverse) else { continue };
            let slice = if reverse { slice.reversed() } else { slice };
            let reader = self.view.read(&self.family, key, &slice)?;
            let mut rows = ShapeReader::new(&plan.shape, reader, reverse);
            rows.start()?;
            let mut step = CollectStep::More;
            while step == CollectStep::More && rows.advance()? {
                any = true;
                step = self.out.row(&statics, Some(rows.row()))?;
            }
            self.tombstones.step_over(rows.tombstones())?;
            if step != CollectStep::More {
                return Ok(step);
            }
        }
        if any { Ok(CollectStep::More) } else { self.lone_statics(&statics) }
    }

    /// Reports whether the static cells of a partition are sufficient. Then `DISTINCT` reads no
    /// rows, of which the first may come after any number of deleted ones.
    fn statics_suffice(&self, statics: &Row) -> bool {
        self.plan.distinct && self.plan.shows_statics && statics.exists()
    }

    /// Returns the static cells of a partition without rows.
    fn lone_statics(&mut self, statics: &Row) -> Result<CollectStep> {
        if self.plan.shows_statics && statics.exists() {
            self.out.row(statics, None)
        } else {
            Ok(CollectStep::More)
        }
    }

    /// Reads the static cells of a partition, if they are selected.
    pub(super) fn statics(&self, key: &[u8]) -> Result<Row> {
        if !self.plan.shape.wants_statics() {
            return Ok(Row::none());
        }
        let reader = self.view.read(&self.family, key, &StoreSlice::statics())?;
        let mut rows = ShapeReader::new(&self.plan.shape, reader, false);
        rows.start()?;
        self.tombstones.step_over(rows.tombstones())?;
        Ok(rows.statics().clone())
    }

    /// Reads the rows with a value that an index finds; in one partition, if it is named.
    pub(super) fn by_index(
        &mut self,
        index: &IndexUse,
        value: &[u8],
        keys: Option<&[Vec<u8>]>,
        env: &EvalEnv<'_>,
    ) -> Result<()> {
        let only = keys.and_then(|k| k.first());
        if keys.is_some() && only.is_none() {
            return Ok(());
        }
        let Some(range) = self.plan.restrictions.partitions(env)? else { return Ok(()) };
        let from = self.from.take();
        let start = from.as_ref().map(|f| &f.key).or(only);
        let mut hits = self.view.index(&self.family, index.id, value, start.map(|k| &**k))?;
        if let Some(from) = &from {
            let mut row = from.row.as_ref().map_or(vec![], |row| place_of(row));
            if index.finds_partitions {
                if self.partition(&from.key, Some(from))? == CollectStep::Stop {
                    return Ok(());
                }
                row.clear();
            }
            hits.go_on_after(&from.key, &row)?;
        }
        let mut left = from.as_ref().map(|f| (f.key.clone(), f.left_in_partition));
        let (mut key, mut row, mut place) = (vec![], vec![], vec![]);
        let mut statics = Row::none();
        loop {
            let Some(hit) = hits.next()? else { return Ok(()) };
            if matches!(&range.until, End::Excluded(until) if hit.partition >= &**until)
                || only.is_some_and(|only| hit.key != &**only)
            {
                return Ok(());
            }
            if matches!(&range.from, End::Included(from) if hit.partition < &**from) {
                continue;
            }
            row.clear();
            row.extend_from_slice(hit.row);
            if hit.key != &*key {
                key.clear();
                key.extend_from_slice(hit.key);
                if !index.finds_partitions {
                    statics = self.statics(&key)?;
                    let left = left.take().filter(|(k, _)| *k == key).map(|(_, left)| left);
                    self.out.enter(&key, left)?;
                }
            }
            if index.finds_partitions {
                if self.partition(&key, None)? == CollectStep::Stop {
                    return Ok(());
                }
                hits.go_on_after(&key, &[])?;
                continue;
            }
            let step = self.hit(&key, &row, &statics, &mut place)?;
            match step {
                CollectStep::Stop => return Ok(()),
                CollectStep::NextPartition => hits.go_on_after(&key, &[])?,
                CollectStep::More => {}
            }
        }
    }

    /// Reads one row that an index has found.
    pub(super) fn hit(
        &mut self,
        key: &[u8],
        row: &[u8],
        statics: &Row,
        place: &mut Vec<u8>,
    ) -> Result<CollectStep> {
        match self.row_at(key, row, place)? {
            Some(row) => self.out.row(statics, Some(&row)),
            None => Ok(CollectStep::More),
        }
    }

    /// Returns the row at a position, if it exists and is in the intervals.
    pub(super) fn row_at(
        &self,
        key: &[u8],
        row: &[u8],
        place: &mut Vec<u8>,
    ) -> Result<Option<Row>> {
        let components = row.get(1..row.len().saturating_sub(1)).unwrap_or_default();
        if !self.intervals.contains(components, place) {
            return Ok(None);
        }
        let mut until = row.to_vec();
        if let Some(last) = until.last_mut() {
            *last = END + 1;
        }
        let reader =
            self.view.read(&self.family, key, &StoreSlice::between(row.to_vec(), until))?;
        let mut rows = ShapeReader::new(&self.plan.shape, reader, false);
        rows.start()?;
        let found = rows.advance()?;
        self.tombstones.step_over(rows.tombstones())?;
        Ok(found.then(|| rows.row().clone()))
    }
}

/// Returns the position of the row with these components.
pub(super) fn place_of(row: &[u8]) -> Vec<u8> {
    [&[ROWS][..], row, &[END]].concat()
}

/// Returns the part of a slice after a row, in the direction of reading.
fn cut(mut slice: StoreSlice, after: Option<&[u8]>, reverse: bool) -> Option<StoreSlice> {
    if let Some(row) = after {
        let end = if reverse { BEFORE } else { AFTER };
        let bound = [&[ROWS][..], row, &[end]].concat();
        if reverse {
            slice.until = slice.until.min(bound);
        } else {
            slice.from = slice.from.max(bound);
        }
    }
    (slice.from < slice.until).then_some(slice)
}
