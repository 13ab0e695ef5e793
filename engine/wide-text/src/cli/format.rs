//! Formats results exactly as the command of 2012 did (model 2.10, 6.17). Pure functions over plain
//! data: names and values are already text, so nothing here depends on types or the store. Every
//! text ends with a newline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firn_wide::internals::types::PACKAGE;
use firn_wide::{CfDef, ColumnDef, KsDef};

/// A column with its name and value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliColumn {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The client's timestamp.
    pub timestamp: i64,
    /// Its TTL in seconds.
    pub ttl: Option<i32>,
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliCell {
    /// A column.
    Column(CliColumn),
    /// A counter: name and value.
    Counter(String, i64),
    /// A super column: name and columns.
    Super(String, Vec<CliColumn>),
    /// A super column of counters: its name, and the name and value of each counter.
    CounterSuper(String, Vec<(String, i64)>),
}

/// A row; without cells if it was deleted recently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliRow {
    /// Its key.
    pub key: String,
    /// Its cells, in order.
    pub cells: Vec<CliCell>,
}

/// Formats `column=…, value=…, timestamp=…[, ttl=…]`.
fn column(out: &mut String, column: &CliColumn) {
    let CliColumn { name, value, timestamp, ttl } = column;
    let _ = write!(out, "(column={name}, value={value}, timestamp={timestamp}");
    if let Some(ttl) = ttl {
        let _ = write!(out, ", ttl={ttl}");
    }
    out.push(')');
}

/// Formats a cell, as in `get` of a column and in rows.
pub fn cell(out: &mut String, cell: &CliCell) {
    out.push_str("=> ");
    match cell {
        CliCell::Column(c) => column(out, c),
        CliCell::Counter(name, value) => {
            let _ = write!(out, "(counter={name}, value={value})");
        }
        CliCell::Super(name, columns) => {
            let _ = write!(out, "(super_column={name},");
            for c in columns {
                out.push_str("\n     ");
                column(out, c);
            }
            out.push(')');
        }
        CliCell::CounterSuper(name, counters) => {
            let _ = write!(out, "(super_column={name},");
            for (name, value) in counters {
                let _ = write!(out, "\n     (counter={name}, value={value})");
            }
            out.push(')');
        }
    }
    out.push('\n');
}

/// Formats the cells of one row or super column, and their number.
pub fn slice(out: &mut String, cells: &[CliCell]) {
    cells.iter().for_each(|c| cell(out, c));
    let _ = writeln!(out, "Returned {} results.", cells.len());
}

/// Formats rows, and their number.
pub fn rows(out: &mut String, rows: &[CliRow]) {
    for row in rows {
        let _ = writeln!(out, "-------------------\nRowKey: {}", row.key);
        row.cells.iter().for_each(|c| cell(out, c));
    }
    let _ =
        writeln!(out, "\n{} Row{} Returned.", rows.len(), if rows.len() > 1 { "s" } else { "" });
}

/// Formats the last line of `get`, `set` and `list`.
pub fn elapsed(out: &mut String, milliseconds: u64) {
    let _ = writeln!(out, "Elapsed time: {milliseconds} msec(s).");
}

/// Formats the first lines of `list` without explicit limits.
pub fn default_limits(out: &mut String, rows: bool, columns: bool) {
    if rows {
        out.push_str("Using default limit of 100\n");
    }
    if columns {
        out.push_str("Using default column limit of 100\n");
    }
}

/// Formats the message after a change of the schema.
pub fn schema_changed(out: &mut String, schema_id: &str) {
    let _ = writeln!(
        out,
        "{schema_id}\nWaiting for schema agreement...\n... schemas agree across the cluster"
    );
}

/// Returns the prompt for a keyspace, or without one.
pub fn prompt(keyspace: Option<&str>) -> String {
    format!("[default@{}] ", keyspace.unwrap_or("unknown"))
}

/// Prompt for the continuation lines of a statement.
pub const MORE: &str = "...\t";

/// Formats the name of a column, in the type of the column family's cell names.
pub type Namer<'a> = dyn Fn(&CfDef, &[u8]) -> String + 'a;

const LOCATOR: &str = "org.apache.cassandra.locator.";

/// Quotes a text so that it reads back unchanged.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && u32::from(c) < 0x10000 => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn short<'a>(class: &'a str, package: &str) -> &'a str {
    class.strip_prefix(package).unwrap_or(class)
}

/// Formats numbers as Java does: `0.0`, `0.1`.
fn number(n: f64) -> String {
    format!("{n:?}")
}

fn pairs(options: &BTreeMap<String, String>) -> String {
    let list: Vec<String> =
        options.iter().map(|(k, v)| format!("{} : {}", quoted(k), quoted(v))).collect();
    format!("{{{}}}", list.join(", "))
}

/// Formats the statements that recreate keyspaces, for `show schema`.
pub fn schema(out: &mut String, keyspaces: &[KsDef], namer: &Namer<'_>) {
    for keyspace in keyspaces {
        let own_name = name(&keyspace.name);
        let _ = write!(out, "create keyspace {own_name}");
        let _ = write!(
            out,
            "\n  with placement_strategy = {}",
            quoted(short(&keyspace.strategy_class, LOCATOR))
        );
        if !keyspace.strategy_options.is_empty() {
            let list: Vec<String> = keyspace
                .strategy_options
                .iter()
                .map(|(k, v)| format!("{} : {}", name(k), name(v)))
                .collect();
            let _ = write!(out, "\n  and strategy_options = {{{}}}", list.join(", "));
        }
        let _ = write!(
            out,
            "\n  and durable_writes = {};\n\nuse {own_name};\n\n",
            keyspace.durable_writes
        );
        keyspace.cf_defs.iter().for_each(|f| family_statement(out, f, namer));
        out.push('\n');
    }
    out.push('\n');
}

/// Formats a name for a statement: in quotes unless it is a word.
fn name(text: &str) -> String {
    let word = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(super::chars::in_word);
    if word { text.to_owned() } else { quoted(text) }
}

fn family_statement(out: &mut String, f: &CfDef, namer: &Namer<'_>) {
    // As the servers print it, although a name may begin with a digit.
    let shown = if f.name.starts_with(|c: char| c.is_ascii_digit()) {
        quoted(&f.name)
    } else {
        name(&f.name)
    };
    let _ = write!(out, "create column family {shown}");
    let mut first = true;
    let mut attribute = |name: &str, value: &str| {
        let _ = write!(out, "\n  {} {name} = {value}", if first { "with" } else { "and" });
        first = false;
    };
    attribute("column_type", &quoted(&f.column_type));
    let class = |class: &str| quoted(short(class, PACKAGE));
    attribute("comparator", &class(&f.comparator_type));
    if let Some(sub) = &f.subcomparator_type {
        attribute("subcomparator", &class(sub));
    }
    attribute("default_validation_class", &class(&f.default_validation_class));
    attribute("key_validation_class", &class(&f.key_validation_class));
    attribute("read_repair_chance", &number(f.read_repair_chance));
    attribute("dclocal_read_repair_chance", &number(f.dclocal_read_repair_chance));
    attribute("gc_grace", &f.gc_grace_seconds.to_string());
    attribute("min_compaction_threshold", &f.min_compaction_threshold.to_string());
    attribute("max_compaction_threshold", &f.max_compaction_threshold.to_string());
    attribute("replicate_on_write", &f.replicate_on_write.to_string());
    attribute("compaction_strategy", &quoted(&f.compaction_strategy));
    attribute("caching", &quoted(&f.caching));
    if let Some(chance) = f.bloom_filter_fp_chance {
        attribute("bloom_filter_fp_chance", &number(chance));
    }
    for (name, value) in after_1_1(f) {
        attribute(name, &value);
    }
    if !f.compaction_strategy_options.is_empty() {
        attribute("compaction_strategy_options", &pairs(&f.compaction_strategy_options));
    }
    if !f.comment.is_empty() {
        attribute("comment", &quoted(&f.comment));
    }
    if !f.column_metadata.is_empty() {
        let columns: Vec<String> =
            f.column_metadata.iter().map(|c| column_statement(c, &namer(f, &c.name))).collect();
        attribute("column_metadata", &format!("[\n{}]", columns.join(",\n")));
    }
    // The default, without the option, is to compress.
    let compression = if f.compression_options.is_empty() {
        "null".to_owned()
    } else {
        pairs(&f.compression_options)
    };
    attribute("compression_options", &compression);
    out.push_str(";\n\n");
}

/// Formats the attributes of servers after 1.1 that are set, as in a statement.
fn after_1_1(f: &CfDef) -> Vec<(&'static str, String)> {
    let number = |n: Option<i32>| n.map(|n| n.to_string());
    let text = |text: &Option<String>| text.as_deref().map(quoted);
    let ttl = Some(f.default_time_to_live).filter(|ttl| *ttl != 0);
    let all = [
        ("default_time_to_live", number(ttl)),
        ("speculative_retry", text(&f.speculative_retry)),
        ("memtable_flush_period_in_ms", number(f.memtable_flush_period_in_ms)),
        ("min_index_interval", number(f.min_index_interval)),
        ("max_index_interval", number(f.max_index_interval)),
        ("cells_per_row_to_cache", text(&f.cells_per_row_to_cache)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn column_statement(c: &ColumnDef, text: &str) -> String {
    let mut out = format!(
        "    {{column_name : {},\n    validation_class : {}",
        quoted(text),
        name_of_class(&c.validation_class)
    );
    if let Some(name) = &c.index_name {
        let _ = write!(out, ",\n    index_name : {}", quoted(name));
    }
    if let Some(kind) = c.index_type {
        let _ = write!(out, ",\n    index_type : {}", kind as i32);
    }
    if !c.index_options.is_empty() {
        let _ = write!(out, ",\n    index_options : {}", pairs(&c.index_options));
    }
    out.push('}');
    out
}

/// Formats a type in `column_metadata`: without quotes if it is a word.
fn name_of_class(class: &str) -> String {
    name(short(class, PACKAGE))
}

/// Formats a keyspace, for `describe` and `show keyspaces`.
pub fn describe_keyspace(out: &mut String, keyspace: &KsDef, namer: &Namer<'_>) {
    let _ = writeln!(out, "Keyspace: {}:", keyspace.name);
    let _ = writeln!(out, "  Replication Strategy: {}", keyspace.strategy_class);
    let _ = writeln!(out, "  Durable Writes: {}", keyspace.durable_writes);
    let list: Vec<String> =
        keyspace.strategy_options.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    let _ = writeln!(out, "    Options: [{}]", list.join(", "));
    let _ = writeln!(out, "  Column Families:");
    keyspace.cf_defs.iter().for_each(|f| describe_family(out, f, namer));
}

/// Formats a column family, for `describe`.
pub fn describe_family(out: &mut String, f: &CfDef, namer: &Namer<'_>) {
    let kind = if f.subcomparator_type.is_some() { " (Super)" } else { "" };
    let _ = writeln!(out, "    ColumnFamily: {}{kind}", f.name);
    if !f.comment.is_empty() {
        let _ = writeln!(out, "    \"{}\"", f.comment);
    }
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "      {name}: {value}");
    };
    line("Key Validation Class", &f.key_validation_class);
    line("Default column value validator", &f.default_validation_class);
    let sub = f.subcomparator_type.as_ref().map_or(String::new(), |sub| format!("/{sub}"));
    line("Columns sorted by", &format!("{}{sub}", f.comparator_type));
    line("GC grace seconds", &f.gc_grace_seconds.to_string());
    line(
        "Compaction min/max thresholds",
        &format!("{}/{}", f.min_compaction_threshold, f.max_compaction_threshold),
    );
    line("Read repair chance", &number(f.read_repair_chance));
    line("DC Local Read repair chance", &number(f.dclocal_read_repair_chance));
    line("Replicate on write", &f.replicate_on_write.to_string());
    line("Caching", &f.caching);
    line("Bloom Filter FP chance", &f.bloom_filter_fp_chance.map_or("default".to_owned(), number));
    for (name, value) in after_1_1(f) {
        line(name, &value);
    }
    let indexes = f.column_metadata.iter().filter_map(|c| c.index_name.as_ref());
    let indexes: Vec<String> = indexes.map(|index| format!("{}.{index}", f.name)).collect();
    line("Built indexes", &format!("[{}]", indexes.join(", ")));
    if !f.column_metadata.is_empty() {
        out.push_str("      Column Metadata:\n");
        f.column_metadata.iter().for_each(|c| describe_column(out, c, &namer(f, &c.name)));
    }
    let _ = writeln!(out, "      Compaction Strategy: {}", f.compaction_strategy);
    describe_options(out, "Compaction Strategy Options", &f.compaction_strategy_options);
    describe_options(out, "Compression Options", &f.compression_options);
}

fn describe_options(out: &mut String, title: &str, options: &BTreeMap<String, String>) {
    if options.is_empty() {
        return;
    }
    let _ = writeln!(out, "      {title}:");
    for (name, value) in options {
        let _ = writeln!(out, "        {name}: {value}");
    }
}

fn describe_column(out: &mut String, c: &ColumnDef, text: &str) {
    let _ = writeln!(
        out,
        "        Column Name: {text}\n          Validation Class: {}",
        c.validation_class
    );
    if let Some(name) = &c.index_name {
        let _ = writeln!(out, "          Index Name: {name}");
    }
    if let Some(kind) = c.index_type {
        let _ = writeln!(out, "          Index Type: {}", kind.name());
    }
}

/// Formats `describe cluster`; `versions` are the schema versions with their nodes.
pub fn cluster(
    out: &mut String,
    snitch: &str,
    partitioner: &str,
    versions: &BTreeMap<String, Vec<String>>,
) {
    let _ = writeln!(
        out,
        "Cluster Information:\n   Snitch: {snitch}\n   Partitioner: {partitioner}\n   Schema versions: "
    );
    for (version, addresses) in versions {
        let _ = writeln!(out, "\t{version}: [{}]\n", addresses.join(", "));
    }
}
