//! What the tests of several files share.
#![allow(dead_code)] // not every test uses all of it

use firn_cql::Session;
use firn_wide::{Type, Wide};

/// A session that uses a keyspace, which is made where it is not there.
pub fn session_in(wide: Wide, keyspace: &str) -> Session {
    let session = Session::new(wide).unwrap();
    let make = format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    );
    session.execute(&make, ()).unwrap();
    session.execute(&format!("USE {keyspace}"), ()).unwrap();
    session
}

/// A type's name without `frozen` and without the keyspace of user types.
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

/// The definitions that were told.
#[derive(Default)]
pub struct Heard(parking_lot::Mutex<Vec<String>>);

impl Heard {
    /// Those since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl firn_cql::internals::exec::SchemaListener for Heard {
    fn changed(&self, change: &firn_cql::SchemaChange) {
        let firn_cql::SchemaChange { change, target, keyspace, name, arguments } = change;
        let name = name.as_deref().unwrap_or_default();
        let arguments = match arguments[..] {
            [] => String::new(),
            _ => format!("({})", arguments.join(", ")),
        };
        self.0.lock().push(format!("{change} {target} {keyspace} {name}{arguments}"));
    }
}
