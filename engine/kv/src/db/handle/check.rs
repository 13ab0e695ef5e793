//! Verifies a store's tables and estimates sizes of key ranges.

use std::ops::ControlFlow;

use crate::base::error::{Error, Result};
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::{Db, Tree};
use crate::db::observe::pins::PinKind;
use crate::db::read::bounds::{KeyBounds, key_range};

/// Result of [`Db::verify`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoreVerification {
    /// Number of table files read.
    pub tables: u64,
    /// Number of blocks whose checksums were verified.
    pub blocks: u64,
    /// Number of values in blob files that were verified.
    pub values: u64,
    /// Number of entries whose order, bounds and filter membership were verified.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// All errors found: each damaged block of each table, with its tree, file and offset, and the
    /// keys that it may have held.
    pub errors: Vec<Error>,
}

impl Db {
    /// Reads every live table and every referenced value, bypassing the caches. Verifies each
    /// block's checksum and offset, the order and bounds of keys, the filters and the counts. Calls
    /// `progress` with the bytes read so far and the total.
    ///
    /// # Errors
    /// Only errors that prevent the verification; damage is listed in the report.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<StoreVerification> {
        let inner = self.inner();
        inner.gate.check_open()?;
        let trees = inner.versions.trees().to_vec();
        let handles: Vec<_> = trees
            .iter()
            .flat_map(|t| {
                let v = t.view.load_full();
                let tables: Vec<_> = v.version.tables().cloned().collect();
                tables.into_iter().map(move |h| (t.clone(), h, v.options.filter_prefix.clone()))
            })
            .collect();
        let _task = inner.observer.pins().begin(
            PinKind::Verify,
            None,
            String::new(),
            handles.iter().map(|h| h.1.clone()).collect(),
        );
        let all: u64 = handles.iter().map(|(_, h, _)| h.meta.size + h.meta.blob_bytes()).sum();
        let mut v = StoreVerification::default();
        for (tree, h, prefix) in handles {
            let mut read = v.bytes;
            let step = |bytes| {
                read += bytes;
                progress(read, all);
            };
            let (known, errors) = (v.errors.len(), &mut v.errors);
            let mut note = |e: Error| {
                // A table that cannot be opened has no readable block.
                let e = if e.key_range().is_none() {
                    e.keys(&h.meta.first_key, &h.meta.last_key)
                } else {
                    e
                };
                errors.push(e.of_tree(&tree.name));
                ControlFlow::Continue(())
            };
            match h.table() {
                Ok(table) => {
                    let r = table.verify_each(prefix.as_deref(), step, &mut note);
                    v.tables += 1;
                    v.blocks += r.blocks;
                    v.entries += r.entries;
                    if v.errors.len() == known && r.entries != h.meta.entries {
                        let words = format!(
                            "the manifest says {} entries, the table has {}",
                            h.meta.entries, r.entries
                        );
                        v.errors.push(Error::corruption(words).of_tree(&tree.name).at(h.path(), 0));
                    }
                }
                Err(e) => drop(note(e)),
            }
            if v.errors.len() == known && h.meta.blob_bytes() > 0 {
                let mut read = v.bytes + h.meta.size;
                let step = |bytes| {
                    read += bytes;
                    progress(read, all);
                };
                let errors = &mut v.errors;
                let checked = h.verify_blobs(step, |e| errors.push(e.of_tree(&tree.name)));
                match checked {
                    Ok(n) => v.values += n,
                    Err(e) => v.errors.push(e.of_tree(&tree.name)),
                }
            }
            v.bytes += h.meta.size + h.meta.blob_bytes();
            progress(v.bytes, all);
        }
        Ok(v)
    }
}

impl Tree {
    /// Estimates the bytes of table files that hold the keys of a range, plus the bytes of their
    /// values in blob files. Memtables are not included.
    ///
    /// # Errors
    /// Corruption and I/O errors of opening tables at the ends of the range.
    pub fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
        self.size_within(&key_range(range))
    }

    fn size_within(&self, range: &VisibleRange) -> Result<u64> {
        self.inner.check_live()?;
        let start = range.from.as_slice();
        let ends_by = |key: &[u8]| range.until.as_deref().is_some_and(|end| end <= key);
        let view = self.inner.view.load_full();
        let mut sum = 0;
        for t in view.version.tables() {
            let (first, last) = (t.meta.first_key.as_slice(), t.meta.last_key.as_slice());
            if last < start || ends_by(first) || range.is_empty() {
                continue;
            }
            let from = if first < start { t.table()?.offset_of(start) } else { 0 };
            let to = match &range.until {
                Some(end) if ends_by(last) => t.table()?.offset_of(end),
                _ => t.meta.size,
            };
            let part = to.saturating_sub(from);
            let blobs = u128::from(t.meta.blob_bytes()) * u128::from(part);
            sum += part + (blobs / u128::from(t.meta.size.max(1))) as u64;
        }
        Ok(sum)
    }
}
