//! Which characters are words, and which are blanks.

/// Whether a word goes on with this character.
pub(super) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether a character is nothing but space: what comes with text that was copied from a page is
/// space too.
pub(super) fn blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}
