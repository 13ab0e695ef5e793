//! Character classes: words and blanks.

/// Reports whether a character can continue a word.
pub(super) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Reports whether a character is blank, including the byte order mark that copied text may
/// contain.
pub(super) fn blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}
