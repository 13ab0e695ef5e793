//! Steps that concern the whole store: crashes, checkpoints, other openings, statistics, and
//! refused calls.

use std::path::Path;
use std::sync::Arc;

use firn_crash::{CrashEnv, Cut};
use firn_kv::{Batch, Db, DbOptions, ErrorKind, MAX_KEY_LEN, Tree};
use firn_testkit::history::{HistoryEnds, Span, TREES};

use super::{Runner, SNAPSHOT, tree_name};
use crate::model::compare::{Failure, Outcome, ensure, refused};
use crate::model::setup::HOOKED;

impl Runner<'_> {
    pub(super) fn size(&self, t: &Tree, tree: usize, from: &[u8], to: &[u8]) -> Outcome {
        let size = t.approximate_size(from..to)?;
        ensure(from < to || size == 0, || format!("an empty range of {size} bytes"))?;
        if self.setup.db.background_threads == 0 {
            let stats = self.db()?.stats();
            let name = tree_name(tree);
            let own = stats.trees.iter().filter(|t| t.name == name);
            let all: u64 =
                own.map(|t| t.blobs.live_bytes + t.runs.iter().map(|r| r.bytes).sum::<u64>()).sum();
            ensure(size <= all, || format!("a range of {size} bytes in tables of {all}"))?;
        }
        Ok(())
    }

    pub(super) fn refusals(&self, t: &Tree, tree: usize) -> Outcome {
        let long = vec![b'k'; MAX_KEY_LEN + 1];
        refused("a long key", t.put(&long, b""), ErrorKind::InvalidArgument)?;
        refused("a long end", t.delete_range(..&long), ErrorKind::InvalidArgument)?;
        let again = Db::open_in(self.place.env.clone(), &self.place.dir, self.setup.db.clone());
        refused("a second open", again, ErrorKind::Locked)?;
        let foreign = Db::open_in(
            Arc::new(CrashEnv::new(1)),
            "/other",
            DbOptions { background_threads: 0, ..self.setup.db.clone() },
        )?;
        let mut batch = Batch::new();
        batch.put(t, b"", b"")?;
        refused("another store's tree", foreign.write(batch), ErrorKind::InvalidArgument)?;
        let mut batch = Batch::new();
        batch.put(t, b"", b"")?;
        batch.clear();
        foreign.write(batch)?;
        let mut other = self.setup.tree_options(tree, 0);
        other.merge_operator = self.setup.tree_options(5 - tree.max(2), 0).merge_operator;
        if HOOKED[tree] {
            refused(
                "another hook",
                self.db()?.tree(&tree_name(tree), other),
                ErrorKind::Incompatible,
            )?;
        }
        Ok(())
    }

    pub(super) fn stats(&self) -> Outcome {
        let stats = self.db()?.stats();
        let mut names: Vec<&str> = stats.trees.iter().map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        let want: Vec<String> = (0..TREES).filter(|t| self.oracle.has(*t)).map(tree_name).collect();
        ensure(names == want, || format!("trees {names:?}, expected {want:?}"))?;
        let now = self.oracle.now();
        ensure(stats.seq == now, || format!("sequence number {}, expected {now}", stats.seq))?;
        let taken = self.taken.iter().filter(|t| t.0.strong_count() > 0);
        let (named, taken) = (taken.clone().filter(|t| t.1).count(), taken.count());
        let reported = stats.snapshots.iter().filter(|s| s.name == SNAPSHOT).count();
        ensure(reported == named, || {
            format!("{reported} snapshots have a name, expected {named}")
        })?;
        let holds = taken + self.open.transactions.iter().flatten().count();
        ensure(stats.snapshots.len() == holds, || {
            format!("{} snapshots, expected {holds}", stats.snapshots.len())
        })?;
        for t in &stats.trees {
            for r in &t.runs {
                ensure(r.tables > 0 && r.bytes > 0, || {
                    format!("an empty run in {}: {r:?}", t.name)
                })?;
                ensure(r.deletes <= r.entries, || format!("more deletes than entries: {r:?}"))?;
            }
        }
        ensure(stats.memory.budget == self.setup.db.memory_budget as u64, || {
            "another memory budget".into()
        })
    }

    pub(super) fn verify(&self) -> Outcome {
        let mut last = (0, 0);
        let found = self.db()?.verify(|done, all| last = (done, all))?;
        ensure(found.errors.is_empty(), || format!("verify found {:?}", found.errors))?;
        ensure(last.0 == last.1 && found.bytes == last.0, || {
            format!("verify read {} of {} bytes", last.0, last.1)
        })
    }

    /// Simulates a crash of the store and opens the result.
    pub(super) fn crash(&mut self, cut: &Cut) -> Outcome {
        let next = self.place.after_crash(self.setup, cut).map_err(|e| Failure(e.to_string()))?;
        self.close();
        if let Some(next) = next {
            self.place = next;
        }
        self.open()
    }

    pub(super) fn checkpoint(&mut self) -> Outcome {
        self.copies += 1;
        let dir = self.place.dir.with_extension(format!("copy{}", self.copies));
        self.db()?.checkpoint(&dir)?;
        let result = self.look_at_copy(&dir);
        let env = &self.place.env;
        for name in env.list(&dir)? {
            // A table may be removed by then if its last reader has released it. This happens when
            // the epoch advances.
            match env.remove(&dir.join(name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
        env.remove_dir(&dir)?;
        result
    }

    pub(super) fn look_at_copy(&self, dir: &Path) -> Outcome {
        let db = Db::open_in(self.place.env.clone(), dir, self.setup.db.clone())?;
        let trees = self.same_store("checkpoint", &db)?;
        ensure(db.stats().seq == self.oracle.now(), || {
            "a checkpoint has another sequence number".into()
        })?;
        if let Some((t, n)) = trees.iter().zip(0..).next() {
            t.put(b"only in the copy", b"")?;
            t.compact()?;
            ensure(t.contains(b"only in the copy")?, || {
                format!("a write to the copy of tree {n} was lost")
            })?;
        }
        Ok(())
    }

    pub(super) fn read_only(&self) -> Outcome {
        let options = DbOptions { read_only: true, ..self.setup.db.clone() };
        let db = Db::open_in(self.place.env.clone(), &self.place.dir, options)?;
        let trees = self.same_store("read-only", &db)?;
        ensure(db.is_read_only() && !self.db()?.is_read_only(), || {
            "`is_read_only` returned a wrong value".into()
        })?;
        // A refresh passes the hooks on.
        let again = db.refresh()?;
        for before in &trees {
            let (name, t) = (before.name(), again.existing_tree(before.name())?);
            let same = t.iter().map(|i| i.ok()).eq(before.iter().map(|i| i.ok()));
            ensure(same, || format!("tree {name} changed in a refresh without new data"))?;
        }
        trees.iter().try_for_each(|t| {
            refused("a write to a read-only store", t.put(b"k", b""), ErrorKind::ReadOnly)
        })
    }

    /// Compares another store with the current state.
    pub(super) fn same_store(&self, what: &str, db: &Db) -> Outcome<Vec<Tree>> {
        let mut trees = vec![];
        for tree in (0..TREES).filter(|t| self.oracle.has(*t)) {
            let t =
                db.tree(&tree_name(tree), self.setup.tree_options(tree, self.variants[tree]))?;
            for ends in [HistoryEnds::Front, HistoryEnds::Back] {
                self.scan(tree, &Span::all(), t.iter(), ends, usize::MAX, None)
                    .map_err(|Failure(words)| Failure(format!("{what}, tree {tree}: {words}")))?;
            }
            trees.push(t);
        }
        ensure(db.tree_names().len() == trees.len(), || {
            format!("{what}: trees {:?}", db.tree_names())
        })?;
        Ok(trees)
    }
}
