//! Checks a whole store.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use firn_kv::Env as _;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{self, ManifestState, TableMeta, TreeState, manifest_name};
use firn_kv::internals::sstable::Table;
use firn_kv::internals::wal::segment_number;
use firn_kv::{Error, ErrorKind};
use firn_tools::io;
use firn_tools::output::{Done, Failure, Progress, things};
use firn_wide::internals::store::loss;

use crate::check::findings::{Finding, FindingKind};
use crate::check::opening;
use crate::check::report::Findings;
use crate::check::{log, table};
use crate::history::current::{CurrentManifest, current};
use crate::history::evidence::other_stores;
use crate::schema::records::definitions;
use crate::store::blobs::StoreBlobs;
use crate::store::names::FileNames;
use crate::store::retry::{TRIES, retry_while_changing};
use crate::store::target::{env, table_number};

/// Checks the store in `dir`.
pub fn check(dir: &Path) -> Done<Findings> {
    confirm_findings(|| retry_while_changing(|| check_once(dir)))
}

/// Returns findings that two consecutive readings share, because a writer may remove a file between
/// listing and reading. If the readings never agree, returns the findings of the last one that the
/// previous one had too.
fn confirm_findings(mut read: impl FnMut() -> Done<Findings>) -> Done<Findings> {
    let (mut before, mut count, mut tries): (BTreeSet<String>, _, _) = (BTreeSet::new(), 0, 0);
    loop {
        let mut f = read()?;
        let now: Vec<String> = f.all.iter().map(Finding::identity).collect();
        let new = now.iter().filter(|x| !before.contains(*x)).count();
        if f.all.is_empty() || (new == 0 && f.all.len() == count) {
            return Ok(f);
        }
        tries += 1;
        if tries > TRIES {
            f.all.retain(|x| before.contains(&x.identity()));
            f.notes.push(format!(
                "a program writes to the store, so that no two readings of it found the same: {} \
                 left out that only the last one had; check again while less is written",
                things(new as u64, "finding is", "findings are")
            ));
            // The failed opening may follow from an omitted finding.
            f.opens = f.opens.filter(|opens| *opens || !f.all.is_empty());
            return Ok(f);
        }
        count = now.len();
        before = now.into_iter().collect();
    }
}

fn check_once(dir: &Path) -> Done<Findings> {
    let mut f =
        Findings { dir: Some(dir.to_path_buf()), opens: Some(false), ..Findings::default() };
    let (mut names, manifest) = current(&env(), dir, &[])?;
    match manifest {
        Ok(Some(CurrentManifest { state, number, against: None })) => {
            check_known(&mut names, &state, number, &mut f)?
        }
        Ok(Some(CurrentManifest { number, against: Some((kind, words)), .. })) => {
            f.add_as(kind, Error::corruption(words).in_file(dir.join(manifest_name(number))));
            check_loose_tables(dir, &mut f)?;
        }
        Ok(None) => {
            let all = names.list(dir)?;
            let what = match () {
                () if all.iter().any(|n| table_number(n).is_some()) => "tables",
                () if all.iter().any(|n| segment_number(n).is_some()) => "log segments",
                () => {
                    let e = Error::new(ErrorKind::NotFound, "there is no store in this directory")
                        .in_file(dir);
                    return Err(e.into());
                }
            };
            let words = format!("there are {what} but no CURRENT file: the manifest is lost");
            f.add(Error::corruption(words).in_file(dir));
            check_loose_tables(dir, &mut f)?;
        }
        // The error names the unreadable file: a directory of that name, or a file without read
        // permission.
        Err(e)
            if matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Io | ErrorKind::NotFound) =>
        {
            f.add(e);
            check_loose_tables(dir, &mut f)?;
        }
        Err(e) => return Err(e.into()),
    }
    let lock = dir.join("LOCK");
    if let Some(other) = io::not_a_file(&lock) {
        let words = format!(
            "there is {other} of this name, which has to be moved away: nothing can open the store for writing"
        );
        f.add_as(FindingKind::Unreadable, Error::new(ErrorKind::Io, words).in_file(lock));
    }
    check_opening(dir, &mut f);
    Ok(f)
}

/// Checks a store with a trusted manifest.
fn check_known(
    names: &mut FileNames,
    state: &ManifestState,
    number: u64,
    f: &mut Findings,
) -> Done {
    names.apply_manifest(Some(state))?;
    f.has_manifest = true;
    f.definitions = definitions(names, state);
    f.renames = names.renames();
    for t in names.findings() {
        let id = t
            .read
            .as_ref()
            .or(t.error.file().map(Path::to_path_buf).as_ref())
            .and_then(|p| number_of(p));
        f.about(
            state
                .trees
                .values()
                .find(|tree| tree.files().any(|file| Some(file) == id))
                .map(|t| t.name.as_str()),
        );
        f.add_as(if t.foreign { FindingKind::Foreign } else { FindingKind::Misnamed }, t.error);
    }
    f.about(None);
    f.notes.extend(names.stray_notes());
    let (_, gaps) = manifest::read_around(names, names.dir(), number)?;
    for g in gaps {
        let name = manifest_name(number);
        f.notes.push(format!(
            "{name}: {} at offset {} are no frame: the torn end of a crash",
            things(g.len, "byte", "bytes"),
            g.offset
        ));
    }
    let trees = || state.trees.values();
    let total = trees().flat_map(TreeState::tables).map(|t| t.size).sum::<u64>()
        + trees().flat_map(|t| t.values.values()).map(|v| v.size).sum::<u64>();
    let progress = Progress::bytes("check", Some(total));
    let mut done = 0;
    for tree in state.trees.values() {
        f.about(Some(&tree.name));
        check_tree(names, tree, f, &progress, &mut done)?;
    }
    f.about(None);
    log::check(names, state, f);
    other_stores(names, number, state)?.into_iter().for_each(|e| f.add_as(FindingKind::Foreign, e));
    let live: BTreeSet<u64> = trees().flat_map(TreeState::files).collect();
    let all: BTreeSet<u64> = names.numbers(table_number)?.into_iter().collect();
    let of_values = names.blob_file_ids();
    let dead = |values| {
        all.iter().filter(|id| !live.contains(id) && of_values.contains(id) == values).count()
            as u64
    };
    let both = [
        (dead(false), things(dead(false), "table", "tables")),
        (dead(true), things(dead(true), "blob file", "blob files")),
    ];
    for (_, files) in both.iter().filter(|b| b.0 > 0) {
        f.notes.push(format!("the directory holds {files} that the store does not know: the next open for writing removes those that are not the store's"));
    }
    Ok(())
}

fn number_of(path: &Path) -> Option<u64> {
    table_number(path.file_name()?.to_str()?)
}

fn check_tree(
    names: &FileNames,
    tree: &TreeState,
    f: &mut Findings,
    progress: &Progress,
    done: &mut u64,
) -> Done {
    let (mut tables, mut runs) = (vec![], vec![]);
    for (i, run) in tree.runs.iter().enumerate() {
        for m in &run.tables {
            if let Some(path) = names.table(m.id).filter(|path| io::is_file(path)) {
                match table::check(&path, m.ingested_seq, Some(m), f) {
                    Ok(Some(t)) => {
                        table::check_meta(&t, m, &path, f);
                        tables.push(t);
                        runs.push(i);
                    }
                    Ok(None) => {}
                    // The table was removed by a writer, is unreadable or has a newer version:
                    // check the other files.
                    Err(Failure::Engine(e)) if e.kind() == ErrorKind::NotFound => {
                        missing(names, m, f)
                    }
                    Err(Failure::Engine(e))
                        if matches!(e.kind(), ErrorKind::Io | ErrorKind::Incompatible) =>
                    {
                        f.add_in(&path, e.keys(&m.first_key, &m.last_key));
                    }
                    Err(e) => return Err(e),
                }
            } else {
                missing(names, m, f);
            }
            *done += m.size;
            progress.at(*done);
        }
    }
    check_tree_values(names, tree, &tables, f, &mut |n| {
        *done += n;
        progress.at(*done);
    })?;
    if tree.runs.len() > 1 { table::check_age(tree, &tables, &runs, f) } else { Ok(()) }
}

/// Checks the blob files of a tree, and the references of its sound tables.
fn check_tree_values(
    names: &FileNames,
    tree: &TreeState,
    tables: &[Arc<Table>],
    f: &mut Findings,
    step: &mut dyn FnMut(u64),
) -> Done {
    let (mut open, mut lost) = (vec![], BTreeSet::new());
    for v in tree.values.values() {
        let path = names.table(v.id).filter(|path| io::is_file(path));
        match path.map(|path| env().open_read(&path, false).map(|file| (path, file))) {
            Some(Ok((path, file))) => open.push((v, path, file)),
            Some(Err(e)) if e.kind() != ErrorKind::NotFound => {
                lost.insert(v.id);
                f.add_in(&table_path(names.dir(), v.id), e);
            }
            _ => {
                lost.insert(v.id);
                let used = tree.uses().get(&v.id).map_or(0, |u| u.values);
                let words = format!(
                    "{}; tables refer to {} in it",
                    why_missing(names, &table_path(names.dir(), v.id), "blob file"),
                    things(used, "value", "values")
                );
                let e = Error::corruption(words).in_file(table_path(names.dir(), v.id));
                f.add_as(FindingKind::Missing, e);
            }
        }
    }
    let files = StoreBlobs::of(names);
    let (mut reported, all_sound) = (BTreeSet::new(), tables.len() == tree.tables().count());
    for t in tables.iter().filter(|t| !t.properties().values.is_empty()) {
        reported.extend(table::check_blob_references(t, tree, &files, &lost, f)?);
    }
    for (v, path, file) in open {
        match table::check_values(file, &path, v.id, Some(v), (&reported, all_sound), f) {
            Err(Failure::Engine(e))
                if matches!(e.kind(), ErrorKind::Io | ErrorKind::Incompatible) =>
            {
                f.add_in(&path, e);
            }
            done => done?,
        }
        step(v.size);
    }
    Ok(())
}

/// Returns the reason why a live file is missing.
fn why_missing(names: &FileNames, path: &Path, what: &str) -> String {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    match names.misnamed_content(name) {
        Some(content) => format!("a live {what} is missing: the file of its name holds {content}"),
        None => match io::not_a_file(path) {
            Some(other) => format!(
                "a live {what} is missing: there is {other} of its name, which has to be moved away"
            ),
            None => format!("a live {what} is missing"),
        },
    }
}

/// Adds the finding that a live table is missing.
fn missing(names: &FileNames, m: &TableMeta, f: &mut Findings) {
    let path = table_path(names.dir(), m.id);
    let why = why_missing(names, &path, "table");
    let words = format!("{why}; it had {}", things(m.entries, "entry", "entries"));
    f.add_as(
        FindingKind::Missing,
        Error::corruption(words).in_file(&path).keys(&m.first_key, &m.last_key),
    );
}

/// Checks the tables of a directory without a manifest, each by itself.
fn check_loose_tables(dir: &Path, f: &mut Findings) -> Done {
    let mut names = FileNames::of(dir)?;
    names.apply_manifest(None)?;
    for t in names.findings() {
        f.add_as(if t.foreign { FindingKind::Foreign } else { FindingKind::Misnamed }, t.error);
    }
    f.notes.extend(names.stray_notes());
    for id in names.numbers(table_number)? {
        let Some(path) = names.table(id).filter(|path| io::is_file(path)) else { continue };
        match table::check(&path, 0, None, f) {
            Err(Failure::Engine(e))
                if matches!(
                    e.kind(),
                    ErrorKind::Io | ErrorKind::Incompatible | ErrorKind::NotFound
                ) =>
            {
                f.add_in(&path, e);
            }
            done => drop(done?),
        }
    }
    Ok(())
}

/// Lets the engine open and read the store. Adds its error as a finding unless the findings already
/// name that file.
fn check_opening(dir: &Path, f: &mut Findings) {
    let opened = opening::open_and_read(dir);
    (f.opens, f.opens_to_read, f.read) = (Some(opened.opens), opened.opens_to_read, opened.entries);
    f.notes.extend(opened.notes);
    if f.definitions.iter().next().is_none() {
        f.definitions = opened.definitions;
    }
    for tree in opened.undefined {
        let (words, _) = loss::words_of_undefined(&tree);
        f.about(Some(&tree));
        f.add_as(FindingKind::Undefined, Error::corruption(words).in_file(dir));
    }
    for (tree, e) in opened.errors {
        let known = f.all.iter().any(|x| x.error.file().is_some() && x.error.file() == e.file());
        // Missing and damaged files are already reported; an engine error in another file follows
        // from them.
        if known || (!opened.opens && !f.all.is_empty() && e.kind() == ErrorKind::Corruption) {
            continue;
        }
        f.about(tree.as_deref());
        let kind = match FindingKind::of(&e) {
            FindingKind::Damaged | FindingKind::Newer => FindingKind::Refused,
            kind => kind,
        };
        f.add_as(kind, e);
    }
    f.about(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `confirm_findings` on these readings; the last one repeats.
    fn readings(all: &[&[&str]]) -> Findings {
        let mut left = all.iter();
        let mut now: &[&str] = &[];
        let found = confirm_findings(|| {
            now = left.next().unwrap_or(&now);
            let mut f = Findings { opens: Some(now.is_empty()), ..Findings::default() };
            now.iter().for_each(|words| f.add(Error::corruption(*words)));
            Ok(f)
        });
        found.unwrap()
    }

    fn words(f: &Findings) -> Vec<&str> {
        f.all.iter().map(|x| x.error.message()).collect()
    }

    #[test]
    fn findings_that_differ_each_time_are_no_damage() {
        let f = readings(&[&["a"], &["b"], &[]]);
        assert!(f.all.is_empty() && f.notes.is_empty() && f.opens == Some(true));
        let f = readings(&[&["a"], &["b", "c"], &["b", "c"]]);
        assert!(words(&f) == ["b", "c"] && f.notes.is_empty());
        let moving: Vec<String> = (0..50).map(|i| format!("missing {i}")).collect();
        let alone: Vec<[&str; 1]> = moving.iter().map(|m| [m.as_str()]).collect();
        let alone: Vec<&[&str]> = alone.iter().map(|m| &m[..]).collect();
        let f = readings(&alone);
        assert!(f.all.is_empty() && f.opens.is_none(), "{:?}", words(&f));
        assert!(
            f.notes[0].contains("1 finding is left out that only the last one had"),
            "{:?}",
            f.notes
        );
        let both: Vec<[&str; 2]> = moving.iter().map(|m| [m.as_str(), "stays"]).collect();
        let both: Vec<&[&str]> = both.iter().map(|m| &m[..]).collect();
        let f = readings(&both);
        assert!(words(&f) == ["stays"] && f.opens == Some(false) && f.notes.len() == 1);
    }
}
