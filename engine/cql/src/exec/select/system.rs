//! Reads system tables: computes all requested rows, then processes them like those of a stored
//! table.

use std::ops::RangeBounds;

use super::collect::CollectStep;
use super::page::Position;
use super::plan::SelectPlan;
use super::read::SelectInput;
use crate::error::Result;
use crate::exec::engine::Engine;
use crate::exec::plan::Request;
use crate::exec::row::Row;
use crate::exec::rows::Rows;
use crate::exec::source::SystemPartition;
use crate::exec::system::{LOOPBACK, rows_of};
use crate::values::EvalEnv;

impl SelectPlan {
    /// Reads a system table.
    pub(super) fn read_system(
        &self,
        engine: &Engine,
        request: &Request<'_>,
        env: &EvalEnv<'_>,
    ) -> Result<Rows> {
        let layout = self.table.layout(engine.partitioner());
        // A system table has no index.
        let SelectInput { limit, from, intervals, keys, mut out, .. } =
            self.input(request, env, true)?;
        let endpoint = request.run.endpoint.unwrap_or(LOOPBACK);
        let made = rows_of(engine, endpoint, &self.table, keys.as_deref())?;
        let mut wanted: Vec<&SystemPartition> = vec![];
        match &keys {
            Some(keys) => {
                let of = |key: &Vec<u8>| made.iter().find(|p| p.key == *key);
                wanted.extend(keys.iter().filter_map(of));
            }
            None => {
                let Some(range) = self.restrictions.partitions(env)? else {
                    return out.finish(limit);
                };
                let ends = (range.from.as_ref(), range.until.as_ref());
                let is_in = |p: &&SystemPartition| ends.contains(&p.part);
                wanted.extend(made.iter().filter(is_in));
            }
        }
        if let Some(from) = &from {
            // The partition may no longer exist, so continue after its position.
            let mut part = vec![];
            layout.put_partition(&from.key, &mut part)?;
            let at = match &keys {
                Some(_) => wanted.iter().position(|p| p.key == from.key).unwrap_or(wanted.len()),
                None => wanted.partition_point(|p| p.part < part),
            };
            wanted.drain(..at);
        }
        let mut place = vec![];
        for partition in wanted {
            let resumed = from.as_ref().filter(|f| f.key == partition.key);
            out.enter(&partition.key, resumed.map(|f| f.left_in_partition))?;
            let mut rows: Vec<_> = partition.rows.iter().collect();
            if self.order.reverse {
                rows.reverse();
            }
            for row in rows {
                if resumed.is_some_and(|f| self.was_shown(f, &row.place))
                    || !intervals.contains(&row.place, &mut place)
                {
                    continue;
                }
                let row = Row::given(&self.shape, &self.table, &row.place, &row.values);
                match out.row(&Row::none(), Some(&row))? {
                    CollectStep::More => {}
                    CollectStep::NextPartition => break,
                    CollectStep::Stop => return out.finish(limit),
                }
            }
        }
        out.finish(limit)
    }

    /// Reports whether a row was on a page before the one that begins at this position.
    fn was_shown(&self, from: &Position, place: &[u8]) -> bool {
        match &from.row {
            None => true,
            Some(row) if self.order.reverse => place >= &**row,
            Some(row) => place <= &**row,
        }
    }
}
