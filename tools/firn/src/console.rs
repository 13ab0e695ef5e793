//! `firn console`: serves the web console of a store.
//!
//! Invariant: without `--write` the store is only read, and another program may write to it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use firn_console::{Console, ConsoleOptions, ConsoleStore, HttpLogin, OpenedStore};
use firn_kv::{Db, OsEnv};
use firn_tools::io::stdout;
use firn_tools::output::{Done, Failure};
use serde_json::json;

use crate::listen::listen_address;
use crate::shell::interrupt;
use crate::store::{Global, StoreContent};

pub const EXAMPLES: &str = "\
Serves pages for a browser: rates and latencies, the runs of each tree to scale with its flushes and compactions, tables and their schema,
explained reads, CQL, and simulations of the recorded load under other policies. The store is only read, and follows the program that
writes to it. That program's reads, latencies and memory are in its own console: `firn serve --console`. Without CQL the page has no
tables. Ctrl-C stops it.

Examples:
  firn console firn-data                       then open http://127.0.0.1:8042/ in a browser
  firn --db shop console --listen 127.0.0.1:9000
  firn --db shop console --write               statements may change the store; nobody else may have it open for writing
  firn --db shop console --listen 0.0.0.0:8042 --console-password secret.txt
  firn --db shop serve --console 127.0.0.1:8042    the console of a server";

/// Longest password file in bytes.
const MAX_PASSWORD: u64 = 4 << 10;
/// Interval of checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// Arguments of `firn console`.
#[derive(Args, Clone, Debug)]
pub struct ConsoleArgs {
    /// Show the store in this directory [default: that of --db]
    #[arg(value_name = "DIR")]
    store: Option<PathBuf>,
    /// Listen at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, default_value = "127.0.0.1:8042")]
    listen: SocketAddr,
    /// Require the password in this file, with any name
    #[arg(long, value_name = "FILE")]
    console_password: Option<PathBuf>,
    /// Open the store for writing, and allow statements that change it
    #[arg(long)]
    write: bool,
}

/// Returns the login with the password in this file.
///
/// # Errors
/// Those of [`read_password`].
pub fn password_login(file: &Path) -> Done<HttpLogin> {
    read_password(file).map(HttpLogin::Password)
}

/// Returns the password in this file: its first line.
///
/// # Errors
/// A file that cannot be read, and an empty password.
pub fn read_password(file: &Path) -> Done<String> {
    let bytes = OsEnv::new().read_all(file, MAX_PASSWORD)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("{} is not UTF-8", file.display())))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        return Err(Failure::with_next(
            format!("{} has no password", file.display()),
            "write the password into its first line",
        ));
    }
    Ok(password.to_owned())
}

/// Returns an address as users open it in a browser.
pub fn url(address: SocketAddr) -> String {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip(if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("http://{reachable}/")
}

fn store(global: &Global, write: bool) -> Done<ConsoleStore> {
    let dir = &global.store.db;
    if global.holding()? == StoreContent::Nothing && Db::open_with(dir, global.to_read()).is_err() {
        return Err(Failure::with_next(
            format!("{} is no store", dir.display()),
            "name the directory of one: firn console DIR",
        ));
    }
    if !write {
        let global = global.clone();
        return ConsoleStore::followed(move || open(&global, &global.to_read()));
    }
    global.check_no_replica()?;
    Ok(ConsoleStore::opened(open(global, &global.to_write(false, 16 << 20))?))
}

fn open(global: &Global, options: &firn_kv::DbOptions) -> Done<OpenedStore> {
    if global.holding()? != StoreContent::Model {
        return Ok(OpenedStore {
            db: Db::open_with(&global.store.db, options.clone())?,
            session: None,
        });
    }
    let session = global.model(options.clone())?;
    Ok(OpenedStore { db: session.engine().store().db().clone(), session: Some(session) })
}

/// Runs `firn console`.
pub fn run(global: &Global, args: &ConsoleArgs) -> Done {
    let mut global = global.clone();
    if let Some(dir) = &args.store {
        global.store.db.clone_from(dir);
    }
    let mut options = ConsoleOptions::at(args.listen);
    options.may_write = args.write;
    if let Some(file) = &args.console_password {
        options.login = password_login(file)?;
    }
    options.check()?;
    interrupt::watch().map_err(|e| Failure::new(format!("cannot watch for Ctrl-C: {e}")))?;
    let store = Arc::new(store(&global, args.write)?);
    let console = Console::start(store.clone(), options)?;
    let url = url(console.address());
    if global.store.json {
        let mut out = stdout();
        writeln!(out, "{}", json!({"console": url}))?;
        out.flush()?;
    } else {
        eprintln!("{} is at {url}; Ctrl-C stops", global.store.db.display());
    }
    let env = OsEnv::new();
    while !interrupt::is_set() {
        env.sleep(TICK);
    }
    console.stop();
    match store.db().is_read_only() {
        true => Ok(()),
        false => Ok(store.db().close()?),
    }
}
