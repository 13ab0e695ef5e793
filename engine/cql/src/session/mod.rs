//! Floor 4: the API of applications. A [`Session`] runs statements, prepares them and holds the
//! current keyspace.
//!
//! ```
//! use firn_cql::Session;
//! # let dir = std::env::temp_dir().join(format!("firn-doc-cql-session-{}", std::process::id()));
//! let session = Session::open(&dir)?;
//! session.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
//! session.execute("USE shop", ())?;
//! session.execute("CREATE TABLE items (id int PRIMARY KEY, tags set<text>)", ())?;
//! let text: String = session.execute("DESCRIBE TABLE items", ())?.row(0).unwrap().get("create_statement")?;
//! assert!(text.starts_with("CREATE TABLE shop.items (\n    id int PRIMARY KEY,\n    tags set<text>\n) WITH "));
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), firn_cql::Error>(())
//! ```

mod cache;
mod log;
mod paged;
mod prepared;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorClass, Result, invalid, unauthorized};
pub use crate::exec::RunOptions;
use crate::exec::{Engine, Request, ResultKind, Rows, check, compile, define, password, run_batch};
use crate::script::with_scripts;
use crate::syntax::ast::{BatchKind, Statement};
use crate::syntax::{ParsedStatement, parse};
use crate::values::{BoundValue, Values, check_amount};
use cache::{StatementCache, cache_bytes};
use firn_kv::MemEnv;
use firn_wide::internals::types::hex;
use firn_wide::{Options, Wide};
pub use log::{LoggedSize, LoggedStatement, RanStatement, StatementLog, StatementStart};
use md5::{Digest, Md5};
pub use paged::{OwnedRow, PagedRows, Typed};
use parking_lot::{Mutex, RwLock};
use prepared::Compiled;
pub use prepared::Prepared;

/// Estimated bytes of a compiled statement besides its text and its plan's heap memory.
const BY_STATEMENT: usize = 1 << 10;

/// A password hash that no password matches.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$\
                      1PxAW8BRn1WBY5sCSSVZ2Nw8Fk9nGbb4Gd2m1cFXcMs";

/// A session with a database. Clones are cheap: they share the database and the prepared
/// statements, and each has its own current keyspace.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    cache: Arc<Mutex<StatementCache>>,
    keyspace: RwLock<Option<Arc<str>>>,
    /// The role that has logged in.
    login: OnceLock<SessionLogin>,
    /// The log to which its statements are written.
    log: OnceLock<Arc<StatementLog>>,
}

impl Clone for Session {
    fn clone(&self) -> Session {
        Session {
            engine: self.engine.clone(),
            cache: self.cache.clone(),
            keyspace: RwLock::new(self.keyspace()),
            login: self.login.clone(),
            log: self.log.clone(),
        }
    }
}

/// A role that has logged in.
#[derive(Clone, Debug)]
struct SessionLogin {
    role: Arc<str>,
    /// Id of the role at the login ([`RoleEntry::id`](crate::catalog::RoleEntry::id)).
    id: u64,
}

/// Result of the first phase of executing a statement.
enum StatementOutcome {
    /// The statement is done.
    Done(Box<Rows>),
    /// The statement reads or writes rows and has been compiled.
    Compiled(Prepared),
}

/// A statement's text with its current keyspace, and their digest, which is the key in the cache.
struct CompileRequest<'t> {
    key: [u8; 16],
    keyspace: Option<Arc<str>>,
    text: &'t str,
}

fn key_of(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default());
    digest.update([0]);
    digest.update(text);
    digest.finalize().into()
}

/// Returns the id of a prepared statement, computed as in Cassandra. It depends on the current
/// keyspace only if the statement does: a client may prepare it again in another keyspace.
fn id_of(keyspace: Option<&str>, text: &str, statement: &Statement<'_>) -> [u8; 16] {
    let is_about_rows =
        matches!(statement, Statement::Select(_) | Statement::Change(_) | Statement::Batch(_));
    let keyspace = keyspace.filter(|_| !is_about_rows || !statement.is_qualified());
    let digest = Md5::new().chain_update(keyspace.unwrap_or_default()).chain_update(text);
    digest.finalize().into()
}

impl Session {
    /// Opens the database in `dir`, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// `Server` or `Configuration` if it cannot be opened.
    pub fn open(dir: impl AsRef<Path>) -> Result<Session> {
        Session::new(Wide::open_with(dir, with_scripts(Options::default()))?)
    }

    /// Opens the database in `dir` with these options.
    ///
    /// # Errors
    /// As [`open`](Session::open).
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Session> {
        Session::new(Wide::open_with(dir, with_scripts(options))?)
    }

    /// Creates an empty database in memory, which is dropped with its last handle. It uses the
    /// clock and random numbers of the operating system: `now()` is the current time, TTLs expire,
    /// and `uuid()` values are unique.
    ///
    /// ```
    /// use firn_cql::Session;
    /// let session = Session::in_memory()?;
    /// session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
    /// session.execute("CREATE TABLE k.t (id uuid PRIMARY KEY, at timestamp)", ())?;
    /// session.execute("INSERT INTO k.t (id, at) VALUES (uuid(), toTimestamp(now()))", ())?;
    /// session.execute("INSERT INTO k.t (id, at) VALUES (uuid(), toTimestamp(now()))", ())?;
    /// assert_eq!(session.execute("SELECT id FROM k.t WHERE at > '2025-01-01' ALLOW FILTERING", ())?.len(), 2);
    /// # Ok::<(), firn_cql::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Server` if there is not enough memory.
    pub fn in_memory() -> Result<Session> {
        let mut options = with_scripts(Options::default());
        options.store.db.event_log = false;
        Session::new(Wide::open_in(Arc::new(MemEnv::plain()), "/", options)?)
    }

    /// Creates a session with an open database. Create one session per database and clone it.
    ///
    /// # Errors
    /// `Server` if its schema cannot be decoded.
    pub fn new(wide: Wide) -> Result<Session> {
        let most_bytes = cache_bytes(wide.db().stats().memory.budget);
        Ok(Session {
            engine: Engine::open(wide)?,
            cache: Arc::new(Mutex::new(StatementCache::new(most_bytes))),
            keyspace: RwLock::new(None),
            login: OnceLock::new(),
            log: OnceLock::new(),
        })
    }

    /// Returns the open database, without stability promises
    /// ([`internals::exec`](crate::internals::exec)).
    #[doc(hidden)]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Closes the database for all its sessions, and reports whether all writes are durable:
    /// [`firn_kv::Db::close`]. Dropping the last session closes it too but ignores errors. Later
    /// statements fail with the class [`Server`](crate::ErrorClass::Server).
    ///
    /// ```
    /// use firn_cql::Session;
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-cql-close-{}", std::process::id()));
    /// let session = Session::open(&dir)?;
    /// session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
    /// session.close()?; // all of it is safe
    /// let again = Session::open(&dir)?; // beside the old one
    /// again.execute("USE k", ())?;
    /// # drop((session, again)); std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), firn_cql::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`firn_kv::Db::close`]: the database is closed even then. Those of the statement
    /// log ([`StatementLog::flush`]).
    pub fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        closed.and(self.log.get().map_or(Ok(()), |log| log.flush()))
    }

    /// Returns the current keyspace.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.read().clone()
    }

    /// Returns the role that has logged in. `None`: no role has, and everything is allowed.
    pub fn role(&self) -> Option<&str> {
        self.login.get().map(|login| &*login.role)
    }

    /// Refuses a session whose role was dropped, even if a new role has the same name. Every
    /// statement calls this first.
    ///
    /// # Errors
    /// `Unauthorized`.
    #[doc(hidden)]
    pub fn check_login(&self) -> Result<()> {
        let Some(SessionLogin { role, id }) = self.login.get() else { return Ok(()) };
        if self.engine.catalog().role(role).is_some_and(|found| found.id == *id) {
            return Ok(());
        }
        Err(unauthorized!(
            "The role {role} that this session has logged in as was dropped; log in again"
        ))
    }

    /// Logs in. This session, and clones made of it later, get the permissions of the role.
    ///
    /// ```
    /// use firn_cql::Session;
    /// let session = Session::in_memory()?;
    /// session.execute("CREATE ROLE ann WITH LOGIN = true AND HASHED PASSWORD = '$2a$10$x'", ())?;
    /// assert!(session.clone().log_in("ann", "a guess").is_err());
    /// # Ok::<(), firn_cql::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BadCredentials` if no role has this name and password, or if it may not log in; all these
    /// cases take the same time. `Invalid` if the session has already logged in.
    pub fn log_in(&self, name: &str, password: &str) -> Result<()> {
        let catalog = self.engine.catalog();
        let role = catalog.role(name).filter(|r| r.can_login);
        let (hash, id) = (role.and_then(|r| r.salted_hash.as_deref()), role.map_or(0, |r| r.id));
        // The time must not reveal which names exist.
        let good = password::is_of(password, hash.unwrap_or(NOBODY));
        if hash.is_none() || !good {
            let text = "Provided username and/or password are incorrect";
            return Err(Error::refused(ErrorClass::BadCredentials, text));
        }
        let twice = || invalid("This session has logged in already");
        self.login.set(SessionLogin { role: name.into(), id }).map_err(|_| twice())
    }

    /// Writes the statements of this session, and of clones made of it later, to a log
    /// ([`StatementLog`]). Texts that `execute` and `query` refuse are written too.
    ///
    /// # Errors
    /// `Invalid` if the session already has a log.
    pub fn log_statements(&self, log: Arc<StatementLog>) -> Result<()> {
        self.log
            .set(log)
            .map_err(|_| invalid("This session writes its statements to a log already"))
    }

    /// Executes a statement. Statements that read or write rows are compiled once and cached.
    ///
    /// # Errors
    /// Errors of the statement, which then had no effect.
    pub fn execute(&self, cql: &str, values: impl Values) -> Result<Rows> {
        self.execute_with(cql, values, &RunOptions::default())
    }

    /// Executes a statement with these options.
    ///
    /// # Errors
    /// Those of [`execute`](Session::execute).
    pub fn execute_with(&self, cql: &str, values: impl Values, how: &RunOptions) -> Result<Rows> {
        match self.begin(cql, &values, how)? {
            StatementOutcome::Done(rows) => Ok(*rows),
            StatementOutcome::Compiled(prepared) => self.run(&prepared, values, how),
        }
    }

    /// Compiles a statement that reads or writes rows, or finds it in the cache. Executes any other
    /// statement.
    fn begin(&self, cql: &str, values: &impl Values, how: &RunOptions) -> Result<StatementOutcome> {
        let Some(log) = self.log.get() else { return self.begin_unlogged(cql, values, how) };
        let (start, keyspace) = (log.start(), how.keyspace.clone().or_else(|| self.keyspace()));
        let begun = self.begin_unlogged(cql, values, how);
        let outcome = match &begun {
            // It is logged after it has run.
            Ok(StatementOutcome::Compiled(_)) => return begun,
            Ok(StatementOutcome::Done(rows)) => Ok(&**rows),
            Err(e) => Err(e.class().name()),
        };
        let ran =
            RanStatement { keyspace: keyspace.as_deref(), text: cql, markers: &[], values: &[] };
        log.ran(start, None, &[ran], false, outcome);
        begun
    }

    fn begin_unlogged(
        &self,
        cql: &str,
        values: &impl Values,
        how: &RunOptions,
    ) -> Result<StatementOutcome> {
        self.engine.refresh_catalog()?;
        self.check_login()?;
        let asked = self.asked(how.keyspace.as_ref(), cql);
        if let Some(found) = self.cached(&asked.key) {
            return Ok(StatementOutcome::Compiled(found));
        }
        let parsed = parse(cql)?;
        if parsed.markers == 0 {
            // A definition takes no values: check that before it is executed.
            values.bind(&[])?;
        }
        let role = self.role();
        if let Some(rows) = define(
            &self.engine,
            asked.keyspace.as_deref(),
            role,
            &parsed.statement,
            how.stop.as_ref(),
        )? {
            self.choose(&rows);
            return Ok(StatementOutcome::Done(Box::new(rows)));
        }
        self.compile(asked, &parsed, false).map(StatementOutcome::Compiled)
    }

    /// Makes the keyspace of a `USE` statement the current one.
    fn choose(&self, rows: &Rows) {
        if let ResultKind::SetKeyspace(chosen) = rows.kind() {
            *self.keyspace.write() = Some(chosen.as_str().into());
        }
    }

    fn asked<'t>(&self, keyspace: Option<&Arc<str>>, text: &'t str) -> CompileRequest<'t> {
        let keyspace = keyspace.cloned().or_else(|| self.keyspace());
        CompileRequest { key: key_of(keyspace.as_deref(), text), keyspace, text }
    }

    fn cached(&self, key: &[u8; 16]) -> Option<Prepared> {
        let found = self.cache.lock().get(key)?;
        (found.0.version == self.engine.catalog_version()).then_some(found)
    }

    /// Compiles a statement, or finds it in the cache. A definition is checked when it is executed.
    ///
    /// # Errors
    /// Errors of the statement.
    pub fn prepare(&self, cql: &str) -> Result<Prepared> {
        self.prepare_in(None, cql)
    }

    /// Like [`prepare`](Session::prepare), with this current keyspace. `None`: that of the session.
    ///
    /// # Errors
    /// Those of [`prepare`](Session::prepare).
    pub fn prepare_in(&self, keyspace: Option<&Arc<str>>, cql: &str) -> Result<Prepared> {
        self.compiled(keyspace, cql, true)
    }

    /// Like [`prepare_in`](Session::prepare_in), for a statement that will run once: a large one is
    /// not cached.
    ///
    /// # Errors
    /// Those of [`prepare`](Session::prepare).
    #[doc(hidden)]
    pub fn compile_once(&self, keyspace: Option<&Arc<str>>, cql: &str) -> Result<Prepared> {
        self.compiled(keyspace, cql, false)
    }

    fn compiled(
        &self,
        keyspace: Option<&Arc<str>>,
        cql: &str,
        is_prepared: bool,
    ) -> Result<Prepared> {
        self.engine.refresh_catalog()?;
        self.check_login()?;
        let asked = self.asked(keyspace, cql);
        match self.cached(&asked.key) {
            Some(found) => Ok(found),
            None => self.compile(asked, &parse(cql)?, is_prepared),
        }
    }

    fn compile(
        &self,
        asked: CompileRequest<'_>,
        parsed: &ParsedStatement<'_>,
        is_prepared: bool,
    ) -> Result<Prepared> {
        let CompileRequest { key, keyspace, text } = asked;
        let mut catalog = self.engine.catalog();
        let mut plan = compile(&self.engine, &catalog, keyspace.as_ref(), text, parsed);
        if plan.is_err() {
            // The statement may name a table that a Thrift client has just created, which the
            // catalog does not have yet.
            let fresh = self.engine.fresh_catalog()?;
            if fresh.version() != catalog.version() {
                plan = compile(&self.engine, &fresh, keyspace.as_ref(), text, parsed);
                catalog = fresh;
            }
        }
        let plan = plan?;
        let text_bytes = text.len() + keyspace.as_ref().map_or(0, |k| k.len());
        let prepared = Prepared(Arc::new(Compiled {
            key,
            id: id_of(keyspace.as_deref(), text, &parsed.statement),
            heap_bytes: BY_STATEMENT + text_bytes + plan.heap_bytes(),
            text: text.to_owned(),
            masked: log::masked(&parsed.statement),
            keyspace,
            is_qualified: parsed.statement.is_qualified(),
            version: catalog.version(),
            plan,
        }));
        // Do not hold passwords in memory longer than necessary.
        if is_prepared || prepared.0.masked.is_none() {
            self.cache.lock().put(prepared.clone(), is_prepared);
        }
        Ok(prepared)
    }

    /// Returns the number of compiled statements in the database's cache, and their bytes. The
    /// limit is one thirty-second of the memory budget, or 1 MiB if that is more.
    #[doc(hidden)]
    pub fn cached_statements(&self) -> (usize, usize) {
        self.cache.lock().counts()
    }

    /// Returns the prepared statement with this id, as a client of the native protocol requests it.
    ///
    /// # Errors
    /// `Unprepared` if it is not known.
    #[doc(hidden)]
    pub fn prepared(&self, id: &[u8]) -> Result<Prepared> {
        let missing = || {
            Error::refused(
                ErrorClass::Unprepared,
                format!("Prepared query with ID {} not found", hex(id)),
            )
        };
        self.cache.lock().find(id).ok_or_else(missing)
    }

    /// Returns a compiled statement that is valid for the current definitions.
    fn present<'p>(&self, prepared: &'p Prepared) -> Result<Cow<'p, Prepared>> {
        self.engine.refresh_catalog()?;
        self.check_login()?;
        if prepared.0.version == self.engine.catalog_version() {
            return Ok(Cow::Borrowed(prepared));
        }
        // Another session may have compiled it already.
        if let Some(found) = self.cached(&prepared.0.key) {
            return Ok(Cow::Owned(found));
        }
        let Compiled { key, text, keyspace, .. } = &*prepared.0;
        let asked = CompileRequest { key: *key, keyspace: keyspace.clone(), text };
        self.compile(asked, &parse(text)?, true).map(Cow::Owned)
    }

    /// Refuses a statement that the role may not run.
    fn check_access(&self, role: Option<&str>, prepared: &Prepared) -> Result<()> {
        if role.is_none() {
            return Ok(());
        }
        check(&self.engine.catalog(), role, prepared.0.plan.needs())
    }

    /// Executes a compiled statement.
    ///
    /// # Errors
    /// Those of [`execute`](Session::execute).
    pub fn run(&self, prepared: &Prepared, values: impl Values, how: &RunOptions) -> Result<Rows> {
        let prepared = &*self.present(prepared)?;
        let role = self.role();
        self.check_access(role, prepared)?;
        let bound = values.into_bound(prepared.markers())?;
        check_amount(bound.len(), prepared.markers())?;
        let request = Request { bound: &bound, role, run: how };
        let start = self.log.get().map(|log| log.start());
        let done = prepared.0.plan.run(&self.engine, &request);
        self.write_down(start, None, &[(prepared, &bound)], how, &done);
        let rows = done?;
        self.choose(&rows);
        Ok(rows)
    }

    /// Logs a statement that ran, if there is a log.
    fn write_down(
        &self,
        start: Option<StatementStart>,
        batch: Option<BatchKind>,
        members: &[(&Prepared, &[BoundValue])],
        how: &RunOptions,
        done: &Result<Rows>,
    ) {
        let (Some(log), Some(start)) = (self.log.get(), start) else { return };
        let members: Vec<_> = members.iter().map(|(p, values)| p.as_ran(values)).collect();
        let outcome = done.as_ref().map_err(|e| e.class().name());
        log.ran(start, batch, &members, how.paging.is_some(), outcome);
    }

    /// Executes compiled changes as one batch: all are applied, or none. It uses only the
    /// timestamp, `now_in_seconds` and the limits of `how`.
    ///
    /// ```
    /// use firn_cql::{BatchKind, Session, Values};
    /// let session = Session::in_memory()?;
    /// session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", ())?;
    /// session.execute("CREATE TABLE k.t (id int PRIMARY KEY, v text)", ())?;
    /// let put = session.prepare("INSERT INTO k.t (id, v) VALUES (?, ?)")?;
    /// let members = [(1, "one"), (2, "two")].map(|values| (&put, values.bind(put.markers())));
    /// let members = members.into_iter().map(|(put, bound)| Ok((put, bound?)));
    /// let members = members.collect::<firn_cql::Result<Vec<_>>>()?;
    /// session.batch(BatchKind::Unlogged, &members, &Default::default())?;
    /// assert_eq!(session.execute("SELECT * FROM k.t", ())?.len(), 2);
    /// # Ok::<(), firn_cql::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` for a statement that is not a change, for changes that cannot be in one batch, and
    /// for invalid values. Then nothing was written.
    pub fn batch(
        &self,
        kind: BatchKind,
        members: &[(&Prepared, Vec<BoundValue>)],
        how: &RunOptions,
    ) -> Result<Rows> {
        let mut present = Vec::with_capacity(members.len());
        let role = self.role();
        for (prepared, bound) in members {
            let prepared = self.present(prepared)?;
            self.check_access(role, &prepared)?;
            check_amount(bound.len(), prepared.markers())?;
            present.push((prepared, &**bound));
        }
        let plans: Vec<_> = present.iter().map(|(p, bound)| (&*p.0.plan, *bound)).collect();
        let start = self.log.get().map(|log| log.start());
        let request = Request { bound: &[], role, run: how };
        let done = run_batch(&self.engine, kind, &plans, &request);
        let members: Vec<_> = present.iter().map(|(p, bound)| (&**p, *bound)).collect();
        self.write_down(start, Some(kind), &members, how, &done);
        done
    }
}
