//! A statement of a history, and its JSON line in a file, so that a history can be stored, edited
//! and replayed.

use firn_cql::BoundValue;
use serde_json::{Value as Json, json};

use crate::differential::functions::spoken_there;

#[derive(Clone, Debug, PartialEq)]
pub struct DiffStatement {
    pub cql: String,
    /// Bound values, if it is prepared.
    pub values: Option<Vec<BoundValue>>,
    pub page_size: Option<usize>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

impl DiffStatement {
    pub fn plain(cql: impl Into<String>) -> DiffStatement {
        DiffStatement { cql: cql.into(), values: None, page_size: None }
    }

    /// Returns the statement with functions in the other language.
    pub fn in_java(&self) -> DiffStatement {
        DiffStatement { cql: spoken_there(&self.cql).into_owned(), ..self.clone() }
    }

    /// Reports whether it only reads.
    pub fn asks(&self) -> bool {
        self.cql.starts_with("SELECT")
    }

    /// Returns the name of the index that it creates.
    pub fn index(&self) -> Option<&str> {
        let what = self.cql.strip_prefix("CREATE ")?;
        what.strip_prefix("CUSTOM ").unwrap_or(what).strip_prefix("INDEX ")?.split(' ').next()
    }

    pub fn line(&self) -> String {
        let value = |bound: &BoundValue| match bound {
            BoundValue::Bytes(bytes) => json!(hex(bytes)),
            BoundValue::Null => Json::Null,
            BoundValue::Unset => json!({"unset": true}),
        };
        let values = self.values.as_ref().map(|all| all.iter().map(value).collect::<Vec<_>>());
        let mut line = json!({"cql": self.cql});
        if let Some(values) = values {
            line["values"] = json!(values);
        }
        if let Some(size) = self.page_size {
            line["page"] = json!(size);
        }
        line.to_string()
    }

    /// Reads a line; `None` if it is not a statement.
    pub fn read(line: &str) -> Option<DiffStatement> {
        let line: Json = serde_json::from_str(line).ok()?;
        let value = |value: &Json| match value {
            Json::Null => Some(BoundValue::Null),
            Json::String(text) => Some(BoundValue::Bytes(bytes(text)?)),
            Json::Object(_) => Some(BoundValue::Unset),
            _ => None,
        };
        let values = match line.get("values") {
            None => None,
            Some(values) => Some(values.as_array()?.iter().map(value).collect::<Option<_>>()?),
        };
        let page_size = line.get("page").and_then(Json::as_u64).map(|n| n as usize);
        Some(DiffStatement { cql: line["cql"].as_str()?.to_owned(), values, page_size })
    }
}
