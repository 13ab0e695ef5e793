//! Scripts of `cassandra-cli`'s language with arbitrary bytes: split, parsed and run on a database
//! in memory.
#![no_main]

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::{ManualClock, Options, StoreOptions, Wide};
use firn_wide_text::cli::{CliSession, CliSource, CliSyntaxError, Splitter, parse};
use libfuzzer_sys::fuzz_target;

/// Maximum number of executed statements of a script.
const MOST: usize = 64;

fn sound(error: &CliSyntaxError, source: &CliSource) {
    assert!(error.line >= source.line && error.column > 0, "{error:?}");
    assert!(!error.to_string().is_empty() && !error.historical().is_empty());
}

fn session(strict: bool) -> CliSession {
    let env = MemEnv::new(3);
    let db = DbOptions {
        memory_budget: 2 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    };
    let clock = Arc::new(ManualClock::new(1_600_000_000_000_000));
    let options = Options {
        store: StoreOptions { db, clock: Some(clock), ..StoreOptions::default() },
        ..Options::default()
    };
    let wide = Wide::open_in(Arc::new(env.clone()), "db", options).expect("a fresh database opens");
    CliSession::new(wide, Arc::new(env), strict)
}

fuzz_target!(|input: (bool, &str)| {
    let (strict, text) = input;
    let mut splitter = Splitter::new();
    splitter.feed(text);
    let mut sources = vec![];
    while let Some(source) = splitter.next_statement() {
        sources.push(source);
    }
    sources.extend(splitter.finish());
    for source in &sources {
        if let Err(error) = parse(source) {
            sound(&error, source);
        }
    }
    if !sources.iter().any(|s| parse(s).is_ok()) {
        return;
    }
    let mut session = session(strict);
    for source in sources.iter().take(MOST) {
        let answer = session.run(source);
        if let Some(failure) = &answer.failure {
            assert!(!session.say(failure).is_empty(), "{}", source.text);
        }
        if answer.exit {
            break;
        }
    }
});
