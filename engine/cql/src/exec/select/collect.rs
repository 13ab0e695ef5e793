//! Builds the rows of a page from rows that were read: filters, groups, limits and selects.
//!
//! Invariant: `position` is that of the last row in the page so far; the next page continues after
//! it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::fold::FoldState;
use super::page::Position;
use super::plan::{Grouping, SelectPlan};
use super::selection::RowContext;
use crate::analysis::{RowFilter, RowValues};
use crate::catalog::PartitionKey;
use crate::error::{Error, ErrorClass, Result, invalid};
use crate::exec::result_budget::{ResultBudget, ResultShare};
use crate::exec::row::Row;
use crate::exec::rows::{PagingState, RowCells, Rows};
use crate::values::{BoundValue, EvalEnv, json};

/// The next step after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectStep {
    More,
    /// Continue with the next partition.
    NextPartition,
    /// Stop.
    Stop,
}

/// Result bytes that are not charged to a budget.
const FREE: usize = 64 << 10;
/// Maximum bytes of a page's last row beyond the space left in the budget.
const MOST_BEYOND: usize = 1 << 20;

/// The current group with its first row, which provides the values outside aggregates.
struct RowGroup {
    key: PartitionKey,
    statics: Row,
    row: Option<Row>,
}

pub(super) struct Collector<'p> {
    plan: &'p SelectPlan,
    env: &'p EvalEnv<'p>,
    filter: RowFilter,
    terms: Vec<BoundValue>,
    /// Remaining rows of the limit; groups, if rows are grouped.
    left: u64,
    page_left: u64,
    is_paged: bool,
    per_partition: u64,
    left_in_partition: u64,
    key: PartitionKey,
    position: Option<(Vec<u8>, Option<Vec<u8>>)>,
    is_page_full: bool,
    group: Option<RowGroup>,
    accumulators: Vec<FoldState<'p>>,
    cells: RowCells,
    /// Maximum bytes of the result.
    most_bytes: usize,
    /// Budget of all results, and this result's share of it.
    pub(super) budget: Option<&'p ResultBudget>,
    share: Option<ResultShare>,
    lacks_room: bool,
    /// Sort key of each row.
    sort_keys: Vec<Vec<Vec<u8>>>,
    sort_bytes: usize,
    /// Rows read since the last call of `take_read`.
    read: u64,
    /// Whether masked columns are shown unmasked.
    sees_all: bool,
    warnings: Vec<String>,
    stop: Option<&'p AtomicBool>,
}

impl<'p> Collector<'p> {
    /// Creates a collector with the limits of the statement (and of the page). `from` is the start
    /// of the page.
    pub fn new(
        plan: &'p SelectPlan,
        env: &'p EvalEnv<'p>,
        filter: RowFilter,
        limits: (Option<u64>, Option<u64>),
        page: Option<u64>,
        from: Option<&Position>,
        stop: Option<&'p AtomicBool>,
    ) -> Result<Collector<'p>> {
        let per_partition = limits.1.unwrap_or(u64::MAX);
        let all = limits.0.unwrap_or(u64::MAX);
        // If rows are sorted, the limit applies after sorting.
        let left = if plan.order.sort.is_empty() {
            from.map_or(all, |f| f.left.min(all))
        } else {
            u64::MAX
        };
        let terms: Vec<_> =
            plan.selection.terms.iter().map(|t| t.eval(env)).collect::<Result<_>>()?;
        plan.selection.check_parts(&terms)?;
        Ok(Collector {
            plan,
            env,
            filter,
            terms,
            left,
            page_left: page.filter(|_| plan.groups != Grouping::Everything).unwrap_or(u64::MAX),
            is_paged: page.is_some() && plan.groups != Grouping::Everything,
            per_partition,
            left_in_partition: per_partition,
            key: PartitionKey::default(),
            position: None,
            is_page_full: false,
            group: None,
            accumulators: plan
                .selection
                .aggregates
                .iter()
                .map(|a| FoldState::new(&a.fold))
                .collect(),
            cells: RowCells::default(),
            most_bytes: usize::MAX,
            budget: None,
            share: None,
            lacks_room: false,
            sort_keys: vec![],
            sort_bytes: 0,
            read: 0,
            sees_all: false,
            warnings: plan.warning.map_or_else(Vec::new, |w| vec![w.to_owned()]),
            stop,
        })
    }

    /// Sets whether masked columns are shown unmasked.
    pub fn see_all(&mut self, sees_all: bool) {
        self.sees_all = sees_all;
    }

    /// Sets the maximum bytes of the result. `None`: no limit.
    pub fn limit_bytes(&mut self, most: Option<usize>) {
        self.most_bytes = most.unwrap_or(usize::MAX);
    }

    /// Adds a warning to the result.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn check_stop(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            Err(Error::Stopped)
        } else {
            Ok(())
        }
    }

    /// Returns the number of rows read since the last call, and the partition of the last one.
    pub fn take_read(&mut self) -> (u64, &PartitionKey) {
        (std::mem::take(&mut self.read), &self.key)
    }

    /// Returns the maximum number of rows still needed.
    pub fn wanted(&self) -> u64 {
        self.left.min(self.page_left)
    }

    /// Begins a partition, of which at most `left_in_partition` rows are returned.
    ///
    /// # Errors
    /// Errors for an invalid partition key, and `Stopped`.
    pub fn enter(&mut self, key: &[u8], left_in_partition: Option<u64>) -> Result<()> {
        self.check_stop()?;
        self.key.set(&self.plan.table, key)?;
        self.left_in_partition =
            left_in_partition.map_or(self.per_partition, |n| n.min(self.per_partition));
        Ok(())
    }

    /// Adds a row, or the static cells of a partition without rows.
    ///
    /// # Errors
    /// Errors of functions and for invalid values, and `Stopped`.
    pub fn row(&mut self, statics: &Row, row: Option<&Row>) -> Result<CollectStep> {
        self.check_stop()?;
        self.read += u64::from(row.is_some());
        let key = std::mem::take(&mut self.key);
        let step = self.take(&key, statics, row);
        self.key = key;
        step
    }

    /// Returns the value of a stored column, if the row meets the conditions.
    ///
    /// # Errors
    /// Those of [`row`](Collector::row).
    pub fn value_of_accepted(
        &self,
        statics: &Row,
        row: Option<&Row>,
        column: usize,
    ) -> Result<Option<Vec<u8>>> {
        self.check_stop()?;
        let source = self.source(&self.key, statics, row, &[]);
        let value = source.value(column).map(<[u8]>::to_vec);
        Ok(if self.filter.accepts(&source)? { value } else { None })
    }

    fn take(
        &mut self,
        key: &PartitionKey,
        statics: &Row,
        row: Option<&Row>,
    ) -> Result<CollectStep> {
        if !self.filter.is_empty() && !self.filter.accepts(&self.source(key, statics, row, &[]))? {
            return Ok(CollectStep::More);
        }
        if self.plan.groups == Grouping::None {
            return self.single(key, statics, row);
        }
        if let Some(group) = &self.group
            && !self.is_same(group, key, row)
        {
            self.finish_group()?;
            if self.left == 0 {
                return Ok(CollectStep::Stop);
            }
            if self.page_left == 0 {
                self.is_page_full = true;
                return Ok(CollectStep::Stop);
            }
        }
        if self.group.is_none() {
            if self.left_in_partition == 0 {
                return Ok(CollectStep::NextPartition);
            }
            self.left_in_partition -= 1;
            self.group =
                Some(RowGroup { key: key.clone(), statics: statics.clone(), row: row.cloned() });
        }
        let mut accumulators = std::mem::take(&mut self.accumulators);
        let source = self.source(key, statics, row, &[]);
        for (aggregate, accumulator) in self.plan.selection.aggregates.iter().zip(&mut accumulators)
        {
            if aggregate.arguments.iter().any(|a| a.is_unset(&source)) {
                return Err(aggregate.fold.unset_argument());
            }
            match &aggregate.arguments[..] {
                [] => accumulator.add(self.env, &[])?,
                [only] => accumulator.add(self.env, &[only.eval(&source)?.as_deref()])?,
                several => {
                    let values: Vec<_> =
                        several.iter().map(|a| a.eval(&source)).collect::<Result<_>>()?;
                    let slices: Vec<_> = values.iter().map(Option::as_deref).collect();
                    accumulator.add(self.env, &slices)?;
                }
            }
        }
        self.accumulators = accumulators;
        // With `DISTINCT` a partition is one row, whatever it contains.
        self.note(key, row.filter(|_| !self.plan.distinct));
        Ok(if self.plan.distinct { CollectStep::NextPartition } else { CollectStep::More })
    }

    /// Adds a row that is not grouped.
    fn single(
        &mut self,
        key: &PartitionKey,
        statics: &Row,
        row: Option<&Row>,
    ) -> Result<CollectStep> {
        if self.left_in_partition == 0 {
            return Ok(CollectStep::NextPartition);
        }
        self.give_out(key, statics, row, &[])?;
        self.left -= 1;
        self.page_left -= 1;
        self.left_in_partition -= 1;
        if self.left == 0 {
            return Ok(CollectStep::Stop);
        }
        let is_done = self.plan.distinct || self.left_in_partition == 0;
        let is_large =
            self.is_paged && (self.lacks_room || self.cells.memory() > self.most_bytes / 4);
        if self.page_left == 0 || is_large {
            self.is_page_full = true;
            self.note(key, row.filter(|_| !is_done));
            return Ok(CollectStep::Stop);
        }
        Ok(if is_done { CollectStep::NextPartition } else { CollectStep::More })
    }

    fn source<'a>(
        &'a self,
        key: &'a PartitionKey,
        statics: &'a Row,
        row: Option<&'a Row>,
        aggregates: &'a [Option<Vec<u8>>],
    ) -> RowContext<'a> {
        RowContext {
            table: &self.plan.table,
            key,
            statics,
            row,
            places: &self.plan.selection.places,
            terms: &self.terms,
            aggregates,
            sees_all: self.sees_all,
            env: self.env,
        }
    }

    /// Adds the result row for this row, or for the group whose first row it is.
    fn give_out(
        &mut self,
        key: &PartitionKey,
        statics: &Row,
        row: Option<&Row>,
        aggregates: &[Option<Vec<u8>>],
    ) -> Result<()> {
        let mut cells = std::mem::take(&mut self.cells);
        self.put_values(&self.source(key, statics, row, aggregates), &mut cells)?;
        self.cells = cells;
        if !self.plan.order.sort.is_empty() {
            let value = |(position, _, _): &(usize, firn_wide::Type, bool)| {
                row.and_then(|r| r.clustering(*position)).unwrap_or_default().to_vec()
            };
            let key: Vec<_> = self.plan.order.sort.iter().map(value).collect();
            self.sort_bytes += size_of::<Vec<Vec<u8>>>();
            self.sort_bytes += key.iter().map(|v| v.len() + size_of_val(v)).sum::<usize>();
            self.sort_keys.push(key);
        }
        let memory = self.cells.memory() + self.sort_bytes;
        if memory > self.most_bytes {
            let help = "ask for it in pages, for fewer columns, or with LIMIT";
            let most = self.most_bytes;
            let text = format!("The result has more than {most} bytes");
            return Err(invalid(text).with_help(help));
        }
        self.take_room(memory)
    }

    /// Takes space of the budget for a result of this many bytes. It takes twice the bytes, because
    /// the rows and the response made of them are in memory together.
    fn take_room(&mut self, memory: usize) -> Result<()> {
        let Some(budget) = self.budget.filter(|_| memory > FREE) else { return Ok(()) };
        let share = self.share.get_or_insert_with(|| budget.share());
        if share.grow_to(memory.saturating_mul(2)) {
            return Ok(());
        }
        // End the page here, unless its last row is large.
        self.lacks_room = true;
        let is_little = |memory: usize| share.grow_to(memory.saturating_sub(MOST_BEYOND) * 2);
        if self.is_paged && self.plan.groups == Grouping::None && is_little(memory) {
            return Ok(());
        }
        let text = "Too many bytes of results are being made or sent";
        Err(Error::refused(ErrorClass::Overloaded, text)
            .with_help("try again later, or ask for pages"))
    }

    fn put_values(&self, source: &RowContext<'_>, cells: &mut RowCells) -> Result<()> {
        let outputs = &self.plan.selection.outputs;
        let Some(names) = &self.plan.json else {
            for output in outputs {
                cells.push(output.node.eval(source)?.as_deref());
            }
            return Ok(());
        };
        let mut text = String::from("{");
        for (i, (output, name)) in outputs.iter().zip(names).enumerate() {
            let value = output.node.eval(source)?;
            let comma = if i > 0 { ", " } else { "" };
            text.push_str(&format!(
                "{comma}{name}: {}",
                json(&output.of.value_type, value.as_deref())
            ));
        }
        text.push('}');
        cells.push(Some(text.as_bytes()));
        Ok(())
    }

    /// Records the position where a next page would continue.
    fn note(&mut self, key: &PartitionKey, row: Option<&Row>) {
        if !self.is_paged {
            return;
        }
        let (noted, place) = self.position.get_or_insert_default();
        noted.clear();
        noted.extend_from_slice(key.bytes());
        match row {
            Some(row) => {
                let place = place.get_or_insert_default();
                place.clear();
                place.extend_from_slice(row.place());
            }
            None => *place = None,
        }
    }

    fn is_same(&self, group: &RowGroup, key: &PartitionKey, row: Option<&Row>) -> bool {
        let Grouping::By(prefix) = self.plan.groups else { return true };
        let has_same = |i: usize| match (&group.row, row) {
            (Some(first), Some(row)) => first.clustering(i) == row.clustering(i),
            (first, row) => first.is_none() && row.is_none(),
        };
        group.key.bytes() == key.bytes() && (0..prefix).all(has_same)
    }

    fn finish_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let results =
            self.accumulators.iter().map(|a| a.result(self.env)).collect::<Result<Vec<_>>>()?;
        self.accumulators.iter_mut().for_each(FoldState::clear);
        self.give_out(&group.key, &group.statics, group.row.as_ref(), &results)?;
        self.left -= 1;
        self.page_left = self.page_left.saturating_sub(1);
        Ok(())
    }

    /// Returns the value of an aggregate over no rows.
    fn finish_nothing(&mut self) -> Result<()> {
        let results =
            self.accumulators.iter().map(|a| a.result(self.env)).collect::<Result<Vec<_>>>()?;
        self.give_out(&PartitionKey::default(), &Row::none(), None, &results)
    }

    /// Returns the page. `limit` is that of the statement.
    ///
    /// # Errors
    /// Those of [`row`](Collector::row).
    pub fn finish(mut self, limit: Option<u64>) -> Result<Rows> {
        if !self.is_page_full {
            if self.group.is_some() && self.left > 0 {
                self.finish_group()?;
            } else if self.plan.groups == Grouping::Everything && self.cells.is_empty() {
                self.finish_nothing()?;
            }
        }
        if !self.plan.order.sort.is_empty() {
            self.sort(limit);
        }
        let paging = self.paging();
        Ok(Rows::new(self.plan.columns.clone(), self.cells)
            .with_paging(paging)
            .with_share(self.share)
            .with_warnings(self.warnings))
    }

    fn sort(&mut self, limit: Option<u64>) {
        let order = &self.plan.order.sort;
        let mut rows: Vec<_> =
            std::mem::take(&mut self.sort_keys).into_iter().enumerate().collect();
        rows.sort_by(|(_, a), (_, b)| {
            let each = order.iter().zip(a.iter().zip(b)).map(|((_, of, descending), (a, b))| {
                let order = of.compare(a, b);
                if *descending { order.reverse() } else { order }
            });
            each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        let limit = limit.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let cells = std::mem::take(&mut self.cells);
        let width = self.plan.columns.len();
        for (row, _) in rows.into_iter().take(limit) {
            (row * width..(row + 1) * width).for_each(|i| self.cells.push(cells.get(i)));
        }
    }

    fn paging(&mut self) -> Option<PagingState> {
        let (key, row) = self.position.take().filter(|_| self.is_page_full)?;
        let position =
            Position { left: self.left, left_in_partition: self.left_in_partition, key, row };
        Some(position.encode(self.plan.table.id))
    }
}
