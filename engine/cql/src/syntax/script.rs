//! Splits a script into statements.
//!
//! A statement ends with `;` outside strings, quoted names and comments. A batch does not end with
//! the `;` of its statements, but with the `;` after `APPLY BATCH`. Text without `;` at the end is
//! a statement too. Pieces with only white space and comments are omitted. Syntax errors are found
//! only when a piece is parsed.

use super::error::SyntaxError;
use super::keyword::Keyword;
use super::lexer::{Bad, Lexer, Tok};
use super::limits::MAX_LENGTH;
use super::parse_from;
use super::parser::ParsedStatement;

/// An iterator over the statements of a script, in order.
#[derive(Clone, Debug)]
pub struct Script<'a> {
    text: &'a str,
    at: usize,
}

/// A statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// Text of the script up to the end of the statement.
    until: &'a str,
    /// Offset of the statement's first token.
    pub start: usize,
    /// Offset after the statement, without its `;`.
    pub end: usize,
    /// Whether a `;` ends it. If not, an interactive reader may wait for more input.
    pub closed: bool,
}

impl<'a> Script<'a> {
    /// Creates an iterator over the statements of `text`. If the text exceeds [`MAX_LENGTH`], its
    /// first bytes are returned as one piece, which cannot be parsed.
    pub fn new(text: &'a str) -> Script<'a> {
        Script { text, at: 0 }
    }

    /// Reports whether the text ends with a complete statement: there is no open statement, string
    /// or comment.
    pub fn is_complete(text: &str) -> bool {
        Script::new(text).last().is_none_or(|piece| piece.closed)
    }
}

impl<'a> Iterator for Script<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.text.len() > MAX_LENGTH {
            let piece = Piece { until: self.text, start: 0, end: self.text.len(), closed: true };
            self.text = "";
            self.at = 0;
            return Some(piece);
        }
        let mut lexer = Lexer::new(self.text, self.at as u32);
        let mut first = lexer.next_token();
        while first.kind == Tok::Semicolon {
            first = lexer.next_token();
        }
        if first.kind == Tok::End {
            self.at = self.text.len();
            return None;
        }
        let start = first.start as usize;
        let (mut token, mut in_batch, mut end) =
            (first, first.kind == Tok::Kw(Keyword::Begin), start);
        let closed = loop {
            match token.kind {
                Tok::End => break false,
                Tok::Semicolon if !in_batch => break true,
                Tok::Kw(Keyword::Apply) => in_batch = false,
                Tok::Bad(Bad::Str | Bad::DollarStr | Bad::Quoted | Bad::Comment) => {
                    in_batch = false
                }
                _ => {}
            }
            end = token.end as usize;
            token = lexer.next_token();
        };
        self.at = if closed { token.end as usize } else { self.text.len() };
        Some(Piece { until: &self.text[..end], start, end, closed })
    }
}

impl<'a> Piece<'a> {
    /// Returns the text of the statement, without white space and comments at its begin and end.
    pub fn text(&self) -> &'a str {
        &self.until[self.start..]
    }

    /// Parses the statement. Positions are relative to the begin of the script.
    ///
    /// # Errors
    /// Those of [`super::parse`].
    #[doc(hidden)]
    pub fn parse(&self) -> Result<ParsedStatement<'a>, Box<SyntaxError>> {
        parse_from(self.until, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(&str, bool)> {
        Script::new(text).map(|p| (p.text(), p.closed)).collect()
    }

    #[test]
    fn a_semicolon_outside_strings_and_comments_ends_a_statement() {
        assert_eq!(pieces(";; -- nothing;\n/* ; */ ;"), []);
        assert_eq!(pieces("a;b ; c"), [("a", true), ("b", true), ("c", false)]);
        assert_eq!(
            pieces("a ';' \"x;\" $$;'$$ -- ;\n b /* ; */ ; // end"),
            [("a ';' \"x;\" $$;'$$ -- ;\n b", true)]
        );
        assert_eq!(pieces("a 'b; c"), [("a 'b; c", false)]);
        assert_eq!(pieces("a; /* b; c"), [("a", true), ("/* b; c", false)]);
    }

    #[test]
    fn a_batch_is_one_statement() {
        let batch =
            "BEGIN BATCH INSERT INTO t (a) VALUES (1); DELETE FROM t WHERE a = 1; APPLY BATCH";
        assert_eq!(pieces(&format!("{batch}; USE k;")), [(batch, true), ("USE k", true)]);
        assert_eq!(pieces("BEGIN BATCH a; b"), [("BEGIN BATCH a; b", false)]);
    }

    #[test]
    fn an_interactive_reader_knows_when_to_wait() {
        for text in ["", " -- c", "USE k;", "USE k; // more", "a;;"] {
            assert!(Script::is_complete(text), "{text}");
        }
        for text in ["USE k", "USE 'k;", "a; b", "BEGIN BATCH a;", "/* ;"] {
            assert!(!Script::is_complete(text), "{text}");
        }
    }

    #[test]
    fn errors_of_a_piece_count_lines_of_the_script() {
        let script = "USE k;\n\n SELECT FROM t;\nUSE l";
        let results: Vec<_> = Script::new(script).map(|p| p.parse()).collect();
        assert!(results[0].is_ok() && results[2].is_ok());
        let error = results[1].as_ref().unwrap_err();
        assert_eq!((error.line, error.column, error.offset), (3, 9, 16));
    }
}
