//! A history: a schema and statements about it, all from one seed.

use firn_testkit::rng::Rng;

use crate::draft::Draft;
use crate::schema::DrawnSchema;
use crate::statement::DiffStatement;

/// The same for the same seed and length.
pub fn draw_history(seed: u64, length: usize) -> Vec<DiffStatement> {
    let mut rng = Rng::new(seed);
    let schema = DrawnSchema::draw(&mut rng);
    let mut all: Vec<_> = schema.statements().into_iter().map(DiffStatement::plain).collect();
    for step in 0..length as u64 {
        let mut rng = rng.fork();
        let Some(table) = rng.choose(&schema.tables) else {
            continue;
        };
        let bound = rng.one_in(2).then(Vec::new);
        let what = rng.below(20);
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
    all
}
