//! `--where`: a condition on the primary key columns that selects the migrated data.

use std::sync::Arc;

use firn_cql::Session;
use firn_cql::internals::analysis::{Purpose, Restrictions, RowFilter, RowValues};
use firn_cql::internals::catalog::TableSchema;
use firn_cql::internals::syntax::ast::{Relation, Statement};
use firn_cql::internals::syntax::parse;
use firn_cql::internals::values::{Context, EvalEnv, Markers};
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure};

use crate::definitions::full_name;

/// The migrated part of a table.
#[derive(Clone, Debug)]
pub struct KeyCondition {
    /// The conditions on the partition key alone.
    partitions: RowFilter,
    /// All conditions.
    rows: RowFilter,
    /// Whether all conditions are on partition key columns.
    pub of_partitions: bool,
}

/// The values of a primary key, partition key first.
struct ConditionKey<'a> {
    partition: &'a [Vec<u8>],
    clustering: &'a [Vec<u8>],
}

impl RowValues for ConditionKey<'_> {
    fn value(&self, column: usize) -> Option<&[u8]> {
        let clustering = || self.clustering.get(column.checked_sub(self.partition.len())?);
        self.partition.get(column).or_else(clustering).map(|v| &**v)
    }
}

impl KeyCondition {
    /// Parses a condition on a table.
    ///
    /// # Errors
    /// A text that is not a condition, or that uses other columns than those of the primary key.
    pub fn new(session: &Session, table: &Arc<TableSchema>, text: &str) -> Done<KeyCondition> {
        let name = full_name(&table.keyspace, &table.name);
        let refused = |why: String| {
            Failure::with_next(
                format!("--where on {name}: {why}"),
                "write it as behind WHERE, on columns of the primary key, as \"day >= '2026-01-01' AND shop = 7\"; --tables names tables that have them",
            )
        };
        let statement = format!("SELECT * FROM {name} WHERE {text} ALLOW FILTERING");
        let parsed = parse(&statement).map_err(|e| refused(e.to_string()))?;
        let Statement::Select(select) = &parsed.statement else {
            return Err(refused("it is no condition".to_owned()));
        };
        let engine = session.engine();
        let catalog = engine.fresh_catalog().map_err(|e| cql_trouble(&e))?;
        let mut context = Context {
            catalog: &catalog,
            keyspace: &table.keyspace,
            partition: table.partition().iter().map(|c| c.of.value_type.clone()).collect(),
            partitioner: engine.partitioner(),
            markers: Markers::new(parsed.markers),
            calls: vec![],
        };
        let mut prepare = |relations: &[Relation<'_>]| {
            let purpose = Purpose::Select { filtering: true, nearest: None };
            let of = Restrictions::prepare(purpose, false, table, relations, &mut context);
            of.map_err(|e| refused(e.to_string()))
        };
        let of = prepare(&select.relations)?;
        let is_of_partition = |name: &str| table.partition().iter().any(|c| c.name == name);
        let mut of_key = select.relations.clone();
        of_key.retain_mut(|r| r.columns_mut().iter().all(|name| is_of_partition(&name.text)));
        let of_partitions = of_key.len() == select.relations.len();
        let of_key = prepare(&of_key)?;
        let is_token = |r: &Relation<'_>| matches!(r, Relation::Token { .. });
        let asks_more = of.filtered_columns().next().is_some() || select.limit.is_some();
        if asks_more || parsed.markers > 0 || select.relations.iter().any(is_token) {
            return Err(refused("it asks for more than columns of the primary key".to_owned()));
        }
        let random = || engine.random_bits();
        let env = EvalEnv { bound: &[], now: engine.store().timestamp(), random: &random };
        let filter = |of: &Restrictions| of.whole_filter(&env).map_err(|e| refused(e.to_string()));
        Ok(KeyCondition { partitions: filter(&of_key)?, rows: filter(&of)?, of_partitions })
    }

    /// Reports whether a part of a partition is migrated: its static cells, and accepted rows.
    ///
    /// # Errors
    /// Errors of comparing values.
    pub fn accepts_partition(&self, partition: &[Vec<u8>]) -> Done<bool> {
        let values = ConditionKey { partition, clustering: &[] };
        self.partitions.accepts(&values).map_err(|e| cql_trouble(&e))
    }

    /// Reports whether a row is migrated.
    ///
    /// # Errors
    /// Errors of comparing values.
    pub fn accepts_row(&self, partition: &[Vec<u8>], clustering: &[Vec<u8>]) -> Done<bool> {
        let values = ConditionKey { partition, clustering };
        self.rows.accepts(&values).map_err(|e| cql_trouble(&e))
    }
}
