//! Error messages of the parser.

use super::CqlParser;
use super::rule::{Expect, Rule, RuleFault};
use crate::syntax::error::SyntaxError;
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::{Bad, CqlToken, Tok};

impl CqlParser<'_> {
    /// Fails because no statement begins here.
    #[cold]
    pub(super) fn no_statement<T>(&mut self) -> Rule<T> {
        self.note(Expect::What("a statement"));
        let hint = match self.token.kind {
            Tok::End => Some("there is nothing but white space and comments".to_owned()),
            Tok::Kw(Keyword::Apply) => Some("APPLY BATCH ends a batch; none is open".to_owned()),
            Tok::Ident if near_statement(self.slice()).is_some() => {
                near_statement(self.slice()).map(|s| format!("did you mean {s}?"))
            }
            _ => Some(format!("a statement begins with one of {}", STATEMENTS.join(", "))),
        };
        self.unexpected_with(hint)
    }

    /// Fails because text follows a statement that began with `first`; `closed`: after a `;`.
    #[cold]
    pub(super) fn left_over<T>(&mut self, first: Tok, closed: bool) -> Rule<T> {
        self.note(Expect::Tok(Tok::Semicolon));
        self.note(Expect::Tok(Tok::End));
        let hint = match (self.token.kind, first) {
            _ if closed => Some(
                "here is one statement at a time; a script is cut into its statements first"
                    .to_owned(),
            ),
            (Tok::Kw(k), _) if STATEMENTS.contains(&k.text()) => Some(format!(
                "a ';' is missing before {}: two statements without one between them cannot be distinguished",
                k.text()
            )),
            (Tok::Kw(k), Tok::Kw(first)) => clause_order(first)
                .filter(|order| order.split([' ', '[', ']']).any(|w| w == k.text()))
                .map(|order| format!("clauses have this order: {order}")),
            _ => None,
        };
        self.unexpected_with(hint)
    }

    /// Creates the syntax error of a fault.
    #[cold]
    pub(super) fn report(&self, fault: RuleFault) -> Box<SyntaxError> {
        let mut error =
            SyntaxError::at(self.text, fault.token.start as usize, fault.token.end as usize);
        error.met = self.describe_token(fault.token);
        (error.expected, error.message, error.hint) = (fault.expected, fault.message, fault.hint);
        if let Tok::Bad(bad) = fault.token.kind {
            (error.met, error.hint) = self.bad(bad, fault.token);
            error.expected.clear();
        }
        Box::new(error)
    }

    /// Fails because of the current token.
    #[cold]
    pub(super) fn unexpected<T>(&mut self) -> Rule<T> {
        self.unexpected_with(None)
    }

    #[cold]
    pub(super) fn unexpected_with<T>(&mut self, hint: Option<String>) -> Rule<T> {
        let names = self.expected.iter().flatten().map(|&e| describe(e)).collect();
        Err(Box::new(RuleFault {
            token: self.token,
            expected: collapse_operators(names),
            message: None,
            hint,
        }))
    }

    /// Fails for a reason that is not an unexpected token.
    #[cold]
    pub(super) fn fail<T>(&self, token: CqlToken, message: impl Into<String>) -> Rule<T> {
        Err(Box::new(RuleFault {
            token,
            expected: Vec::new(),
            message: Some(message.into()),
            hint: None,
        }))
    }

    /// Like [`fail`](CqlParser::fail), with a hint.
    #[cold]
    pub(super) fn fail_hint<T>(
        &self,
        token: CqlToken,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Rule<T> {
        let (message, hint) = (Some(message.into()), Some(hint.into()));
        Err(Box::new(RuleFault { token, expected: Vec::new(), message, hint }))
    }

    /// Returns the description of an invalid token, and a hint.
    #[cold]
    pub(super) fn bad(&self, bad: Bad, token: CqlToken) -> (String, Option<String>) {
        let c = match bad {
            Bad::Str => return ("a string that has no end".to_owned(), None),
            Bad::DollarStr => return ("a string that has no end, which is $$".to_owned(), None),
            Bad::Quoted => return ("a quoted name that has no end".to_owned(), None),
            Bad::Uuid => return ("digits of a uuid that are too few".to_owned(), None),
            Bad::Comment => return ("a comment that has no end".to_owned(), None),
            Bad::Char => self.text_of(token).chars().next().unwrap_or_default(),
        };
        let hint = match c {
            '‘' | '’' | '“' | '”' | '`' | '´' => {
                "strings are written in 'straight' quotes, names in \"double\" ones"
            }
            '\u{a0}' | '\u{feff}' | '\u{200b}' => {
                "this character is invisible; put an ordinary space here"
            }
            '_' => "a name that begins with '_' needs double quotes",
            '$' => "a string may be written $$…$$",
            '!' => "the operator is !=",
            c if c.is_alphanumeric() => {
                "names of other letters than a to z need double quotes, texts single ones"
            }
            _ => "no word or sign of CQL begins with it",
        };
        (format!("the unexpected character '{}'", c.escape_debug()), Some(hint.to_owned()))
    }

    #[cold]
    pub(super) fn describe_token(&self, token: CqlToken) -> String {
        if token.kind == Tok::End {
            return "the end of the statement".to_owned();
        }
        let text = self.text_of(token);
        let text = match text.char_indices().nth(40) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text.to_owned(),
        };
        // Quote punctuation, to distinguish it from the sentence. Words are clear without quotes,
        // and strings have their own.
        if text.len() <= 2 && text.starts_with(|c: char| c.is_ascii_punctuation()) {
            format!("'{text}'")
        } else {
            text
        }
    }
}

/// Keywords that begin statements.
const STATEMENTS: [&str; 15] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "CREATE", "ALTER", "DROP", "TRUNCATE", "USE",
    "DESCRIBE", "DESC", "GRANT", "REVOKE", "LIST",
];

/// Returns the statement keyword that differs from a word in one letter, or in two swapped letters.
#[cold]
fn near_statement(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_uppercase();
    STATEMENTS.into_iter().find(|s| {
        let same_start = s.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        let same_end = s.bytes().rev().zip(word.bytes().rev()).take_while(|(a, b)| a == b).count();
        s.len().abs_diff(word.len()) <= 1 && s.len() > 3 && same_start + same_end + 2 >= s.len()
    })
}

/// Returns the order of clauses, for a hint.
#[cold]
fn clause_order(statement: Keyword) -> Option<&'static str> {
    Some(match statement {
        Keyword::Select => {
            "SELECT FROM [WHERE] [GROUP BY] [ORDER BY] [PER PARTITION LIMIT] [LIMIT] [ALLOW FILTERING]"
        }
        Keyword::Insert => "INSERT INTO VALUES [IF NOT EXISTS] [USING]",
        Keyword::Update => "UPDATE [USING] SET WHERE [IF]",
        Keyword::Delete => "DELETE FROM [USING TIMESTAMP] WHERE [IF]",
        _ => return None,
    })
}

#[cold]
fn describe(what: Expect) -> String {
    match what {
        Expect::What(what) => what.to_owned(),
        Expect::Tok(Tok::Kw(keyword)) => keyword.text().to_owned(),
        Expect::Tok(Tok::End) => "the end of the statement".to_owned(),
        Expect::Tok(kind) => format!("'{}'", sign(kind)),
    }
}

/// Returns the names of expected tokens, with the arithmetic operators combined.
#[cold]
fn collapse_operators(names: Vec<String>) -> Vec<String> {
    let operators = ["'+'", "'-'", "'*'", "'/'", "'%'"];
    if !operators.iter().all(|o| names.iter().any(|n| n == o)) {
        return names;
    }
    let mut out: Vec<String> =
        names.into_iter().filter(|n| !operators.contains(&n.as_str())).collect();
    out.push("an operator".to_owned());
    out
}

/// Returns the spelling of a token that has only one.
fn sign(kind: Tok) -> &'static str {
    match kind {
        Tok::Question => "?",
        Tok::Range => "..",
        Tok::Dot => ".",
        Tok::Comma => ",",
        Tok::Colon => ":",
        Tok::Semicolon => ";",
        Tok::LParen => "(",
        Tok::RParen => ")",
        Tok::LBracket => "[",
        Tok::RBracket => "]",
        Tok::LBrace => "{",
        Tok::RBrace => "}",
        Tok::Eq => "=",
        Tok::Ne => "!=",
        Tok::Lt => "<",
        Tok::Le => "<=",
        Tok::Gt => ">",
        Tok::Ge => ">=",
        Tok::Plus => "+",
        Tok::PlusEq => "+=",
        Tok::Minus => "-",
        Tok::MinusEq => "-=",
        Tok::Star => "*",
        Tok::Slash => "/",
        Tok::Percent => "%",
        // Other tokens have no single spelling, and are described by their kind.
        _ => "?",
    }
}
