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

pub(crate) use {bail, bail_if, configuration, corrupt, invalid, unauthorized};
