//! Cursors: scans that lend the bytes of the store.

use std::mem::MaybeUninit;

use firn_kv::Cursor;

use crate::call::*;
use crate::read::FirnSnapshot;
use crate::store::{FirnTree, range};

/// A position in a key range, movable in both directions. Faster than an iterator: it lends keys and
/// values where they are.
pub struct FirnCursor(Cursor);

handles! { FirnCursor "the cursor" }

/// Opens a cursor over the current keys of a tree from `from` on, before `to`. It has no position
/// until its first move.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_cursor(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnCursor>>>,
) -> FirnCode {
    result(out, || Ok(Box::new(FirnCursor(handle(tree)?.0.cursor(range(&from, &to)?)?))))
}

/// As `firn_tree_cursor`, over the keys of a tree in the snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn firn_snapshot_cursor(
    snapshot: Option<&FirnSnapshot>,
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
    out: Option<&mut MaybeUninit<Box<FirnCursor>>>,
) -> FirnCode {
    result(out, || {
        let (snapshot, tree) = (&handle(snapshot)?.0, &handle(tree)?.0);
        Ok(Box::new(FirnCursor(snapshot.cursor(tree, range(&from, &to)?)?)))
    })
}

type CursorOut<'a> = Option<&'a mut MaybeUninit<FirnSlice>>;

/// Moves a cursor and lends its entry.
#[inline]
fn moved(
    cursor: Option<&mut FirnCursor>,
    key: CursorOut<'_>,
    value: CursorOut<'_>,
    go: impl FnOnce(&mut Cursor) -> Outcome<()>,
) -> FirnCode {
    call(|| {
        let cursor = &mut handle(cursor)?.0;
        go(cursor)?;
        if !cursor.is_valid() {
            return Ok(FirnCode::None);
        }
        if let Some(key) = key {
            key.write(FirnSlice::lend(cursor.key()));
        }
        if let Some(value) = value {
            value.write(FirnSlice::lend(cursor.value()));
        }
        Ok(FirnCode::Ok)
    })
}

/// Moves to the first entry and returns it; `FIRN_CODE_NONE` if there is none. The bytes are valid
/// until the next call on the cursor. `key` and `value` may be NULL. The same holds for all moves.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_first(
    cursor: Option<&mut FirnCursor>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.first()?))
}

/// Moves to the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_last(
    cursor: Option<&mut FirnCursor>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.last()?))
}

/// Moves to the first entry with a key at or after `target`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_seek(
    cursor: Option<&mut FirnCursor>,
    target: FirnSlice,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.seek(target.bytes()?)?))
}

/// Moves to the last entry with a key before `target`.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_seek_before(
    cursor: Option<&mut FirnCursor>,
    target: FirnSlice,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.seek_before(target.bytes()?)?))
}

/// Moves to the next entry. Without a position it stays without one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_next(
    cursor: Option<&mut FirnCursor>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.next()?))
}

/// Moves to the previous entry. Without a position it stays without one.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_prev(
    cursor: Option<&mut FirnCursor>,
    key: Option<&mut MaybeUninit<FirnSlice>>,
    value: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    moved(cursor, key, value, |cursor| Ok(cursor.prev()?))
}

/// Frees a cursor; until then the store retains the state that it reads.
#[unsafe(no_mangle)]
pub extern "C" fn firn_cursor_free(cursor: Option<Box<FirnCursor>>) {
    free(cursor);
}
