//! QUERY, PREPARE, EXECUTE and BATCH: read, compiled and bound by the thread of the connection, run
//! by it or by a worker.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_cql::internals::values::literal;
use firn_cql::{
    BatchKind, BoundValue, ChangeKind, Error, PagingState, Prepared, ResultKind, Rows, RunOptions,
};
use firn_wide::internals::types::hex;
use tracing::field::Empty;
use tracing::{Level, Span, info_span, span_enabled};
use uuid::Uuid;

use super::client::{Client, NegotiatedProtocol};
use crate::node::{
    FlightShare, Node, RequestKind, RequestTrace, ServerStatement, TableUse, TableUses,
};
use crate::wire::{
    BatchRequest, ErrorCode, ExecuteRequest, Opcode, PrepareRequest, QueryParameters, QueryRequest,
    ResponseBody, RowsFlags, Version, WireConsistency, WireError, WireRequest, WireValue,
};

/// Maximum changes of a batch that the thread of a connection executes itself.
const MAX_QUICK_CHANGES: usize = 16;

/// Maximum characters of a bound value in a trace.
const MAX_SHOWN_CHARS: usize = 1000;

/// Target of the spans of statements.
const SPAN_TARGET: &str = "firn_server::statement";

/// A request with its client.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    pub node: &'a Arc<Node>,
    pub client: &'a Arc<Client>,
    pub negotiated: NegotiatedProtocol,
    pub stream: i16,
    /// Length of the request.
    pub bytes: usize,
    /// Arrival time of its last bytes.
    pub arrived: u64,
}

/// An error of a request.
enum RequestFailure {
    Wire(WireError),
    Statement(Error),
    /// The prepared statement with this id is unknown.
    Unprepared(Vec<u8>),
}

impl From<Error> for RequestFailure {
    fn from(e: Error) -> RequestFailure {
        RequestFailure::Statement(e)
    }
}

impl From<WireError> for RequestFailure {
    fn from(e: WireError) -> RequestFailure {
        RequestFailure::Wire(e)
    }
}

type Result<T> = std::result::Result<T, RequestFailure>;

/// A statement or batch to run.
enum RequestWork {
    One {
        prepared: Prepared,
        /// The prepared statement of the server, if it was an EXECUTE.
        known: Option<Arc<ServerStatement>>,
        bound: Vec<BoundValue>,
        run: RunOptions,
        skip_metadata: bool,
        /// Id of the column metadata that the client has cached.
        metadata_id: Option<Vec<u8>>,
        uses: TableUses,
    },
    Batch {
        kind: BatchKind,
        members: Vec<(Prepared, Vec<BoundValue>)>,
        run: RunOptions,
        uses: Vec<TableUse>,
        /// Bytes of plans that were compiled for this batch.
        plan_bytes: usize,
    },
}

impl RequestWork {
    /// Returns the bytes of plans that were compiled for this request alone.
    fn plan_bytes(&self) -> usize {
        match self {
            RequestWork::One { known: Some(_), .. } => 0,
            RequestWork::One { prepared, .. } => prepared.heap_bytes(),
            RequestWork::Batch { plan_bytes, .. } => *plan_bytes,
        }
    }
}

/// A request that is ready to run on any thread.
struct Job {
    node: Arc<Node>,
    client: Arc<Client>,
    negotiated: NegotiatedProtocol,
    stream: i16,
    trace: Option<RequestTrace>,
    kind: RequestKind,
    consistency: Option<WireConsistency>,
    arrived: u64,
    work: RequestWork,
}

/// Returns the bytes of a request's texts that must be compiled.
fn text_bytes(request: &WireRequest<'_>) -> usize {
    match request {
        WireRequest::Query(request) => request.text.len(),
        WireRequest::Prepare(request) => request.text.len(),
        WireRequest::Batch(request) => {
            request.members.iter().filter_map(|m| m.statement.ok()).map(str::len).sum()
        }
        _ => 0,
    }
}

/// Returns the consistency level of a request that runs statements.
fn consistency_of(request: &WireRequest<'_>) -> Option<WireConsistency> {
    match request {
        WireRequest::Query(request) => Some(request.parameters.consistency),
        WireRequest::Execute(request) => Some(request.parameters.consistency),
        WireRequest::Batch(request) => Some(request.parameters.consistency),
        _ => None,
    }
}

/// Executes a request or passes it to a worker. Its response is put into the outbox.
pub fn take(exchange: &Exchange<'_>, request: WireRequest<'_>, traced: bool) {
    let Exchange { node, client, .. } = exchange;
    let kind = RequestKind::of(request.opcode());
    let name = match kind {
        RequestKind::Prepare => "Preparing CQL3 query",
        RequestKind::Execute => "Execute CQL3 prepared query",
        RequestKind::Batch => "Execute batch of CQL3 queries",
        _ => "Execute CQL3 query",
    };
    let answered = || client.meter.answered(kind, node.nanos_since(exchange.arrived));
    let mut trace =
        traced.then(|| RequestTrace::begin(&node.env, None, name, client.peer, client.local));
    let consistency = consistency_of(&request);
    let compiling = node.compile_share(text_bytes(&request));
    let made = match request {
        WireRequest::Query(request) => exchange.query(&request, trace.as_mut()),
        WireRequest::Execute(request) => exchange.execute(&request, trace.as_mut()),
        WireRequest::Batch(request) => exchange.batch(&request, trace.as_mut()),
        WireRequest::Prepare(request) => {
            let done = exchange.prepare(&request, trace.as_mut());
            let session = trace.map(|t| finish(node, t));
            match done {
                Ok((known, warnings)) => {
                    let about = (&*warnings, session);
                    client.answer(exchange.stream, Opcode::Result, about, |body| {
                        body.prepared(&known.prepared)
                    })
                }
                Err(refusal) => refuse(client, exchange.stream, refusal, session),
            }
            return answered();
        }
        _ => return,
    };
    let (work, is_quick) = match made {
        Ok(made) => made,
        Err(refusal) => {
            let session = trace.map(|t| finish(node, t));
            refuse(client, exchange.stream, refusal, session);
            return answered();
        }
    };
    let job = Job {
        node: (*node).clone(),
        client: (*client).clone(),
        negotiated: exchange.negotiated,
        stream: exchange.stream,
        trace,
        kind,
        consistency,
        arrived: exchange.arrived,
        work,
    };
    if is_quick {
        return job.run();
    }
    let Some(share) = exchange.share(&job.work) else {
        let text = "Too many bytes of requests are in flight; try again later";
        client.refuse(exchange.stream, &WireError::new(ErrorCode::Overloaded, text));
        return answered();
    };
    // From here the plan itself counts as in flight.
    drop(compiling);
    // Waits for the limit of this client; meanwhile its pending responses are sent.
    let turn = client.waiting.take(1);
    node.workers.push(move || {
        let client = job.client.clone();
        let (node, began) = (&job.node, job.node.env.monotonic_nanos());
        let running = node.running.enter(&job.text(), job.arrived, began);
        job.run();
        drop(running);
        client.send_at_once();
        drop((share, turn));
    });
}

fn finish(node: &Node, mut trace: RequestTrace) -> Uuid {
    let session = trace.session();
    trace.event("Request complete");
    trace.finish(&node.traces);
    session
}

fn refuse(client: &Client, stream: i16, refusal: RequestFailure, trace: Option<Uuid>) {
    match refusal {
        RequestFailure::Wire(error) => client.refuse(stream, &error),
        RequestFailure::Statement(error) => client.fail(stream, &error, trace),
        RequestFailure::Unprepared(id) => client.unprepared(stream, &id, trace),
    }
}

fn bound_of(value: WireValue<'_>) -> BoundValue {
    match value {
        WireValue::Bytes(bytes) => BoundValue::Bytes(bytes.to_vec()),
        WireValue::Null => BoundValue::Null,
        WireValue::Unset => BoundValue::Unset,
    }
}

/// Returns the bound values in the order of the markers.
fn bind(values: &[(Option<&str>, WireValue<'_>)], prepared: &Prepared) -> Vec<BoundValue> {
    if values.iter().all(|(name, _)| name.is_none()) {
        return values.iter().map(|(_, value)| bound_of(*value)).collect();
    }
    let named = |name: &str| values.iter().find(|(n, _)| *n == Some(name));
    prepared.markers().iter().filter_map(|m| named(&m.name)).map(|(_, v)| bound_of(*v)).collect()
}

/// Reports whether a statement is USE, which changes the keyspace of later requests.
fn is_use(text: &str) -> bool {
    let word = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
    word.is_some_and(|word| word.eq_ignore_ascii_case("use"))
}

/// Returns Cassandra's warning that a prepared statement depends on the current keyspace.
fn warning_of_use(keyspace: &str, id: &[u8; 16]) -> String {
    let id = hex(id);
    format!(
        "`USE <keyspace>` with prepared statements is considered to be an anti-pattern due to ambiguity in non-qualified table names. \
         Please consider removing instances of `Session#setKeyspace(<keyspace>)`, `Session#execute(\"USE <keyspace>\")` and \
         `cluster.newSession(<keyspace>)` from your code, and always use fully qualified table names (e.g. <keyspace>.<table>). \
         Keyspace used: {keyspace}, statement keyspace: {keyspace}, statement id: {id}"
    )
}

impl Exchange<'_> {
    /// Takes the request's share of the bytes in flight. `None`: the limit is reached, and the
    /// client prefers an error.
    fn share(&self, work: &RequestWork) -> Option<FlightShare> {
        let bytes = self.bytes.saturating_add(work.plan_bytes());
        if self.negotiated.refuses_on_overload {
            self.node.flight.try_take(bytes)
        } else {
            Some(self.node.flight.take(bytes))
        }
    }

    fn run_of(&self, parameters: &QueryParameters<'_>) -> RunOptions {
        RunOptions {
            page_size: parameters
                .page_size
                .and_then(|n| usize::try_from(n).ok())
                .filter(|n| *n > 0),
            paging: parameters.paging_state.map(|state| PagingState(state.to_vec())),
            timestamp: parameters.timestamp,
            now_in_seconds: parameters.now_in_seconds,
            endpoint: Some(self.client.local),
            stop: Some(self.client.has_ended.clone()),
            batch_limits: Some(self.node.options.batches),
            tombstone_limits: Some(self.node.options.tombstones),
            max_result_bytes: Some(self.node.options.max_result),
            result_budget: Some(self.node.results.clone()),
            ..RunOptions::default()
        }
    }

    /// Reports whether the thread of the connection executes it at once.
    fn is_quick(&self, prepared: &Prepared) -> bool {
        let reads = prepared.columns().is_some();
        prepared.is_quick() && (reads || !self.node.writes_wait)
    }

    fn check_consistency(&self, consistency: WireConsistency, prepared: &Prepared) -> Result<()> {
        let is_serial = consistency.is_serial();
        let is_any = consistency == WireConsistency::Any;
        let text = match prepared.change_kind() {
            None if is_any && prepared.columns().is_some() => {
                "ANY ConsistencyLevel is only supported for writes".to_owned()
            }
            Some(ChangeKind::Plain) if is_serial => {
                "You must use conditional updates for serializable writes".to_owned()
            }
            Some(ChangeKind::Counter(_)) if is_serial => {
                "Counter operations are inherently non-serializable".to_owned()
            }
            Some(ChangeKind::Counter(table)) if is_any => {
                format!("Consistency level ANY is not yet supported for counter table {table}")
            }
            Some(ChangeKind::Conditional) if is_serial => format!(
                "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I \
                 don't care how many replicas commit it for non-SERIAL reads\"",
                consistency.name()
            ),
            _ => return Ok(()),
        };
        Err(WireError::new(ErrorCode::Invalid, text).into())
    }

    fn prepare(
        &self,
        request: &PrepareRequest<'_>,
        trace: Option<&mut RequestTrace>,
    ) -> Result<(Arc<ServerStatement>, Vec<String>)> {
        let keyspace = request.keyspace.map(Arc::from);
        let prepared = self.client.session.prepare_in(keyspace.as_ref(), request.text)?;
        if let Some(trace) = trace {
            trace.parameter("query", prepared.shown_text());
            trace.event(&format!("Prepared {}", prepared.shown_text()));
        }
        let (uses, mut warnings) = (self.node.metrics.uses(&prepared), vec![]);
        let chosen = prepared.keyspace().filter(|_| keyspace.is_none() && !prepared.is_qualified());
        if let Some(chosen) = chosen
            && !self.client.has_use_warning.swap(true, Ordering::Relaxed)
        {
            warnings.push(warning_of_use(chosen, &prepared.id()));
        }
        Ok((self.node.prepared.put(prepared, uses)?, warnings))
    }

    fn query(
        &self,
        request: &QueryRequest<'_>,
        trace: Option<&mut RequestTrace>,
    ) -> Result<(RequestWork, bool)> {
        let QueryRequest { text, parameters } = request;
        let keyspace = parameters.keyspace.map(Arc::from);
        let prepared = self.client.session.compile_once(keyspace.as_ref(), text)?;
        if let Some(trace) = trace {
            note(trace, prepared.shown_text(), parameters);
            trace.event(&format!("Parsed and prepared {}", prepared.shown_text()));
        }
        self.check_consistency(parameters.consistency, &prepared)?;
        let is_quick = self.is_quick(&prepared) || is_use(text);
        let bound = bind(&parameters.values, &prepared);
        let (run, skip_metadata) = (self.run_of(parameters), parameters.skip_metadata);
        let work = RequestWork::One {
            uses: self.node.metrics.uses(&prepared),
            prepared,
            known: None,
            bound,
            run,
            skip_metadata,
            metadata_id: None,
        };
        Ok((work, is_quick))
    }

    fn known(&self, id: &[u8]) -> Result<Arc<ServerStatement>> {
        self.node.prepared.get(id).ok_or_else(|| RequestFailure::Unprepared(id.to_vec()))
    }

    fn execute(
        &self,
        request: &ExecuteRequest<'_>,
        trace: Option<&mut RequestTrace>,
    ) -> Result<(RequestWork, bool)> {
        let ExecuteRequest { id, metadata_id, parameters } = request;
        let known = self.known(id)?;
        let prepared = known.prepared.clone();
        let bound = bind(&parameters.values, &prepared);
        if let Some(trace) = trace {
            note(trace, prepared.shown_text(), parameters);
            note_bound(trace, &prepared, &bound);
        }
        self.check_consistency(parameters.consistency, &prepared)?;
        let is_quick = self.is_quick(&prepared) || is_use(prepared.text());
        let (arrived, wanted) = (bound.len(), prepared.markers().len());
        if arrived != wanted {
            let text =
                format!("there were {wanted} markers(?) in CQL but {arrived} bound variables");
            return Err(WireError::new(ErrorCode::Invalid, text).into());
        }
        let work = RequestWork::One {
            uses: known.uses.clone(),
            prepared,
            known: Some(known),
            bound,
            run: self.run_of(parameters),
            skip_metadata: parameters.skip_metadata,
            metadata_id: metadata_id.map(<[u8]>::to_vec),
        };
        Ok((work, is_quick))
    }

    fn batch(
        &self,
        request: &BatchRequest<'_>,
        trace: Option<&mut RequestTrace>,
    ) -> Result<(RequestWork, bool)> {
        let parameters = &request.parameters;
        if let Some(trace) = trace {
            note_consistency(trace, parameters.consistency, parameters.serial_consistency);
        }
        let keyspace = parameters.keyspace.map(Arc::from);
        let mut members = Vec::with_capacity(request.members.len());
        let mut uses: Vec<TableUse> = vec![];
        let mut plan_bytes = 0;
        for member in &request.members {
            let (prepared, more) = match member.statement {
                Ok(text) => {
                    let prepared = self.client.session.compile_once(keyspace.as_ref(), text)?;
                    let more = self.node.metrics.uses(&prepared);
                    plan_bytes += prepared.heap_bytes();
                    (prepared, more)
                }
                Err(id) => {
                    let known = self.known(id)?;
                    (known.prepared.clone(), known.uses.clone())
                }
            };
            let is_new = |used: &&TableUse| !uses.iter().any(|u| u.is_same(used));
            let more: Vec<_> = more.iter().filter(is_new).cloned().collect();
            uses.extend(more);
            members.push((prepared, member.values.iter().map(|v| bound_of(*v)).collect()));
        }
        let is_quick = members.len() <= MAX_QUICK_CHANGES && !self.node.writes_wait;
        let (timestamp, now_in_seconds) = (parameters.timestamp, parameters.now_in_seconds);
        let batch_limits = Some(self.node.options.batches);
        let run = RunOptions { timestamp, now_in_seconds, batch_limits, ..RunOptions::default() };
        let kind = request.kind;
        Ok((RequestWork::Batch { kind, members, run, uses, plan_bytes }, is_quick))
    }
}

/// Notes the request in a trace.
fn note(trace: &mut RequestTrace, text: &str, parameters: &QueryParameters<'_>) {
    trace.parameter("query", text);
    note_consistency(trace, parameters.consistency, parameters.serial_consistency);
    if let Some(size) = parameters.page_size {
        trace.parameter("page_size", &size.to_string());
    }
}

/// Notes the consistency levels. A request without a serial level has SERIAL, as in Cassandra.
fn note_consistency(
    trace: &mut RequestTrace,
    consistency: WireConsistency,
    serial: Option<WireConsistency>,
) {
    trace.parameter("consistency_level", consistency.name());
    let serial = serial.unwrap_or(WireConsistency::Serial);
    trace.parameter("serial_consistency_level", serial.name());
}

/// Notes the values of a prepared statement's markers, by number and name, as literals.
fn note_bound(trace: &mut RequestTrace, prepared: &Prepared, bound: &[BoundValue]) {
    for (i, (marker, bound)) in prepared.markers().iter().zip(bound).enumerate() {
        if !trace.has_room() {
            return;
        }
        let bytes = match bound {
            BoundValue::Bytes(bytes) => Some(&**bytes),
            BoundValue::Null | BoundValue::Unset => None,
        };
        let mut text = literal(&marker.column_type.value_type, bytes);
        if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN_CHARS) {
            text.truncate(end);
            text.push_str("...'");
        }
        trace.parameter(&format!("bound_var_{i}_{}", marker.name), &text);
    }
}

impl Job {
    /// Returns the text of the request.
    fn text(&self) -> Cow<'_, str> {
        match &self.work {
            RequestWork::One { prepared, .. } => Cow::Borrowed(prepared.shown_text()),
            RequestWork::Batch { kind, members, .. } => {
                let first = members.first().map_or("", |(prepared, _)| prepared.shown_text());
                Cow::Owned(format!("{kind:?} batch of {}, of them first {first}", members.len()))
            }
        }
    }

    /// Returns the span of the request. Without a subscriber for it, this costs one load.
    fn span(&self) -> Span {
        if !span_enabled!(target: SPAN_TARGET, Level::INFO) {
            return Span::none();
        }
        let (uses, is_prepared) = match &self.work {
            RequestWork::One { uses, known, .. } => (&uses[..], known.is_some()),
            RequestWork::Batch { uses, .. } => (&uses[..], false),
        };
        let mut tables: Vec<String> = uses.iter().map(TableUse::table_name).collect();
        tables.sort_unstable();
        tables.dedup();
        let operation = RequestKind::NAMED[self.kind as usize].1;
        // The text of a statement that is not prepared has values of the user.
        let text = if is_prepared { self.text() } else { Cow::Borrowed("") };
        info_span!(
            target: SPAN_TARGET,
            "statement",
            otel.kind = "server",
            db.system.name = "firn",
            db.operation.name = operation,
            db.collection.name = tables.join(", "),
            db.query.text = &*text,
            firn.consistency = self.consistency.map_or("", WireConsistency::name),
            firn.wait_micros = self.node.nanos_since(self.arrived) / 1000,
            db.response.returned_rows = Empty,
            error.r#type = Empty,
        )
    }

    /// Runs the request and responds.
    fn run(mut self) {
        let span = self.span();
        let _entered = span.enter();
        if let Some(trace) = &mut self.trace {
            trace.event("Executing");
        }
        let Job { node, client, negotiated, stream, trace, kind, arrived, work, consistency: _ } =
            self;
        let (one, many);
        let (done, how, uses) = match work {
            RequestWork::One { prepared, known, bound, run, skip_metadata, metadata_id, uses } => {
                one = uses;
                let done = client.session.run(&prepared, bound, &run);
                let how = done.as_ref().map_or(RowsFlags::default(), |rows| {
                    flags(negotiated, rows, known.as_deref(), skip_metadata, metadata_id.as_deref())
                });
                (done, how, &*one)
            }
            RequestWork::Batch { kind, members, run, uses, plan_bytes: _ } => {
                many = uses;
                let (prepared, bound): (Vec<_>, Vec<_>) = members.into_iter().unzip();
                let members: Vec<_> = prepared.iter().zip(bound).collect();
                let done = client.session.batch(kind, &members, &run);
                (done, RowsFlags::default(), &*many)
            }
        };
        let session = trace.map(|mut trace| {
            match &done {
                Ok(rows) => trace.event(&format!("Made {} rows", rows.len())),
                Err(e) => trace.event(&format!("Refused: {e}")),
            }
            finish(&node, trace)
        });
        match &done {
            Ok(rows) => span.record("db.response.returned_rows", rows.len()),
            Err(e) => span.record("error.type", e.class().name()),
        };
        match done {
            Ok(rows) => {
                let body = |body: &mut ResponseBody<'_>| match rows.kind() {
                    ResultKind::Void => body.void(),
                    ResultKind::Rows => body.rows(&rows, how),
                    ResultKind::SetKeyspace(keyspace) => body.set_keyspace(keyspace),
                    ResultKind::Schema(change) => body.schema_change(change),
                };
                client.answer_with_rows(stream, &rows, session, body);
                let nanos = node.nanos_since(arrived);
                client.meter.used(uses, nanos);
                if let Some((kind, partitions)) = rows.batch() {
                    client.meter.batch(kind, partitions);
                }
                client.meter.answered(kind, nanos);
            }
            Err(error) => {
                client.fail(stream, &error, session);
                client.meter.answered(kind, node.nanos_since(arrived));
            }
        }
    }
}

/// Returns the metadata flags of a result for a client that has cached some columns.
fn flags(
    negotiated: NegotiatedProtocol,
    rows: &Rows,
    known: Option<&ServerStatement>,
    skip_metadata: bool,
    metadata_id: Option<&[u8]>,
) -> RowsFlags {
    let all = RowsFlags::default();
    match known {
        None => RowsFlags { skip_metadata, ..all },
        // The columns of a conditional update's result vary.
        Some(known) if !known.has_columns() => all,
        Some(known) if negotiated.version == Version::V5 => {
            let id = known.metadata_id(rows.columns());
            match metadata_id == Some(&id) {
                true => RowsFlags { skip_metadata, ..all },
                false => RowsFlags { new_metadata_id: Some(id), ..all },
            }
        }
        Some(known) => RowsFlags {
            skip_metadata: skip_metadata && known.is_as_prepared(rows.columns()),
            ..all
        },
    }
}
