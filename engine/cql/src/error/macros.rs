//! Macros that create an error with a formatted text.

/// Creates an error of the class `Invalid` with a formatted text.
macro_rules! invalid {
    ($($text:tt)+) => { $crate::error::invalid(format!($($text)+)) };
}

/// Creates an error of the class `Configuration` with a formatted text.
macro_rules! configuration {
    ($($text:tt)+) => { $crate::error::configuration(format!($($text)+)) };
}

/// Creates an error for stored bytes that cannot be decoded, with a formatted text.
macro_rules! corrupt {
    ($($text:tt)+) => { $crate::error::corrupt(format!($($text)+)) };
}

/// Creates an error of the class `Unauthorized` with a formatted text.
macro_rules! unauthorized {
    ($($text:tt)+) => { $crate::error::unauthorized(format!($($text)+)) };
}

/// Returns an error of the class `Invalid` with a formatted text.
macro_rules! bail {
    ($($text:tt)+) => { return Err($crate::error::invalid(format!($($text)+))) };
}

/// Returns an error of the class `Invalid` with a formatted text if the condition holds.
macro_rules! bail_if {
    ($condition:expr, $($text:tt)+) => {
        if $condition {
            return Err($crate::error::invalid(format!($($text)+)));
        }
    };
}

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

pub(crate) use {bail, bail_if, configuration, corrupt, invalid, text_enum, unauthorized};
