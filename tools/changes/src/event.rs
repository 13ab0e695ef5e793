//! An event and its forms in JSON.
//!
//! Invariant: an event is one line, and its values have the JSON of `SELECT JSON`, except where
//! that loses information.

use firn_kv::ChangePosition;

/// Form of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// An object for each event, with the fields that the event has.
    #[default]
    Json,
    /// The envelope of Debezium's events: `before`, `after`, `source`, `op`, `ts_us`.
    Debezium,
}

/// Object of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// The whole store.
    Store,
    /// A tree.
    Tree(String),
    /// A table of CQL.
    Table {
        /// Name of its keyspace.
        keyspace: String,
        /// Name of the table.
        name: String,
    },
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A key or row of a snapshot.
    Read,
    /// A put of a key.
    Put,
    /// An `INSERT` of a row.
    Insert,
    /// An `UPDATE` of columns of a row, or of counters.
    Update,
    /// A delete of a key, a row or a partition.
    Delete,
    /// A delete of a range of keys, or of rows of a partition.
    DeleteRange,
    /// A merge operand of a key.
    Merge,
    /// A removal of everything in a tree or table.
    Truncate,
    /// A drop of a table.
    Drop,
    /// Data that bypassed the log: the consumer must copy the trees again.
    Load,
}

impl ChangeKind {
    /// Returns the name of the kind in events.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Read => "read",
            ChangeKind::Put => "put",
            ChangeKind::Insert => "insert",
            ChangeKind::Update => "update",
            ChangeKind::Delete => "delete",
            ChangeKind::DeleteRange => "delete_range",
            ChangeKind::Merge => "merge",
            ChangeKind::Truncate => "truncate",
            ChangeKind::Drop => "drop",
            ChangeKind::Load => "load",
        }
    }

    /// Returns the letter of the kind in the envelope of Debezium.
    fn letter(self) -> &'static str {
        match self {
            ChangeKind::Read => "r",
            ChangeKind::Put | ChangeKind::Insert => "c",
            ChangeKind::Update | ChangeKind::Merge => "u",
            ChangeKind::Delete | ChangeKind::DeleteRange => "d",
            ChangeKind::Truncate | ChangeKind::Drop => "t",
            ChangeKind::Load => "m",
        }
    }
}

/// Names with values in JSON.
pub(crate) type JsonFields = Vec<(String, String)>;

/// A change of one key or row, or of a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// Position of the change that it belongs to.
    pub position: ChangePosition,
    /// Object of the change.
    pub source: ChangeSource,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Write time in microseconds since 1970, of a change of a table.
    pub timestamp: Option<i64>,
    /// Columns of the primary key, or the key, with their values in JSON.
    pub(crate) key: JsonFields,
    /// Changed columns, or the value.
    pub(crate) columns: JsonFields,
    /// Further facts: time to live, bounds of a range.
    pub(crate) facts: JsonFields,
}

/// Name of the fact that further events belong to the change.
const MORE: &str = "more";

/// Returns a text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    put_quoted(text, &mut out);
    out
}

fn put_quoted(text: &str, out: &mut String) {
    match text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        true => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        false => out.push_str(&serde_json::Value::from(text).to_string()),
    }
}

/// Returns an object of these fields.
pub(crate) fn object(fields: &[(String, String)]) -> String {
    let len: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut out = String::with_capacity(len + 2);
    out.push('{');
    for (n, (name, value)) in fields.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        put_quoted(name, &mut out);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    out
}

impl ChangeEvent {
    /// Marks the event as one that does not complete its change or snapshot.
    pub(crate) fn mark_more(&mut self) {
        self.facts.push((MORE.to_owned(), "true".to_owned()));
    }

    /// Reports whether further events belong to the same change or snapshot. A consumer cannot
    /// resume after this one.
    pub fn has_more(&self) -> bool {
        self.facts.last().is_some_and(|(name, _)| name == MORE)
    }

    /// Returns the event in this form, without a line end.
    pub fn to_json(&self, format: EventFormat) -> String {
        match format {
            EventFormat::Json => self.line(),
            EventFormat::Debezium => self.envelope(),
        }
    }

    /// Returns the columns of the primary key, or the key, as an object of JSON.
    pub fn key_json(&self) -> String {
        object(&self.key)
    }

    /// Returns the changed columns, or the value, as an object of JSON.
    pub fn columns_json(&self) -> String {
        object(&self.columns)
    }

    fn line(&self) -> String {
        let mut fields = vec![("position".to_owned(), quoted(&self.position.to_string()))];
        fields.extend(self.source_fields());
        fields.push(("op".to_owned(), quoted(self.kind.name())));
        fields.extend(self.timestamp.map(|t| ("timestamp".to_owned(), t.to_string())));
        match self.source {
            ChangeSource::Table { .. } => {
                let objects = [("key", &self.key), ("columns", &self.columns)];
                let objects = objects.into_iter().filter(|(_, of)| !of.is_empty());
                fields.extend(objects.map(|(name, of)| (name.to_owned(), object(of))));
            }
            _ => fields.extend(self.key.iter().chain(&self.columns).cloned()),
        }
        fields.extend(self.facts.iter().cloned());
        object(&fields)
    }

    fn source_fields(&self) -> JsonFields {
        match &self.source {
            ChangeSource::Store => vec![],
            ChangeSource::Tree(name) => vec![("tree".to_owned(), quoted(name))],
            ChangeSource::Table { keyspace, name } => {
                vec![("keyspace".to_owned(), quoted(keyspace)), ("table".to_owned(), quoted(name))]
            }
        }
    }

    fn envelope(&self) -> String {
        let null = || "null".to_owned();
        let is_delete = matches!(self.kind, ChangeKind::Delete | ChangeKind::DeleteRange);
        let all: JsonFields = self.key.iter().chain(&self.columns).cloned().collect();
        let (before, after) = match self.kind {
            ChangeKind::Truncate | ChangeKind::Drop | ChangeKind::Load => (null(), null()),
            _ if is_delete => (object(&all), null()),
            _ => (null(), object(&all)),
        };
        let (db, table) = match &self.source {
            ChangeSource::Store => ("", ""),
            ChangeSource::Tree(name) => ("", &**name),
            ChangeSource::Table { keyspace, name } => (&**keyspace, &**name),
        };
        let field = |name: &str, value: String| (name.to_owned(), value);
        let mut source = vec![
            field("version", quoted(env!("CARGO_PKG_VERSION"))),
            field("connector", quoted("firn")),
            field("name", quoted(&format!("{:016x}", self.position.store))),
            field("db", quoted(db)),
            field("table", quoted(table)),
            field("position", quoted(&self.position.to_string())),
            field("snapshot", quoted(if self.kind == ChangeKind::Read { "true" } else { "false" })),
        ];
        source.extend(self.facts.iter().cloned());
        let time = |divisor: i64| self.timestamp.map_or_else(null, |t| (t / divisor).to_string());
        object(&[
            field("before", before),
            field("after", after),
            field("source", object(&source)),
            field("op", quoted(self.kind.letter())),
            field("ts_ms", time(1000)),
            field("ts_us", time(1)),
        ])
    }
}
