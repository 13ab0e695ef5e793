//! `firn migrate --from`: copies tables of a cluster into the store.
//!
//! Invariants:
//! - Definitions are shown, and tried on an empty store in memory, before any change or copy.
//! - Data that CQL does not expose is reported before and after the copy, with its amount.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use firn_cluster::{ClusterUrl, Session};
use firn_cql::ErrorClass;
use firn_cql::internals::catalog::TableSchema;
use firn_kv::{Env, OsEnv};
use firn_migrate::cells::CellQuery;
use firn_migrate::copied::{CopyJournal, CopyPlan};
use firn_migrate::definitions::{
    CarriedDefinition, DefinitionPhase, check_columns, define, full_name,
};
use firn_migrate::from::{ClusterCopy, copy_table, only_once};
use firn_migrate::row_import::ImportStats;
use firn_migrate::source::{OmittedDefinition, SourceSchema, estimate, partitioner, source_schema};
use firn_migrate::token_ranges::token_spans;
use firn_table_events::cql_trouble;
use firn_tools::io::{Stopwatch, stdout};
use firn_tools::output::{self, Done, Failure, Progress, bytes, things};
use firn_wide::Type;
use serde_json::{Value, json};

use crate::migrate::to::{MigrateArgs, note, whole};
use crate::shell::connect::not_connected;
use crate::shell::interrupt;
use crate::store::Global;

/// Facts about a table before its copy.
struct TableOutlook {
    name: (String, String),
    /// Bytes and partitions, as estimated by one node.
    estimate: Option<(u64, u64)>,
    /// Descriptions of the data that cannot be migrated.
    losses: Vec<String>,
}

impl TableOutlook {
    fn full_name(&self) -> String {
        full_name(&self.name.0, &self.name.1)
    }

    fn json(&self) -> Value {
        let (bytes, partitions) = self.estimate.unzip();
        json!({
            "table": self.full_name(), "estimated_bytes": bytes, "estimated_partitions": partitions,
            "not_carried": self.losses,
        })
    }
}

/// A copy from a cluster.
struct ClusterImport<'a> {
    global: &'a Global,
    args: &'a MigrateArgs,
    cluster: Session,
    nodes: Vec<String>,
    schema: SourceSchema,
    stop: Arc<AtomicBool>,
}

/// Returns the tables of a session with these names, in order.
pub fn tables_in(
    session: &firn_cql::Session,
    names: &[(String, String)],
) -> Done<Vec<Arc<TableSchema>>> {
    let catalog = session.engine().fresh_catalog().map_err(|e| cql_trouble(&e))?;
    let find = |(keyspace, table): &(String, String)| {
        let found = catalog.keyspace(keyspace).and_then(|k| k.table(table)).cloned();
        let gone = || Failure::new(format!("{} was dropped meanwhile", full_name(keyspace, table)));
        found.ok_or_else(gone)
    };
    names.iter().map(find).collect()
}

/// Runs `firn migrate --from`.
pub fn run(global: &Global, args: &MigrateArgs, url: ClusterUrl) -> Done {
    let nodes = url.nodes().to_vec();
    let cluster = Session::connect_to(url).map_err(|e| not_connected(&e))?;
    let schema = source_schema(&cluster, &args.tables)?;
    if schema.tables.is_empty() {
        schema.left.iter().for_each(|left| note(global, format!("{}: {}", left.what, left.why)));
        let next = "`firn cql --connect URL -e \"DESCRIBE TABLES\"` lists tables";
        return Err(Failure::with_next("the cluster has no tables to carry", next));
    }
    interrupt::watch()?;
    let stop = interrupt::flag();
    let mut inward = ClusterImport { global, args, cluster, nodes, schema, stop };
    let outlooks = inward.rehearse()?;
    inward.print_result(&outlooks)?;
    if args.dry_run {
        return inward.finish(&outlooks, None);
    }
    let partitioner = partitioner(&inward.cluster)?;
    let watch = Stopwatch::start();
    let session = global.model_as(partitioner, "the cluster")?;
    let counts = inward.copy(&session)?;
    inward.finish(&outlooks, Some((&counts, watch.seconds())))
}

impl ClusterImport<'_> {
    fn of_phase(&self, phase: DefinitionPhase) -> impl Iterator<Item = &CarriedDefinition> {
        self.schema.definitions.iter().filter(move |d| d.phase == phase)
    }

    /// Creates all definitions in memory, and prepares the reads of each table. Definitions that
    /// fail there are refused before any change, or left out if tables do not need them.
    fn rehearse(&mut self) -> Done<Vec<TableOutlook>> {
        let store = firn_cql::Session::in_memory().map_err(|e| cql_trouble(&e))?;
        let target = Session::from(store.clone());
        let mut left = vec![];
        for d in &mut self.schema.definitions {
            match target.execute(&d.text, ()) {
                Ok(_) => {}
                Err(e) if d.phase == DefinitionPhase::After => {
                    d.phase = DefinitionPhase::Never;
                    let what = format!(
                        "the {} {}",
                        d.kind.replace('_', " "),
                        full_name(&d.keyspace, &d.name)
                    );
                    left.push(OmittedDefinition { what, why: e.text().into_owned() });
                }
                Err(e) => {
                    return Err(Failure::with_next(
                        format!(
                            "Firn refuses the {} {}.{}: {}",
                            d.kind,
                            d.keyspace,
                            d.name,
                            e.text()
                        ),
                        "leave it out by selecting the others with --tables; or create a supported definition by hand and run this again",
                    ));
                }
            }
        }
        self.schema.left.extend(left);
        let tables = tables_in(&store, &self.schema.tables)?;
        tables.iter().map(|table| self.outlook(&store, table)).collect()
    }

    fn outlook(&self, store: &firn_cql::Session, table: &Arc<TableSchema>) -> Done<TableOutlook> {
        let (partitioner, condition) =
            (store.engine().partitioner(), self.args.condition.as_deref());
        let query = CellQuery::new(&self.cluster, partitioner, table, condition);
        let query = query.map_err(|e| match condition {
            Some(condition) if matches!(e.class(), ErrorClass::Invalid | ErrorClass::Syntax) => {
                let table = full_name(&table.keyspace, &table.name);
                Failure::with_next(
                    format!("--where {condition:?} on {table}: {}", e.text()),
                    "write it as after WHERE; --tables names tables that it fits",
                )
            }
            _ => cql_trouble(&e),
        })?;
        let mut losses = vec![];
        if let Some(why) = only_once(table) {
            losses.push(format!("it has to be empty in the store: it has {why}"));
        }
        let of_lists = table
            .columns()
            .iter()
            .filter(|c| c.of.multicell && matches!(c.of.value_type, Type::List(_)));
        let lists: Vec<&str> = of_lists.map(|c| &*c.name).collect();
        if !lists.is_empty() {
            losses.push(format!("elements of {} get new names", lists.join(", ")));
        }
        if !query.selects_parts() {
            let many = table.columns().iter().filter(|c| c.of.multicell);
            let many: Vec<&str> = many.map(|c| &*c.name).collect();
            losses.push(format!(
                "the cluster does not return write times and times to live of {}: these get the newest write time of their row, and no time to live",
                many.join(", ")
            ));
        }
        Ok(TableOutlook {
            name: (table.keyspace.clone(), table.name.clone()),
            estimate: estimate(&self.cluster, &table.keyspace, &table.name)?,
            losses,
        })
    }

    /// Reports the definitions to create, the sizes, and the data that cannot be migrated.
    fn print_result(&self, outlooks: &[TableOutlook]) -> Done {
        let carried = self.schema.definitions.iter().filter(|d| d.phase != DefinitionPhase::Never);
        for definition in carried.filter(|_| !self.global.store.json) {
            writeln!(stdout(), "{};\n", definition.text)?;
        }
        for left in &self.schema.left {
            note(self.global, format!("{} is left out: {}", left.what, left.why));
        }
        for outlook in outlooks {
            let name = outlook.full_name();
            match outlook.estimate {
                Some((size, partitions)) => eprintln!(
                    "{name} has about {} in {}, as one node estimates for its part of the ring",
                    bytes(size),
                    things(partitions, "partition", "partitions")
                ),
                None => eprintln!("{name}: the cluster has no estimate of its size"),
            }
            outlook.losses.iter().for_each(|loss| note(self.global, format!("{name}: {loss}")));
        }
        note(
            self.global,
            "CQL returns no deletions and no row markers: rows get the newest write time of their cells for their marker",
        );
        Ok(())
    }

    fn copy(&self, session: &firn_cql::Session) -> Done<Vec<ImportStats>> {
        let target = Session::from(session.clone());
        let env: Arc<dyn Env> = OsEnv::new();
        let plan = CopyPlan {
            store: session.engine().host_id().to_string(),
            tables: self.schema.tables.iter().map(|(k, t)| full_name(k, t)).collect(),
            nodes: self.nodes.clone(),
            condition: self.args.condition.clone(),
            began: i64::try_from(env.wall_micros()).unwrap_or(i64::MAX),
        };
        let path = self.args.journal_path(self.global);
        // Checked before any change.
        CopyJournal::check(&env, &path, &plan, self.args.resume)?;
        self.of_phase(DefinitionPhase::Before).try_for_each(|d| define(&target, d))?;
        for (keyspace, table) in &self.schema.tables {
            check_columns(&self.cluster, &target, keyspace, table)?;
        }
        let journal = CopyJournal::open(&env, &path, &plan, self.args.resume)?;
        let copy = Arc::new(ClusterCopy {
            cluster: self.cluster.clone(),
            store: session.clone(),
            condition: self.args.condition.clone(),
            threads: self.args.parallel,
            rate: self.args.rate,
            stop: self.stop.clone(),
            env,
            journal,
        });
        let tables = tables_in(session, &self.schema.tables)?;
        // Checks all of them before the copy of the first one.
        tables.iter().try_for_each(|table| copy.check_empty(table))?;
        let spans = token_spans(session.engine().partitioner()).len() as u64;
        let mut all = vec![];
        for table in &tables {
            let progress = Progress::operations(&table.name, Some(spans));
            all.push(copy_table(&copy, table, |at| {
                progress.at(at.done as u64);
                progress.say(things(at.cells, "cell", "cells"));
            })?);
        }
        self.of_phase(DefinitionPhase::After).try_for_each(|d| define(&target, d))?;
        session.engine().store().db().sync()?;
        copy.journal.complete()?;
        eprintln!("the journal is {}", path.display());
        Ok(all)
    }

    /// Reports the result.
    fn finish(&self, outlooks: &[TableOutlook], copied: Option<(&[ImportStats], f64)>) -> Done {
        let counts = copied.map_or(&[][..], |c| c.0);
        if self.global.store.json {
            let tables = outlooks.iter().enumerate().map(|(n, outlook)| {
                let mut entry = outlook.json();
                entry["copied"] = counts.get(n).map_or(Value::Null, ImportStats::json);
                entry
            });
            let definitions =
                self.schema.definitions.iter().filter(|d| d.phase != DefinitionPhase::Never);
            let definitions = definitions.map(|d| {
                json!({"kind": d.kind, "keyspace": d.keyspace, "name": d.name, "statement": d.text})
            });
            let left = self.schema.left.iter().map(|l| json!({"what": l.what, "why": l.why}));
            let all = json!({
                "definitions": definitions.collect::<Vec<_>>(), "definitions_left_out": left.collect::<Vec<_>>(),
                "tables": tables.collect::<Vec<_>>(), "seconds": copied.map(|c| c.1),
            });
            writeln!(stdout(), "{all}")?;
        }
        let left: Vec<String> =
            self.schema.tables_left.iter().map(|(k, t)| full_name(k, t)).collect();
        let Some((counts, seconds)) = copied else { return whole(self.global, &left) };
        let mut sum = ImportStats::default();
        for (outlook, counts) in outlooks.iter().zip(counts) {
            let name = outlook.full_name();
            eprintln!("copied {} of {name}", counts.describe());
            counts
                .made_up()
                .into_iter()
                .for_each(|made_up| note(self.global, format!("{name}: {made_up}")));
            sum.add(counts);
        }
        let rate = output::rate(sum.cells as f64 / seconds.max(1e-3));
        eprintln!(
            "{} in {seconds:.1} s, {rate} cells a second; --verify compares both sides",
            sum.describe()
        );
        whole(self.global, &left)
    }
}
