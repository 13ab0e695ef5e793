//! Lexer. A token records its byte offsets; lines and columns are computed only for errors.

use super::chars::{blank, in_word};
use super::split::CliSource;
use super::syntax::CliSyntaxError;

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Letters, digits, `_` and `-`, beginning with a letter or a digit, and not all digits.
    Word,
    /// A string in quotes.
    Text,
    /// Digits, possibly after `-`.
    Integer,
    /// Digits, a point, digits.
    Decimal,
    /// Four numbers with points between.
    Address,
    /// One of the [signs](SIGNS).
    Sign,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliToken {
    /// Its type.
    pub kind: TokenKind,
    /// Its characters; for a string, without quotes and escapes.
    pub text: String,
    /// Byte offset of its start.
    pub start: usize,
    /// Byte offset of its end.
    pub end: usize,
}

/// The signs of the language, longer ones first.
pub const SIGNS: [&str; 17] =
    [">=", "<=", "=", "<", ">", "[", "]", "{", "}", "(", ")", ":", ",", ".", "/", "?", ";"];

const SIGNS_TEXT: &str = "a word, a number, a string or a sign of the language";

/// The reason why the lexer stopped.
#[derive(Debug)]
pub(super) enum LexStop {
    /// A character that cannot begin a token.
    Character,
    /// A string that begins here is not closed.
    OpenString,
    /// A comment that begins here is not closed.
    OpenComment,
    /// `\x` or `\u` without its hexadecimal digits, or with an invalid code point.
    Escape,
    /// Digits and points that form neither a number nor an address.
    Number,
}

/// Returns all tokens of a statement, without comments and blanks.
///
/// # Errors
/// A character that cannot begin a token, or an unclosed string or comment.
pub fn lex(source: &CliSource) -> Result<Vec<CliToken>, CliSyntaxError> {
    let (tokens, stop) = tokens(&source.text);
    match stop {
        None => Ok(tokens),
        Some((at, stop)) => Err(error(source, at, &stop)),
    }
}

fn error(source: &CliSource, at: usize, stop: &LexStop) -> CliSyntaxError {
    let met = source.text[at..].chars().next().unwrap_or(' ');
    let (met_text, expected) = match stop {
        LexStop::Character => (format!("'{}'", met.escape_debug()), SIGNS_TEXT.to_owned()),
        LexStop::OpenString => ("a string without an end".to_owned(), format!("a closing {met}")),
        LexStop::OpenComment => ("a comment without an end".to_owned(), "a closing */".to_owned()),
        LexStop::Escape => {
            ("an escape that is no character".to_owned(), "\\xHH or \\uHHHH".to_owned())
        }
        LexStop::Number => ("digits and points".to_owned(), "a number or an address".to_owned()),
    };
    let short = format!("unexpected \"{met}\" for `{}`.", source.one_line());
    CliSyntaxError::new(source, at, met_text, expected, at, short)
}

/// Returns the tokens up to the end or to the first error, with its position and reason.
pub(super) fn tokens(text: &str) -> (Vec<CliToken>, Option<(usize, LexStop)>) {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let next = match c {
            c if blank(c) => {
                at += c.len_utf8();
                continue;
            }
            '-' if rest.starts_with("--") => {
                at += rest.find(['\n', '\r']).unwrap_or(rest.len());
                continue;
            }
            '/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(length) => {
                    at += length + 4;
                    continue;
                }
                None => Err(LexStop::OpenComment),
            },
            '\'' | '"' => string(rest, c),
            '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length =
                    1 + rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1);
                number(rest, TokenKind::Integer, length)
            }
            c if c.is_ascii_alphanumeric() => word_or_number(rest),
            _ => match SIGNS.iter().find(|s| rest.starts_with(**s)) {
                Some(sign) => Ok((TokenKind::Sign, (*sign).to_owned(), sign.len())),
                None => Err(LexStop::Character),
            },
        };
        match next {
            Ok((kind, token, length)) => {
                out.push(CliToken { kind, text: token, start: at, end: at + length });
                at += length;
            }
            Err(stop) => return (out, Some((at, stop))),
        }
    }
    (out, None)
}

fn word_or_number(rest: &str) -> Result<(TokenKind, String, usize), LexStop> {
    let length = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    if !word.bytes().all(|b| b.is_ascii_digit()) {
        return Ok((TokenKind::Word, word.to_owned(), length));
    }
    let (mut end, mut points) = (length, 0);
    while let Some(more) = rest[end..].strip_prefix('.') {
        let digits = more.find(|c: char| !c.is_ascii_digit()).unwrap_or(more.len());
        if digits == 0 {
            break;
        }
        (end, points) = (end + 1 + digits, points + 1);
    }
    let kind = match points {
        0 => TokenKind::Integer,
        1 => TokenKind::Decimal,
        3 => TokenKind::Address,
        _ => return Err(LexStop::Number),
    };
    number(rest, kind, end)
}

/// Checks a number that ends at `end`: no word character may follow. Otherwise the meaning of `--`
/// would depend on numbers, which the splitter does not know.
fn number(rest: &str, kind: TokenKind, end: usize) -> Result<(TokenKind, String, usize), LexStop> {
    if rest[end..].starts_with(in_word) {
        Err(LexStop::Number)
    } else {
        Ok((kind, rest[..end].to_owned(), end))
    }
}

/// Lexes a string in quotes and resolves its escapes.
fn string(rest: &str, quote: char) -> Result<(TokenKind, String, usize), LexStop> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    let mut bad = false;
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                return if bad {
                    Err(LexStop::Escape)
                } else {
                    Ok((TokenKind::Text, text, at + 1))
                };
            }
            '\\' => {
                let Some((_, e)) = chars.next() else { break };
                match e {
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    'v' => text.push('\u{b}'),
                    '0' => text.push('\0'),
                    // After `\` the digits are ASCII or absent, so `at + 2` is a character
                    // boundary.
                    'x' | 'u' => match hexadecimal(&rest[at + 2..], e) {
                        Some((c, digits)) => {
                            text.push(c);
                            chars.nth(digits - 1);
                        }
                        None => bad = true,
                    },
                    other => text.push(other),
                }
            }
            c => text.push(c),
        }
    }
    Err(LexStop::OpenString)
}

/// Decodes `\xHH`, `\uHHHH` or a surrogate pair `\uHHHH\uHHHH`. Returns the character and its
/// number of characters after the first letter.
fn hexadecimal(rest: &str, letter: char) -> Option<(char, usize)> {
    let number = |s: &str, digits: usize| {
        let s = s.get(..digits)?;
        s.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(s, 16).ok()).flatten()
    };
    if letter == 'x' {
        return Some((char::from_u32(number(rest, 2)?)?, 2));
    }
    let high = number(rest, 4)?;
    if !(0xD800..0xDC00).contains(&high) {
        return Some((char::from_u32(high)?, 4));
    }
    let low = number(rest[4..].strip_prefix("\\u")?, 4)?;
    let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x10000 + ((high - 0xD800) << 10) + low)?, 10))
}
