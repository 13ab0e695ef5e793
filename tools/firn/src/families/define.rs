//! `firn define`: creates keyspaces and column families from a `storage-conf.xml`, the
//! configuration file of early Cassandra versions.
//!
//! Invariants:
//! - The file is read and compared with the store before any definition is created.
//! - Existing definitions do not change.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use firn_cql::internals::script::LANGUAGE;
use firn_cql::with_scripts;
use firn_kv::DbOptions;
use firn_table_events::model_trouble;
use firn_tools::io::{self, Input};
use firn_tools::output::{Done, Failure};
use firn_wide::internals::schema::Schema;
use firn_wide::internals::types::{ForeignType, PACKAGE};
use firn_wide::{CfDef, Error, KsDef, Options, Partitioner, Registry, StoreOptions, Wide};
use firn_wide_text::storage_conf::{ConfSettings, StorageConf};
use serde_json::json;

use crate::store::{Global, StoreContent};

pub const EXAMPLES: &str = "\
The file is a whole storage-conf.xml, or a part of one: its Keyspaces, a Keyspace, or with --keyspace only ColumnFamily elements. Misplaced
blanks (`< ColumnFamily Name =\"Authors\" />`), as in printed copies, are accepted. The whole file is checked first.

Existing definitions do not change, so an extended file may be given again. A different definition of an existing family is an error. A
new store uses the setting Partitioner, any store ClusterName, and new families GCGraceSeconds. Settings without a meaning for Firn are
reported with their lines.

A custom comparator is a script in rhai, the language of CQL functions: `fn encode(value) { value.len() }` sorts names by their length,
names of the same length by their bytes. The script is stored with the definitions, so that every command can open the store. It never
changes, because families are sorted by it.

Examples:
  firn --db blog define storage-conf.xml
  firn --db blog define --comparator com.example.ByLength=by-length.rhai storage-conf.xml
  firn --db blog define families.xml --keyspace BloggyAppy      just <ColumnFamily CompareWith=\"LongType\" Name=\"Numbers\"/> and so on
  firn --db blog cli -k BloggyAppy -e \"describe;\"";

/// Maximum size of the file, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Arguments of `firn define`.
#[derive(Args, Clone, Debug)]
pub struct DefineArgs {
    /// Read this storage-conf.xml; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "comparator")]
    file: Option<PathBuf>,
    /// Define a comparator of this name by a rhai script with `fn encode(value)`, which returns the
    /// blob, text or whole number that a value sorts by; may be repeated
    #[arg(long, value_name = "NAME=SCRIPT", value_parser = comparator)]
    comparator: Vec<(String, PathBuf)>,
    /// Read a file of ColumnFamily elements alone, and add them to this keyspace, which is created
    /// if there is none
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
}

/// Missing definitions of a keyspace of the file.
struct DefinitionPlan<'a> {
    keyspace: &'a KsDef,
    is_new: bool,
    /// Families, and whether each is new.
    families: Vec<(&'a CfDef, bool)>,
}

/// Parses the name and file of `--comparator`.
fn comparator(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("give a name, = and a file: com.example.ByLength=by-length.rhai".into()),
    }
}

/// Runs `firn define`.
pub fn run(global: &Global, args: &DefineArgs) -> Done {
    let scripts: Vec<(&str, String)> = args
        .comparator
        .iter()
        .map(|(name, file)| Ok((name.as_str(), read(file)?)))
        .collect::<Done<_>>()?;
    let Some(file) = &args.file else {
        let wide = open(global, &ConfSettings::default())?;
        define_comparators(&wide, &scripts)?;
        return print_result(global, &scripts, &[]);
    };
    let text = read(file)?;
    let conf = parse(&text, file, args, known_types(global, &scripts)?)?;
    let wide = open(global, &conf.settings)?;
    define_comparators(&wide, &scripts)?;
    let plans = plan(&wide, &conf.keyspaces, file)?;
    for plan in &plans {
        if plan.is_new {
            wide.system_add_keyspace(plan.keyspace).map_err(model_trouble)?;
            continue;
        }
        for (family, _) in plan.families.iter().filter(|(_, is_new)| *is_new) {
            wide.system_add_column_family(family).map_err(model_trouble)?;
        }
    }
    for note in &conf.notes {
        eprintln!("{}, line {}: {}", file.display(), note.line, note.text);
    }
    print_result(global, &scripts, &plans)
}

fn define_comparators(wide: &Wide, scripts: &[(&str, String)]) -> Done {
    scripts
        .iter()
        .try_for_each(|(name, script)| wide.define_comparator(name, LANGUAGE, script))
        .map_err(model_trouble)
}

/// Returns the types that a file may name: those of the store, if there is one, and the new ones.
fn known_types(global: &Global, scripts: &[(&str, String)]) -> Done<Registry> {
    let mut registry = match global.holding()? {
        StoreContent::Model => Registry::clone(&global.wide(global.to_read())?.registry()),
        _ => Registry::new(),
    };
    for (name, _) in scripts {
        if registry.get(name).is_none() {
            registry.register(Arc::new(ForeignType((*name).to_owned())));
        }
    }
    Ok(registry)
}

fn read(file: &Path) -> Done<String> {
    let input = Input::open(file).map_err(|e| Failure::file("open", file, &e))?;
    let mut text = String::new();
    input.take(MAX_FILE).read_to_string(&mut text).map_err(|e| Failure::file("read", file, &e))?;
    Ok(text)
}

fn parse(text: &str, file: &Path, args: &DefineArgs, registry: Registry) -> Done<StorageConf> {
    let registry = &Arc::new(registry);
    let parsed = match &args.keyspace {
        None => StorageConf::parse(text, registry),
        Some(name) => {
            StorageConf::parse_families(text, name, registry).map(|families| StorageConf {
                keyspaces: vec![KsDef { cf_defs: families, ..KsDef::new(name) }],
                ..StorageConf::default()
            })
        }
    };
    let conf = parsed.map_err(|e| {
        // The parser does not know the file's name.
        let file = file.display();
        let what = match &e {
            Error::Configuration(why) => match why.strip_prefix("storage-conf.xml:") {
                Some(place_and_why) => format!("{file}:{place_and_why}"),
                None => format!("{file}: {why}"),
            },
            other => format!("{file}: {other}"),
        };
        if args.keyspace.is_none() && !text.contains("Keyspace") && text.contains("ColumnFamily") {
            return Failure::with_next(what, "ColumnFamily elements alone need --keyspace NAME");
        }
        Failure::new(what)
    })?;
    if let Some(name) = &conf.settings.partitioner {
        let parsed = Partitioner::parse(name);
        parsed.map_err(|why| Failure::new(format!("{}: Partitioner: {why}", file.display())))?;
    }
    Ok(conf)
}

fn open(global: &Global, settings: &ConfSettings) -> Done<Wide> {
    // Settings that the file omits are not passed on.
    let named = settings.cluster_name != ConfSettings::default().cluster_name;
    let db = DbOptions { wal_segment: 1 << 20, ..global.defaults() };
    let options = Options {
        partitioner: settings.partitioner.clone(),
        cluster_name: named.then(|| settings.cluster_name.clone()),
        store: StoreOptions { db, clock: None, ..StoreOptions::default() },
        ..Options::default()
    };
    global.check_no_replica()?;
    Wide::open_with(&global.store.db, with_scripts(options)).map_err(|e| match e {
        Error::Configuration(_) => Failure::with_next(
            e.to_string(),
            "name another directory with --db, or leave Partitioner out",
        ),
        other => model_trouble(other),
    })
}

fn plan<'a>(wide: &Wide, keyspaces: &'a [KsDef], file: &Path) -> Done<Vec<DefinitionPlan<'a>>> {
    let refused = |e: Error| Failure::new(format!("{}: {e}", file.display()));
    let (present, mut schema) = (wide.schema(), wide.schema());
    let mut plans = vec![];
    for keyspace in keyspaces {
        let Ok(there) = present.keyspace(&keyspace.name) else {
            schema = schema.add_keyspace(keyspace).map_err(refused)?;
            let families = keyspace.cf_defs.iter().map(|family| (family, true)).collect();
            plans.push(DefinitionPlan { keyspace, is_new: true, families });
            continue;
        };
        let mut families = vec![];
        let said = Schema::new(wide.registry()).add_keyspace(keyspace).map_err(refused)?;
        for def in &keyspace.cf_defs {
            match there.family(&def.name) {
                None => schema = schema.add_family(def).map_err(refused)?,
                Some(has) => {
                    let says = said.family(&keyspace.name, &def.name).map_err(refused)?;
                    let same = has.comparator() == says.comparator()
                        && has.subcomparator() == says.subcomparator();
                    if !same || has.is_super() != says.is_super() {
                        let (has, says) = (sorts(has.def()), sorts(says.def()));
                        let what = format!(
                            "{}: {}.{} has {has}, not {says}",
                            file.display(),
                            keyspace.name,
                            def.name
                        );
                        return Err(Failure::with_next(
                            what,
                            "use another name, or drop the existing one: nothing was defined",
                        ));
                    }
                }
            }
            families.push((def, there.family(&def.name).is_none()));
        }
        plans.push(DefinitionPlan { keyspace, is_new: false, families });
    }
    Ok(plans)
}

fn short(class: &str) -> String {
    class.replace(PACKAGE, "")
}

/// Describes the order of a family's columns.
fn sorts(def: &CfDef) -> String {
    let order = short(&def.comparator_type);
    match &def.subcomparator_type {
        Some(sub) if def.column_type == "Super" => {
            format!("super columns sorted by {order}, their columns by {}", short(sub))
        }
        _ => format!("columns sorted by {order}"),
    }
}

fn print_result(global: &Global, scripts: &[(&str, String)], plans: &[DefinitionPlan<'_>]) -> Done {
    let out = &mut io::stdout();
    if global.store.json {
        let family = |(def, is_new): &(&CfDef, bool)| {
            let sub = def.subcomparator_type.as_deref().map(short);
            json!({"name": def.name, "made": is_new, "column_type": def.column_type, "comparator": short(&def.comparator_type),
                "subcomparator": sub})
        };
        let keyspace = |p: &DefinitionPlan<'_>| {
            let families: Vec<_> = p.families.iter().map(family).collect();
            json!({"name": p.keyspace.name, "made": p.is_new, "families": families})
        };
        let comparators: Vec<_> = scripts.iter().map(|(name, _)| name).collect();
        let keyspaces: Vec<_> = plans.iter().map(keyspace).collect();
        let mut report = json!({ "keyspaces": keyspaces });
        if !comparators.is_empty() {
            report["comparators"] = json!(comparators);
        }
        writeln!(out, "{report}")?;
        return Ok(out.flush()?);
    }
    for (name, _) in scripts {
        writeln!(out, "comparator {name}")?;
    }
    let there = |is_new: bool| if is_new { "" } else { " (there already)" };
    for plan in plans {
        writeln!(out, "keyspace {}{}", plan.keyspace.name, there(plan.is_new))?;
        let width =
            plan.families.iter().map(|(def, _)| def.name.chars().count()).max().unwrap_or(0);
        for (def, is_new) in &plan.families {
            writeln!(
                out,
                "  {:width$}  {:<8}  {}{}",
                def.name,
                def.column_type,
                sorts(def),
                there(*is_new)
            )?;
        }
    }
    Ok(out.flush()?)
}
