//! A running console.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use firn_kv::fs::Thread;
use firn_kv::{Env, OsEnv};
use firn_server::http::{HttpLimits, HttpLogin, HttpPort};
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;

use crate::access::Access;
use crate::api::Api;
use crate::monitor::Monitor;
use crate::simulate::Simulation;
use crate::statements::RunningStatements;
use crate::store::ConsoleStore;

/// Requests of the pages.
const LIMITS: HttpLimits =
    HttpLimits { methods: &["GET", "HEAD", "POST"], body_bytes: 256 << 10, ..HttpLimits::READS };

/// Options of a console.
#[derive(Clone, Debug)]
pub struct ConsoleOptions {
    /// The address to listen at. Port 0 means any free port.
    pub address: SocketAddr,
    /// The logins that it requires. An address that other machines reach needs some.
    pub login: HttpLogin,
    /// Whether statements may change the store.
    pub may_write: bool,
}

impl ConsoleOptions {
    /// Returns the options of a read-only console without logins.
    pub fn at(address: SocketAddr) -> ConsoleOptions {
        ConsoleOptions { address, login: HttpLogin::Open, may_write: false }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// An address that other machines reach, without logins.
    pub fn check(&self) -> Done {
        if self.address.ip().is_loopback() || !matches!(self.login, HttpLogin::Open) {
            return Ok(());
        }
        Err(Failure::with_next(
            format!("other machines reach {}, and the console requires no login", self.address),
            "give --console-password FILE, or an address of this machine: 127.0.0.1:8042",
        ))
    }
}

/// A console that is being served. It ends when dropped.
pub struct Console {
    api: Arc<Api>,
    port: HttpPort,
    sampling: Mutex<Option<Box<dyn Thread>>>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Console {
    /// Listens, and samples the store.
    ///
    /// # Errors
    /// Invalid options, an address that cannot be bound, threads that cannot be started.
    pub fn start(store: Arc<ConsoleStore>, options: ConsoleOptions) -> Done<Console> {
        options.check()?;
        let env: Arc<dyn Env> = OsEnv::new();
        let at = |e: std::io::Error| {
            let what = format!("the console cannot listen at {}: {e}", options.address);
            Failure::with_next(what, "take another port, or port 0 for any free one")
        };
        let listener = TcpListener::bind(options.address).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let monitor = Arc::new(Monitor::new(env.clone(), store.clone()));
        let api = Arc::new(Api {
            env: env.clone(),
            store,
            access: Access::new(env.clone(), options.login.clone()),
            monitor: monitor.clone(),
            statements: RunningStatements::new(env.clone()),
            simulation: Arc::new(Simulation::new(env.clone())),
            may_write: options.may_write,
            recording: Mutex::default(),
        });
        let (answering, sampled) = (api.clone(), api.clone());
        let port = HttpPort::start(&env, listener, address, LIMITS, move |request| {
            answering.respond(request)
        })?;
        let work = move || monitor.run(|| sampled.statements.stop_late());
        let sampling = Mutex::new(Some(env.spawn("firn-console", Box::new(work))?));
        Ok(Console { api, port, sampling })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Stops sampling and closes all connections.
    pub fn stop(&self) {
        self.api.monitor.stop();
        self.api.statements.stop_all();
        self.port.stop();
        let sampling = self.sampling.lock().take();
        sampling.into_iter().for_each(|thread| thread.join());
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.stop();
    }
}
