//! Completion: what could stand at the cursor. It asks the parser what it would take there, so it
//! knows the whole language.

use firn_cql::internals::catalog::{KeyspaceEntry, TableSchema};
use firn_cql::internals::syntax::lexer::{Bad, CqlToken, Lexer, Tok};
use firn_cql::internals::syntax::{parse, quote_type_if_needed};
use firn_cql::{Script, Session, quote_if_needed};

/// Words that begin a command of the shell.
const COMMANDS: [&str; 10] = [
    "CLEAR",
    "CONSISTENCY",
    "COPY",
    "EXIT",
    "EXPAND",
    "HELP",
    "PAGING",
    "QUIT",
    "SHOW VERSION",
    "SOURCE",
];
/// A reserved word that no rule of the grammar takes: the parser says what it would rather have
/// there.
const NOWHERE: &str = " NORECURSIVE";

/// What could replace the text from an offset on up to the end of `before`.
pub fn complete(before: &str, session: &Session) -> (usize, Vec<String>) {
    let nothing = (before.len(), vec![]);
    let last = Script::new(before).last().filter(|p| !p.closed);
    let from = last.map_or(before.len(), |p| p.start);
    let text = &before[from..];
    let mut tokens = tokens(text);
    let start = match tokens.last() {
        Some(t)
            if matches!(
                t.kind,
                Tok::Bad(Bad::Str | Bad::DollarStr | Bad::Quoted | Bad::Comment)
            ) =>
        {
            return nothing;
        }
        Some(t) if t.end as usize == text.len() && matches!(t.kind, Tok::Ident | Tok::Kw(_)) => {
            let start = t.start as usize;
            tokens.pop();
            start
        }
        _ => text.len(),
    };
    let (front, partial) = text.split_at(start);
    let mut found = vec![];
    if tokens.is_empty() {
        found.extend(COMMANDS.map(str::to_owned));
    }
    match parse(&format!("{front}{NOWHERE}")) {
        Err(e) if e.offset == front.len() + 1 => {
            e.expected.iter().for_each(|what| candidates(what, text, &tokens, session, &mut found));
        }
        _ => {}
    }
    described(text, &tokens, session, &mut found);
    found.retain(|c| {
        c.len() >= partial.len()
            && c.as_bytes()[..partial.len()].eq_ignore_ascii_case(partial.as_bytes())
    });
    found.sort_unstable();
    found.dedup();
    (from + start, found)
}

fn tokens(text: &str) -> Vec<CqlToken> {
    let mut lexer = Lexer::new(text, 0);
    std::iter::from_fn(|| Some(lexer.next_token()).filter(|t| t.kind != Tok::End)).collect()
}

/// The name that a token is.
fn name_of(text: &str, token: &CqlToken) -> String {
    let raw = &text[token.start as usize..token.end as usize];
    match token.kind {
        Tok::Quoted => raw[1..raw.len() - 1].replace("\"\"", "\""),
        _ => raw.to_lowercase(),
    }
}

/// Adds what can be described. Any name could follow there, so the parser expects nothing in
/// particular.
fn described(text: &str, tokens: &[CqlToken], session: &Session, out: &mut Vec<String>) {
    let words: Vec<String> = tokens.iter().map(|t| name_of(text, t)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["describe" | "desc", rest @ ..] = &words[..] else { return };
    match rest {
        [] => {
            out.extend(DESCRIBED.map(str::to_owned));
            ["a keyspace", "a table", "an index"]
                .iter()
                .for_each(|what| candidates(what, text, tokens, session, out));
        }
        ["keyspace"] => candidates("a keyspace", text, tokens, session, out),
        ["table" | "columnfamily", ..] => candidates("a table", text, tokens, session, out),
        ["index"] => candidates("an index", text, tokens, session, out),
        ["type"] => candidates("a user type", text, tokens, session, out),
        _ => {}
    }
}

/// Adds what one of the things that the parser expects can be.
fn candidates(
    what: &str,
    text: &str,
    tokens: &[CqlToken],
    session: &Session,
    out: &mut Vec<String>,
) {
    let catalog = session.engine().catalog();
    let current = session.keyspace();
    let quoted = |name: &String| quote_if_needed(name).into_owned();
    let chosen = || current.as_deref().and_then(|k| catalog.keyspace(k));
    match what {
        "a keyspace" => out.extend(catalog.keyspaces().map(|k| quoted(&k.name))),
        "a table" => match tokens {
            [.., home, dot] if dot.kind == Tok::Dot => {
                let home = name_of(text, home);
                out.extend(
                    catalog
                        .keyspace(&home)
                        .iter()
                        .flat_map(|k| k.tables())
                        .map(|t| quoted(&t.name)),
                );
            }
            _ => {
                out.extend(chosen().iter().flat_map(|k| k.tables()).map(|t| quoted(&t.name)));
                out.extend(catalog.keyspaces().map(|k| format!("{}.", quoted(&k.name))));
            }
        },
        "a column" | "something to select" => {
            let named: Vec<String> = tokens.iter().map(|t| name_of(text, t)).collect();
            let all: Vec<&TableSchema> =
                catalog.keyspaces().flat_map(|k| k.tables()).map(|t| &**t).collect();
            let mut tables: Vec<&TableSchema> =
                all.into_iter().filter(|t| named.contains(&t.name)).collect();
            if tables.is_empty() {
                tables.extend(
                    chosen()
                        .into_iter()
                        .flat_map(|k: &std::sync::Arc<KeyspaceEntry>| k.tables())
                        .map(|t| &**t),
                );
            }
            out.extend(tables.iter().flat_map(|t| t.columns()).map(|c| quoted(&c.name)));
        }
        "an index" => out.extend(
            chosen()
                .iter()
                .flat_map(|k| k.tables())
                .flat_map(|t| t.indexes())
                .map(|i| quoted(&i.name)),
        ),
        "a statement" => out.extend(STATEMENTS.map(str::to_owned)),
        "a native type" => out.extend(TYPES.map(str::to_owned)),
        "a type" => {
            out.extend(
                TYPES
                    .iter()
                    .chain(&["frozen<", "list<", "map<", "set<", "tuple<"])
                    .map(|t| (*t).to_owned()),
            );
            candidates("a user type", text, tokens, session, out);
        }
        "a user type" => {
            out.extend(
                chosen()
                    .iter()
                    .flat_map(|k| k.types())
                    .map(|t| quote_type_if_needed(&t.name).into_owned()),
            );
        }
        word if word.bytes().all(|b| b.is_ascii_uppercase()) => out.push(word.to_owned()),
        _ => {}
    }
}

const DESCRIBED: [&str; 10] = [
    "CLUSTER",
    "FULL SCHEMA",
    "INDEX",
    "KEYSPACE",
    "KEYSPACES",
    "SCHEMA",
    "TABLE",
    "TABLES",
    "TYPE",
    "TYPES",
];

const STATEMENTS: [&str; 11] = [
    "ALTER", "BEGIN", "CREATE", "DELETE", "DESCRIBE", "DROP", "INSERT", "SELECT", "TRUNCATE",
    "UPDATE", "USE",
];

const TYPES: [&str; 21] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
];

#[cfg(test)]
mod tests {
    use super::*;
    use firn_kv::MemEnv;
    use firn_wide::{Options, Wide};
    use std::sync::Arc;

    #[test]
    fn the_parser_knows_what_could_follow() {
        let wide = Wide::open_in(Arc::new(MemEnv::new(1)), "db", Options::default()).unwrap();
        let session = Session::new(wide).unwrap();
        for statement in [
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "USE shop",
            "CREATE TABLE items (id int PRIMARY KEY, \"Name\" text, tags set<text>)",
            "CREATE TABLE users (login text PRIMARY KEY)",
            "CREATE TYPE address (street text)",
            "CREATE INDEX by_tag ON items (tags)",
        ] {
            session.execute(statement, ()).unwrap();
        }
        let tell = |before: &str| {
            let (start, found) = complete(before, &session);
            format!("{} {}", &before[start..], found.join(","))
        };
        assert_eq!(tell("sel"), "sel SELECT");
        assert_eq!(tell("SELECT id FROM it"), "it items");
        assert_eq!(tell("USE x; SELECT id FROM shop.u"), "u users");
        assert_eq!(tell("SELECT * FROM items WH"), "WH WHERE");
        assert_eq!(tell("SELECT * FROM items WHERE "), " \"Name\",id,tags");
        assert_eq!(tell("USE s"), "s shop");
        assert_eq!(tell("INSERT INTO users (l"), "l login");
        assert_eq!(tell("UPDATE items SET t"), "t tags");
        assert_eq!(tell("CREATE TABLE t (a in"), "in inet,int");
        assert_eq!(tell("so"), "so SOURCE");
        assert_eq!(tell("SELECT 'a FROM "), " ");
        assert_eq!(tell("DESCRIBE TA"), "TA TABLE,TABLES");
        assert_eq!(tell("desc k"), "k KEYSPACE,KEYSPACES");
        assert_eq!(tell("DESC us"), "us users");
        assert_eq!(tell("DESCRIBE TABLE "), " items,shop.,users");
        assert_eq!(tell("DESCRIBE TABLE shop."), " items,users");
        assert_eq!(tell("DESC KEYSPACE s"), "s shop");
        assert_eq!(tell("DESC TYPE a"), "a address");
        assert_eq!(tell("DESC INDEX "), " by_tag");
    }
}
