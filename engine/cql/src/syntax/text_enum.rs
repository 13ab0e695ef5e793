//! Enums whose values have a text.

/// Declares an enum each of whose values has a text, with the list of all and a method for the text.
macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident, $text:ident {
        $($(#[$doc:meta])* $variant:ident $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// Returns the text of the value.
            pub const fn $text(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

pub(crate) use text_enum;
