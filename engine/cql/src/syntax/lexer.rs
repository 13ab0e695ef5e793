//! Splits text into tokens, one at a time, without allocating.
//!
//! Peculiarities, which Cassandra has too:
//! - A sign directly before a digit belongs to the number: `x -3` is a name and an integer, `x - 3`
//!   has an operator.
//! - A number is as long as possible, and the next token need not be separated: `1ALLOW` is an
//!   integer and a keyword.
//! - `1..2` is an integer, a range and an integer; `1...2` begins with the float `1.`.
//! - An identifier that is an ISO 8601 duration (`P1D`, with a capital P) is a duration. A UUID is
//!   recognised even if it begins with a letter.
//!
//! Unlike in Cassandra, a `--` or `//` comment may end with the input. A lexer never fails: invalid
//! input becomes [`Tok::Bad`].

use super::keyword::Keyword;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tok {
    /// The end of the input.
    End,
    /// An unquoted name that is not a keyword.
    Ident,
    /// `"a name"`.
    Quoted,
    /// `'a string'`.
    Str,
    /// `$$a string$$`.
    DollarStr,
    /// `-?[0-9]+`.
    Integer,
    /// A number with a fraction or an exponent.
    Float,
    /// A duration in either notation.
    Duration,
    /// A UUID.
    Uuid,
    /// `0x…`, a blob.
    Hex,
    /// `-NaN`.
    NegNan,
    /// `-Infinity`.
    NegInfinity,
    /// `?`.
    Question,
    /// `..`.
    Range,
    /// `.`.
    Dot,
    /// `,`.
    Comma,
    /// `:`.
    Colon,
    /// `;`.
    Semicolon,
    /// `(`.
    LParen,
    /// `)`.
    RParen,
    /// `[`.
    LBracket,
    /// `]`.
    RBracket,
    /// `{`.
    LBrace,
    /// `}`.
    RBrace,
    /// `=`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `+`.
    Plus,
    /// `+=`.
    PlusEq,
    /// `-`.
    Minus,
    /// `-=`.
    MinusEq,
    /// `*`.
    Star,
    /// `/`.
    Slash,
    /// `%`.
    Percent,
    /// A keyword.
    Kw(Keyword),
    /// Not a valid token.
    Bad(Bad),
}

/// Reason why input is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// A character that no token begins with.
    Char,
    /// `'` without a closing quote.
    Str,
    /// `$$` without an end.
    DollarStr,
    /// `"` without a closing quote.
    Quoted,
    /// `/*` without an end.
    Comment,
    /// Digits that begin like a UUID but are not one.
    Uuid,
}

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqlToken {
    /// Kind of the token.
    pub kind: Tok,
    /// Offset of its first byte.
    pub start: u32,
    /// Offset after its last byte.
    pub end: u32,
}

/// A lexer. It is cheap to copy, and a copy continues at the position of the original.
#[derive(Clone, Copy, Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

const fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// For each byte, whether it may be in a name.
const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = is_word(b as u8);
        b += 1;
    }
    table
};

impl<'a> Lexer<'a> {
    /// Creates a lexer of `text` from byte `at` on. Texts longer than 4 GiB are not supported;
    /// [`super::MAX_LENGTH`] is far less.
    pub fn new(text: &'a str, at: u32) -> Lexer<'a> {
        Lexer { bytes: text.as_bytes(), at: at as usize }
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        // No token contains the byte 0.
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn run(&self, mut at: usize, of: impl Fn(u8) -> bool) -> usize {
        while self.bytes.get(at).is_some_and(|&b| of(b)) {
            at += 1;
        }
        at
    }

    #[inline]
    fn digits(&self, at: usize) -> usize {
        self.run(at, |b| b.is_ascii_digit())
    }

    fn find(&self, what: &[u8], at: usize) -> Option<usize> {
        Some(at + self.bytes.get(at..)?.windows(what.len()).position(|w| w == what)?)
    }

    /// Skips white space and comments; returns `false` if a comment has no end.
    #[inline]
    fn pass_trivia(&mut self) -> bool {
        loop {
            match self.byte(self.at) {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b @ (b'-' | b'/') if self.byte(self.at + 1) == b => {
                    self.at = self.run(self.at, |b| b != b'\n' && b != b'\r')
                }
                b'/' if self.byte(self.at + 1) == b'*' => match self.find(b"*/", self.at + 2) {
                    Some(end) => self.at = end + 2,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// Returns the next token; [`Tok::End`] at the end, also repeatedly.
    #[inline]
    pub fn next_token(&mut self) -> CqlToken {
        let (kind, start, end) = if self.pass_trivia() {
            let (kind, end) = self.token();
            (kind, self.at, end)
        } else {
            (Tok::Bad(Bad::Comment), self.at, self.bytes.len())
        };
        self.at = end;
        CqlToken { kind, start: start as u32, end: end as u32 }
    }

    #[inline]
    fn token(&self) -> (Tok, usize) {
        let at = self.at;
        let Some(&b) = self.bytes.get(at) else { return (Tok::End, at) };
        let next = self.byte(at + 1);
        let one = |kind| (kind, at + 1);
        let or =
            |second: u8, two, kind| if next == second { (two, at + 2) } else { (kind, at + 1) };
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'0'..=b'9' => self.number(at),
            b'\'' => self.delimited(b'\'', Tok::Str, Bad::Str),
            b'"' => self.delimited(b'"', Tok::Quoted, Bad::Quoted),
            b'$' if next == b'$' => match self.find(b"$$", at + 2) {
                Some(end) => (Tok::DollarStr, end + 2),
                None => (Tok::Bad(Bad::DollarStr), self.bytes.len()),
            },
            b'(' => one(Tok::LParen),
            b')' => one(Tok::RParen),
            b',' => one(Tok::Comma),
            b'=' => one(Tok::Eq),
            b'?' => one(Tok::Question),
            b';' => one(Tok::Semicolon),
            b':' => one(Tok::Colon),
            b'[' => one(Tok::LBracket),
            b']' => one(Tok::RBracket),
            b'{' => one(Tok::LBrace),
            b'}' => one(Tok::RBrace),
            b'*' => one(Tok::Star),
            b'/' => one(Tok::Slash),
            b'%' => one(Tok::Percent),
            b'.' => or(b'.', Tok::Range, Tok::Dot),
            b'<' => or(b'=', Tok::Le, Tok::Lt),
            b'>' => or(b'=', Tok::Ge, Tok::Gt),
            b'+' => or(b'=', Tok::PlusEq, Tok::Plus),
            b'!' if next == b'=' => (Tok::Ne, at + 2),
            b'-' => self.minus(next),
            _ => (Tok::Bad(Bad::Char), self.char_end(at)),
        }
    }

    fn char_end(&self, at: usize) -> usize {
        self.run(at + 1, |b| b & 0xC0 == 0x80)
    }

    /// Reads text between two `quote`s, in which a doubled quote stands for one.
    fn delimited(&self, quote: u8, kind: Tok, bad: Bad) -> (Tok, usize) {
        let mut at = self.at + 1;
        loop {
            at = self.run(at, |b| b != quote);
            if at == self.bytes.len() {
                return (Tok::Bad(bad), at);
            }
            if self.byte(at + 1) != quote {
                return (kind, at + 1);
            }
            at += 2;
        }
    }

    #[inline]
    fn word(&self) -> (Tok, usize) {
        let at = self.at;
        let end = self.run(at + 1, |b| WORD[b as usize]);
        if end == at + 8 && self.byte(end) == b'-' && self.begins_uuid(at) {
            return self.uuid(at);
        }
        if self.bytes[at] == b'P'
            && let Some(end) = self.iso_duration(at)
        {
            return (Tok::Duration, end);
        }
        match Keyword::find(self.bytes, at, end) {
            Some(keyword) => (Tok::Kw(keyword), end),
            None => (Tok::Ident, end),
        }
    }

    fn minus(&self, next: u8) -> (Tok, usize) {
        let at = self.at;
        match next {
            b'0'..=b'9' => return self.number(at + 1),
            b'=' => return (Tok::MinusEq, at + 2),
            b'a'..=b'z' | b'A'..=b'Z' => {}
            _ => return (Tok::Minus, at + 1),
        }
        let end = self.run(at + 1, is_word);
        match Keyword::find(self.bytes, at + 1, end) {
            Some(Keyword::Nan) => (Tok::NegNan, end),
            Some(Keyword::Infinity) => (Tok::NegInfinity, end),
            _ if next == b'P' => {
                self.iso_duration(at + 1).map_or((Tok::Minus, at + 1), |end| (Tok::Duration, end))
            }
            _ => (Tok::Minus, at + 1),
        }
    }

    /// Returns the number of bytes at `at` that match the form of a UUID, at most 36.
    fn like_uuid(&self, at: usize) -> usize {
        let fits = |(i, b): (usize, &u8)| {
            if matches!(i, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() }
        };
        self.bytes[at..].iter().take(36).enumerate().take_while(|(i, b)| fits((*i, b))).count()
    }

    /// Reports whether a UUID begins at `at`: only a UUID matches up to its fourth dash.
    fn begins_uuid(&self, at: usize) -> bool {
        self.like_uuid(at) >= 24
    }

    fn uuid(&self, at: usize) -> (Tok, usize) {
        match self.like_uuid(at) {
            36 => (Tok::Uuid, at + 36),
            some => (Tok::Bad(Bad::Uuid), at + some),
        }
    }

    /// Reads a token that begins with digits at `at`; it may have a sign before them.
    fn number(&self, at: usize) -> (Tok, usize) {
        let signed = at != self.at;
        let end = self.digits(at);
        if !signed && end <= at + 8 {
            if self.byte(at + 8) == b'-' && self.begins_uuid(at) {
                return self.uuid(at);
            }
            if end == at + 1 && self.byte(at) == b'0' && matches!(self.byte(end), b'x' | b'X') {
                return (Tok::Hex, self.run(end + 1, |b| b.is_ascii_hexdigit()));
            }
        }
        match self.byte(end) {
            b'.' if self.byte(end + 1) == b'.' && self.byte(end + 2) == b'.' => {
                (Tok::Float, end + 1)
            }
            b'.' if self.byte(end + 1) == b'.' => (Tok::Integer, end),
            b'.' => {
                let end = self.digits(end + 1);
                (Tok::Float, self.exponent(end).unwrap_or(end))
            }
            b'e' | b'E' => self.exponent(end).map_or((Tok::Integer, end), |end| (Tok::Float, end)),
            _ => self.units(end).map_or((Tok::Integer, end), |end| (Tok::Duration, end)),
        }
    }

    /// Returns the end of `e+12` at `at`.
    fn exponent(&self, at: usize) -> Option<usize> {
        if !matches!(self.byte(at), b'e' | b'E') {
            return None;
        }
        let digits = at + 1 + matches!(self.byte(at + 1), b'+' | b'-') as usize;
        let end = self.digits(digits);
        (end > digits).then_some(end)
    }

    /// Returns the end of `h30m` at `at`: the units of a duration after its first digits.
    fn units(&self, at: usize) -> Option<usize> {
        let mut end = self.unit(at)?;
        loop {
            let digits = self.digits(end);
            match self.unit(digits) {
                Some(next) if digits > end => end = next,
                _ => return Some(end),
            }
        }
    }

    fn unit(&self, at: usize) -> Option<usize> {
        let next = self.byte(at + 1) | 0x20;
        let len = match self.byte(at) {
            b'm' | b'M' if next == b's' || next == b'o' => 2,
            b'y' | b'Y' | b'w' | b'W' | b'd' | b'D' | b'h' | b'H' | b'm' | b'M' | b's' | b'S' => 1,
            b'u' | b'U' | b'n' | b'N' if next == b's' => 2,
            0xC2 if self.byte(at + 1) == 0xB5 && self.byte(at + 2) | 0x20 == b's' => 3,
            _ => return None,
        };
        Some(at + len)
    }

    /// Returns the end of an ISO 8601 duration whose `P` is at `at`, unless a name continues there.
    fn iso_duration(&self, at: usize) -> Option<usize> {
        let end = self.iso_alternative(at + 1).or_else(|| {
            if let Some(weeks) = self.designated(at + 1, b"W") {
                return Some(weeks);
            }
            let days = self.designated(at + 1, b"YMD");
            let t = days.unwrap_or(at + 1);
            let time = if self.byte(t) == b'T' { self.designated(t + 1, b"HMS") } else { None };
            time.or(days)
        })?;
        (!is_word(self.byte(end))).then_some(end)
    }

    /// Returns the end of parts of `1Y2M3D`, in order, each at most once; `None` if there are none.
    fn designated(&self, at: usize, designators: &[u8]) -> Option<usize> {
        let mut end = at;
        for &designator in designators {
            let digits = self.digits(end);
            if digits > end && self.byte(digits) == designator {
                end = digits + 1;
            }
        }
        (end > at).then_some(end)
    }

    /// Returns the end of `0001-02-03T04:05:06`.
    fn iso_alternative(&self, at: usize) -> Option<usize> {
        const FORM: &[u8] = b"0000-00-00T00:00:00";
        let bytes = self.bytes.get(at..at + FORM.len())?;
        let fits =
            |(&b, &form): (&u8, &u8)| if form == b'0' { b.is_ascii_digit() } else { b == form };
        bytes.iter().zip(FORM).all(fits).then_some(at + FORM.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Tok, &str)> {
        let mut lexer = Lexer::new(text, 0);
        let mut out = Vec::new();
        loop {
            let t = lexer.next_token();
            if t.kind == Tok::End {
                return out;
            }
            out.push((t.kind, &text[t.start as usize..t.end as usize]));
        }
    }

    fn kinds(text: &str) -> Vec<Tok> {
        tokens(text).into_iter().map(|t| t.0).collect()
    }

    #[test]
    fn signs_belong_to_digits() {
        assert_eq!(tokens("x -3"), [(Tok::Ident, "x"), (Tok::Integer, "-3")]);
        assert_eq!(tokens("x - 3"), [(Tok::Ident, "x"), (Tok::Minus, "-"), (Tok::Integer, "3")]);
        assert_eq!(
            tokens("x-=-1.5e-3"),
            [(Tok::Ident, "x"), (Tok::MinusEq, "-="), (Tok::Float, "-1.5e-3")]
        );
        assert_eq!(
            tokens("-NaN -infinity -nano"),
            [
                (Tok::NegNan, "-NaN"),
                (Tok::NegInfinity, "-infinity"),
                (Tok::Minus, "-"),
                (Tok::Ident, "nano")
            ]
        );
    }

    #[test]
    fn numbers_are_as_long_as_they_can_be() {
        assert_eq!(tokens("1..2"), [(Tok::Integer, "1"), (Tok::Range, ".."), (Tok::Integer, "2")]);
        assert_eq!(tokens("1...2"), [(Tok::Float, "1."), (Tok::Range, ".."), (Tok::Integer, "2")]);
        assert_eq!(tokens("1ALLOW"), [(Tok::Integer, "1"), (Tok::Kw(Keyword::Allow), "ALLOW")]);
        assert_eq!(
            tokens("1e5 1e 1.e2 1.5"),
            [
                (Tok::Float, "1e5"),
                (Tok::Integer, "1"),
                (Tok::Ident, "e"),
                (Tok::Float, "1.e2"),
                (Tok::Float, "1.5")
            ]
        );
        assert_eq!(
            tokens("0x 0xaZ 00x1"),
            [
                (Tok::Hex, "0x"),
                (Tok::Hex, "0xa"),
                (Tok::Ident, "Z"),
                (Tok::Integer, "00"),
                (Tok::Ident, "x1")
            ]
        );
    }

    #[test]
    fn durations_and_uuids() {
        for text in [
            "1h30m",
            "-2mo3d",
            "5ms",
            "1us2ns",
            "3µs",
            "1Y2MO3W",
            "P1Y2M3DT4H5M6S",
            "PT5M",
            "-P3W",
            "P0001-02-03T04:05:06",
        ] {
            assert_eq!(tokens(text), [(Tok::Duration, text)]);
        }
        for text in ["P", "PT", "P1", "P1Dx", "p1d", "PT5", "P1W2D"] {
            assert_eq!(kinds(text), [Tok::Ident], "{text}");
        }
        assert_eq!(kinds("P1D-2"), [Tok::Duration, Tok::Integer]);
        for text in [
            "550e8400-e29b-41d4-a716-446655440000",
            "Ffffffff-ffff-4fff-bfff-ffffffffffff",
            "00000000-0000-1000-8000-000000000001",
        ] {
            assert_eq!(tokens(text), [(Tok::Uuid, text)]);
        }
        assert_eq!(kinds("abcdef12-e29b"), [Tok::Ident, Tok::Minus, Tok::Ident]);
    }

    #[test]
    fn comments_may_end_with_the_input() {
        assert_eq!(kinds("a -- b\nc // d\r e /* f\n * / ; */ g // h"), [Tok::Ident; 4]);
        assert_eq!(kinds("a--b"), [Tok::Ident]);
        assert_eq!(kinds("a /* b"), [Tok::Ident, Tok::Bad(Bad::Comment)]);
        assert_eq!(kinds("/*/"), [Tok::Bad(Bad::Comment)]);
    }

    #[test]
    fn strings_and_names_double_their_quotes() {
        assert_eq!(
            kinds("'it''s' '' $$it's$$ \"a\"\"b\" \"\""),
            [Tok::Str, Tok::Str, Tok::DollarStr, Tok::Quoted, Tok::Quoted]
        );
        assert_eq!(kinds("'a''"), [Tok::Bad(Bad::Str)]);
        assert_eq!(kinds("$$a$"), [Tok::Bad(Bad::DollarStr)]);
        assert_eq!(kinds("\"a"), [Tok::Bad(Bad::Quoted)]);
        assert_eq!(
            tokens("é$ ü"),
            [(Tok::Bad(Bad::Char), "é"), (Tok::Bad(Bad::Char), "$"), (Tok::Bad(Bad::Char), "ü")]
        );
    }
}
