//! Serves the changes of a store over HTTP.
//!
//! Invariants:
//! - A subscription has at most one stream at a time.
//! - A stream holds one chunk and one change in memory. The log is the buffer of slow consumers.
//! - Only a consumer acknowledges, unless it asks the server to do so.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use firn_cql::Session;
use firn_kv::{ChangePosition, Db, Env, Error, ErrorKind, OsEnv, Subscription, SubscriptionInfo};
use firn_server::http::{
    HttpAccess, HttpBody, HttpLimits, HttpLogin, HttpPort, HttpRequest, HttpResponse, HttpSink,
    decoded, forbidden, is_same_site,
};
use firn_tools::options;
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::decoder::ChangeDecoder;
use crate::event::EventFormat;
use crate::stream::{ChangeStream, StreamOptions};

/// Requests of consumers. A slow one may process what it has received for a minute.
const LIMITS: HttpLimits = HttpLimits {
    methods: &["GET", "POST", "DELETE"],
    body_bytes: 4 << 10,
    clients: 64,
    keeps_oldest: true,
    write_timeout: Duration::from_secs(60),
};

/// Maximum number of file descriptors of the port.
pub const CHANGE_DESCRIPTORS: u64 = LIMITS.descriptors() as u64 + 1;

/// Maximum number of streams: the other connections are for acknowledgements.
const MAX_STREAMS: usize = 48;

/// Retained log of a new subscription, unless the consumer asks for another bound.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Options of a change server.
#[derive(Clone, Debug)]
pub struct ChangeServerOptions {
    /// The address to listen at. Port 0 means any free port.
    pub address: SocketAddr,
    /// The logins that it requires. An address that other machines reach needs some.
    pub login: HttpLogin,
    /// Sites with pages that may read the changes, such as `https://app.example.org`.
    pub origins: Vec<String>,
}

impl ChangeServerOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// An address that other machines reach, without logins.
    pub fn check(&self) -> Done {
        if self.address.ip().is_loopback() || self.login != HttpLogin::Open {
            return Ok(());
        }
        Err(Failure::with_next(
            format!(
                "other machines reach {}, and the change server requires no login",
                self.address
            ),
            "give --changes-password FILE, or an address of this machine: 127.0.0.1:8043",
        ))
    }
}

/// Subscription of a stream, which the stream and acknowledgements use.
pub(crate) struct StreamedFeed {
    pub feed: Subscription,
    /// Whether the stream is sending a snapshot, which cannot be acknowledged yet.
    pub is_in_snapshot: bool,
}

/// State of a change server.
pub(crate) struct ChangeService {
    pub env: Arc<dyn Env>,
    pub session: Session,
    pub db: Db,
    access: HttpAccess,
    origins: Vec<String>,
    streams: Mutex<BTreeMap<String, Arc<Mutex<StreamedFeed>>>>,
}

/// Server of a store's changes. It ends when dropped.
pub struct ChangeServer(HttpPort);

impl fmt::Debug for ChangeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeServer").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl ChangeServer {
    /// Listens, and serves the changes of the session's store.
    ///
    /// # Errors
    /// Invalid options, an address that cannot be bound, a thread that cannot be started.
    pub fn start(session: &Session, options: ChangeServerOptions) -> Done<ChangeServer> {
        options.check()?;
        let env: Arc<dyn Env> = OsEnv::new();
        let at = |e: std::io::Error| {
            let what = format!("the change server cannot listen at {}: {e}", options.address);
            Failure::with_next(what, "take another port, or port 0 for any free one")
        };
        let listener = TcpListener::bind(options.address).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let service = Arc::new(ChangeService {
            env: env.clone(),
            session: session.clone(),
            db: session.engine().store().db().clone(),
            access: HttpAccess::new(env.clone(), options.login),
            origins: options.origins,
            streams: Mutex::default(),
        });
        let respond = move |request: &HttpRequest| service.respond(request);
        Ok(ChangeServer(HttpPort::start(&env, listener, address, LIMITS, respond)?))
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Ends all streams and closes all connections.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// A refused request: status and words.
struct Refusal(&'static str, Failure);

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        let status = match e.kind() {
            ErrorKind::InvalidArgument => "400 Bad Request",
            ErrorKind::NotFound => "404 Not Found",
            ErrorKind::Locked | ErrorKind::Lagged | ErrorKind::ReadOnly => "409 Conflict",
            _ => "500 Internal Server Error",
        };
        Refusal(status, e.into())
    }
}

fn bad(what: impl Into<String>, next: &str) -> Refusal {
    Refusal("400 Bad Request", Failure::with_next(what, next))
}

impl Refusal {
    fn response(&self) -> HttpResponse {
        json_response(self.0, &json!({"error": self.1.words(), "next": self.1.next()}))
    }
}

fn json_response(status: &'static str, value: &Value) -> HttpResponse {
    HttpResponse::new(status, "application/json", format!("{value}\n"))
}

/// A stream's entry in the list, which ends with it.
struct StreamEntry {
    service: Arc<ChangeService>,
    name: String,
}

impl Drop for StreamEntry {
    fn drop(&mut self) {
        let mut streams = self.service.streams.lock();
        // The subscription is closed before another stream can look for it.
        drop(streams.remove(&self.name));
    }
}

impl ChangeService {
    fn respond(self: &Arc<Self>, request: &HttpRequest) -> HttpResponse {
        let origin = request.header("origin").filter(|o| self.origins.iter().any(|of| of == o));
        let mut response = match self.access.check(request, Some(self.session.clone())) {
            Err(refusal) => refusal,
            Ok(_) if origin.is_none() && !is_same_site(request) => forbidden(
                "the request is from the page of another site: allow it by --changes-origin\n",
            ),
            Ok(_) => self.route(request).unwrap_or_else(|refusal| refusal.response()),
        };
        response.headers.push(("X-Content-Type-Options", "nosniff".to_owned()));
        if let Some(origin) = origin {
            response.headers.push(("Access-Control-Allow-Origin", origin.to_owned()));
            response.headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
            response.headers.push(("Vary", "Origin".to_owned()));
        }
        response
    }

    fn route(self: &Arc<Self>, request: &HttpRequest) -> Result<HttpResponse, Refusal> {
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let name = || {
            let name = parts.get(1).and_then(|name| decoded(name));
            name.ok_or_else(|| {
                bad("the name of the subscription is malformed", "encode it as UTF-8")
            })
        };
        match (&*request.method, &*parts) {
            ("GET", ["changes"]) => Ok(json_response("200 OK", &self.list())),
            ("GET", ["changes", _]) => self.stream(name()?, request),
            ("POST", ["changes", _, "ack"]) => {
                let at = self.acknowledge(&name()?, &request.body)?;
                Ok(json_response("200 OK", &json!({"acknowledged": at.to_string()})))
            }
            ("DELETE", ["changes", _]) => {
                let name = name()?;
                self.db.drop_subscription(&name)?;
                Ok(json_response("200 OK", &json!({"dropped": name})))
            }
            _ => {
                let what = format!("there is nothing at {} {}", request.method, request.path);
                let next =
                    "GET /changes, GET /changes/NAME, POST /changes/NAME/ack, DELETE /changes/NAME";
                Err(Refusal("404 Not Found", Failure::with_next(what, next)))
            }
        }
    }

    fn list(&self) -> Value {
        let (store, streams) = (self.db.identity(), self.streams.lock());
        let one = |s: &SubscriptionInfo| {
            json!({
                "name": s.name, "position": ChangePosition { store, seq: s.seq }.to_string(), "behind": s.behind,
                "retained_bytes": s.retained_bytes, "max_log_bytes": s.max_log_bytes,
                "snapshot_due": s.is_snapshot_due, "connected": streams.contains_key(&s.name),
            })
        };
        json!({"subscriptions": self.db.subscriptions().iter().map(one).collect::<Vec<_>>()})
    }

    /// Opens a subscription, and creates it if `bound` is given or it exists.
    fn subscribe(
        &self,
        name: &str,
        bound: Option<u64>,
        creates: bool,
    ) -> Result<Subscription, Refusal> {
        let known = self.db.subscriptions().into_iter().find(|s| s.name == name);
        if known.is_none() && !creates {
            let what = format!("there is no subscription {name:?}");
            let next = format!("GET /changes/{name} creates it");
            return Err(Refusal("404 Not Found", Failure::with_next(what, next)));
        }
        let before = known.map_or(MAX_LOG_BYTES, |s| s.max_log_bytes);
        Ok(self.db.subscribe(name, bound.unwrap_or(before))?)
    }

    fn stream(
        self: &Arc<Self>,
        name: String,
        request: &HttpRequest,
    ) -> Result<HttpResponse, Refusal> {
        let options = StreamOptions::of(request).map_err(|e| Refusal("400 Bad Request", e))?;
        let decoder = ChangeDecoder::of_tables(self.session.clone())
            .map_err(|e| Refusal("500 Internal Server Error", e))?
            .only(&options.names);
        let bound = request.parameter("hold_log").map(|text| options::size(&text)).transpose();
        let bound = bound.map_err(|e| bad(format!("hold_log: {e}"), "give a size such as 1g"))?;
        let mut streams = self.streams.lock();
        if streams.contains_key(&name) {
            return Err(Refusal(
                "409 Conflict",
                Failure::with_next(
                    format!("the subscription {name:?} has a consumer"),
                    "take another name: each has its own position",
                ),
            ));
        }
        if streams.len() >= MAX_STREAMS {
            let what = format!("{MAX_STREAMS} consumers are connected, as many as may be");
            let next = "end another stream first";
            return Err(Refusal("503 Service Unavailable", Failure::with_next(what, next)));
        }
        let feed = self.subscribe(&name, bound, true)?;
        let streamed = StreamedFeed { feed, is_in_snapshot: false };
        streams.insert(name.clone(), Arc::new(Mutex::new(streamed)));
        drop(streams);
        let entry = StreamEntry { service: self.clone(), name };
        let content = match options.is_sse {
            true => "text/event-stream; charset=utf-8",
            false => "application/x-ndjson",
        };
        let write = move |sink: &mut HttpSink<'_>| {
            let StreamEntry { service, name } = &entry;
            let Some(feed) = service.streams.lock().get(name).cloned() else { return Ok(()) };
            ChangeStream::new(service, feed, &options, decoder).run(sink)
        };
        let body = HttpBody::Stream(Box::new(write));
        Ok(HttpResponse { body, ..HttpResponse::new("200 OK", content, "") })
    }

    /// Acknowledges the changes up to a position.
    fn acknowledge(&self, name: &str, body: &[u8]) -> Result<ChangePosition, Refusal> {
        let text = String::from_utf8_lossy(body);
        let position: ChangePosition = text.trim().parse()?;
        let incomplete = || {
            let what = format!("the subscription {name:?} needs a snapshot first");
            let next = "acknowledge the position of its event \"snapshot_end\"";
            Refusal("409 Conflict", Failure::with_next(what, next))
        };
        // While the list is locked, no stream begins or ends.
        let streams = self.streams.lock();
        if let Some(streamed) = streams.get(name) {
            let mut state = streamed.lock();
            if state.is_in_snapshot {
                return Err(incomplete());
            }
            check_store(position, &self.db)?;
            state.feed.acknowledge(position.seq)?;
            return Ok(position);
        }
        let mut feed = self.subscribe(name, None, false)?;
        if feed.is_snapshot_due() {
            return Err(incomplete());
        }
        if position.store != self.db.identity() || position.seq > feed.position().seq {
            feed.resume(position)?;
        }
        Ok(position)
    }
}

/// Returns an error for a position of another store.
fn check_store(position: ChangePosition, db: &Db) -> Result<(), Refusal> {
    if position.store == db.identity() {
        return Ok(());
    }
    let what = format!(
        "the position {position} is one of another store: this one is {:016x}",
        db.identity()
    );
    Err(bad(what, "drop the subscription and begin again with a snapshot"))
}

impl StreamOptions {
    /// Reads the options of a request.
    fn of(request: &HttpRequest) -> Done<StreamOptions> {
        let choice = |name: &str, first: &'static str, other: &'static str| {
            let given = request.parameter(name).unwrap_or_else(|| first.to_owned());
            match &*given {
                given if given == first => Ok(false),
                given if given == other => Ok(true),
                given => Err(Failure::with_next(
                    format!("{name}={given} is no choice"),
                    format!("give {name}={first} or {name}={other}"),
                )),
            }
        };
        let after = request.header("last-event-id").map(str::to_owned);
        let after = after.or_else(|| request.parameter("after"));
        let names = request.parameter("tables").unwrap_or_default();
        Ok(StreamOptions {
            format: match choice("format", "json", "debezium")? {
                true => EventFormat::Debezium,
                false => EventFormat::Json,
            },
            is_sse: request.header("accept").is_some_and(|a| a.contains("text/event-stream")),
            from_now: choice("from", "start", "now")?,
            acknowledges: choice("ack", "consumer", "sent")?,
            names: names.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect(),
            after: after.filter(|a| !a.is_empty()).map(|a| a.parse()).transpose()?,
        })
    }
}
