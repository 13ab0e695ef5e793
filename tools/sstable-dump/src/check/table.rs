//! Checks one table: by itself, against the manifest, against the other tables of its tree, and
//! against its blob files. Also checks one blob file.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use firn_kv::fs::ReadFile;
use firn_kv::internals::base::blob_ref::{BlobFileMeta, BlobHandle};
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::iterator::opener::same_bounds;
use firn_kv::internals::manifest::{TableMeta, TreeState};
use firn_kv::internals::sstable::Table;
use firn_kv::{Error, ErrorKind};
use firn_tools::output::Done;

use crate::check::report::Findings;
use crate::store::blobs::{StoreBlobs, count_errors, uses_text};
use crate::store::merging;
use crate::store::survey;
use crate::store::target::{env, is_of_values, open_file, table_file};

/// Checks one table; returns it if it can be opened and is sound.
pub fn check(
    path: &Path,
    seq: u64,
    meta: Option<&TableMeta>,
    f: &mut Findings,
) -> Done<Option<Arc<Table>>> {
    let (file, id) = match meta {
        Some(m) => (env().open_read(path, false)?, m.id),
        None => table_file(path)?,
    };
    let size = file.len();
    if meta.is_none() && is_of_values(&*file)? {
        check_values(file, path, id, None, (&BTreeSet::new(), false), f)?;
        return Ok(None);
    }
    match open_file(file.clone(), path, id, seq) {
        Ok(t) => {
            let mut errors = vec![];
            let r = t.verify_each(None, |_| {}, &mut |e| {
                errors.push(e);
                ControlFlow::Continue(())
            });
            f.count(size, r);
            if !r.filter_checked && t.properties().filter != firn_kv::FilterKind::None {
                let words =
                    "the filter holds prefixes that only the program knows; it was not checked";
                f.notes.push(format!("{}: {words}", path.display()));
            }
            let sound = errors.is_empty();
            errors.into_iter().for_each(|e| f.add(e));
            Ok(sound.then_some(t))
        }
        Err(e) if e.kind() == ErrorKind::Corruption => {
            let s = survey::survey(file, path, id)?;
            let mut found = s.errors();
            if !found.iter().any(|x| x.offset() == e.offset()) {
                let (first, last) =
                    meta.map_or((&[][..], &[][..]), |m| (&m.first_key, &m.last_key));
                found.insert(
                    0,
                    if e.key_range().is_none() && meta.is_some() { e.keys(first, last) } else { e },
                );
            }
            found.into_iter().for_each(|e| f.add(e));
            if s.is_of_values() {
                f.blob_files += 1;
                f.values += s.entries();
            } else {
                f.tables += 1;
                f.entries += s.entries();
            }
            f.bytes += size;
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// Checks a blob file: its blocks, and their counts against its metadata. `reported` has the positions
/// of damaged values that are already reported, because tables refer to them. The flag says that
/// every table of the tree is sound, so that these are all referenced values.
pub fn check_values(
    file: Arc<dyn ReadFile>,
    path: &Path,
    id: u64,
    facts: Option<&BlobFileMeta>,
    (reported, all_logged): (&BTreeSet<(u64, u64)>, bool),
    f: &mut Findings,
) -> Done {
    let size = file.len();
    let s = survey::survey(file, path, id)?;
    let errors = s.errors();
    if errors.is_empty() {
        count_errors(&s, facts).into_iter().for_each(|e| f.add(e));
    }
    let is_new = |e: &Error| e.offset().is_none_or(|at| !reported.contains(&(id, at)));
    for e in errors.into_iter().filter(is_new) {
        let needed = e.block_kind() != Some("blob") || !all_logged;
        f.add(if needed { e } else { e.context("no table needs this value") });
    }
    f.blob_files += 1;
    f.values += s.entries();
    f.bytes += size;
    Ok(())
}

/// Checks that each reference of `t` to a blob leads to its value. Skips blob files in `lost`: the
/// caller reports these. Returns the positions of damaged values.
pub fn check_blob_references(
    t: &Arc<Table>,
    tree: &TreeState,
    files: &StoreBlobs<'_>,
    lost: &BTreeSet<u64>,
    f: &mut Findings,
) -> Done<BTreeSet<(u64, u64)>> {
    let mut reported = BTreeSet::new();
    let path = files.path(t.id());
    let mut c = t.cursor(false);
    c.first()?;
    while c.valid() {
        let is_blob = c.trailer().kind() == Some(Kind::Blob);
        if let Some(r) = BlobHandle::decode(c.value()).filter(|_| is_blob) {
            let bad =
                |words: String| Error::corruption(words).in_file(&path).keys(c.key(), c.key());
            match tree.values.get(&r.file) {
                None => f.add(bad(format!(
                    "an entry refers to blob file {}, which is missing from the manifest",
                    r.file
                ))),
                Some(v) if u64::from(r.number) >= v.values => f.add(bad(format!(
                    "an entry refers to value {} of blob file {}, which has {}",
                    r.number, r.file, v.values
                ))),
                Some(_) if lost.contains(&r.file) => {}
                Some(_) => {
                    if let Err(e) = files.find(c.key(), c.value()) {
                        reported.insert((r.file, r.offset));
                        f.add(e);
                    }
                }
            }
        }
        c.next()?;
    }
    Ok(reported)
}

/// Compares the manifest's metadata of a table with the table's own properties.
pub fn check_meta(t: &Table, m: &TableMeta, path: &Path, f: &mut Findings) {
    let p = t.properties();
    let (min, max) =
        if m.ingested_seq > 0 { (m.ingested_seq, m.ingested_seq) } else { (p.min_seq, p.max_seq) };
    let same = [
        ("bytes", m.size, t.size()),
        ("entries", m.entries, p.entries),
        ("deletes", m.deletes, p.deletes),
        ("merge operands", m.merges, p.merges),
        ("range deletes", m.range_deletes, p.range_deletes),
        (
            "bytes of keys and values",
            m.raw_bytes,
            p.raw_key_bytes.saturating_add(p.raw_value_bytes),
        ),
        ("as smallest sequence number", m.min_seq, min),
        ("as largest sequence number", m.max_seq, max),
    ];
    for (what, reported, found) in same.into_iter().filter(|s| s.1 != s.2) {
        let words = format!("the manifest has {reported} {what}, the table has {found}");
        f.add(Error::corruption(words).in_file(path).keys(&m.first_key, &m.last_key));
    }
    if m.values != p.values {
        let or_none =
            |uses| Some(uses_text(uses)).filter(|s| !s.is_empty()).unwrap_or("none".into());
        let words = format!(
            "the manifest lists these values in blob files: {}; the table lists: {}",
            or_none(&m.values),
            or_none(&p.values)
        );
        f.add(Error::corruption(words).in_file(path).keys(&m.first_key, &m.last_key));
    }
    if !same_bounds(m, p) {
        let words = "the table's bounds are not those in the manifest";
        f.add(Error::corruption(words).in_file(path).keys(&p.first_key, &p.last_key));
    }
}

/// Checks that newer runs have newer versions of each key. `tables` are the tree's, newest run
/// first; `runs` has the index of each table's run.
pub fn check_age(
    tree: &TreeState,
    tables: &[Arc<Table>],
    runs: &[usize],
    f: &mut Findings,
) -> Done {
    let mut last: Option<(Vec<u8>, u64, usize)> = None;
    let mut wrong = 0u64;
    merging::each(tables, &mut |key, t, i| {
        let at = (key.to_vec(), t.seq(), i);
        if let Some((k, seq, j)) = last.replace(at)
            && k == key
            && j != i
            && (runs[j] >= runs[i] || seq == t.seq())
        {
            wrong += 1;
            if wrong <= 10 {
                let words = format!(
                    "table {} has sequence number {seq} of a key; table {}, in a newer or the same run of tree {:?}, has the older {}",
                    tables[j].id(),
                    tables[i].id(),
                    tree.name,
                    t.seq()
                );
                f.add(Error::corruption(words).keys(key, key));
            }
        }
        Ok(())
    })?;
    if wrong > 10 {
        f.notes.push(format!(
            "tree {:?}: {} keys in all have versions in runs of the wrong age",
            tree.name, wrong
        ));
    }
    Ok(())
}
