//! Recursive descent parser from tokens to a [`CliStatement`]; the grammar is in `grammar.md`.
//!
//! The parser records the tokens that it would accept at its position. Error messages list them,
//! and completion offers them, so neither can miss an alternative.

use firn_wide::IndexOperator;

use super::ast::{CliCondition, CliStatement, CliTerm, Definition, Path};
use super::attributes::{self, Attribute, AttributeValue};
use super::help::CliTopic;
use super::lex::{self, CliToken, TokenKind};
use super::split::CliSource;
use super::syntax::{
    CliSyntaxError, ExpectedKind, ExpectedToken, MAX_DEPTH, MAX_STATEMENT, alternatives,
};

/// Parses a statement, which may end with `;`.
///
/// # Errors
/// A syntax error, with line, column, actual and expected tokens.
pub fn parse(source: &CliSource) -> Result<CliStatement, CliSyntaxError> {
    if source.text.len() > MAX_STATEMENT {
        let (met, most) = (
            format!("a statement of {} bytes", source.text.len()),
            format!("at most {MAX_STATEMENT}"),
        );
        return Err(CliSyntaxError::new(
            source,
            0,
            met,
            most,
            0,
            "the statement is too long".to_owned(),
        ));
    }
    let tokens = lex::lex(source)?;
    let mut parser = CliParser::new(&tokens);
    parser.statement().map_err(|miss| parser.error(source, miss))
}

/// Returns the tokens that the parser would accept after these, and the column family that they
/// name.
pub(super) fn expected_after(tokens: &[CliToken]) -> (Vec<ExpectedToken>, Option<String>) {
    let mut parser = CliParser::new(tokens);
    // The recorded tokens are those at the parser's position, whether the statement is complete or
    // not.
    let _ = parser.statement();
    (if parser.at == tokens.len() { parser.expected } else { Vec::new() }, parser.family)
}

/// The reason why parsing stopped, in terms of the parser generator of 2012.
pub(super) enum ParseStop {
    /// One token was expected, by this name.
    Token(&'static str),
    /// One of several tokens was expected.
    Set,
    /// No alternative of a rule matches; reported at its start.
    Alternative,
    /// A number out of range.
    Large,
    /// A counter increment out of range.
    Delta,
    /// Nesting too deep.
    Deep,
}

/// Types of tokens that can be a name.
const NAME: [TokenKind; 3] = [TokenKind::Word, TokenKind::Text, TokenKind::Integer];

/// Types of tokens that can be a key, a name of a column or a value.
const TERM: [TokenKind; 5] =
    [TokenKind::Word, TokenKind::Text, TokenKind::Integer, TokenKind::Decimal, TokenKind::Address];

type ParsedCli<T> = Result<T, ParseStop>;

struct CliParser<'a> {
    tokens: &'a [CliToken],
    at: usize,
    /// The tokens that are accepted at `at`.
    expected: Vec<ExpectedToken>,
    /// The column family of the statement.
    family: Option<String>,
}

impl<'a> CliParser<'a> {
    fn new(tokens: &'a [CliToken]) -> CliParser<'a> {
        CliParser { tokens, at: 0, expected: Vec::new(), family: None }
    }

    fn peek(&self) -> Option<&'a CliToken> {
        self.tokens.get(self.at)
    }

    fn advance(&mut self) {
        self.at += 1;
        self.expected.clear();
    }

    fn error(&self, source: &CliSource, miss: ParseStop) -> CliSyntaxError {
        let end = source.text.trim_end().len();
        let (at, raw) = self.peek().map_or((end, "<EOF>"), |t| {
            (t.start, source.text.get(t.start..t.end).unwrap_or_default())
        });
        let met = match self.peek() {
            None => "the end of the statement".to_owned(),
            Some(t) if t.kind == TokenKind::Text => "a string".to_owned(),
            Some(_) => format!("'{raw}'"),
        };
        let expected = match miss {
            ParseStop::Large | ParseStop::Delta => "a number that fits".to_owned(),
            ParseStop::Deep => format!("values nested at most {MAX_DEPTH} deep"),
            ParseStop::Alternative if self.at == 0 => "a statement; 'help;' lists them".to_owned(),
            _ => alternatives(&self.expected),
        };
        let first = self.tokens.first().map_or("<EOF>", |t| &source.text[t.start..t.end]);
        let (place, short) = match miss {
            ParseStop::Token(name) => (at, self.mismatch(name, raw)),
            ParseStop::Set => (at, format!("mismatched input '{raw}' expecting set null")),
            ParseStop::Alternative => (0, format!("no viable alternative at input '{first}'")),
            ParseStop::Large => (at, format!("For input string: \"{raw}\"")),
            ParseStop::Delta => {
                let text = format!("'{raw}' is an invalid value, should be an integer.");
                return CliSyntaxError::said(source, at, met, expected, text);
            }
            ParseStop::Deep => (at, "too deep".to_owned()),
        };
        CliSyntaxError::new(source, at, met, expected, place, short)
    }

    /// Returns the message of the parser of 2012 for an unexpected token. It tried to continue
    /// without that token, or as if the expected one had preceded it.
    fn mismatch(&self, name: &str, raw: &str) -> String {
        let is_expected = |t: &CliToken| {
            wanted(name).is_some_and(|w| w.kind == t.kind && w.text.eq_ignore_ascii_case(&t.text))
        };
        let is_at_end = name == "EOF" && self.at + 1 == self.tokens.len();
        if is_at_end || self.tokens.get(self.at + 1).is_some_and(is_expected) {
            return format!("extraneous input '{raw}' expecting {name}");
        }
        if let Some(wanted) = wanted(name) {
            let (before, behind) = self.tokens.split_at(self.at.min(self.tokens.len()));
            let completed = [before, &[wanted], behind].concat();
            let mut parser = CliParser::new(&completed);
            let whole = parser.statement().is_ok();
            if !behind.is_empty() && (whole || parser.at > self.at + 1) {
                return format!("missing {name} at '{raw}'");
            }
        }
        format!("mismatched input '{raw}' expecting {name}")
    }

    /// Consumes this word of the language if it is next.
    fn word(&mut self, word: &'static str) -> bool {
        self.expected.push(ExpectedToken::Word(word));
        let here = self
            .peek()
            .is_some_and(|t| t.kind == TokenKind::Word && t.text.eq_ignore_ascii_case(word));
        if here {
            self.advance();
        }
        here
    }

    fn need_word(&mut self, word: &'static str, name: &'static str) -> ParsedCli<()> {
        if self.word(word) { Ok(()) } else { Err(ParseStop::Token(name)) }
    }

    /// Consumes this sign if it is next.
    fn sign(&mut self, sign: &'static str) -> bool {
        self.expected.push(ExpectedToken::Sign(sign));
        let here = self.peek().is_some_and(|t| t.kind == TokenKind::Sign && t.text == sign);
        if here {
            self.advance();
        }
        here
    }

    fn need_sign(&mut self, sign: &'static str, name: &'static str) -> ParsedCli<()> {
        if self.sign(sign) { Ok(()) } else { Err(ParseStop::Token(name)) }
    }

    /// Consumes a token of one of these types.
    fn any(&mut self, what: ExpectedKind, kinds: &[TokenKind]) -> Option<String> {
        self.expected.push(ExpectedToken::Any(what));
        let token = self.peek().filter(|t| kinds.contains(&t.kind))?;
        self.advance();
        Some(token.text.clone())
    }

    /// Parses a name: a word, a string or an integer.
    fn name(&mut self, what: ExpectedKind) -> ParsedCli<String> {
        self.any(what, &NAME).ok_or(ParseStop::Set)
    }

    fn family(&mut self) -> ParsedCli<String> {
        let name = self.name(ExpectedKind::Family)?;
        self.family = Some(name.clone());
        Ok(name)
    }

    /// Parses a non-negative integer that fits a signed number of four bytes, the type of limits
    /// and times.
    fn count(&mut self) -> ParsedCli<u32> {
        let digits =
            self.peek().filter(|t| t.kind == TokenKind::Integer && !t.text.starts_with('-'));
        match digits.map(|t| t.text.parse::<i32>()) {
            Some(Ok(n)) => {
                self.advance();
                Ok(n.unsigned_abs())
            }
            Some(Err(_)) => Err(ParseStop::Large),
            None => {
                self.expected.push(ExpectedToken::Any(ExpectedKind::Count));
                Err(ParseStop::Token("IntegerPositiveLiteral"))
            }
        }
    }

    fn limit(&mut self) -> ParsedCli<Option<u32>> {
        if self.word("limit") { self.count().map(Some) } else { Ok(None) }
    }

    fn statement(&mut self) -> ParsedCli<CliStatement> {
        if self.at == self.tokens.len()
            || self.peek().is_some_and(|t| t.kind == TokenKind::Sign && t.text == ";")
        {
            // An empty statement is valid, but for completion it is the start of every statement.
            let begins = STATEMENTS.iter().map(|word| ExpectedToken::Word(word));
            self.expected.extend(begins.chain([ExpectedToken::Sign("?")]));
            if self.at == self.tokens.len() {
                return Ok(CliStatement::Nothing);
            }
            self.advance();
            return self.end(CliStatement::Nothing);
        }
        if self.sign("?") {
            return self.end(CliStatement::Help(None));
        }
        let word =
            STATEMENTS.into_iter().find(|word| self.word(word)).ok_or(ParseStop::Alternative)?;
        let statement = self.rest(word)?;
        self.end(statement)
    }

    /// Parses the rest after the first word.
    fn rest(&mut self, word: &str) -> ParsedCli<CliStatement> {
        match word {
            "assume" => self.assume(),
            "connect" => self.connect(),
            "consistencylevel" => self.consistency_level(),
            "count" => Ok(CliStatement::Count(self.path(ParseStop::Token("'['"))?)),
            "create" => self.define(
                (ExpectedKind::NewKeyspace, ExpectedKind::NewFamily),
                CliStatement::CreateKeyspace,
                CliStatement::CreateFamily,
            ),
            "decr" => self.counted().map(|(path, by)| CliStatement::Decrement { path, by }),
            "del" => Ok(CliStatement::Delete(self.path(ParseStop::Token("'['"))?)),
            "describe" => self.describe(),
            "drop" => self.drop(),
            "get" => self.get(),
            "help" => self.help(),
            "incr" => self.counted().map(|(path, by)| CliStatement::Increment { path, by }),
            "list" => self.list(),
            "set" => self.set(),
            "show" => self.show(),
            "truncate" => Ok(CliStatement::Truncate(self.family()?)),
            "update" => self.define(
                (ExpectedKind::Keyspace, ExpectedKind::Family),
                CliStatement::UpdateKeyspace,
                CliStatement::UpdateFamily,
            ),
            "use" => Ok(CliStatement::Use {
                keyspace: self.name(ExpectedKind::Keyspace)?,
                login: self.login()?,
            }),
            _ => Ok(CliStatement::Exit),
        }
    }

    fn end(&mut self, statement: CliStatement) -> ParsedCli<CliStatement> {
        if self.at == self.tokens.len() {
            self.expected.push(ExpectedToken::Sign(";"));
            return Ok(statement);
        }
        if self.sign(";") && self.at == self.tokens.len() {
            return Ok(statement);
        }
        Err(ParseStop::Token("EOF"))
    }

    fn login(&mut self) -> ParsedCli<Option<(String, String)>> {
        let Some(user) = self.any(ExpectedKind::User, &[TokenKind::Word]) else { return Ok(None) };
        let password = self
            .any(ExpectedKind::Password, &[TokenKind::Text])
            .ok_or(ParseStop::Token("StringLiteral"))?;
        Ok(Some((user, password)))
    }

    fn connect(&mut self) -> ParsedCli<CliStatement> {
        let mut host = self.any(ExpectedKind::Host, &TERM).ok_or(ParseStop::Set)?;
        while self.sign(".") {
            host = format!("{host}.{}", self.any(ExpectedKind::Host, &TERM).ok_or(ParseStop::Set)?);
        }
        self.need_sign("/", "'/'")?;
        Ok(CliStatement::Connect { host, port: self.count()?, login: self.login()? })
    }

    fn help(&mut self) -> ParsedCli<CliStatement> {
        if matches!(self.peek(), None | Some(CliToken { kind: TokenKind::Sign, .. })) {
            let first = CliTopic::all().filter_map(|t| t.words().first());
            self.expected.extend(first.map(|w| ExpectedToken::Word(w)));
            return Ok(CliStatement::Help(None));
        }
        // Finds the longest topic name.
        let best =
            CliTopic::all().filter(|t| self.begins_with(t.words())).max_by_key(|t| t.words().len());
        if let Some(topic) = best {
            let length = topic.words().len();
            self.at += length;
            self.expected.clear();
            let longer = CliTopic::all()
                .map(|t| t.words())
                .filter(|w| w.len() > length && w[..length] == *topic.words());
            self.expected.extend(longer.map(|w| ExpectedToken::Word(w[length])));
            return Ok(CliStatement::Help(Some(topic)));
        }
        let mut depth = 0;
        while CliTopic::all()
            .any(|t| t.words().len() > depth && self.begins_with(&t.words()[..=depth]))
        {
            depth += 1;
        }
        let fitting =
            |t: &CliTopic| t.words().len() > depth && self.begins_with(&t.words()[..depth]);
        let next: Vec<ExpectedToken> = CliTopic::all()
            .filter(fitting)
            .map(|t| ExpectedToken::Word(t.words()[depth]))
            .collect();
        self.at += depth;
        self.expected = next;
        Err(ParseStop::Set)
    }

    fn begins_with(&self, words: &[&str]) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.len() >= words.len()
            && words
                .iter()
                .zip(rest)
                .all(|(w, t)| t.kind == TokenKind::Word && t.text.eq_ignore_ascii_case(w))
    }

    fn show(&mut self) -> ParsedCli<CliStatement> {
        if self.word("cluster") {
            self.need_word("name", "NAME")?;
            Ok(CliStatement::ShowClusterName)
        } else if self.word("keyspaces") {
            Ok(CliStatement::ShowKeyspaces)
        } else if self.word("schema") {
            let keyspace = self.any(ExpectedKind::Keyspace, &NAME);
            Ok(CliStatement::ShowSchema(keyspace))
        } else if self.word("api") {
            self.need_word("version", "VERSION")?;
            Ok(CliStatement::ShowApiVersion)
        } else {
            Err(ParseStop::Alternative)
        }
    }

    fn describe(&mut self) -> ParsedCli<CliStatement> {
        if self.word("cluster") {
            return Ok(CliStatement::DescribeCluster);
        }
        self.expected.push(ExpectedToken::Any(ExpectedKind::Family));
        Ok(CliStatement::Describe(self.any(ExpectedKind::Keyspace, &NAME)))
    }

    /// Parses the rest of `create` or `update`: the names of the keyspace and of the column family
    /// are of these kinds, and these functions make the statement.
    fn define(
        &mut self,
        (keyspace, family): (ExpectedKind, ExpectedKind),
        of_keyspace: fn(Definition) -> CliStatement,
        of_family: fn(Definition) -> CliStatement,
    ) -> ParsedCli<CliStatement> {
        if self.word("keyspace") {
            self.definition(keyspace, ExpectedKind::KeyspaceAttribute).map(of_keyspace)
        } else if self.word("column") {
            self.need_word("family", "FAMILY")?;
            self.definition(family, ExpectedKind::FamilyAttribute).map(of_family)
        } else {
            Err(ParseStop::Alternative)
        }
    }

    fn drop(&mut self) -> ParsedCli<CliStatement> {
        if self.word("keyspace") {
            Ok(CliStatement::DropKeyspace(self.name(ExpectedKind::Keyspace)?))
        } else if self.word("column") {
            self.need_word("family", "FAMILY")?;
            Ok(CliStatement::DropFamily(self.family()?))
        } else if self.word("index") {
            self.need_word("on", "ON")?;
            let family = self.family()?;
            self.need_sign(".", "'.'")?;
            Ok(CliStatement::DropIndex { family, column: self.name(ExpectedKind::Column)? })
        } else {
            Err(ParseStop::Alternative)
        }
    }

    fn definition(&mut self, name: ExpectedKind, attribute: ExpectedKind) -> ParsedCli<Definition> {
        let name = self.name(name)?;
        if attribute == ExpectedKind::FamilyAttribute {
            self.family = Some(name.clone());
        }
        let table: &[(&str, ExpectedKind)] = if attribute == ExpectedKind::KeyspaceAttribute {
            &attributes::KEYSPACE
        } else {
            &attributes::FAMILY
        };
        let mut attributes = Vec::new();
        while self.word("with") || self.word("and") {
            let name =
                self.any(attribute, &[TokenKind::Word]).ok_or(ParseStop::Token("Identifier"))?;
            self.need_sign("=", "'='")?;
            let value = self.value(attributes::value_of(table, &name), 0)?;
            attributes.push(Attribute { name, value });
        }
        Ok(Definition { name, attributes })
    }

    /// Parses the value of an attribute.
    fn value(&mut self, what: ExpectedKind, depth: usize) -> ParsedCli<AttributeValue> {
        if depth > MAX_DEPTH {
            return Err(ParseStop::Deep);
        }
        let nested = matches!(
            what,
            ExpectedKind::Options | ExpectedKind::Columns | ExpectedKind::AttributeValue
        );
        if what != ExpectedKind::Columns {
            let kinds = [TokenKind::Word, TokenKind::Text, TokenKind::Integer, TokenKind::Decimal];
            if let Some(text) = self.any(what, &kinds) {
                return Ok(AttributeValue::Text(text));
            }
        }
        if !nested {
            return Err(ParseStop::Alternative);
        }
        if self.sign("[") {
            let mut list = Vec::new();
            while !self.sign("]") {
                // A comma between maps is optional, and one may follow the last map.
                if !list.is_empty() && self.sign(",") && self.sign("]") {
                    break;
                }
                list.push(self.value_map(what, depth)?);
            }
            return Ok(AttributeValue::List(list));
        }
        self.value_map(what, depth)
    }

    fn value_map(&mut self, what: ExpectedKind, depth: usize) -> ParsedCli<AttributeValue> {
        if !self.sign("{") {
            return Err(ParseStop::Alternative);
        }
        let mut pairs = Vec::new();
        loop {
            let columns = what == ExpectedKind::Columns;
            let key = self.name(if columns {
                ExpectedKind::MetadataKey
            } else {
                ExpectedKind::OptionName
            })?;
            self.need_sign(":", "':'")?;
            let inner = if columns {
                attributes::value_of(&attributes::METADATA, &key)
            } else {
                ExpectedKind::AttributeValue
            };
            pairs.push((key, self.value(inner, depth + 1)?));
            if self.sign("}") {
                return Ok(AttributeValue::Map(pairs));
            }
            self.need_sign(",", "'}'")?;
        }
    }

    /// Parses a key, a name or a value: text, or a function of text.
    fn term(&mut self, what: ExpectedKind) -> ParsedCli<CliTerm> {
        let token = self.peek();
        let text = self.any(what, &TERM).ok_or(ParseStop::Set)?;
        let kind = token.map(|t| t.kind);
        if kind == Some(TokenKind::Text) {
            return Ok(CliTerm::Quoted(text));
        }
        if kind != Some(TokenKind::Word) || !self.sign("(") {
            return Ok(CliTerm::Text(text));
        }
        let argument = self.any(ExpectedKind::Argument, &TERM);
        self.need_sign(")", "')'")?;
        Ok(CliTerm::Call { function: text, argument })
    }

    fn path(&mut self, otherwise: ParseStop) -> ParsedCli<Path> {
        let family = self.family()?;
        if !self.sign("[") {
            return Err(otherwise);
        }
        self.path_of(family)
    }

    /// Parses the rest after `family[`.
    fn path_of(&mut self, family: String) -> ParsedCli<Path> {
        let key = self.term(ExpectedKind::Key)?;
        self.need_sign("]", "']'")?;
        let mut columns = Vec::new();
        while columns.len() < 2 && self.sign("[") {
            columns.push(self.term(ExpectedKind::Column)?);
            self.need_sign("]", "']'")?;
        }
        Ok(Path { family, key, columns })
    }

    fn get(&mut self) -> ParsedCli<CliStatement> {
        // The parser of 2012 needed the family to distinguish the forms of `get`.
        let family = self.family().map_err(|_| ParseStop::Alternative)?;
        if self.sign("[") {
            let path = self.path_of(family)?;
            let shown_as =
                if self.word("as") { Some(self.name(ExpectedKind::Type)?) } else { None };
            return Ok(CliStatement::Get { path, shown_as, limit: self.limit()? });
        }
        if !self.word("where") {
            return Err(ParseStop::Alternative);
        }
        let mut conditions = vec![self.condition()?];
        while self.word("and") {
            conditions.push(self.condition()?);
        }
        Ok(CliStatement::GetWhere { family, conditions, limit: self.limit()? })
    }

    fn condition(&mut self) -> ParsedCli<CliCondition> {
        const OPERATORS: [(&str, IndexOperator); 5] = [
            ("=", IndexOperator::Eq),
            (">=", IndexOperator::Gte),
            (">", IndexOperator::Gt),
            ("<=", IndexOperator::Lte),
            ("<", IndexOperator::Lt),
        ];
        let column = self.term(ExpectedKind::Column)?;
        let operator = OPERATORS.iter().find(|(sign, _)| self.sign(sign)).ok_or(ParseStop::Set)?.1;
        Ok(CliCondition { column, operator, value: self.term(ExpectedKind::Value)? })
    }

    fn set(&mut self) -> ParsedCli<CliStatement> {
        let path = self.path(ParseStop::Token("'['"))?;
        self.need_sign("=", "'='")?;
        let value = self.term(ExpectedKind::Value)?;
        let mut ttl = None;
        if self.word("with") {
            self.need_word("ttl", "TTL")?;
            self.need_sign("=", "'='")?;
            ttl = Some(self.count()?);
        }
        Ok(CliStatement::Set { path, value, ttl })
    }

    fn counted(&mut self) -> ParsedCli<(Path, i64)> {
        let path = self.path(ParseStop::Token("'['"))?;
        if !self.word("by") {
            return Ok((path, 1));
        }
        match self.peek().filter(|t| t.kind == TokenKind::Integer).map(|t| t.text.parse()) {
            Some(Ok(by)) => {
                self.advance();
                Ok((path, by))
            }
            Some(Err(_)) => Err(ParseStop::Delta),
            None => {
                self.expected.push(ExpectedToken::Any(ExpectedKind::Number));
                Err(ParseStop::Set)
            }
        }
    }

    /// Parses a key at the start or end of a range of rows.
    fn key_bound(&mut self) -> Option<CliTerm> {
        let is_quoted = self.peek().is_some_and(|t| t.kind == TokenKind::Text);
        let text = self.any(ExpectedKind::Key, &NAME)?;
        Some(if is_quoted { CliTerm::Quoted(text) } else { CliTerm::Text(text) })
    }

    fn list(&mut self) -> ParsedCli<CliStatement> {
        let family = self.family()?;
        let (mut start, mut end) = (None, None);
        if self.sign("[") && !self.sign("]") {
            start = self.key_bound();
            self.need_sign(":", "':'")?;
            end = self.key_bound();
            self.need_sign("]", "']'")?;
        }
        let limit = self.limit()?;
        let (mut columns, mut reversed) = (None, false);
        if self.word("columns") {
            columns = Some(self.count()?);
            reversed = self.word("reversed");
        }
        Ok(CliStatement::List { family, start, end, limit, columns, reversed })
    }

    fn assume(&mut self) -> ParsedCli<CliStatement> {
        let family = self.family()?;
        let what = self
            .any(ExpectedKind::Assumption, &[TokenKind::Word])
            .ok_or(ParseStop::Token("Identifier"))?;
        self.need_word("as", "AS")?;
        Ok(CliStatement::Assume { family, what, as_type: self.name(ExpectedKind::Type)? })
    }

    fn consistency_level(&mut self) -> ParsedCli<CliStatement> {
        self.need_word("as", "AS")?;
        let level = self
            .any(ExpectedKind::Level, &[TokenKind::Word])
            .ok_or(ParseStop::Token("Identifier"))?;
        Ok(CliStatement::ConsistencyLevel(level))
    }
}

/// Returns the token of this name; `None` for tokens with arbitrary text, and for the end.
fn wanted(name: &str) -> Option<CliToken> {
    let token = |kind, text: &str| Some(CliToken { kind, text: text.to_owned(), start: 0, end: 0 });
    match name {
        "EOF" | "Identifier" | "StringLiteral" | "IntegerPositiveLiteral" => None,
        _ => match name.strip_prefix('\'').and_then(|n| n.strip_suffix('\'')) {
            Some(sign) => token(TokenKind::Sign, sign),
            None => token(TokenKind::Word, name),
        },
    }
}

/// First words of statements.
#[rustfmt::skip]
const STATEMENTS: [&str; 20] = [
    "assume", "connect", "consistencylevel", "count", "create", "decr", "del", "describe", "drop", "exit",
    "get", "help", "incr", "list", "quit", "set", "show", "truncate", "update", "use",
];
