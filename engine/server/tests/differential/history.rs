//! A history: a schema and statements on it, all from one seed.

use firn_testkit::rng::Rng;

use crate::differential::draft::Draft;
use crate::differential::schema::DrawnSchema;
use crate::differential::statement::DiffStatement;

/// Returns the same history for the same seed and length.
pub fn draw_history(seed: u64, length: usize) -> Vec<DiffStatement> {
    let mut rng = Rng::new(seed);
    let schema = DrawnSchema::draw(&mut rng);
    let mut all: Vec<_> = schema.statements().into_iter().map(DiffStatement::plain).collect();
    for step in 0..length as u64 {
        let mut rng = rng.fork();
        let Some(table) = rng.choose(&schema.tables) else {
            continue;
        };
        // Skips tables for which Cassandra would show hidden columns.
        if table.is_dense() && rng.one_in(500) {
            let cql = format!("ALTER TABLE {} DROP COMPACT STORAGE", table.name);
            all.push(DiffStatement::plain(cql));
            continue;
        }
        let bound = rng.one_in(2).then(Vec::new);
        // Views are not writable.
        let what = match rng.below(20) {
            0..10 if table.view.is_some() && !rng.one_in(50) => 10,
            what => what,
        };
        let page = rng.one_in(4).then(|| 1 + rng.below(6) as usize);
        let mut draft = Draft { rng: &mut rng, schema: &schema, table, bound, step };
        let cql = match what {
            0..9 => draft.change(true),
            9 => draft.batch(),
            _ => draft.select(),
        };
        let mut statement = draft.finish(cql);
        if what > 9 {
            statement.page_size = page;
        }
        all.push(statement);
    }
    for table in &schema.tables {
        all.extend(table.alterations(&mut rng).into_iter().map(DiffStatement::plain));
    }
    all
}
