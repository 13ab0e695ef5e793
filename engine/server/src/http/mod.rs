//! Floor 0: an HTTP port for monitoring: HTTP/1.1, one request per connection. The responses come
//! from the caller. A response may be a stream of server-sent events.
//!
//! Invariants: at most 16 connections are served at once, each by its own thread. A
//! new connection replaces the oldest one whose request has not arrived, so silent clients delay
//! nobody. The head of a request has at most 8 KiB, its body has the caller's limit, and both must
//! arrive within a fixed time. The port stores nothing that a client sends.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::Env;
use firn_kv::fs::Thread;
use parking_lot::{Condvar, Mutex};

/// Maximum number of connections served at once.
const MAX_CLIENTS: usize = 16;
/// Maximum number of descriptors of the port: replaced connections close a moment later.
pub const HTTP_DESCRIPTORS: usize = 2 * MAX_CLIENTS;
/// Longest request.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum time for a client to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for a client to read each part of the response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

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
            body: vec![],
        })
    }

    /// Returns the only header of this name, which is in lower case. `None`: there is none, or there
    /// are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| &**value);
        all.next().filter(|_| all.next().is_none())
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

/// Returns the next part of a stream, or `None` at its end. It may wait for about a second.
pub type HttpStream = Box<dyn FnMut() -> Option<String> + Send>;

/// Body of a response.
pub enum HttpBody {
    /// A text of known length.
    Text(Cow<'static, str>),
    /// Parts that are sent as they come, until the client closes the connection.
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

/// Requests that a port accepts.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Accepted methods.
    pub methods: &'static [&'static str],
    /// Maximum bytes of a body.
    pub body_bytes: usize,
}

impl HttpLimits {
    /// Requests that only read.
    pub const READS: HttpLimits = HttpLimits { methods: &["GET", "HEAD"], body_bytes: 0 };
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
    /// Registers a connection; replaces another one if there are too many.
    fn enter(&mut self, socket: &Arc<TcpStream>) -> u64 {
        if self.open.len() >= MAX_CLIENTS {
            let waits = self.open.iter().position(|client| !client.has_request);
            self.open.remove(waits.unwrap_or(0)).shut_down();
        }
        let number = self.next;
        self.next += 1;
        self.threads += 1;
        self.open.push(HttpClient { number, socket: socket.clone(), has_request: false });
        number
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
        while clients.threads >= HTTP_DESCRIPTORS {
            self.left.wait(&mut clients);
        }
        let number = clients.enter(&socket);
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
        let (response, has_body) = match request {
            None => return Ok(()),
            Some(Err(response)) => (response, true),
            Some(Ok(request)) => ((self.response_of)(&request), request.method != "HEAD"),
        };
        let HttpResponse { status, content, headers, body } = response;
        let mut out = format!("HTTP/1.1 {status}\r\nContent-Type: {content}\r\n");
        for (name, value) in headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        if let HttpBody::Text(text) = &body {
            out.push_str(&format!("Content-Length: {}\r\n", text.len()));
        }
        out.push_str("Cache-Control: no-store\r\nConnection: close\r\n\r\n");
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        match body {
            HttpBody::Text(text) if has_body => {
                out.push_str(&text);
                socket.write_all(out.as_bytes())?;
            }
            HttpBody::Stream(mut next) if has_body => {
                socket.write_all(out.as_bytes())?;
                while !self.stopped.load(Ordering::SeqCst)
                    && let Some(part) = next()
                {
                    socket.write_all(part.as_bytes())?;
                }
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
    fn a_length_that_readers_may_disagree_about_is_refused() {
        let len = |text: &str| head(&format!("GET / HTTP/1.1\n{text}")).unwrap().body_len();
        assert_eq!(len("a: b"), Some(0));
        assert_eq!(len("Content-Length: 7\nContent-Length: 8"), None);
        assert_eq!(len("Content-Length: +7"), None);
        assert_eq!(len("Transfer-Encoding: chunked\nContent-Length: 7"), None);
    }
}
