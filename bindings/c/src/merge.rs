//! Trees with options and with a merge function in C.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use firn_kv::{Error, MergeOperator, MergeResult};

use crate::call::*;
use crate::store::{FirnBatch, FirnDb, FirnDurability, FirnTree, with};

/// Receiver of a merge function's result.
pub struct FirnFold(Option<Vec<u8>>);

/// Folds the versions of a key into one value. Reads and the store's own threads call it, possibly
/// concurrently. It must return the same for the same bytes, in every process, and call no function
/// of the store except `firn_fold_give`.
#[repr(C)]
pub struct FirnMerge {
    /// Name, which the tree stores: it can only be opened with a merge function of this name.
    /// Copied.
    name: FirnSlice,
    /// Passed to `fold`. It must stay valid until the store is closed, every handle obtained from
    /// it is freed, and no call is running. A function that another `firn_db_tree_with` has
    /// replaced may still be called until then.
    context: *mut c_void,
    /// `base` is the value put before the operands, or none; operands come oldest first. It passes
    /// the value to `result`; without one, the key has no value. It returns `FIRN_CODE_OK`; any
    /// other code fails the read, and leaves the versions unchanged. It must return: no exception,
    /// no `longjmp`.
    fold: FirnFoldFunction,
}

/// Signature of a merge function.
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

struct Function {
    name: String,
    /// A pointer as a number, since it is passed to other threads; the header defines its
    /// ownership.
    context: usize,
    fold: FirnFoldFunction,
}

impl MergeOperator for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        let base = base.map_or(FirnSlice::NOTHING, FirnSlice::lend);
        let operands: Vec<FirnSlice> = operands.iter().map(|o| FirnSlice::lend(o)).collect();
        let mut result = FirnFold(None);
        let (context, key) = (self.context as *mut c_void, FirnSlice::lend(key));
        let fold =
            required(self.fold, "the merge function").map_err(|e| Error::invalid(e.text()))?;
        match fold(context, key, base, operands.as_ptr(), operands.len(), &mut result) {
            0 => Ok(result.0.map_or(MergeResult::Absent, MergeResult::Value)),
            code => Err(Error::invalid(format!("the merge function {} gave {code}", self.name))),
        }
    }
}

impl FirnMerge {
    fn read(&self) -> Outcome<Arc<dyn MergeOperator>> {
        required(self.fold, "the merge function")?;
        let (name, context) = (self.name.text()?.to_owned(), self.context as usize);
        Ok(Arc::new(Function { name, context, fold: self.fold }))
    }
}

/// Sets the value of a key: called by a merge function, at most once. The value is copied.
#[unsafe(no_mangle)]
pub extern "C" fn firn_fold_give(result: Option<&mut FirnFold>, value: FirnSlice) -> FirnCode {
    done(|| {
        required(result, "the place of the result")?.0 = Some(value.bytes()?.to_vec());
        Ok(())
    })
}

/// Opens the tree of this name with these options; creates it if missing. The options are words
/// such as `policy=lazy-leveled:4` or `memtable_size=16m`, separated by blanks; they are those of
/// `firn set-options`. Other options are unchanged. `merge` may be NULL. A tree that was created
/// with one accepts `firn_tree_merge` and reads its operands only if it was passed since the store
/// was opened.
#[unsafe(no_mangle)]
pub extern "C" fn firn_db_tree_with(
    db: Option<&FirnDb>,
    name: FirnSlice,
    options: FirnSlice,
    merge: Option<&FirnMerge>,
    out: Option<&mut MaybeUninit<Box<FirnTree>>>,
) -> FirnCode {
    result(out, || {
        let word = |word| {
            str::split_once(word, '=')
                .ok_or_else(|| Failure::argument(format!("{word:?} is no NAME=VALUE")))
        };
        let changes =
            options.text()?.split_ascii_whitespace().map(word).collect::<Outcome<Vec<_>>>()?;
        let merge = merge.map(FirnMerge::read).transpose()?;
        let tree = firn_tools::trees::with_options(&handle(db)?.0, name.text()?, &changes, merge)?;
        Ok(Box::new(FirnTree(tree)))
    })
}

/// Adds an operand to a key; reads fold it with the tree's merge function.
#[unsafe(no_mangle)]
pub extern "C" fn firn_tree_merge(
    tree: Option<&FirnTree>,
    key: FirnSlice,
    operand: FirnSlice,
    durability: FirnDurability,
) -> FirnCode {
    done(|| with(tree, durability, |tree| Ok(tree.merge(key.bytes()?, operand.bytes()?)?)))
}

/// Appends an operand for a key of a tree.
#[unsafe(no_mangle)]
pub extern "C" fn firn_batch_merge(
    batch: Option<&mut FirnBatch>,
    tree: Option<&FirnTree>,
    key: FirnSlice,
    operand: FirnSlice,
) -> FirnCode {
    done(|| Ok(handle(batch)?.0.merge(&handle(tree)?.0, key.bytes()?, operand.bytes()?)?))
}
