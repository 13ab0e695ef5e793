//! A client of a collector: one HTTP/1.1 request per connection, without TLS.
//!
//! Invariant: a request takes at most [`TIMEOUT`] for each of its parts, and reads at most
//! [`MAX_RESPONSE`] bytes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Maximum time to connect, to send and to receive.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a response.
const MAX_RESPONSE: u64 = 64 << 10;

/// A client of a collector. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CollectorClient {
    /// Host and port.
    authority: String,
    /// Path before those of the signals.
    base: String,
}

impl CollectorClient {
    /// Creates a client of `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// A reason why the URL is invalid.
    pub fn new(url: &str) -> Result<CollectorClient, &'static str> {
        let rest = url.strip_prefix("http://").ok_or("the URL does not begin with http://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err("the URL has no host");
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:4318") };
        let base = path.trim_end_matches('/');
        let base = if base.is_empty() { String::new() } else { format!("/{base}") };
        Ok(CollectorClient { authority, base })
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{}{path}", self.authority, self.base)
    }

    /// Posts a message, and returns the status.
    fn send(&self, path: &str, body: &[u8]) -> io::Result<u16> {
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let address = self.authority.to_socket_addrs()?.next().ok_or_else(no_address)?;
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.authority,
            body.len()
        );
        socket.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = vec![];
        socket.take(MAX_RESPONSE).read_to_end(&mut answer)?;
        let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
        let status = std::str::from_utf8(line).ok().and_then(|line| line.split(' ').nth(1));
        status
            .and_then(|s| s.parse().ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
    }

    /// Posts a message to a path of the collector.
    ///
    /// # Errors
    /// I/O errors, and an answer other than success.
    pub fn post(&self, path: &str, body: &[u8]) -> io::Result<()> {
        match self.send(&format!("{}{path}", self.base), body)? {
            200..300 => Ok(()),
            status => Err(io::Error::other(format!("the collector answered with status {status}"))),
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // A thread of the exporter calls this and may wait.
        let status = self.send(request.uri().path(), request.body())?;
        Ok(Response::builder().status(status).body(Bytes::new())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_may_have_a_port_and_a_path() {
        let url = |text: &str| CollectorClient::new(text).map(|c| c.url("/v1/traces"));
        assert_eq!(url("http://a").unwrap(), "http://a:4318/v1/traces");
        assert_eq!(url("http://a:80/otlp/").unwrap(), "http://a:80/otlp/v1/traces");
        assert_eq!(url("http://[::1]:80").unwrap(), "http://[::1]:80/v1/traces");
        for bad in ["", "a:4318", "https://a", "http://", "http:///x", "http://u@a"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }
}
