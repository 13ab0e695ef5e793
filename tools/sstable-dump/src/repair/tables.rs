//! Takes over the tables of a store without a manifest: every table that may be live and does not
//! belong to another store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Trailer;
use firn_kv::internals::base::ops::TreeId;
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::sstable::{Table, TableCursor};
use firn_tools::io::remove;
use firn_tools::output::{Done, Progress, things};

use crate::history::owner::{self, StoreOwner};
use crate::repair::ages;
use crate::repair::context::RepairContext;
use crate::salvage::losses::Loss;
use crate::salvage::new_store::is_unreadable;
use crate::salvage::table::TakenTable;
use crate::store::blobs::StoreBlobs;
use crate::store::survey::survey;
use crate::store::target::{env, open_file, open_values, table_number};

/// Files that could be taken over.
pub struct TakenFiles {
    /// The new tables.
    pub tables: Vec<Arc<Table>>,
    /// Existing blob files, with the tree in their properties.
    pub blob_files: BTreeMap<u64, Option<TreeId>>,
    /// Whether a known table is missing.
    pub is_table_missing: bool,
}

/// Takes over every table that may be live and does not belong to another store.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn take_all(c: &mut RepairContext<'_>, owner: &StoreOwner) -> Done<TakenFiles> {
    let names = c.old.names;
    let ids = names.numbers(table_number)?;
    let progress = Progress::operations("repair", Some(ids.len() as u64));
    let (mut tables, mut unfinished, mut blob_files) = (vec![], vec![], BTreeMap::new());
    let foreign = c.history.foreign(names)?;
    for (i, &id) in ids.iter().enumerate() {
        progress.at(i as u64);
        let Some(path) = names.table(id).filter(|_| !c.history.dead.contains(&id)) else {
            continue;
        };
        let foreign = match owner.foreign_store(id) {
            Some(store) => Some(owner::foreign_reason(store)),
            None => foreign.contains(&id).then(|| {
                "the event log has another table with this number: this one is of another store or time".into()
            }),
        };
        if let Some(reason) = foreign {
            c.report.losses.push(Loss::table(path, &reason, None));
        } else if let Some(tree) = blob_file(&path, id) {
            blob_files.insert(id, tree);
        } else if let Some(taken) = take_table(c, &path, id)? {
            match &taken {
                TakenTable::Part(t, r)
                    if r.properties.is_none() && c.history.tree_of(id).is_none() =>
                {
                    unfinished.push((t.clone(), taken));
                }
                _ => {
                    let tree = c.history.tree_of(id);
                    let before = c.report.losses.len();
                    c.report.note(&taken, &path);
                    let its = taken.table().map(|t| t.properties().tree).or(tree);
                    c.report.losses[before..].iter_mut().for_each(|l| l.tree = l.tree.or(its));
                    tables.extend(taken.table().cloned());
                }
            }
        }
    }
    note_other_writers(c, owner, &tables);
    let is_table_missing = report_missing(c, &ids.into_iter().collect());
    tables.retain(|t| {
        !c.history.dropped.contains(&t.properties().tree)
            || remove(&table_path(c.old.out, t.id())).is_err()
    });
    for (t, taken) in unfinished {
        tables.extend(take_unfinished(c, t, taken, &tables)?);
    }
    // A file to which tables refer is no table, however little of it remains. Their losses include
    // it.
    let used = tables.iter().flat_map(|t| &t.properties().values).map(|u| u.file);
    let used: BTreeSet<PathBuf> = used.map(|id| names.path_of(id)).collect();
    c.report.losses.retain(|l| l.what == "log" || !used.contains(&l.file));
    Ok(TakenFiles { tables, blob_files, is_table_missing })
}

/// Takes over one table. Returns `None` if it is unreadable, or empty and of no known tree.
fn take_table(c: &mut RepairContext<'_>, path: &Path, id: u64) -> Done<Option<TakenTable>> {
    let tree = c.history.tree_of(id);
    let taken = match c.take(path, id, tree.unwrap_or(0)) {
        Err(e) if is_unreadable(&e, path) => {
            c.report.losses.push(Loss::unreadable(&e, path));
            return Ok(None);
        }
        taken => taken?,
    };
    let is_nothing = matches!(taken, TakenTable::Nothing(_)) && tree.is_none();
    if !is_nothing || env().file_len(path)? > 0 {
        return Ok(Some(taken));
    }
    c.report.unknown.push(format!(
        "whether table {id}, which is empty, was never finished or has lost all that it held"
    ));
    Ok(None)
}

/// Returns the tree in the properties of blob file `id`, or `Some(None)` if they are lost. Returns
/// `None` if the file is no blob file, or if that cannot be determined any more.
fn blob_file(path: &Path, id: u64) -> Option<Option<TreeId>> {
    // An unreadable file is reported when it is read as a table.
    let file = env().open_read(path, false).ok()?;
    if let Ok(values) = open_values(file.clone(), path, id) {
        return Some(Some(values.properties().tree));
    }
    if open_file(file.clone(), path, id, 0).is_ok() {
        return None;
    }
    let s = survey(file, path, id).ok().filter(|s| s.is_of_values())?;
    Some(s.properties.map(|p| p.tree))
}

/// Notes the tables that another store wrote, of which there is no log here.
fn note_other_writers(c: &mut RepairContext<'_>, owner: &StoreOwner, tables: &[Arc<Table>]) {
    let mut others: BTreeMap<u64, u64> = BTreeMap::new();
    let stores = tables.iter().map(|t| t.identity().store);
    for store in stores.filter(|s| *s != 0 && Some(*s) != owner.id) {
        *others.entry(store).or_default() += 1;
    }
    c.report.notes.extend(others.into_iter().map(|(store, n)| {
        format!(
            "{} written by another store (id {store:016x}), of which there is no log here: taken, as a checkpoint keeps the tables of the \
             store that it was made of",
            things(n, "table was", "tables were")
        )
    }));
}

/// Reports tables that were live and are not in `all`, the existing ones. Returns whether there are
/// any.
fn report_missing(c: &mut RepairContext<'_>, all: &BTreeSet<u64>) -> bool {
    let missing: Vec<u64> = c.history.live().into_iter().filter(|id| !all.contains(id)).collect();
    // The sources may end before a compaction of the missing tables into the newest one.
    if c.history.by_name.values().flatten().max() < all.last() {
        let ids: Vec<String> = missing.iter().map(u64::to_string).collect();
        c.report.unknown.extend((!ids.is_empty()).then(|| {
            format!("whether table {} has been merged into newer ones, or is lost", ids.join(", "))
        }));
    } else {
        let reason = "the file is missing, and nothing shows that it was merged into others";
        let path = |id| table_path(c.old.names.dir(), id);
        let lost = missing.iter().map(|id| Loss::table(path(*id), reason, c.history.metas.get(id)));
        c.report.losses.extend(lost);
    }
    !missing.is_empty()
}

/// Reports whether `tables` contain every entry of `t`: the same key with the same value. Sequence
/// numbers are not compared, because compactions to the last level remove them.
fn are_entries_in(t: &Arc<Table>, tables: &[Arc<Table>], files: &StoreBlobs<'_>) -> Done<bool> {
    let mut others: Vec<_> = tables.iter().map(|t| t.cursor(false)).collect();
    let mut c = t.cursor(false);
    c.first()?;
    while c.valid() {
        let mut found = false;
        for o in &mut others {
            o.seek(c.key(), Trailer::NEWEST)?;
            while !found && o.valid() && o.key() == c.key() {
                let same = o.value() == c.value() && o.trailer().kind() == c.trailer().kind();
                found = same || {
                    let seen =
                        |c: &TableCursor| files.visible_value(c.key(), c.trailer(), c.value());
                    seen(o).ok().zip(seen(&c).ok()).is_some_and(|(a, b)| a == b)
                };
                o.next()?;
            }
        }
        if !found {
            return Ok(false);
        }
        c.next()?;
    }
    Ok(true)
}

/// Takes over a table without properties that no source mentions: it was never finished, or was
/// truncated. Leaves it out if the log or other tables have all its entries. Otherwise it belongs
/// to the tree whose tables share entries with it.
fn take_unfinished(
    c: &mut RepairContext<'_>,
    t: Arc<Table>,
    taken: TakenTable,
    tables: &[Arc<Table>],
) -> Done<Option<Arc<Table>>> {
    let id = t.id();
    let path = c.old.names.path_of(id);
    let p = t.properties();
    let (mut tree, mut contained) = (None, false);
    for candidate in tables.iter().map(|t| t.properties().tree).collect::<BTreeSet<_>>() {
        let of_tree = tables.iter().filter(|t| t.properties().tree == candidate);
        let its: Vec<_> = of_tree.chain([&t]).cloned().collect();
        if ages::compare(&its)?.shares(its.len() - 1) {
            tree = Some(candidate);
        }
        let others = &its[..its.len() - 1];
        contained |= p.range_deletes == 0 && are_entries_in(&t, others, c.old.files)?;
    }
    let seqs = &c.log.seqs;
    let logged = tree.is_none() && seqs.contains(&p.min_seq) && seqs.contains(&p.max_seq);
    if contained || logged {
        let place = if contained { "in other tables" } else { "in the log" };
        c.report.notes.push(format!(
            "table {id} is left out: it was not finished, or cut off, and all that is left of it is {place} too"
        ));
        c.remove_table(id)?;
        return Ok(None);
    }
    let Some(tree) = tree else {
        c.report.unknown.push(format!(
            "{}: its properties are lost, and with them the tree it belongs to: 0 is taken",
            path.display()
        ));
        c.report.note(&taken, &path);
        return Ok(Some(t));
    };
    drop((t, taken));
    c.remove_table(id)?;
    let taken = c.take(&path, id, tree)?;
    c.report.note(&taken, &path);
    Ok(taken.table().cloned())
}
