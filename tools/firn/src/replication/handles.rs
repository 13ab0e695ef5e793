//! The open database, server and console of a replica. They are opened again when the definitions of
//! the primary change and after a new copy.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use firn_console::{Console, ConsoleOptions, ConsoleStore};
use firn_cql::{Session, with_scripts};
use firn_kv::stats::PrometheusText;
use firn_kv::{Db, OsEnv};
use firn_replication::{Replica, ReplicaListener};
use firn_server::{MetricsSource, Options, Server};
use firn_tools::output::{Done, Failure};
use firn_wide::Wide;
use firn_wide::internals::store::SCHEMA_TREE;
use parking_lot::Mutex;

/// Returns the options of a server's console; `None`: it has none.
type ConsoleFor = dyn Fn(&Server) -> Option<ConsoleOptions> + Send + Sync;

/// Open handles of a replica's store.
#[derive(Default)]
struct OpenHandles {
    session: Option<Session>,
    server: Option<Server>,
    console: Option<Console>,
}

/// Opens and closes the database of a replica, and serves it.
pub struct ReplicaHandles {
    /// Options of the server; `None`: the store is not served.
    server: Option<Options>,
    console: Option<Box<ConsoleFor>>,
    replica: Arc<OnceLock<Weak<Replica>>>,
    open: Mutex<OpenHandles>,
    /// Why the store could not be opened or served.
    failure: Mutex<Option<String>>,
}

impl ReplicaHandles {
    /// Creates handles that serve nothing. An open database compacts its trees as the primary does.
    pub fn without_server() -> ReplicaHandles {
        let replica = Arc::default();
        let (open, failure) = Default::default();
        ReplicaHandles { server: None, console: None, replica, open, failure }
    }

    /// Creates handles with a server. `console` returns the options of the console.
    pub fn with_server(
        mut server: Options,
        console: impl Fn(&Server) -> Option<ConsoleOptions> + Send + Sync + 'static,
    ) -> ReplicaHandles {
        let replica: Arc<OnceLock<Weak<Replica>>> = Arc::default();
        let known = replica.clone();
        server.more_metrics = Some(MetricsSource::new(move |text: &mut PrometheusText| {
            let replica = known.get().and_then(Weak::upgrade);
            replica.iter().for_each(|replica| replica.export(text));
        }));
        let (server, console) = (Some(server), Some(Box::new(console) as Box<_>));
        let (open, failure) = Default::default();
        ReplicaHandles { server, console, replica, open, failure }
    }

    /// Sets the replica whose metrics the server has.
    pub fn set_replica(&self, replica: &Arc<Replica>) {
        let _ = self.replica.set(Arc::downgrade(replica));
    }

    fn open_all(&self, store: Db) -> Result<OpenHandles, String> {
        if !store.tree_names().iter().any(|name| name == SCHEMA_TREE) {
            if self.server.is_some() {
                tracing::warn!("the store of the primary has no tables yet: nothing is served");
            }
            return Ok(OpenHandles::default());
        }
        let wide = Wide::in_db(OsEnv::new(), store, with_scripts(firn_wide::Options::default()));
        let session = Session::new(wide.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        let Some(options) = &self.server else {
            return Ok(OpenHandles { session: Some(session), server: None, console: None });
        };
        let server = Server::start_with_session(session.clone(), options.clone())
            .map_err(|e| e.to_string())?;
        let console = match self.console.as_ref().and_then(|options| options(&server)) {
            None => None,
            Some(options) => {
                let store = Arc::new(ConsoleStore::own(&session));
                Some(Console::start(store, options).map_err(|e| e.to_string())?)
            }
        };
        tracing::info!("serving the replica at {}", server.address());
        Ok(OpenHandles { session: Some(session), server: Some(server), console })
    }

    /// Returns the address of the running server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.lock().server.as_ref().map(Server::address)
    }

    /// Reports whether the store could not be opened or served.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Returns why the store could not be opened or served.
    ///
    /// # Errors
    /// That reason.
    pub fn failure(&self) -> Done {
        self.failure.lock().take().map_or(Ok(()), |e| {
            Err(Failure::new(format!("the replica cannot be opened for reading: {e}")))
        })
    }

    /// Reads the certificates of the running server again.
    pub fn reload_certificates(&self) -> Result<(), String> {
        let open = self.open.lock();
        open.server.iter().try_for_each(|s| s.reload_certificates().map_err(|e| e.to_string()))
    }
}

impl ReplicaListener for ReplicaHandles {
    fn close_handles(&self) {
        let OpenHandles { session, server, console } = std::mem::take(&mut *self.open.lock());
        console.iter().for_each(Console::stop);
        if let Some(Err(e)) = server.as_ref().map(Server::stop) {
            tracing::warn!("the server of the replica: {e}");
        }
        drop((console, server, session));
    }

    fn open_handles(&self, store: Db) {
        match self.open_all(store) {
            Ok(open) => *self.open.lock() = open,
            Err(e) => {
                *self.failure.lock() = Some(e);
            }
        }
    }
}
