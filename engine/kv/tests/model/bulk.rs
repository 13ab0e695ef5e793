//! Bulk steps: ingestion, export and import, `drop_range`, and the listing of tables.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use firn_kv::{ErrorKind, Tree};
use firn_testkit::history::{Filler, HistoryKey, Span, Write};

use super::{Runner, tree_name};
use crate::model::compare::{Outcome, ensure, refused};

/// An exported file and the pairs in it.
pub(super) struct Exported {
    file: PathBuf,
    pairs: Vec<(HistoryKey, Vec<u8>)>,
}

impl Runner<'_> {
    pub(super) fn ingest(
        &mut self,
        t: &Tree,
        tree: usize,
        pairs: &[(HistoryKey, Filler)],
    ) -> Outcome {
        let pairs: Vec<(&[u8], Arc<[u8]>)> =
            pairs.iter().map(|(k, v)| (&k[..], v.bytes().into())).collect();
        let n = t.ingest(pairs.iter().map(|(k, v)| (*k, v)))?;
        ensure(n == pairs.len() as u64, || {
            format!("{n} pairs were loaded instead of {}", pairs.len())
        })?;
        self.oracle.load(tree, pairs.iter().cloned());
        if let [.., (last, value)] = &pairs[..] {
            // A refused ingestion leaves no entries.
            let twice = pairs.iter().map(|(k, v)| (*k, v)).chain([(*last, value)]);
            refused("a key twice", t.ingest(twice), ErrorKind::InvalidArgument)?;
        }
        Ok(())
    }

    pub(super) fn export(&mut self, t: &Tree, tree: usize, slot: usize, span: &Span) -> Outcome {
        self.copies += 1;
        let file = self.place.dir.with_extension(format!("export{}", self.copies));
        let pairs = self.items(tree, span, None);
        let n = t.export(span.bounds(), &file)?;
        ensure(n == pairs.len() as u64, || {
            format!("{n} pairs were exported instead of {}", pairs.len())
        })?;
        refused(
            "an export to an existing file",
            t.export(span.bounds(), &file),
            ErrorKind::InvalidArgument,
        )?;
        if let Some(old) = self.exports[slot].replace(Exported { file, pairs }) {
            self.place.env.remove(&old.file)?;
        }
        Ok(())
    }

    /// Imports a file into any tree. Later operands are folded into the imported values.
    pub(super) fn import(&mut self, t: &Tree, tree: usize, slot: usize) -> Outcome {
        let Some(from) = &self.exports[slot] else { return Ok(()) };
        let n = t.import(&from.file)?;
        ensure(n == from.pairs.len() as u64, || {
            format!("{n} pairs were imported instead of {}", from.pairs.len())
        })?;
        self.oracle.load(tree, from.pairs.iter().map(|(k, v)| (&k[..], v.as_slice().into())));
        Ok(())
    }

    /// Removes the exported files.
    pub(super) fn remove_exports(&mut self) {
        for e in self.exports.iter_mut().filter_map(Option::take) {
            let _ = self.place.env.remove(&e.file);
        }
    }

    pub(super) fn drop_range(
        &mut self,
        t: &Tree,
        tree: usize,
        from: &HistoryKey,
        to: &HistoryKey,
    ) -> Outcome {
        t.drop_range(from..to)?;
        self.oracle.write(
            tree,
            &Write::DeleteRange(Span {
                from: Bound::Included(from.clone()),
                to: Bound::Excluded(to.clone()),
            }),
        );
        Ok(())
    }

    /// Checks the list of tables: it is ordered by run, within a run by key, and agrees with the
    /// statistics of runs.
    pub(super) fn tables(&self, t: &Tree, tree: usize) -> Outcome {
        let tables = t.tables()?;
        for table in &tables {
            let words = || format!("an invalid table: {table:?}");
            ensure(table.first_key <= table.last_key && table.min_seq <= table.max_seq, words)?;
            ensure(table.max_seq <= self.oracle.now() && table.bytes > 0, words)?;
        }
        for pair in tables.windows(2) {
            let fine = (pair[0].level, pair[0].run) != (pair[1].level, pair[1].run)
                || pair[0].last_key <= pair[1].first_key;
            ensure(fine, || format!("overlapping tables in one run: {pair:?}"))?;
        }
        if self.setup.db.background_threads == 0 {
            let stats = self.db()?.stats();
            let stats = stats.trees.iter().find(|s| s.name == tree_name(tree));
            let runs = stats.map(|s| {
                s.runs
                    .iter()
                    .map(|r| (r.number, r.level, r.tables, r.bytes, r.entries))
                    .collect::<Vec<_>>()
            });
            let listed = tables.chunk_by(|a, b| (a.level, a.run) == (b.level, b.run)).map(|run| {
                let sum = |of: fn(&firn_kv::TableInfo) -> u64| run.iter().map(of).sum();
                (run[0].run, run[0].level, run.len(), sum(|t| t.bytes), sum(|t| t.entries))
            });
            let listed: Vec<_> = listed.collect();
            ensure(runs.as_ref() == Some(&listed), || {
                format!("the statistics show runs {runs:?}, the list of tables {listed:?}")
            })?;
        }
        t.flush()?;
        let tables = t.tables()?;
        let all = self.items(tree, &Span::all(), None);
        let lost = all
            .iter()
            .map(|(k, _)| k)
            .find(|k| tables.iter().all(|t| **k < t.first_key || **k > t.last_key));
        ensure(lost.is_none(), || format!("a key in no table after a flush: {lost:?}"))
    }
}
