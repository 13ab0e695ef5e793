//! Merges the entries of several tables of one tree into one order: key ascending, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Trailer;
use firn_kv::internals::sstable::{Table, TableCursor};
use firn_tools::output::Done;

/// Calls `f` for every entry of all `tables`, with the index of its table in the list. Equal
/// entries come in the order of these indexes.
///
/// # Errors
/// Damage, with its position, and errors of `f`.
pub fn each(tables: &[Arc<Table>], f: &mut dyn FnMut(&[u8], Trailer, usize) -> Done) -> Done {
    let mut cursors: Vec<TableCursor> = tables.iter().map(|t| t.cursor(false)).collect();
    let mut heap = BinaryHeap::new();
    for (i, c) in cursors.iter_mut().enumerate() {
        c.first()?;
        if c.valid() {
            heap.push(Reverse((c.key().to_vec(), Reverse(c.trailer()), i)));
        }
    }
    while let Some(Reverse((mut key, Reverse(trailer), i))) = heap.pop() {
        f(&key, trailer, i)?;
        let c = &mut cursors[i];
        c.next()?;
        if c.valid() {
            key.clear();
            key.extend_from_slice(c.key());
            heap.push(Reverse((key, Reverse(c.trailer()), i)));
        }
    }
    Ok(())
}
