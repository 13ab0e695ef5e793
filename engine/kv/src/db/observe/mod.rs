//! Observation of a running store: counters, latencies, events, and what holds space.

pub mod counters;
pub mod events;
pub mod meters;
pub mod pins;
pub mod read_observer;

use std::sync::Arc;

use crate::base::events::Event;

use counters::Counters;
use events::Events;
use meters::Meters;
use pins::Pins;

/// Counters, latencies and events of an open store.
pub struct Observer {
    counters: Counters,
    meters: Arc<Meters>,
    pins: Arc<Pins>,
    events: Arc<Events>,
}

impl Observer {
    /// Creates an observer without counts.
    pub fn new(meters: Arc<Meters>, pins: Arc<Pins>, events: Arc<Events>) -> Observer {
        Observer { counters: Counters::default(), meters, pins, events }
    }

    /// Returns the sums of flushes and compactions.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the latencies, and the recorder of reads.
    #[inline]
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Returns the readers and tasks that hold space.
    pub fn pins(&self) -> &Arc<Pins> {
        &self.pins
    }

    /// Returns the event log and the listener.
    pub fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// Writes an event to the log and sends it to the listener.
    pub fn note(&self, event: impl FnOnce() -> Event) {
        self.events.note(event);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::compaction::Action;
    use crate::env::Env;
    use crate::env::mem::MemEnv;

    #[test]
    fn counts_are_summed_and_events_reach_the_log() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
        env.create_dir_all(Path::new("/db")).unwrap();
        let events = Arc::new(Events::open(env.clone(), Path::new("/db"), true, None));
        let observer = Observer::new(Meters::new(env.clone()), Pins::new(env.clone()), events);
        observer.counters().flushed(10, 3);
        observer.counters().flushed(20, 4);
        observer.counters().compacted(Action::Move, 5, 0, 1);
        let sums = observer.counters().sums();
        assert_eq!((sums.flushes, sums.flush_out, sums.flush_nanos, sums.moves), (2, 30, 7, 1));
        observer.note(|| Event::TreeDropped { tree: "t".to_owned(), id: 3 });
        let file = env.open_read(Path::new("/db/EVENTS.jsonl"), false).unwrap();
        let mut line = vec![0; file.len() as usize];
        file.read_at(0, &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains("\"tree dropped\"") && line.ends_with("}\n"), "{line}");
    }
}
