//! Steps of transactions.

use firn_kv::{Durability, ErrorKind};
use firn_testkit::history::Op;

use super::Runner;
use crate::compare::{Failure, Outcome, ensure, same, same_pair};

impl Runner<'_> {
    pub(super) fn transaction(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Begin { slot } => {
                let tx = self.db()?.transaction();
                self.abort(*slot);
                self.open.transactions[*slot] = Some((tx, self.oracle.begin()));
                Ok(())
            }
            Op::Abort { slot } => {
                self.abort(*slot);
                Ok(())
            }
            Op::Commit { slot, power } => self.commit(*slot, *power),
            Op::Retry { tree, key, value, disturb } => self.retry(*tree, key, &value.bytes(), *disturb),
            op => self.in_transaction(op),
        }
    }

    pub(super) fn abort(&mut self, slot: usize) {
        if let Some((_, tx)) = self.open.transactions[slot].take() {
            self.oracle.abort(tx);
        }
    }

    pub(super) fn commit(&mut self, slot: usize, power: bool) -> Outcome {
        let Some((mut tx, model)) = self.open.transactions[slot].take() else { return Ok(()) };
        if power {
            tx.set_durability(Durability::Power);
        }
        let fine = self.oracle.commit(model);
        match tx.commit() {
            Ok(()) => ensure(fine, || "a commit that should have met a conflict".into()),
            Err(e) if e.kind() == ErrorKind::Conflict => ensure(!fine, || format!("a conflict where none was expected: {e}")),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn in_transaction(&mut self, op: &Op) -> Outcome {
        let (Op::TxGet { slot, tree, .. }
        | Op::TxScan { slot, tree, .. }
        | Op::TxPut { slot, tree, .. }
        | Op::TxDelete { slot, tree, .. }) = op
        else {
            return Err(Failure(format!("nobody does {op:?}")));
        };
        let (Some(t), Some((tx, model))) = (&self.open.trees[*tree], &mut self.open.transactions[*slot]) else { return Ok(()) };
        match op {
            Op::TxGet { key, .. } => {
                let want = model.get(&self.oracle, *tree, key);
                same("get in a transaction", tx.get(t, key)?.as_deref(), want.as_deref())
            }
            Op::TxScan { span, .. } => {
                let want = model.range(&self.oracle, *tree, span);
                let got = tx.range::<&[u8]>(t, span.bounds())?;
                let mut got = got.iter().map(|(k, v)| (k.as_slice(), &**v));
                for (k, v) in &want {
                    same_pair("range in a transaction", got.next(), Some((k, v)))?;
                }
                same_pair("the end of a range in a transaction", got.next(), None)
            }
            Op::TxPut { key, value, .. } => {
                let value = value.bytes();
                tx.put(t, key, &value)?;
                model.put(*tree, key, Some(value));
                Ok(())
            }
            Op::TxDelete { key, .. } => {
                tx.delete(t, key)?;
                model.put(*tree, key, None);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads and replaces a key in the retrying loop; `disturb`: somebody writes the key during the first try.
    pub(super) fn retry(&mut self, tree: usize, key: &[u8], value: &[u8], disturb: bool) -> Outcome {
        let Some(t) = &self.open.trees[tree] else { return Ok(()) };
        let mut tries = 0;
        let seen = self.db()?.transact(3, |tx| {
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
            let mut tx = self.oracle.begin();
            tx.put(tree, key, Some(v.to_vec()));
            self.oracle.commit(tx);
        }
        Ok(())
    }
}
