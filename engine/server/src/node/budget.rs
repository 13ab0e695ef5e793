//! What is in flight: the bytes of requests that wait or run, or their number.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The bytes that all requests together may have that wait or run, or how many there may be. Cheap
/// to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct FlightBudget(Arc<Flight>);

#[derive(Debug)]
struct Flight {
    most: usize,
    taken: Mutex<usize>,
    room: Condvar,
}

/// Bytes that were taken. They are given back when it is dropped.
#[derive(Debug)]
pub struct FlightShare {
    flight: Arc<Flight>,
    bytes: usize,
}

impl FlightBudget {
    /// Of this many bytes.
    pub fn new(most: usize) -> FlightBudget {
        FlightBudget(Arc::new(Flight { most, taken: Mutex::new(0), room: Condvar::new() }))
    }

    /// Takes bytes as soon as there is room: who waits is not read from meanwhile. More than all
    /// there is waits until nothing is in flight.
    pub fn take(&self, bytes: usize) -> FlightShare {
        let mut taken = self.0.taken.lock();
        while *taken > 0 && taken.saturating_add(bytes) > self.0.most {
            self.0.room.wait(&mut taken);
        }
        *taken += bytes;
        FlightShare { flight: self.0.clone(), bytes }
    }

    /// Waits until nothing is in flight.
    pub fn wait_until_empty(&self) {
        let mut taken = self.0.taken.lock();
        while *taken > 0 {
            self.0.room.wait(&mut taken);
        }
    }

    /// What is in flight now.
    pub fn taken(&self) -> usize {
        *self.0.taken.lock()
    }

    /// Takes bytes where there is room.
    pub fn try_take(&self, bytes: usize) -> Option<FlightShare> {
        let mut taken = self.0.taken.lock();
        if *taken > 0 && taken.saturating_add(bytes) > self.0.most {
            return None;
        }
        *taken += bytes;
        Some(FlightShare { flight: self.0.clone(), bytes })
    }
}

impl Drop for FlightShare {
    fn drop(&mut self) {
        *self.flight.taken.lock() -= self.bytes;
        self.flight.room.notify_all();
    }
}
