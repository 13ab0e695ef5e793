//! Bulk operations: loading, copying, flushing, compacting.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use firn_kv::Error;

use crate::call::*;
use crate::store::{FirnDb, FirnTree, range};

/// Supplies the next pair of a load. Returns `FIRN_CODE_OK` after writing both, `FIRN_CODE_NONE`
/// after the last one; any other code ends the load. The bytes must stay valid until the next call.
pub type FirnNextFunction =
    Option<extern "C" fn(context: *mut c_void, key: &mut FirnSlice, value: &mut FirnSlice) -> i32>;

/// Loads pairs in ascending key order directly into tables, which is faster than puts. Loads all of
/// them or none. Calls `next` for each pair, with `context`; `next` must not use the tree. `count`,
/// which may be NULL, receives the number of pairs.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_ingest(
    tree: Option<&FirnTree>,
    next: FirnNextFunction,
    context: *mut c_void,
    count: Option<&mut MaybeUninit<u64>>,
) -> FirnCode {
    done(|| {
        let (tree, next) = (&handle(tree)?.0, required(next, "the function")?);
        let copy = |slice: FirnSlice| {
            slice.bytes().map(<[u8]>::to_vec).map_err(|e| Error::invalid(e.text()))
        };
        let pairs = std::iter::from_fn(|| {
            let (mut key, mut value) = (FirnSlice::NOTHING, FirnSlice::NOTHING);
            match next(context, &mut key, &mut value) {
                0 => Some(copy(key).and_then(|key| Ok((key, copy(value)?)))),
                1 => None,
                code => Some(Err(Error::invalid(format!(
                    "the function gave {code} in the place of a pair"
                )))),
            }
        });
        let loaded = tree.try_ingest(pairs)?;
        if let Some(count) = count {
            count.write(loaded);
        }
        Ok(())
    })
}

/// Flushes the memtable of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_flush(tree: Option<&FirnTree>) -> FirnCode {
    done(|| Ok(handle(tree)?.0.flush()?))
}

/// Compacts all tables with keys from `from` on, before `to`, into one run, and the memtable, too.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_compact(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(tree)?.0.compact_range(range(&from, &to)?)?))
}

/// Creates a copy of the store in the directory `path`, which must be missing or empty and on the
/// same file system: tables are linked, not copied. Writers continue meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_checkpoint(db: Option<&FirnDb>, path: FirnSlice) -> FirnCode {
    done(|| Ok(handle(db)?.0.checkpoint(path.text()?).map(drop)?))
}

/// Waits until no flush and no compaction is due.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_wait_idle(db: Option<&FirnDb>) -> FirnCode {
    done(|| Ok(handle(db)?.0.wait_idle()?))
}
