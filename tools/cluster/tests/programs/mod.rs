//! Statements of an application, written once: only `super::Session` differs between the tests that
//! run them. The databases may be Firn's in a directory, Firn's server, or a cluster.

mod errors;
mod pages;
mod rows;
mod values;
mod writes;

use super::Session;

/// A program for a session, in whose keyspace it creates its tables.
pub type Program = fn(&Session);

/// All programs by name, which is also the name of the keyspace.
pub const PROGRAMS: [(&str, Program); 15] = [
    ("typed_rows", rows::typed_rows),
    ("structs", rows::structs),
    ("selections", rows::selections),
    ("keyspaces", rows::keyspaces),
    ("definitions", rows::definitions),
    ("every_type", values::every_type),
    ("absence", values::absence),
    ("collections", values::collections),
    ("pages_of_rows", pages::pages_of_rows),
    ("walks", pages::walks),
    ("conditions", writes::conditions),
    ("batches", writes::batches),
    ("counters_and_times", writes::counters_and_times),
    ("many_threads", writes::many_threads),
    ("classes_of_errors", errors::classes_of_errors),
];

/// Recreates the keyspace of a program, runs the program in it, and drops it.
pub fn play(session: &Session, name: &str, program: Program) {
    let run = |cql: &str| session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    run(&format!("DROP KEYSPACE IF EXISTS {name}"));
    run(&format!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ));
    run(&format!("USE {name}"));
    assert_eq!(session.keyspace().as_deref(), Some(name));
    program(session);
    run(&format!("DROP KEYSPACE {name}"));
}

/// Runs a statement that must succeed.
fn done(session: &Session, cql: &str) -> firn_cql::Rows {
    session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"))
}
