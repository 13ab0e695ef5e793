//! Texts that a Cassandra server accepts as CQL parse here, and texts that it refuses do not.
//! `data/statements.txt` has the statements and its verdicts.

use firn_cql::Script;
use firn_cql::internals::syntax::parse;

/// Cassandra requires a line end after a comment; here it may end with the input. Times of parts of
/// collections were added after 4.0.
const TAKEN_HERE: [&str; 3] = [
    "SELECT * FROM ba -- comment",
    "/* c1 */ SELECT v FROM ba // c2",
    "SELECT writetime(m['a']) FROM m1 WHERE k = 1",
];

fn recorded() -> impl Iterator<Item = (Option<&'static str>, &'static str)> {
    let cases = include_str!("data/statements.txt").split("\n== ").skip(1);
    cases.map(|case| {
        let (verdict, statement) = case.split_once('\n').unwrap();
        (verdict.strip_prefix("syntax "), statement)
    })
}

#[test]
fn verdicts_are_the_same() {
    let (mut accepted, mut refused) = (0, 0);
    for (message, statement) in recorded() {
        match (message, parse(statement)) {
            (None, Ok(_)) => accepted += 1,
            (Some(_), Ok(_)) if TAKEN_HERE.contains(&statement.trim_end()) => {}
            // Syntax errors with positions differ: Cassandra's name rules and tokens of a parser
            // generator.
            (Some(message), Err(error)) if message.starts_with("line ") => {
                assert!(error.to_string().starts_with("line "), "{statement}: {error}");
                refused += 1;
            }
            (Some(message), Err(error)) => {
                assert_eq!(error.to_string(), message, "{statement}");
                refused += 1;
            }
            (message, result) => panic!("{statement}\nthere {message:?}, here {result:?}"),
        }
    }
    assert!(accepted > 500 && refused > 12, "{accepted} accepted, {refused} refused");
}

#[test]
fn what_is_printed_parses_to_the_same_tree() {
    for (_, statement) in recorded() {
        let Ok(parsed) = parse(statement) else { continue };
        let printed = parsed.statement.to_string();
        let again =
            parse(&printed).unwrap_or_else(|e| panic!("{statement}\n{printed}\n{}", e.pretty()));
        assert_eq!(again, parsed, "{statement}\n{printed}");
        assert_eq!(again.statement.to_string(), printed);
    }
}

#[test]
fn statements_joined_to_a_script_come_apart_again() {
    let sound: Vec<&str> = recorded()
        .filter(|(_, s)| parse(s).is_ok())
        .map(|(_, s)| s.trim().trim_end_matches(';'))
        .collect();
    let script = sound.join("\n;\n");
    let pieces: Vec<_> = Script::new(&script).collect();
    assert_eq!(pieces.len(), sound.len());
    for (piece, alone) in pieces.iter().zip(sound) {
        assert_eq!(piece.parse().unwrap(), parse(alone).unwrap());
    }
}

#[test]
fn every_beginning_and_every_lost_byte_is_an_error_or_a_statement() {
    for (_, statement) in recorded().filter(|(_, s)| s.len() < 400) {
        for (at, c) in statement.char_indices() {
            for text in [
                statement[..at].to_owned(),
                [&statement[..at], &statement[at + c.len_utf8()..]].concat(),
            ] {
                match parse(&text) {
                    Ok(parsed) => {
                        assert_eq!(parse(&parsed.statement.to_string()).unwrap(), parsed, "{text}")
                    }
                    Err(error) => {
                        assert!(error.offset <= text.len() && text.is_char_boundary(error.offset));
                        assert!(
                            !error.to_string().is_empty()
                                && error.pretty().len() >= error.to_string().len()
                        );
                        assert!(
                            error.message.is_some() || !error.met.is_empty(),
                            "{text}\n{error}"
                        );
                    }
                }
            }
        }
    }
}
