//! Error messages of failed statements.

use firn_cql::SyntaxError;
use firn_cql::internals::syntax::lexer::{Lexer, Tok};
use serde_json::json;

/// Mentions the shell's commands in errors that list the first words of statements.
pub fn add_commands(error: &mut SyntaxError) {
    if let Some(hint) = error.hint.as_mut().filter(|hint| hint.starts_with("a statement begins")) {
        hint.push_str("; HELP lists the commands of the shell, such as COPY, SOURCE and CAPTURE");
    }
}

/// Returns the first line of a statement, shortened, and cut before a password.
pub fn first_line(statement: &str) -> String {
    let line = statement.lines().next().unwrap_or_default();
    let lower = line.to_ascii_lowercase();
    let secret = if lower.starts_with("login") { lower.find('\'') } else { lower.find("password") };
    if let Some(cut) = secret {
        return format!("{}…", &line[..cut]);
    }
    match line.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None if line.len() < statement.len() => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// Prints an error as a JSON object.
pub fn complain_json(
    class: &str,
    why: &str,
    hint: Option<&str>,
    file: Option<&str>,
    line: u32,
    column: Option<u32>,
) {
    let error = json!({"class": class, "message": why, "hint": hint, "file": file, "line": line, "column": column});
    eprintln!("{}", json!({"error": error}));
}

/// Returns the position of the name or constant that an error message mentions.
pub fn blamed(statement: &str, why: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = why.split_whitespace().collect();
    let about = [
        "name",
        "column",
        "table",
        "type",
        "keyspace",
        "function",
        "constant",
        "identifier",
        "Keyspace",
        "Column",
        "Table",
    ];
    let bare = |w: &str| w.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_owned();
    let mut named = words
        .windows(2)
        .filter(|w| about.contains(&w[0]))
        .map(|w| bare(w[1]))
        .filter(|w| !w.is_empty());
    named.find_map(|name| {
        let last = name.rsplit('.').next().unwrap_or(&name).to_lowercase();
        let mut lexer = Lexer::new(statement, 0);
        loop {
            let token = lexer.next_token();
            let (start, end) = (token.start as usize, token.end as usize);
            match token.kind {
                Tok::End => return None,
                Tok::Ident | Tok::Quoted | Tok::Str | Tok::Integer | Tok::Float
                    if statement[start..end].trim_matches(['\'', '"']).to_lowercase() == last =>
                {
                    return Some((start, end));
                }
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::blamed;

    #[test]
    fn errors_point_at_what_they_name() {
        let at = |statement: &str, why: &str| {
            blamed(statement, why).map(|(a, b)| statement[a..b].to_owned())
        };
        assert_eq!(
            at("SELECT nope FROM t", "Undefined column name nope in table ks.t"),
            Some("nope".into())
        );
        assert_eq!(
            at(
                "INSERT INTO t (k) VALUES ('a')",
                "Invalid STRING constant (a) for \"k\" of type int"
            ),
            Some("'a'".into())
        );
        assert_eq!(at("SELECT * FROM x.T", "table x.t does not exist"), Some("T".into()));
        assert_eq!(at("SELECT * FROM t", "Something else is wrong"), None);
    }
}
