//! `sstable-dump cassandra`: prints Cassandra's table files cell by cell, as lines or in the format
//! of Cassandra's `sstabledump`.
//!
//! Types come from the table's `Statistics.db`. None of its files contains the names of key
//! columns. A value that does not fit its type is printed as a blob.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use firn_cassandra::{
    HeaderColumn, MarshalClass, NodeBound, NodeCell, NodeCellState, NodeDeletion, NodeEvent,
    NodeExpiry, NodeFault, NodeFolder, NodeMarker, NodeRow, NodeTable, counter_sum,
    table_of_folder,
};
use firn_cql::internals::catalog::ColumnType;
use firn_cql::internals::values::{json, literal, plain, server_text};
use firn_cql::quote_if_needed;
use firn_tools::escape;
use firn_tools::output::{Done, Failure, things};
use firn_wide::{Registry, Type};
use firn_wide_text::json::{Emit, Times};
use serde_json::json;

use crate::Screen;
use crate::store::target::env;

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
A FILE is the Data.db of a table. Its Statistics.db and, if it is compressed, its CompressionInfo.db must be in the same directory.
Reads the versions ma to me (3.0 to 3.11, ScyllaDB), na and nb (4.0 to 5.0), oa and da (5.0), and verifies all available checksums.

A line has these fields, separated by tabs: partition key, row, column, timestamp, kind, value. With --json the output has the format
of Cassandra's sstabledump, but a counter has its sum, and a position is the offset at which an element begins.

`firn import --cassandra` imports such files into a store, where CQL, purge-report and explain work on them.

Examples:
  sstable-dump cassandra data/shop/orders-*/nb-1-big-Data.db
  sstable-dump cassandra nb-1-big-Data.db --json | jq '.[].rows[] | select(.deletion_info)'
  sstable-dump cassandra nb-1-big-Data.db --header              types of keys and columns
  sstable-dump cassandra data/shop/*/*-Data.db --check          read everything and report damage";

/// Arguments of `cassandra`.
#[derive(Args, Clone, Debug)]
pub struct CassandraDumpArgs {
    /// Data.db files of tables
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print only the metadata: version, partitioner, types
    #[arg(long, conflicts_with_all = ["check", "raw_times"])]
    header: bool,
    /// Only read everything and verify all checksums; exit code 1 on damage
    #[arg(long, conflicts_with = "raw_times")]
    check: bool,
    /// Print times as numbers instead of dates
    #[arg(long)]
    raw_times: bool,
}

/// Types of a table's keys and columns, for printing.
struct NodeTypes {
    key: Vec<Type>,
    clustering: Vec<Type>,
    statics: Vec<NodeColumnType>,
    regulars: Vec<NodeColumnType>,
}

struct NodeColumnType {
    name: String,
    of: ColumnType,
    is_counter: bool,
}

fn type_of(class: &MarshalClass) -> Type {
    // An unknown class still has values: print them as blobs.
    Type::parse(&class.to_string(), &Registry::new()).unwrap_or(Type::Bytes)
}

impl NodeTypes {
    fn new(table: &NodeTable) -> NodeTypes {
        let header = &table.header;
        let column = |c: &HeaderColumn| NodeColumnType {
            name: String::from_utf8_lossy(&c.name).into_owned(),
            of: ColumnType::from_parts(
                type_of(&c.class).unreversed().clone(),
                c.class.is_multi_cell(),
            ),
            is_counter: c.class.is_counter(),
        };
        let key = match type_of(&header.key) {
            Type::Composite(parts) => parts.to_vec(),
            single => vec![single],
        };
        NodeTypes {
            key,
            clustering: header.clustering.iter().map(type_of).collect(),
            statics: header.statics.iter().map(column).collect(),
            regulars: header.regulars.iter().map(column).collect(),
        }
    }

    fn column(&self, row: &NodeRow, number: usize) -> &NodeColumnType {
        if row.is_static { &self.statics[number] } else { &self.regulars[number] }
    }

    /// Splits a partition key into its parts. A key in another form is one part.
    fn key_parts(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let parts = || {
            let (mut parts, mut rest) = (vec![], key);
            for _ in &self.key {
                let (len, after) = rest.split_first_chunk::<2>()?;
                let (part, after) = after.split_at_checked(u16::from_be_bytes(*len).into())?;
                parts.push(part.to_vec());
                rest = after.strip_prefix(&[0])?;
            }
            rest.is_empty().then_some(parts)
        };
        match &*self.key {
            [_] => vec![key.to_vec()],
            _ => parts().unwrap_or_else(|| vec![key.to_vec()]),
        }
    }
}

/// Returns a value as JSON. A value that does not fit the type is printed as a blob.
fn value_json(of: &Type, bytes: &[u8]) -> String {
    match of.unreversed().validate(bytes) {
        Ok(()) => json(of, Some(bytes)),
        Err(_) => json(&Type::Bytes, Some(bytes)),
    }
}

fn value_text(of: &NodeColumnType, cell_type: &Type, value: &[u8]) -> String {
    match counter_of(of, value) {
        Some(sum) => sum.to_string(),
        None => literal(cell_type, Some(value)),
    }
}

fn counter_of(of: &NodeColumnType, value: &[u8]) -> Option<i64> {
    of.is_counter.then(|| counter_sum([value])).flatten()
}

/// Returns the path of a cell as text; `shown` formats a value of the path's type.
fn path_text(of: &ColumnType, path: &[u8], shown: fn(&Type, &[u8]) -> String) -> String {
    let path_type = match &of.value_type {
        Type::Udt(user) => {
            let number = <[u8; 2]>::try_from(path).map(u16::from_be_bytes).ok();
            if let Some((name, _)) = number.and_then(|n| user.fields.get(usize::from(n))) {
                return name.clone();
            }
            None
        }
        _ => of.path_type(),
    };
    shown(&path_type.unwrap_or(Type::Bytes), path)
}

/// Returns a value in the form that `sstabledump` uses for keys and paths: the text of its
/// Cassandra type, without CQL syntax.
fn name_text(of: &Type, value: &[u8]) -> String {
    match of.unreversed() {
        Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Vector(..) => escape::hex(value),
        of @ (Type::Timestamp | Type::Date) => server_text(of, value).replacen(' ', "T", 1),
        of => server_text(of, value),
    }
}

fn node_failure(e: NodeFault) -> Failure {
    Failure::Failed { what: e.to_string(), next: e.next().map(str::to_owned) }
}

/// Runs `cassandra`.
pub fn run(screen: &mut Screen<'_>, args: &CassandraDumpArgs) -> Done {
    if args.check {
        return check(screen, &args.files);
    }
    for file in &args.files {
        let folder = NodeFolder::of(file).map_err(node_failure)?;
        let table = NodeTable::open(&folder).map_err(node_failure)?;
        if args.header {
            header(screen, file, &table)?;
            continue;
        }
        let mut reader = table.read(&folder).map_err(node_failure)?;
        let types = NodeTypes::new(&table);
        let times = if args.raw_times { Times::Raw } else { Times::Dates };
        let now = env().wall_micros() as i64 / 1_000_000;
        let mut events = std::iter::from_fn(|| reader.advance().transpose());
        if screen.json {
            JsonPrinter::new(types, times, now, &mut *screen.out).print(&mut events)?;
        } else {
            let mut lines = NodeLines { types, times, key: String::new(), out: &mut *screen.out };
            events.try_for_each(|e| lines.event(&e.map_err(node_failure)?))?;
        }
    }
    Ok(())
}

fn header(screen: &mut Screen<'_>, file: &std::path::Path, table: &NodeTable) -> Done {
    let types = NodeTypes::new(table);
    let of_key = |of: &Type| ColumnType::frozen(of.unreversed().clone()).to_string();
    let columns = |all: &[NodeColumnType]| -> Vec<(String, String)> {
        all.iter().map(|c| (c.name.clone(), c.of.to_string())).collect()
    };
    let key: Vec<String> = types.key.iter().map(of_key).collect();
    let clustering: Vec<String> = types
        .clustering
        .iter()
        .map(|of| format!("{}{}", of_key(of), if of.is_reversed() { " descending" } else { "" }))
        .collect();
    let (statics, regulars) = (columns(&types.statics), columns(&types.regulars));
    let place = table_of_folder(file).map(|(keyspace, name)| format!("{keyspace}.{name}"));
    if screen.json {
        let all = json!({
            "file": file.display().to_string(), "version": table.version, "table": place,
            "partitioner": table.header.partitioner, "partition_key": key, "clustering": clustering,
            "static_columns": statics, "columns": regulars,
        });
        writeln!(screen.out, "{all}")?;
        return Ok(());
    }
    writeln!(screen.out, "{}", screen.style.heading(file.display()))?;
    let mut line = |name: &str, value: &str| writeln!(screen.out, "  {name:<14} {value}");
    line("version", &table.version)?;
    line("table", place.as_deref().unwrap_or("its folder does not say"))?;
    line("partitioner", &table.header.partitioner)?;
    line("partition key", &key.join(", "))?;
    line("clustering", &clustering.join(", "))?;
    for (what, all) in [("static column", &statics), ("column", &regulars)] {
        for (name, of) in all {
            line(what, &format!("{} {of}", escape::words(name.as_bytes())))?;
        }
    }
    Ok(())
}

fn check(screen: &mut Screen<'_>, files: &[PathBuf]) -> Done {
    let mut damaged = false;
    for file in files {
        let (mut partitions, mut rows) = (0, 0);
        let mut read = || {
            let folder = NodeFolder::of(file)?;
            let mut reader = NodeTable::open(&folder)?.read(&folder)?;
            while let Some(event) = reader.advance()? {
                match event {
                    NodeEvent::Partition(_) => partitions += 1,
                    NodeEvent::Row(_) => rows += 1,
                    NodeEvent::Marker(_) => {}
                }
            }
            Ok(())
        };
        let read: Result<(), NodeFault> = read();
        let name = file.display();
        match (&read, screen.json) {
            (_, true) => {
                let fault = read.as_ref().err();
                let all = json!({
                    "file": name.to_string(), "sound": read.is_ok(), "partitions": partitions, "rows": rows,
                    "error": fault.map(NodeFault::to_string), "error_file": fault.map(|e| e.file().display().to_string()),
                    "error_offset": fault.and_then(NodeFault::offset),
                });
                writeln!(screen.out, "{all}")?;
            }
            (Ok(()), false) => writeln!(
                screen.out,
                "{name}: sound, {} and {}",
                things(partitions, "partition", "partitions"),
                things(rows, "row", "rows")
            )?,
            (Err(e), false) => writeln!(screen.out, "{e}")?,
        }
        damaged |= read.is_err();
    }
    if damaged { Err(Failure::Found) } else { Ok(()) }
}

type NodeEvents<'e> = dyn Iterator<Item = Result<NodeEvent, NodeFault>> + 'e;

/// Prints a line for each partition deletion, row, cell and range deletion of a table.
struct NodeLines<'a> {
    types: NodeTypes,
    times: Times,
    key: String,
    out: &'a mut dyn Write,
}

impl NodeLines<'_> {
    fn event(&mut self, event: &NodeEvent) -> Done {
        match event {
            NodeEvent::Partition(p) => {
                let parts = self.types.key_parts(&p.key);
                let shown = self.types.key.iter().zip(&parts);
                let shown: Vec<String> = shown.map(|(of, v)| literal(of, Some(v))).collect();
                self.key = shown.join(", ");
                match p.deletion {
                    Some(d) => self.deletion("-", "-", "partition", d),
                    None => Ok(()),
                }
            }
            NodeEvent::Row(row) => self.row(row),
            NodeEvent::Marker(m) => {
                let open = m.open.as_ref().map(|o| ("from", o));
                for (side, (bound, d)) in
                    m.close.as_ref().map(|c| ("to", c)).into_iter().chain(open)
                {
                    let kind = if bound.inclusive { "with" } else { "without" };
                    let values = self.clustering(&bound.clustering);
                    self.deletion(&format!("{side} and {kind} {values}"), "-", "range", *d)?;
                }
                Ok(())
            }
        }
    }

    fn clustering(&self, values: &[Option<Vec<u8>>]) -> String {
        let shown = self.types.clustering.iter().zip(values);
        let shown: Vec<String> = shown.map(|(of, v)| literal(of, v.as_deref())).collect();
        format!("({})", shown.join(", "))
    }

    fn line(&mut self, row: &str, column: &str, at: i64, what: &str, value: &str) -> Done {
        let at = self.times.micros(at);
        let line = [&self.key, row, column, at.trim_matches('"'), what, value];
        let line: Vec<String> = line.iter().map(|part| escape::words(part.as_bytes())).collect();
        Ok(writeln!(self.out, "{}", line.join("\t"))?)
    }

    fn second(&self, second: i64) -> String {
        self.times.second(second).trim_matches('"').to_owned()
    }

    fn deletion(&mut self, row: &str, column: &str, of: &str, d: NodeDeletion) -> Done {
        let what = format!("{of} deleted {}", self.second(d.local));
        self.line(row, column, d.timestamp, &what, "")
    }

    fn expiry_text(&self, e: NodeExpiry) -> String {
        format!(", {} s to {}", e.ttl, self.second(e.expires))
    }

    fn row(&mut self, row: &NodeRow) -> Done {
        let place =
            if row.is_static { "static".to_owned() } else { self.clustering(&row.clustering) };
        if let Some(l) = row.liveness {
            let what = format!("row{}", l.expiry.map_or(String::new(), |e| self.expiry_text(e)));
            self.line(&place, "-", l.timestamp, &what, "")?;
        }
        if let Some(d) = row.deletion {
            self.deletion(&place, "-", "row", d)?;
        }
        for column in &row.columns {
            let of = self.types.column(row, column.column);
            let name = of.name.clone();
            let mut lines = vec![];
            for cell in &column.cells {
                let path = cell.path.as_ref().map(|p| format!("[{}]", path_text(&of.of, p, plain)));
                let name = format!("{name}{}", path.unwrap_or_default());
                let shown = |v: &[u8]| value_text(of, &of.of.cell_type(cell.path.as_deref()), v);
                let (what, value) = match &cell.state {
                    NodeCellState::Live(v) => ("value".to_owned(), shown(v)),
                    NodeCellState::Expiring(v, e) => {
                        (format!("value{}", self.expiry_text(*e)), shown(v))
                    }
                    NodeCellState::Deleted(at) => {
                        (format!("deleted {}", self.second(*at)), String::new())
                    }
                };
                lines.push((name, cell.timestamp, what, value));
            }
            if let Some(d) = column.deletion {
                self.deletion(&place, &name, "all", d)?;
            }
            for (name, at, what, value) in lines {
                self.line(&place, &name, at, &what, &value)?;
            }
        }
        Ok(())
    }
}

/// Prints a table in the format of `sstabledump`.
struct JsonPrinter<W: Write> {
    types: NodeTypes,
    times: Times,
    now: i64,
    emit: Emit<W>,
}

impl<W: Write> JsonPrinter<W> {
    fn new(types: NodeTypes, times: Times, now: i64, out: W) -> JsonPrinter<W> {
        JsonPrinter { types, times, now, emit: Emit::new(out) }
    }

    fn print(mut self, events: &mut NodeEvents<'_>) -> Done {
        self.emit.open(b'[');
        let mut in_partition = false;
        for event in events {
            match event.map_err(node_failure)? {
                NodeEvent::Partition(p) => {
                    if std::mem::replace(&mut in_partition, true) {
                        self.emit.close(b']');
                        self.emit.close(b'}');
                    }
                    self.emit.member()?;
                    self.emit.open(b'{');
                    self.emit.named("partition")?;
                    let parts = self.types.key_parts(&p.key);
                    let texts = self.types.key.iter().zip(&parts).map(|(of, v)| name_text(of, v));
                    let texts: Vec<String> = texts.collect();
                    let deleted = p.deletion.map(|d| self.deletion(d)).unwrap_or_default();
                    let key = json!(texts);
                    let position = p.position;
                    self.emit
                        .raw(&format!("{{\"key\": {key}, \"position\": {position}{deleted}}}"));
                    self.emit.named("rows")?;
                    self.emit.open(b'[');
                }
                NodeEvent::Row(row) => self.row(&row)?,
                NodeEvent::Marker(m) => self.marker(&m)?,
            }
        }
        if in_partition {
            self.emit.close(b']');
            self.emit.close(b'}');
        }
        self.emit.close(b']');
        Ok(self.emit.finish()?)
    }

    fn deletion(&self, d: NodeDeletion) -> String {
        let (at, local) = (self.times.micros(d.timestamp), self.times.second(d.local));
        format!(", \"deletion_info\": {{\"marked_deleted\": {at}, \"local_delete_time\": {local}}}")
    }

    fn expiry(&self, e: NodeExpiry) -> String {
        let (at, gone) = (self.times.second(e.expires), e.expires <= self.now);
        format!(", \"ttl\": {}, \"expires_at\": {at}, \"expired\": {gone}", e.ttl)
    }

    fn clustering(&self, values: &[Option<Vec<u8>>]) -> String {
        let part = |(i, of): (usize, &Type)| match values.get(i) {
            Some(Some(v)) => value_json(of, v),
            Some(None) => "null".to_owned(),
            None => "\"*\"".to_owned(),
        };
        let parts: Vec<String> = self.types.clustering.iter().enumerate().map(part).collect();
        format!("\"clustering\": [{}]", parts.join(", "))
    }

    fn row(&mut self, row: &NodeRow) -> Done {
        self.emit.member()?;
        let kind = if row.is_static { "static_block" } else { "row" };
        let mut head = format!("{{\"type\": \"{kind}\", \"position\": {}", row.position);
        if !row.is_static && !row.clustering.is_empty() {
            head += &format!(", {}", self.clustering(&row.clustering));
        }
        if let Some(l) = row.liveness {
            let expiry = l.expiry.map(|e| self.expiry(e)).unwrap_or_default();
            let at = self.times.micros(l.timestamp);
            head += &format!(", \"liveness_info\": {{\"tstamp\": {at}{expiry}}}");
        }
        head += &row.deletion.map(|d| self.deletion(d)).unwrap_or_default();
        self.emit.raw(&head);
        self.emit.raw(", \"cells\": ");
        self.emit.open(b'[');
        for column in &row.columns {
            let of = self.types.column(row, column.column);
            let name = json!(quote_if_needed(&of.name));
            if let Some(d) = column.deletion {
                self.emit.member()?;
                self.emit.raw(&format!("{{\"name\": {name}{}}}", self.deletion(d)));
            }
            for cell in &column.cells {
                self.emit.member()?;
                let fields = self.cell(row, of, cell);
                self.emit.raw(&format!("{{\"name\": {name}{fields}}}"));
            }
        }
        self.emit.close(b']');
        self.emit.raw("}");
        Ok(())
    }

    /// Returns the fields of a cell after its name. Times are included only if they differ from the
    /// row's.
    fn cell(&self, row: &NodeRow, of: &NodeColumnType, cell: &NodeCell) -> String {
        let path = cell
            .path
            .as_ref()
            .map(|p| format!(", \"path\": [{}]", json!(path_text(&of.of, p, name_text))));
        let mut out = path.unwrap_or_default();
        let shown = |v: &[u8]| match counter_of(of, v) {
            Some(sum) => sum.to_string(),
            None => value_json(&of.of.cell_type(cell.path.as_deref()), v),
        };
        let expiry = match &cell.state {
            NodeCellState::Deleted(at) => {
                let at = self.times.second(*at);
                out += &format!(", \"deletion_info\": {{\"local_delete_time\": {at}}}");
                None
            }
            NodeCellState::Live(v) => {
                out += &format!(", \"value\": {}", shown(v));
                None
            }
            NodeCellState::Expiring(v, e) => {
                out += &format!(", \"value\": {}", shown(v));
                Some(*e)
            }
        };
        if row.liveness.is_none_or(|l| l.timestamp != cell.timestamp) {
            out += &format!(", \"tstamp\": {}", self.times.micros(cell.timestamp));
        }
        let of_row = row.liveness.and_then(|l| l.expiry).map(|e| e.ttl);
        out +=
            &expiry.filter(|e| of_row != Some(e.ttl)).map(|e| self.expiry(e)).unwrap_or_default();
        out
    }

    fn marker(&mut self, m: &NodeMarker) -> Done {
        self.emit.member()?;
        let both = m.open.is_some() && m.close.is_some();
        let kind = if both { "range_tombstone_boundary" } else { "range_tombstone_bound" };
        let mut out = format!("{{\"type\": \"{kind}\"");
        let side = |bound: &NodeBound, d: NodeDeletion| {
            let kind = if bound.inclusive { "inclusive" } else { "exclusive" };
            let clustering = match bound.clustering.is_empty() {
                true => String::new(),
                false => format!(", {}", self.clustering(&bound.clustering)),
            };
            format!("{{\"type\": \"{kind}\"{clustering}{}}}", self.deletion(d))
        };
        for (name, bound) in [("start", &m.open), ("end", &m.close)] {
            if let Some((bound, d)) = bound {
                out += &format!(", \"{name}\": {}", side(bound, *d));
            }
        }
        out.push('}');
        self.emit.raw(&out);
        Ok(())
    }
}
