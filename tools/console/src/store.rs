//! The store that a console shows: this process's own, or another process's, which is followed.

use std::path::{Path, PathBuf};

use firn_cql::Session;
use firn_kv::Db;
use firn_tools::output::{Done, Failure};
use parking_lot::{Mutex, RwLock};

use crate::names::StoreNames;

/// An open store, with a session if it has keyspaces.
#[derive(Clone, Debug)]
pub struct OpenedStore {
    /// The store.
    pub db: Db,
    /// A session with it.
    pub session: Option<Session>,
}

impl OpenedStore {
    /// Returns the displayed names of the trees.
    pub fn names(&self) -> StoreNames {
        self.session.as_ref().map(StoreNames::of_session).unwrap_or_default()
    }
}

type OpenAgain = Box<dyn Fn() -> Done<OpenedStore> + Send + Sync>;

/// The store of a console.
pub struct ConsoleStore {
    open: RwLock<OpenedStore>,
    /// Opens the current state of the store of another process.
    open_again: Option<OpenAgain>,
    /// State of the last session of such a store, with its sequence number.
    followed: Mutex<Option<(u64, OpenedStore)>>,
    dir: Option<PathBuf>,
}

impl std::fmt::Debug for ConsoleStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl ConsoleStore {
    /// Returns the database of this session, which this process has open.
    pub fn own(session: &Session) -> ConsoleStore {
        let db = session.engine().store().db().clone();
        ConsoleStore::opened(OpenedStore { db, session: Some(session.clone()) })
    }

    /// Returns a store that this process has open.
    pub fn opened(open: OpenedStore) -> ConsoleStore {
        // A store in memory has the root as its directory.
        let dir = Some(open.db.dir().to_owned()).filter(|dir| dir != Path::new("/"));
        ConsoleStore { open: RwLock::new(open), open_again: None, followed: Mutex::default(), dir }
    }

    /// Returns a store that is opened read-only by `open_again`; another process may write to it.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn followed(
        open_again: impl Fn() -> Done<OpenedStore> + Send + Sync + 'static,
    ) -> Done<ConsoleStore> {
        let open = open_again()?;
        let open_again: Option<OpenAgain> = Some(Box::new(open_again));
        Ok(ConsoleStore { open_again, ..ConsoleStore::opened(open) })
    }

    /// Returns the directory of the store; `None` for one in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Reports whether another process may write to the store.
    pub fn is_followed(&self) -> bool {
        self.open_again.is_some()
    }

    /// Returns the store as of the last [`follow`](ConsoleStore::follow).
    pub fn db(&self) -> Db {
        self.open.read().db.clone()
    }

    /// Returns the session that the store was opened with.
    pub fn db_session(&self) -> Option<Session> {
        self.open.read().session.clone()
    }

    /// Reads what another process has written. It costs about as much as opening the store.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn follow(&self) -> Done {
        if self.is_followed() {
            let fresh = self.db().refresh()?;
            self.open.write().db = fresh;
        }
        Ok(())
    }

    /// Returns the store with a session that sees what the last [`follow`](ConsoleStore::follow)
    /// read.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn current(&self) -> Done<OpenedStore> {
        let open = self.open.read().clone();
        let (Some(open_again), true) = (&self.open_again, open.session.is_some()) else {
            return Ok(open);
        };
        let seq = open.db.stats().seq;
        let mut followed = self.followed.lock();
        if let Some((at, known)) = &*followed
            && *at >= seq
        {
            return Ok(known.clone());
        }
        let fresh = open_again()?;
        *followed = Some((fresh.db.stats().seq, fresh.clone()));
        Ok(fresh)
    }

    /// Returns the session of [`current`](ConsoleStore::current).
    ///
    /// # Errors
    /// A store of keys and values, which has none.
    pub fn session(&self) -> Done<Session> {
        self.current()?.session.ok_or_else(|| {
            Failure::with_next(
                "the store has only keys and values, and no keyspaces",
                "read a key on the page Reads",
            )
        })
    }
}
