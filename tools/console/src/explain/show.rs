//! Formats an explanation as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use firn_kv::explain::{
    BlockRead, Entries, EntryLocation, Origin, ReadCost, ReadTarget, Skipped, SourceCost,
};
use firn_tools::json::put_field;
use firn_tools::output::{Style, bytes, count, nanos, things};
use serde_json::{Map, Value, json};

use super::advice;
use super::report::{ExplainedRead, ReadExplanation, part, subject};

/// Above this number of reads, only the most expensive ones are shown.
const FEW: usize = 4;

fn place(p: EntryLocation) -> String {
    match p {
        EntryLocation::Active => "memtable".into(),
        EntryLocation::Sealed => "memtable waiting for its flush".into(),
        EntryLocation::Run { level, number, tables } => {
            format!("run {number} on level {level}, {}", things(tables as u64, "table", "tables"))
        }
        _ => "another source".into(),
    }
}

fn why(s: Skipped) -> &'static str {
    match s {
        Skipped::Empty => "is empty",
        Skipped::Bounds => "has no such keys between its bounds",
        Skipped::Filter => "has no such key, says its filter",
        Skipped::Prefix => "has no such prefix, says its filter",
        Skipped::Decided => "was not reached: something newer decided",
        Skipped::Facts => "cannot count, say the facts of its table",
        _ => "was not needed",
    }
}

fn entries(e: &Entries) -> Vec<String> {
    let all = [
        (e.puts, "put", "puts"),
        (e.tombstones(), "tombstone", "tombstones"),
        (e.operands, "operand", "operands"),
        (e.covered_entries(), "under range deletions", "under range deletions"),
        (e.unseen, "newer than the read", "newer than the read"),
    ];
    all.into_iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| things(n, one, many)).collect()
}

/// Lists the number of blocks by source. `of` names the file, if all are from one file.
fn read_from(blocks: &[BlockRead], of: &str, (one, many): (&str, &str)) -> Vec<String> {
    let origins = [
        (Origin::Cache, "the cache"),
        (Origin::File, "the file"),
        (Origin::Map, "the map of the file"),
    ];
    let told = |(origin, name): (Origin, &str)| {
        let from = || blocks.iter().filter(move |b| b.origin == origin);
        let (n, stored) = (from().count() as u64, bytes(from().map(|b| b.stored).sum()));
        let unpacked = from().filter(|b| b.decompressed).count() as u64;
        let unpacked = if unpacked > 0 {
            format!(", {} decompressed", count(unpacked))
        } else {
            String::new()
        };
        (n > 0).then(|| format!("{}{of} from {name} ({stored}{unpacked})", things(n, one, many)))
    };
    origins.into_iter().filter_map(told).collect()
}

/// Lists the operations in a source, in their order.
fn parts(c: &SourceCost) -> Vec<String> {
    let mut all = vec![];
    if !c.opened.is_empty() {
        all.push(format!(
            "{} opened (index and filter read)",
            things(c.opened.len() as u64, "table", "tables")
        ));
    }
    if !c.filters.is_empty() {
        let maybe = c.filters.iter().filter(|f| f.maybe).count();
        let wrong = c.filters.iter().filter(|f| f.right == Some(false)).count() as u64;
        let wrongly =
            if wrong > 0 { format!(", {} of them wrongly", count(wrong)) } else { String::new() };
        let no = count((c.filters.len() - maybe) as u64);
        all.push(format!(
            "{} asked: {no} no, {} maybe{wrongly}",
            things(c.filters.len() as u64, "filter", "filters"),
            count(maybe as u64)
        ));
    }
    all.extend(read_from(&c.blocks, "", ("block", "blocks")));
    let mut files: Vec<u64> = c.values.iter().map(|b| b.table).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let own: Vec<BlockRead> = c.values.iter().filter(|b| b.table == file).copied().collect();
        all.extend(read_from(&own, &format!(" of {file:08}.sst"), ("value", "values")));
    }
    if c.range_deletions > 0 {
        all.push(things(c.range_deletions, "range deletion", "range deletions"));
    }
    all.extend(entries(&c.entries));
    all
}

fn read(
    style: Style,
    out: &mut impl Write,
    r: &ExplainedRead,
    told: &ReadExplanation,
) -> io::Result<()> {
    let cost = &r.cost;
    let found = match &cost.target {
        ReadTarget::Key(_) if cost.found == 0 => "not found".into(),
        ReadTarget::Key(_) => "found".into(),
        ReadTarget::Range { .. } => format!("{} found", things(cost.found, "key", "keys")),
    };
    writeln!(
        out,
        "{}: {found} in {}",
        style.heading(subject(cost, &told.names)),
        nanos(cost.nanos)
    )?;
    let last = cost.sources.len().saturating_sub(1);
    for (i, s) in cost.sources.iter().enumerate() {
        let (branch, under) = if i == last { ("└─", "  ") } else { ("├─", "│ ") };
        match s.skipped {
            Some(reason) => writeln!(out, "{branch} {} {}", place(s.location), why(reason))?,
            None => writeln!(out, "{branch} {} searched in {}", place(s.location), nanos(s.nanos))?,
        }
        let parts = parts(s);
        if !parts.is_empty() {
            writeln!(out, "{under}    {}", parts.join(", "))?;
        }
        // With several files, shows the share of each.
        for (id, e) in s.tables.iter().filter(|_| s.tables.len() > 1) {
            writeln!(out, "{under}    {id:08}.sst: {}", entries(e).join(", "))?;
        }
    }
    if let Some(cells) = r.cells {
        let parts = [
            (
                cells.ranges,
                "deleted range, which a seek skips",
                "deleted ranges, which a seek skips",
            ),
            (cells.deletions, "deletion of a row or more", "deletions of a row or more"),
            (cells.tombstones, "deleted cell", "deleted cells"),
            (cells.expired, "expired cell", "expired cells"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, one, many)| things(*n, one, many))
            .collect();
        if !parts.is_empty() {
            let live = things(cells.live, "live cell", "live cells");
            writeln!(out, "   in this range: {live}, {}", parts.join(", "))?;
        }
    }
    Ok(())
}

/// Prints an explanation as text.
///
/// # Errors
/// Errors of the output.
pub fn print(style: Style, out: &mut impl Write, told: &ReadExplanation) -> io::Result<()> {
    let number = told.reads.len() as u64 + told.more;
    if let Some(rows) = told.rows {
        writeln!(
            out,
            "{}, {}",
            things(rows as u64, "row", "rows"),
            things(number, "read of the engine", "reads of the engine")
        )?;
    }
    let mut costliest: Vec<&ExplainedRead> = told.reads.iter().collect();
    if costliest.len() > FEW {
        costliest.sort_by_key(|r| std::cmp::Reverse(r.cost.nanos));
        costliest.truncate(FEW);
        writeln!(out, "The {FEW} that took longest:")?;
    }
    for r in costliest {
        read(style, out, r, told)?;
    }
    if number > 1 {
        writeln!(out, "{}", style.heading("All together:"))?;
        for (tree, (n, sum)) in sums(told) {
            let tree = told.names.of_tree(tree).unwrap_or(tree);
            writeln!(
                out,
                "   {tree}: {} in {}, {}",
                things(n, "read", "reads"),
                nanos(sum.nanos),
                parts(&sum).join(", ")
            )?;
        }
        if told.more > 0 {
            writeln!(out, "   and {} that were not recorded", things(told.more, "read", "reads"))?;
        }
    }
    let lines = advice::lines(told);
    for line in &lines {
        writeln!(out, "{} {line}", style.heading("stands out:"))?;
    }
    if lines.is_empty() && !told.reads.is_empty() {
        writeln!(out, "Nothing stands out: this is what such a read costs.")?;
    }
    Ok(())
}

/// Returns the sum of all reads of each tree.
fn sums(told: &ReadExplanation) -> BTreeMap<&str, (u64, SourceCost)> {
    let mut sums: BTreeMap<&str, (u64, SourceCost)> = BTreeMap::new();
    for r in &told.reads {
        let (n, sum) = sums.entry(&r.cost.tree).or_default();
        *n += 1;
        sum.add(&r.cost.total());
    }
    sums
}

fn source_json(c: &SourceCost) -> Map<String, Value> {
    let block = |b: &BlockRead| {
        let from = format!("{:?}", b.origin).to_lowercase();
        json!({"table": b.table, "offset": b.offset, "bytes": b.stored, "decompressed": b.decompressed, "from": from})
    };
    let value = |b: &BlockRead| {
        let mut o = block(b);
        o["file"] = format!("{:08}.sst", b.table).into();
        o
    };
    let tables = c.tables.iter().map(|(id, e)| -> Value {
        let mut o = entries_json(e);
        o.insert("table".into(), (*id).into());
        o.into()
    });
    let mut o = entries_json(&c.entries);
    o.insert("opened".into(), json!(c.opened));
    let filters =
        c.filters.iter().map(|f| json!({"table": f.table, "maybe": f.maybe, "right": f.right}));
    o.insert("filters".into(), filters.collect());
    o.insert("blocks".into(), c.blocks.iter().map(block).collect());
    o.insert("values".into(), c.values.iter().map(value).collect());
    o.insert("tables".into(), tables.collect());
    o.insert("seeks".into(), c.seeks.into());
    o.insert("range_deletions".into(), c.range_deletions.into());
    o.insert("covered_by".into(), c.covered_by.into());
    o.insert("nanos".into(), c.nanos.into());
    o
}

fn entries_json(e: &Entries) -> Map<String, Value> {
    let all = [
        ("puts", e.puts),
        ("tombstones", e.tombstones()),
        ("operands", e.operands),
        ("beneath_range_deletions", e.covered_entries()),
        ("unseen", e.unseen),
    ];
    all.into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect()
}

fn place_json(s: &SourceCost) -> Value {
    let mut o = source_json(s);
    let (kind, run) = match s.location {
        EntryLocation::Active => ("memtable", None),
        EntryLocation::Sealed => ("sealed memtable", None),
        EntryLocation::Run { level, number, tables } => ("run", Some((level, number, tables))),
        _ => ("other", None),
    };
    o.insert("kind".into(), kind.into());
    if let Some((level, number, tables)) = run {
        o.insert("level".into(), level.into());
        o.insert("number".into(), number.into());
        o.insert("tables_in_run".into(), tables.into());
    }
    o.insert("skipped".into(), s.skipped.map(|s| format!("{s:?}").to_lowercase()).into());
    o.into()
}

fn read_json(r: &ExplainedRead, told: &ReadExplanation) -> Value {
    let ReadCost { tree, target, found, sources, nanos, .. } = &r.cost;
    let mut o = Map::new();
    o.insert("tree".into(), tree.as_str().into());
    o.insert("of".into(), told.names.of_tree(tree).into());
    let first = match target {
        ReadTarget::Key(key) => {
            put_field(&mut o, "key", key, false);
            key
        }
        ReadTarget::Range { from, until } => {
            put_field(&mut o, "from", from, false);
            if let Some(until) = until {
                put_field(&mut o, "until", until, false);
            }
            from
        }
    };
    o.insert("partition".into(), told.names.partition(tree, first).into());
    o.insert("part".into(), part(&r.cost, &told.names).into());
    o.insert("found".into(), (*found).into());
    o.insert("nanos".into(), (*nanos).into());
    o.insert("searched".into(), r.cost.searched().into());
    o.insert("cells".into(), r.cells.map(|c| c.all()).into());
    o.insert("dead_cells".into(), r.cells.map(|c| c.dead()).into());
    o.insert("deleted_ranges".into(), r.cells.map(|c| c.ranges).into());
    o.insert("sources".into(), sources.iter().map(place_json).collect());
    o.insert("total".into(), source_json(&r.cost.total()).into());
    o.into()
}

/// Returns an explanation as JSON.
pub fn json(told: &ReadExplanation) -> Value {
    json!({
        "rows": told.rows,
        "reads": told.reads.iter().map(|r| read_json(r, told)).collect::<Vec<_>>(),
        "not_recorded": told.more,
        "stands_out": advice::lines(told),
    })
}
