//! `firn live`: writes a page about a running store, again and again.
//!
//! The current tables come from the store's manifest, past events from its event log; neither is
//! modified. Tables that appear and disappear between two reads of the manifest are only in the
//! log. The log has their number and total bytes, so the page shows them as equal parts.
//!
//! Invariant: after each update the tables are those of the manifest, whatever the log says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use firn_kv::internals::base::key::head;
use firn_kv::internals::manifest::{Manifest, ManifestState, TreeState};
use firn_kv::{Env, ErrorKind, OsEnv};
use firn_tools::io::{self, stdout};
use firn_tools::output::{Done, Failure, bytes, count};
use firn_tools::page::{DrawnRun, DrawnTable, Film, FilmPage, LivePage, PageFrame};
use serde_json::{Value, json};

use crate::names::StoreNames;
use crate::shell::interrupt;
use crate::store::Global;

pub const EXAMPLES: &str = "\
Writes a page that reloads itself in a browser: the runs of each tree, space, flushes, stalls of writers. The store is only read, while
another program writes to it. Scroll back in time and the page stops following; End follows again. The page is one file and needs no
network.

Examples:
  firn live firn-data                       then open live.html in a browser; Ctrl-C ends it
  firn live firn-data --html /tmp/shop.html --every 5
  firn live firn-data --tree default --for 60    one minute, for a report";

/// Bytes of the event log to read at a time.
const PIECE: usize = 1 << 20;
/// Number of attempts to read a manifest that its writer is replacing.
const TRIES: usize = 10;

/// Arguments of `firn live`.
#[derive(Args, Clone, Debug)]
pub struct LiveArgs {
    /// Follow the store in this directory [default: that of --db]
    #[arg(value_name = "DIR")]
    store: Option<PathBuf>,
    /// Show this tree, or KEYSPACE.TABLE; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    tree: Vec<String>,
    /// Write the page to this file
    #[arg(long, value_name = "FILE", default_value = "live.html")]
    html: PathBuf,
    /// Update the page every this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,
    /// End after this many seconds [default: at Ctrl-C]
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    lasting: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    let shortest = Duration::from_millis(100);
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| *d >= shortest && *d <= Duration::from_secs(86_400 * 365))
        .ok_or_else(|| "it is between a tenth of a second and a year".to_owned())
}

/// Runs `firn live`.
pub fn run(global: &Global, args: &LiveArgs) -> Done {
    let mut global = global.clone();
    if let Some(dir) = &args.store {
        global.store.db.clone_from(dir);
    }
    interrupt::watch().map_err(|e| Failure::new(format!("cannot watch for Ctrl-C: {e}")))?;
    let mut live = Live::open(&global, args)?;
    let end = args.lasting.map(|d| live.started + d.as_micros() as u64);
    let page = std::path::absolute(&args.html).unwrap_or_else(|_| args.html.clone());
    live.write(args, Some(args.every))?;
    tell(&global, &page, "written")?;
    eprintln!("open it in a browser: it follows the store; Ctrl-C ends it");
    while !live.wait(args.every, end) {
        live.look()?;
        live.write(args, Some(args.every))?;
    }
    live.look()?;
    live.write(args, None)?;
    tell(&global, &page, "complete")
}

fn tell(global: &Global, page: &std::path::Path, state: &str) -> Done {
    use std::io::Write;
    let mut out = stdout();
    if global.store.json {
        writeln!(out, "{}", json!({"page": page.display().to_string(), "state": state}))?;
    } else {
        writeln!(out, "{}: {state}", page.display())?;
    }
    Ok(out.flush()?)
}

/// Tables of a tree by their numbers.
type LiveTables = BTreeMap<u64, DrawnTable>;

/// State of a tree.
#[derive(Default)]
struct LiveTree {
    tables: LiveTables,
    film: Film,
    entries: u64,
    written: [u64; 2],
}

impl LiveTree {
    fn bytes(&self) -> u64 {
        self.tables.values().fold(0, |sum, t| sum.saturating_add(t.bytes))
    }

    fn drawn(&self) -> Vec<DrawnRun> {
        let mut tables: Vec<DrawnTable> = self.tables.values().copied().collect();
        tables.sort_unstable_by_key(|t| (t.level, std::cmp::Reverse(t.run), t.heads));
        DrawnRun::of_tables(&tables)
    }

    fn moment(&self, t: f64, held: [f64; 2], did: String) -> PageFrame {
        PageFrame {
            t,
            ops: self.entries,
            written: self.written,
            held,
            did,
            peak: self.bytes(),
            runs: self.drawn(),
            ..PageFrame::default()
        }
    }

    fn take(&mut self, t: f64, held: [f64; 2], did: String) {
        // The manifest may be ahead of the log.
        let last = self.film.frames().last().map_or(0.0, |f| f.t);
        let frame = self.moment(t.max(last), held, did);
        let Ok(()) = self.film.add(|| Ok::<_, std::convert::Infallible>(frame));
    }

    /// Returns the recorded frames and the current one. Between two events the state of writers is
    /// unknown.
    fn frames(&self, now: f64, held: [f64; 2]) -> Vec<PageFrame> {
        let mut frames = self.film.frames().to_vec();
        let did = frames.last().map_or_else(String::new, |f| f.did.clone());
        frames.push(self.moment(now, held, did));
        frames
    }

    /// Applies an event to the tables, and describes it; `None` if it changes no tables. `known`
    /// has the tables that the manifest describes.
    fn apply(&mut self, event: &Value, known: &LiveTables) -> Option<String> {
        let n = |field: &str| event[field].as_u64().unwrap_or(0);
        let ids = |field: &str| -> Vec<u64> {
            event[field].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        let (made, out) = (ids("tables"), n("bytes_out"));
        match event["event"].as_str()? {
            "flush" => {
                self.entries = self.entries.saturating_add(n("entries"));
                self.written[0] = self.written[0].saturating_add(out);
                let level0 = self.tables.values().filter(|t| t.level == 0);
                let run = level0.map(|t| t.run).max().unwrap_or(0).saturating_add(1);
                let head = |i: usize| event["heads"][i].as_u64().unwrap_or(0);
                self.add((0, run), &made, out, (head(0), head(1)), &LiveTables::new(), known);
                let flushed = format!("flush of {} entries, {}", count(n("entries")), bytes(out));
                Some(flushed + in_pieces(event).as_str())
            }
            "compaction" => {
                let job = event["job"].as_str().unwrap_or_default();
                if job.starts_with("merge") {
                    self.written[1] = self.written[1].saturating_add(out);
                    self.film.note_bytes(self.bytes().saturating_add(out));
                }
                let taken: LiveTables =
                    ids("removed").iter().filter_map(|id| self.tables.remove_entry(id)).collect();
                let low = taken.values().map(|t| t.heads.0).min().unwrap_or(0);
                let high = taken.values().map(|t| t.heads.1).max().unwrap_or(0);
                // The description of the job ends with its target: "-> L2#5".
                let run = job.rsplit_once("-> L").and_then(|(_, to)| {
                    let number = to.split_once('#')?.1;
                    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
                });
                let level = u8::try_from(n("level")).unwrap_or(u8::MAX);
                self.add((level, run.unwrap_or(0)), &made, out, (low, high), &taken, known);
                Some(job.to_owned() + in_pieces(event).as_str())
            }
            "drop" => {
                let gone = ids("removed");
                for id in &gone {
                    self.tables.remove(id);
                }
                Some(format!("drop of {} tables, whose keys were all deleted", gone.len()))
            }
            _ => None,
        }
    }

    /// Adds tables of a run. Tables in `taken` are unchanged, tables known from the manifest are
    /// copied, and the others are equal parts.
    fn add(
        &mut self,
        (level, run): (u8, u64),
        ids: &[u64],
        bytes: u64,
        (low, high): (u64, u64),
        taken: &LiveTables,
        known: &LiveTables,
    ) {
        let new = ids.iter().filter(|id| !taken.contains_key(id)).count().max(1) as u64;
        let step = high.saturating_sub(low) / new;
        let mut from = low;
        for id in ids {
            let facts = taken.get(id).or_else(|| known.get(id)).copied().unwrap_or_else(|| {
                let to = from.saturating_add(step);
                let part = DrawnTable { bytes: bytes / new, heads: (from, to), level, run };
                from = to;
                part
            });
            self.tables.insert(*id, DrawnTable { level, run, ..facts });
        }
    }
}

/// Returns the number of subcompactions of a job, if the log names more than one.
fn in_pieces(event: &Value) -> String {
    match event["subcompactions"].as_u64() {
        Some(subcompactions @ 2..) => format!(", in {subcompactions} subcompactions"),
        _ => String::new(),
    }
}

/// State of the store as last seen.
struct Live {
    env: Arc<dyn Env>,
    global: Global,
    wanted: Vec<String>,
    trees: BTreeMap<String, LiveTree>,
    names: StoreNames,
    /// Start time in microseconds since 1970.
    started: u64,
    /// Bytes read from the event log, and an incomplete line at their end.
    read: u64,
    rest: Vec<u8>,
    /// Seconds of slowdowns and stalls of writers since the start, and the last counters of the
    /// log. These restart when the store is opened.
    held: [f64; 2],
    counted: Option<[u64; 2]>,
}

impl Live {
    fn open(global: &Global, args: &LiveArgs) -> Done<Live> {
        let env = OsEnv::new();
        let mut live = Live {
            started: env.wall_micros(),
            read: env.file_len(&global.store.db.join("EVENTS.jsonl")).unwrap_or(0),
            env,
            global: global.clone(),
            wanted: args.tree.iter().map(|name| global.path_to_tree(name)).collect(),
            trees: BTreeMap::new(),
            names: StoreNames::default(),
            rest: vec![],
            held: [0.0; 2],
            counted: None,
        };
        let state = live.manifest()?;
        if let Some(name) = live.wanted.iter().find(|name| state.tree_named(name).is_none()) {
            return Err(Failure::with_next(
                format!("{} has no tree {name:?}", global.store.db.display()),
                "`firn trees` lists its trees",
            ));
        }
        live.meet(&state);
        live.take_over(&state, "as it was when this began");
        Ok(live)
    }

    /// Sleeps until the next update is due; reports whether it is the last one.
    fn wait(&self, every: Duration, end: Option<u64>) -> bool {
        let until = self.env.wall_micros() + every.as_micros() as u64;
        loop {
            let now = self.env.wall_micros();
            if interrupt::is_set() || end.is_some_and(|end| now >= end) {
                return true;
            }
            if now >= until {
                return false;
            }
            let next = end.map_or(until, |end| end.min(until)) - now;
            self.env.sleep(Duration::from_micros(next.min(100_000)));
        }
    }

    fn seconds(&self, wall: u64) -> f64 {
        wall.saturating_sub(self.started) as f64 / 1e6
    }

    /// Reads the manifest; repeats this if its writer replaces it meanwhile.
    fn manifest(&self) -> Done<ManifestState> {
        let dir = &self.global.store.db;
        let mut tries = 0;
        loop {
            tries += 1;
            match Manifest::load(&*self.env, dir) {
                Ok(Some((state, _))) => return Ok(state),
                Ok(None) => {
                    return Err(Failure::with_next(
                        format!("{} is no store", dir.display()),
                        "name the directory of one: firn live DIR",
                    ));
                }
                Err(e) if e.kind() == ErrorKind::Corruption && tries < TRIES => {
                    self.env.sleep(Duration::from_millis(20));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Returns the lines of the event log since the last update.
    fn events(&mut self) -> Done<Vec<Value>> {
        let path = self.global.store.db.join("EVENTS.jsonl");
        let file = match self.env.open_read(&path, false) {
            Ok(file) => file,
            // A store may have no event log.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(e) => return Err(e.into()),
        };
        if file.len() < self.read {
            // A new file has replaced the old one.
            self.read = 0;
            self.rest.clear();
        }
        let mut events = vec![];
        while self.read < file.len() {
            let piece = (file.len() - self.read).min(PIECE as u64) as usize;
            let begin = self.rest.len();
            self.rest.resize(begin + piece, 0);
            file.read_at(self.read, &mut self.rest[begin..])?;
            self.read += piece as u64;
            let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            let lines = self.rest.drain(..whole).collect::<Vec<u8>>();
            // An invalid line was torn by a crash.
            events.extend(
                lines.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()),
            );
            if self.rest.len() > PIECE {
                self.rest.clear();
            }
        }
        Ok(events)
    }

    /// Processes the new events.
    fn look(&mut self) -> Done {
        let events = self.events()?;
        let state = self.manifest()?;
        let facts: BTreeMap<&str, LiveTables> =
            state.trees.values().map(|t| (t.name.as_str(), tables(t))).collect();
        self.meet(&state);
        for event in &events {
            self.count_stops(event);
            let t = self.seconds(event["at"].as_u64().unwrap_or(self.started));
            let name = event["tree"].as_str().unwrap_or_default();
            let (Some(tree), Some(known)) = (self.trees.get_mut(name), facts.get(name)) else {
                continue;
            };
            if let Some(did) = tree.apply(event, known) {
                tree.take(t, self.held, did);
            }
        }
        self.take_over(&state, "seen in the manifest; the event log has no entry for it");
        Ok(())
    }

    fn is_wanted(&self, tree: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|w| w == tree)
    }

    fn count_stops(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("open") => self.counted = Some([0; 2]),
            Some("flush") => {
                let now = ["slowdown_micros", "stalled_micros"]
                    .map(|field| event[field].as_u64().unwrap_or(0));
                // Stalls before the first observed flush are from before this command.
                let before = self.counted.unwrap_or(now);
                for (sum, (now, before)) in self.held.iter_mut().zip(now.into_iter().zip(before)) {
                    *sum += now.saturating_sub(before) as f64 / 1e6;
                }
                self.counted = Some(now);
            }
            _ => {}
        }
    }

    /// Sets the trees to those of the manifest.
    fn meet(&mut self, state: &ManifestState) {
        let names: Vec<&String> =
            state.trees.values().map(|t| &t.name).filter(|name| self.is_wanted(name)).collect();
        if names.iter().any(|name| !self.trees.contains_key(*name)) {
            // Without their definitions, trees are shown with the names of the engine.
            let named = self.global.open_named_quietly();
            self.names = named.map(|(_, names)| names).unwrap_or_default();
        }
        self.trees.retain(|name, _| names.contains(&name));
        for name in names {
            self.trees.entry(name.clone()).or_default();
        }
    }

    /// Sets the tables to those of the manifest.
    fn take_over(&mut self, state: &ManifestState, did: &str) {
        let now = self.seconds(self.env.wall_micros());
        for t in state.trees.values() {
            let Some(tree) = self.trees.get_mut(&t.name) else { continue };
            let told = std::mem::replace(&mut tree.tables, tables(t));
            if !told.keys().eq(tree.tables.keys()) || tree.film.frames().is_empty() {
                tree.take(now, self.held, did.to_owned());
            }
        }
    }

    /// Writes the page; `every` is the time until the next update.
    fn write(&self, args: &LiveArgs, every: Option<Duration>) -> Done {
        let now = self.seconds(self.env.wall_micros());
        let shown: Vec<(&str, &LiveTree, Vec<PageFrame>)> = self
            .trees
            .iter()
            .map(|(name, t)| (self.names.of_tree(name).unwrap_or(name), t))
            .map(|(name, t)| (name, t, t.frames(now, self.held)))
            .collect();
        let row = |(name, t, _): &(&str, &LiveTree, Vec<PageFrame>)| {
            let runs = t.drawn();
            vec![
                (*name).to_owned(),
                runs.len().to_string(),
                t.tables.len().to_string(),
                bytes(t.bytes()),
                count(t.entries),
                bytes(t.written[0]),
                bytes(t.written[1]),
            ]
        };
        let rows: Vec<_> = shown.iter().map(row).collect();
        let cases: Vec<(&str, &[PageFrame])> =
            shown.iter().map(|(name, _, frames)| (*name, &frames[..])).collect();
        let dir = self.global.store.db.display();
        let about = match every {
            Some(_) => format!(
                "The store {dir} since the start of `firn live`. Scroll back to stop following; End follows again."
            ),
            None => {
                format!("The store {dir} from the start of `firn live` to its end.")
            }
        };
        let page = FilmPage {
            title: "firn live",
            about: &about,
            work: "entries flushed",
            head: &HEAD,
            rows: &rows,
            cases: &cases,
            at_once: true,
            live: every.map(|d| LivePage {
                every: d.as_secs_f64(),
                written: self.env.wall_micros() as f64 / 1e6,
            }),
        };
        Ok(io::replace(&args.html, page.html().as_bytes())?)
    }
}

const HEAD: [(&str, &str); 7] = [
    ("tree", "A tree of the store, or the table or family that is in it."),
    ("runs", "Sorted runs that a read may have to look into, now."),
    ("tables", "Tables now."),
    ("on disk", "Bytes of these tables."),
    ("flushed", "Entries that were flushed since this began."),
    ("by flushes", "Bytes that flushes have written since then."),
    ("by compactions", "Bytes that compactions have written since then."),
];

fn tables(tree: &TreeState) -> LiveTables {
    let all = tree.runs.iter().flat_map(|run| run.tables.iter().map(move |t| (run, t)));
    all.map(|(run, t)| {
        let heads = (head(&t.first_key), head(&t.last_key));
        (t.id, DrawnTable { level: run.level, run: run.number, bytes: t.size, heads })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_where_there_are_several() {
        let told = |event: Value| {
            LiveTree::default().apply(&event, &LiveTables::new()).unwrap_or_default()
        };
        let flush = json!({"event": "flush", "entries": 2000, "bytes_out": 100, "tables": [1]});
        // A log of an earlier version does not contain them.
        assert_eq!(told(flush.clone()), "flush of 2,000 entries, 100 B");
        for (subcompactions, words) in [(0, ""), (1, ""), (3, ", in 3 subcompactions")] {
            let mut flush = flush.clone();
            flush["subcompactions"] = json!(subcompactions);
            assert_eq!(told(flush), format!("flush of 2,000 entries, 100 B{words}"));
            let job = "merge L0#2 + L0#1 -> L1#2";
            let merge =
                json!({"event": "compaction", "job": job, "subcompactions": subcompactions});
            assert_eq!(told(merge), format!("{job}{words}"));
        }
    }
}
