//! Splits a text into statements: a statement ends at a `;` outside strings and comments, possibly
//! after several lines.
//!
//! A line that contains only `?`, `help`, `exit` or `quit` is a statement without a `;`. Splitter
//! and lexer agree on strings and comments.

use super::chars::{blank, in_word};

/// The text of a statement, including its `;`, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSource {
    /// The text from the first character that is neither blank nor in a comment.
    pub text: String,
    /// The line of its first character, from 1.
    pub line: u32,
    /// The column of its first character, from 1, in characters.
    pub column: u32,
}

impl CliSource {
    /// Creates a statement from the whole text.
    pub fn new(text: impl Into<String>) -> CliSource {
        CliSource { text: text.into(), line: 1, column: 1 }
    }

    /// Returns line and column of the character at byte `at`, in the whole text.
    pub fn position(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let lines = before.matches('\n').count() as u32;
        let last = before.rsplit('\n').next().unwrap_or_default().chars().count() as u32;
        (self.line + lines, if lines == 0 { self.column + last } else { last + 1 })
    }

    /// Returns the statement as the command of 2012 saw it: its lines trimmed, without comment
    /// lines, joined by single blanks.
    pub fn one_line(&self) -> String {
        join(&self.text)
    }

    /// Returns the position in [`one_line`](CliSource::one_line) of the character at byte `at`, in
    /// characters from 0.
    pub fn offset_in_one_line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let (lines, last) = before.split_at(start);
        let joined = join(lines).chars().count();
        joined + usize::from(joined > 0) + last.trim_start().chars().count()
    }
}

fn join(lines: &str) -> String {
    let kept: Vec<&str> =
        lines.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("--")).collect();
    kept.join(" ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitState {
    /// Before the statement.
    Before,
    /// Between tokens.
    Between,
    /// In a word or a number, where `-` is an ordinary character.
    Word,
    String(char),
    Escape(char),
    Line,
    Block,
}

/// Splits text that arrives in pieces.
#[derive(Debug)]
pub struct Splitter {
    text: String,
    /// Processed bytes of `text`.
    seen: usize,
    state: SplitState,
    /// Whether a statement had begun before the comment.
    begun: bool,
    /// Start of the statement in `text`.
    start: usize,
    line: u32,
    column: u32,
    origin: (u32, u32),
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter::new()
    }
}

impl Splitter {
    /// Creates a splitter at the start of a text.
    pub fn new() -> Splitter {
        let (state, origin) = (SplitState::Before, (1, 1));
        Splitter {
            text: String::new(),
            seen: 0,
            state,
            begun: false,
            start: 0,
            line: 1,
            column: 1,
            origin,
        }
    }

    /// Adds a piece of text of any length.
    pub fn feed(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Returns the next complete statement.
    pub fn next_statement(&mut self) -> Option<CliSource> {
        while let Some(c) = self.text[self.seen..].chars().next() {
            let rest = &self.text[self.seen..];
            // A comment needs two characters, and a word without `;` needs the whole line.
            if matches!(c, '-' | '/' | '*') && rest.len() == 1 {
                return None;
            }
            if self.state == SplitState::Before && !blank(c) {
                match lone_word(rest) {
                    Lone::Yes(length) => return Some(self.take_line(length)),
                    Lone::Maybe => return None,
                    Lone::No => {}
                }
            }
            if self.step(c) {
                return Some(self.cut());
            }
        }
        None
    }

    /// Reports whether a statement has begun and not ended: the shell then prompts for more.
    pub fn pending(&self) -> bool {
        let commented = matches!(self.state, SplitState::Line | SplitState::Block);
        if commented {
            self.begun
        } else {
            self.state != SplitState::Before || !self.text[self.seen..].trim().is_empty()
        }
    }

    /// Returns the number of bytes of the incomplete statement.
    pub fn waiting(&self) -> usize {
        self.text.len() - self.start
    }

    /// Returns the rest at the end of the text: a statement without `;`, or nothing.
    pub fn finish(mut self) -> Option<CliSource> {
        self.feed("\n");
        if let Some(last) = self.next_statement() {
            return Some(last);
        }
        let open_comment = self.state == SplitState::Block && !self.begun;
        if !self.pending() && !open_comment {
            return None;
        }
        let text = self.text[self.start..].trim_end().to_owned();
        let (line, column) = self.origin;
        (!text.is_empty()).then_some(CliSource { text, line, column })
    }

    /// Discards the incomplete statement.
    pub fn abandon(&mut self) {
        let (line, column) = (self.line, self.column);
        *self = Splitter { line, column, origin: (line, column), ..Splitter::new() };
    }

    /// Processes one character; returns true at a statement's end.
    fn step(&mut self, c: char) -> bool {
        let rest = &self.text[self.seen..];
        let begins = |comment: &str| rest.starts_with(comment);
        let before = self.state;
        if matches!(before, SplitState::Between | SplitState::Before | SplitState::Word) {
            let comment = if before != SplitState::Word && begins("--") {
                Some(SplitState::Line)
            } else if begins("/*") {
                Some(SplitState::Block)
            } else {
                None
            };
            if let Some(comment) = comment {
                self.begun = before != SplitState::Before;
                if !self.begun {
                    self.begin();
                }
                self.advance(c);
                self.advance(if comment == SplitState::Block { '*' } else { '-' });
                self.state = comment;
                return false;
            }
        }
        let after_comment = if self.begun { SplitState::Between } else { SplitState::Before };
        let end_of_block = before == SplitState::Block && begins("*/");
        if before == SplitState::Before && !blank(c) {
            self.begin();
        }
        self.state = match (before, c) {
            (SplitState::Before, c) if blank(c) => SplitState::Before,
            (SplitState::Before | SplitState::Between | SplitState::Word, '\'' | '"') => {
                SplitState::String(c)
            }
            (SplitState::Before | SplitState::Between, c) if c.is_ascii_alphanumeric() => {
                SplitState::Word
            }
            (SplitState::Word, c) if in_word(c) => SplitState::Word,
            (SplitState::Before | SplitState::Between | SplitState::Word, _) => SplitState::Between,
            (SplitState::String(q), '\\') => SplitState::Escape(q),
            (SplitState::Escape(q), _) => SplitState::String(q),
            (SplitState::String(q), c) if q == c => SplitState::Between,
            (SplitState::Line, '\n' | '\r') => after_comment,
            (SplitState::Block, _) if end_of_block => after_comment,
            (state, _) => state,
        };
        self.advance(c);
        if end_of_block {
            self.advance('/');
        }
        c == ';' && matches!(before, SplitState::Before | SplitState::Between | SplitState::Word)
    }

    fn begin(&mut self) {
        self.start = self.seen;
        self.origin = (self.line, self.column);
    }

    fn advance(&mut self, c: char) {
        self.seen += c.len_utf8();
        (self.line, self.column) =
            if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
    }

    fn take_line(&mut self, length: usize) -> CliSource {
        self.begin();
        for c in self.text[self.seen..self.seen + length].to_owned().chars() {
            self.advance(c);
        }
        self.cut()
    }

    /// Ends the statement before `seen`.
    fn cut(&mut self) -> CliSource {
        let text = self.text[self.start..self.seen].to_owned();
        let (line, column) = self.origin;
        // Dropping consumed text only when it is most of the buffer makes the total linear.
        if self.seen > self.text.len() / 2 {
            self.text.drain(..self.seen);
            self.seen = 0;
        }
        (self.state, self.begun) = (SplitState::Before, false);
        self.begin();
        CliSource { text, line, column }
    }
}

/// Maximum length of a line that may be a statement without `;`.
const LONGEST_LONE_LINE: usize = 80;

enum Lone {
    Yes(usize),
    Maybe,
    No,
}

/// Reports whether the rest of the line is a word that needs no `;`.
fn lone_word(rest: &str) -> Lone {
    const WORDS: [&str; 4] = ["?", "help", "exit", "quit"];
    let Some(end) = rest.bytes().take(LONGEST_LONE_LINE).position(|b| b == b'\n') else {
        let word = if rest.len() < LONGEST_LONE_LINE {
            rest.trim_end().to_ascii_lowercase()
        } else {
            return Lone::No;
        };
        return if WORDS.iter().any(|w| w.starts_with(&word)) { Lone::Maybe } else { Lone::No };
    };
    let word = rest[..end].trim();
    if WORDS.iter().any(|w| w.eq_ignore_ascii_case(word)) {
        Lone::Yes(word.len())
    } else {
        Lone::No
    }
}

/// Returns every statement of a text; the last may lack its `;`.
pub fn split(text: &str) -> Vec<CliSource> {
    let mut splitter = Splitter::new();
    splitter.feed(text);
    let mut statements = Vec::new();
    while let Some(statement) = splitter.next_statement() {
        statements.push(statement);
    }
    statements.extend(splitter.finish());
    statements
}
