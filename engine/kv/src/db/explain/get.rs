//! Runs a get and records its cost.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::hooks::{Folded, MergeOperator};
use crate::base::key::{Kind, Seq};
use crate::env::Env;
use crate::iterator::cost::{FilterAnswer, Skipped, SourceCost, VersionPlace};
use crate::iterator::run::TableRun;
use crate::iterator::traced::Blocks;
use crate::iterator::value::Value;
use crate::iterator::visible::fold;
use crate::util::hash::key_hash;
use crate::util::sync::epoch::{self, Guard};

use crate::db::commit::mem_handle::MemHandle;
use crate::db::explain::cost::{ReadCost, ReadOf};
use crate::db::explain::recorder::ProfiledRead;
use crate::db::inner::DbInner;
use crate::db::read::lookup::{filter_hash, unknown_kind, versions};
use crate::db::versions::tree::TreeInner;
use crate::db::versions::view::TreeView;

/// Returns the value of `key` visible at `read`, or the newest value if `read` is `None`.
#[cold]
pub fn get(
    inner: &DbInner,
    tree: &TreeInner,
    key: &[u8],
    read: Option<Seq>,
) -> Result<Option<Value>> {
    let guard = epoch::pin();
    let (view, now) = tree.at_one_moment(inner.commit.visible(), &guard);
    tree.check_live()?;
    get_in(view, key, read.unwrap_or(now), &guard)
}

/// Returns the value of `key` in a view that is already loaded.
#[cold]
pub fn get_in(view: &TreeView, key: &[u8], read: Seq, guard: &Guard) -> Result<Option<Value>> {
    let recorder = &view.meters.recorder;
    let env = recorder.env();
    let began = env.monotonic_nanos();
    let mut reading = Reading {
        key,
        read,
        hash: None,
        env,
        view,
        guard,
        operands: vec![],
        base: None,
        decided: false,
    };
    let mut sources = vec![];
    for (i, m) in view.memtables().enumerate() {
        let place = if i == 0 { VersionPlace::Active } else { VersionPlace::Sealed };
        sources.push(reading.timed(place, |r, cost| r.memtable(m, cost))?);
    }
    for run in &view.version.runs {
        let place =
            VersionPlace::Run { level: run.level, number: run.number, tables: run.tables.len() };
        sources.push(reading.timed(place, |r, cost| r.run(run, cost))?);
    }
    let value = reading.value()?;
    let nanos = env.monotonic_nanos().saturating_sub(began);
    let (of, found) = (ReadOf::Key(key.to_vec()), u64::from(value.is_some()));
    let cost = ReadCost { tree: view.name.to_string(), of, found, sources, nanos };
    recorder.note(|| ProfiledRead::Done(cost.clone()));
    Ok(value)
}

/// State of a running read of one key.
struct Reading<'a> {
    key: &'a [u8],
    read: Seq,
    /// Hash of the part of the key that filters hold, computed when first needed.
    hash: Option<u64>,
    env: &'a Arc<dyn Env>,
    view: &'a TreeView,
    guard: &'a Guard,
    /// Operands found so far, newest first.
    operands: Vec<Vec<u8>>,
    base: Option<Value>,
    /// Whether older sources need not be searched.
    decided: bool,
}

impl Reading<'_> {
    fn timed(
        &mut self,
        place: VersionPlace,
        ask: impl FnOnce(&mut Self, &mut SourceCost) -> Result<()>,
    ) -> Result<SourceCost> {
        let mut cost = SourceCost::of(place);
        if self.decided {
            cost.skipped = Some(Skipped::Decided);
            return Ok(cost);
        }
        let from = self.env.monotonic_nanos();
        ask(self, &mut cost)?;
        cost.nanos = self.env.monotonic_nanos().saturating_sub(from);
        Ok(cost)
    }

    /// Collects the versions of the key in one source, newest first, until one decides.
    fn versions(&mut self, c: &mut impl Cursor, cover: Seq, cost: &mut SourceCost) -> Result<()> {
        cost.seeks += 1;
        let (read, mut base) = (self.read, None);
        let met = |t| cost.entries.count(t, read, cover);
        self.decided |= versions(c, self.key, read, cover, &mut self.operands, &mut base, met)?;
        self.base = base.map(Value::from);
        Ok(())
    }

    /// Records a range deletion over the key.
    fn covered(cover: Option<Seq>, cost: &mut SourceCost) -> Seq {
        cost.covered_by = cover;
        cost.range_deletions = u64::from(cover.is_some());
        cover.unwrap_or(0)
    }

    fn memtable(&mut self, m: &MemHandle, cost: &mut SourceCost) -> Result<()> {
        let cover = Self::covered(m.mem.newest_covering(self.key, self.read, self.guard), cost);
        let maybe = m.mem.may_contain(key_hash(self.key));
        if m.mem.entries() == 0 {
            cost.skipped = Some(Skipped::Empty);
        } else if !maybe {
            cost.filters.push(FilterAnswer { table: 0, maybe, right: Some(true) });
            cost.skipped = Some(Skipped::Filter);
        } else {
            self.versions(&mut m.mem.cursor(), cover, cost)?;
            cost.filters.push(FilterAnswer {
                table: 0,
                maybe,
                right: Some(cost.entries.all() > 0),
            });
        }
        self.decided |= cover > 0;
        Ok(())
    }

    fn run(&mut self, run: &TableRun, cost: &mut SourceCost) -> Result<()> {
        let Some(t) = run.find(self.key) else {
            cost.skipped = Some(Skipped::Bounds);
            return Ok(());
        };
        let mut blocks = Blocks::default();
        blocks.note(t, self.key, Some(self.key));
        let table = t.table()?;
        let cover = Self::covered(table.tombstones().newest_covering(self.key, self.read), cost);
        let hash = *self.hash.get_or_insert_with(|| filter_hash(&self.view.options, self.key));
        let maybe = table.may_contain(hash);
        let newest: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        let decided =
            |m: &dyn MergeOperator| m.decided(self.key, &newest, &table.properties().summary_bytes);
        if !maybe {
            cost.skipped = Some(Skipped::Filter);
        } else if !newest.is_empty() && self.view.options.merge.as_deref().is_some_and(decided) {
            cost.skipped = Some(Skipped::Facts);
        } else {
            // Same path as an unrecorded get: one search finds an ordinary key, a cursor its
            // operands.
            if let Some(i) = table.locate(self.key) {
                blocks.visit(t, i);
            }
            let hit = table.get(self.key, None, self.read, self.guard)?;
            match hit {
                Some(hit)
                    if hit.trailer.seq() >= cover && hit.trailer.kind() == Some(Kind::Merge) =>
                {
                    let mut operands = table.cursor(true);
                    operands.keep_all();
                    self.versions(&mut operands, cover, cost)?;
                }
                Some(hit) => {
                    cost.seeks += 1;
                    cost.entries.count(hit.trailer, self.read, cover);
                    self.decided = true;
                    self.base = match hit.trailer.kind() {
                        _ if hit.trailer.seq() < cover => None,
                        Some(Kind::Put) => Some(hit.pin().into()),
                        Some(Kind::Blob) => {
                            cost.values.push(t.blob_cost(self.key, hit.value())?);
                            Some(t.blob(self.key, hit.value(), None)?.into())
                        }
                        Some(_) => None,
                        None => return Err(unknown_kind(self.key, hit.trailer)),
                    };
                }
                None => cost.seeks += 1,
            }
            cost.tables.push((t.meta.id, cost.entries));
        }
        // If bounds or table properties decided, the filter's answer was not verified.
        if table.has_filter() {
            let right =
                (cost.skipped != Some(Skipped::Facts)).then_some(!maybe || cost.entries.all() > 0);
            cost.filters.push(FilterAnswer { table: t.meta.id, maybe, right });
        }
        blocks.note_loaded();
        cost.opened = blocks.opened();
        cost.blocks = blocks.read();
        self.decided |= cover > 0;
        Ok(())
    }

    fn value(mut self) -> Result<Option<Value>> {
        if self.operands.is_empty() {
            return Ok(self.base);
        }
        self.operands.reverse();
        Ok(
            match fold(
                self.view.options.merge.as_deref(),
                self.key,
                self.base.as_deref(),
                &self.operands,
            )? {
                Folded::Value(v) => Some(v.into()),
                Folded::Absent => None,
            },
        )
    }
}
