//! Calls that read and write atomically, and reads of the first and last key of a tree.

use firn_kv::{Result, Value};
use firn_testkit::linear::{CallKind, KEYS, LinearChange, LinearHandle, LinearKey, LinearRead};

use super::{Caller, or_closed};
use crate::program::{Kind, Op};
use crate::record::{bytes_of, key, key_of, pieces_of};

/// Returns the observation that `found` is the first (or last) key of a tree.
fn edge(handle: LinearHandle, found: Option<&(Value, Value)>, last: bool) -> LinearRead {
    let pairs = found.iter().map(|(k, v)| (key_of(k), pieces_of(v))).collect();
    let at = found.map(|(k, _)| key_of(k));
    match (at, last) {
        (None, _) => LinearRead::Range(handle, 0, KEYS as LinearKey, pairs),
        (Some(k), false) => LinearRead::Range(handle, 0, k + 1, pairs),
        (Some(k), true) => LinearRead::Range(handle, k, KEYS as LinearKey, pairs),
    }
}

impl Caller {
    /// Records a call that may make `change`, and the reads and writes that it reports.
    fn step(
        &self,
        op: &Op,
        handle: LinearHandle,
        change: LinearChange,
        work: impl FnOnce() -> Result<CallKind>,
    ) {
        self.note(op, CallKind::Write(vec![(handle, change)]), false, || {
            or_closed(work(), &[handle])
        });
    }

    pub(super) fn one_step_call(&mut self, op: &Op) -> Option<()> {
        let a = &op.args;
        let writes = [
            Kind::PopFirst,
            Kind::PopLast,
            Kind::InsertIfAbsent,
            Kind::Swap,
            Kind::Update,
            Kind::Clear,
        ];
        if !writes.contains(&op.kind) && ![Kind::First, Kind::Last, Kind::Len].contains(&op.kind) {
            return None;
        }
        let t = self.held(a[0])?;
        let h = t.handle;
        let k = a.get(1).map_or(0, |k| *k as LinearKey);
        let pieces = |v: Option<&Value>| v.map(|v| pieces_of(v));
        match op.kind {
            Kind::PopFirst | Kind::PopLast => {
                let last = op.kind == Kind::PopLast;
                self.step(op, h, LinearChange::Pop(last), || {
                    let found = if last { t.tree.pop_last()? } else { t.tree.pop_first()? };
                    let look = vec![edge(h, found.as_ref(), last)];
                    Ok(match &found {
                        Some((k, _)) => {
                            CallKind::Commit(look, vec![(h, LinearChange::Delete(key_of(k)))])
                        }
                        None => CallKind::Read(look),
                    })
                });
            }
            Kind::InsertIfAbsent => {
                let piece = self.record.piece();
                self.step(op, h, LinearChange::Swap(k, None, Some(piece)), || {
                    let found = t.tree.insert_if_absent(key(a[1]), bytes_of(piece, 20))?;
                    let look = vec![LinearRead::Get(h, k, pieces(found.as_ref()))];
                    Ok(match found {
                        None => CallKind::Commit(look, vec![(h, LinearChange::Put(k, piece))]),
                        Some(_) => CallKind::Read(look),
                    })
                });
            }
            Kind::Swap => {
                // Compares the current value with the one to write.
                let old = t.tree.get(key(a[1])).ok()?;
                let piece = (a[2] > 1).then(|| self.record.piece());
                let new = piece.map(|p| bytes_of(p, 20));
                let was = pieces(old.as_ref());
                self.step(op, h, LinearChange::Swap(k, was.clone(), piece), || {
                    Ok(
                        match t.tree.compare_and_swap(key(a[1]), old.as_deref(), new.as_deref())? {
                            Ok(()) => {
                                let change = piece
                                    .map_or(LinearChange::Delete(k), |p| LinearChange::Put(k, p));
                                CallKind::Commit(
                                    vec![LinearRead::Get(h, k, was)],
                                    vec![(h, change)],
                                )
                            }
                            Err(found) => {
                                CallKind::Read(vec![LinearRead::Get(h, k, pieces(found.as_ref()))])
                            }
                        },
                    )
                });
            }
            Kind::Update => {
                let piece = self.record.piece();
                self.step(op, h, LinearChange::Append(k, piece), || {
                    let append = |old: Option<&[u8]>| {
                        Some([old.unwrap_or_default(), &bytes_of(piece, 12)].concat())
                    };
                    let updated = t.tree.update(key(a[1]), append)?;
                    let look = LinearRead::Get(h, k, pieces(updated.old.as_ref()));
                    Ok(CallKind::Commit(vec![look], vec![(h, LinearChange::Append(k, piece))]))
                });
            }
            Kind::Clear => {
                let all = LinearChange::DeleteRange(0, KEYS as LinearKey);
                self.write(op, vec![(h, all)], false, || t.tree.clear());
            }
            Kind::Len => self.look(op, h, || {
                // The length of a state that no other thread sees proves little. So the call reads
                // the length together with a recorded scan.
                let (n, all) = (t.tree.keys(), t.tree.iter());
                let keys = n.map(|k| k.map(|k| key_of(&k))).collect::<Result<Vec<LinearKey>>>()?;
                assert!(keys.is_sorted() && keys.len() <= KEYS);
                assert!(t.tree.len()? <= KEYS as u64);
                let _ = t.tree.is_empty()?;
                let pairs = all
                    .map(|i| i.map(|(k, v)| (key_of(&k), pieces_of(&v))))
                    .collect::<Result<_>>()?;
                Ok(LinearRead::Range(h, 0, KEYS as LinearKey, pairs))
            }),
            _ => {
                let last = op.kind == Kind::Last;
                self.look(op, h, || {
                    let found = if last { t.tree.last()? } else { t.tree.first()? };
                    Ok(edge(h, found.as_ref(), last))
                });
            }
        }
        Some(())
    }
}
