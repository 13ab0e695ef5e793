//! Splits text into CQL statements, which end at `;`, and shell commands, which also end at the end
//! of the line.
//!
//! Invariant: only the incomplete rest of the input is in memory.

use super::other_shells;
use firn_cql::Script;
use firn_cql::internals::syntax::lexer::{Lexer, Tok};

/// First words of shell commands that end with their line.
const COMMANDS: [&str; 19] = [
    "CAPTURE",
    "ELAPSED",
    "LOGIN",
    "UNICODE",
    "HELP",
    "DESCRIBE",
    "DESC",
    "SOURCE",
    "EXPAND",
    "PAGING",
    "SHOW",
    "CLEAR",
    "CLS",
    "EXIT",
    "QUIT",
    "CONSISTENCY",
    "SERIAL",
    "TRACING",
    "?",
];

/// A statement or command with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementSource {
    /// Text without the `;`.
    pub text: String,
    /// First line, from 1.
    pub line: u32,
    /// First character in that line, from 1.
    pub column: u32,
}

/// Buffer of the input that was not returned yet.
#[derive(Debug)]
pub struct StatementSplitter {
    text: String,
    at: usize,
    line: u32,
    column: u32,
}

impl StatementSplitter {
    /// Creates an empty buffer.
    pub fn new() -> StatementSplitter {
        StatementSplitter { text: String::new(), at: 0, line: 1, column: 1 }
    }

    /// Adds whole lines.
    pub fn feed(&mut self, text: &str) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.push_str(text);
    }

    /// Returns the number of bytes that wait for the end of a statement.
    pub fn waiting(&self) -> usize {
        self.text.len() - self.at
    }

    /// Reports whether a statement has begun and is incomplete.
    pub fn is_open(&self) -> bool {
        Lexer::new(&self.text, self.at as u32).next_token().kind != Tok::End
    }

    fn advance(&mut self, to: usize) {
        for c in self.text[self.at..to].chars() {
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.at = to;
    }

    /// Returns the next complete statement or command. `ended` means that no more input follows.
    pub fn next(&mut self, ended: bool) -> Option<StatementSource> {
        let mut lexer = Lexer::new(&self.text, self.at as u32);
        let mut first = lexer.next_token();
        while first.kind == Tok::Semicolon {
            first = lexer.next_token();
        }
        let start = first.start as usize;
        if first.kind == Tok::End {
            self.advance(self.text.len());
            return None;
        }
        let word = &self.text[start..first.end as usize];
        let end = if let Some(end) = other_shells::line_end(&self.text[start..]) {
            start + end
        } else if COMMANDS.iter().any(|c| c.eq_ignore_ascii_case(word)) {
            self.command_end(start, lexer, ended)?
        } else {
            let rest = &self.text[self.at..];
            match Script::new(rest).next().filter(|p| p.closed || ended) {
                Some(piece) => self.at + piece.end,
                None => self.at + other_shells::vertical_end(rest)?,
            }
        };
        self.advance(start);
        let source = StatementSource {
            text: self.text[start..end].trim_end().to_owned(),
            line: self.line,
            column: self.column,
        };
        self.advance(end);
        Some(source)
    }

    /// Returns the end of the command that begins at `start`: before a `;`, or the end of the line.
    fn command_end(&self, start: usize, mut lexer: Lexer<'_>, ended: bool) -> Option<usize> {
        let line = self.text[start..].find('\n').map(|n| start + n);
        let line_end = line.unwrap_or(self.text.len());
        loop {
            let token = lexer.next_token();
            if token.start as usize >= line_end || token.kind == Tok::End {
                return (line.is_some() || ended).then_some(line_end);
            }
            if token.kind == Tok::Semicolon {
                return Some(token.start as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(parts: &[&str]) -> Vec<String> {
        let (mut cutter, mut out) = (StatementSplitter::new(), vec![]);
        for (i, part) in parts.iter().enumerate() {
            cutter.feed(part);
            while let Some(s) = cutter.next(i + 1 == parts.len()) {
                out.push(format!("{}:{} {}", s.line, s.column, s.text));
            }
        }
        out
    }

    #[test]
    fn statements_end_with_a_semicolon_and_commands_with_their_line() {
        assert_eq!(cut(&["USE a; USE\n b;\n\n"]), ["1:1 USE a", "1:8 USE\n b"]);
        assert_eq!(
            cut(&[".tables\n", "\\d t\n", "SELECT a\nFROM t\\G\n", "USE a;\n"]),
            ["1:1 .tables", "2:1 \\d t", "3:1 SELECT a\nFROM t\\G", "5:1 USE a"]
        );
        assert_eq!(
            cut(&["help\nUSE a;desc tables; exit"]),
            ["1:1 help", "2:1 USE a", "2:7 desc tables", "2:20 exit"]
        );
        assert_eq!(cut(&["source 'a;b' // c\nUSE x"]), ["1:1 source 'a;b' // c", "2:1 USE x"]);
        assert_eq!(cut(&["// a remark\n", "USE\n", "x // ;\n", ";\n"]), ["2:1 USE\nx"]);
        assert_eq!(
            cut(&["BEGIN BATCH INSERT a;\n", "UPDATE b; APPLY BATCH;"]),
            ["1:1 BEGIN BATCH INSERT a;\nUPDATE b; APPLY BATCH"]
        );
        assert_eq!(cut(&["USE 'a\n", "b'; ?"]), ["1:1 USE 'a\nb'", "2:5 ?"]);
    }

    #[test]
    fn only_incomplete_statements_are_buffered() {
        let mut cutter = StatementSplitter::new();
        for _ in 0..100 {
            cutter.feed("USE a; /* long */\n");
            assert!(cutter.next(false).is_some() && cutter.next(false).is_none());
            assert_eq!((cutter.waiting(), cutter.is_open()), (0, false));
        }
        cutter.feed("SELECT");
        assert_eq!((cutter.next(false), cutter.waiting(), cutter.is_open()), (None, 6, true));
        assert_eq!(cutter.next(true).map(|s| s.line), Some(101));
    }
}
