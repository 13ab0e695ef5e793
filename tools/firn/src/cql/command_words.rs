//! Words of the shell's own commands.

use firn_cql::internals::syntax::lexer::{Lexer, Tok};

/// Iterator over the words and texts of a command, without quotes.
pub struct CommandWords<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
}

impl<'a> CommandWords<'a> {
    /// Creates an iterator over the words of a command.
    pub fn new(text: &'a str) -> CommandWords<'a> {
        CommandWords { text, lexer: Lexer::new(text, 0) }
    }

    /// Returns the next word as written, and whether it was quoted. `None` at the end.
    pub fn next(&mut self) -> Option<(String, bool)> {
        let token = self.lexer.next_token();
        let raw = &self.text[token.start as usize..token.end as usize];
        match token.kind {
            Tok::End => None,
            Tok::Str => Some((raw[1..raw.len() - 1].replace("''", "'"), true)),
            Tok::Quoted => Some((raw[1..raw.len() - 1].replace("\"\"", "\""), true)),
            Tok::DollarStr => Some((raw[2..raw.len() - 2].to_owned(), true)),
            _ => Some((raw.to_owned(), false)),
        }
    }

    /// Returns the next word without consuming it.
    pub fn peek(&self) -> Option<(String, bool)> {
        CommandWords { text: self.text, lexer: self.lexer }.next()
    }

    /// Consumes the next word if it is this one.
    pub fn eat(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|(w, quoted)| !quoted && w.eq_ignore_ascii_case(word));
        if found {
            self.next();
        }
        found
    }
}
