//! Steps that read and write atomically.

use firn_testkit::history::{HistoryOp, Span, Write};

use super::Runner;
use crate::model::compare::{Failure, Outcome, ensure, same};

impl Runner<'_> {
    pub(super) fn one_step(&mut self, op: &HistoryOp) -> Outcome {
        let (HistoryOp::Pop { tree, .. }
        | HistoryOp::InsertIfAbsent { tree, .. }
        | HistoryOp::Swap { tree, .. }
        | HistoryOp::Update { tree, .. }
        | HistoryOp::Clear { tree }) = op
        else {
            return Err(Failure(format!("unhandled step {op:?}")));
        };
        let n = *tree;
        let Some(t) = self.open.trees[n].clone() else { return Ok(()) };
        let there = |r: &Self, key: &[u8]| r.oracle.get(n, key, r.oracle.now()).map(<[u8]>::to_vec);
        match op {
            HistoryOp::Pop { back, .. } => {
                let all = self.items(n, &Span::all(), None);
                let want = if *back { all.last() } else { all.first() };
                let got = if *back { t.pop_last()? } else { t.pop_first()? };
                let got = got.map(|(k, v)| (k.to_vec(), v.to_vec()));
                ensure(got.as_ref() == want, || {
                    format!("popped another key: {:?}", got.as_ref().map(|g| g.0.escape_ascii()))
                })?;
                if let Some((key, _)) = got {
                    self.oracle.set(n, &key, None);
                }
            }
            HistoryOp::InsertIfAbsent { key, value, .. } => {
                let want = there(self, key);
                let got = t.insert_if_absent(key, value.bytes())?;
                same("insert_if_absent", got.as_deref(), want.as_deref())?;
                if want.is_none() {
                    self.oracle.set(n, key, Some(value.bytes().into()));
                }
            }
            HistoryOp::Swap { key, right, value, .. } => {
                let was = there(self, key);
                let old =
                    if *right { was.clone() } else { was.as_ref().map_or(Some(vec![7]), |_| None) };
                let new = value.map(|v| v.bytes());
                match t.compare_and_swap(key, old.as_deref(), new.as_deref())? {
                    Ok(()) => {
                        ensure(*right, || "a swap succeeded although the value differs".into())?;
                        self.oracle.set(n, key, new.map(Into::into));
                    }
                    Err(found) => {
                        ensure(!right, || "a swap failed although the value is equal".into())?;
                        same("compare_and_swap", found.as_deref(), was.as_deref())?;
                    }
                }
            }
            HistoryOp::Update { key, value, .. } => {
                let was = there(self, key);
                let new = value.map(|v| {
                    [was.as_deref().map_or(&b"-"[..], |w| &w[..w.len().min(3)]), &v.bytes()]
                        .concat()
                });
                let updated = t.update(key, |old| {
                    value.map(|v| {
                        [old.map_or(&b"-"[..], |w| &w[..w.len().min(3)]), &v.bytes()].concat()
                    })
                })?;
                same("the old value of an update", updated.old.as_deref(), was.as_deref())?;
                same("the new value of an update", updated.new.as_deref(), new.as_deref())?;
                self.oracle.set(n, key, new.map(Into::into));
            }
            _ => {
                t.clear()?;
                self.oracle.write(n, &Write::DeleteRange(Span::all()));
                ensure(t.is_empty()?, || "a cleared tree is not empty".into())?;
            }
        }
        Ok(())
    }
}
