//! Completion of the text before the cursor. It asks the parser for the tokens that it would accept
//! there, so it covers the whole language.

use firn_cql::internals::syntax::lexer::{Bad, CqlToken, Lexer, Tok};
use firn_cql::internals::syntax::{parse, quote_type_if_needed};
use firn_cql::{Script, quote_if_needed};

use super::schema::{KeyspaceNames, ShellSchema};

/// First words of the shell's commands.
const COMMANDS: [&str; 18] = [
    "CAPTURE",
    "CLEAR",
    "CONSISTENCY",
    "COPY",
    "ELAPSED",
    "EXIT",
    "EXPAND",
    "HELP",
    "LOGIN",
    "PAGING",
    "QUIT",
    "SERIAL CONSISTENCY",
    "SHOW HOST",
    "SHOW SESSION",
    "SHOW VERSION",
    "SOURCE",
    "TRACING",
    "UNICODE",
];
/// A reserved word that no rule of the grammar accepts. The parser answers with the tokens that it
/// expected instead.
const NOWHERE: &str = " NORECURSIVE";

/// Definitions, and the current keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// All definitions.
    pub schema: &'a ShellSchema,
    /// Current keyspace.
    pub keyspace: Option<&'a str>,
}

/// Returns candidates for the text from an offset to the end of `before`, and that offset.
pub fn complete(before: &str, known: Known<'_>) -> (usize, Vec<String>) {
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
            e.expected.iter().for_each(|what| candidates(what, text, &tokens, known, &mut found));
        }
        _ => {}
    }
    described(text, &tokens, known, &mut found);
    about_roles(text, &tokens, known, &mut found);
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

/// Returns the name that a token represents.
fn name_of(text: &str, token: &CqlToken) -> String {
    let raw = &text[token.start as usize..token.end as usize];
    match token.kind {
        Tok::Quoted => raw[1..raw.len() - 1].replace("\"\"", "\""),
        _ => raw.to_lowercase(),
    }
}

/// Adds objects for DESCRIBE. Any name may follow it, so the parser gives no expectation.
fn described(text: &str, tokens: &[CqlToken], known: Known<'_>, out: &mut Vec<String>) {
    let words: Vec<String> = tokens.iter().map(|t| name_of(text, t)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["describe" | "desc", rest @ ..] = &words[..] else { return };
    match rest {
        [] => {
            out.extend(DESCRIBED.map(str::to_owned));
            ["a keyspace", "a table", "an index"]
                .iter()
                .for_each(|what| candidates(what, text, tokens, known, out));
        }
        ["keyspace"] => candidates("a keyspace", text, tokens, known, out),
        ["table" | "columnfamily", ..] => candidates("a table", text, tokens, known, out),
        ["materialized"] => out.push("VIEW".to_owned()),
        ["materialized", "view"] => candidates("a table", text, tokens, known, out),
        ["index"] => candidates("an index", text, tokens, known, out),
        ["type"] => candidates("a user type", text, tokens, known, out),
        ["function"] => candidates("a function", text, tokens, known, out),
        ["aggregate"] => candidates("an aggregate", text, tokens, known, out),
        _ => {}
    }
}

/// Adds candidates for one of the parser's expectations.
fn candidates(
    what: &str,
    text: &str,
    tokens: &[CqlToken],
    known: Known<'_>,
    out: &mut Vec<String>,
) {
    let keyspaces = &known.schema.keyspaces;
    let quoted = |name: &String| quote_if_needed(name).into_owned();
    let chosen = known.keyspace.and_then(|k| keyspaces.get(k));
    match what {
        "a keyspace" => out.extend(keyspaces.keys().map(quoted)),
        "a role" => out.extend(known.schema.roles.iter().map(quoted)),
        "a permission" => out.extend(PERMISSIONS.map(str::to_owned)),
        "a table" => match tokens {
            [.., home, dot] if dot.kind == Tok::Dot => {
                let home = keyspaces.get(&name_of(text, home));
                out.extend(home.iter().flat_map(|k| k.tables.keys()).map(quoted));
            }
            _ => {
                out.extend(chosen.iter().flat_map(|k| k.tables.keys()).map(quoted));
                out.extend(keyspaces.keys().map(|k| format!("{}.", quoted(k))));
            }
        },
        "a column" | "something to select" => {
            let named: Vec<String> = tokens.iter().map(|t| name_of(text, t)).collect();
            let of = |k: &'_ KeyspaceNames| -> Vec<String> {
                let tables = k.tables.iter().filter(|(name, _)| named.contains(name));
                tables.flat_map(|(_, columns)| columns).map(quoted).collect()
            };
            let mut columns: Vec<String> = keyspaces.values().flat_map(of).collect();
            if columns.is_empty() {
                columns.extend(chosen.iter().flat_map(|k| k.tables.values().flatten()).map(quoted));
            }
            out.append(&mut columns);
        }
        "an index" => out.extend(chosen.iter().flat_map(|k| &k.indexes).map(quoted)),
        "a function" if is_dropped(text, tokens, "aggregate") => {
            candidates("an aggregate", text, tokens, known, out);
        }
        "a function" => out.extend(chosen.iter().flat_map(|k| &k.functions).map(quoted)),
        "an aggregate" => out.extend(chosen.iter().flat_map(|k| &k.aggregates).map(quoted)),
        "a statement" => out.extend(STATEMENTS.map(str::to_owned)),
        "a native type" => out.extend(TYPES.map(str::to_owned)),
        "a type" => {
            out.extend(
                TYPES
                    .iter()
                    .chain(&["frozen<", "list<", "map<", "set<", "tuple<"])
                    .map(|t| (*t).to_owned()),
            );
            candidates("a user type", text, tokens, known, out);
        }
        "a user type" => {
            let types = chosen.iter().flat_map(|k| &k.types);
            out.extend(types.map(|name| quote_type_if_needed(name).into_owned()));
        }
        word if word.bytes().all(|b| b.is_ascii_uppercase()) => out.push(word.to_owned()),
        _ => {}
    }
}

/// Reports whether a statement drops an object of this kind.
fn is_dropped(text: &str, tokens: &[CqlToken], kind: &str) -> bool {
    tokens.get(1).is_some_and(|token| name_of(text, token) == kind)
}

const DESCRIBED: [&str; 15] = [
    "AGGREGATE",
    "AGGREGATES",
    "CLUSTER",
    "FULL SCHEMA",
    "FUNCTION",
    "FUNCTIONS",
    "INDEX",
    "KEYSPACE",
    "KEYSPACES",
    "MATERIALIZED VIEW",
    "SCHEMA",
    "TABLE",
    "TABLES",
    "TYPE",
    "TYPES",
];

/// Adds candidates in statements about roles, where few words are keywords of the grammar.
fn about_roles(text: &str, tokens: &[CqlToken], known: Known<'_>, out: &mut Vec<String>) {
    let words: Vec<String> = tokens.iter().map(|t| name_of(text, t)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut add = |words: &[&str]| out.extend(words.iter().map(|w| (*w).to_owned()));
    let resources = [
        "ALL FUNCTIONS",
        "ALL KEYSPACES",
        "ALL ROLES",
        "ALL TABLES IN KEYSPACE",
        "FUNCTION",
        "KEYSPACE",
        "ROLE",
        "TABLE",
    ];
    match &words[..] {
        ["create" | "alter" | "drop"] => add(&["ROLE", "USER"]),
        ["create" | "alter", "role", .., "with" | "and"] => {
            add(&["HASHED PASSWORD =", "LOGIN =", "PASSWORD =", "SUPERUSER ="]);
        }
        ["create" | "alter", "user", _, "with"] => add(&["HASHED PASSWORD", "PASSWORD"]),
        ["list"] => {
            add(&["ROLES", "USERS"]);
            add(&PERMISSIONS);
        }
        ["grant" | "revoke"] => {
            add(&PERMISSIONS);
            candidates("a role", text, tokens, known, out);
        }
        ["grant" | "revoke" | "list", .., "on"] => {
            add(&resources);
            candidates("a table", text, tokens, known, out);
        }
        ["grant" | "revoke" | "list", .., "keyspace"] => {
            candidates("a keyspace", text, tokens, known, out);
        }
        ["alter" | "drop", "role" | "user"]
        | ["grant", .., "to"]
        | ["revoke", .., "from"]
        | ["grant" | "revoke" | "list", .., "on", "role"]
        | ["list", .., "of"] => candidates("a role", text, tokens, known, out),
        _ => {}
    }
}

const PERMISSIONS: [&str; 11] = [
    "ALL PERMISSIONS",
    "ALTER",
    "AUTHORIZE",
    "CREATE",
    "DESCRIBE",
    "DROP",
    "EXECUTE",
    "MODIFY",
    "SELECT",
    "SELECT_MASKED",
    "UNMASK",
];

const STATEMENTS: [&str; 14] = [
    "ALTER", "BEGIN", "CREATE", "DELETE", "DESCRIBE", "DROP", "GRANT", "INSERT", "LIST", "REVOKE",
    "SELECT", "TRUNCATE", "UPDATE", "USE",
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

    #[test]
    fn the_parser_knows_what_could_follow() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let tables = [("items", names(&["id", "Name", "tags"])), ("users", names(&["login"]))];
        let shop = KeyspaceNames {
            tables: tables.into_iter().map(|(name, columns)| (name.to_owned(), columns)).collect(),
            types: names(&["address"]),
            indexes: names(&["by_tag"]),
            functions: names(&["address_of"]),
            aggregates: names(&["total"]),
        };
        let schema = ShellSchema {
            keyspaces: [("shop".to_owned(), shop)].into(),
            roles: names(&["ann", "Big Boss"]),
        };
        let tell = |before: &str| {
            let (start, found) =
                complete(before, Known { schema: &schema, keyspace: Some("shop") });
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
        assert_eq!(tell("CREATE FUNC"), "FUNC FUNCTION");
        assert_eq!(tell("CREATE FUNCTION f(a int) C"), "C CALLED");
        assert_eq!(tell("DROP FUNCTION a"), "a address_of");
        assert_eq!(tell("DESCRIBE AGGREGATE t"), "t total");
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
        assert_eq!(tell("DESC MATERIALIZED VIEW us"), "us users");
        assert_eq!(tell("DROP MAT"), "MAT MATERIALIZED");
        assert_eq!(tell("CREATE MATERIALIZED VIEW v AS SELECT * FROM it"), "it items");
        assert_eq!(tell("ALTER MATERIALIZED VIEW "), " IF,items,shop.,users");
        assert_eq!(tell("tr"), "tr TRACING,TRUNCATE");
        assert_eq!(tell("CREATE RO"), "RO ROLE");
        assert_eq!(tell("DROP ROLE a"), "a ann");
        assert_eq!(tell("CREATE ROLE x WITH LOGIN = true AND P"), "P PASSWORD =");
        assert_eq!(tell("LIST R"), "R ROLES");
        assert_eq!(tell("LIST ALL PERMISSIONS OF "), " \"Big Boss\",ann");
        assert_eq!(tell("GRANT SELECT O"), "O ON");
        assert_eq!(tell("GRANT M"), "M MODIFY");
        assert_eq!(tell("GRANT MODIFY ON KEYSPACE "), " shop");
        assert_eq!(
            tell("GRANT MODIFY ON A"),
            "A ALL FUNCTIONS,ALL KEYSPACES,ALL ROLES,ALL TABLES IN KEYSPACE"
        );
        assert_eq!(tell("REVOKE MODIFY ON items FROM an"), "an ann");
    }
}
