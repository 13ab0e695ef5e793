//! `sstable-dump check`: everything that can be verified in a file or a store, past the first error to all of them.
//!
//! Of a store: `CURRENT` and manifest; every live table, by itself and against what the manifest says of it; the age of versions
//! across runs; the log from where it is still needed. Nothing is written and no lock taken; a store that a program is writing to is
//! read again when a file has vanished meanwhile.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use firn_kv::base::ops::Ops;
use firn_kv::env::Env;
use firn_kv::manifest::{self, Manifest, State, TableMeta, TreeState, manifest_name, manifest_number};
use firn_kv::merge::run::{missing_table, same_bounds, table_path};
use firn_kv::sstable::Table;
use firn_kv::wal::{Item, SegmentReader, recover, segment_name, segment_number};
use firn_kv::{Error, ErrorKind};
use firn_tools::output::{Done, Failure, Progress, bytes, things};
use serde_json::json;

use crate::findings::print_errors;
use crate::names::{Names, Told, holds, own_name};
use crate::survey;
use crate::target::{Kind, dir_of, env, kind, open_file, table_file, table_number};
use crate::{Screen, logcopy, merged};

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Reads everything and checks everything: checksums and places of all blocks, the order of keys, index, filter, counts and bounds; of a
store also the manifest, what it says of each table, that newer runs hold newer versions, and the log. Each finding names file,
offset, block and keys; a file under a wrong name is known by its content, and read as what it is. Exit code 1 if anything is wrong.

Examples:
  sstable-dump check firn-data
  sstable-dump check firn-data/00000012.sst
  sstable-dump check firn-data --json | jq '.errors[] | .file, .offset, .keys'
  sstable-dump check *.sst && echo all sound";

/// What `check` takes.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Stores, tables, log segments, manifests
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// How often a store is read again when its files change underneath.
const TRIES: usize = 10;

/// What has been looked at, and what is wrong.
#[derive(Default)]
pub struct Findings {
    tables: u64,
    blocks: u64,
    entries: u64,
    bytes: u64,
    records: u64,
    /// Damage.
    pub errors: Vec<Error>,
    /// What is no damage but worth knowing.
    pub notes: Vec<String>,
    /// What to do about a file, where that is more than what is usual.
    advice: BTreeMap<PathBuf, String>,
}

impl Findings {
    fn count(&mut self, size: u64, r: firn_kv::sstable::VerifyReport) {
        self.tables += 1;
        self.blocks += r.blocks;
        self.entries += r.entries;
        self.bytes += size;
    }

    /// Takes up what is wrong with names.
    fn tell(&mut self, told: Vec<Told>) {
        for t in told {
            self.advice.extend(t.error.file().map(|file| (file.to_path_buf(), t.advice)));
            self.errors.push(t.error);
        }
    }

    /// What to do about an error.
    fn remedy(&self, e: &Error, store: bool) -> &str {
        e.file().and_then(|file| self.advice.get(file)).map_or_else(|| remedy(e, store), String::as_str)
    }
}

/// Checks one table; gives it back when it can be opened and is sound.
fn check_table(path: &Path, seq: u64, keys: Option<&TableMeta>, f: &mut Findings) -> Done<Option<Arc<Table>>> {
    let (file, id) = match keys {
        Some(m) => (env().open_read(path, false)?, m.id),
        None => table_file(path)?,
    };
    let size = file.len();
    match open_file(file.clone(), path, id, seq) {
        Ok(t) => {
            let before = f.errors.len();
            let errors = &mut f.errors;
            let r = t.verify_each(None, |_| {}, &mut |e| {
                errors.push(e);
                ControlFlow::Continue(())
            });
            f.count(size, r);
            if !r.filter_checked && t.properties().filter != firn_kv::FilterKind::None {
                f.notes.push(format!(
                    "{}: the filter holds prefixes that only the program knows; it was not checked",
                    path.display()
                ));
            }
            Ok((f.errors.len() == before).then_some(t))
        }
        Err(e) if e.kind() == ErrorKind::Corruption => {
            let s = survey::survey(file, path, id)?;
            let mut found = s.errors();
            if !found.iter().any(|x| x.offset() == e.offset()) {
                let (first, last) = keys.map_or((&[][..], &[][..]), |m| (&m.first_key, &m.last_key));
                found.insert(0, if e.key_range().is_none() && keys.is_some() { e.keys(first, last) } else { e });
            }
            f.errors.extend(found);
            f.tables += 1;
            f.entries += s.entries();
            f.bytes += size;
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// What the manifest says of a table against what the table says of itself.
fn check_meta(t: &Table, m: &TableMeta, path: &Path, f: &mut Findings) {
    let p = t.properties();
    let (min, max) = if m.ingested_seq > 0 { (m.ingested_seq, m.ingested_seq) } else { (p.min_seq, p.max_seq) };
    let same = [
        ("bytes", m.size, t.size()),
        ("entries", m.entries, p.entries),
        ("deletes", m.deletes, p.deletes),
        ("merge operands", m.merges, p.merges),
        ("range deletes", m.range_deletes, p.range_deletes),
        ("bytes of keys and values", m.raw_bytes, p.raw_key_bytes.saturating_add(p.raw_value_bytes)),
        ("as smallest sequence number", m.min_seq, min),
        ("as largest sequence number", m.max_seq, max),
    ];
    for (what, told, found) in same.into_iter().filter(|s| s.1 != s.2) {
        let words = format!("the manifest tells of {told} {what}, the table of {found}");
        f.errors.push(Error::corruption(words).in_file(path).keys(&m.first_key, &m.last_key));
    }
    if !same_bounds(m, p) {
        let words = "the table's bounds are not those in the manifest";
        f.errors.push(Error::corruption(words).in_file(path).keys(&p.first_key, &p.last_key));
    }
}

/// That of one key newer runs hold newer versions. `tables` are the tree's, newest run first; `runs` the place of each one's run.
fn check_age(tree: &TreeState, tables: &[Arc<Table>], runs: &[usize], f: &mut Findings) -> Done {
    let mut last: Option<(Vec<u8>, u64, usize)> = None;
    let mut wrong = 0u64;
    merged::each(tables, &mut |key, t, i| {
        let at = (key.to_vec(), t.seq(), i);
        if let Some((k, seq, j)) = last.replace(at)
            && k == key
            && j != i
            && (runs[j] >= runs[i] || seq == t.seq())
        {
            wrong += 1;
            if wrong <= 10 {
                let words = format!(
                    "of one key table {} holds sequence number {seq}, and table {}, in a newer or the same run of tree {:?}, the older {}",
                    tables[j].id(),
                    tables[i].id(),
                    tree.name,
                    t.seq()
                );
                f.errors.push(Error::corruption(words).keys(key, key));
            }
        }
        Ok(())
    })?;
    if wrong > 10 {
        f.notes.push(format!("tree {:?}: {} keys in all have versions in runs of the wrong age", tree.name, wrong));
    }
    Ok(())
}

fn check_tree(names: &Names, dir: &Path, tree: &TreeState, f: &mut Findings, progress: &Progress, done: &mut u64) -> Done {
    let (mut tables, mut runs) = (vec![], vec![]);
    for (i, run) in tree.runs.iter().enumerate() {
        for m in &run.tables {
            let path = names.table(m.id).unwrap_or_else(|| table_path(dir, m.id));
            let checked = match names.table(m.id) {
                Some(path) => check_table(&path, m.ingested_seq, Some(m), f),
                None => Err(missing_table(dir, m).into()),
            };
            match checked {
                Ok(Some(t)) => {
                    check_meta(&t, m, &path, f);
                    tables.push(t);
                    runs.push(i);
                }
                Ok(None) => {}
                Err(Failure::Engine(e)) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corruption) => {
                    f.errors.push(Error::corruption("a live table is missing").in_file(&path).keys(&m.first_key, &m.last_key));
                }
                // A device that gives no bytes has other files that it gives.
                Err(Failure::Engine(e)) if e.kind() == ErrorKind::Io => f.errors.push(e.keys(&m.first_key, &m.last_key)),
                Err(e) => return Err(e),
            }
            *done += m.size;
            progress.at(*done);
        }
    }
    if tree.runs.len() > 1 { check_age(tree, &tables, &runs, f) } else { Ok(()) }
}

fn check_log(names: &Names, dir: &Path, state: &State, f: &mut Findings) {
    let recovered = recover(names, dir, state.wal_floor, &mut |_, _, payload| {
        f.records += 1;
        match Ops::new(payload).all(|op| op.is_some()) {
            true => Ok(()),
            false => Err(Error::corruption("a log record with a sound checksum holds no sound operations")),
        }
    });
    match recovered {
        Ok(r) => {
            if let Some(t) = r.torn {
                f.notes.push(format!(
                    "the log ends at offset {} of {} with {}: what a crash leaves, nothing that was synced is missing{}",
                    t.offset,
                    t.file.display(),
                    t.reason,
                    if t.records_beyond > 0 {
                        format!(" ({} behind it are given up)", things(t.records_beyond, "record", "records"))
                    } else {
                        String::new()
                    }
                ));
            }
        }
        Err(e) => f.errors.push(e),
    }
    match logcopy::lost_end(names, dir) {
        Ok(Some(n)) => f.errors.push(Error::corruption(logcopy::LOST_END).in_file(dir.join(segment_name(n)))),
        Ok(None) => {}
        Err(e) => f.errors.push(e),
    }
}

fn check_store_once(dir: &Path) -> Done<Findings> {
    let mut f = Findings::default();
    let mut names = Names::of(dir)?;
    let (state, number) = match Manifest::load(&names, dir) {
        Ok(Some(loaded)) => loaded,
        Ok(None) => {
            let e = Error::new(ErrorKind::NotFound, "there is no store in this directory").in_file(dir);
            let all = names.list(dir)?;
            let what = match () {
                () if all.iter().any(|n| table_number(n).is_some()) => "tables",
                () if all.iter().any(|n| segment_number(n).is_some()) => "log segments",
                () => return Err(e.into()),
            };
            let words = format!("there are {what} but no CURRENT file: the manifest is lost");
            f.errors.push(Error::corruption(words).in_file(dir));
            check_loose_tables(&mut names, dir, &mut f)?;
            return Ok(f);
        }
        Err(e) if e.kind() == ErrorKind::Corruption => {
            f.errors.push(e);
            check_loose_tables(&mut names, dir, &mut f)?;
            return Ok(f);
        }
        Err(e) => return Err(e.into()),
    };
    if let Some(words) = names.outdated(&state) {
        f.errors.push(Error::corruption(words).in_file(dir.join(manifest_name(number))));
        check_loose_tables(&mut names, dir, &mut f)?;
        return Ok(f);
    }
    names.fit(Some(&state))?;
    f.tell(names.told());
    let (_, gaps) = manifest::read_around(&names, dir, number)?;
    for g in gaps {
        let name = manifest_name(number);
        f.notes.push(format!(
            "{name}: {} at offset {} are no frame: the torn end of a crash",
            things(g.len, "byte", "bytes"),
            g.offset
        ));
    }
    let total = state.trees.values().flat_map(TreeState::tables).map(|t| t.size).sum();
    let progress = Progress::bytes("check", Some(total));
    let mut done = 0;
    for tree in state.trees.values() {
        check_tree(&names, dir, tree, &mut f, &progress, &mut done)?;
    }
    check_log(&names, dir, &state, &mut f);
    let live = |id| state.trees.values().flat_map(TreeState::tables).any(|t| t.id == id);
    let dead = names.list(dir)?.iter().filter_map(|n| table_number(n)).filter(|&id| !live(id)).count() as u64;
    if dead > 0 {
        let tables = things(dead, "table", "tables");
        f.notes.push(format!("the directory holds {tables} that the store does not know: the next open for writing removes what is not the store's"));
    }
    Ok(f)
}

/// Tables of a directory without a manifest, each by itself.
fn check_loose_tables(names: &mut Names, dir: &Path, f: &mut Findings) -> Done {
    names.fit(None)?;
    f.tell(names.told());
    for id in names.list(dir)?.iter().filter_map(|n| table_number(n)) {
        if let Some(path) = names.table(id) {
            check_table(&path, 0, None, f)?;
        }
    }
    Ok(())
}

fn check_store(dir: &Path) -> Done<Findings> {
    let mut before = None;
    for _ in 0..TRIES {
        let f = check_store_once(dir)?;
        // A writer may have moved on: what is wrong twice in the same way is wrong.
        let told: Vec<String> = f.errors.iter().map(Error::to_string).collect();
        if told.is_empty() || before.as_ref() == Some(&told) {
            return Ok(f);
        }
        before = Some(told);
    }
    check_store_once(dir)
}

fn check_segment(env: &dyn Env, path: &Path, number: u64, mut f: Findings) -> Done<Findings> {
    let mut r = SegmentReader::open(env, &dir_of(path), number)?;
    let (len, mut synced, mut last) = (r.file_len(), 0, None);
    let mut damages = vec![];
    let header = r.header().cloned();
    while let Some(item) = r.next()? {
        match item {
            Item::Record(rec) => {
                f.records += 1;
                synced = synced.max(rec.synced);
                last = Some(rec.offset);
                if !rec.mark && !Ops::new(rec.payload).all(|op| op.is_some()) {
                    let e = Error::corruption("a log record with a sound checksum holds no sound operations");
                    f.errors.push(e.at(path, rec.offset).block("wal record"));
                }
            }
            Item::Damage(d) => damages.push(d),
        }
    }
    f.bytes = len;
    match &header {
        None if f.records > 0 => {
            f.errors.push(Error::corruption("the header is damaged").at(path, 0).block("wal segment header"))
        }
        None => f.notes.push(format!("{}: never used, or not under this name", path.display())),
        Some(h) => {
            for d in damages {
                let lsn = h.base + (d.offset - firn_kv::wal::format::SEGMENT_HEADER);
                if last.is_some_and(|l| l > d.offset) || synced > lsn {
                    f.errors.push(
                        Error::corruption(format!("{} ({} bytes)", d.reason, d.len)).at(path, d.offset).block("wal record"),
                    );
                } else {
                    f.notes.push(format!("{}: torn end at offset {}: {}", path.display(), d.offset, d.reason));
                }
            }
        }
    }
    Ok(f)
}

fn check_manifest(env: &dyn Env, path: &Path, number: u64, mut f: Findings) -> Done<Findings> {
    f.bytes = env.file_len(path)?;
    match manifest::read(env, &dir_of(path), number).and_then(|log| log.replay().map(|_| log)) {
        Ok(log) => {
            f.records = log.frames.len() as u64;
            if log.end < f.bytes {
                f.notes.push(format!("{}: torn end at offset {}", path.display(), log.end));
            }
        }
        Err(e) if e.kind() == ErrorKind::Corruption => f.errors.push(e),
        Err(e) => return Err(e.into()),
    }
    Ok(f)
}

/// Checks whatever `path` is.
///
/// # Errors
/// What keeps it from being read; damage is a finding.
pub fn check(path: &Path) -> Done<Findings> {
    let kind = kind(path)?;
    if kind == Kind::Store {
        return check_store(path);
    }
    let mut f = Findings::default();
    let own = own_name(path)?.filter(|own| path.file_name() != Some(own.as_ref()));
    if let Some(own) = &own {
        let words = format!("{}: this file holds {}, and is checked as that", path.display(), holds(own));
        match kind {
            // It may be a copy on purpose, or a segment that shows an earlier life until it is used again.
            Kind::Table(None) | Kind::Wal(_) => f.notes.push(words),
            _ => {
                f.errors.push(Error::corruption(format!("this file holds {}", holds(own))).in_file(path));
                f.advice.insert(path.to_path_buf(), format!("give it its name back, {own}, or put back what was here"));
            }
        }
    }
    let alone = own.as_deref().map(|own| Names::alone(path, own));
    let env: &dyn Env = match &alone {
        Some(names) => names,
        None => &*env(),
    };
    let own = own.unwrap_or_default();
    match (kind, segment_number(&own), manifest_number(&own)) {
        (_, Some(number), _) | (Kind::Wal(number), _, None) if table_number(&own).is_none() => {
            check_segment(env, path, number, f)
        }
        (_, _, Some(number)) | (Kind::Manifest(number), ..) if table_number(&own).is_none() => {
            check_manifest(env, path, number, f)
        }
        _ => {
            check_table(path, 0, None, &mut f)?;
            Ok(f)
        }
    }
}

/// What to do about a finding.
fn remedy(e: &Error, store: bool) -> &'static str {
    let name = e.file().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
    match name {
        n if n.ends_with(".sst") && store => {
            "put back the file of this name from a backup, or save the rest: `sstable-dump salvage DIR --out NEW`"
        }
        n if n.ends_with(".sst") => {
            "put back the file of this name from a backup, or save the rest: `sstable-dump salvage FILE --out NEW`"
        }
        n if n.ends_with(".wal") => "put back the file from a backup, or save the rest: `sstable-dump salvage DIR --out NEW`",
        n if n.starts_with("MANIFEST") || n == "CURRENT" => {
            "put back the file from a backup, or rebuild it: `sstable-dump repair DIR --out NEW`"
        }
        _ => "restore the store from a backup, or rebuild it from what is there: `sstable-dump repair DIR --out NEW`",
    }
}

/// Runs `check`.
pub fn run(screen: &mut Screen<'_>, args: &CheckArgs) -> Done {
    let (mut wrong, mut all) = (false, vec![]);
    for path in &args.paths {
        let f = check(path)?;
        let store = path.is_dir();
        wrong |= !f.errors.is_empty();
        if screen.json {
            all.push(json!({
                "path": path.display().to_string(), "sound": f.errors.is_empty(), "tables": f.tables, "blocks": f.blocks,
                "entries": f.entries, "bytes": f.bytes, "records": f.records, "notes": f.notes,
                "errors": f.errors.iter().map(|e| firn_tools::json::error(e, f.remedy(e, store))).collect::<Vec<_>>(),
            }));
            continue;
        }
        print(screen, path, &f, store)?;
    }
    if screen.json {
        let v = if all.len() == 1 { all.remove(0) } else { all.into() };
        writeln!(screen.out, "{v:#}")?;
    }
    if wrong { Err(Failure::Found) } else { Ok(()) }
}

fn print(screen: &mut Screen<'_>, path: &Path, f: &Findings, store: bool) -> Done {
    let style = screen.style;
    print_errors(screen, path, &f.errors, &|e| f.remedy(e, store).to_owned())?;
    for n in &f.notes {
        writeln!(screen.out, "note: {n}")?;
    }
    let mut what = vec![];
    if f.tables > 0 {
        what.push(things(f.tables, "table", "tables"));
        what.push(things(f.blocks, "block", "blocks"));
        what.push(things(f.entries, "entry", "entries"));
    }
    if f.records > 0 {
        what.push(things(f.records, "record", "records"));
    }
    what.push(bytes(f.bytes));
    let verdict = match f.errors.len() as u64 {
        0 => style.good("sound"),
        n => style.bad(things(n, "error", "errors")),
    };
    Ok(writeln!(screen.out, "{}: {verdict} ({})", path.display(), what.join(", "))?)
}
