//! The visible entries of a merge: the newest version of each key at a read point, operands folded,
//! deletions left out.
//!
//! Invariants:
//! - Only keys in `[from, until)` are shown.
//! - `At::Entry`: the inner cursor stands on the entry that is shown, and key and value are read
//!   from it in place. `At::Alone`: it is known besides to be the only one of its key.
//! - `At::Held`: key and value are held here. After a step forward the inner cursor stands behind
//!   the first entries of the key, maybe on older versions of it; after a step backward it stands
//!   before all of them.
//! - `At::Blob` and `At::HeldBlob`: the same, but the value lies in a value file and is held from
//!   there.
//! - A block that is *plain* (puts of distinct keys) of a lone source whose entries are all at or
//!   before the read point needs no checks at all: that is the path of a scan over a compacted
//!   tree. Of several sources, an entry of such a block needs none where the others stand on keys
//!   of other heads: it is the only one of its key then. No range deletion may be in sight.
//! - A *walk* passes what is not to be shown, up to a key that is, or the end. All keys from where
//!   it was noted to begin up to there show nothing at the read point, whatever their entries are;
//!   only operands, which a hook may fold to nothing, end a walk.

/// Does the same with the cursor of either kind.
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
