//! Floor 4: what an application uses: a [`Session`] runs statements, prepares them, remembers the
//! keyspace that is chosen.
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
mod prepared;
mod run;
mod walk;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::catalog::unauthorized;
use crate::error::{Class, Error, Result, invalid};
use crate::exec::{Engine, Kind, Request, Rows, check, compile, define, password, run_batch};
use crate::script::with_scripts;
use crate::syntax::ast::{BatchKind, Statement};
use crate::syntax::{ParsedStatement, parse};
use crate::values::{Bound, Values, check_amount};
use cache::{StatementCache, cache_bytes};
use firn_kv::MemEnv;
use firn_wide::internals::types::hex;
use firn_wide::{Options, Wide};
pub use log::{LoggedSize, LoggedStatement, RanStatement, StatementLog, StatementStart};
use md5::{Digest, Md5};
use parking_lot::{Mutex, RwLock};
use prepared::Compiled;
pub use prepared::Prepared;
pub use run::Run;
pub use walk::{OwnedRow, Typed, Walk};

/// Bytes that a compiled statement has beside its text and what its plan has on the heap.
const BY_STATEMENT: usize = 1 << 10;

/// The hash of a password that nobody has.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$\
                      1PxAW8BRn1WBY5sCSSVZ2Nw8Fk9nGbb4Gd2m1cFXcMs";

/// A conversation with a database. Cheap to clone; clones share the database and the prepared
/// statements, each has its own keyspace.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    cache: Arc<Mutex<StatementCache>>,
    keyspace: RwLock<Option<Arc<str>>>,
    /// Who has logged in.
    login: OnceLock<SessionLogin>,
    /// What its statements are written to.
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
    /// That of the role then ([`RoleEntry::id`](crate::catalog::RoleEntry::id)).
    id: u64,
}

/// What came of a statement before it was run.
enum Begun {
    /// It is done.
    Done(Box<Rows>),
    /// It is about rows.
    Compiled(Prepared),
}

/// A statement's text in the keyspace that is chosen, and the digest of both, by which it is kept.
struct Asked<'t> {
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

/// The id of a prepared statement, as servers make it: the same in whatever keyspace, where that
/// makes no difference to the statement. Clients that prepare it again may have chosen another.
fn id_of(keyspace: Option<&str>, text: &str, statement: &Statement<'_>) -> [u8; 16] {
    let is_about_rows =
        matches!(statement, Statement::Select(_) | Statement::Change(_) | Statement::Batch(_));
    let keyspace = keyspace.filter(|_| !is_about_rows || !statement.is_qualified());
    let digest = Md5::new().chain_update(keyspace.unwrap_or_default()).chain_update(text);
    digest.finalize().into()
}

/// What of `how` a plan looks at.
fn request_of(how: &Run) -> Request<'_> {
    Request {
        timestamp: how.timestamp,
        now_in_seconds: how.now_in_seconds,
        batch_limits: how.batch_limits,
        tombstone_limits: how.tombstone_limits,
        max_result_bytes: how.max_result_bytes,
        result_budget: how.result_budget.as_ref(),
        page_size: how.page_size,
        paging: how.paging.as_ref(),
        stop: how.stop.as_ref(),
        endpoint: how.endpoint,
        ..Request::default()
    }
}

impl Session {
    /// Opens the database in `dir`, creating it when the directory is missing or empty.
    ///
    /// # Errors
    /// `Server` or `Configuration` when it can't be opened.
    pub fn open(dir: impl AsRef<Path>) -> Result<Session> {
        Session::new(Wide::open_with(dir, with_scripts(Options::default()))?)
    }

    /// Opens the database in `dir` in this way.
    ///
    /// # Errors
    /// As [`open`](Session::open).
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Session> {
        Session::new(Wide::open_with(dir, with_scripts(options))?)
    }

    /// Opens an empty database in memory, which is gone with the last handle of it. Time and random
    /// numbers are the operating system's: `now()` is now, a value with a TTL goes when it has
    /// passed, and no two `uuid()` are the same.
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
    /// `Server` when there is no memory.
    pub fn in_memory() -> Result<Session> {
        let mut options = with_scripts(Options::default());
        options.store.db.event_log = false;
        Session::new(Wide::open_in(Arc::new(MemEnv::plain()), "/", options)?)
    }

    /// A session with a database that is open. Of one database there must be one `new`; others are
    /// clones.
    ///
    /// # Errors
    /// `Server` when its definitions can't be understood.
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

    /// The open database, without promises ([`internals::exec`](crate::internals::exec)).
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Closes the database for all its sessions, and says whether all that was written is safe:
    /// [`firn_kv::Db::close`]. Dropping the last session closes it too, and keeps the error to
    /// itself. Statements that come later are errors of the class [`Server`](crate::Class::Server).
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
    /// As [`firn_kv::Db::close`]: the database is closed all the same. Those of the log of
    /// statements ([`StatementLog::flush`]).
    pub fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        closed.and(self.log.get().map_or(Ok(()), |log| log.flush()))
    }

    /// The keyspace that is chosen.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.read().clone()
    }

    /// The role that has logged in. `None`: nobody has, and everything is allowed.
    pub fn role(&self) -> Option<&str> {
        self.login.get().map(|login| &*login.role)
    }

    /// Refuses a session whose role was dropped, even if another role has its name now. Every
    /// statement calls this first.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub fn check_login(&self) -> Result<()> {
        let Some(SessionLogin { role, id }) = self.login.get() else { return Ok(()) };
        if self.engine.catalog().role(role).is_some_and(|found| found.id == *id) {
            return Ok(());
        }
        Err(unauthorized(format!(
            "The role {role} that this session has logged in as was dropped; log in again"
        )))
    }

    /// Logs in: from now on the session, and clones that are made of it, may do what this role may.
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
    /// `BadCredentials` for a name or a password that nobody has, and a role that may not log in.
    /// All take the same time. `Invalid` for a session that has logged in.
    pub fn log_in(&self, name: &str, password: &str) -> Result<()> {
        let catalog = self.engine.catalog();
        let role = catalog.role(name).filter(|r| r.can_login);
        let (hash, id) = (role.and_then(|r| r.salted_hash.as_deref()), role.map_or(0, |r| r.id));
        // Who asks about names must not learn by the time it takes which there are.
        let good = password::is_of(password, hash.unwrap_or(NOBODY));
        if hash.is_none() || !good {
            let text = "Provided username and/or password are incorrect";
            return Err(Error::refused(Class::BadCredentials, text));
        }
        let twice = || invalid("This session has logged in already");
        self.login.set(SessionLogin { role: name.into(), id }).map_err(|_| twice())
    }

    /// From now on the statements that this session, and clones that are made of it, run are written
    /// to a log: [`StatementLog`] says how. Texts that `execute` and `query` refuse are written, too.
    ///
    /// # Errors
    /// `Invalid` for a session that has a log.
    pub fn log_statements(&self, log: Arc<StatementLog>) -> Result<()> {
        self.log
            .set(log)
            .map_err(|_| invalid("This session writes its statements to a log already"))
    }

    /// Runs a statement. Those about rows are compiled once and kept.
    ///
    /// # Errors
    /// What is wrong with it; it did nothing then.
    pub fn execute(&self, cql: &str, values: impl Values) -> Result<Rows> {
        self.execute_as(cql, values, &Run::default())
    }

    /// Runs a statement in this way.
    ///
    /// # Errors
    /// As [`execute`](Session::execute).
    pub fn execute_as(&self, cql: &str, values: impl Values, how: &Run) -> Result<Rows> {
        match self.begin(cql, &values, how)? {
            Begun::Done(rows) => Ok(*rows),
            Begun::Compiled(prepared) => self.run(&prepared, values, how),
        }
    }

    /// Compiles a statement about rows, or finds it compiled; carries out any other.
    fn begin(&self, cql: &str, values: &impl Values, how: &Run) -> Result<Begun> {
        let Some(log) = self.log.get() else { return self.begin_unlogged(cql, values, how) };
        let (start, keyspace) = (log.start(), how.keyspace.clone().or_else(|| self.keyspace()));
        let begun = self.begin_unlogged(cql, values, how);
        let outcome = match &begun {
            // It is written down when it has run.
            Ok(Begun::Compiled(_)) => return begun,
            Ok(Begun::Done(rows)) => Ok(&**rows),
            Err(e) => Err(e.class().name()),
        };
        let ran =
            RanStatement { keyspace: keyspace.as_deref(), text: cql, markers: &[], values: &[] };
        log.ran(start, None, &[ran], false, outcome);
        begun
    }

    fn begin_unlogged(&self, cql: &str, values: &impl Values, how: &Run) -> Result<Begun> {
        self.engine.refresh_catalog()?;
        self.check_login()?;
        let asked = self.asked(how.keyspace.as_ref(), cql);
        if let Some(found) = self.cached(&asked.key) {
            return Ok(Begun::Compiled(found));
        }
        let parsed = parse(cql)?;
        if parsed.markers == 0 {
            // Before a definition, which takes none, is made.
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
            return Ok(Begun::Done(Box::new(rows)));
        }
        self.compile(asked, &parsed, false).map(Begun::Compiled)
    }

    /// Remembers the keyspace that a statement has chosen.
    fn choose(&self, rows: &Rows) {
        if let Kind::SetKeyspace(chosen) = rows.kind() {
            *self.keyspace.write() = Some(chosen.as_str().into());
        }
    }

    fn asked<'t>(&self, keyspace: Option<&Arc<str>>, text: &'t str) -> Asked<'t> {
        let keyspace = keyspace.cloned().or_else(|| self.keyspace());
        Asked { key: key_of(keyspace.as_deref(), text), keyspace, text }
    }

    fn cached(&self, key: &[u8; 16]) -> Option<Prepared> {
        let found = self.cache.lock().get(key)?;
        (found.0.version == self.engine.catalog().version()).then_some(found)
    }

    /// Compiles a statement, or finds it compiled. A definition is looked at when it is run.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn prepare(&self, cql: &str) -> Result<Prepared> {
        self.prepare_in(None, cql)
    }

    /// As [`prepare`](Session::prepare), with this as the keyspace that is chosen. `None`: that of
    /// the session.
    ///
    /// # Errors
    /// As [`prepare`](Session::prepare).
    pub fn prepare_in(&self, keyspace: Option<&Arc<str>>, cql: &str) -> Result<Prepared> {
        self.compiled(keyspace, cql, true)
    }

    /// As [`prepare_in`](Session::prepare_in), of a statement that is to run once: a large one is
    /// not cached.
    ///
    /// # Errors
    /// As [`prepare`](Session::prepare).
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
        asked: Asked<'_>,
        parsed: &ParsedStatement<'_>,
        is_prepared: bool,
    ) -> Result<Prepared> {
        let Asked { key, keyspace, text } = asked;
        let mut catalog = self.engine.catalog();
        let mut plan = compile(&self.engine, &catalog, keyspace.as_ref(), text, parsed);
        if plan.is_err() {
            // What it names may have come with the older interface, and somebody else sees it just
            // now.
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
        // Nothing finds a password in memory that is not needed.
        if is_prepared || prepared.0.masked.is_none() {
            self.cache.lock().put(prepared.clone(), is_prepared);
        }
        Ok(prepared)
    }

    /// The number of compiled statements that the database caches, and the bytes that they take:
    /// at most one thirty-second of its memory budget, or 1 MiB where that is more.
    pub fn cached_statements(&self) -> (usize, usize) {
        self.cache.lock().counts()
    }

    /// The prepared statement with this id, as a client of the native protocol asks for it.
    ///
    /// # Errors
    /// `Unprepared` when it isn't known.
    pub fn prepared(&self, id: &[u8]) -> Result<Prepared> {
        let missing = || {
            Error::refused(
                Class::Unprepared,
                format!("Prepared query with ID {} not found", hex(id)),
            )
        };
        self.cache.lock().find(id).ok_or_else(missing)
    }

    /// A compiled statement as definitions are now.
    fn present<'p>(&self, prepared: &'p Prepared) -> Result<Cow<'p, Prepared>> {
        self.engine.refresh_catalog()?;
        self.check_login()?;
        if prepared.0.version == self.engine.catalog().version() {
            return Ok(Cow::Borrowed(prepared));
        }
        // Somebody has compiled it again, perhaps.
        if let Some(found) = self.cached(&prepared.0.key) {
            return Ok(Cow::Owned(found));
        }
        let Compiled { key, text, keyspace, .. } = &*prepared.0;
        let asked = Asked { key: *key, keyspace: keyspace.clone(), text };
        self.compile(asked, &parse(text)?, true).map(Cow::Owned)
    }

    /// Refuses a statement that a role may not run.
    fn check_access(&self, role: Option<&str>, prepared: &Prepared) -> Result<()> {
        if role.is_none() {
            return Ok(());
        }
        check(&self.engine.catalog(), role, prepared.0.plan.needs())
    }

    /// Runs a compiled statement.
    ///
    /// # Errors
    /// As [`execute`](Session::execute).
    pub fn run(&self, prepared: &Prepared, values: impl Values, how: &Run) -> Result<Rows> {
        let prepared = &*self.present(prepared)?;
        let role = self.role();
        self.check_access(role, prepared)?;
        let bound = values.into_bound(prepared.markers())?;
        check_amount(bound.len(), prepared.markers())?;
        let request = Request { bound: &bound, role, ..request_of(how) };
        let start = self.log.get().map(|log| log.start());
        let done = prepared.0.plan.run(&self.engine, &request);
        self.write_down(start, None, &[(prepared, &bound)], how, &done);
        let rows = done?;
        self.choose(&rows);
        Ok(rows)
    }

    /// Writes what ran to the log, if there is one.
    fn write_down(
        &self,
        start: Option<StatementStart>,
        batch: Option<BatchKind>,
        members: &[(&Prepared, &[Bound])],
        how: &Run,
        done: &Result<Rows>,
    ) {
        let (Some(log), Some(start)) = (self.log.get(), start) else { return };
        let members: Vec<_> = members.iter().map(|(p, values)| p.as_ran(values)).collect();
        let outcome = done.as_ref().map_err(|e| e.class().name());
        log.ran(start, batch, &members, how.paging.is_some(), outcome);
    }

    /// Runs compiled changes as one batch: all of them happen, or none. Of `how` the timestamp,
    /// `now_in_seconds` and the limits count.
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
    /// `Invalid` for a statement that is no change, for changes that can't be together, and for
    /// values that can't be; then nothing was written.
    pub fn batch(
        &self,
        kind: BatchKind,
        members: &[(&Prepared, Vec<Bound>)],
        how: &Run,
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
        let done = run_batch(&self.engine, kind, &plans, &request_of(how));
        let members: Vec<_> = present.iter().map(|(p, bound)| (&**p, *bound)).collect();
        self.write_down(start, Some(kind), &members, how, &done);
        done
    }
}
