//! Steps of a thread that write.

use firn_kv::{Batch, Durability, Tree};

use super::check::check_value;
use super::error::{Checked, wrong};
use super::expected::{ExpectedChange, ExpectedOp, touched};
use super::layout::{ROLES, ROWS};
use super::steps::StepMode;
use super::tables::Tables;
use super::worker::TortureWorker;

impl TortureWorker {
    /// Executes the changes of a step.
    pub fn write(&self, how: StepMode, changes: &[ExpectedChange], tables: &Tables) -> Checked {
        let s = &*self.shared;
        match (how, changes) {
            (StepMode::Single, [change]) => single(s.trees(), change)?,
            (StepMode::SingleSynced, [change]) => match change.op {
                ExpectedOp::Set { index, version } => {
                    let tree = s.trees()[change.tree].with_durability(Durability::Power);
                    tree.put(&change.key(index), &change.value(index, version))?;
                }
                _ => s.db.with_durability(Durability::Power).write(batch(s.trees(), changes)?)?,
            },
            (StepMode::BatchSynced, _) => {
                s.db.with_durability(Durability::Power).write(batch(s.trees(), changes)?)?
            }
            (StepMode::Transaction, _) => self.transaction(changes)?,
            (StepMode::OneStep, [change]) => self.one_step(change)?,
            (StepMode::DropRange, [change]) => {
                let (from, to) = range_of(change)?;
                s.trees()[change.tree].drop_range(&from..&to)?;
            }
            (StepMode::Ingest, [first, ..]) => {
                let pairs = changes.iter().filter_map(|c| match c.op {
                    ExpectedOp::Set { index, version } => {
                        Some((c.key(index), c.value(index, version)))
                    }
                    _ => None,
                });
                s.trees()[first.tree].ingest(pairs)?;
            }
            (StepMode::ExportImport, [change]) => self.export_import(change)?,
            (StepMode::RowNew, [change]) => {
                let is_new = matches!(change.op, ExpectedOp::SetNew { index, .. } if !self.keys(ROWS, change.shard).contains_key(&index));
                tables.write_new(change, is_new)?;
            }
            (StepMode::Row | StepMode::RowBatch | StepMode::RowRange | StepMode::Count, _) => {
                tables.write(changes)?
            }
            (StepMode::Role, [change]) => {
                tables.write_role(change, self.keys(ROLES, change.shard))?
            }
            (StepMode::DeleteRange, [change]) => single(s.trees(), change)?,
            _ => s.db.write(batch(s.trees(), changes)?)?,
        }
        Ok(())
    }

    /// Exports a range to a file, deletes it, and imports the file.
    fn export_import(&self, change: &ExpectedChange) -> Checked {
        let s = &*self.shared;
        let file = s.dir.join(format!("exported-{}", self.thread));
        // A killed thread leaves its file.
        let _ = s.env.remove(&file);
        let (tree, (from, to)) = (&s.trees()[change.tree], range_of(change)?);
        let exported = tree.export(from.clone()..to.clone(), &file)?;
        tree.delete_range(&from..&to)?;
        // An import of no entries is refused.
        let imported = if exported > 0 { tree.import(&file)? } else { 0 };
        s.env.remove(&file)?;
        if exported != imported {
            return wrong(format!("{exported} keys were exported, {imported} imported"));
        }
        Ok(())
    }

    /// Writes a change by a call that first reads the value. It must be the expected one, because
    /// no other thread writes the key.
    fn one_step(&self, change: &ExpectedChange) -> Checked {
        let (index, new) = match change.op {
            ExpectedOp::Set { index, version } => (index, Some(change.value(index, version))),
            ExpectedOp::Unset { index } => (index, None),
            other => return wrong(format!("{other:?} is no change of one key")),
        };
        let ExpectedChange { tree, shard, .. } = *change;
        let (t, k) = (&self.shared.trees()[tree], change.key(index));
        let expected = self.keys(tree, shard).get(&index).copied();
        let found = match (expected, &new) {
            (None, Some(new)) => t.insert_if_absent(&k, new)?,
            (Some(_), Some(new)) => t.update(&k, |_| Some(new.clone()))?.old,
            (_, None) => {
                let found = t.get(&k)?;
                if t.compare_and_swap(&k, found.as_deref(), None)?.is_err() {
                    return wrong(format!(
                        "somebody else has written key {index} of shard {shard}"
                    ));
                }
                found
            }
        };
        check_value("in one step", tree, shard, index, expected, found.as_deref())
    }

    /// Writes changes by a transaction that first reads the keys. No other thread writes these
    /// keys, so it never conflicts.
    fn transaction(&self, changes: &[ExpectedChange]) -> Checked {
        let s = &*self.shared;
        let mut shards = touched(changes, |shard| self.shards.get(&shard));
        let mut tx = s.db.transaction();
        for c in changes {
            let (ExpectedOp::Set { index, .. } | ExpectedOp::Unset { index }) = c.op else {
                continue;
            };
            let (tree, k) = (&s.trees()[c.tree], c.key(index));
            let got = tx.get(tree, &k)?;
            let expected = shards.get(&c.shard).and_then(|s| s[c.tree].get(&index)).copied();
            check_value("in a transaction", c.tree, c.shard, index, expected, got.as_deref())?;
            match c.op {
                ExpectedOp::Set { version, .. } => tx.put(tree, &k, &c.value(index, version))?,
                _ => tx.delete(tree, &k)?,
            }
            if let Some(shard) = shards.get_mut(&c.shard) {
                c.apply(shard);
            }
        }
        Ok(tx.commit()?)
    }
}

/// Returns the keys at the start and the end of a removed range.
fn range_of(change: &ExpectedChange) -> Checked<(Vec<u8>, Vec<u8>)> {
    match change.op {
        ExpectedOp::UnsetRange { from, to } => Ok((change.key(from), change.key(to))),
        other => wrong(format!("{other:?} is no range")),
    }
}

fn single(trees: &[Tree], c: &ExpectedChange) -> Checked {
    let tree = &trees[c.tree];
    match c.op {
        ExpectedOp::Set { index, version } => {
            tree.put(&c.key(index), &c.value(index, version))?;
        }
        ExpectedOp::Unset { index } => tree.delete(&c.key(index))?,
        ExpectedOp::Add { index, by } => tree.merge(&c.key(index), &by.to_le_bytes())?,
        ExpectedOp::UnsetRange { from, to } => tree.delete_range(&c.key(from)..&c.key(to))?,
        ExpectedOp::SetNew { .. } | ExpectedOp::Role { .. } => return no_tree(),
    }
    Ok(())
}

fn batch(trees: &[Tree], changes: &[ExpectedChange]) -> Checked<Batch> {
    let mut b = Batch::new();
    for c in changes {
        let tree = &trees[c.tree];
        match c.op {
            ExpectedOp::Set { index, version } => {
                b.put(tree, &c.key(index), &c.value(index, version))?;
            }
            ExpectedOp::Unset { index } => b.delete(tree, &c.key(index))?,
            ExpectedOp::Add { index, by } => b.merge(tree, &c.key(index), &by.to_le_bytes())?,
            ExpectedOp::UnsetRange { from, to } => {
                b.delete_range(tree, &c.key(from)..&c.key(to))?;
            }
            ExpectedOp::SetNew { .. } | ExpectedOp::Role { .. } => return no_tree(),
        }
    }
    Ok(b)
}

fn no_tree<T>() -> Checked<T> {
    wrong("rows and roles are not written to trees")
}
