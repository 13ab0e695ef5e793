//! Common helpers of the tests.

use std::collections::BTreeMap;

use firn_cql::{Result, ResultKind, Rows, Session};
use firn_wide::{Type, Wide};
use serde_json::{Value as Json, json};

/// Creates a session that uses a keyspace, which is created if it is missing.
pub fn session_in(wide: Wide, keyspace: &str) -> Session {
    let session = Session::new(wide).unwrap();
    let make = format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    );
    session.execute(&make, ()).unwrap();
    session.execute(&format!("USE {keyspace}"), ()).unwrap();
    session
}

/// Returns a type's name without `frozen` and without the keyspace of user types.
pub fn type_name(of: &Type) -> String {
    let all = |types: &[Type]| types.iter().map(type_name).collect::<Vec<_>>().join(", ");
    match of.unreversed() {
        Type::List(e) => format!("list<{}>", type_name(e)),
        Type::Set(e) => format!("set<{}>", type_name(e)),
        Type::Map(kv) => format!("map<{}, {}>", type_name(&kv.0), type_name(&kv.1)),
        Type::Tuple(types) => format!("tuple<{}>", all(types)),
        Type::Vector(of, count) => format!("vector<{}, {count}>", type_name(of)),
        Type::Udt(udt) => udt.name.clone(),
        simple => simple.cql_name(),
    }
}

/// Schema changes that were reported.
#[derive(Default)]
pub struct Heard(parking_lot::Mutex<Vec<String>>);

impl Heard {
    /// Returns the changes since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl firn_cql::internals::exec::SchemaListener for Heard {
    fn changed(&self, change: &firn_cql::SchemaChange) {
        let firn_cql::SchemaChange { change, target, keyspace, name, arguments, .. } = change;
        let name = name.as_deref().unwrap_or_default();
        let arguments = match arguments[..] {
            [] => String::new(),
            _ => format!("({})", arguments.join(", ")),
        };
        self.0.lock().push(format!("{change} {target} {keyspace} {name}{arguments}"));
    }
}

/// Returns the fields of our answer that the file has.
pub fn ours(answer: &Result<Vec<Rows>>) -> Json {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let pages = match answer {
        Err(e) => {
            return json!({"error": {"code": format!("0x{:04x}", e.class().code()), "message": e.text()}});
        }
        Ok(pages) => pages,
    };
    if *pages[0].kind() != ResultKind::Rows {
        return json!({"rows": null});
    }
    let columns: Vec<Json> = pages[0]
        .columns()
        .iter()
        .map(|c| json!([c.name, type_name(&c.column_type.value_type)]))
        .collect();
    let rows = pages.iter().flat_map(Rows::iter);
    let rows: Vec<Json> = rows
        .map(|row| (0..columns.len()).map(|i| json!(row.bytes(i).map(hex))).collect())
        .collect();
    let mut out = json!({"columns": columns, "rows": rows});
    if !pages[0].warnings().is_empty() {
        out["warnings"] = json!(pages[0].warnings());
    }
    out
}

/// Returns the accepted differences: our answer by statement and bound values.
pub fn differences(text: &str) -> BTreeMap<String, String> {
    let blocks = text.split("\n\n").filter(|b| !b.trim().is_empty() && !b.starts_with('#'));
    let read = |block: &str| {
        let (asked, rest) =
            block.trim().split_once("\nhere: ").unwrap_or_else(|| panic!("{block}"));
        let (answer, why) = rest.split_once("\nwhy: ").unwrap_or_else(|| panic!("{block}"));
        assert!(why.trim().len() > 10, "{block}");
        (asked.to_owned(), answer.to_owned())
    };
    blocks.map(read).collect()
}
