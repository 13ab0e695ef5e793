//! Converts attributes to definitions.

use std::collections::BTreeMap;

use firn_wide::{CfDef, ColumnDef, KsDef, Type};

use super::ast::Definition;
use super::attributes::{
    Attribute, ColumnChange, FamilyChange, KeyspaceChange, check_known_in_1_1,
};
use super::session::CliSession;
use super::syntax::SyntaxFailure;
use super::terms::ExceptionDepth;

const NETWORK_TOPOLOGY: &str = "org.apache.cassandra.locator.NetworkTopologyStrategy";

/// Returns the keyspace of `create keyspace`. In strict mode, the default is
/// NetworkTopologyStrategy, as in 2012.
pub(super) fn new_keyspace(d: &Definition, strict: bool) -> Result<KsDef, SyntaxFailure> {
    let base = KsDef::new(&d.name);
    let base = if strict {
        KsDef {
            strategy_class: NETWORK_TOPOLOGY.to_owned(),
            strategy_options: BTreeMap::new(),
            ..base
        }
    } else {
        base
    };
    changed_keyspace(base, &d.attributes)
}

/// Returns a keyspace with these attributes applied.
pub(super) fn changed_keyspace(
    mut def: KsDef,
    attributes: &[Attribute],
) -> Result<KsDef, SyntaxFailure> {
    let change = KeyspaceChange::new(attributes)?;
    if let Some(strategy) = change.placement_strategy {
        def.strategy_class = strategy;
    }
    if let Some(options) = change.strategy_options {
        def.strategy_options = options;
    }
    if let Some(durable) = change.durable_writes {
        def.durable_writes = durable;
    }
    if def.strategy_class.ends_with("NetworkTopologyStrategy") {
        def.strategy_options.remove("replication_factor");
        if def.strategy_options.is_empty() {
            def.strategy_options.insert("datacenter1".to_owned(), "1".to_owned());
        }
    }
    Ok(def)
}

/// Returns a column family with these attributes applied. Notices for the user go to `out`.
pub(super) fn family(
    session: &CliSession,
    mut def: CfDef,
    attributes: &[Attribute],
    out: &mut String,
) -> Result<CfDef, SyntaxFailure> {
    if session.strict {
        check_known_in_1_1(attributes)?;
    }
    let change = FamilyChange::new(attributes)?;
    if let Some(columns) = &change.column_metadata {
        // In 2012 the command read the names when it met the list, with the types known by then.
        let at = attributes
            .iter()
            .rposition(|a| a.name.eq_ignore_ascii_case("column_metadata"))
            .unwrap_or(attributes.len());
        let known =
            if session.strict { FamilyChange::new(&attributes[..at])? } else { change.clone() };
        let t = name_type(session, &def, &known, out)?;
        let default =
            change.default_validation_class.as_ref().unwrap_or(&def.default_validation_class);
        let columns = columns.iter().map(|c| column(session, &t, default, c));
        def.column_metadata = columns.collect::<Result<_, _>>()?;
    }
    set(&mut def.column_type, change.column_type);
    set(&mut def.comparator_type, change.comparator);
    set(&mut def.comment, change.comment);
    set(&mut def.read_repair_chance, change.read_repair_chance);
    set(&mut def.dclocal_read_repair_chance, change.dclocal_read_repair_chance);
    set(&mut def.gc_grace_seconds, change.gc_grace);
    set(&mut def.default_validation_class, change.default_validation_class);
    set(&mut def.min_compaction_threshold, change.min_compaction_threshold);
    set(&mut def.max_compaction_threshold, change.max_compaction_threshold);
    set(&mut def.replicate_on_write, change.replicate_on_write);
    set(&mut def.key_validation_class, change.key_validation_class);
    set(&mut def.compaction_strategy, change.compaction_strategy);
    set(&mut def.compaction_strategy_options, change.compaction_strategy_options);
    set(&mut def.compression_options, change.compression_options);
    set(&mut def.caching, change.caching);
    set(&mut def.default_time_to_live, change.default_time_to_live);
    def.speculative_retry = change.speculative_retry.or(def.speculative_retry);
    def.memtable_flush_period_in_ms =
        change.memtable_flush_period_in_ms.or(def.memtable_flush_period_in_ms);
    def.min_index_interval = change.min_index_interval.or(def.min_index_interval);
    def.max_index_interval = change.max_index_interval.or(def.max_index_interval);
    def.cells_per_row_to_cache = change.cells_per_row_to_cache.or(def.cells_per_row_to_cache);
    def.subcomparator_type = change.subcomparator.or(def.subcomparator_type);
    def.bloom_filter_fp_chance = change.bloom_filter_fp_chance.or(def.bloom_filter_fp_chance);
    Ok(def)
}

fn set<T>(field: &mut T, said: Option<T>) {
    if let Some(value) = said {
        *field = value;
    }
}

/// Returns the type of the names in `column_metadata`.
fn name_type(
    session: &CliSession,
    def: &CfDef,
    known: &FamilyChange,
    out: &mut String,
) -> Result<Type, SyntaxFailure> {
    let column_type = known.column_type.as_ref().unwrap_or(&def.column_type);
    let comparator = known.comparator.as_ref().unwrap_or(&def.comparator_type);
    let class = if column_type == "Super" {
        known
            .subcomparator
            .as_ref()
            .or(def.subcomparator_type.as_ref())
            .map(String::as_str)
            .unwrap_or_else(|| {
                out.push_str(&format!(
                    "Notice: defaulting to BytesType subcomparator for '{}'\n",
                    def.name
                ));
                "BytesType"
            })
    } else {
        comparator
    };
    session.type_called(class)
}

fn column(
    session: &CliSession,
    t: &Type,
    default: &str,
    c: &ColumnChange,
) -> Result<ColumnDef, SyntaxFailure> {
    let name = session.read_name(t, &c.name, ExceptionDepth::Twice)?;
    let validation_class = match &c.validation_class {
        Some(class) => class.clone(),
        None if !session.strict => default.to_owned(),
        None => {
            let name: Vec<String> = name.iter().map(|b| format!("{b:02X}")).collect();
            return Err(SyntaxFailure::same(format!(
                "java.lang.RuntimeException: org.apache.thrift.protocol.TProtocolException: Required field 'validation_class' was \
                 not present! Struct: ColumnDef(name:{}, validation_class:null)",
                name.join(" ")
            )));
        }
    };
    Ok(ColumnDef {
        name,
        validation_class,
        index_type: c.index,
        index_name: c.index_name.clone(),
        index_options: c.index_options.clone().unwrap_or_default(),
    })
}
