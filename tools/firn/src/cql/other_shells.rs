//! Commands of the shells of SQLite, PostgreSQL and MySQL, which users try here: a hint for each.

/// Returns the end of a line that begins with a command of another shell, such as `.tables` or
/// `\d t`. `None` for other texts: no statement of CQL begins with a dot or a backslash.
pub fn line_end(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['.', '\\'])?;
    let is_command = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '?' || c == '!');
    is_command.then(|| text.find('\n').unwrap_or(text.len()))
}

/// Returns the end of a statement that ends like MySQL's and psql's, with `\G` or `\g` at the end of
/// its line. `None` if the line may be part of a text in quotes.
pub fn vertical_end(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        if trimmed.ends_with("\\G") || trimmed.ends_with("\\g") {
            let before = &text[..at + trimmed.len()];
            let is_even = |quote: &str| before.matches(quote).count().is_multiple_of(2);
            return ["'", "\"", "$$"].into_iter().all(is_even).then_some(before.len());
        }
        at += line.len();
    }
    None
}

/// Returns the hint for a command of another shell; `None` for other texts.
pub fn hint(text: &str) -> Option<String> {
    if line_end(text).is_none() {
        let text = text.trim_end();
        return (text.ends_with("\\G") || text.ends_with("\\g")).then(|| {
            "a statement ends with ;, and EXPAND ON prints each row as a list of its columns"
                .to_owned()
        });
    }
    let word = text.split_whitespace().next().unwrap_or_default();
    let instead = match word.trim_start_matches(['.', '\\']) {
        "tables" | "dt" | "dt+" | "d+" => "DESCRIBE TABLES lists the tables",
        "d" if text.trim() == "\\d" => "DESCRIBE TABLES lists the tables",
        "d" | "schema" | "fullschema" => {
            "DESCRIBE TABLE t shows a table, DESCRIBE SCHEMA all of them"
        }
        "databases" | "l" | "list" | "dn" | "l+" => "DESCRIBE KEYSPACES lists the keyspaces",
        "c" | "connect" | "u" | "use" | "open" => "USE k selects the keyspace k",
        "q" | "quit" | "exit" => "EXIT ends the shell",
        "i" | "read" | "r" | "." => "SOURCE 'file.cql' runs the statements of a file",
        "x" | "G" | "mode" => "EXPAND ON prints each row as a list of its columns",
        "o" | "output" | "once" => "CAPTURE 'file' writes results to a file",
        "timing" | "timer" => "ELAPSED ON shows the time of each statement",
        "copy" | "import" | "dump" | "save" => {
            "COPY t TO 'file.csv' exports rows, COPY t FROM imports them"
        }
        "du" | "dg" => "LIST ROLES lists the roles",
        "df" => "DESCRIBE FUNCTIONS lists the functions",
        "dT" => "DESCRIBE TYPES lists the types",
        "di" | "indexes" | "indices" => "DESCRIBE TABLE t shows a table with its indexes",
        _ => "HELP lists the commands of this shell",
    };
    Some(format!("{word} is a command of another shell: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_other_shells_get_a_hint() {
        for (text, word) in [
            (".tables", "DESCRIBE TABLES"),
            ("\\dt", "DESCRIBE TABLES"),
            ("\\d", "DESCRIBE TABLES"),
            ("\\d users", "DESCRIBE TABLE t"),
            (".schema", "DESCRIBE TABLE t"),
            ("\\l", "DESCRIBE KEYSPACES"),
            ("\\q", "EXIT"),
            (".quit", "EXIT"),
            ("\\x", "EXPAND ON"),
            (".help", "HELP"),
            ("\\?", "HELP"),
            ("SELECT * FROM t\\G", "EXPAND ON"),
        ] {
            let hint = hint(text).unwrap_or_else(|| panic!("{text} has no hint"));
            assert!(hint.contains(word), "{text}: {hint}");
        }
        for statement in ["SELECT * FROM t", ".5", "\\", "", "."] {
            assert_eq!(hint(statement), None, "{statement}");
        }
        assert_eq!(line_end("\\d t\nSELECT"), Some(4));
        assert_eq!(vertical_end("SELECT *\nFROM t\\G\nSELECT"), Some(17));
        assert_eq!(vertical_end("INSERT INTO t (a) VALUES ('b\\G\n"), None);
    }
}
