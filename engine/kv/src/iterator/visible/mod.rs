//! Iterator over the visible entries of a merge: the newest version of each key at a read point,
//! with operands folded and deletions left out.
//!
//! Invariants:
//! - Only keys in `[from, until)` are shown.
//! - `At::Entry`: the inner cursor is positioned at the shown entry, and key and value are read
//!   from it in place. `At::Alone`: in addition, the entry is known to be the only one of its key.
//! - `At::Held`: key and value are stored here. After a step forward the inner cursor is after the
//!   first entries of the key, possibly at older versions of it. After a step backward it is before
//!   all of them.
//! - `At::Blob` and `At::HeldBlob`: the same, but the value was read from a blob file and is stored
//!   here.
//! - A block is *plain* if it has puts of distinct keys. If a single source has such a block with
//!   all entries at or before the read point, no checks are needed. A scan of a compacted tree
//!   takes this path. With several sources, an entry of such a block needs no checks if the others
//!   are positioned at keys with other heads. It is then the only one of its key. No range deletion
//!   may exist.
//! - A *walk* passes hidden entries up to a visible key or the end. All keys from its recorded
//!   start up to there are invisible at the read point, whatever their entries are. Only operands
//!   end a walk, because a merge operator may fold them to no value.

/// Runs the same expression with either kind of cursor.
macro_rules! each {
    ($self:expr, $c:ident => $e:expr) => {
        match $self {
            VisibleInner::One($c) => $e,
            VisibleInner::Many($c) => $e,
        }
    };
}

mod fold;
mod held;
mod moves;
mod range;
mod search;
mod walk;

pub use fold::fold;
pub use held::Visible;
pub use range::VisibleRange;
