//! Parts of statements: terms, written or bound and sometimes invalid; column names; keys.

use firn_cql::BoundValue;
use firn_testkit::rng::Rng;

use crate::differential::schema::{ColumnRole, DrawnColumn, DrawnSchema, DrawnTable};
use crate::differential::statement::DiffStatement;
use crate::differential::types::{DrawnType, DrawnValue, draw_key_type};

/// A statement being drawn.
pub struct Draft<'a> {
    pub rng: &'a mut Rng,
    pub schema: &'a DrawnSchema,
    pub table: &'a DrawnTable,
    /// Bound values, if it will be prepared.
    pub bound: Option<Vec<BoundValue>>,
    /// Grows from statement to statement, so that later ones usually win.
    pub step: u64,
}

impl Draft<'_> {
    pub fn finish(self, cql: String) -> DiffStatement {
        DiffStatement { cql, values: self.bound, page_size: None }
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.rng.one_in(one_in)
    }

    /// Draws a value of this type.
    pub fn value(&mut self, of: &DrawnType) -> DrawnValue {
        of.draw(self.rng, &self.schema.users)
    }

    /// Draws a term for a value of this column.
    pub fn value_of(&mut self, column: &DrawnColumn) -> String {
        self.term_with(&column.of, !column.descending)
    }

    /// Draws a term for a value of this type: a literal, a marker or a call.
    pub fn term(&mut self, of: &DrawnType) -> String {
        self.term_with(of, true)
    }

    /// As [`term`](Draft::term); `computes` allows arithmetic. In Cassandra arithmetic is ambiguous
    /// in descending order, and named differently in a selection. Cassandra stores the bytes of an
    /// int as a varint, and the decimal 3 for 3.0. Its texts of floats are not always the shortest.
    pub fn term_with(&mut self, of: &DrawnType, computes: bool) -> String {
        const WHOLE: [&str; 4] = ["int", "bigint", "smallint", "tinyint"];
        let computes = computes && matches!(of, DrawnType::Native(name) if WHOLE.contains(name));
        let value = self.value(of);
        if self.bound.is_some() && value.binds && !self.chance(3) {
            let bound = match self.rng.below(120) {
                0 => BoundValue::Null,
                1 => BoundValue::Unset,
                // Firn encodes trailing nulls shorter, and true as one byte.
                2 if !of.has_odd_texts()
                    && !matches!(of, DrawnType::Tuple(_) | DrawnType::User(..))
                    && *of != DrawnType::Native("boolean") =>
                {
                    let mut odd = vec![0; self.rng.below(10) as usize];
                    self.rng.fill(&mut odd);
                    BoundValue::Bytes(odd)
                }
                _ => BoundValue::Bytes(value.bytes),
            };
            return self.bind(bound);
        }
        match self.rng.below(200) {
            0 => "null".to_owned(),
            1 if !of.has_odd_texts() => {
                let other = draw_key_type(self.rng);
                self.value(&other).literal
            }
            2 => format!("fromJson('{}')", value.json.replace('\'', "''")),
            3..8 if computes => {
                let other = self.value(of).literal;
                let sign = ["+", "-", "*"][self.rng.below(3) as usize];
                format!("{} {sign} {other}", value.literal)
            }
            8..12 if matches!(of, DrawnType::Native(_)) => {
                format!("({}){}", of.cql(&self.schema.users), value.literal)
            }
            12..16 if self.schema.functions && matches!(of, DrawnType::Native("int" | "text")) => {
                let f = if *of == DrawnType::Native("int") { "f_sign" } else { "f_twice" };
                format!("{f}({})", value.literal)
            }
            _ => value.literal,
        }
    }

    /// Binds this value and returns a marker; the statement will be prepared.
    pub fn bind(&mut self, value: BoundValue) -> String {
        self.bound.get_or_insert_default().push(value);
        "?".to_owned()
    }

    /// Returns a whole number for `LIMIT`, `TIMESTAMP` and so on.
    pub fn number(&mut self, n: i64, width: usize) -> String {
        if self.bound.is_some() && self.chance(2) {
            return self.bind(BoundValue::Bytes(n.to_be_bytes()[8 - width..].to_vec()));
        }
        n.to_string()
    }

    pub fn one<'t>(&mut self, of: &[&'t DrawnColumn]) -> Option<&'t DrawnColumn> {
        self.rng.choose(of).copied()
    }

    /// Draws a subset in the same order.
    pub fn some<'t>(&mut self, of: &[&'t DrawnColumn], one_in: u64) -> Vec<&'t DrawnColumn> {
        of.iter().filter(|_| self.rng.one_in(one_in)).copied().collect()
    }

    /// Returns the text after `USING`; with `ttl` sometimes a TTL. A TTL needs its own timestamp:
    /// of two cells that expire in the same second, or not, a different one wins.
    pub fn using(&mut self, ttl: bool) -> String {
        let mut parts = vec![];
        let ttl = ttl && self.chance(8);
        if !self.table.conditional {
            let early = if ttl { 0 } else { self.rng.below(60) };
            let at = 10_000 + self.step * 10 - early + u64::from(ttl);
            let at = self.number(at as i64, 8);
            parts.push(format!("TIMESTAMP {at}"));
        }
        if ttl {
            let long = 100_000 * (1 + self.rng.below(3)) as i64;
            let long = self.number(long, 4);
            parts.push(format!("TTL {long}"));
        }
        if self.chance(3) {
            parts.reverse();
            // Markers are numbered in the order of the text.
            if let Some(bound) = &mut self.bound
                && parts.iter().filter(|p| p.ends_with('?')).count() == 2
            {
                let len = bound.len();
                bound.swap(len - 2, len - 1);
            }
        }
        if parts.is_empty() { String::new() } else { format!(" USING {}", parts.join(" AND ")) }
    }

    /// Returns `name = term` for each column of the partition key, or `IN`.
    pub fn partition(&mut self, many: bool) -> Vec<String> {
        let mut all = vec![];
        for column in self.table.of(ColumnRole::Partition) {
            if self.chance(150) {
                continue;
            }
            all.push(match many && self.chance(8) {
                true => self.within(column),
                false => format!("{} = {}", column.name, self.value_of(column)),
            });
        }
        all
    }

    /// Returns `name IN (…)`.
    pub fn within(&mut self, column: &DrawnColumn) -> String {
        let values: Vec<_> = (0..self.rng.below(4)).map(|_| self.value_of(column)).collect();
        format!("{} IN ({})", column.name, values.join(", "))
    }

    /// Returns relations of the clustering columns for a row, or for several by `IN`.
    pub fn row(&mut self, many: bool) -> Vec<String> {
        let clustering = self.table.of(ColumnRole::Clustering);
        if !clustering.is_empty() && self.chance(12) {
            let names: Vec<_> = clustering.iter().map(|c| c.name.as_str()).collect();
            let tuples = if many && self.chance(2) { 1 + self.rng.below(3) } else { 1 };
            let tuples: Vec<_> = (0..tuples)
                .map(|_| {
                    let terms: Vec<_> = clustering.iter().map(|c| self.value_of(c)).collect();
                    format!("({})", terms.join(", "))
                })
                .collect();
            return vec![match tuples.len() {
                1 => format!("({}) = {}", names.join(", "), tuples[0]),
                _ => format!("({}) IN ({})", names.join(", "), tuples.join(", ")),
            }];
        }
        clustering
            .iter()
            .map(|column| match many && self.chance(10) {
                true => self.within(column),
                false => format!("{} = {}", column.name, self.value_of(column)),
            })
            .collect()
    }

    /// Returns a slice of rows: some clustering columns fixed, the next one bounded.
    pub fn slice(&mut self) -> Vec<String> {
        let clustering = self.table.of(ColumnRole::Clustering);
        if clustering.is_empty() {
            return vec![];
        }
        let fixed = self.rng.below(clustering.len() as u64) as usize;
        let mut all = vec![];
        for column in &clustering[..fixed] {
            all.push(match self.chance(10) {
                true => self.within(column),
                false => format!("{} = {}", column.name, self.value_of(column)),
            });
        }
        for signs in [[">", ">="], ["<", "<="]] {
            if self.chance(3) {
                continue;
            }
            let sign = signs[self.rng.below(2) as usize];
            let rest = &clustering[fixed..];
            if rest.len() > 1 && self.chance(3) {
                let rest = &rest[..1 + self.rng.below(rest.len() as u64) as usize];
                let names: Vec<_> = rest.iter().map(|c| c.name.as_str()).collect();
                let terms: Vec<_> = rest.iter().map(|c| self.value_of(c)).collect();
                all.push(format!("({}) {sign} ({})", names.join(", "), terms.join(", ")));
            } else {
                all.push(format!("{} {sign} {}", rest[0].name, self.value_of(rest[0])));
            }
        }
        all
    }
}
