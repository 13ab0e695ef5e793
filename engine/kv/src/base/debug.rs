//! `Debug` of types that hold data, hooks, locks or files: [`debug_by`].

/// Implements `Debug` by a few fields that tell one value from another. The rest is left out, so
/// nothing is locked or read, and no content shown.
macro_rules! debug_by {
    ($type:ty, $name:literal $(, $field:ident)*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name)$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}
