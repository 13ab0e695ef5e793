//! Floor 0: an HTTP port for monitoring and change feeds: HTTP/1.1, one request per connection. The
//! responses come from the caller. A response may be a stream. [`HttpAccess`] decides which requests
//! are answered.
//!
//! Invariants: at most [`HttpLimits::clients`] connections are served at once, each by its own
//! thread. A new connection replaces the oldest one without a complete request, so silent clients
//! delay nobody. The head of a request has at most 8 KiB, its body has the caller's limit, and both
//! must arrive within a fixed time. The port stores nothing that a client sends. A stream buffers
//! one chunk.

mod access;

use std::borrow::Cow;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::Env;
use firn_kv::fs::Thread;
use parking_lot::{Condvar, Mutex};

pub use access::{HttpAccess, HttpLogin, forbidden, is_equal, is_same_site};

/// Size in bytes of a stream's chunks, except those that are flushed early.
const CHUNK: usize = 16 << 10;
/// Longest request.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum time for a client to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which the socket is watched for the end of the connection.
const PEEK_TIMEOUT: Duration = Duration::from_millis(1);

/// Response to a connection above the limit.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\nRetry-After: 10\r\n\
    Connection: close\r\n\r\ntoo many connections\n";

/// An HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The text after the question mark; empty without one.
    pub query: String,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    /// Whether the client reads a body in chunks.
    takes_chunks: bool,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Parses a head, without its empty line. `None`: it is not HTTP/1.
    fn parse(head: &[u8]) -> Option<HttpRequest> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let parts: Vec<&str> = lines.next()?.split(' ').collect();
        let [method, target, version] = parts[..] else { return None };
        if !version.starts_with("HTTP/1.") {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(HttpRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: lines.map(header).collect::<Option<_>>()?,
            takes_chunks: version != "HTTP/1.0",
            body: vec![],
        })
    }

    /// Returns the only header of this name, which is in lower case. `None`: there is none, or there
    /// are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| &**value);
        all.next().filter(|_| all.next().is_none())
    }

    /// Returns a parameter of the query, decoded. `None`: it is missing, or malformed.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pair = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pair.into_iter().find(|(n, _)| *n == name)?;
        decoded(&value.replace('+', " "))
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n == name)
    }

    /// Returns the length of the body. `None`: it is not a decimal number, or is given differently.
    fn body_len(&self) -> Option<usize> {
        if self.has_header("transfer-encoding") {
            return None;
        }
        if !self.has_header("content-length") {
            return Some(0);
        }
        let digits = self.header("content-length")?;
        digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Returns a text without its percent-encoding. `None`: it is malformed.
pub fn decoded(text: &str) -> Option<String> {
    let (mut out, mut rest) = (vec![], text.bytes());
    while let Some(b) = rest.next() {
        out.push(match b {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b => b,
        });
    }
    String::from_utf8(out).ok()
}

/// Body of a stream. It is sent in chunks, when one is full and at a flush.
pub struct HttpSink<'s> {
    socket: &'s TcpStream,
    stopped: &'s AtomicBool,
    is_chunked: bool,
    buffer: Vec<u8>,
}

impl fmt::Debug for HttpSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").finish_non_exhaustive()
    }
}

impl HttpSink<'_> {
    /// Reports whether the port runs and the client has not closed the connection.
    pub fn is_open(&self) -> bool {
        // A client that closes only its direction of the connection counts as gone.
        let is_gone = || {
            self.socket.set_read_timeout(Some(PEEK_TIMEOUT)).is_err()
                || match self.socket.peek(&mut [0]) {
                    Ok(len) => len == 0,
                    Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                }
        };
        !self.stopped.load(Ordering::SeqCst) && !is_gone()
    }

    /// Sends the rest, and the end of the body.
    fn finish(mut self) -> std::io::Result<()> {
        self.flush()?;
        if self.is_chunked { self.socket.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }
}

impl Write for HttpSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        let len = bytes.len().min(CHUNK);
        self.buffer.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let len = format!("{:x}\r\n", self.buffer.len());
        if self.is_chunked {
            self.buffer.splice(..0, len.bytes());
            self.buffer.extend_from_slice(b"\r\n");
        }
        self.socket.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes the body of a stream until it ends, or the client or the port is gone.
pub type HttpStream = Box<dyn FnOnce(&mut HttpSink<'_>) -> std::io::Result<()> + Send>;

/// Body of a response.
pub enum HttpBody {
    /// A text of known length.
    Text(Cow<'static, str>),
    /// A text that is sent as it is written.
    Stream(HttpStream),
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpBody::Text(text) => f.debug_tuple("Text").field(text).finish(),
            HttpBody::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub struct HttpResponse {
    /// Status code and reason phrase.
    pub status: &'static str,
    /// Content type of the body.
    pub content: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: HttpBody,
}

impl HttpResponse {
    /// Creates a response with a text.
    pub fn new(
        status: &'static str,
        content: &'static str,
        body: impl Into<Cow<'static, str>>,
    ) -> HttpResponse {
        HttpResponse { status, content, headers: vec![], body: HttpBody::Text(body.into()) }
    }

    /// Creates a response with a text for people.
    pub fn text(status: &'static str, body: impl Into<Cow<'static, str>>) -> HttpResponse {
        HttpResponse::new(status, "text/plain; charset=utf-8", body)
    }
}

/// Requests and connections that a port accepts.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Accepted methods.
    pub methods: &'static [&'static str],
    /// Maximum bytes of a body.
    pub body_bytes: usize,
    /// Maximum number of connections served at once.
    pub clients: usize,
    /// Whether a further connection is refused while all have sent requests. Otherwise it replaces
    /// the oldest one.
    pub keeps_oldest: bool,
    /// Maximum time in which a client must read some bytes of the response.
    pub write_timeout: Duration,
}

impl HttpLimits {
    /// Requests that only read.
    pub const READS: HttpLimits = HttpLimits {
        methods: &["GET", "HEAD"],
        body_bytes: 0,
        clients: 16,
        keeps_oldest: false,
        write_timeout: Duration::from_secs(5),
    };

    /// Returns the maximum number of descriptors of the port: replaced connections close a moment
    /// later.
    pub const fn descriptors(&self) -> usize {
        2 * self.clients
    }
}

type ResponseSource = Box<dyn Fn(&HttpRequest) -> HttpResponse + Send + Sync>;

/// A connection being served.
struct HttpClient {
    number: u64,
    socket: Arc<TcpStream>,
    /// Whether its request has arrived.
    has_request: bool,
}

#[derive(Default)]
struct HttpClients {
    next: u64,
    /// The connections being served, oldest first.
    open: Vec<HttpClient>,
    /// Running threads, including those of replaced connections.
    threads: usize,
}

struct HttpShared {
    env: Arc<dyn Env>,
    limits: HttpLimits,
    /// Answers a request.
    response_of: ResponseSource,
    stopped: AtomicBool,
    clients: Mutex<HttpClients>,
    /// Signals that a thread has ended.
    left: Condvar,
}

/// A listening port.
pub struct HttpPort {
    shared: Arc<HttpShared>,
    address: SocketAddr,
    accepting: Mutex<Option<Box<dyn Thread>>>,
}

impl fmt::Debug for HttpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPort").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpPort {
    /// Listens; `response_of` answers the requests within the limits.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(
        env: &Arc<dyn Env>,
        listener: TcpListener,
        address: SocketAddr,
        limits: HttpLimits,
        response_of: impl Fn(&HttpRequest) -> HttpResponse + Send + Sync + 'static,
    ) -> firn_kv::Result<HttpPort> {
        let shared = Arc::new(HttpShared {
            env: env.clone(),
            limits,
            response_of: Box::new(response_of),
            stopped: AtomicBool::new(false),
            clients: Mutex::default(),
            left: Condvar::new(),
        });
        let accepting = shared.clone();
        let thread = env.spawn("firn-http", Box::new(move || accepting.accept(&listener)))?;
        Ok(HttpPort { shared, address, accepting: Mutex::new(Some(thread)) })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and closes the connections being served.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let thread = self.accepting.lock().take();
        if let Some(thread) = thread {
            // A connection wakes the accepting thread.
            drop(TcpStream::connect(self.address));
            thread.join();
        }
        let mut clients = self.shared.clients.lock();
        clients.open.iter().for_each(HttpClient::shut_down);
        while clients.threads > 0 {
            self.shared.left.wait(&mut clients);
        }
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.stop();
    }
}

impl HttpClient {
    fn shut_down(&self) {
        // Ignore the error: the connection may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl HttpClients {
    /// Registers a connection; replaces another one if there are too many. `None`: none may be
    /// replaced.
    fn enter(&mut self, socket: &Arc<TcpStream>, limits: HttpLimits) -> Option<u64> {
        if self.open.len() >= limits.clients {
            let waits = self.open.iter().position(|client| !client.has_request);
            let replaced = waits.or((!limits.keeps_oldest).then_some(0))?;
            self.open.remove(replaced).shut_down();
        }
        let number = self.next;
        self.next += 1;
        self.threads += 1;
        self.open.push(HttpClient { number, socket: socket.clone(), has_request: false });
        Some(number)
    }
}

/// Removes a connection from the list when its thread ends, even by a panic.
struct HttpGuard {
    shared: Arc<HttpShared>,
    number: u64,
}

impl Drop for HttpGuard {
    fn drop(&mut self) {
        let mut clients = self.shared.clients.lock();
        clients.open.retain(|client| client.number != self.number);
        clients.threads -= 1;
        self.shared.left.notify_all();
    }
}

impl HttpShared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok((socket, _)) => self.take(Arc::new(socket)),
                Err(e) => {
                    tracing::warn!("a connection for metrics could not be accepted: {e}");
                    self.env.sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn take(self: &Arc<Self>, socket: Arc<TcpStream>) {
        let mut clients = self.clients.lock();
        // The threads of replaced connections end at once.
        while clients.threads >= self.limits.descriptors() {
            self.left.wait(&mut clients);
        }
        let Some(number) = clients.enter(&socket, self.limits) else {
            // A new connection has room for this. Ignore the error: the client may have gone.
            let _ = (&*socket).write_all(BUSY);
            return;
        };
        drop(clients);
        let guard = HttpGuard { shared: self.clone(), number };
        // Optional: a request works without it.
        let _ = socket.set_nodelay(true);
        let work = move || {
            // Ignore the error: the client may have gone.
            let _ = guard.shared.answer(&socket, guard.number);
        };
        if let Err(e) = self.env.spawn(&format!("firn-http-{number}"), Box::new(work)) {
            tracing::warn!("no thread for a connection for metrics: {e}");
        }
    }

    /// Notes that the request of this client has arrived.
    fn has_request(&self, number: u64) {
        let mut clients = self.clients.lock();
        let client = clients.open.iter_mut().find(|client| client.number == number);
        client.into_iter().for_each(|client| client.has_request = true);
    }

    /// Reads a request. `None`: the client closed the connection or was too slow.
    fn request(&self, mut socket: &TcpStream) -> Option<Result<HttpRequest, HttpResponse>> {
        let began = self.env.monotonic_nanos();
        let mut bytes = vec![];
        let mut more = |bytes: &mut Vec<u8>| {
            let passed = Duration::from_nanos(self.env.monotonic_nanos().saturating_sub(began));
            let left = READ_TIMEOUT.checked_sub(passed).filter(|left| !left.is_zero())?;
            socket.set_read_timeout(Some(left)).ok()?;
            let mut chunk = [0; 1024];
            let len = socket.read(&mut chunk).ok().filter(|len| *len > 0)?;
            bytes.extend_from_slice(&chunk[..len]);
            Some(())
        };
        let end = loop {
            more(&mut bytes)?;
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            if bytes.len() > MAX_REQUEST {
                let status = "431 Request Header Fields Too Large";
                return Some(Err(HttpResponse::text(status, "the request is too long\n")));
            }
        };
        let Some(mut request) = HttpRequest::parse(&bytes[..end]) else {
            return Some(Err(HttpResponse::text("400 Bad Request", "this is no HTTP/1.1\n")));
        };
        if !self.limits.methods.contains(&&*request.method) {
            let methods = self.limits.methods.join(", ");
            let text = format!("only {methods}\n");
            let mut response = HttpResponse::text("405 Method Not Allowed", text);
            response.headers.push(("Allow", methods));
            return Some(Err(response));
        }
        let Some(len) = request.body_len() else {
            return Some(Err(HttpResponse::text("411 Length Required", "send Content-Length\n")));
        };
        if len > self.limits.body_bytes {
            let text = format!("a body has at most {} bytes\n", self.limits.body_bytes);
            return Some(Err(HttpResponse::text("413 Content Too Large", text)));
        }
        bytes.drain(..end + 4);
        while bytes.len() < len {
            more(&mut bytes)?;
        }
        bytes.truncate(len);
        request.body = bytes;
        Some(Ok(request))
    }

    fn answer(&self, mut socket: &TcpStream, number: u64) -> std::io::Result<()> {
        let request = self.request(socket);
        self.has_request(number);
        let (response, has_body, takes_chunks) = match request {
            None => return Ok(()),
            Some(Err(response)) => (response, true, false),
            Some(Ok(request)) => {
                ((self.response_of)(&request), request.method != "HEAD", request.takes_chunks)
            }
        };
        let HttpResponse { status, content, headers, body } = response;
        let mut out = format!("HTTP/1.1 {status}\r\nContent-Type: {content}\r\n");
        for (name, value) in headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        match &body {
            HttpBody::Text(text) => out.push_str(&format!("Content-Length: {}\r\n", text.len())),
            HttpBody::Stream(_) if takes_chunks => out.push_str("Transfer-Encoding: chunked\r\n"),
            HttpBody::Stream(_) => {}
        }
        out.push_str("Cache-Control: no-store\r\nConnection: close\r\n\r\n");
        socket.set_write_timeout(Some(self.limits.write_timeout))?;
        #[cfg(target_os = "linux")]
        {
            // A connection to a machine that is gone ends after this time, too. Ignore the error:
            // the connection then ends later.
            let millis = u32::try_from(self.limits.write_timeout.as_millis()).unwrap_or(u32::MAX);
            let _ = rustix::net::sockopt::set_tcp_user_timeout(socket, millis);
        }
        match body {
            HttpBody::Text(text) if has_body => {
                out.push_str(&text);
                socket.write_all(out.as_bytes())?;
            }
            HttpBody::Stream(write) if has_body => {
                socket.write_all(out.as_bytes())?;
                let stopped = &self.stopped;
                let mut sink =
                    HttpSink { socket, stopped, is_chunked: takes_chunks, buffer: vec![] };
                write(&mut sink)?;
                sink.finish()?;
            }
            _ => socket.write_all(out.as_bytes())?,
        }
        socket.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Option<HttpRequest> {
        HttpRequest::parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn a_head_is_parsed_or_refused() {
        let request = head("POST /a?b=c HTTP/1.1\nHost: x\nContent-Length: 12").unwrap();
        assert_eq!((&*request.method, &*request.path, &*request.query), ("POST", "/a", "b=c"));
        assert_eq!((request.header("host"), request.body_len()), (Some("x"), Some(12)));
        for bad in ["GET /", "GET / HTTP/2", "GET / HTTP/1.1\nno colon", "GET  / HTTP/1.1"] {
            assert_eq!(head(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let of = |query: &str| head(&format!("GET /?{query} HTTP/1.1")).unwrap().parameter("tree");
        assert_eq!(of("a=1&tree=x%20y+z%C3%A4"), Some("x y zä".to_owned()));
        assert_eq!(
            (of("tree=%"), of("tree=%f"), of("tree=%ff"), of("tre=1")),
            (None, None, None, None)
        );
    }

    #[test]
    fn a_length_that_readers_may_disagree_about_is_refused() {
        let len = |text: &str| head(&format!("GET / HTTP/1.1\n{text}")).unwrap().body_len();
        assert_eq!(len("a: b"), Some(0));
        assert_eq!(len("Content-Length: 7\nContent-Length: 8"), None);
        assert_eq!(len("Content-Length: +7"), None);
        assert_eq!(len("Transfer-Encoding: chunked\nContent-Length: 7"), None);
    }
}
