//! Floor 0: a port for those who watch the server: GET and HEAD of HTTP/1.1, one request for each
//! connection. It knows nothing of what is told there.
//!
//! Invariants: a few threads serve it, each one client at a time, and no client holds one for longer
//! than a fixed time; a request has at most 8 KiB; nothing that a client sends is kept.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_kv::{Env, Thread};
use parking_lot::Mutex;

/// Clients that are served at once.
const THREADS: usize = 4;
/// The longest request.
const MOST: usize = 8 << 10;
/// How long a client may take to send its request, and to take each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The code and its words.
    pub status: &'static str,
    /// What the body is.
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

struct HttpRoom {
    env: Arc<dyn Env>,
    /// What is told at a path.
    tell: Tell,
    stopped: AtomicBool,
    /// The clients that are being served.
    served: [Mutex<Option<Arc<TcpStream>>>; THREADS],
}

/// A port that is listened at.
pub struct HttpPort {
    room: Arc<HttpRoom>,
    address: SocketAddr,
    threads: Mutex<Vec<Box<dyn Thread>>>,
}

impl HttpPort {
    /// Listens; `tell` says what is told at a path.
    ///
    /// # Errors
    /// Threads that can't be started.
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
            served: Default::default(),
        });
        // It goes with the last of the threads.
        let listener = Arc::new(listener);
        let port = HttpPort { room, address, threads: Mutex::default() };
        for n in 0..THREADS {
            let (room, listener) = (port.room.clone(), listener.clone());
            // When one can't be started, those that were are stopped as the port is dropped.
            let thread =
                env.spawn(&format!("firn-http-{n}"), Box::new(move || room.serve(n, &listener)))?;
            port.threads.lock().push(thread);
        }
        Ok(port)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening. Clients that are being served are cut off.
    pub fn stop(&self) {
        self.room.stopped.store(true, Ordering::SeqCst);
        let threads = std::mem::take(&mut *self.threads.lock());
        for client in &self.room.served {
            if let Some(socket) = &*client.lock() {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        // Those who wait for a client find out by one.
        threads.iter().for_each(|_| drop(TcpStream::connect(self.address)));
        threads.into_iter().for_each(|t| t.join());
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.stop();
    }
}

impl HttpRoom {
    fn serve(&self, n: usize, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if let Ok((socket, _)) = &accepted {
                // Without it a request works, too.
                let _ = socket.set_nodelay(true);
            }
            match accepted.map(|(socket, _)| Arc::new(socket)) {
                Ok(socket) => {
                    *self.served[n].lock() = Some(socket.clone());
                    if self.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    // A client that goes away is no matter.
                    let _ = self.answer(&socket);
                    *self.served[n].lock() = None;
                }
                Err(_) if self.stopped.load(Ordering::SeqCst) => return,
                Err(e) => {
                    tracing::warn!("a connection for metrics could not be accepted: {e}");
                    self.env.sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Reads what comes before the empty line. `None`: the client has gone, or takes too long.
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

    fn answer(&self, mut socket: &TcpStream) -> std::io::Result<()> {
        let (answer, has_body) = match self.request(socket) {
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
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.write_all(out.as_bytes())?;
        socket.shutdown(Shutdown::Write)
    }

    /// The answer to a request, and whether its body is wanted.
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
