//! Verification of a store's tables, and estimates of sizes.

use std::ops::ControlFlow;

use crate::base::error::{Error, Result};
use crate::iterator::visible::VisibleRange;

use crate::db::handle::handles::{Db, Tree};
use crate::db::observe::pins::PinKind;
use crate::db::read::bounds::{KeyBounds, key_range};

/// What [`Db::verify`] has looked at.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Table files read.
    pub tables: u64,
    /// Blocks whose checksums were checked.
    pub blocks: u64,
    /// Values in blob files that were checked.
    pub values: u64,
    /// Entries whose order, bounds and filter membership were checked.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// All that is wrong: each damaged block of each table, with its tree, its place, and the keys
    /// that it may have held.
    pub errors: Vec<Error>,
}

impl Db {
    /// Reads every live table, and every value that one refers to, bypassing the caches, and checks everything that can be checked:
    /// each block's checksum and place, order and bounds of keys, filters, counts. `progress` is
    /// told the bytes read so far and in all.
    ///
    /// # Errors
    /// Only errors of the tool itself; what is wrong with the files is listed in the result.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<Verified> {
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
        let mut v = Verified::default();
        for (tree, h, prefix) in handles {
            let mut read = v.bytes;
            let step = |bytes| {
                read += bytes;
                progress(read, all);
            };
            let (known, errors) = (v.errors.len(), &mut v.errors);
            let mut note = |e: Error| {
                // Nothing of a table that cannot be opened can be read.
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
    /// About how many bytes of table files hold the keys of a range, and of blob files their values.
    /// Memtables are not counted.
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
