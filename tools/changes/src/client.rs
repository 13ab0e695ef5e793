//! A consumer of a change server: one HTTP/1.1 request per connection, without TLS.
//!
//! Invariants: each part of a response arrives within [`TIMEOUT`], because idle streams have
//! heartbeats. A line has at most [`MAX_LINE`] bytes.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firn_tools::output::Failure;
use serde_json::Value;

/// Maximum time to connect, and between two parts of a response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a line.
const MAX_LINE: u64 = 1 << 30;
/// Maximum bytes of the head of a response, and of a response that is no stream.
const MAX_RESPONSE: u64 = 4 << 20;

/// A client of a change server.
#[derive(Clone)]
pub struct ChangeClient {
    /// Host and port.
    authority: String,
    authorization: Option<String>,
}

impl fmt::Debug for ChangeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeClient").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Failure of a request.
#[derive(Debug)]
pub enum ClientFailure {
    /// The server cannot be reached, or the connection was lost: try again later.
    Lost(io::Error),
    /// The server refused the request: its status and the reason.
    Refused(u16, Failure),
}

impl From<io::Error> for ClientFailure {
    fn from(e: io::Error) -> ClientFailure {
        ClientFailure::Lost(e)
    }
}

impl ClientFailure {
    /// Converts it to a failure for the user. `client` names the server.
    pub fn into_failure(self, client: &ChangeClient) -> Failure {
        match self {
            ClientFailure::Lost(e) => Failure::with_next(
                format!("the change server at {} cannot be reached: {e}", client.authority),
                "start it: firn serve --changes 8043",
            ),
            ClientFailure::Refused(_, e) => e,
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Percent-encodes a part of a path or query.
fn encoded(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        b => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Body of a response: the rest of the connection, or chunks.
struct ResponseBody {
    socket: BufReader<TcpStream>,
    is_chunked: bool,
    /// Bytes left of the present chunk.
    left: u64,
    is_complete: bool,
}

impl Read for ResponseBody {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.is_chunked || self.is_complete {
            return if self.is_complete { Ok(0) } else { self.socket.read(out) };
        }
        if self.left == 0 {
            let mut line = String::new();
            self.socket.by_ref().take(32).read_line(&mut line)?;
            let len = u64::from_str_radix(line.trim_end(), 16);
            self.left = len.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            self.is_complete = self.left == 0;
            if self.is_complete {
                return Ok(0);
            }
        }
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let len = self.socket.read(&mut out[..most])?;
        if len == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= len as u64;
        if self.left == 0 {
            // A chunk ends with a line end, which arrives with it.
            self.socket.read_exact(&mut [0; 2])?;
        }
        Ok(len)
    }
}

/// Lines of a stream.
pub struct ChangeLines(BufReader<ResponseBody>);

impl fmt::Debug for ChangeLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeLines").finish_non_exhaustive()
    }
}

impl ChangeLines {
    /// Returns the next line without its end; `None` at the end of the stream.
    ///
    /// # Errors
    /// Errors of the connection, and a line that is too long.
    pub fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        (&mut self.0).take(MAX_LINE).read_line(&mut line)?;
        match line.pop() {
            None => Ok(None),
            Some('\n') => Ok(Some(line)),
            Some(_) if line.len() as u64 >= MAX_LINE - 4 => Err(invalid("a line is too long")),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reports whether a further line has arrived already, at least in part.
    pub fn has_buffered(&self) -> bool {
        !self.0.buffer().is_empty() || !self.0.get_ref().socket.buffer().is_empty()
    }
}

impl ChangeClient {
    /// Creates a client of the server at `HOST:PORT`, with the login of a role, or a password with
    /// any name.
    pub fn new(authority: &str, login: Option<(&str, &str)>) -> ChangeClient {
        let header = |(name, password): (&str, &str)| {
            format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
        };
        ChangeClient { authority: authority.to_owned(), authorization: login.map(header) }
    }

    /// Sends a request, and reads the head of the response.
    fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<BufReader<ResponseBody>, ClientFailure> {
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let address = self.authority.to_socket_addrs()?.next().ok_or_else(no_address)?;
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let login = self.authorization.iter();
        let login: String = login.map(|value| format!("Authorization: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{login}Content-Length: {}\r\n\r\n{body}",
            self.authority,
            body.len()
        );
        socket.write_all(head.as_bytes())?;
        let mut socket = BufReader::new(socket);
        let mut lines = (&mut socket).take(MAX_RESPONSE).lines();
        let mut next = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let status: Option<u16> = next()?.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| invalid("the answer is not HTTP"))?;
        let mut is_chunked = false;
        loop {
            let line = next()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            is_chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let body = ResponseBody { socket, is_chunked, left: 0, is_complete: false };
        match status {
            200 => Ok(BufReader::new(body)),
            status => Err(ClientFailure::Refused(status, refusal(status, body)?)),
        }
    }

    fn json(&self, method: &str, path: &str, body: &str) -> Result<Value, ClientFailure> {
        let body = self.send(method, path, body)?;
        let answer = serde_json::from_reader(body.take(MAX_RESPONSE));
        Ok(answer.map_err(|e| invalid(&format!("the answer is no JSON: {e}")))?)
    }

    /// Returns the subscriptions of the store.
    ///
    /// # Errors
    /// A server that cannot be reached, or refuses the request.
    pub fn subscriptions(&self) -> Result<Value, ClientFailure> {
        self.json("GET", "/changes", "")
    }

    /// Drops a subscription.
    ///
    /// # Errors
    /// Those of [`subscriptions`](ChangeClient::subscriptions).
    pub fn drop_subscription(&self, name: &str) -> Result<(), ClientFailure> {
        self.json("DELETE", &format!("/changes/{}", encoded(name)), "").map(drop)
    }

    /// Acknowledges the changes up to a position.
    ///
    /// # Errors
    /// Those of [`subscriptions`](ChangeClient::subscriptions).
    pub fn acknowledge(&self, name: &str, position: &str) -> Result<(), ClientFailure> {
        self.json("POST", &format!("/changes/{}/ack", encoded(name)), position).map(drop)
    }

    /// Begins to read the events of a subscription, with these parameters.
    ///
    /// # Errors
    /// Those of [`subscriptions`](ChangeClient::subscriptions).
    pub fn stream(
        &self,
        name: &str,
        parameters: &[(&str, String)],
    ) -> Result<ChangeLines, ClientFailure> {
        let query = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let query = query.collect::<Vec<_>>().join("&");
        let path = format!("/changes/{}?{query}", encoded(name));
        self.send("GET", &path, "").map(ChangeLines)
    }
}

/// Reads the reason of a refusal.
fn refusal(status: u16, body: ResponseBody) -> io::Result<Failure> {
    let mut text = String::new();
    body.take(MAX_RESPONSE).read_to_string(&mut text)?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let field = |name: &str| answer[name].as_str().map(str::to_owned);
    if status == 401 {
        return Ok(Failure::with_next(
            "the change server requires a login",
            "log in with --user NAME; a server with a password accepts any name",
        ));
    }
    let what = field("error").unwrap_or_else(|| format!("{status}: {}", text.trim_end()));
    Ok(Failure::Failed {
        what: format!("the change server refused the request: {what}"),
        next: field("next"),
    })
}
