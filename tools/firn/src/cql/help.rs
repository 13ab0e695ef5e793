//! Texts of `HELP`: each topic has a form, a description and an example.

use firn_tools::io::{screen, stdout_is_terminal};

/// Name, form, description, example.
type CqlTopic = (&'static str, &'static str, &'static str, &'static str);

const STATEMENTS: [CqlTopic; 35] = [
    (
        "SELECT",
        "SELECT [JSON] [DISTINCT] columns | * FROM table [WHERE relations] [GROUP BY columns]\n  [ORDER BY columns | ORDER BY column ANN OF vector] [PER PARTITION LIMIT n] [LIMIT n] [ALLOW FILTERING]",
        "Reads rows. A partition key or an index finds them without a scan of the table; other conditions need ALLOW FILTERING.",
        "SELECT title, tags FROM posts WHERE author = 'ann' ORDER BY published DESC LIMIT 10;",
    ),
    (
        "INSERT",
        "INSERT INTO table (columns) VALUES (values) | JSON '{…}' [IF NOT EXISTS] [USING TTL seconds AND TIMESTAMP micros]",
        "Writes a row, and overwrites an existing one.",
        "INSERT INTO users (login, emails) VALUES ('ann', {'ann@example.com'}) USING TTL 86400;",
    ),
    (
        "UPDATE",
        "UPDATE table [USING TTL seconds AND TIMESTAMP micros] SET assignments WHERE key [IF EXISTS | IF conditions]",
        "Writes columns of rows. Collections: c = c + {…}, c = c - {…}, c['key'] = value, list[2] = value.",
        "UPDATE users SET emails = emails + {'ann@work.example.com'} WHERE login = 'ann';",
    ),
    (
        "DELETE",
        "DELETE [columns | c['key']] FROM table [USING TIMESTAMP micros] WHERE key [IF EXISTS | IF conditions]",
        "Deletes columns, rows, a range of rows, or a partition.",
        "DELETE FROM posts WHERE author = 'ann' AND published < '2010-01-01';",
    ),
    (
        "BATCH",
        "BEGIN [UNLOGGED | COUNTER] BATCH [USING TIMESTAMP micros] changes APPLY BATCH",
        "Makes several changes atomically, with one timestamp.",
        "BEGIN BATCH INSERT INTO a (k) VALUES (1); DELETE FROM b WHERE k = 1; APPLY BATCH;",
    ),
    (
        "COUNTERS",
        "UPDATE table SET c = c + n WHERE key",
        "Adds to columns of the type counter. A table has counters or other columns, not both.",
        "UPDATE songs_data SET likes = likes + 1 WHERE song = 4f2d3f50-0000-11e0-8000-000000000001;",
    ),
    (
        "CREATE KEYSPACE",
        "CREATE KEYSPACE [IF NOT EXISTS] name WITH replication = {…}",
        "A place for tables.",
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};",
    ),
    (
        "ALTER KEYSPACE",
        "ALTER KEYSPACE name WITH …",
        "Changes its options.",
        "ALTER KEYSPACE shop WITH durable_writes = false;",
    ),
    (
        "DROP KEYSPACE",
        "DROP KEYSPACE [IF EXISTS] name",
        "Removes it with all its tables.",
        "DROP KEYSPACE shop;",
    ),
    ("USE", "USE keyspace", "Selects the keyspace for names without one.", "USE shop;"),
    (
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] name (column type [STATIC] [PRIMARY KEY], …, PRIMARY KEY ((partition), clustering))\n  [WITH CLUSTERING ORDER BY (c DESC) AND …]",
        "The partition key determines the location of rows, the clustering columns their order.",
        "CREATE TABLE posts (author text, published timestamp, title text, tags set<text>, PRIMARY KEY (author, published));",
    ),
    (
        "ALTER TABLE",
        "ALTER TABLE name ADD c type | DROP c | RENAME a TO b | WITH …",
        "Adds and drops columns, renames clustering columns, changes options.",
        "ALTER TABLE posts ADD body text;",
    ),
    (
        "DROP TABLE",
        "DROP TABLE [IF EXISTS] name",
        "Removes a table with its rows.",
        "DROP TABLE posts;",
    ),
    ("TRUNCATE", "TRUNCATE [TABLE] name", "Removes all rows.", "TRUNCATE posts;"),
    (
        "CREATE INDEX",
        "CREATE [CUSTOM] INDEX [IF NOT EXISTS] [name] ON table (column | KEYS(c) | VALUES(c) | ENTRIES(c) | FULL(c))\n  [USING 'sai' | 'org.apache.cassandra.index.sasi.SASIIndex'] [WITH OPTIONS = {…}]",
        "Finds rows by a column outside of the key. 'sai' supports ranges, several indexes in a query, and nearest vectors; SASI answers LIKE 'a%', and with the mode CONTAINS '%a%'.",
        "CREATE INDEX ON users (country);",
    ),
    (
        "DROP INDEX",
        "DROP INDEX [IF EXISTS] name",
        "Removes it; the rows stay.",
        "DROP INDEX users_country_idx;",
    ),
    (
        "MATERIALIZED VIEW",
        "CREATE MATERIALIZED VIEW [IF NOT EXISTS] name AS SELECT * | columns FROM table WHERE c IS NOT NULL AND …\n  PRIMARY KEY ((partition), clustering) [WITH …]\n  ALTER MATERIALIZED VIEW name WITH …\n  DROP MATERIALIZED VIEW [IF EXISTS] name",
        "Stores the rows of a table under another key: all columns of the table's key, and at most one more. It changes with the table, in the same batch.",
        "CREATE MATERIALIZED VIEW by_country AS SELECT * FROM users WHERE login IS NOT NULL AND country IS NOT NULL PRIMARY KEY (country, login);",
    ),
    (
        "CREATE TYPE",
        "CREATE TYPE [IF NOT EXISTS] name (field type, …)",
        "A type of several fields.",
        "CREATE TYPE address (street text, city text, zips set<int>);",
    ),
    (
        "ALTER TYPE",
        "ALTER TYPE name ADD field type | RENAME a TO b",
        "Adds or renames fields.",
        "ALTER TYPE address ADD country text;",
    ),
    (
        "DROP TYPE",
        "DROP TYPE [IF EXISTS] name",
        "Removes it, unless a table uses it.",
        "DROP TYPE address;",
    ),
    (
        "CREATE FUNCTION",
        "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name (argument type, …) CALLED | RETURNS NULL ON NULL INPUT\n  RETURNS type LANGUAGE rhai AS $$ body $$",
        "A function of the keyspace. Several functions may have one name, with different argument types. docs/cql.md describes how a body gets its values.",
        "CREATE FUNCTION twice (v int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE rhai AS $$ v * 2 $$;",
    ),
    (
        "DROP FUNCTION",
        "DROP FUNCTION [IF EXISTS] name [(type, …)]",
        "Removes it, unless an aggregate uses it.",
        "DROP FUNCTION twice(int);",
    ),
    (
        "CREATE AGGREGATE",
        "CREATE [OR REPLACE] AGGREGATE [IF NOT EXISTS] name (type, …) SFUNC function STYPE type [FINALFUNC function] [INITCOND value]",
        "Computes a value from many rows: SFUNC computes the next state from a state and a row's values, FINALFUNC the value from the last state.",
        "CREATE AGGREGATE total (int) SFUNC plus STYPE int INITCOND 0;",
    ),
    (
        "DROP AGGREGATE",
        "DROP AGGREGATE [IF EXISTS] name [(type, …)]",
        "Removes it; its functions stay.",
        "DROP AGGREGATE total;",
    ),
    (
        "CREATE ROLE",
        "CREATE ROLE [IF NOT EXISTS] name WITH PASSWORD = '…' | HASHED PASSWORD = '$2a$…' AND LOGIN = true AND SUPERUSER = false",
        "A user of a server, or a group of users. As soon as one role may log in, all clients must. CREATE USER is an older form.",
        "CREATE ROLE ann WITH PASSWORD = 'change me' AND LOGIN = true;",
    ),
    (
        "ALTER ROLE",
        "ALTER ROLE [IF EXISTS] name WITH …",
        "Changes the password or the options of a role.",
        "ALTER ROLE ann WITH PASSWORD = 'changed' AND SUPERUSER = true;",
    ),
    ("DROP ROLE", "DROP ROLE [IF EXISTS] name", "Removes it.", "DROP ROLE ann;"),
    (
        "GRANT, REVOKE",
        "GRANT ALL PERMISSIONS | permission, … ON resource TO role\n  GRANT role TO role\n  REVOKE … FROM role",
        "Permissions: CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, DESCRIBE, EXECUTE, UNMASK, SELECT_MASKED. Resources: ALL KEYSPACES, KEYSPACE name,\n  ALL TABLES IN KEYSPACE name, [TABLE] name, ALL ROLES, ROLE name,\n  ALL FUNCTIONS [IN KEYSPACE name], FUNCTION name (types).",
        "GRANT SELECT, MODIFY ON KEYSPACE shop TO ann; REVOKE MODIFY ON shop.items FROM ann;",
    ),
    (
        "LIST",
        "LIST ROLES [OF role] [NORECURSIVE]\n  LIST ALL PERMISSIONS | permission [ON resource] [OF role] [NORECURSIVE]",
        "Lists roles, or permissions.",
        "LIST ALL PERMISSIONS OF ann;",
    ),
    (
        "TYPES",
        "ascii bigint blob boolean counter date decimal double duration float inet int smallint text time timestamp\n  timeuuid tinyint uuid varchar varint list<t> set<t> map<k, v> tuple<…> vector<t, n> frozen<t>",
        "Elements of collections that are not frozen can be changed individually.",
        "CREATE TABLE t (k int PRIMARY KEY, m map<text, frozen<list<int>>>);",
    ),
    (
        "JSON",
        "SELECT JSON … ; INSERT INTO table JSON '{…}' [DEFAULT NULL | UNSET]",
        "Rows as JSON objects.",
        "INSERT INTO users JSON '{\"login\": \"ann\", \"emails\": [\"ann@example.com\"]}';",
    ),
    (
        "LITERALS",
        "'text' $$text$$ 1 -1.5e3 true 0xcafe 1h30m {1, 2} {'a': 1} [1, 2] (1, 'a') {field: 1} null NaN",
        "A quote within a text is written twice.",
        "INSERT INTO t (k, v) VALUES (1, 'it''s');",
    ),
    (
        "FUNCTIONS",
        "now() uuid() token(…) toTimestamp(…) minTimeuuid(…) dateOf(…) blobAsInt(…) writetime(c) ttl(c) cast(c AS type)\n  count(*) min max sum avg toJson fromJson\n  abs exp log log10 round map_keys map_values collection_count collection_min collection_max collection_sum\n  collection_avg similarity_cosine similarity_euclidean similarity_dot_product\n  mask_null mask_default mask_replace mask_inner mask_outer; CREATE FUNCTION makes others",
        "Functions of columns and terms. Operators: + - * / %; a duration may be added to a time.",
        "SELECT login, writetime(country), toTimestamp(now()) - 30d FROM users;",
    ),
    (
        "COLLECTIONS",
        "set: s + {…}, s - {…}   map: m + {…}, m - {keys}, m['k'] = v, DELETE m['k']   list: l + […], […] + l, l - […], l[i] = v",
        "Sets and maps are written without being read; list[i] and list - […] read first.",
        "UPDATE users SET emails = emails - {'old@example.com'} WHERE login = 'ann';",
    ),
    (
        "COMMENTS",
        "-- to the end of the line   // the same   /* … */",
        "They count as white space.",
        "SELECT * FROM users; // all of them",
    ),
];

const COMMANDS: [CqlTopic; 19] = [
    (
        "DESCRIBE",
        "DESCRIBE [KEYSPACES | KEYSPACE name | TABLES | TABLE name | TYPE name | INDEX name | MATERIALIZED VIEW name\n  | FUNCTION name | AGGREGATE name | SCHEMA | CLUSTER | name]",
        "Shows definitions as statements. DESC is a short form.",
        "DESCRIBE TABLE users;",
    ),
    (
        "SOURCE",
        "SOURCE 'file'",
        "Runs the statements of a file; continues after a failed one.",
        "SOURCE 'schema.cql'",
    ),
    (
        "COPY",
        "COPY table [(columns)] FROM 'file' | STDIN [WITH option = value AND …]\n  COPY table [(columns)] TO 'file' | STDOUT [WITH …]",
        "Imports rows from a file, or exports them. Options: HEADER = true | false, DELIMITER = ',', QUOTE = '\"', ESCAPE = '\\' (else a quote is written twice), NULL = '' (text of null; reading it does not change the column), DATETIMEFORMAT, BOOLSTYLE = 'True,False', DECIMALSEP, THOUSANDSSEP. FROM: CHUNKSIZE = 100 (rows of a batch), SKIPROWS = 0, SKIPCOLS = 'a,b', MAXROWS = n, TTL = seconds, ERRFILE = 'file' (for refused rows), MAXPARSEERRORS, MAXINSERTERRORS, FORMAT = csv | tsv | json | deb822 (all but csv find columns by their names). TO: PAGESIZE, BEGINTOKEN, ENDTOKEN, MAXOUTPUTSIZE (rows of a file), FLOATPRECISION, DOUBLEPRECISION. Other options of cqlsh have no effect.",
        "COPY users (login, country) FROM 'users.csv' WITH HEADER = true AND NULL = '\\N';",
    ),
    (
        "EXPAND",
        "EXPAND [ON | OFF]",
        "Shows each row as a list of its columns, without cutting values. Rows much wider than the terminal always have this form.",
        "EXPAND ON",
    ),
    (
        "PAGING",
        "PAGING [ON | OFF | rows]",
        "Sets the number of rows of a page. A screen is shown at a time, by $PAGER or with space, Enter and q. OFF fetches all rows at once, which \
         some ORDER BY clauses need.",
        "PAGING 50",
    ),
    (
        "CAPTURE",
        "CAPTURE ['file' | OFF]",
        "Appends the results of statements to a file instead of showing them.",
        "CAPTURE 'results.txt'",
    ),
    ("ELAPSED", "ELAPSED [ON | OFF]", "Shows the time of each statement.", "ELAPSED ON"),
    (
        "LOGIN",
        "LOGIN role ['password']",
        "Logs in to the server as another role. On a terminal it asks for a missing password.",
        "LOGIN ann",
    ),
    ("SHOW HOST", "SHOW HOST", "Shows the store, server or cluster.", "SHOW HOST"),
    (
        "SHOW SESSION",
        "SHOW SESSION id",
        "Shows the trace of a statement.",
        "SHOW SESSION 5f2c0f60-7a30-11f0-8d5e-8b5b1f2b6a55",
    ),
    ("UNICODE", "UNICODE", "Shows the encoding of texts: UTF-8.", "UNICODE"),
    ("SHOW VERSION", "SHOW VERSION", "Shows the versions.", "SHOW VERSION"),
    (
        "CONSISTENCY",
        "CONSISTENCY [level]",
        "Sets the number of replicas that must answer: ANY, ONE (the default), TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM, LOCAL_ONE. \
         On a store and on a Firn server all levels are equivalent, because there is one node.",
        "CONSISTENCY QUORUM",
    ),
    (
        "SERIAL CONSISTENCY",
        "SERIAL CONSISTENCY [SERIAL | LOCAL_SERIAL]",
        "Sets the consistency level of conditions (IF …).",
        "SERIAL CONSISTENCY LOCAL_SERIAL",
    ),
    (
        "TRACING",
        "TRACING [ON | OFF]",
        "Makes the server trace each statement, and shows the trace.",
        "TRACING ON",
    ),
    ("CLEAR", "CLEAR", "Empties the screen.", "CLEAR"),
    ("HELP", "HELP [topic]", "This.", "HELP UPDATE"),
    ("EXIT", "EXIT", "Exits, like QUIT and Ctrl-D.", "EXIT"),
    ("QUIT", "QUIT", "Leaves.", "QUIT"),
];

/// Lists topics in up to six columns, as many as the terminal has room for.
fn names(topics: &[CqlTopic]) -> String {
    const WIDTH: usize = 19;
    let room = if stdout_is_terminal() { screen().1.saturating_sub(2) / WIDTH } else { 6 };
    let mut out = String::new();
    for (i, topic) in topics.iter().enumerate() {
        out.push_str(if i.is_multiple_of(room.clamp(1, 6)) { "\n  " } else { "" });
        out.push_str(&format!("{:<WIDTH$}", topic.0));
    }
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Returns the help on a topic, or the list of topics. Fails if there is no such topic.
pub fn text(topic: Option<&str>) -> Result<String, String> {
    let list = || {
        format!(
            "Statements end with ';', commands of the shell with their line. HELP with a name explains it.\n\nStatements:{}\n\nThe shell:{}\n",
            names(&STATEMENTS),
            names(&COMMANDS)
        )
    };
    let Some(topic) = topic else { return Ok(list()) };
    let wanted = topic.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_uppercase();
    let all = || STATEMENTS.iter().chain(&COMMANDS);
    let exact: Vec<_> = all().filter(|t| t.0 == wanted).collect();
    let found = if exact.is_empty() {
        all().filter(|t| t.0.split([' ', ',']).any(|w| w == wanted)).collect()
    } else {
        exact
    };
    if found.is_empty() {
        return Err(format!("there is no help on {topic}; HELP lists what there is"));
    }
    let shown = |t: &&CqlTopic| format!("{}\n  {}\n\n  {}\n", t.1, t.2, t.3);
    Ok(found.iter().map(shown).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cql::command;
    use firn_cql::Script;

    #[test]
    fn every_example_is_a_statement_or_a_command() {
        for topic in STATEMENTS.iter().chain(&COMMANDS) {
            let example = topic.3;
            let is_command = command::parse(example.trim_end_matches(';'))
                .unwrap_or_else(|e| panic!("{example}: {e}"))
                .is_some();
            let good = Script::new(example).all(|p| p.parse().is_ok());
            assert!(is_command || good, "{example}");
            assert!(text(Some(topic.0)).unwrap().contains(example));
        }
    }

    #[test]
    fn topics_are_found_by_a_word() {
        assert!(text(Some("table")).unwrap().matches("TABLE").count() >= 3);
        assert!(text(None).unwrap().contains("CREATE KEYSPACE"));
        let word = |word: &str| text(Some(word)).unwrap();
        assert!(word("role").contains("CREATE ROLE") && word("grant").contains("REVOKE"));
        assert!(word("revoke").contains("FROM role"));
        assert!(word("view").contains("DROP MATERIALIZED VIEW"));
        assert!(text(Some("nothing")).is_err());
    }
}
