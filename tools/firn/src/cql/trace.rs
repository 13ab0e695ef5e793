//! Reads traces of statements from a server.

use std::sync::Arc;

use firn_cql::internals::catalog::ColumnType;
use firn_cql::{ColumnSpec, Row, Rows};
use firn_wide::{Type, uuids};

use super::backend::{PageRequest, ShellBackend, ShellResult};

/// Returns a trace's id in the notation of CQL.
pub fn name(id: [u8; 16]) -> String {
    Type::Uuid.to_text(&id, firn_wide::Wording::Cql)
}

/// Returns the events of a trace, between its begin and its end, in the columns that cqlsh shows.
/// `None` if the server has not written the end yet.
///
/// # Errors
/// As for the statements that read it.
pub fn read<B: ShellBackend>(backend: &mut B, id: [u8; 16]) -> ShellResult<Option<Rows>> {
    let (name, whole) = (name(id), PageRequest::default());
    let session = backend.execute(
        &format!("SELECT request, started_at, coordinator, client, duration FROM system_traces.sessions WHERE session_id = {name}"),
        &whole,
    )?;
    let Some(session) = session.row(0).filter(|row| row.bytes(4).is_some()) else {
        return Ok(None);
    };
    let events = backend.execute(
        &format!("SELECT activity, event_id, source, source_elapsed, thread FROM system_traces.events WHERE session_id = {name}"),
        &whole,
    )?;
    let columns = [
        ("activity", Type::Utf8),
        ("timestamp", Type::Timestamp),
        ("source", Type::Inet),
        ("source_elapsed", Type::Int32),
        ("client", Type::Inet),
    ];
    let column = |(name, of): (&str, Type)| {
        let (keyspace, table) = ("system_traces".to_owned(), "events".to_owned());
        ColumnSpec::from_parts(keyspace, table, name.to_owned(), ColumnType::frozen(of))
    };
    let columns: Arc<[ColumnSpec]> = columns.into_iter().map(column).collect();
    let owned = |row: Row<'_>, at: usize| row.bytes(at).map(<[u8]>::to_vec);
    let millis = session.bytes(1).and_then(|b| b.try_into().ok());
    let started = millis.map_or(0, i64::from_be_bytes);
    let took: i32 = session.at::<i32>(4)?;
    let (coordinator, client) = (owned(session, 2), owned(session, 3));
    let mut cells = vec![];
    let mut add =
        |activity: Option<Vec<u8>>, millis: i64, source: Option<Vec<u8>>, elapsed: i32| {
            let [at, elapsed] = [millis.to_be_bytes().to_vec(), elapsed.to_be_bytes().to_vec()];
            cells.extend([activity, Some(at), source, Some(elapsed), client.clone()]);
        };
    add(owned(session, 0), started, coordinator.clone(), 0);
    for event in events.iter() {
        let at = event.bytes(1).and_then(|id| uuids::micros_of(id.try_into().ok()?));
        let elapsed = event.at::<i32>(3).unwrap_or_default();
        let text = |at: usize| String::from_utf8_lossy(event.bytes(at).unwrap_or_default());
        let activity = format!("{} [{}]", text(0), text(4)).into_bytes();
        add(Some(activity), at.unwrap_or_default() / 1000, owned(event, 2), elapsed);
    }
    add(Some(b"Request complete".to_vec()), started + i64::from(took) / 1000, coordinator, took);
    Ok(Some(Rows::from_cells(columns, cells.iter().map(Option::as_deref))))
}
