//! Executes a `SELECT`: chooses how its rows are read.

use super::plan::SelectPlan;
use super::read::{Execution, SelectInput};
use super::tombstones::TombstoneTally;
use crate::error::{Result, bail, unauthorized};
use crate::exec::access::of_table;
use crate::exec::engine::Engine;
use crate::exec::plan::Request;
use crate::exec::rows::Rows;
use crate::syntax::ast::Permission;
use crate::values::EvalEnv;

impl SelectPlan {
    /// Reports whether masked columns are shown unmasked to the role.
    ///
    /// # Errors
    /// `Unauthorized` if masked values are used in conditions and the role has no permission for
    /// that.
    fn check_masks(&self, engine: &Engine, request: &Request<'_>) -> Result<bool> {
        let Some(role) = request.role.filter(|_| self.table.has_masks()) else { return Ok(true) };
        let (catalog, of) = (engine.catalog(), of_table(&self.table));
        if catalog.may(role, Permission::Unmask, &of) {
            return Ok(true);
        }
        let asked = &self.masked_conditions;
        if asked.is_empty() || catalog.may(role, Permission::SelectMasked, &of) {
            return Ok(false);
        }
        Err(unauthorized!(
            "User {role} has no UNMASK nor SELECT_MASKED permission on table {}.{}, cannot query masked columns [{}]",
            self.table.keyspace,
            self.table.name,
            asked.join(", ")
        ))
    }

    pub(super) fn read(
        &self,
        engine: &Engine,
        request: &Request<'_>,
        env: &EvalEnv<'_>,
    ) -> Result<Rows> {
        let sees_all = self.check_masks(engine, request)?;
        let family = engine.family(&self.table)?;
        let SelectInput { limit, from, intervals, indexes, keys, out } =
            self.input(request, env, sees_all)?;
        let reads = keys.as_ref().map_or(1, Vec::len) * intervals.len()
            + usize::from(self.shape.wants_statics());
        let is_single = indexes.is_empty() && self.nearest.is_none() && reads <= 1;
        let view = match &request.run.view {
            // The index may be newer than the state.
            Some(_) if !indexes.is_empty() || self.nearest.is_some() => {
                bail!("A SELECT of an earlier state cannot use an index; restrict the key instead")
            }
            Some(view) => view.clone(),
            None if is_single => request.store(engine, env.now).latest(),
            None => request.store(engine, env.now).view(),
        };
        let mut run = Execution {
            plan: self,
            view,
            family,
            intervals,
            from,
            out,
            tombstones: TombstoneTally::new(request.run.tombstone_limits),
        };
        match (&self.nearest, &keys) {
            (Some(nearest), keys) => run.by_nearness(nearest, keys.as_deref(), limit, env)?,
            (None, keys) if !indexes.is_empty() => run.by_indexes(indexes, keys.as_deref(), env)?,
            (None, Some(keys)) => run.by_keys(keys)?,
            (None, None) => run.by_range(env)?,
        }
        run.end_of_read(false);
        if let (Some(_), Some(page), Some(limit)) = (&self.nearest, request.run.page_size, limit)
            && (page as u64) < limit
        {
            run.out.warn(format!(
                "Top-K queries do not support paging and the page size is set to {page}, which is less than LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
            ));
        }
        run.out.finish(limit)
    }
}
