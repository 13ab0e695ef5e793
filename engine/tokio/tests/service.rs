//! Runs the example with axum on a loopback port.

use firn_kv::Db;
use firn_tokio::{AsyncDb, AsyncOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::on_both;

#[path = "../examples/axum.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod example;

/// Sends a request and returns the status and the body.
async fn request(port: u16, line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    (status, if is_chunked { unchunked(body) } else { body.to_owned() })
}

/// Joins the chunks of a body: each has its length in a line before it.
fn unchunked(mut body: &str) -> String {
    let mut all = String::new();
    loop {
        let (len, rest) = body.split_once("\r\n").unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return all;
        }
        all += &rest[..len];
        body = &rest[len + 2..];
    }
}

#[test]
fn the_service_reads_writes_deletes_and_streams() {
    on_both(|| async {
        let limits = AsyncOptions { chunk_entries: 3, ..AsyncOptions::default() };
        let db = AsyncDb::with_options(Db::in_memory()?, limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(example::serve(listener, db, async { drop(stopped.await) }));

        assert_eq!(request(port, "GET /keys/apple", "").await, (404, String::new()));
        for n in 0..10 {
            let line = format!("PUT /keys/k{n}");
            assert_eq!(request(port, &line, &format!("v\"{n}")).await.0, 204);
        }
        assert_eq!(request(port, "GET /keys/k3", "").await, (200, "v\"3".to_owned()));
        assert_eq!(request(port, "DELETE /keys/k3", "").await.0, 204);
        assert_eq!(request(port, "GET /keys/k3", "").await.0, 404);
        let (status, lines) = request(port, "GET /range?from=k2&until=k5", "").await;
        assert_eq!(
            (status, lines.as_str()),
            (200, "{\"key\":\"k2\",\"value\":\"v\\\"2\"}\n{\"key\":\"k4\",\"value\":\"v\\\"4\"}\n")
        );
        assert_eq!(request(port, "GET /range", "").await.1.lines().count(), 9);

        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
        Ok(())
    });
}
