//! `Debug` for types that hold data, hooks, locks or files: [`debug_by`].

/// Implements `Debug` with a few fields that identify a value. It omits the rest, so that it takes
/// no lock, reads no file and shows no content.
macro_rules! debug_by {
    ($type:ty, $name:literal $(, $field:ident)*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name)$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}
