//! Many entries, keys or rows with one call, as packed bytes. For bindings of languages in which a
//! call costs more than the work for an entry.
//!
//! The crate `firn-packed` describes the forms of the bytes, and the README of this library states
//! them for C.

use std::mem::MaybeUninit;

use firn_cql::RunOptions;
use firn_packed::entries;
use firn_packed::params::{self, Params};

use crate::call::*;
use crate::cql::{FirnRows, FirnSession, FirnStatement};
use crate::read::FirnIter;
use crate::store::FirnTree;

/// Copies the value of a key into `buffer`, if it fits into `capacity` bytes, and returns its
/// length. If the length is larger than `capacity`, nothing was copied. `FIRN_CODE_NONE` if missing.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_get_into(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    buffer: *mut u8,
    capacity: usize,
    len: Option<&mut MaybeUninit<usize>>,
) -> FirnCode {
    optional_result(len, || {
        let Some(value) = handle(tree)?.0.get(key.bytes()?)? else { return Ok(None) };
        copy_out(&value, buffer, capacity)?;
        Ok(Some(value.len()))
    })
}

/// Returns the values of keys, packed, in their order; see the README. `keys` is packed, too.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_get_many(
    tree: Option<&FirnTree>,
    keys: FirnSlice,
    out: Option<&mut MaybeUninit<FirnBytes>>,
) -> FirnCode {
    result(out, || {
        let values = handle(tree)?.0.multi_get(&entries::keys(keys.bytes()?)?)?;
        Ok(FirnOwner::Bytes(entries::pack_values(&values)).into())
    })
}

/// Returns the next entries, packed; see the README. At most `max_entries`, and none after
/// `max_bytes` bytes, but one at least. From the other end if `back` is set. `FIRN_CODE_NONE` after
/// the last one. The bytes are valid until the next call on the iterator.
#[unsafe(no_mangle)]
pub extern "C" fn firn_iter_next_many(
    iter: Option<&mut FirnIter>,
    back: bool,
    max_entries: usize,
    max_bytes: usize,
    out: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    optional_result(out, || {
        let iter = handle(iter)?;
        iter.chunk.clear();
        let (entries, bytes) = (max_entries.max(1), max_bytes);
        let count = entries::pack(&mut iter.range, back, entries, bytes, &mut iter.chunk)?;
        Ok((count > 0).then(|| FirnSlice::lend(&iter.chunk)))
    })
}

/// Runs a statement with packed parameters and returns its rows; see the README. No bytes are no
/// parameters. `page_size` is the number of rows fetched at once; 0: 1000.
#[unsafe(no_mangle)]
pub extern "C" fn firn_session_query_packed(
    session: Option<&FirnSession>,
    cql: FirnSlice,
    parameters: FirnSlice,
    page_size: usize,
    out: Option<&mut MaybeUninit<Box<FirnRows>>>,
) -> FirnCode {
    result(out, || {
        let (session, how) = (&handle(session)?.0, paged(page_size));
        let walk = params::execute(session, cql.text()?, parameters.bytes()?, &how)?;
        Ok(Box::new(FirnRows::new(walk)))
    })
}

/// As `firn_session_query_packed`, for a prepared statement. Its bound values are neither used nor
/// changed, and several threads may call this at the same time.
#[unsafe(no_mangle)]
pub extern "C" fn firn_statement_query_packed(
    statement: Option<&FirnStatement>,
    parameters: FirnSlice,
    page_size: usize,
    out: Option<&mut MaybeUninit<Box<FirnRows>>>,
) -> FirnCode {
    result(out, || {
        let FirnStatement { session, prepared, .. } = handle(statement)?;
        let params = Params::read(parameters.bytes()?, prepared)?;
        Ok(Box::new(FirnRows::new(params.run(session, prepared, &paged(page_size))?)))
    })
}

fn paged(page_size: usize) -> RunOptions {
    RunOptions { page_size: (page_size > 0).then_some(page_size), ..RunOptions::default() }
}

/// Returns the next rows, packed; see the README. At most `max_rows`, and none after `max_bytes`
/// bytes, but one at least. The bytes are valid until the next call on the result, and
/// `firn_rows_next` continues after these rows. A further call after the last chunk returns one
/// without rows.
#[unsafe(no_mangle)]
pub extern "C" fn firn_rows_next_many(
    rows: Option<&mut FirnRows>,
    max_rows: usize,
    max_bytes: usize,
    out: Option<&mut MaybeUninit<FirnSlice>>,
) -> FirnCode {
    result(out, || {
        let rows = handle(rows)?;
        rows.row = None;
        rows.chunk = rows.rows.next_chunk(max_rows.max(1), max_bytes)?;
        Ok(FirnSlice::lend(&rows.chunk))
    })
}
