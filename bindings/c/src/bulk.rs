//! What is done with much at once: loading, copying, flushing, compacting.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use firn_kv::Error;

use crate::call::{FirnCode, FirnSlice, call, there};
use crate::store::{FirnDb, FirnTree, range};

/// Gives the next pair of a load: `FIRN_CODE_OK` when it has written both, `FIRN_CODE_NONE` behind
/// the last one; anything else ends the load. The bytes must be good until it is called again.
pub type FirnNextFunction =
    Option<extern "C" fn(context: *mut c_void, key: &mut FirnSlice, value: &mut FirnSlice) -> i32>;

/// Loads pairs in ascending order of their keys, straight into tables: faster than putting them,
/// and of all of them or none. `next` is called for each, with `context`, and must not use the
/// tree; `count`, which may be NULL, is how many there were.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_ingest(
    tree: Option<&FirnTree>,
    next: FirnNextFunction,
    context: *mut c_void,
    count: Option<&mut MaybeUninit<u64>>,
) -> FirnCode {
    call(|| {
        let (tree, next) = (&there(tree, "the tree")?.0, there(next, "the function")?);
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
        Ok(FirnCode::Ok)
    })
}

/// Writes what is in memory of a tree to tables.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_flush(tree: Option<&FirnTree>) -> FirnCode {
    call(|| {
        there(tree, "the tree")?.0.flush()?;
        Ok(FirnCode::Ok)
    })
}

/// Merges all tables that have keys from `from` on, before `to`, into one run, what is in memory
/// too.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_compact(
    tree: Option<&FirnTree>,
    from: FirnSlice,
    to: FirnSlice,
) -> FirnCode {
    call(|| {
        there(tree, "the tree")?.0.compact_range(range(&from, &to)?)?;
        Ok(FirnCode::Ok)
    })
}

/// Makes a copy of the store in the directory `path`, which must be missing or empty and on the
/// same file system: tables are linked, not copied. Writers go on meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_checkpoint(db: Option<&FirnDb>, path: FirnSlice) -> FirnCode {
    call(|| {
        there(db, "the store")?.0.checkpoint(path.text()?)?;
        Ok(FirnCode::Ok)
    })
}

/// Waits until no memtable is to be flushed and no compaction is due.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_wait_idle(db: Option<&FirnDb>) -> FirnCode {
    call(|| {
        there(db, "the store")?.0.wait_idle()?;
        Ok(FirnCode::Ok)
    })
}
