//! Observation of a running store: counters, latencies, events, and what holds space.

pub mod counters;
pub mod events;
pub mod meters;
pub mod pins;

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
