//! Statements and scripts with arbitrary bytes; a parsed statement is printed and parsed again to
//! the same tree.
#![no_main]

use firn_cql::internals::syntax::{parse, parse_bytes};
use firn_cql::{Script, SyntaxError};
use libfuzzer_sys::fuzz_target;

fn sound(error: &SyntaxError, len: usize) {
    assert!(error.offset <= len && error.line > 0 && error.column > 0);
    assert!(error.message.is_some() || !error.met.is_empty());
    assert!(error.pretty().len() >= error.to_string().len());
}

fuzz_target!(|bytes: &[u8]| {
    match parse_bytes(bytes) {
        Ok(parsed) => {
            let printed = parsed.statement.to_string();
            let again = parse(&printed).unwrap_or_else(|e| panic!("{printed}\n{}", e.pretty()));
            assert_eq!(again, parsed, "{printed}");
        }
        Err(error) => sound(&error, bytes.len()),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut end = 0;
    for piece in Script::new(text) {
        assert!(end <= piece.start && piece.start < piece.end && piece.end <= text.len());
        end = piece.end;
        if let Err(error) = piece.parse() {
            sound(&error, text.len());
        }
    }
});
