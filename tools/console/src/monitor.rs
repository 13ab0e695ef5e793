//! Samples the store every second, and gives samples and events to the pages.
//!
//! Invariants:
//! - The last [`MAX_SAMPLES`] samples and [`MAX_EVENTS`] events are stored. A stream stores none:
//!   it sends the newest sample when its client has taken the one before.
//! - Each sample takes one report of the store's statistics. A store of another process is read
//!   again only while a page is open, and at most a tenth of the time.
//! - At most one tree is recorded, in a film of bounded length.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use firn_kv::stats::Stats;
use firn_kv::{Env, Error};
use firn_server::http::HttpStream;
use firn_tools::output::{bytes, count};
use firn_tools::page::{Film, FilmPage, PageFrame};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::events::{EventFollower, shown};
use crate::sample::{SampledCounters, sample_json};
use crate::shape::{drawn_runs, jobs};
use crate::store::ConsoleStore;

/// Number of stored samples: 15 minutes.
const MAX_SAMPLES: usize = 900;
/// Number of stored events.
const MAX_EVENTS: usize = 300;
/// Number of trees that a sample names as changed.
const MAX_CHANGED: usize = 64;
/// Number of jobs in a sample.
const MAX_JOBS: usize = 32;
/// Time between samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between checks whether to stop.
const TICK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct MonitorState {
    samples: VecDeque<Arc<Value>>,
    events: VecDeque<Value>,
    /// Numbers of the newest sample and event, from 1.
    sampled: u64,
    noted: u64,
    recording: Option<TreeRecording>,
}

/// A recording of one tree.
struct TreeRecording {
    tree: String,
    began_micros: u64,
    film: Film,
    entries: u64,
    written: [u64; 2],
    /// Counters of slowdowns and stalls in nanoseconds at its start, and the seconds since.
    waits: [u64; 2],
    held: [f64; 2],
    did: String,
}

impl TreeRecording {
    fn note(&mut self, event: &Value) {
        if event["tree"].as_str() != Some(&self.tree) {
            return;
        }
        let n = |field: &str| event[field].as_u64().unwrap_or(0);
        match event["event"].as_str() {
            Some("flush") => {
                self.entries = self.entries.saturating_add(n("entries"));
                self.written[0] = self.written[0].saturating_add(n("bytes_out"));
            }
            Some("compaction") => {
                self.written[1] = self.written[1].saturating_add(n("bytes_out"));
            }
            _ => {}
        }
        let shown = shown(event);
        let text = |field: &str| shown[field].as_str().unwrap_or_default().to_owned();
        self.did = format!("{}: {}", text("event"), text("words"));
    }

    fn take(&mut self, store: &ConsoleStore, stats: &Stats, at_micros: u64) -> Result<(), Error> {
        let waits = [stats.slowdown_nanos, stats.stalled_nanos];
        for (i, held) in self.held.iter_mut().enumerate() {
            *held = waits[i].saturating_sub(self.waits[i]) as f64 / 1e9;
        }
        let tree = stats.trees.iter().find(|t| t.name == self.tree);
        let peak = tree.map_or(0, |t| t.space.live + t.space.writing);
        let frame = || {
            Ok(PageFrame {
                t: at_micros.saturating_sub(self.began_micros) as f64 / 1e6,
                ops: self.entries,
                written: self.written,
                held: self.held,
                peak,
                did: self.did.clone(),
                runs: drawn_runs(&store.db(), &self.tree)?,
                ..PageFrame::default()
            })
        };
        self.film.add(frame)
    }
}

/// Samples of a store.
pub struct Monitor {
    env: Arc<dyn Env>,
    store: Arc<ConsoleStore>,
    state: Mutex<MonitorState>,
    /// Signals a new sample, or the end.
    changed: Condvar,
    watchers: AtomicUsize,
    stopped: AtomicBool,
}

impl Monitor {
    /// Creates a monitor; [`run`](Monitor::run) takes the samples.
    pub fn new(env: Arc<dyn Env>, store: Arc<ConsoleStore>) -> Monitor {
        Monitor {
            env,
            store,
            state: Mutex::default(),
            changed: Condvar::new(),
            watchers: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Ends [`run`](Monitor::run) and all streams.
    pub fn stop(&self) {
        let _state = self.state.lock();
        self.stopped.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Takes samples until the end, and calls `tick` between them.
    pub fn run(&self, tick: impl Fn()) {
        let dir = self.store.dir();
        let mut follower = dir.map(|dir| EventFollower::new(self.env.clone(), dir));
        let mut counters =
            SampledCounters::of(&self.store.db().stats(), self.env.monotonic_nanos());
        let mut trees = BTreeMap::new();
        let mut follows_at = 0;
        let mut next = self.env.monotonic_nanos();
        while !self.is_stopped() {
            tick();
            let now = self.env.monotonic_nanos();
            if now < next {
                let left = Duration::from_nanos(next - now);
                self.env.sleep(left.min(TICK));
                continue;
            }
            next = now + INTERVAL.as_nanos() as u64;
            let mut problem = None;
            if now >= follows_at && self.watchers.load(Ordering::SeqCst) > 0 {
                problem = self.store.follow().err().map(|e| e.words());
                let took = self.env.monotonic_nanos().saturating_sub(now);
                follows_at = now + took.saturating_mul(10);
            }
            let stats = self.store.db().stats();
            let fresh = SampledCounters::of(&stats, self.env.monotonic_nanos());
            let wall = self.env.wall_micros();
            let mut sample = sample_json(&stats, &counters, &fresh, wall);
            counters = fresh;
            let changed = changed(&mut trees, &stats);
            sample["changed"] = changed.iter().take(MAX_CHANGED).copied().collect();
            sample["changed_trees"] = changed.len().into();
            let mut running = jobs(&stats, None);
            running.truncate(MAX_JOBS);
            sample["jobs"] = running.into();
            let events = match follower.as_mut().map(EventFollower::next).transpose() {
                Ok(events) => events.unwrap_or_default(),
                Err(e) => {
                    problem = Some(e.to_string());
                    vec![]
                }
            };
            if self.store.is_followed() {
                count_events(&mut sample, &events);
            }
            sample["problem"] = problem.into();
            self.publish(sample, &events, &stats, &changed, wall);
        }
    }

    fn publish(
        &self,
        mut sample: Value,
        events: &[Value],
        stats: &Stats,
        changed: &[&str],
        wall_micros: u64,
    ) {
        let mut state = self.state.lock();
        for event in events {
            if let Some(recording) = &mut state.recording {
                recording.note(event);
            }
            state.noted += 1;
            let mut event = shown(event);
            event["number"] = state.noted.into();
            if state.events.len() == MAX_EVENTS {
                state.events.pop_front();
            }
            state.events.push_back(event);
        }
        let is_changed = |tree: &str| changed.contains(&tree);
        if let Some(recording) = state.recording.as_mut().filter(|r| is_changed(&r.tree))
            && let Err(e) = recording.take(&self.store, stats, wall_micros)
        {
            tracing::warn!("the recording of a tree ended: {e}");
            state.recording = None;
        }
        sample["recording"] = state.recording.as_ref().map(|r| r.tree.clone()).into();
        state.sampled += 1;
        sample["number"] = state.sampled.into();
        if state.samples.len() == MAX_SAMPLES {
            state.samples.pop_front();
        }
        state.samples.push_back(Arc::new(sample));
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the stored samples and events, oldest first.
    pub fn history(&self) -> Value {
        let state = self.state.lock();
        let (samples, events) = (state.samples.clone(), state.events.clone());
        drop(state);
        let samples: Vec<&Value> = samples.iter().map(|s| &**s).collect();
        json!({"samples": samples, "events": events})
    }

    /// Returns a stream of server-sent events: each sample, with the events before it.
    pub fn stream(self: &Arc<Self>) -> HttpStream {
        let watcher = Watcher::new(self.clone());
        let mut seen = None;
        Box::new(move |out| {
            while let Some(part) = watcher.0.next(&mut seen) {
                out.write_all(part.as_bytes())?;
                out.flush()?;
            }
            Ok(())
        })
    }

    /// Waits for a sample after those that were seen: the numbers of the last sample and event.
    fn next(&self, seen: &mut Option<(u64, u64)>) -> Option<String> {
        let mut state = self.state.lock();
        // A first part at once, so that the client knows that it is connected.
        let Some((sampled, noted)) = *seen else {
            *seen = Some((state.sampled, state.noted));
            return Some("retry: 2000\n\n".to_owned());
        };
        while state.sampled == sampled && !self.is_stopped() {
            self.changed.wait(&mut state);
        }
        let sample = state.samples.back().filter(|_| !self.is_stopped())?.clone();
        let new = state.noted.saturating_sub(noted).min(state.events.len() as u64) as usize;
        let events: Vec<Value> = state.events.range(state.events.len() - new..).cloned().collect();
        *seen = Some((state.sampled, state.noted));
        drop(state);
        Some(format!("data: {}\n\n", json!({"sample": &*sample, "events": events})))
    }

    /// Starts to record a tree, and forgets the recording before it.
    ///
    /// # Errors
    /// A tree that does not exist.
    pub fn record(&self, tree: &str) -> Result<(), Error> {
        let stats = self.store.db().stats();
        let mut recording = TreeRecording {
            tree: tree.to_owned(),
            began_micros: self.env.wall_micros(),
            film: Film::default(),
            entries: 0,
            written: [0; 2],
            waits: [stats.slowdown_nanos, stats.stalled_nanos],
            held: [0.0; 2],
            did: "the start of the recording".to_owned(),
        };
        recording.take(&self.store, &stats, recording.began_micros)?;
        self.state.lock().recording = Some(recording);
        Ok(())
    }

    /// Returns the recording so far as a page: one file that needs no network. `None`: no tree is
    /// recorded.
    pub fn recording(&self, displayed: impl Fn(&str) -> String) -> Option<String> {
        let state = self.state.lock();
        let recording = state.recording.as_ref()?;
        let frames = recording.film.frames();
        let last = frames.last()?;
        let tables: usize = last.runs.iter().map(|r| r.tables).sum();
        let name = displayed(&recording.tree);
        let row = vec![
            name.clone(),
            last.runs.iter().map(|r| r.runs).sum::<usize>().to_string(),
            tables.to_string(),
            bytes(last.runs.iter().map(|r| r.bytes).sum()),
            count(recording.entries),
            bytes(recording.written[0]),
            bytes(recording.written[1]),
        ];
        let page = FilmPage {
            title: "Recording of a Firn tree",
            about: "The tree from the start of its recording to the last change.",
            work: "entries flushed",
            head: &RECORDING_HEAD,
            rows: &[row],
            cases: &[(&name, frames)],
            at_once: true,
        };
        Some(page.html())
    }
}

const RECORDING_HEAD: [(&str, &str); 7] = [
    ("tree", "A tree of the store, or the table or family that is in it."),
    ("runs", "Sorted runs that a read may have to search, at the end."),
    ("tables", "Tables at the end."),
    ("on disk", "Bytes of these tables."),
    ("flushed", "Entries that were flushed since the start."),
    ("by flushes", "Bytes that flushes have written since then."),
    ("by compactions", "Bytes that compactions have written since then."),
];

/// Level, number, tables, bytes and entries of each run of a tree.
type RunList = Vec<(u8, u64, usize, u64, u64)>;

/// Returns the trees whose tables have changed since the last call.
fn changed<'s>(known: &mut BTreeMap<String, RunList>, stats: &'s Stats) -> Vec<&'s str> {
    let mut now = BTreeMap::new();
    let mut changed = vec![];
    for tree in &stats.trees {
        let runs: RunList =
            tree.runs.iter().map(|r| (r.level, r.number, r.tables, r.bytes, r.entries)).collect();
        if known.get(&tree.name) != Some(&runs) {
            changed.push(&*tree.name);
        }
        now.insert(tree.name.clone(), runs);
    }
    *known = now;
    changed
}

/// Sets the rates of flushes and compactions to those of the events: another process runs them.
fn count_events(sample: &mut Value, events: &[Value]) {
    let seconds = sample["seconds"].as_f64().unwrap_or(1.0);
    let sum = |kind: &str, field: &str| {
        let of = events.iter().filter(|e| e["event"] == kind);
        of.map(|e| e[field].as_u64().unwrap_or(0)).sum::<u64>() as f64 / seconds
    };
    for (rate, kind, field) in [
        ("flush_bytes", "flush", "bytes_out"),
        ("user_bytes", "flush", "raw_bytes"),
        ("compaction_read", "compaction", "bytes_in"),
        ("compaction_written", "compaction", "bytes_out"),
    ] {
        sample["rates"][rate] = sum(kind, field).into();
    }
}

/// A stream that is being read.
struct Watcher(Arc<Monitor>);

impl Watcher {
    fn new(monitor: Arc<Monitor>) -> Watcher {
        monitor.watchers.fetch_add(1, Ordering::SeqCst);
        Watcher(monitor)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}
