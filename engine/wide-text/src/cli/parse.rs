//! Tokens to a [`Statement`], by recursive descent; the grammar is in `grammar.md`.
//!
//! The parser notes what it would take at the place where it stands. An error message lists it, and
//! completion offers it, so neither can forget an alternative.

use super::ast::{Condition, Definition, Operator, Path, Statement, Term};
use super::attributes::{self, Attribute, Value};
use super::help::Topic;
use super::lex::{self, Kind, Token};
use super::split::Source;
use super::syntax::{Expected, MAX_DEPTH, MAX_STATEMENT, SyntaxError, What, alternatives};

/// The statement of a text, which may end with `;`.
///
/// # Errors
/// When it is none: line, column, what was met and what was expected.
pub fn parse(source: &Source) -> Result<Statement, SyntaxError> {
    if source.text.len() > MAX_STATEMENT {
        let (met, most) = (
            format!("a statement of {} bytes", source.text.len()),
            format!("at most {MAX_STATEMENT}"),
        );
        return Err(SyntaxError::new(
            source,
            0,
            met,
            most,
            0,
            "the statement is too long".to_owned(),
        ));
    }
    let tokens = lex::lex(source)?;
    let mut parser = Parser::new(&tokens);
    parser.statement().map_err(|miss| parser.error(source, miss))
}

/// What the parser would take after these tokens, and the column family that they name.
pub(super) fn expected_after(tokens: &[Token]) -> (Vec<Expected>, Option<String>) {
    let mut parser = Parser::new(tokens);
    // The notes are about the place where the parser stands, whether the statement is whole there
    // or not.
    let _ = parser.statement();
    (if parser.at == tokens.len() { parser.expected } else { Vec::new() }, parser.family)
}

/// Why parsing stopped, in the words of 2012's parser generator.
pub(super) enum Miss {
    /// One token was expected, by this name.
    Token(&'static str),
    /// One of several tokens was expected.
    Set,
    /// No alternative of a rule fits, said at its beginning.
    Alternative,
    /// A number that does not fit.
    Large,
    /// A number to count by that does not fit.
    Delta,
    /// Too deep.
    Deep,
}

type Parsed<T> = Result<T, Miss>;

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    /// What would be taken at `at`.
    expected: Vec<Expected>,
    /// The column family of the statement.
    family: Option<String>,
}

impl<'a> Parser<'a> {
    fn new(tokens: &'a [Token]) -> Parser<'a> {
        Parser { tokens, at: 0, expected: Vec::new(), family: None }
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn advance(&mut self) {
        self.at += 1;
        self.expected.clear();
    }

    fn error(&self, source: &Source, miss: Miss) -> SyntaxError {
        let end = source.text.trim_end().len();
        let (at, raw) = self.peek().map_or((end, "<EOF>"), |t| {
            (t.start, source.text.get(t.start..t.end).unwrap_or_default())
        });
        let met = match self.peek() {
            None => "the end of the statement".to_owned(),
            Some(t) if t.kind == Kind::Text => "a string".to_owned(),
            Some(_) => format!("'{raw}'"),
        };
        let expected = match miss {
            Miss::Large | Miss::Delta => "a number that fits".to_owned(),
            Miss::Deep => format!("values nested at most {MAX_DEPTH} deep"),
            Miss::Alternative if self.at == 0 => "a statement; 'help;' lists them".to_owned(),
            _ => alternatives(&self.expected),
        };
        let first = self.tokens.first().map_or("<EOF>", |t| &source.text[t.start..t.end]);
        let (place, short) = match miss {
            Miss::Token(name) => (at, self.mismatch(name, raw)),
            Miss::Set => (at, format!("mismatched input '{raw}' expecting set null")),
            Miss::Alternative => (0, format!("no viable alternative at input '{first}'")),
            Miss::Large => (at, format!("For input string: \"{raw}\"")),
            Miss::Delta => {
                let text = format!("'{raw}' is an invalid value, should be an integer.");
                return SyntaxError::said(source, at, met, expected, text);
            }
            Miss::Deep => (at, "too deep".to_owned()),
        };
        SyntaxError::new(source, at, met, expected, place, short)
    }

    /// What the parser of 2012 said of a token that it could not match: it tried to go on without
    /// that token, or as if the one expected had stood before it.
    fn mismatch(&self, name: &str, raw: &str) -> String {
        let is_expected = |t: &Token| {
            wanted(name).is_some_and(|w| w.kind == t.kind && w.text.eq_ignore_ascii_case(&t.text))
        };
        let is_at_end = name == "EOF" && self.at + 1 == self.tokens.len();
        if is_at_end || self.tokens.get(self.at + 1).is_some_and(is_expected) {
            return format!("extraneous input '{raw}' expecting {name}");
        }
        if let Some(wanted) = wanted(name) {
            let (before, behind) = self.tokens.split_at(self.at.min(self.tokens.len()));
            let completed = [before, &[wanted], behind].concat();
            let mut parser = Parser::new(&completed);
            let whole = parser.statement().is_ok();
            if !behind.is_empty() && (whole || parser.at > self.at + 1) {
                return format!("missing {name} at '{raw}'");
            }
        }
        format!("mismatched input '{raw}' expecting {name}")
    }

    /// Takes this word of the language if it comes next.
    fn word(&mut self, word: &'static str) -> bool {
        self.expected.push(Expected::Word(word));
        let here =
            self.peek().is_some_and(|t| t.kind == Kind::Word && t.text.eq_ignore_ascii_case(word));
        if here {
            self.advance();
        }
        here
    }

    fn need_word(&mut self, word: &'static str, name: &'static str) -> Parsed<()> {
        if self.word(word) { Ok(()) } else { Err(Miss::Token(name)) }
    }

    /// Takes this sign if it comes next.
    fn sign(&mut self, sign: &'static str) -> bool {
        self.expected.push(Expected::Sign(sign));
        let here = self.peek().is_some_and(|t| t.kind == Kind::Sign && t.text == sign);
        if here {
            self.advance();
        }
        here
    }

    fn need_sign(&mut self, sign: &'static str, name: &'static str) -> Parsed<()> {
        if self.sign(sign) { Ok(()) } else { Err(Miss::Token(name)) }
    }

    /// Takes a token of one of these kinds.
    fn any(&mut self, what: What, kinds: &[Kind]) -> Option<String> {
        self.expected.push(Expected::Any(what));
        let token = self.peek().filter(|t| kinds.contains(&t.kind))?;
        self.advance();
        Some(token.text.clone())
    }

    /// A name: a word, a string or a whole number.
    fn name(&mut self, what: What) -> Parsed<String> {
        self.any(what, &[Kind::Word, Kind::Text, Kind::Integer]).ok_or(Miss::Set)
    }

    fn family(&mut self) -> Parsed<String> {
        let name = self.name(What::Family)?;
        self.family = Some(name.clone());
        Ok(name)
    }

    /// A whole number that isn't negative and fits a signed number of four bytes, as limits and
    /// times did.
    fn count(&mut self) -> Parsed<u32> {
        let digits = self.peek().filter(|t| t.kind == Kind::Integer && !t.text.starts_with('-'));
        match digits.map(|t| t.text.parse::<i32>()) {
            Some(Ok(n)) => {
                self.advance();
                Ok(n.unsigned_abs())
            }
            Some(Err(_)) => Err(Miss::Large),
            None => {
                self.expected.push(Expected::Any(What::Count));
                Err(Miss::Token("IntegerPositiveLiteral"))
            }
        }
    }

    fn limit(&mut self) -> Parsed<Option<u32>> {
        if self.word("limit") { self.count().map(Some) } else { Ok(None) }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.at == self.tokens.len()
            || self.peek().is_some_and(|t| t.kind == Kind::Sign && t.text == ";")
        {
            // Nothing is a statement too, but for completion it is the place where every statement
            // begins.
            let begins = STATEMENTS.iter().map(|word| Expected::Word(word));
            self.expected.extend(begins.chain([Expected::Sign("?")]));
            if self.at == self.tokens.len() {
                return Ok(Statement::Nothing);
            }
            self.advance();
            return self.end(Statement::Nothing);
        }
        if self.sign("?") {
            return self.end(Statement::Help(None));
        }
        let word = STATEMENTS.into_iter().find(|word| self.word(word)).ok_or(Miss::Alternative)?;
        let statement = self.rest(word)?;
        self.end(statement)
    }

    /// What follows the first word.
    fn rest(&mut self, word: &str) -> Parsed<Statement> {
        match word {
            "assume" => self.assume(),
            "connect" => self.connect(),
            "consistencylevel" => self.consistency_level(),
            "count" => Ok(Statement::Count(self.path(Miss::Token("'['"))?)),
            "create" => self.create(),
            "decr" => self.counted().map(|(path, by)| Statement::Decrement { path, by }),
            "del" => Ok(Statement::Delete(self.path(Miss::Token("'['"))?)),
            "describe" => self.describe(),
            "drop" => self.drop(),
            "get" => self.get(),
            "help" => self.help(),
            "incr" => self.counted().map(|(path, by)| Statement::Increment { path, by }),
            "list" => self.list(),
            "set" => self.set(),
            "show" => self.show(),
            "truncate" => Ok(Statement::Truncate(self.family()?)),
            "update" => self.update(),
            "use" => {
                Ok(Statement::Use { keyspace: self.name(What::Keyspace)?, login: self.login()? })
            }
            _ => Ok(Statement::Exit),
        }
    }

    fn end(&mut self, statement: Statement) -> Parsed<Statement> {
        if self.at == self.tokens.len() {
            self.expected.push(Expected::Sign(";"));
            return Ok(statement);
        }
        if self.sign(";") && self.at == self.tokens.len() {
            return Ok(statement);
        }
        Err(Miss::Token("EOF"))
    }

    fn login(&mut self) -> Parsed<Option<(String, String)>> {
        let Some(user) = self.any(What::User, &[Kind::Word]) else { return Ok(None) };
        let password =
            self.any(What::Password, &[Kind::Text]).ok_or(Miss::Token("StringLiteral"))?;
        Ok(Some((user, password)))
    }

    fn connect(&mut self) -> Parsed<Statement> {
        let kinds = [Kind::Word, Kind::Integer, Kind::Decimal, Kind::Address, Kind::Text];
        let mut host = self.any(What::Host, &kinds).ok_or(Miss::Set)?;
        while self.sign(".") {
            host = format!("{host}.{}", self.any(What::Host, &kinds).ok_or(Miss::Set)?);
        }
        self.need_sign("/", "'/'")?;
        Ok(Statement::Connect { host, port: self.count()?, login: self.login()? })
    }

    fn help(&mut self) -> Parsed<Statement> {
        if matches!(self.peek(), None | Some(Token { kind: Kind::Sign, .. })) {
            let first = Topic::ALL.iter().filter_map(|t| t.words().first());
            self.expected.extend(first.map(|w| Expected::Word(w)));
            return Ok(Statement::Help(None));
        }
        // The longest run of words that is a topic's name.
        let best = Topic::ALL
            .iter()
            .filter(|t| self.begins_with(t.words()))
            .max_by_key(|t| t.words().len());
        if let Some(topic) = best {
            let length = topic.words().len();
            self.at += length;
            self.expected.clear();
            let longer = Topic::ALL
                .iter()
                .map(|t| t.words())
                .filter(|w| w.len() > length && w[..length] == *topic.words());
            self.expected.extend(longer.map(|w| Expected::Word(w[length])));
            return Ok(Statement::Help(Some(*topic)));
        }
        let mut depth = 0;
        while Topic::ALL
            .iter()
            .any(|t| t.words().len() > depth && self.begins_with(&t.words()[..=depth]))
        {
            depth += 1;
        }
        let fitting = |t: &&Topic| t.words().len() > depth && self.begins_with(&t.words()[..depth]);
        let next: Vec<Expected> =
            Topic::ALL.iter().filter(fitting).map(|t| Expected::Word(t.words()[depth])).collect();
        self.at += depth;
        self.expected = next;
        Err(Miss::Set)
    }

    fn begins_with(&self, words: &[&str]) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.len() >= words.len()
            && words
                .iter()
                .zip(rest)
                .all(|(w, t)| t.kind == Kind::Word && t.text.eq_ignore_ascii_case(w))
    }

    fn show(&mut self) -> Parsed<Statement> {
        if self.word("cluster") {
            self.need_word("name", "NAME")?;
            Ok(Statement::ShowClusterName)
        } else if self.word("keyspaces") {
            Ok(Statement::ShowKeyspaces)
        } else if self.word("schema") {
            let keyspace = self.any(What::Keyspace, &[Kind::Word, Kind::Text, Kind::Integer]);
            Ok(Statement::ShowSchema(keyspace))
        } else if self.word("api") {
            self.need_word("version", "VERSION")?;
            Ok(Statement::ShowApiVersion)
        } else {
            Err(Miss::Alternative)
        }
    }

    fn describe(&mut self) -> Parsed<Statement> {
        if self.word("cluster") {
            return Ok(Statement::DescribeCluster);
        }
        self.expected.push(Expected::Any(What::Family));
        Ok(Statement::Describe(self.any(What::Keyspace, &[Kind::Word, Kind::Text, Kind::Integer])))
    }

    fn create(&mut self) -> Parsed<Statement> {
        if self.word("keyspace") {
            Ok(Statement::CreateKeyspace(
                self.definition(What::NewKeyspace, What::KeyspaceAttribute)?,
            ))
        } else if self.word("column") {
            self.need_word("family", "FAMILY")?;
            Ok(Statement::CreateFamily(self.definition(What::NewFamily, What::FamilyAttribute)?))
        } else {
            Err(Miss::Alternative)
        }
    }

    fn update(&mut self) -> Parsed<Statement> {
        if self.word("keyspace") {
            Ok(Statement::UpdateKeyspace(self.definition(What::Keyspace, What::KeyspaceAttribute)?))
        } else if self.word("column") {
            self.need_word("family", "FAMILY")?;
            Ok(Statement::UpdateFamily(self.definition(What::Family, What::FamilyAttribute)?))
        } else {
            Err(Miss::Alternative)
        }
    }

    fn drop(&mut self) -> Parsed<Statement> {
        if self.word("keyspace") {
            Ok(Statement::DropKeyspace(self.name(What::Keyspace)?))
        } else if self.word("column") {
            self.need_word("family", "FAMILY")?;
            Ok(Statement::DropFamily(self.family()?))
        } else if self.word("index") {
            self.need_word("on", "ON")?;
            let family = self.family()?;
            self.need_sign(".", "'.'")?;
            Ok(Statement::DropIndex { family, column: self.name(What::Column)? })
        } else {
            Err(Miss::Alternative)
        }
    }

    fn definition(&mut self, name: What, attribute: What) -> Parsed<Definition> {
        let name = self.name(name)?;
        if attribute == What::FamilyAttribute {
            self.family = Some(name.clone());
        }
        let table: &[(&str, What)] = if attribute == What::KeyspaceAttribute {
            &attributes::KEYSPACE
        } else {
            &attributes::FAMILY
        };
        let mut attributes = Vec::new();
        while self.word("with") || self.word("and") {
            let name = self.any(attribute, &[Kind::Word]).ok_or(Miss::Token("Identifier"))?;
            self.need_sign("=", "'='")?;
            let value = self.value(attributes::value_of(table, &name), 0)?;
            attributes.push(Attribute { name, value });
        }
        Ok(Definition { name, attributes })
    }

    /// The value of an attribute.
    fn value(&mut self, what: What, depth: usize) -> Parsed<Value> {
        if depth > MAX_DEPTH {
            return Err(Miss::Deep);
        }
        let nested = matches!(what, What::Options | What::Columns | What::AttributeValue);
        if what != What::Columns {
            let kinds = [Kind::Word, Kind::Text, Kind::Integer, Kind::Decimal];
            if let Some(text) = self.any(what, &kinds) {
                return Ok(Value::Text(text));
            }
        }
        if !nested {
            return Err(Miss::Alternative);
        }
        if self.sign("[") {
            let mut list = Vec::new();
            while !self.sign("]") {
                // Between maps there may be a comma or none, and one more may follow the last.
                if !list.is_empty() && self.sign(",") && self.sign("]") {
                    break;
                }
                list.push(self.value_map(what, depth)?);
            }
            return Ok(Value::List(list));
        }
        self.value_map(what, depth)
    }

    fn value_map(&mut self, what: What, depth: usize) -> Parsed<Value> {
        if !self.sign("{") {
            return Err(Miss::Alternative);
        }
        let mut pairs = Vec::new();
        loop {
            let columns = what == What::Columns;
            let key = self.name(if columns { What::MetadataKey } else { What::OptionName })?;
            self.need_sign(":", "':'")?;
            let inner = if columns {
                attributes::value_of(&attributes::METADATA, &key)
            } else {
                What::AttributeValue
            };
            pairs.push((key, self.value(inner, depth + 1)?));
            if self.sign("}") {
                return Ok(Value::Map(pairs));
            }
            self.need_sign(",", "'}'")?;
        }
    }

    /// A key, a name or a value: text, or a function of text.
    fn term(&mut self, what: What) -> Parsed<Term> {
        let token = self.peek();
        let kinds = [Kind::Word, Kind::Text, Kind::Integer, Kind::Decimal, Kind::Address];
        let text = self.any(what, &kinds).ok_or(Miss::Set)?;
        if !token.is_some_and(|t| t.kind == Kind::Word) || !self.sign("(") {
            return Ok(Term::Text(text));
        }
        let argument = self.any(What::Argument, &kinds);
        self.need_sign(")", "')'")?;
        Ok(Term::Call { function: text, argument })
    }

    fn path(&mut self, otherwise: Miss) -> Parsed<Path> {
        let family = self.family()?;
        if !self.sign("[") {
            return Err(otherwise);
        }
        self.path_of(family)
    }

    /// What follows `family[`.
    fn path_of(&mut self, family: String) -> Parsed<Path> {
        let key = self.term(What::Key)?;
        self.need_sign("]", "']'")?;
        let mut columns = Vec::new();
        while columns.len() < 2 && self.sign("[") {
            columns.push(self.term(What::Column)?);
            self.need_sign("]", "']'")?;
        }
        Ok(Path { family, key, columns })
    }

    fn get(&mut self) -> Parsed<Statement> {
        // The parser of 2012 looked at the family to know which kind of `get` it is.
        let family = self.family().map_err(|_| Miss::Alternative)?;
        if self.sign("[") {
            let path = self.path_of(family)?;
            let shown_as = if self.word("as") { Some(self.name(What::Type)?) } else { None };
            return Ok(Statement::Get { path, shown_as, limit: self.limit()? });
        }
        if !self.word("where") {
            return Err(Miss::Alternative);
        }
        let mut conditions = vec![self.condition()?];
        while self.word("and") {
            conditions.push(self.condition()?);
        }
        Ok(Statement::GetWhere { family, conditions, limit: self.limit()? })
    }

    fn condition(&mut self) -> Parsed<Condition> {
        const OPERATORS: [(&str, Operator); 5] = [
            ("=", Operator::Eq),
            (">=", Operator::Gte),
            (">", Operator::Gt),
            ("<=", Operator::Lte),
            ("<", Operator::Lt),
        ];
        let column = self.term(What::Column)?;
        let operator = OPERATORS.iter().find(|(sign, _)| self.sign(sign)).ok_or(Miss::Set)?.1;
        Ok(Condition { column, operator, value: self.term(What::Value)? })
    }

    fn set(&mut self) -> Parsed<Statement> {
        let path = self.path(Miss::Token("'['"))?;
        self.need_sign("=", "'='")?;
        let value = self.term(What::Value)?;
        let mut ttl = None;
        if self.word("with") {
            self.need_word("ttl", "TTL")?;
            self.need_sign("=", "'='")?;
            ttl = Some(self.count()?);
        }
        Ok(Statement::Set { path, value, ttl })
    }

    fn counted(&mut self) -> Parsed<(Path, i64)> {
        let path = self.path(Miss::Token("'['"))?;
        if !self.word("by") {
            return Ok((path, 1));
        }
        match self.peek().filter(|t| t.kind == Kind::Integer).map(|t| t.text.parse()) {
            Some(Ok(by)) => {
                self.advance();
                Ok((path, by))
            }
            Some(Err(_)) => Err(Miss::Delta),
            None => {
                self.expected.push(Expected::Any(What::Number));
                Err(Miss::Set)
            }
        }
    }

    fn list(&mut self) -> Parsed<Statement> {
        let family = self.family()?;
        let kinds = [Kind::Word, Kind::Text, Kind::Integer];
        let (mut start, mut end) = (None, None);
        if self.sign("[") && !self.sign("]") {
            start = self.any(What::Key, &kinds);
            self.need_sign(":", "':'")?;
            end = self.any(What::Key, &kinds);
            self.need_sign("]", "']'")?;
        }
        let limit = self.limit()?;
        let (mut columns, mut reversed) = (None, false);
        if self.word("columns") {
            columns = Some(self.count()?);
            reversed = self.word("reversed");
        }
        Ok(Statement::List { family, start, end, limit, columns, reversed })
    }

    fn assume(&mut self) -> Parsed<Statement> {
        let family = self.family()?;
        let what = self.any(What::Assumption, &[Kind::Word]).ok_or(Miss::Token("Identifier"))?;
        self.need_word("as", "AS")?;
        Ok(Statement::Assume { family, what, as_type: self.name(What::Type)? })
    }

    fn consistency_level(&mut self) -> Parsed<Statement> {
        self.need_word("as", "AS")?;
        let level = self.any(What::Level, &[Kind::Word]).ok_or(Miss::Token("Identifier"))?;
        Ok(Statement::ConsistencyLevel(level))
    }
}

/// The token of this name; `None` for those whose text is the user's choice, and for the end.
fn wanted(name: &str) -> Option<Token> {
    let token = |kind, text: &str| Some(Token { kind, text: text.to_owned(), start: 0, end: 0 });
    match name {
        "EOF" | "Identifier" | "StringLiteral" | "IntegerPositiveLiteral" => None,
        _ => match name.strip_prefix('\'').and_then(|n| n.strip_suffix('\'')) {
            Some(sign) => token(Kind::Sign, sign),
            None => token(Kind::Word, name),
        },
    }
}

/// The first words of statements.
const STATEMENTS: [&str; 20] = [
    "assume",
    "connect",
    "consistencylevel",
    "count",
    "create",
    "decr",
    "del",
    "describe",
    "drop",
    "exit",
    "get",
    "help",
    "incr",
    "list",
    "quit",
    "set",
    "show",
    "truncate",
    "update",
    "use",
];
