//! `sstable-dump find`: prints every version of a key in a store's log and tables, newest first,
//! and which one a read returns and why.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::Error;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::{Kind as EntryKind, Trailer};
use firn_kv::internals::base::ops::{Op, OpReader};
use firn_kv::internals::manifest::{ManifestState, TableMeta, TreeState};
use firn_kv::internals::wal::{recover_known, segment_name};
use firn_tools::json::put_field;
use firn_tools::keys::key as parse_key;
use firn_tools::output::{Done, Failure, listing, print_table};
use firn_wide::internals::store::TreeName;
use firn_wide_text::files::{DescribedFile, TypedText};
use serde_json::{Map, Value};

use crate::Screen;
use crate::dump::text;
use crate::schema::records;
use crate::schema::typed::{self, Families};
use crate::store::blobs::{StoreBlobs, place_json};
use crate::store::names::FileNames;
use crate::store::retry::retry_while_changing;
use crate::store::target::{TargetKind, env, kind, known, open_file, state_of};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Searches the log and every live table, in all trees or in one. Range deletions that cover the key count as versions. A value in a blob
file is read from there, and its position is printed. An arrow marks the version at which a read of the newest state starts. Exit code 1
if a read finds nothing.

Examples:
  sstable-dump find firn-data apple
  sstable-dump find firn-data --hex 00ff01
  sstable-dump find firn-data apple --tree fruit --json | jq '.versions[].where'

With --family KEY is a row key in the family's type. Also searches for deletions of the row, the super column and the column:

  sstable-dump find firn-data phatduckk --family App.UserProfile --column email
  sstable-dump find firn-data phatduckk --family App.AddressBook --super John --column zip";

/// Arguments of `find`.
#[derive(Args, Clone, Debug)]
pub struct FindArgs {
    /// The store
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The key, byte for byte
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// Search only this tree, or KEYSPACE.TABLE
    #[arg(long, value_name = "NAME")]
    pub tree: Option<String>,
    /// Read the key and print values in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Search this column family; KEY is a row key as text
    #[arg(long, value_name = "KEYSPACE.FAMILY", conflicts_with_all = ["tree", "hex"])]
    pub family: Option<String>,
    /// Search this super column of the row, given as text
    #[arg(long = "super", value_name = "NAME", requires = "family")]
    pub super_column: Option<String>,
    /// Search this column of the row or super column, given as text
    #[arg(long, value_name = "NAME", requires = "family")]
    pub column: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VersionKind {
    #[default]
    Put,
    Delete,
    Merge,
    DeleteRange,
}

impl VersionKind {
    fn name(self) -> &'static str {
        match self {
            VersionKind::Put => "put",
            VersionKind::Delete => "delete",
            VersionKind::Merge => "merge",
            VersionKind::DeleteRange => "delete range",
        }
    }
}

/// A version of the key.
#[derive(Default)]
struct KeyVersion {
    seq: u64,
    what: VersionKind,
    value: Vec<u8>,
    place: String,
    /// Position of a value in a blob file, and the error if it cannot be read.
    blob: Option<(BlobHandle, Option<Error>)>,
    /// Whether the version is in the log although tables already have it: replay skips it.
    flushed: bool,
    verdict: String,
    returned: bool,
}

impl KeyVersion {
    fn new(seq: u64, what: VersionKind, value: &[u8], place: String) -> KeyVersion {
        KeyVersion { seq, what, value: value.to_vec(), place, ..KeyVersion::default() }
    }
}

/// Returns a put whose value is in a blob file, with the value if it can be read.
fn blob_version(
    seq: u64,
    place: &str,
    key: &[u8],
    reference: &[u8],
    files: &StoreBlobs<'_>,
) -> firn_kv::Result<KeyVersion> {
    let r = BlobHandle::decode(reference)
        .ok_or_else(|| Error::corruption("an entry refers to no value").keys(key, key))?;
    let place =
        format!("{place}, the value in {} at {}", text::file_name(&files.path(r.file)), r.offset);
    let found = files.find(key, reference);
    let value = found.as_ref().map_or(&[][..], |v| &v.bytes);
    let mut v = KeyVersion::new(seq, VersionKind::Put, value, place);
    v.blob = Some((r, found.err()));
    Ok(v)
}

fn table_versions(
    files: &StoreBlobs<'_>,
    place: &str,
    m: &TableMeta,
    key: &[u8],
    out: &mut Vec<KeyVersion>,
) -> firn_kv::Result<()> {
    let path = files.path(m.id);
    let t = open_file(env().open_read(&path, false)?, &path, m.id, m.ingested_seq)?;
    let place = format!("{} {place}", text::file_name(&path));
    let mut c = t.cursor(false);
    c.seek(key, Trailer::NEWEST)?;
    while c.valid() && c.key() == key {
        let what = match c.trailer().kind() {
            Some(EntryKind::Blob) => {
                out.push(blob_version(c.trailer().seq(), &place, key, c.value(), files)?);
                c.next()?;
                continue;
            }
            Some(EntryKind::Put) => VersionKind::Put,
            Some(EntryKind::Merge) => VersionKind::Merge,
            _ => VersionKind::Delete,
        };
        out.push(KeyVersion::new(c.trailer().seq(), what, c.value(), place.clone()));
        c.next()?;
    }
    for f in t
        .tombstones()
        .as_slice()
        .iter()
        .filter(|f| f.start.as_slice() <= key && key < f.end.as_slice())
    {
        out.extend(
            f.seqs
                .iter()
                .map(|&seq| KeyVersion::new(seq, VersionKind::DeleteRange, b"", place.clone())),
        );
    }
    Ok(())
}

fn log_versions(
    dir: &Path,
    state: &ManifestState,
    tree: &TreeState,
    key: &[u8],
    out: &mut Vec<KeyVersion>,
) -> firn_kv::Result<()> {
    let env = env();
    let segments = firn_kv::internals::wal::segments(&*env, dir)?;
    // Retired segments may still exist. Tables have their entries. Show them as far as no segment
    // is missing in between.
    let from = FileNames::with_present_names(dir).unbroken_log()?.min(state.wal_floor);
    for from in [from, state.wal_floor] {
        out.clear();
        let done = recover_known(&*env, dir, from, &known(state), &mut |seq, end, payload| {
            for (op, seq) in OpReader::new(payload).zip(seq..) {
                let Some((id, op)) = op else { break };
                let Some((what, value)) = effect_on(&op, key).filter(|_| id == tree.id) else {
                    continue;
                };
                let segment = segments
                    .iter()
                    .rfind(|s| s.end > 0 && s.base.is_some_and(|b| b < end))
                    .map_or(0, |s| s.number);
                let mut v = KeyVersion::new(
                    seq,
                    what,
                    value,
                    format!("{} up to position {end}", segment_name(segment)),
                );
                v.flushed = end <= tree.flushed;
                out.push(v);
            }
            Ok(())
        });
        match done {
            Err(e) if from == state.wal_floor => return Err(e),
            Err(_) => {}
            Ok(_) => break,
        }
    }
    Ok(())
}

/// Returns what an operation does to a key, and the value; `None` if it does not touch it.
fn effect_on<'a>(op: &Op<'a>, key: &[u8]) -> Option<(VersionKind, &'a [u8])> {
    match *op {
        Op::Point { kind, key: k, value } if k == key => Some(match kind {
            // No log contains blob references: the reader of operations rejects them.
            EntryKind::Put | EntryKind::Blob => (VersionKind::Put, value),
            EntryKind::Merge => (VersionKind::Merge, value),
            EntryKind::Delete => (VersionKind::Delete, value),
        }),
        Op::DeleteRange { start, end } if start <= key && key < end => {
            Some((VersionKind::DeleteRange, b""))
        }
        _ => None,
    }
}

/// Sets the verdict of every version: its role in a read. Marks the version that a read returns.
fn set_verdicts(versions: &mut [KeyVersion], merge: Option<&str>) {
    versions.sort_by_key(|v| (Reverse(v.seq), v.flushed, v.what != VersionKind::DeleteRange));
    let mut decided: Option<String> = None;
    let mut operands = 0u64;
    for v in versions.iter_mut() {
        if v.flushed {
            v.verdict = "passes it over: it is in a table, or merged away".into();
            continue;
        }
        if let Some(by) = &decided {
            v.verdict = format!("does not see it: hidden by {by}");
            continue;
        }
        let by = format!("{} @{}", v.what.name(), v.seq);
        match v.what {
            VersionKind::Merge => {
                operands += 1;
                v.verdict =
                    format!("folds it: operand of the merge operator {:?}", merge.unwrap_or("?"));
                v.returned = operands == 1;
                continue;
            }
            VersionKind::Put if operands > 0 => {
                v.verdict = "folds the operands above onto it".into()
            }
            VersionKind::Put => {
                (v.verdict, v.returned) = ("returns it: the newest version".into(), true)
            }
            _ if operands > 0 => v.verdict = "folds the operands above onto nothing".into(),
            _ => v.verdict = "finds nothing: this is the newest version".into(),
        }
        decided = Some(by);
    }
}

/// Returns the value of a version in the types of its family.
fn typed_value(family: Option<&DescribedFile>, key: &[u8], v: &KeyVersion) -> Option<TypedText> {
    family
        .filter(|_| matches!(v.what, VersionKind::Put | VersionKind::Merge))
        .and_then(|f| f.typed(key, &v.value).ok())
}

fn version_json(v: &KeyVersion, hex: bool, family: Option<&DescribedFile>, key: &[u8]) -> Value {
    let mut o = Map::new();
    o.insert("seq".into(), v.seq.into());
    o.insert("what".into(), v.what.name().into());
    if matches!(v.what, VersionKind::Put | VersionKind::Merge) {
        put_field(&mut o, "value", &v.value, hex);
    }
    if let Some((r, error)) = &v.blob {
        o.insert("blob".into(), place_json(r));
        if let Some(e) = error {
            o.remove("value");
            o.insert("error".into(), e.to_string().into());
        }
    }
    if let Some((f, typed)) = family.zip(typed_value(family, key, v)) {
        o.insert("cell".into(), typed::cell_json(f, &typed));
    }
    o.insert("where".into(), v.place.as_str().into());
    o.insert("flushed".into(), v.flushed.into());
    o.insert("returned".into(), v.returned.into());
    o.insert("verdict".into(), v.verdict.as_str().into());
    o.into()
}

fn versions(
    dir: &Path,
    state: &ManifestState,
    tree: &TreeState,
    key: &[u8],
) -> firn_kv::Result<Vec<KeyVersion>> {
    let mut all = vec![];
    let names = FileNames::with_present_names(dir);
    let files = StoreBlobs::of(&names);
    log_versions(dir, state, tree, key, &mut all)?;
    for run in &tree.runs {
        let place = format!("L{}#{}", run.level, run.number);
        let holds = |m: &&std::sync::Arc<TableMeta>| {
            m.first_key.as_slice() <= key && key <= m.last_key.as_slice()
        };
        for m in run.tables.iter().filter(holds) {
            table_versions(&files, &place, m, key, &mut all)?;
        }
    }
    set_verdicts(&mut all, tree.options.merge_operator.as_deref());
    for v in all.iter_mut().filter(|v| v.returned) {
        if let Some((_, Some(e))) = &v.blob {
            v.verdict = format!("fails: {}", e.message());
        }
    }
    Ok(all)
}

/// Returns the versions of the key in each tree, or in the named one.
fn find_versions(
    dir: &Path,
    key: &[u8],
    tree: Option<&str>,
) -> Done<Vec<(String, Vec<KeyVersion>)>> {
    let state = state_of(dir)?;
    let defined;
    let mut tree = tree;
    if let Some(name) = tree.filter(|n| state.tree_named(n).is_none()) {
        defined = records::definitions(&FileNames::with_present_names(dir), &state);
        tree = defined.tree_at(name).filter(|n| state.tree_named(n).is_some());
        if tree.is_none() {
            let both = |t: &TreeState| match defined.of_tree(&t.name) {
                Some(d) => format!("{} ({})", t.name, d.words()),
                None => t.name.clone(),
            };
            let all: Vec<String> = state.trees.values().map(both).collect();
            return Err(Failure::new(format!(
                "the store has no tree {name:?}; it has {}",
                all.join(", ")
            )));
        }
    }
    let chosen = state.trees.values().filter(|t| tree.is_none_or(|n| t.name == n));
    chosen.map(|t| Ok((t.name.clone(), versions(dir, &state, t, key)?))).collect()
}

/// Returns the keys to look up and their tree. For a family these are the keys of the row's
/// deletion, the super column's and the column's.
fn lookup_keys(args: &FindArgs, families: &Families) -> Done<(Vec<Vec<u8>>, Option<String>)> {
    let Some(name) = &args.family else {
        return Ok((vec![parse_key(&args.key, args.hex)?], args.tree.clone()));
    };
    let Some(family) = families.named(name) else {
        let has = families.names();
        let has = if has.is_empty() {
            "it has none that can be read".into()
        } else {
            format!("it has {}", has.join(", "))
        };
        return Err(Failure::new(format!("the store has no family {name:?}; {has}")));
    };
    let row = args.key.to_str().ok_or_else(|| {
        Failure::new("the row's key is no text; write its bytes as 0x and hexadecimal digits")
    })?;
    let place = |super_column, column| {
        family
            .tree_key(row, super_column, column)
            .map_err(|e| Failure::new(format!("{}: {e}", typed::full_name(family))))
    };
    let mut keys = vec![place(None, None)?];
    if args.super_column.is_some() {
        keys.push(place(args.super_column.as_deref(), None)?);
    }
    if args.column.is_some() {
        keys.push(place(args.super_column.as_deref(), args.column.as_deref())?);
    }
    Ok((keys, Some(TreeName::Family(family.def.id()).to_string())))
}

/// Runs `find`.
pub fn run(screen: &mut Screen<'_>, args: &FindArgs) -> Done {
    if kind(&args.dir)? != TargetKind::Store {
        return Err(Failure::with_next(
            "this is a file",
            "name the store's directory; `scan TABLE --from KEY` looks into one table",
        ));
    }
    let families = Families::of_store(&args.dir);
    let (keys, tree) = lookup_keys(args, &families)?;
    let mut there = false;
    for (i, key) in keys.iter().enumerate() {
        // The read of the last, most specific key decides. Rows and super columns have only
        // deletions.
        let is_container = args.family.is_some() && (args.column.is_none() || i + 1 < keys.len());
        let nothing =
            if is_container { "no deletion of it in" } else { "no entry for this key in" };
        there = show(screen, args, &families, (key, nothing), tree.as_deref())?;
    }
    if there { Ok(()) } else { Err(Failure::Found) }
}

/// Prints the versions of one key, or the text `nothing`. Reports whether a read returns a value.
fn show(
    screen: &mut Screen<'_>,
    args: &FindArgs,
    families: &Families,
    (key, nothing): (&[u8], &str),
    tree: Option<&str>,
) -> Done<bool> {
    let found = retry_while_changing(|| find_versions(&args.dir, key, tree))?;
    let there = found.iter().any(|(_, v)| v.iter().any(|v| v.returned));
    if screen.json {
        for (name, v) in &found {
            let family = families.of_tree(name);
            let mut o = Map::new();
            put_field(&mut o, "key", key, args.hex);
            if let Some(words) = family.and_then(|f| f.key_words(key)) {
                o.insert("typed_key".into(), words.into());
            }
            o.insert("tree".into(), name.as_str().into());
            o.insert(
                "versions".into(),
                v.iter().map(|v| version_json(v, args.hex, family, key)).collect(),
            );
            writeln!(screen.out, "{}", Value::Object(o))?;
        }
        return Ok(there);
    }
    for (name, versions) in found.iter().filter(|(_, v)| !v.is_empty()) {
        let family = families.of_tree(name).filter(|_| !args.hex);
        let mut t = listing(&["  seq", "what", "value", "where", "a read"], "lllll");
        for v in versions {
            let typed = typed_value(family, key, v);
            let value = match v.what {
                _ if matches!(v.blob, Some((_, Some(_)))) => "(cannot be read)".into(),
                VersionKind::Put | VersionKind::Merge if args.hex => {
                    firn_tools::escape::hex(&v.value)
                }
                VersionKind::Put | VersionKind::Merge => match typed {
                    Some(typed) => format!(
                        "{} @{}",
                        text::short(typed::value(&typed).as_bytes(), 60),
                        typed.timestamp
                    ),
                    None => text::short(&v.value, 40),
                },
                _ => "-".into(),
            };
            let arrow = if v.returned { "→ " } else { "  " };
            t.add_row([
                format!("{arrow}{}", v.seq),
                v.what.name().into(),
                value,
                v.place.clone(),
                v.verdict.clone(),
            ]);
        }
        let place = family.map_or_else(
            || format!("tree {name:?}"),
            |f| format!("the family {}", typed::full_name(f)),
        );
        writeln!(
            screen.out,
            "{}",
            screen.style.heading(format!("{} in {place}", typed::key(family, key)))
        )?;
        write!(screen.out, "{}", print_table(&t, screen.style))?;
    }
    if found.iter().all(|(_, v)| v.is_empty()) {
        let family = tree.and_then(|t| families.of_tree(t));
        writeln!(screen.out, "{}: {nothing} any table or in the log", typed::key(family, key))?;
    }
    Ok(there)
}
