//! The words of the shell's own commands.

use firn_cql::internals::syntax::lexer::{Lexer, Tok};

/// The words and texts of a command, quotes taken off.
pub struct CommandWords<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
}

impl<'a> CommandWords<'a> {
    /// Of a command.
    pub fn new(text: &'a str) -> CommandWords<'a> {
        CommandWords { text, lexer: Lexer::new(text, 0) }
    }

    /// The next one as it stands there, and whether it was quoted. `None` at the end.
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

    /// The next one without taking it.
    pub fn peek(&self) -> Option<(String, bool)> {
        CommandWords { text: self.text, lexer: self.lexer }.next()
    }

    /// Takes the next one if it is this word.
    pub fn eat(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|(w, quoted)| !quoted && w.eq_ignore_ascii_case(word));
        if found {
            self.next();
        }
        found
    }
}
