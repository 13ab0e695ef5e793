//! The sides of a comparison: a session, Firn's server or Cassandra, with answers in one form.

use std::thread;
use std::time::Duration;

use firn_cql::{ColumnSpec, Error, ResultKind, Rows, RunOptions, Session};
use firn_server::client::{ClientError, ClientOptions, ClientRun, CqlClient};

use crate::differential::statement::DiffStatement;

/// A name and a type.
pub type SpecText = (String, String);
/// Values of a row.
pub type RowBytes = Vec<Option<Vec<u8>>>;

#[derive(Clone, Debug, PartialEq)]
pub enum DiffAnswer {
    Void,
    Rows { columns: Vec<SpecText>, pages: Vec<Vec<RowBytes>> },
    Refused { class: String, text: String },
}

/// The answer to a statement and to its preparation.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub markers: Option<Vec<SpecText>>,
    pub answer: DiffAnswer,
}

impl Answered {
    /// Reports whether the server has evicted a statement right after preparing it, as happens with
    /// many statements.
    fn is_forgotten(&self) -> bool {
        matches!(&self.answer, DiffAnswer::Refused { class, .. } if class == "Unprepared")
    }
}

/// A side of a comparison.
pub enum Side {
    Session(Session),
    /// With its address.
    Client(Box<CqlClient>, String),
}

/// Maximum number of repeated preparations.
const AGAIN: usize = 5;

/// More pages would be a fault by themselves.
const MAX_PAGES: usize = 10_000;

/// Cassandra's type for `min` and `max` of timeuuids, in which values are read.
const OLD_TIMEUUID: &str = "Custom(Custom(\"org.apache.cassandra.db.marshal.LegacyTimeUUIDType\"))";

fn specs(of: &[ColumnSpec]) -> Vec<SpecText> {
    let text = |of: &ColumnSpec| {
        format!("{:?}", of.column_type.value_type).replace(OLD_TIMEUUID, "TimeUuid")
    };
    of.iter().map(|spec| (spec.name.clone(), text(spec))).collect()
}

fn rows_of(rows: &Rows) -> Vec<RowBytes> {
    let width = rows.columns().len();
    rows.iter().map(|row| (0..width).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect()).collect()
}

fn refused_there(error: ClientError) -> DiffAnswer {
    DiffAnswer::Refused { class: error.class().to_owned(), text: error.to_string() }
}

fn refused_here(error: &Error) -> DiffAnswer {
    let mut text = error.text().into_owned();
    if let Some(help) = error.help() {
        text = format!("{text}; {help}");
    }
    DiffAnswer::Refused { class: error.class().name().to_owned(), text }
}

/// Reads page after page.
fn pages(
    mut ask: impl FnMut(Option<firn_cql::PagingState>) -> Result<Rows, DiffAnswer>,
) -> DiffAnswer {
    let (mut pages, mut paging, mut columns) = (vec![], None, None);
    loop {
        let rows = match ask(paging) {
            Ok(rows) => rows,
            Err(refused) => return refused,
        };
        if !matches!(rows.kind(), ResultKind::Rows) {
            return DiffAnswer::Void;
        }
        columns.get_or_insert_with(|| specs(rows.columns()));
        pages.push(rows_of(&rows));
        paging = rows.paging().cloned();
        if paging.is_none() || pages.len() > MAX_PAGES {
            return DiffAnswer::Rows { columns: columns.unwrap_or_default(), pages };
        }
    }
}

impl Side {
    pub fn connect(address: &str) -> Side {
        let mut options = ClientOptions::new(address);
        options.connect_timeout = Duration::from_secs(60);
        options.request_timeout = Some(Duration::from_secs(600));
        let client = CqlClient::connect(&options);
        let client = client.unwrap_or_else(|e| panic!("{address}: {e}"));
        Side::Client(Box::new(client), address.to_owned())
    }

    pub fn answer(&mut self, statement: &DiffStatement) -> Answered {
        match self {
            Side::Session(session) => answer_here(session, statement),
            Side::Client(client, address) => {
                let mut answered = answer_there(client, statement);
                for _ in 0..AGAIN {
                    if !answered.is_forgotten() {
                        break;
                    }
                    answered = answer_there(client, statement);
                }
                if !client.is_open() {
                    let keyspace = client.keyspace().map(str::to_owned);
                    *self = Side::connect(&address.clone());
                    if let Some(keyspace) = keyspace {
                        self.must(&format!("USE {keyspace}"));
                    }
                }
                answered
            }
        }
    }

    /// Runs a statement that must succeed.
    pub fn must(&mut self, cql: &str) {
        let answered = self.answer(&DiffStatement::plain(cql));
        assert!(!matches!(answered.answer, DiffAnswer::Refused { .. }), "{cql}: {answered:?}");
    }

    /// Waits until an index is usable: Cassandra builds it after the definition.
    pub fn await_index(&mut self, keyspace: &str, index: &str) {
        let Side::Client(client, _) = self else { return };
        let cql = format!(
            "SELECT index_name FROM system.\"IndexInfo\" \
             WHERE table_name = '{keyspace}' AND index_name = '{index}'"
        );
        for _ in 0..10_000 {
            match client.query(&cql, &ClientRun::default()) {
                Ok(answer) if answer.rows.is_empty() => thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
    }
}

fn answer_there(client: &mut CqlClient, statement: &DiffStatement) -> Answered {
    let run = |paging| ClientRun { page_size: statement.page_size, paging, ..ClientRun::default() };
    let Some(values) = &statement.values else {
        let answer = pages(|paging| {
            client.query(&statement.cql, &run(paging)).map(|a| a.rows).map_err(refused_there)
        });
        return Answered { markers: None, answer };
    };
    let mut prepared = match client.prepare(&statement.cql) {
        Ok(prepared) => prepared,
        Err(e) => return Answered { markers: None, answer: refused_there(e) },
    };
    let markers = Some(specs(prepared.markers()));
    let answer = pages(|paging| {
        let answer = client.execute(&mut prepared, values, &run(paging));
        answer.map(|a| a.rows).map_err(refused_there)
    });
    Answered { markers, answer }
}

fn answer_here(session: &Session, statement: &DiffStatement) -> Answered {
    let run =
        |paging| RunOptions { page_size: statement.page_size, paging, ..RunOptions::default() };
    let Some(values) = &statement.values else {
        let answer = pages(|paging| {
            session.execute_with(&statement.cql, (), &run(paging)).map_err(|e| refused_here(&e))
        });
        return Answered { markers: None, answer };
    };
    let prepared = match session.prepare(&statement.cql) {
        Ok(prepared) => prepared,
        Err(e) => return Answered { markers: None, answer: refused_here(&e) },
    };
    let markers = Some(specs(prepared.markers()));
    let answer =
        pages(|paging| session.run(&prepared, values, &run(paging)).map_err(|e| refused_here(&e)));
    Answered { markers, answer }
}
