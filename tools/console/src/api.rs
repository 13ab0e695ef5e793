//! The paths of the console.

use std::sync::Arc;
use std::time::Duration;

use firn_cql::Session;
use firn_kv::Env;
use firn_server::http::{HttpBody, HttpRequest, HttpResponse};
use firn_tools::keys;
use firn_tools::options;
use firn_tools::output::{Done, Failure};
use firn_tools::shell;
use firn_tools::stats::stats_json;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::assets;
use crate::explain::{self, Explained};
use crate::monitor::Monitor;
use crate::shape::shape_json;
use crate::simulate::Simulation;
use crate::statements::{RunningStatements, refused};
use crate::store::{ConsoleStore, OpenedStore};

/// Scripts, styles and data come from the console only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Maximum rows of an explained statement, and keys of a range.
const EXPLAIN_LIMIT: usize = 1000;
/// Longest sample of reads in seconds.
const MAX_SAMPLE_SECONDS: u64 = 30;
/// Maximum number of trees in a listing.
const MAX_TREES: usize = 2000;

/// State of a console.
pub struct Api {
    pub env: Arc<dyn Env>,
    pub store: Arc<ConsoleStore>,
    pub access: Access,
    pub monitor: Arc<Monitor>,
    pub statements: RunningStatements,
    pub simulation: Arc<Simulation>,
    pub may_write: bool,
    /// Held while reads are recorded: a recording has the reads of all threads.
    pub recording: Mutex<()>,
}

fn json_response(status: &'static str, value: &Value) -> HttpResponse {
    HttpResponse::new(status, "application/json", value.to_string())
}

fn failed(e: &Failure) -> HttpResponse {
    json_response("400 Bad Request", &json!({"error": e.words(), "next": e.next()}))
}

impl Api {
    /// Answers a request.
    pub fn respond(&self, request: &HttpRequest) -> HttpResponse {
        let mut response = match self.access.check(request, self.store.db_session()) {
            Ok(session) => self.route(request, session),
            Err(refusal) => refusal,
        };
        for (name, value) in [
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ] {
            response.headers.push((name, value.to_owned()));
        }
        response
    }

    fn route(&self, request: &HttpRequest, session: Option<Session>) -> HttpResponse {
        let path = &*request.path;
        let done = match (&*request.method, path) {
            ("GET" | "HEAD", "/") => {
                let page = assets::page(self.access.token());
                return HttpResponse::new("200 OK", "text/html; charset=utf-8", page);
            }
            ("GET", "/api/live") => {
                let body = HttpBody::Stream(self.monitor.stream());
                return HttpResponse {
                    body,
                    ..HttpResponse::new("200 OK", "text/event-stream; charset=utf-8", "")
                };
            }
            ("GET", "/api/recording") => return self.recording(),
            ("GET", "/api/store") => self.store_json(session.as_ref()),
            ("GET", "/api/samples") => Ok(self.monitor.history()),
            ("GET", "/api/trees") => self.trees(),
            ("GET", "/api/shape") => self.shape(request),
            ("GET", "/api/schema") => self.schema(session.as_ref()),
            ("GET", "/api/simulate") => Ok(self.simulation.state()),
            ("POST", _) => self.post(path, &request.body, session.as_ref()),
            ("GET" | "HEAD", path) => {
                return assets::file(path).map_or_else(
                    || HttpResponse::text("404 Not Found", "no such page: the console is at /\n"),
                    |(kind, content)| HttpResponse::new("200 OK", kind, content),
                );
            }
            _ => return HttpResponse::text("405 Method Not Allowed", "GET or POST\n"),
        };
        match done {
            Ok(value) => json_response("200 OK", &value),
            Err(e) => failed(&e),
        }
    }

    fn post(&self, path: &str, body: &[u8], session: Option<&Session>) -> Done<Value> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|e| Failure::new(format!("the request is no JSON: {e}")))?;
        let tree = || body["tree"].as_str().unwrap_or_default();
        match path {
            "/api/cql" => {
                let session = self.session(session)?;
                self.statements.run(&session, &body, self.may_write)
            }
            "/api/explain" => self.explain(&body, session),
            "/api/sample-reads" => self.sample_reads(&body),
            "/api/simulate" => {
                let dir = self.store.dir().ok_or_else(|| {
                    Failure::new("a store in memory has no event log to simulate")
                })?;
                self.simulation.start(dir, &body)?;
                Ok(self.simulation.state())
            }
            "/api/recording" => {
                self.monitor.record(tree())?;
                Ok(json!({"recording": tree()}))
            }
            _ => Err(Failure::new(format!("no such request: {path}"))),
        }
    }

    /// Returns the session of a role, or one that sees the current state of a followed store.
    fn session(&self, session: Option<&Session>) -> Done<Session> {
        match session.filter(|s| s.role().is_some() || !self.store.is_followed()) {
            Some(session) => Ok(session.clone()),
            None => self.store.session(),
        }
    }

    fn recording(&self) -> HttpResponse {
        let names = self.store.current().map(|open| open.names()).unwrap_or_default();
        let displayed = |tree: &str| names.of_tree(tree).unwrap_or(tree).to_owned();
        let Some(page) = self.monitor.recording(displayed) else {
            return HttpResponse::text(
                "404 Not Found",
                "no tree is recorded: start on page Shape\n",
            );
        };
        let mut response = HttpResponse::new("200 OK", "text/html; charset=utf-8", page);
        // The page has a script of its own, which the console's policy forbids.
        let name = "attachment; filename=\"firn-recording.html\"".to_owned();
        response.headers.push(("Content-Disposition", name));
        response
    }

    fn store_json(&self, session: Option<&Session>) -> Done<Value> {
        let db = self.store.db();
        let keyspaces: Vec<String> = match session {
            Some(_) => {
                let session = self.session(session)?;
                let rows = session.execute("SELECT keyspace_name FROM system_schema.keyspaces", ());
                let mut names: Vec<String> = rows
                    .map_err(refused)?
                    .iter()
                    .filter_map(|row| row.at::<String>(0).ok())
                    .filter(|name| !name.starts_with("system"))
                    .collect();
                names.sort();
                names
            }
            None => vec![],
        };
        Ok(json!({
            "dir": self.store.dir().map(|d| d.display().to_string()),
            "version": env!("CARGO_PKG_VERSION"),
            "followed": self.store.is_followed(),
            "read_only": db.is_read_only(),
            "may_write": self.may_write,
            "cql": session.is_some(),
            "role": session.and_then(|s| s.role().map(str::to_owned)),
            "keyspaces": keyspaces,
            "format_version": db.format_version(),
        }))
    }

    fn trees(&self) -> Done<Value> {
        let OpenedStore { session, .. } = self.store.current()?;
        let db = self.store.db();
        let names = OpenedStore { db: db.clone(), session }.names();
        let mut all = stats_json(&db.stats());
        let mut trees = all["trees"].take();
        let count = trees.as_array().map_or(0, Vec::len);
        for tree in trees.as_array_mut().into_iter().flatten().take(MAX_TREES) {
            let name = tree["name"].as_str().unwrap_or_default().to_owned();
            tree["holds"] = names.json(&name);
            tree["words"] = names.of_tree(&name).into();
            let Ok(open) = db.existing_tree(&name) else { continue };
            let of = open.options();
            tree["policy"] = of.policy.to_string().into();
            let texts = |all: Vec<(&'static str, String)>| -> Map<String, Value> {
                all.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
            };
            tree["options"] = texts(options::list(&of)).into();
            tree["unusual"] = texts(options::unusual(&of)).into();
        }
        if let Some(trees) = trees.as_array_mut() {
            trees.truncate(MAX_TREES);
        }
        let snapshots = all["snapshots"].take();
        Ok(
            json!({"trees": trees, "count": count, "snapshots": snapshots, "pins": all["pins"].take()}),
        )
    }

    fn shape(&self, request: &HttpRequest) -> Done<Value> {
        let tree = request.parameter("tree").unwrap_or_default();
        let names = self.store.current()?.names();
        Ok(shape_json(&self.store.db(), &names, &tree)?)
    }

    /// Returns the statement that creates each keyspace, table, type and so on.
    fn schema(&self, session: Option<&Session>) -> Done<Value> {
        if session.is_none() {
            return Ok(json!({"items": []}));
        }
        let session = self.session(session)?;
        let rows = session.execute("DESCRIBE FULL SCHEMA", ()).map_err(refused)?;
        let item = |row: firn_cql::Row<'_>| {
            let text = |i| row.at::<String>(i).unwrap_or_default();
            json!({"keyspace": text(0), "type": text(1), "name": text(2), "statement": text(3)})
        };
        let own =
            |item: &Value| !item["keyspace"].as_str().unwrap_or_default().starts_with("system");
        Ok(json!({"items": rows.iter().map(item).filter(own).collect::<Vec<_>>()}))
    }

    fn firn(&self) -> String {
        self.store.dir().map_or("firn".to_owned(), |dir| format!("firn --db {}", shell::path(dir)))
    }

    /// Explains the read of a request: `statement` with `keyspace`, or `tree` and `key` with `hex`;
    /// and `warm`.
    fn explain(&self, body: &Value, session: Option<&Session>) -> Done<Value> {
        let one = self.recording.try_lock().ok_or_else(|| {
            Failure::with_next("reads are being recorded already", "try again in a moment")
        })?;
        let open = self.store.current()?;
        let how = Explained {
            names: Arc::new(open.names()),
            firn: self.firn(),
            limit: EXPLAIN_LIMIT,
            warm: body["warm"].as_bool().unwrap_or(false),
        };
        let text = |field: &str| body[field].as_str().unwrap_or_default();
        let explanation = if text("statement").is_empty() {
            let tree = open.db.existing_tree(text("tree"))?;
            let hex = body["hex"].as_bool().unwrap_or(false);
            let key = keys::key(std::ffi::OsStr::new(text("key")), hex)?;
            explain::key(&open.db, &tree, &key, how)?
        } else {
            let session = self.session(session)?.clone();
            if let Some(keyspace) = Some(text("keyspace")).filter(|k| !k.is_empty()) {
                let name = firn_cql::quote_if_needed(keyspace);
                session.execute(&format!("USE {name}"), ()).map_err(refused)?;
            }
            explain::statement(&session, text("statement"), how)?
        };
        drop(one);
        Ok(explain::json(&explanation))
    }

    /// Records all reads of this process for some `seconds`, and returns the most expensive keys.
    fn sample_reads(&self, body: &Value) -> Done<Value> {
        let seconds = body["seconds"].as_u64().unwrap_or(5).clamp(1, MAX_SAMPLE_SECONDS);
        let _one = self.recording.try_lock().ok_or_else(|| {
            Failure::with_next("reads are being recorded already", "try again in a moment")
        })?;
        let recording = self.store.db().record_reads();
        self.env.sleep(Duration::from_secs(seconds));
        let recorded = recording.finish();
        Ok(explain::costly_json(&recorded, &self.store.current()?.names()))
    }
}
