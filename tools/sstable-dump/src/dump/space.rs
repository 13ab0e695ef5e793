//! `sstable-dump space`: prints where the bytes of a table or a store are, by prefix or by range of
//! keys.
//!
//! The bytes of a block in the file are divided among its entries by their size before compression.
//! Index, filters and overhead are counted separately. A value in a blob file counts as bytes of
//! its key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Kind as EntryKind;
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::Table;
use firn_tools::escape;
use firn_tools::output::{Done, Failure, Progress, bytes, count, listing, print_table, things};
use serde_json::json;

use crate::Screen;
use crate::dump::text;
use crate::schema::definitions::TreeDefinition;
use crate::schema::records::definitions;
use crate::store::names::FileNames;
use crate::store::retry::retry_while_changing;
use crate::store::target::{TargetKind, dir_of, env, kind, open_file, open_table, state_of};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
By default keys of a column family or CQL table are grouped by row or partition, and those of an index by the indexed value. Other keys
are grouped by their first bytes, up to and including the first of / : | or a dot, comma, dash or underscore, at most 16 bytes. The
largest groups are printed, for a store tree by tree. More than 100,000 groups are joined to ranges of neighbours.

Examples:
  sstable-dump space firn-data
  sstable-dump space firn-data --depth 4              by the first four bytes
  sstable-dump space firn-data --delimiter / --levels 2
  sstable-dump space firn-data --ranges 10            ten ranges of about equal size
  sstable-dump space 00000012.sst --top 50 --json";

/// Maximum number of groups in memory; beyond it the smallest are joined.
const MAX_GROUPS: usize = 100_000;

/// Arguments of `space`.
#[derive(Args, Clone, Debug)]
pub struct SpaceArgs {
    /// A store or a table
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Group keys by this many leading bytes
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["delimiter", "ranges"])]
    pub depth: Option<usize>,
    /// Group keys by the part up to and including this byte
    #[arg(long, value_name = "CHARACTER", conflicts_with = "ranges")]
    pub delimiter: Option<char>,
    /// Number of delimiters in a group
    #[arg(long, value_name = "LEVELS", default_value_t = 1, requires = "delimiter")]
    pub levels: usize,
    /// Print this many ranges of about equal size instead
    #[arg(long, value_name = "RANGES", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub ranges: Option<u16>,
    /// Print at most this many groups
    #[arg(long, value_name = "GROUPS", default_value_t = 20)]
    pub top: usize,
}

/// Size of a group.
#[derive(Clone, Debug, Default)]
struct SpaceGroup {
    last: Vec<u8>,
    /// Whether it is a range of joined neighbours, up to [`last`](SpaceGroup::last).
    range: bool,
    entries: u64,
    deletes: u64,
    raw: u64,
    /// In fractions of a byte, so that shares add up.
    stored: f64,
}

impl SpaceGroup {
    fn add(&mut self, other: SpaceGroup) {
        self.entries += other.entries;
        self.deletes += other.deletes;
        self.raw += other.raw;
        self.stored += other.stored;
        self.last = std::mem::take(&mut self.last).max(other.last);
        self.range |= other.range;
    }
}

/// An entry of the current block.
struct SpaceEntry {
    group: Vec<u8>,
    key: Vec<u8>,
    /// Number of bytes in the table.
    size: u64,
    delete: bool,
    blob: Option<BlobHandle>,
}

/// The groups of one tree.
#[derive(Default)]
struct Groups {
    /// Definition of the tree as a table or column family.
    defined: Option<TreeDefinition>,
    by_key: BTreeMap<Vec<u8>, SpaceGroup>,
    total: SpaceGroup,
    others: u64,
    file_bytes: u64,
    tables: u64,
    /// Number of blob files.
    values: u64,
}

impl SpaceArgs {
    fn group<'a>(&self, key: &'a [u8], of: Option<&TreeDefinition>) -> &'a [u8] {
        if self.ranges.is_some() {
            return key;
        }
        if let Some(partition) = of
            .filter(|_| self.depth.is_none() && self.delimiter.is_none())
            .and_then(|d| d.partition(key))
        {
            return partition;
        }
        if let Some(depth) = self.depth {
            return &key[..depth.min(key.len())];
        }
        let (byte, levels, most): (Box<dyn Fn(u8) -> bool>, usize, usize) = match self.delimiter {
            Some(c) => (Box::new(move |b| u32::from(b) == c as u32), self.levels, usize::MAX),
            None => (Box::new(|b| b"/:|.,-_".contains(&b)), 1, 16),
        };
        let cut = key
            .iter()
            .enumerate()
            .filter(|(_, b)| byte(**b))
            .nth(levels.saturating_sub(1))
            .map(|(i, _)| i + 1);
        &key[..cut.unwrap_or(key.len()).min(most).min(key.len())]
    }
}

impl Groups {
    fn put(&mut self, key: &[u8], g: SpaceGroup) {
        self.total.add(SpaceGroup { last: vec![], ..g.clone() });
        match self.by_key.get_mut(key) {
            Some(there) => there.add(g),
            None => {
                self.by_key.insert(key.to_vec(), g);
            }
        }
    }

    /// Joins neighbours until there are at most `most` groups of about equal size.
    fn shrink(&mut self, most: usize) {
        let each = self.total.stored / most.max(1) as f64;
        let mut out: BTreeMap<Vec<u8>, SpaceGroup> = BTreeMap::new();
        let mut current: Option<(Vec<u8>, SpaceGroup)> = None;
        for (key, g) in std::mem::take(&mut self.by_key) {
            match &mut current {
                Some((_, c)) if c.stored + g.stored / 2.0 <= each => {
                    c.add(g);
                    c.range = true;
                }
                _ => {
                    out.extend(current.take());
                    current = Some((key, g));
                }
            }
        }
        out.extend(current);
        self.by_key = out;
    }

    fn add_table(&mut self, t: &Arc<Table>, args: &SpaceArgs) -> Done {
        let mut c = t.cursor(false);
        c.first()?;
        let mut block: Vec<SpaceEntry> = vec![];
        let (mut data, mut blob_bytes) = (0, 0);
        for info in t.blocks() {
            block.clear();
            let mut raw = 0;
            for _ in 0..info.entries {
                if !c.valid() {
                    break;
                }
                let size = (c.key().len() + c.value().len()) as u64;
                raw += size;
                let blob = BlobHandle::decode(c.value())
                    .filter(|_| c.trailer().kind() == Some(EntryKind::Blob));
                blob_bytes += blob.map_or(0, |r| u64::from(r.stored));
                block.push(SpaceEntry {
                    group: args.group(c.key(), self.defined.as_ref()).to_vec(),
                    key: c.key().to_vec(),
                    size,
                    delete: c.trailer().kind() == Some(EntryKind::Delete),
                    blob,
                });
                c.next()?;
            }
            data += info.len as u64;
            let n = block.len().max(1) as f64;
            for SpaceEntry { group, key, size, delete, blob } in block.drain(..) {
                let share = if raw == 0 { 1.0 / n } else { size as f64 / raw as f64 };
                let (value, value_stored) =
                    blob.map_or((0, 0), |r| (u64::from(r.len), u64::from(r.stored)));
                let stored = share * info.len as f64 + value_stored as f64;
                let g = SpaceGroup {
                    last: key,
                    range: false,
                    entries: 1,
                    deletes: delete.into(),
                    raw: size + value,
                    stored,
                };
                self.put(&group, g);
            }
            if self.by_key.len() > MAX_GROUPS {
                self.shrink(
                    args.ranges.map_or(MAX_GROUPS / 4, |r| (r as usize * 64).min(MAX_GROUPS / 2)),
                );
            }
        }
        self.tables += 1;
        self.file_bytes += t.size() + blob_bytes;
        self.others += t.size() - data;
        Ok(())
    }
}

fn store_once(args: &SpaceArgs) -> Done<Vec<(String, Groups)>> {
    let state = state_of(&args.path)?;
    let definitions = definitions(&FileNames::of(&args.path)?, &state);
    let total = state.trees.values().flat_map(|t| t.tables()).map(|t| t.size).sum();
    let progress = Progress::bytes("space", Some(total));
    let (mut out, mut done) = (vec![], 0);
    for tree in state.trees.values() {
        let mut groups =
            Groups { defined: definitions.of_tree(&tree.name).cloned(), ..Groups::default() };
        for m in tree.tables() {
            let path = table_path(&args.path, m.id);
            groups.add_table(
                &open_file(env().open_read(&path, false)?, &path, m.id, m.ingested_seq)?,
                args,
            )?;
            done += m.size;
            progress.at(done);
        }
        let uses = tree.uses();
        for v in tree.values.values() {
            let rest = v.size.saturating_sub(uses.get(&v.id).map_or(0, |u| u.bytes));
            (groups.file_bytes, groups.others) = (groups.file_bytes + rest, groups.others + rest);
            groups.values += 1;
        }
        out.push((tree.name.clone(), groups));
    }
    Ok(out)
}

/// Returns the definition of a table's tree, from the store that contains the table; `None` without
/// one.
fn defined_around(table: &Path, tree: TreeId) -> Option<TreeDefinition> {
    let dir = dir_of(table);
    let state = state_of(&dir).ok()?;
    definitions(&FileNames::of(&dir).ok()?, &state).of_tree(&state.trees.get(&tree)?.name).cloned()
}

/// Returns the keys of a group in the types of its tree, if it has types.
fn keys_of(key: &[u8], g: &SpaceGroup, ranges: bool, defined: Option<&TreeDefinition>) -> String {
    let typed = |key: &[u8]| defined.and_then(|d| d.key(key)).unwrap_or_else(|| text::key(key));
    match typed(key) {
        first if !(ranges || g.range) => first,
        first => {
            let last = typed(&g.last);
            if first == last { first } else { format!("{first} to {last}") }
        }
    }
}

/// Runs `space`.
pub fn run(screen: &mut Screen<'_>, args: &SpaceArgs) -> Done {
    let all = match kind(&args.path)? {
        TargetKind::Store => retry_while_changing(|| store_once(args))?,
        TargetKind::Table(_) => {
            let table = open_table(&args.path)?;
            let defined = defined_around(&args.path, table.properties().tree);
            let mut groups = Groups { defined, ..Groups::default() };
            groups.add_table(&table, args)?;
            vec![(text::file_name(&args.path), groups)]
        }
        _ => {
            return Err(Failure::with_next(
                "this is neither a store nor a table",
                "`layout` shows where a file's bytes are",
            ));
        }
    };
    for (name, mut groups) in all {
        if let Some(n) = args.ranges {
            groups.shrink(n as usize);
        }
        let number = groups.by_key.len();
        let mut list: Vec<(Vec<u8>, SpaceGroup)> =
            std::mem::take(&mut groups.by_key).into_iter().collect();
        if args.ranges.is_none() {
            list.sort_by(|a, b| b.1.stored.total_cmp(&a.1.stored).then_with(|| a.0.cmp(&b.0)));
            list.truncate(args.top);
        }
        if screen.json {
            print_json(screen, &name, &groups, &list)?;
        } else {
            print_text(screen, args, &name, &groups, (&list, number))?;
        }
    }
    Ok(())
}

fn print_json(
    screen: &mut Screen<'_>,
    name: &str,
    groups: &Groups,
    list: &[(Vec<u8>, SpaceGroup)],
) -> Done {
    let group = |(k, g): &(Vec<u8>, SpaceGroup)| {
        json!({
            "typed": groups.defined.as_ref().and_then(|d| d.key(k)), "group": escape::words(k), "last_key": escape::words(&g.last), "entries": g.entries, "deletes": g.deletes,
            "raw_bytes": g.raw, "bytes": g.stored.round() as u64,
        })
    };
    let v = json!({
        "name": name, "tables": groups.tables, "blob_files": groups.values, "file_bytes": groups.file_bytes, "other_bytes": groups.others,
        "entries": groups.total.entries, "groups": list.iter().map(group).collect::<Vec<_>>(),
    });
    Ok(writeln!(screen.out, "{v}")?)
}

/// Prints the largest groups of a tree, `list`, of `number`.
fn print_text(
    screen: &mut Screen<'_>,
    args: &SpaceArgs,
    name: &str,
    groups: &Groups,
    (list, number): (&[(Vec<u8>, SpaceGroup)], usize),
) -> Done {
    let of = groups.defined.as_ref().map_or(String::new(), |d| format!(" ({})", d.words()));
    let heading = format!(
        "{name}{of}: {} in {}{}, {}; {} of it {}",
        bytes(groups.file_bytes),
        things(groups.tables, "table", "tables"),
        match groups.values {
            0 => String::new(),
            n => format!(" and {}", things(n, "blob file", "blob files")),
        },
        things(groups.total.entries, "entry", "entries"),
        bytes(groups.others),
        match groups.values {
            0 => "index, filters, properties",
            _ => "index, filters, properties, and values that nobody refers to",
        }
    );
    writeln!(screen.out, "{}", screen.style.heading(heading))?;
    if list.is_empty() {
        return Ok(());
    }
    let by_bytes = args.depth.is_some() || args.delimiter.is_some();
    let what = match &groups.defined {
        _ if args.ranges.is_some() => "keys",
        Some(_) if !by_bytes => "of",
        _ => "keys that begin with",
    };
    let mut t =
        listing(&["  bytes", "share", "uncompressed", "entries", "deletes", what], "rrrrrl");
    for (key, g) in list {
        let defined = groups.defined.as_ref().filter(|_| !by_bytes);
        let keys = keys_of(key, g, args.ranges.is_some(), defined);
        t.add_row([
            format!("  {}", bytes(g.stored.round() as u64)),
            text::share(g.stored.round() as u64, groups.total.stored.round() as u64),
            bytes(g.raw),
            count(g.entries),
            count(g.deletes),
            keys,
        ]);
    }
    write!(screen.out, "{}", print_table(&t, screen.style))?;
    if number > list.len() {
        let shown: f64 = list.iter().map(|(_, g)| g.stored).sum();
        let rest = (groups.total.stored - shown).max(0.0).round() as u64;
        let share = text::share(rest, groups.total.stored.round() as u64);
        writeln!(
            screen.out,
            "  and {} groups more: {}, {share}",
            count((number - list.len()) as u64),
            bytes(rest)
        )?;
    }
    Ok(())
}
