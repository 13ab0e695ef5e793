//! A key-value service over HTTP, with axum:
//!
//! ```text
//! cargo run -p firn-tokio --example axum -- /tmp/store 127.0.0.1:8080
//! curl -X PUT  http://127.0.0.1:8080/keys/apple -d red
//! curl         http://127.0.0.1:8080/keys/apple
//! curl -X DELETE http://127.0.0.1:8080/keys/apple
//! curl        'http://127.0.0.1:8080/range?from=a&until=b'
//! ```
//!
//! A range is sent as one JSON object a line, while it is read.

use std::future::Future;
use std::ops::Bound;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use firn_kv::TreeOptions;
use firn_tokio::{AsyncDb, AsyncTree};
use futures_util::TryStreamExt;
use serde::Deserialize;
use tokio::net::TcpListener;

/// An error of the store, as a response.
struct Failed(firn_kv::Error);

impl From<firn_kv::Error> for Failed {
    fn from(error: firn_kv::Error) -> Failed {
        Failed(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            firn_kv::ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
            firn_kv::ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.0.to_string()).into_response()
    }
}

async fn read(State(tree): State<AsyncTree>, Path(key): Path<String>) -> Result<Response, Failed> {
    Ok(match tree.get(key).await? {
        Some(value) => value.to_vec().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

async fn write(
    State(tree): State<AsyncTree>,
    Path(key): Path<String>,
    value: Bytes,
) -> Result<StatusCode, Failed> {
    tree.put(key, value).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete(
    State(tree): State<AsyncTree>,
    Path(key): Path<String>,
) -> Result<StatusCode, Failed> {
    tree.delete(key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Bounds of a range; without one, the first or the last key.
#[derive(Deserialize)]
struct Bounds {
    from: Option<String>,
    until: Option<String>,
}

async fn range(State(tree): State<AsyncTree>, Query(bounds): Query<Bounds>) -> Response {
    let from = bounds.from.map_or(Bound::Unbounded, Bound::Included);
    let until = bounds.until.map_or(Bound::Unbounded, Bound::Excluded);
    // The response reads the next chunk only when the client has taken this one. If the client
    // leaves, the stream is dropped.
    let lines = tree.range((from, until)).map_ok(|(key, value)| {
        let (key, value) = (String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
        format!("{}\n", serde_json::json!({ "key": key, "value": value }))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

/// Serves the store until `stop` completes, then closes it.
pub async fn serve(
    listener: TcpListener,
    db: AsyncDb,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tree = db.tree("keys", TreeOptions::default()).await?;
    let routes = Router::new()
        .route("/keys/{key}", get(read).put(write).delete(delete))
        .route("/range", get(range))
        .with_state(tree);
    axum::serve(listener, routes).with_graceful_shutdown(stop).await?;
    Ok(db.close().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(address)) = (args.next(), args.next()) else {
        return Err("usage: axum DIRECTORY ADDRESS".into());
    };
    let db = AsyncDb::open(dir).await?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    serve(listener, db, async { drop(tokio::signal::ctrl_c().await) }).await
}
