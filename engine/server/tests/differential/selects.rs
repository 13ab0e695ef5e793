//! Statements that read.

use crate::differential::draft::Draft;
use crate::differential::functions::{aggregate_of, function_of};
use crate::differential::schema::{ColumnRole, DrawnClass, DrawnColumn};
use crate::differential::types::DrawnType;

impl Draft<'_> {
    pub fn select(&mut self) -> String {
        let table = self.table;
        let is_near = |c: &&DrawnColumn| {
            matches!(c.of, DrawnType::Vector(_)) && (c.indexed.is_some() || self.rng.one_in(30))
        };
        if let Some(column) = table.columns.iter().find(is_near)
            && self.chance(5)
        {
            return self.select_nearest(column);
        }
        let all: Vec<&DrawnColumn> = table.columns.iter().collect();
        let partition: Vec<_> =
            table.of(ColumnRole::Partition).iter().map(|c| c.name.clone()).collect();
        let sorted = table.of(ColumnRole::Clustering);
        let clustering: Vec<_> = sorted.iter().map(|c| c.name.clone()).collect();
        let mut grouped = vec![];
        let mut aggregates = self.chance(8);
        if self.chance(10) {
            let keys = [&partition[..], &clustering[..]].concat();
            let len = 1 + self.rng.below(keys.len() as u64) as usize;
            grouped = keys[..len.max(partition.len()).min(keys.len())].to_vec();
            aggregates = !self.chance(3);
        }
        let mut head = String::new();
        if self.chance(15) {
            head.push_str(" JSON");
        }
        let distinct = grouped.is_empty() && !aggregates && self.chance(15);
        if distinct {
            head.push_str(" DISTINCT");
            let mut names = partition.clone();
            let statics = table.of(ColumnRole::Static);
            names.extend(self.some(&statics, 2).iter().map(|c| c.name.clone()));
            head.push_str(&format!(" {}", names.join(", ")));
        } else if !aggregates && self.chance(3) {
            head.push_str(" *");
        } else {
            let len = 1 + self.rng.below(4);
            let mut selected = vec![];
            for _ in 0..len {
                let Some(column) = self.one(&all) else { break };
                let selector = match aggregates && !self.chance(3) {
                    true => self.aggregate(column),
                    false => self.selector(column),
                };
                // Columns that depend on the clock are recognized by name.
                let timed = selector.contains("ttl(") || selector.contains("writetime(");
                let selector = match timed && head.contains("JSON") {
                    true => column.name.clone(),
                    false => selector,
                };
                // Cassandra does not double a quote in a column name, and field order varies.
                let is_odd = selector.contains("it''s") || selector.contains("{f");
                let selector = if is_odd && timed { column.name.clone() } else { selector };
                selected.push(match is_odd || !timed && self.chance(20) {
                    true => format!("{selector} AS \"As {}\"", selected.len()),
                    false => selector,
                });
            }
            head.push_str(&format!(" {}", selected.join(", ")));
        }
        let (relations, one_partition) = self.relations();
        let mut text = format!("SELECT{head} FROM {}", table.name);
        if !relations.is_empty() {
            text.push_str(&format!(" WHERE {}", relations.join(" AND ")));
        }
        if !grouped.is_empty() {
            text.push_str(&format!(" GROUP BY {}", grouped.join(", ")));
        }
        if !clustering.is_empty() && self.chance(if one_partition { 3 } else { 40 }) {
            text.push_str(&self.order(&sorted));
        }
        if self.chance(8) {
            let n = 1 + self.rng.below(4) as i64;
            text.push_str(&format!(" PER PARTITION LIMIT {}", self.number(n, 4)));
        }
        if self.chance(6) {
            let n = if self.chance(40) { 0 } else { 1 + self.rng.below(8) as i64 };
            text.push_str(&format!(" LIMIT {}", self.number(n, 4)));
        }
        if !self.chance(8) {
            text.push_str(" ALLOW FILTERING");
        }
        text
    }

    /// Returns an ANN query on a vector column.
    fn select_nearest(&mut self, column: &DrawnColumn) -> String {
        let conditions = match self.chance(4) {
            true => format!(" WHERE {}", self.relations().0.join(" AND ")),
            false => String::new(),
        };
        let conditions = if conditions == " WHERE " { String::new() } else { conditions };
        let near = self.value(&column.of).literal;
        let limit = 1 + self.rng.below(5);
        let filtering = if self.chance(4) { " ALLOW FILTERING" } else { "" };
        format!(
            "SELECT * FROM {}{conditions} ORDER BY {} ANN OF {near} LIMIT {limit}{filtering}",
            self.table.name, column.name
        )
    }

    fn order(&mut self, clustering: &[&DrawnColumn]) -> String {
        let up = self.chance(2);
        let len = 1 + self.rng.below(clustering.len() as u64) as usize;
        let orders: Vec<_> = clustering[..len]
            .iter()
            .map(|column| {
                let odd = self.rng.one_in(40);
                let way = if (column.descending == up) != odd { "ASC" } else { "DESC" };
                format!("{} {way}", column.name)
            })
            .collect();
        format!(" ORDER BY {}", orders.join(", "))
    }

    fn aggregate(&mut self, column: &DrawnColumn) -> String {
        let name = &column.name;
        if let DrawnType::Native(of) = column.of
            && self.schema.functions
            && self.chance(3)
            && let Some(f) = aggregate_of(self.rng, of)
        {
            return format!("{f}({name})");
        }
        match self.rng.below(8) {
            0 | 1 => "count(*)".to_owned(),
            2 => format!("count({name})"),
            3 => format!("min({name})"),
            4 => format!("max({name})"),
            _ if column.of.is_number() && self.chance(2) => format!("sum({name})"),
            _ if column.of.is_number() => format!("avg({name})"),
            _ => format!("max({name})"),
        }
    }

    fn selector(&mut self, column: &DrawnColumn) -> String {
        let name = &column.name;
        let keys: Vec<_> =
            self.table.of(ColumnRole::Partition).iter().map(|c| c.name.clone()).collect();
        if let DrawnType::Native(of) = column.of
            && self.schema.functions
            && self.chance(6)
            && let Some(f) = function_of(self.rng, of)
        {
            return format!("{f}({name})");
        }
        match (self.rng.below(24), &column.of) {
            // Cassandra has other functions for these, or none.
            (5..10, _) if column.descending => name.clone(),
            (0..3, of) => {
                let f = ["writetime", "ttl", "maxwritetime"][self.rng.below(3) as usize];
                match of {
                    DrawnType::Map(key, ..) | DrawnType::Set(key, _)
                        if matches!(**key, DrawnType::Native(_)) && self.chance(3) =>
                    {
                        let key = self.value(key).literal;
                        let to = if self.chance(2) { ".." } else { "" };
                        format!("{f}({name}[{key}{to}])")
                    }
                    DrawnType::User(i, _) if self.chance(3) => {
                        let fields = &self.schema.users[*i].1;
                        let field = self.rng.below(fields.len() as u64) as usize;
                        format!("{f}({name}.{})", fields[field].0)
                    }
                    _ => format!("{f}({name})"),
                }
            }
            (3, _) => format!("toJson({name})"),
            (4, _) => format!("token({})", keys.join(", ")),
            (5, DrawnType::Native(_)) => {
                let to = ["text", "int", "bigint", "double", "varint", "decimal", "ascii", "date"];
                format!("CAST({name} AS {})", to[self.rng.below(8) as usize])
            }
            (6, DrawnType::Native(of)) if *of != "counter" && *of != "blob" => {
                let of = if *of == "text" { "varchar" } else { of };
                format!("{of}AsBlob({name})")
            }
            (7 | 8, of) if of.is_number() => {
                let sign = ["+", "-", "*", "/", "%"][self.rng.below(5) as usize];
                format!("{name} {sign} {}", 1 + self.rng.below(3))
            }
            (7, of) if of.is_number() => format!("-{name}"),
            (7..10, DrawnType::Vector(_)) => {
                let f = ["cosine", "euclidean", "dot_product"][self.rng.below(3) as usize];
                format!("similarity_{f}({name}, {})", self.value(&column.of).literal)
            }
            (9, DrawnType::Native("timestamp")) => format!("toDate({name})"),
            (9, DrawnType::Native("date")) => format!("toTimestamp({name})"),
            (9, DrawnType::Native("timeuuid")) => format!("toUnixTimestamp({name})"),
            (9, of) if of.is_number() => {
                // Firn does not compute the others for arbitrary-precision numbers.
                let long = matches!(of, DrawnType::Native("varint" | "decimal"));
                let all = ["abs", "round", "exp", "log", "log10"];
                let f = all[self.rng.below(if long { 2 } else { 5 }) as usize];
                format!("{f}({name})")
            }
            (9, of) if of.is_collection() => {
                let f = ["collection_count", "collection_min", "collection_max"];
                format!("{}({name})", f[self.rng.below(3) as usize])
            }
            (9, DrawnType::Map(..)) => format!("map_keys({name})"),
            (10..14, DrawnType::Map(key, ..)) => match self.chance(3) {
                true => format!(
                    "{name}[{}..{}]",
                    self.term_with(key, false),
                    self.term_with(key, false)
                ),
                false => format!("{name}[{}]", self.term_with(key, false)),
            },
            (10..14, DrawnType::Set(key, _)) => match self.chance(3) {
                true => format!("{name}[{}..]", self.term_with(key, false)),
                false => format!("{name}[{}]", self.term_with(key, false)),
            },
            (10..16, DrawnType::User(i, _)) => {
                let fields = &self.schema.users[*i].1;
                let field = self.rng.below(fields.len() as u64) as usize;
                format!("{name}.{}", fields[field].0)
            }
            (14, _) => format!("({name}, (int)1)"),
            (15, _) if self.chance(10) => "nowhere".to_owned(),
            _ => name.clone(),
        }
    }

    /// Draws the relations, and whether all rows are of one partition.
    fn relations(&mut self) -> (Vec<String>, bool) {
        let mut all = vec![];
        let mut one = false;
        match self.rng.below(10) {
            0..6 => {
                all = self.partition(true);
                one = !all.iter().any(|r| r.contains(" IN "));
                match self.rng.below(4) {
                    0 => all.extend(self.row(true)),
                    1 | 2 => all.extend(self.slice()),
                    _ => {}
                }
            }
            6 => {
                let keys: Vec<_> =
                    self.table.of(ColumnRole::Partition).iter().map(|c| &*c.name).collect();
                let names = keys.join(", ");
                let sign = [">", ">=", "<", "<=", "="][self.rng.below(5) as usize];
                let of: Vec<_> = self.table.of(ColumnRole::Partition);
                let terms: Vec<_> = of.iter().map(|c| self.term(&c.of)).collect();
                all.push(match self.chance(3) {
                    true => format!("token({names}) {sign} token({})", terms.join(", ")),
                    false => {
                        let token = (self.rng.next_u64() as i64) >> self.rng.below(30);
                        // Bound values of unused terms are removed.
                        let unused = terms.iter().filter(|t| *t == "?").count();
                        let inner: usize = terms.iter().map(|t| t.matches('?').count()).sum();
                        if let Some(bound) = &mut self.bound {
                            bound.truncate(bound.len() - unused.max(inner));
                        }
                        format!("token({names}) {sign} {}", self.number(token, 8))
                    }
                });
            }
            7 => {}
            _ => all.extend(self.slice()),
        }
        if self.chance(3) {
            let others: Vec<&DrawnColumn> = self
                .table
                .columns
                .iter()
                .filter(|c| c.role != ColumnRole::Partition || c.indexed.is_some())
                .collect();
            let indexed: Vec<_> = others.iter().filter(|c| c.indexed.is_some()).copied().collect();
            for _ in 0..1 + self.rng.below(2) {
                let from = if indexed.is_empty() || self.chance(3) { &others } else { &indexed };
                if let Some(column) = self.one(from) {
                    all.push(self.filter(column));
                }
            }
        }
        (all, one)
    }

    /// Returns `name IN (…)` of literals: Cassandra finds nothing after a null.
    fn among(&mut self, column: &DrawnColumn) -> String {
        let values = (0..self.rng.below(4)).map(|_| self.value(&column.of).literal);
        let values: Vec<_> = values.collect();
        format!("{} IN ({})", column.name, values.join(", "))
    }

    fn filter(&mut self, column: &DrawnColumn) -> String {
        let name = &column.name;
        let sign = ["=", "=", "=", "<", "<=", ">", ">="][self.rng.below(7) as usize];
        match &column.of {
            // Cassandra does not treat these as collections.
            _ if column.descending => format!("{name} {sign} {}", self.value_of(column)),
            DrawnType::List(of, _) | DrawnType::Set(of, _) if !self.chance(4) => {
                format!("{name} CONTAINS {}", self.term(of))
            }
            DrawnType::Map(key, of, _) if !self.chance(4) => match self.rng.below(3) {
                0 => format!("{name} CONTAINS {}", self.term(of)),
                1 => format!("{name} CONTAINS KEY {}", self.term(key)),
                _ => format!("{name}[{}] = {}", self.term(key), self.term(of)),
            },
            of => {
                let class = column.indexed.as_ref().map(|index| index.class);
                match (class, of) {
                    (Some(DrawnClass::Sasi(_)), DrawnType::Native("text" | "ascii"))
                        if self.chance(2) =>
                    {
                        let all = ["a%", "%b", "%a%", "A%", "ab", "%", "it''s%", "% %", "1%"];
                        let at = self.rng.below(all.len() as u64) as usize;
                        return format!("{name} LIKE '{}'", all[at]);
                    }
                    // Both ends of an index range.
                    (Some(DrawnClass::Sasi(_) | DrawnClass::StorageAttached(_)), _)
                        if self.chance(3) =>
                    {
                        let (from, until) = (self.value_of(column), self.value_of(column));
                        return format!("{name} >= {from} AND {name} < {until}");
                    }
                    (None, DrawnType::Native("text")) if self.chance(60) => {
                        return format!("{name} LIKE 'a%'");
                    }
                    _ => {}
                }
                match self.chance(12) {
                    true => self.among(column),
                    false => format!("{name} {sign} {}", self.value_of(column)),
                }
            }
        }
    }
}
