//! `firn follow`: prints the changes of a store since the last time, as events.
//!
//! Invariant: a change is acknowledged after its events have been written to standard output. So a
//! change whose output was lost is printed again.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use firn_changes::{ChangeDecoder, EventFormat};
use firn_kv::{Db, ErrorKind, Subscription, SubscriptionInfo};
use firn_tools::io::{stdout, stdout_is_terminal};
use firn_tools::options;
use firn_tools::output::{Done, Failure, Progress, bytes, count, listing, print_fitting, things};
use serde_json::json;

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
  firn --db shop follow --drop audit";

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
    /// End after this many events, at the end of a change
    #[arg(long, value_name = "EVENTS")]
    limit: Option<u64>,
    /// Print the changes and do not acknowledge them
    #[arg(long)]
    peek: bool,
    /// Retain at most this much of the store's log for later runs
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = options::size)]
    hold_log: u64,
    /// List the subscriptions, and print no changes
    #[arg(long, conflicts_with_all = ["drop", "peek", "limit"])]
    list: bool,
    /// Drop this subscription, and print no changes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["peek", "limit"])]
    drop: Option<String>,
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
    if args.list {
        return list(global);
    }
    let (db, mut decoder) = match global.holding()? {
        StoreContent::Model => {
            let session = global.model(global.to_write(false, 0))?;
            let db = session.engine().store().db().clone();
            (db, ChangeDecoder::of_tables(session))
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
    let changes = db.subscribe(&args.name, args.hold_log)?;
    let mut printer = ChangePrinter::new(args, changes);
    printer.contents(&db, &mut decoder)?;
    printer.changes(&mut decoder)?;
    printer.end()
}

/// Lists the subscriptions.
fn list(global: &Global) -> Done {
    let db = global.open_to_read()?;
    let all = db.subscriptions();
    if global.store.json {
        let one = |s: &SubscriptionInfo| {
            json!({
                "name": s.name, "seq": s.seq, "behind": s.behind, "retained_bytes": s.retained_bytes,
                "max_log_bytes": s.max_log_bytes, "snapshot_due": s.is_snapshot_due,
            })
        };
        return global.print_json(all.iter().map(one).collect());
    }
    let mut table =
        listing(&["subscription", "acknowledged", "behind", "log", "at most", ""], "lrrrrl");
    for s in &all {
        table.add_row([
            s.name.clone(),
            count(s.seq),
            count(s.behind),
            bytes(s.retained_bytes),
            bytes(s.max_log_bytes),
            if s.is_snapshot_due { "contents due".to_owned() } else { String::new() },
        ]);
    }
    write!(stdout(), "{}", print_fitting(&mut table, &[4], global.style()))?;
    Ok(())
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
