//! Steps in transactions.

use firn_kv::{Durability, ErrorKind};
use firn_testkit::history::HistoryOp;

use super::Runner;
use crate::model::compare::{Failure, Outcome, ensure, same, same_item};

impl Runner<'_> {
    pub(super) fn transaction(&mut self, op: &HistoryOp) -> Outcome {
        match op {
            HistoryOp::Begin { slot } => {
                let tx = self.db()?.transaction();
                self.abort(*slot);
                self.open.transactions[*slot] = Some((tx, self.oracle.begin()));
                Ok(())
            }
            HistoryOp::Abort { slot } => {
                self.abort(*slot);
                Ok(())
            }
            HistoryOp::Commit { slot, power } => self.commit(*slot, *power),
            HistoryOp::Retry { tree, key, value, disturb } => {
                self.retry(*tree, key, &value.bytes(), *disturb)
            }
            op => self.in_transaction(op),
        }
    }

    pub(super) fn abort(&mut self, slot: usize) {
        if let Some((_, tx)) = self.open.transactions[slot].take() {
            self.oracle.abort(tx);
        }
    }

    pub(super) fn commit(&mut self, slot: usize, power: bool) -> Outcome {
        let Some((tx, model)) = self.open.transactions[slot].take() else { return Ok(()) };
        let tx = if power { tx.with_durability(Durability::Power) } else { tx };
        let done = match tx.commit() {
            Err(e) if e.kind() != ErrorKind::Conflict => return Err(e.into()),
            done => done,
        };
        let says = done.as_ref().map_or_else(ToString::to_string, |()| "no conflict".into());
        self.oracle.commit(model, done.is_ok()).map_err(|wrong| Failure(format!("{wrong}: {says}")))
    }

    pub(super) fn in_transaction(&mut self, op: &HistoryOp) -> Outcome {
        let (HistoryOp::TxGet { slot, tree, .. }
        | HistoryOp::TxScan { slot, tree, .. }
        | HistoryOp::TxPut { slot, tree, .. }
        | HistoryOp::TxDelete { slot, tree, .. }
        | HistoryOp::TxDeleteRange { slot, tree, .. }) = op
        else {
            return Err(Failure(format!("unhandled step {op:?}")));
        };
        let (Some(t), Some((tx, model))) =
            (&self.open.trees[*tree], &mut self.open.transactions[*slot])
        else {
            return Ok(());
        };
        match op {
            HistoryOp::TxGet { key, .. } => {
                let want = model.get(&self.oracle, *tree, key);
                same("get in a transaction", tx.get(t, key)?.as_deref(), want.as_deref())
            }
            HistoryOp::TxScan { span, back, limit, .. } => {
                let want = model.range(&self.oracle, *tree, span, *back, *limit);
                let mut got = tx.range(t, span.bounds());
                let mut step = || if *back { got.next_back() } else { got.next() };
                for (k, v) in &want {
                    same_item("range in a transaction", step(), Some((k, v)))?;
                }
                if want.len() < *limit {
                    same_item("the end of a range in a transaction", step(), None)?;
                }
                Ok(())
            }
            HistoryOp::TxPut { key, value, .. } => {
                let value = value.bytes();
                tx.put(t, key, &value)?;
                model.put(*tree, key, Some(value));
                Ok(())
            }
            HistoryOp::TxDelete { key, .. } => {
                tx.delete(t, key)?;
                model.put(*tree, key, None);
                Ok(())
            }
            HistoryOp::TxDeleteRange { span, .. } => {
                tx.delete_range(t, span.bounds())?;
                model.delete_range(*tree, span);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads and replaces a key with the retry loop. With `disturb`, another write changes the key
    /// during the first attempt.
    pub(super) fn retry(
        &mut self,
        tree: usize,
        key: &[u8],
        value: &[u8],
        disturb: bool,
    ) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        let mut tries = 0;
        let seen = self.db()?.transact(|tx| {
            tries += 1;
            let seen = tx.get(t, key)?.map(|v| v.to_vec());
            if disturb && tries == 1 {
                t.put(key, b"disturbed")?;
            }
            tx.put(t, key, value)?;
            Ok(seen)
        })?;
        ensure(tries == 1 + usize::from(disturb), || format!("{tries} tries"))?;
        let before = self.oracle.get(tree, key, self.oracle.now());
        let want = if disturb { Some(&b"disturbed"[..]) } else { before };
        same("get in the retrying loop", seen.as_deref(), want)?;
        for v in disturb.then_some(&b"disturbed"[..]).into_iter().chain([value]) {
            self.oracle.set(tree, key, Some(v.into()));
        }
        Ok(())
    }
}
