//! Floor 0: an HTTP port for monitoring: GET and HEAD of HTTP/1.1, one request per connection. The
//! content comes from the caller.
//!
//! Invariants: at most [`MAX_CLIENTS`] connections are served at once, each by its own thread. A
//! new connection replaces the oldest one whose request has not arrived, so silent clients delay
//! nobody. A request has at most 8 KiB and must arrive within a fixed time. The port stores nothing
//! that a client sends.

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

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code and reason phrase.
    pub status: &'static str,
    /// Content type of the body.
    pub content: &'static str,
    /// The body.
    pub body: String,
}

impl HttpResponse {
    fn text(status: &'static str, body: &str) -> HttpResponse {
        HttpResponse { status, content: "text/plain; charset=utf-8", body: body.to_owned() }
    }
}

type ContentSource = Box<dyn Fn(&str) -> Option<HttpResponse> + Send + Sync>;

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
    /// Returns the content of a path.
    content_of: ContentSource,
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

impl HttpPort {
    /// Listens; `content_of` returns the content of a path.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(
        env: &Arc<dyn Env>,
        listener: TcpListener,
        address: SocketAddr,
        content_of: impl Fn(&str) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> firn_kv::Result<HttpPort> {
        let shared = Arc::new(HttpShared {
            env: env.clone(),
            content_of: Box::new(content_of),
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

    /// Reads up to the empty line. `None`: the client closed the connection or was too slow.
    fn request(&self, mut socket: &TcpStream) -> Option<Result<Vec<u8>, HttpResponse>> {
        let began = self.env.monotonic_nanos();
        let mut bytes = vec![];
        loop {
            let passed = Duration::from_nanos(self.env.monotonic_nanos().saturating_sub(began));
            let left = READ_TIMEOUT.checked_sub(passed).filter(|left| !left.is_zero())?;
            socket.set_read_timeout(Some(left)).ok()?;
            let mut chunk = [0; 1024];
            let len = socket.read(&mut chunk).ok().filter(|len| *len > 0)?;
            bytes.extend_from_slice(&chunk[..len]);
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                bytes.truncate(end);
                return Some(Ok(bytes));
            }
            if bytes.len() > MAX_REQUEST {
                let status = "431 Request Header Fields Too Large";
                return Some(Err(HttpResponse::text(status, "the request is too long\n")));
            }
        }
    }

    fn answer(&self, mut socket: &TcpStream, number: u64) -> std::io::Result<()> {
        let request = self.request(socket);
        self.has_request(number);
        let (answer, has_body) = match request {
            None => return Ok(()),
            Some(Err(answer)) => (answer, true),
            Some(Ok(request)) => self.response_to(&request),
        };
        let HttpResponse { status, content, body } = answer;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut out = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if has_body {
            out.push_str(&body);
        }
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        socket.write_all(out.as_bytes())?;
        socket.shutdown(Shutdown::Write)
    }

    /// Returns the response to a request, and whether to send its body.
    fn response_to(&self, request: &[u8]) -> (HttpResponse, bool) {
        let bad = || (HttpResponse::text("400 Bad Request", "this is no HTTP/1.1\n"), true);
        let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
        let Ok(line) = std::str::from_utf8(line) else { return bad() };
        let parts: Vec<&str> = line.split(' ').collect();
        let [method, target, version] = parts[..] else { return bad() };
        if !version.starts_with("HTTP/1.") {
            return bad();
        }
        if !["GET", "HEAD"].contains(&method) {
            let answer = HttpResponse::text("405 Method Not Allowed", "only GET and HEAD\n");
            return (answer, true);
        }
        let path = target.split('?').next().unwrap_or_default();
        let nothing = || HttpResponse::text("404 Not Found", "there are /metrics and /health\n");
        ((self.content_of)(path).unwrap_or_else(nothing), method == "GET")
    }
}
