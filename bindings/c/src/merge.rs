//! Trees with options and with a merge function of C's.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use firn_kv::{Error, Folded, MergeOperator};

use crate::call::{Failure, FirnCode, FirnSlice, Outcome, call, give, there};
use crate::store::{FirnBatch, FirnDb, FirnDurability, FirnTree, with};

/// Where a merge function puts the value that it has made.
pub struct FirnFold(Option<Vec<u8>>);

/// Folds the versions of a key into one value. Reads call it, and the store's own threads, several
/// at once: it must give the same for the same bytes, in every process, and call nothing of the
/// store but `firn_fold_give`.
#[repr(C)]
pub struct FirnMerge {
    /// What the tree keeps: it is opened with a merge function of this name only. Copied.
    name: FirnSlice,
    /// Handed to `fold`. It must be there until the store is closed, every handle that was got from
    /// it is freed, and no call is running. A function that another `firn_db_tree_with` has
    /// replaced may still be called until then.
    context: *mut c_void,
    /// `base` is the value that was put before the operands, or nothing at all; operands come
    /// oldest first. It gives the value to `result`, or leaves it, and then the key has no value.
    /// It returns `FIRN_CODE_OK`; anything else fails the read, and leaves the versions as they
    /// are. It must return: no exception, no `longjmp`.
    fold: FirnFoldFunction,
}

/// The form of a merge function.
pub type FirnFoldFunction = Option<
    extern "C" fn(
        context: *mut c_void,
        key: FirnSlice,
        base: FirnSlice,
        operands: *const FirnSlice,
        count: usize,
        result: &mut FirnFold,
    ) -> i32,
>;

struct Function<F> {
    name: String,
    /// A pointer, as a number, since it goes to other threads: whose it is the header says.
    context: usize,
    fold: F,
}

impl<F> MergeOperator for Function<F>
where
    F: Fn(*mut c_void, FirnSlice, FirnSlice, *const FirnSlice, usize, &mut FirnFold) -> i32
        + Send
        + Sync
        + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> firn_kv::Result<Folded> {
        let base = base.map_or(FirnSlice::NOTHING, FirnSlice::lend);
        let operands: Vec<FirnSlice> = operands.iter().map(|o| FirnSlice::lend(o)).collect();
        let mut result = FirnFold(None);
        let context = self.context as *mut c_void;
        match (self.fold)(
            context,
            FirnSlice::lend(key),
            base,
            operands.as_ptr(),
            operands.len(),
            &mut result,
        ) {
            0 => Ok(result.0.map_or(Folded::Absent, Folded::Value)),
            code => Err(Error::invalid(format!("the merge function {} gave {code}", self.name))),
        }
    }
}

impl FirnMerge {
    fn read(&self) -> Outcome<Arc<dyn MergeOperator>> {
        let fold = there(self.fold, "the merge function")?;
        // What C calls so is no function to Rust's traits.
        let fold =
            move |context: *mut c_void,
                  key: FirnSlice,
                  base: FirnSlice,
                  operands: *const FirnSlice,
                  count: usize,
                  to: &mut FirnFold| { fold(context, key, base, operands, count, to) };
        Ok(Arc::new(Function {
            name: self.name.text()?.to_owned(),
            context: self.context as usize,
            fold,
        }))
    }
}

/// The value that a key has: to be called by a merge function, at most once. It is copied.
#[unsafe(no_mangle)]
pub extern "C" fn firn_fold_give(result: Option<&mut FirnFold>, value: FirnSlice) -> FirnCode {
    call(|| {
        there(result, "the place of the result")?.0 = Some(value.bytes()?.to_vec());
        Ok(FirnCode::Ok)
    })
}

/// The tree of this name, made where it is not there, with these options: a text of words as
/// `policy=lazy-leveled:4` or `memtable_size=16m`, with blanks between them; the words are those of
/// `firn tree`. What is not said stays as it is. `merge` may be NULL; a tree that was made with one
/// takes `firn_tree_merge` and reads its operands only where it was given since the store was
/// opened.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree_with(
    db: Option<&FirnDb>,
    name: FirnSlice,
    options: FirnSlice,
    merge: Option<&FirnMerge>,
    out: Option<&mut MaybeUninit<Box<FirnTree>>>,
) -> FirnCode {
    call(|| {
        give(out, || {
            let word = |word| {
                str::split_once(word, '=')
                    .ok_or_else(|| Failure::argument(format!("{word:?} is no NAME=VALUE")))
            };
            let changes =
                options.text()?.split_ascii_whitespace().map(word).collect::<Outcome<Vec<_>>>()?;
            let merge = merge.map(FirnMerge::read).transpose()?;
            let tree = firn_tools::trees::with_options(
                &there(db, "the store")?.0,
                name.text()?,
                &changes,
                merge,
            )?;
            Ok(Box::new(FirnTree(tree)))
        })
    })
}

/// Adds an operand to a key, which the tree's merge function folds when it is read.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_merge(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    operand: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    call(|| {
        with(tree, durability, |tree| Ok(tree.merge(key.bytes()?, operand.bytes()?)?))?;
        Ok(FirnCode::Ok)
    })
}

/// Adds: add an operand to a key of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_merge(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    operand: FirnSlice,
) -> FirnCode {
    call(|| {
        there(batch, "the batch")?.0.merge(
            &there(tree, "the tree")?.0,
            key.bytes()?,
            operand.bytes()?,
        )?;
        Ok(FirnCode::Ok)
    })
}
