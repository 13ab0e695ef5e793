//! Replication: `firn serve --replicas`, `firn serve --replica-of`, `firn replicate`, `firn promote`.

mod handles;
mod promote;
mod replicate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use firn_kv::{Db, DbOptions};
use firn_replication::{Primary, PrimaryOptions, Replica, ReplicaOptions};
use firn_tools::options;
use firn_tools::output::{Done, Failure};
use firn_wide::internals::store::is_remembered;

pub use handles::ReplicaHandles;
pub use promote::{EXAMPLES as PROMOTE_EXAMPLES, PromoteArgs, promote};
pub use replicate::{EXAMPLES as REPLICATE_EXAMPLES, ReplicateArgs, replicate};

use crate::console::read_password;
use crate::listen::listen_address;
use crate::store::Global;

/// File descriptors of a primary or a replica: its port and connections.
pub const REPLICATION_DESCRIPTORS: u64 = 70;

/// Arguments of `firn serve` about replication.
#[derive(Args, Clone, Debug)]
pub struct ServeReplicationArgs {
    /// Accept replicas of the store at this address (see `firn replicate --help`) [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, conflicts_with_all = ["ephemeral", "read_only", "replica_of"])]
    pub replicas: Option<SocketAddr>,
    /// Retain at most this much of the log for each replica that is away
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = options::size, requires = "replicas")]
    replicas_log: u64,
    /// Follow the primary at this address, and serve its store for reading
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["ephemeral", "read_only", "console_write"])]
    pub replica_of: Option<String>,
    #[command(flatten)]
    identity: ReplicaIdentityArgs,
}

/// Name and password of a replica.
#[derive(Args, Clone, Debug)]
pub struct ReplicaIdentityArgs {
    /// Name of this replica, different from the others of the primary
    #[arg(long, value_name = "NAME", default_value = "replica")]
    replica_name: String,
    /// Require or use the password in this file for replication
    #[arg(long, value_name = "FILE")]
    replication_password: Option<PathBuf>,
}

impl ReplicaIdentityArgs {
    fn password(&self) -> Done<Option<String>> {
        self.replication_password.as_deref().map(read_password).transpose()
    }
}

impl ServeReplicationArgs {
    /// Checks that an address that other machines reach has a password.
    pub fn check(&self, insecure: bool) -> Done {
        let is_far = self.replicas.is_some_and(|at| !at.ip().is_loopback());
        if is_far && self.identity.replication_password.is_none() && !insecure {
            return Err(Failure::with_next(
                "other machines reach the address for replicas, and it has no password",
                "give --replication-password FILE, or --insecure",
            ));
        }
        Ok(())
    }

    /// Starts to accept replicas of the store, if the command line asks for it.
    pub fn start_primary(&self, global: &Global, db: &Db) -> Done<Option<Primary>> {
        let Some(address) = self.replicas else { return Ok(None) };
        let mut options = PrimaryOptions::at(address);
        options.password = self.identity.password()?;
        options.max_log_bytes = self.replicas_log;
        Ok(Some(Primary::start_in(global.env(), db, options)?))
    }

    /// Starts to follow the primary, if the command line names one.
    pub fn start_replica(
        &self,
        global: &Global,
        store: DbOptions,
        handles: &Arc<ReplicaHandles>,
    ) -> Done<Option<Arc<Replica>>> {
        let Some(primary) = &self.replica_of else { return Ok(None) };
        start_replica(global, primary, &self.identity, store, handles).map(Some)
    }
}

/// Starts to follow a primary. `handles` opens the store for reading.
fn start_replica(
    global: &Global,
    primary: &str,
    identity: &ReplicaIdentityArgs,
    store: DbOptions,
    handles: &Arc<ReplicaHandles>,
) -> Done<Arc<Replica>> {
    let primary = match primary.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => primary.to_owned(),
    };
    let mut options = ReplicaOptions::of(primary, identity.replica_name.clone());
    options.password = identity.password()?;
    options.store = store;
    options.listener = Some(handles.clone());
    options.reopen_on = Some(Arc::new(is_remembered));
    let dir = std::path::absolute(&global.store.db)
        .map_err(|e| Failure::new(format!("the working directory: {e}")))?;
    let replica = Arc::new(Replica::start_in(global.env(), dir, options)?);
    handles.set_replica(&replica);
    Ok(replica)
}
