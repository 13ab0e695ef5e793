//! Statements that write.

use crate::differential::draft::Draft;
use crate::differential::schema::{ColumnRole, DrawnColumn};
use crate::differential::types::DrawnType;

impl Draft<'_> {
    /// Returns an INSERT, UPDATE or DELETE, with conditions if the table supports them.
    pub fn change(&mut self, conditions: bool) -> String {
        let conditions = conditions && (self.table.conditional && self.chance(2));
        match self.rng.below(10) {
            _ if self.table.counts && !self.chance(5) => self.update(false),
            0..5 => self.insert(conditions),
            5..8 => self.update(conditions),
            _ => self.delete(conditions),
        }
    }

    /// Returns several changes as one batch.
    pub fn batch(&mut self) -> String {
        let kind = match (self.table.counts, self.rng.below(4)) {
            (true, 0) => " UNLOGGED",
            (true, _) => " COUNTER",
            (false, 0) => " UNLOGGED",
            (false, _) => "",
        };
        let conditions = self.chance(3);
        let changes: Vec<_> = (0..1 + self.rng.below(4)).map(|_| self.change(conditions)).collect();
        format!("BEGIN{kind} BATCH {}; APPLY BATCH", changes.join("; "))
    }

    fn insert(&mut self, conditions: bool) -> String {
        let keys = [self.table.of(ColumnRole::Partition), self.table.of(ColumnRole::Clustering)];
        let [partition, clustering] = keys;
        let mut columns = partition;
        let statics = self.table.of(ColumnRole::Static);
        let only_static = !statics.is_empty() && self.chance(6);
        if !only_static {
            columns.extend(clustering);
        }
        if self.chance(100) {
            let out = self.rng.below(columns.len() as u64) as usize;
            columns.remove(out);
        }
        columns.extend(self.some(&statics, if only_static { 1 } else { 4 }));
        if !only_static {
            let regular = self.table.of(ColumnRole::Regular);
            // Without its value a row of a compact table is refused; Cassandra refuses it only at
            // the write.
            let all = if self.table.compact { 1 } else { 2 };
            columns.extend(self.some(&regular, all));
        }
        let condition = if conditions { " IF NOT EXISTS" } else { "" };
        // Cassandra's JSON insert writes a compact table's row with keys only without its marker.
        if !self.table.compact && self.chance(10) {
            return self.insert_json(&columns, condition);
        }
        let names: Vec<_> = columns.iter().map(|c| c.name.as_str()).collect();
        let terms: Vec<_> = columns.iter().map(|c| self.value_of(c)).collect();
        let using = self.using(true);
        let (names, terms) = (names.join(", "), terms.join(", "));
        format!("INSERT INTO {} ({names}) VALUES ({terms}){condition}{using}", self.table.name)
    }

    fn insert_json(&mut self, columns: &[&DrawnColumn], condition: &str) -> String {
        let fields: Vec<_> = columns
            .iter()
            .map(|c| {
                let json = if self.chance(60) { "null".to_owned() } else { self.value(&c.of).json };
                let name = match c.name.strip_prefix('"') {
                    Some(quoted) => format!("\"\\\"{}\\\"\"", quoted.trim_end_matches('"')),
                    None => format!("\"{}\"", c.name),
                };
                format!("{name}: {json}")
            })
            .collect();
        let json = format!("{{{}}}", fields.join(", ")).replace('\'', "''");
        let default = ["", "", " DEFAULT NULL", " DEFAULT UNSET"][self.rng.below(4) as usize];
        let using = self.using(true);
        format!("INSERT INTO {} JSON '{json}'{default}{condition}{using}", self.table.name)
    }

    fn update(&mut self, conditions: bool) -> String {
        let statics = self.table.of(ColumnRole::Static);
        let only_static = !statics.is_empty() && self.chance(5);
        let mut columns = match only_static {
            true => statics,
            false => {
                let mut all = self.table.of(ColumnRole::Regular);
                if self.chance(6) {
                    all.extend(statics);
                }
                all
            }
        };
        if columns.is_empty() {
            return self.insert(conditions);
        }
        self.rng.shuffle(&mut columns);
        let len = 1 + self.rng.below(columns.len().min(3) as u64) as usize;
        let using = self.using(true);
        let sets: Vec<_> = columns[..len].iter().map(|c| self.assignment(c)).collect();
        let mut relations = self.partition(!conditions);
        if !only_static {
            // In Cassandra each named row adds to a static list.
            let adds = |c: &&DrawnColumn| {
                c.role == ColumnRole::Static && matches!(c.of, DrawnType::List(_, false))
            };
            let many = !columns[..len].iter().any(adds);
            relations.extend(self.row(many && !conditions));
        }
        let condition = if conditions { self.condition(only_static) } else { String::new() };
        let (sets, relations) = (sets.join(", "), relations.join(" AND "));
        format!("UPDATE {}{using} SET {sets} WHERE {relations}{condition}", self.table.name)
    }

    fn assignment(&mut self, column: &DrawnColumn) -> String {
        let name = &column.name;
        let int = DrawnType::Native("int");
        match &column.of {
            DrawnType::Native("counter") => {
                let sign = if self.chance(3) { "-" } else { "+" };
                let n = self.rng.below(9) as i64;
                let n = self.number(n, 8);
                format!("{name} = {name} {sign} {n}")
            }
            of if !of.is_multicell() || self.chance(3) => format!("{name} = {}", self.term(of)),
            of @ DrawnType::List(part, _) => match self.rng.below(4) {
                0 => format!("{name} = {name} + {}", self.term(of)),
                1 => format!("{name} = {} + {name}", self.term(of)),
                2 => format!("{name} = {name} - {}", self.term(of)),
                _ => {
                    let at = self.rng.below(3) as i64;
                    format!("{name}[{}] = {}", self.number(at, 4), self.term(part))
                }
            },
            of @ DrawnType::Map(key, value, _) => match self.rng.below(4) {
                0 => format!("{name} = {name} + {}", self.term(of)),
                1 => {
                    let keys = DrawnType::Set(key.clone(), false);
                    format!("{name} = {name} - {}", self.term(&keys))
                }
                2 => format!("{name} += {}", self.term(of)),
                _ => format!("{name}[{}] = {}", self.term(key), self.term(value)),
            },
            DrawnType::User(i, _) => {
                let fields = &self.schema.users[*i].1;
                let (field, of) = self.rng.choose(fields).unwrap_or(&fields[0]);
                format!("{name}.{field} = {}", self.term(of))
            }
            of @ DrawnType::Set(..) => {
                let sign = if self.chance(2) { "+" } else { "-" };
                match self.chance(2) {
                    true => format!("{name} = {name} {sign} {}", self.term(of)),
                    false => format!("{name} {sign}= {}", self.term(of)),
                }
            }
            _ => format!("{name} = {}", self.term(&int)),
        }
    }

    fn delete(&mut self, conditions: bool) -> String {
        let regular = self.table.of(ColumnRole::Regular);
        let statics = self.table.of(ColumnRole::Static);
        let (mut parts, mut relations) = (vec![], vec![]);
        let kind = self.rng.below(if conditions { 5 } else { 10 });
        let using = self.using(false);
        let mut only_static = false;
        if kind < 3 && !(regular.is_empty() && statics.is_empty()) {
            only_static = !statics.is_empty() && (regular.is_empty() || self.chance(4));
            let from = if only_static { &statics } else { &regular };
            for _ in 0..1 + self.rng.below(2) {
                if let Some(column) = self.one(from) {
                    parts.push(self.part(column));
                }
            }
        }
        // Markers are in the order of the text: those of `parts` before that of the timestamp.
        if let Some(bound) = &mut self.bound
            && using.contains('?')
        {
            let made: usize = parts.iter().map(|p| p.matches('?').count()).sum();
            let len = bound.len();
            bound[len - made - 1..].rotate_left(1);
        }
        relations.extend(self.partition(!conditions));
        match kind {
            _ if only_static => {}
            0..5 => relations.extend(self.row(!conditions)),
            5..9 => relations.extend(self.slice()),
            _ => {}
        }
        let condition = if conditions { self.condition(only_static) } else { String::new() };
        let parts = if parts.is_empty() { String::new() } else { format!(" {}", parts.join(", ")) };
        let relations = relations.join(" AND ");
        format!("DELETE{parts} FROM {}{using} WHERE {relations}{condition}", self.table.name)
    }

    /// Returns a column, or an element of one.
    fn part(&mut self, column: &DrawnColumn) -> String {
        let name = &column.name;
        match &column.of {
            of if !of.is_multicell() || self.chance(2) => name.clone(),
            DrawnType::List(..) => {
                let at = self.rng.below(3) as i64;
                format!("{name}[{}]", self.number(at, 4))
            }
            DrawnType::Set(key, _) | DrawnType::Map(key, ..) => {
                format!("{name}[{}]", self.term(key))
            }
            DrawnType::User(i, _) => {
                let fields = &self.schema.users[*i].1;
                let field = self.rng.below(fields.len() as u64) as usize;
                format!("{name}.{}", fields[field].0)
            }
            _ => name.clone(),
        }
    }

    fn condition(&mut self, only_static: bool) -> String {
        let mut columns = self.table.of(ColumnRole::Static);
        if !only_static {
            columns.extend(self.table.of(ColumnRole::Regular));
        }
        if columns.is_empty() || self.chance(3) {
            return " IF EXISTS".to_owned();
        }
        let mut all = vec![];
        for _ in 0..1 + self.rng.below(2) {
            let Some(column) = self.one(&columns) else { break };
            let name = &column.name;
            let sign = ["=", "=", "!=", "<", "<=", ">", ">="][self.rng.below(7) as usize];
            all.push(match &column.of {
                DrawnType::List(of, false) if self.chance(3) => {
                    let at = self.rng.below(3) as i64;
                    format!("{name}[{}] {sign} {}", self.number(at, 4), self.term(of))
                }
                // Cassandra compares these values like keys.
                DrawnType::Map(key, of, _) if key == of && self.chance(3) => {
                    format!("{name}[{}] {sign} {}", self.term(key), self.term(of))
                }
                DrawnType::List(of, _) | DrawnType::Set(of, _) if self.chance(4) => {
                    format!("{name} CONTAINS {}", self.term(of))
                }
                DrawnType::User(i, _) if self.chance(2) => {
                    let fields = &self.schema.users[*i].1;
                    let field = self.rng.below(fields.len() as u64) as usize;
                    let (field, of) = &fields[field];
                    format!("{name}.{field} {sign} {}", self.term(of))
                }
                _ if self.chance(8) => self.within(column),
                of if self.chance(6) && !of.is_multicell() => format!("{name} {sign} null"),
                of => format!("{name} {sign} {}", self.term(of)),
            });
        }
        format!(" IF {}", all.join(" AND "))
    }
}
