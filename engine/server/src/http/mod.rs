//! Floor 0: an HTTP port for monitoring: GET and HEAD of HTTP/1.1, one request per connection. The
//! content comes from the caller.
//!
//! Invariants: at most [`MOST_CLIENTS`] connections are served at once, each by its own thread. A
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
const MOST_CLIENTS: usize = 16;
/// Maximum number of descriptors of the port: replaced connections close a moment later.
pub const HTTP_DESCRIPTORS: usize = 2 * MOST_CLIENTS;
/// Longest request.
const MOST: usize = 8 << 10;
/// Maximum time for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time for a client to read each part of the response.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code and reason phrase.
    pub status: &'static str,
    /// Content type of the body.
    pub content: &'static str,
    /// The body.
    pub body: String,
}

impl HttpAnswer {
    fn text(status: &'static str, body: &str) -> HttpAnswer {
        HttpAnswer { status, content: "text/plain; charset=utf-8", body: body.to_owned() }
    }
}

type Tell = Box<dyn Fn(&str) -> Option<HttpAnswer> + Send + Sync>;

/// A connection being served.
struct HttpClient {
    number: u64,
    socket: Arc<TcpStream>,
    /// Whether its request has arrived.
    has_asked: bool,
}

#[derive(Default)]
struct HttpClients {
    next: u64,
    /// The connections being served, oldest first.
    open: Vec<HttpClient>,
    /// Running threads, including those of replaced connections.
    threads: usize,
}

struct HttpRoom {
    env: Arc<dyn Env>,
    /// Returns the content of a path.
    tell: Tell,
    stopped: AtomicBool,
    clients: Mutex<HttpClients>,
    /// Signals that a thread has ended.
    left: Condvar,
}

/// A listening port.
pub struct HttpPort {
    room: Arc<HttpRoom>,
    address: SocketAddr,
    accepting: Mutex<Option<Box<dyn Thread>>>,
}

impl HttpPort {
    /// Listens; `tell` returns the content of a path.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(
        env: &Arc<dyn Env>,
        listener: TcpListener,
        address: SocketAddr,
        tell: impl Fn(&str) -> Option<HttpAnswer> + Send + Sync + 'static,
    ) -> firn_kv::Result<HttpPort> {
        let room = Arc::new(HttpRoom {
            env: env.clone(),
            tell: Box::new(tell),
            stopped: AtomicBool::new(false),
            clients: Mutex::default(),
            left: Condvar::new(),
        });
        let accepting = room.clone();
        let thread = env.spawn("firn-http", Box::new(move || accepting.accept(&listener)))?;
        Ok(HttpPort { room, address, accepting: Mutex::new(Some(thread)) })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and closes the connections being served.
    pub fn stop(&self) {
        self.room.stopped.store(true, Ordering::SeqCst);
        let thread = self.accepting.lock().take();
        if let Some(thread) = thread {
            // A connection wakes the accepting thread.
            drop(TcpStream::connect(self.address));
            thread.join();
        }
        let mut clients = self.room.clients.lock();
        clients.open.iter().for_each(HttpClient::cut_off);
        while clients.threads > 0 {
            self.room.left.wait(&mut clients);
        }
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.stop();
    }
}

impl HttpClient {
    fn cut_off(&self) {
        // Ignore the error: the connection may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl HttpClients {
    /// Registers a connection; replaces another one if there are too many.
    fn enter(&mut self, socket: &Arc<TcpStream>) -> u64 {
        if self.open.len() >= MOST_CLIENTS {
            let waits = self.open.iter().position(|client| !client.has_asked);
            self.open.remove(waits.unwrap_or(0)).cut_off();
        }
        let number = self.next;
        self.next += 1;
        self.threads += 1;
        self.open.push(HttpClient { number, socket: socket.clone(), has_asked: false });
        number
    }
}

/// Removes a connection from the list when its thread ends, even by a panic.
struct HttpLeaving {
    room: Arc<HttpRoom>,
    number: u64,
}

impl Drop for HttpLeaving {
    fn drop(&mut self) {
        let mut clients = self.room.clients.lock();
        clients.open.retain(|client| client.number != self.number);
        clients.threads -= 1;
        self.room.left.notify_all();
    }
}

impl HttpRoom {
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
        let leaving = HttpLeaving { room: self.clone(), number };
        // Optional: a request works without it.
        let _ = socket.set_nodelay(true);
        let work = move || {
            // Ignore the error: the client may have gone.
            let _ = leaving.room.answer(&socket, leaving.number);
        };
        if let Err(e) = self.env.spawn(&format!("firn-http-{number}"), Box::new(work)) {
            tracing::warn!("no thread for a connection for metrics: {e}");
        }
    }

    /// Notes that the request of this client has arrived.
    fn has_asked(&self, number: u64) {
        let mut clients = self.clients.lock();
        let client = clients.open.iter_mut().find(|client| client.number == number);
        client.into_iter().for_each(|client| client.has_asked = true);
    }

    /// Reads up to the empty line. `None`: the client closed the connection or was too slow.
    fn request(&self, mut socket: &TcpStream) -> Option<Result<Vec<u8>, HttpAnswer>> {
        let began = self.env.monotonic_nanos();
        let mut bytes = vec![];
        loop {
            let passed = Duration::from_nanos(self.env.monotonic_nanos().saturating_sub(began));
            let left = PATIENCE.checked_sub(passed).filter(|left| !left.is_zero())?;
            socket.set_read_timeout(Some(left)).ok()?;
            let mut chunk = [0; 1024];
            let len = socket.read(&mut chunk).ok().filter(|len| *len > 0)?;
            bytes.extend_from_slice(&chunk[..len]);
            if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                bytes.truncate(end);
                return Some(Ok(bytes));
            }
            if bytes.len() > MOST {
                let status = "431 Request Header Fields Too Large";
                return Some(Err(HttpAnswer::text(status, "the request is too long\n")));
            }
        }
    }

    fn answer(&self, mut socket: &TcpStream, number: u64) -> std::io::Result<()> {
        let request = self.request(socket);
        self.has_asked(number);
        let (answer, has_body) = match request {
            None => return Ok(()),
            Some(Err(answer)) => (answer, true),
            Some(Ok(request)) => self.answer_to(&request),
        };
        let HttpAnswer { status, content, body } = answer;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut out = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if has_body {
            out.push_str(&body);
        }
        socket.set_write_timeout(Some(WRITE_PATIENCE))?;
        socket.write_all(out.as_bytes())?;
        socket.shutdown(Shutdown::Write)
    }

    /// Returns the response to a request, and whether to send its body.
    fn answer_to(&self, request: &[u8]) -> (HttpAnswer, bool) {
        let bad = || (HttpAnswer::text("400 Bad Request", "this is no HTTP/1.1\n"), true);
        let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
        let Ok(line) = std::str::from_utf8(line) else { return bad() };
        let parts: Vec<&str> = line.split(' ').collect();
        let [method, target, version] = parts[..] else { return bad() };
        if !version.starts_with("HTTP/1.") {
            return bad();
        }
        if !["GET", "HEAD"].contains(&method) {
            let answer = HttpAnswer::text("405 Method Not Allowed", "only GET and HEAD\n");
            return (answer, true);
        }
        let path = target.split('?').next().unwrap_or_default();
        let nothing = || HttpAnswer::text("404 Not Found", "there are /metrics and /health\n");
        ((self.tell)(path).unwrap_or_else(nothing), method == "GET")
    }
}
