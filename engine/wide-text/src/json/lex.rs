//! Lexer of relaxed JSON, the notation of the article's listings, and of strict JSON.
//!
//! It accepts more than JSON: keys and values without quotes (to the end of the line, `,`, `:`,
//! `=`, a bracket or a comment), quotes of either type, `=` for `:`, comments (`// …`, `/* … */`),
//! and lines of dots for omissions. In a value without quotes, a comma is part of the text unless a
//! name or nothing follows it. A `:` or `=` is part of the text if a letter, a digit or a slash
//! follows it directly. Commas may be missing at the end of a line, or be superfluous at the end of
//! a list; the reader decides this from the line ends.

use std::io::{ErrorKind, Read};

use super::JsonFailure;

/// Longest text, in bytes: the largest value in hexadecimal.
pub const MAX_TEXT: usize = 2 * firn_kv::MAX_VALUE_LEN + 16;

const BUFFER: usize = 256 << 10;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `{`, `}`, `[`, `]`, `,` or `:` (also for `=`).
    Sign(u8),
    /// A text, with or without quotes: [`JsonLexer::text`].
    Text,
    /// End of the input.
    End,
}

/// The lexer.
pub struct JsonLexer<R: Read> {
    source: R,
    buffer: Vec<u8>,
    /// Offsets in the buffer: of the next byte, and of the end of the read bytes.
    next: usize,
    end: usize,
    line: u64,
    column: u64,
    /// Position of the last word.
    at: (u64, u64),
    broke: bool,
    /// Whether the last word is a colon: a value follows.
    is_value: bool,
    text: Vec<u8>,
    peeked: Option<Word>,
    read: u64,
}

impl<R: Read> JsonLexer<R> {
    pub fn new(source: R) -> JsonLexer<R> {
        let buffer = vec![0; BUFFER];
        JsonLexer {
            source,
            buffer,
            next: 0,
            end: 0,
            line: 1,
            column: 1,
            at: (1, 1),
            broke: false,
            is_value: false,
            text: vec![],
            peeked: None,
            read: 0,
        }
    }

    /// Returns the number of bytes read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the text of the last word.
    pub fn text(&self) -> &str {
        // Checked when it was read.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Returns the line of the last word.
    pub fn line(&self) -> u64 {
        self.at.0
    }

    /// Returns an error at the last word.
    pub fn wrong(&self, why: impl Into<String>) -> JsonFailure {
        JsonFailure::Syntax { line: self.at.0, column: self.at.1, why: why.into() }
    }

    /// Reports whether a line ended between the last word and the one before.
    pub fn after_line_end(&self) -> bool {
        self.broke
    }

    /// Returns the buffered bytes: at least `least`, unless the input ends.
    fn ahead(&mut self, least: usize) -> Result<&[u8], JsonFailure> {
        while self.end - self.next < least {
            self.buffer.copy_within(self.next..self.end, 0);
            (self.next, self.end) = (0, self.end - self.next);
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(&self.buffer[self.next..self.end])
    }

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>, JsonFailure> {
        if self.next < self.end {
            return Ok(Some(self.buffer[self.next]));
        }
        Ok(self.ahead(1)?.first().copied())
    }

    /// Returns the byte after the next one.
    fn second(&mut self) -> Result<Option<u8>, JsonFailure> {
        Ok(self.ahead(2)?.get(1).copied())
    }

    fn take(&mut self) {
        if self.next < self.end {
            let b = self.buffer[self.next];
            self.next += 1;
            self.read += 1;
            if b == b'\n' {
                (self.line, self.column, self.broke) = (self.line + 1, 1, true);
            } else if b & 0xC0 != 0x80 {
                self.column += 1;
            }
        }
    }

    fn skip_line(&mut self) -> Result<(), JsonFailure> {
        while self.byte()?.is_some_and(|b| b != b'\n') {
            self.take();
        }
        Ok(())
    }

    fn skip_blanks(&mut self) -> Result<(), JsonFailure> {
        while let Some(b) = self.byte()? {
            match b {
                b' ' | b'\t' | b'\r' | b'\n' => self.take(),
                b'/' if self.second()? == Some(b'/') => self.skip_line()?,
                b'.' if self.second()? == Some(b'.') => self.skip_line()?,
                b'/' if self.second()? == Some(b'*') => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), JsonFailure> {
        self.at = (self.line, self.column);
        self.take();
        self.take();
        let mut star = false;
        while let Some(b) = self.byte()? {
            self.take();
            if star && b == b'/' {
                return Ok(());
            }
            star = b == b'*';
        }
        Err(self.wrong("a comment does not end"))
    }

    /// Returns the next word without consuming it.
    pub fn peek(&mut self) -> Result<Word, JsonFailure> {
        let word = self.next()?;
        self.peeked = Some(word);
        Ok(word)
    }

    /// Returns the next word.
    pub fn next(&mut self) -> Result<Word, JsonFailure> {
        if let Some(word) = self.peeked.take() {
            return Ok(word);
        }
        self.broke = false;
        // Skip the byte order mark of some editors.
        if self.read == 0 && self.ahead(3)?.starts_with("\u{feff}".as_bytes()) {
            (self.next, self.read) = (self.next + 3, 3);
        }
        self.skip_blanks()?;
        self.at = (self.line, self.column);
        let word = self.word()?;
        self.is_value = word == Word::Sign(b':');
        Ok(word)
    }

    /// Reads the word that begins here.
    fn word(&mut self) -> Result<Word, JsonFailure> {
        let Some(b) = self.byte()? else { return Ok(Word::End) };
        match b {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => {
                self.take();
                Ok(Word::Sign(b))
            }
            b'=' => {
                self.take();
                Ok(Word::Sign(b':'))
            }
            b'"' | b'\'' => self.quoted(b),
            _ => self.bare(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), JsonFailure> {
        if self.text.len() + bytes.len() > MAX_TEXT {
            return Err(self.too_long());
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn too_long(&self) -> JsonFailure {
        self.wrong(format!("a text has more than {MAX_TEXT} bytes"))
    }

    /// Reads bytes up to one that ends the text.
    fn run(&mut self, ends: impl Fn(u8) -> bool) -> Result<Option<u8>, JsonFailure> {
        loop {
            if self.ahead(1)?.is_empty() {
                return Ok(None);
            }
            let bytes = &self.buffer[self.next..self.end];
            let len = bytes.iter().position(|&b| ends(b) || b == b'\n').unwrap_or(bytes.len());
            let next = bytes.get(len).copied();
            if self.text.len() + len > MAX_TEXT {
                return Err(self.too_long());
            }
            self.text.extend_from_slice(&bytes[..len]);
            self.column += bytes[..len].iter().filter(|&&b| b & 0xC0 != 0x80).count() as u64;
            self.next += len;
            self.read += len as u64;
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<Word, JsonFailure> {
        self.text.clear();
        let broke = self.broke;
        self.take();
        loop {
            match self.run(|b| b == quote || b == b'\\')? {
                None => return Err(self.wrong("a text does not end")),
                Some(b'\\') => {
                    self.take();
                    self.escape()?;
                }
                Some(b'\n') => {
                    self.take();
                    self.push(b"\n")?;
                }
                Some(_) => break,
            }
        }
        self.take();
        self.broke = broke;
        self.checked()
    }

    fn checked(&mut self) -> Result<Word, JsonFailure> {
        if std::str::from_utf8(&self.text).is_err() {
            self.text.clear();
            return Err(self.wrong(
                "a text that is not UTF-8; write other bytes as 0x and hexadecimal digits",
            ));
        }
        Ok(Word::Text)
    }

    fn escape(&mut self) -> Result<(), JsonFailure> {
        let Some(b) = self.byte()? else { return Err(self.wrong("a text does not end")) };
        self.take();
        let c = match b {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\'' | b'\\' | b'/' => char::from(b),
            b'u' => self.unicode()?,
            other => {
                return Err(self.wrong(format!("the unknown escape \\{}", other.escape_ascii())));
            }
        };
        self.push(c.encode_utf8(&mut [0; 4]).as_bytes())
    }

    fn four_digits(&mut self) -> Result<u32, JsonFailure> {
        let mut n = 0;
        for _ in 0..4 {
            let digit = self.byte()?.and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.wrong("\\u without four hexadecimal digits behind it"));
            };
            self.take();
            n = n << 4 | digit;
        }
        Ok(n)
    }

    fn unicode(&mut self) -> Result<char, JsonFailure> {
        let mut n = self.four_digits()?;
        if (0xD800..0xDC00).contains(&n) && self.byte()? == Some(b'\\') {
            self.take();
            if self.byte()? == Some(b'u') {
                self.take();
                let low = self.four_digits()?;
                if (0xDC00..0xE000).contains(&low) {
                    n = 0x1_0000 + ((n - 0xD800) << 10) + (low - 0xDC00);
                }
            }
        }
        char::from_u32(n).ok_or_else(|| self.wrong("half of a pair of \\u escapes"))
    }

    /// Reads a text without quotes, preserving its inner blanks.
    fn bare(&mut self) -> Result<Word, JsonFailure> {
        self.text.clear();
        loop {
            match self
                .run(|b| matches!(b, b',' | b':' | b'=' | b'{' | b'}' | b'[' | b']' | b'/'))?
            {
                Some(b'/')
                    if !matches!(self.second()?, Some(b'/' | b'*'))
                        || !self.text.ends_with(b" ") =>
                {
                    self.take();
                    self.push(b"/")?;
                }
                Some(b',') if self.is_value && self.comma_is_text()? => {
                    self.take();
                    self.push(b",")?;
                }
                // Part of a time or an address.
                Some(b @ (b':' | b'='))
                    if self.is_value
                        && self
                            .second()?
                            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'/') =>
                {
                    self.take();
                    self.push(&[b])?;
                }
                _ => break,
            }
        }
        self.text.truncate(self.text.trim_ascii_end().len());
        self.checked()
    }

    /// Reports whether the next comma belongs to the current value: more text follows, and that
    /// text is no name.
    fn comma_is_text(&mut self) -> Result<bool, JsonFailure> {
        let (mut least, mut blank) = (64, true);
        loop {
            let bytes = self.ahead(least)?;
            for (i, &b) in bytes.iter().enumerate().skip(1) {
                match (b, bytes.get(i + 1)) {
                    (b' ' | b'\t' | b'\r', _) => {}
                    (b'\n' | b',' | b'}' | b']', _) => return Ok(!blank),
                    (b':' | b'=' | b'{' | b'[', _) => return Ok(false),
                    (b'"' | b'\'', _) | (b'/', Some(b'/' | b'*')) | (b'.', Some(b'.')) if blank => {
                        return Ok(false);
                    }
                    (b'/', Some(b'/' | b'*')) if bytes[i - 1] == b' ' => return Ok(true),
                    _ => blank = false,
                }
            }
            if bytes.len() < least || least >= BUFFER {
                return Ok(!blank);
            }
            (least, blank) = (BUFFER.min(least * 8), true);
        }
    }
}
