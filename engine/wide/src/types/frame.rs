//! Separator bytes in encoded sequences.

/// Precedes a value in a sequence.
pub const NEXT: u8 = 0x40;

/// The empty value in a sequence.
pub const EMPTY: u8 = 0x3F;

/// The empty value of a reversed type in a sequence.
pub const EMPTY_REVERSED: u8 = 0x41;

/// Null in a sequence.
pub const NULL: u8 = 0x3E;
