//! CQL: parsing of typical statements, printing of one statement, and splitting of a script.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use firn_cql::Script;
use firn_cql::internals::syntax::parse;

/// Statements, starting with the simplest.
const STATEMENTS: [(&str, &str); 8] = [
    ("select-by-key", "SELECT name, favs FROM users WHERE id = ?"),
    ("select-all", "SELECT * FROM users WHERE id = 'jsmith'"),
    ("insert-bound", "INSERT INTO users (id, name, favs) VALUES (?, ?, ?)"),
    (
        "insert-literal",
        "INSERT INTO users (id, name, favs) VALUES ('jsmith', 'John Smith', {'fruit': 'Apple', 'band': 'Beatles'})",
    ),
    ("update-map", "UPDATE users USING TTL 10 SET favs['color'] = 'green' WHERE id = 'jsmith'"),
    ("delete", "DELETE favs['author'] FROM users USING TIMESTAMP 5 WHERE id = 'jsmith'"),
    (
        "select-slice",
        "SELECT p, c, writetime(v) AS w FROM ks.t WHERE p = 550e8400-e29b-41d4-a716-446655440000 AND c >= 1 AND c < 3 \
         ORDER BY c DESC LIMIT 100",
    ),
    (
        "create-table",
        "CREATE TABLE IF NOT EXISTS ks.t (p uuid, c int, v text, m map<int, text>, s set<text>, l list<int>, st text static, \
         PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC) AND gc_grace_seconds = 10 AND comment = 'x'",
    ),
];

fn parsing(c: &mut Criterion) {
    let mut group = c.benchmark_group("cql/parse");
    for (name, text) in STATEMENTS {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| b.iter(|| parse(black_box(text)).unwrap()));
    }
}

fn printing(c: &mut Criterion) {
    let parsed = parse(STATEMENTS[3].1).unwrap();
    c.bench_function("cql/print/insert-literal", |b| {
        b.iter(|| black_box(&parsed).statement.to_string())
    });
}

fn scripts(c: &mut Criterion) {
    let script = STATEMENTS.map(|s| s.1).join(";\n").repeat(100);
    let mut group = c.benchmark_group("cql/script");
    group.throughput(Throughput::Bytes(script.len() as u64));
    group.bench_function("cut", |b| b.iter(|| Script::new(black_box(&script)).count()));
}

criterion_group! {
    name = benches;
    config = firn_micro::criterion();
    targets = parsing, printing, scripts
}
criterion_main!(benches);
