//! `firn follow`: prints the changes of a store since the last time, as events.
//!
//! With `--connect` it prints the stream of a change server, until it is stopped.
//!
//! Invariant: a change is acknowledged after its events have been written to standard output. So a
//! change whose output was lost is printed again.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use firn_changes::{ChangeClient, ChangeDecoder, ClientFailure, EventFormat};
use firn_kv::{Db, ErrorKind, OsEnv, Subscription, SubscriptionInfo};
use firn_tools::io::{stdout, stdout_is_terminal};
use firn_tools::options;
use firn_tools::output::{Done, Failure, Progress, bytes, count, listing, print_fitting, things};
use serde_json::{Value, json};

use crate::shell::connect::{password, with_port};
use crate::store::{Global, StoreContent};

pub const EXAMPLES: &str = "\
A subscription is a name with a position in the changes of the store. Each run prints the changes since the run before, in commit order,
as lines of JSON, and then ends. The first run prints the present contents (\"op\":\"read\"). The store retains the log that later runs need,
up to --hold-log; beyond that, the next run prints the contents again. Rows of tables have their changed columns: a collection or user
type has the elements that were \"set\" and \"removed\". Lists and counters have their present values.

Examples:
  firn --db shop follow > changes.jsonl            changes since the last time
  firn --db shop follow --name audit --from now    a subscription that begins with later changes
  firn --db shop follow --format debezium          the envelope of Debezium's events
  firn --db shop follow --peek --limit 10          look at the next changes, and do not acknowledge them
  firn --db shop follow --list                     all subscriptions, with the log that they retain
  firn --db shop follow --drop audit
  firn follow --connect 127.0.0.1:8043 --tables k.t    the changes of a server (firn serve --changes), until Ctrl-C";

/// Default port of change servers.
const PORT: u16 = 8043;
/// Shortest and longest pause before the next attempt to reach the server.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// Retained log without `--hold-log`.
const HOLD_LOG: u64 = 1 << 30;

/// Number of changes after which the output is written and acknowledged.
const ROUND: u64 = 1000;

/// Arguments of `firn follow`.
#[derive(Args, Clone, Debug)]
pub struct FollowArgs {
    /// Continue this subscription, and create it if it does not exist
    #[arg(long, value_name = "NAME", default_value = "follow")]
    name: String,
    /// Begin a new subscription with the present contents, or with later changes
    #[arg(long, value_enum, default_value = "contents")]
    from: FollowStart,
    /// Print this form of events
    #[arg(long, value_enum, default_value = "json")]
    format: FollowFormat,
    /// Print keys and values of trees in hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print the changes of these trees, tables (keyspace.table) and keyspaces only
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tables: Vec<String>,
    /// End after this many events, at the end of a change
    #[arg(long, value_name = "EVENTS")]
    limit: Option<u64>,
    /// Print the changes and do not acknowledge them
    #[arg(long)]
    peek: bool,
    /// Retain at most this much of the store's log for later runs [default: 1g; of an existing
    /// subscription of a server its own]
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    hold_log: Option<u64>,
    /// List the subscriptions, and print no changes
    #[arg(long, conflicts_with_all = ["drop", "peek", "limit"])]
    list: bool,
    /// Drop this subscription, and print no changes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["peek", "limit"])]
    drop: Option<String>,
    /// Follow the store of a server (`firn serve --changes`), and continue until Ctrl-C
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "hex")]
    connect: Option<String>,
    /// Log in as this role, or with any name if the server has a password; the password is asked
    /// for, or read from --password-file or $FIRN_PASSWORD
    #[arg(short, long, value_name = "NAME", requires = "connect")]
    user: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
}

/// Start of a new subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FollowStart {
    /// The present contents, then the changes
    Contents,
    /// Only later changes
    Now,
}

/// Form of events.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FollowFormat {
    /// An object for each event
    Json,
    /// The envelope of Debezium
    Debezium,
}

/// Runs `firn follow`.
pub fn run(global: &Global, args: &FollowArgs) -> Done {
    if let Some(address) = &args.connect {
        return follow_server(global, args, address);
    }
    if args.list {
        return list(global);
    }
    let (db, decoder) = match global.holding()? {
        StoreContent::Model => {
            let session = global.model(global.to_write(false, 0))?;
            let db = session.engine().store().db().clone();
            (db, ChangeDecoder::of_tables(session)?)
        }
        StoreContent::Nothing | StoreContent::Keys => {
            (global.open_to_write(false, 0)?, ChangeDecoder::of_trees(args.hex))
        }
    };
    if let Some(name) = &args.drop {
        db.drop_subscription(name)?;
        global.print_json(json!({ "dropped": name }))?;
        eprintln!("dropped the subscription {name:?}");
        return Ok(());
    }
    let mut decoder = decoder.only(&args.tables);
    let hold_log = args.hold_log.unwrap_or(HOLD_LOG);
    let changes = db.subscribe(&args.name, hold_log)?;
    let mut printer = ChangePrinter::new(args, changes);
    printer.contents(&db, &mut decoder)?;
    printer.changes(&mut decoder)?;
    printer.end()
}

/// Lists the subscriptions.
fn list(global: &Global) -> Done {
    let db = global.open_to_read()?;
    let one = |s: &SubscriptionInfo| {
        json!({
            "name": s.name, "seq": s.seq, "behind": s.behind, "retained_bytes": s.retained_bytes,
            "max_log_bytes": s.max_log_bytes, "snapshot_due": s.is_snapshot_due,
        })
    };
    print_list(global, db.subscriptions().iter().map(one).collect())
}

/// Prints subscriptions.
fn print_list(global: &Global, all: Vec<Value>) -> Done {
    if global.store.json {
        return global.print_json(all.into());
    }
    let mut table =
        listing(&["subscription", "acknowledged", "behind", "log", "at most", ""], "lrrrrl");
    for s in &all {
        let n = |field: &str| s[field].as_u64().unwrap_or(0);
        let text = |field: &str| s[field].as_str().unwrap_or_default().to_owned();
        let due = s["snapshot_due"] == true;
        table.add_row([
            text("name"),
            s["seq"].as_u64().map_or_else(|| text("position"), count),
            count(n("behind")),
            bytes(n("retained_bytes")),
            bytes(n("max_log_bytes")),
            match (due, s["connected"] == true) {
                (_, true) => "connected".to_owned(),
                (true, false) => "contents due".to_owned(),
                (false, false) => String::new(),
            },
        ]);
    }
    write!(stdout(), "{}", print_fitting(&mut table, &[4], global.style()))?;
    Ok(())
}

/// Follows the store of a server, or lists or drops its subscriptions.
fn follow_server(global: &Global, args: &FollowArgs, address: &str) -> Done {
    if global.names_store {
        return Err(Failure::with_next(
            "changes cannot come from a store (--db) and from a server (--connect)",
            "leave one of them out",
        ));
    }
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let secret = args.user.as_ref().map(|user| password(user, args.password_file.as_deref()));
    let login = args.user.as_deref().zip(secret.transpose()?);
    let login = login.as_ref().map(|(user, secret)| (*user, &**secret));
    let client = ChangeClient::new(&with_port(host, PORT)?, login);
    let failed = |e: ClientFailure| e.into_failure(&client);
    if args.list {
        let mut all = client.subscriptions().map_err(failed)?;
        let all = all["subscriptions"].as_array_mut().map(std::mem::take);
        return print_list(global, all.unwrap_or_default());
    }
    if let Some(name) = &args.drop {
        client.drop_subscription(name).map_err(failed)?;
        global.print_json(json!({ "dropped": name }))?;
        eprintln!("dropped the subscription {name:?}");
        return Ok(());
    }
    let mut printer =
        StreamPrinter { args, client: &client, out: Box::new(stdout()), events: 0, position: None };
    let done = printer.run();
    let events = things(printer.events, "event", "events");
    match printer.position {
        Some(position) => eprintln!("{events}; the last position is {position}"),
        None => eprintln!("{events}"),
    }
    done
}

/// Printer of a server's stream.
struct StreamPrinter<'a> {
    args: &'a FollowArgs,
    client: &'a ChangeClient,
    out: Box<dyn Write>,
    events: u64,
    /// Position of the last change that was printed completely.
    position: Option<String>,
}

impl StreamPrinter<'_> {
    /// Prints up to the limit. After a lost connection it continues at its position.
    fn run(&mut self) -> Done {
        let mut pause = PAUSES[0];
        let mut was_connected = false;
        loop {
            let before = self.events;
            let lost = match self.stream(&mut was_connected) {
                Ok(true) => return Ok(()),
                Ok(false) => std::io::ErrorKind::UnexpectedEof.into(),
                Err(StreamFailure::Output(e)) => return Err(e.into()),
                Err(StreamFailure::Client(ClientFailure::Lost(e))) if was_connected => e,
                // The server has not noticed yet that the connection was lost.
                Err(StreamFailure::Client(ClientFailure::Refused(409, _))) if was_connected => {
                    std::io::ErrorKind::WouldBlock.into()
                }
                Err(StreamFailure::Client(e)) => return Err(e.into_failure(self.client)),
            };
            if self.events > before {
                pause = PAUSES[0];
            }
            eprintln!("the stream was lost ({lost}); connecting again");
            OsEnv::new().sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Prints one connection's stream. Returns true when the command is complete.
    fn stream(&mut self, was_connected: &mut bool) -> Result<bool, StreamFailure> {
        let format = match self.args.format {
            FollowFormat::Json => "json",
            FollowFormat::Debezium => "debezium",
        };
        let from = match self.args.from {
            FollowStart::Contents => "start",
            FollowStart::Now => "now",
        };
        let mut parameters = vec![("format", format.to_owned()), ("from", from.to_owned())];
        parameters.push(("tables", self.args.tables.join(",")));
        parameters.extend(self.args.hold_log.map(|n| ("hold_log", n.to_string())));
        parameters.extend(self.position.clone().map(|position| ("after", position)));
        let mut lines = self.client.stream(&self.args.name, &parameters)?;
        *was_connected = true;
        let mut since = 0;
        while let Some(line) = lines.next_line().map_err(ClientFailure::Lost)? {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["op"] == "error" {
                let text = |field: &str| event[field].as_str().map(str::to_owned);
                let what = text("error").unwrap_or_default();
                let failure = Failure::Failed { what, next: text("next") };
                return Err(ClientFailure::Refused(500, failure).into());
            }
            let is_heartbeat = event["op"] == "heartbeat";
            if !is_heartbeat {
                writeln!(self.out, "{line}")?;
                self.events += 1;
                since += 1;
            }
            let more = &event["more"];
            let is_whole = more.is_null() && event["source"]["more"].is_null();
            let position = event["position"].as_str().or(event["source"]["position"].as_str());
            if let Some(position) = position.filter(|_| is_whole) {
                self.position = Some(position.to_owned());
            }
            let is_last = self.args.limit.is_some_and(|limit| self.events >= limit) && is_whole;
            if is_last || is_heartbeat || since >= ROUND || !lines.has_buffered() {
                since = 0;
                self.acknowledge(is_whole)?;
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the output, and then acknowledges the changes that are complete.
    fn acknowledge(&mut self, is_whole: bool) -> Result<(), StreamFailure> {
        self.out.flush()?;
        match &self.position {
            Some(position) if is_whole && !self.args.peek => {
                Ok(self.client.acknowledge(&self.args.name, position)?)
            }
            _ => Ok(()),
        }
    }
}

/// Reason for the end of a stream.
enum StreamFailure {
    Output(std::io::Error),
    Client(ClientFailure),
}

impl From<std::io::Error> for StreamFailure {
    fn from(e: std::io::Error) -> StreamFailure {
        StreamFailure::Output(e)
    }
}

impl From<ClientFailure> for StreamFailure {
    fn from(e: ClientFailure) -> StreamFailure {
        StreamFailure::Client(e)
    }
}

/// Printer of a subscription's changes.
struct ChangePrinter<'a> {
    args: &'a FollowArgs,
    changes: Subscription,
    format: EventFormat,
    out: Box<dyn Write>,
    events: u64,
    progress: Option<Progress>,
}

impl<'a> ChangePrinter<'a> {
    fn new(args: &'a FollowArgs, changes: Subscription) -> ChangePrinter<'a> {
        let format = match args.format {
            FollowFormat::Json => EventFormat::Json,
            FollowFormat::Debezium => EventFormat::Debezium,
        };
        // A bar between lines on the same terminal would be unreadable.
        let progress = (!stdout_is_terminal()).then(|| Progress::operations("events", None));
        ChangePrinter { args, changes, format, out: Box::new(stdout()), events: 0, progress }
    }

    /// Prints the present contents if the subscription begins with them.
    fn contents(&mut self, db: &Db, decoder: &mut ChangeDecoder) -> Done {
        if !self.changes.is_snapshot_due() {
            return Ok(());
        }
        let snapshot = self.changes.snapshot()?;
        let position = self.changes.position();
        if self.args.from == FollowStart::Contents {
            let (out, format, events) = (&mut self.out, self.format, &mut self.events);
            decoder.snapshot(db, &snapshot, position, &mut |event| {
                *events += 1;
                Ok(writeln!(out, "{}", event.to_json(format))?)
            })?;
        }
        self.acknowledge(position.seq)
    }

    /// Prints the changes up to the newest one.
    fn changes(&mut self, decoder: &mut ChangeDecoder) -> Done {
        let mut since = 0;
        while self.args.limit.is_none_or(|limit| self.events < limit) {
            let change = match self.changes.next(Duration::ZERO) {
                Err(e) if e.kind() == ErrorKind::Lagged => {
                    return Err(Failure::with_next(
                        format!("the log of the store has lost changes: {e}"),
                        "run it again: it prints the present contents first",
                    ));
                }
                change => change?,
            };
            let Some(change) = change else { break };
            let (out, format, events) = (&mut self.out, self.format, &mut self.events);
            decoder.events(&change, self.changes.position(), &mut |event| {
                *events += 1;
                Ok(writeln!(out, "{}", event.to_json(format))?)
            })?;
            since += 1;
            if since == ROUND {
                since = 0;
                self.acknowledge(*change.seqs().end())?;
                self.progress.iter().for_each(|p| p.at(self.events));
            }
        }
        self.acknowledge(self.changes.position().seq)
    }

    /// Writes the output, and then acknowledges the changes up to `seq`.
    fn acknowledge(&mut self, seq: u64) -> Done {
        self.out.flush()?;
        if !self.args.peek {
            self.changes.acknowledge(seq)?;
        }
        Ok(())
    }

    fn end(mut self) -> Done {
        drop(self.progress.take());
        let position = self.changes.position();
        let events = things(self.events, "event", "events");
        if self.args.peek {
            eprintln!("{events}; nothing is acknowledged");
            return Ok(());
        }
        self.changes.persist()?;
        eprintln!("{events}; acknowledged up to {position}");
        Ok(())
    }
}
