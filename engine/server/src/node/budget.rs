//! Budget of requests in flight (waiting or running), in bytes or in number.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Bound on the bytes, or on the number, of all requests that wait or run. Cheap to clone; all
/// clones share one budget.
#[derive(Clone, Debug)]
pub struct FlightBudget(Arc<Flight>);

#[derive(Debug)]
struct Flight {
    most: usize,
    state: Mutex<FlightState>,
    room: Condvar,
}

#[derive(Debug, Default)]
struct FlightState {
    taken: usize,
    /// Ticket of the next caller that waits, and ticket of the caller to be served.
    tickets: (u64, u64),
}

/// Taken bytes, returned when dropped.
#[derive(Debug)]
pub struct FlightShare {
    flight: Arc<Flight>,
    bytes: usize,
}

impl FlightBudget {
    /// Creates a budget of this many bytes.
    pub fn new(most: usize) -> FlightBudget {
        FlightBudget(Arc::new(Flight { most, state: Mutex::default(), room: Condvar::new() }))
    }

    /// Takes bytes as soon as there is room, in the order of the calls; the caller does not read
    /// from its client meanwhile. A request above the whole budget waits until nothing is in
    /// flight.
    pub fn take(&self, bytes: usize) -> FlightShare {
        let mut state = self.0.state.lock();
        let ticket = state.tickets.0;
        state.tickets.0 += 1;
        while state.tickets.1 != ticket || !self.has_room(&state, bytes) {
            self.0.room.wait(&mut state);
        }
        state.tickets.1 += 1;
        state.taken += bytes;
        drop(state);
        // There may be room for the next ticket, too.
        self.0.room.notify_all();
        FlightShare { flight: self.0.clone(), bytes }
    }

    /// Waits until nothing is in flight.
    pub fn wait_until_empty(&self) {
        let mut state = self.0.state.lock();
        while state.taken > 0 {
            self.0.room.wait(&mut state);
        }
    }

    fn has_room(&self, state: &FlightState, bytes: usize) -> bool {
        state.taken == 0 || state.taken.saturating_add(bytes) <= self.0.most
    }

    /// Returns the bytes in flight.
    pub fn taken(&self) -> usize {
        self.0.state.lock().taken
    }

    /// Takes bytes if there is room and no caller waits.
    pub fn try_take(&self, bytes: usize) -> Option<FlightShare> {
        let mut state = self.0.state.lock();
        if state.tickets.0 != state.tickets.1 || !self.has_room(&state, bytes) {
            return None;
        }
        state.taken += bytes;
        Some(FlightShare { flight: self.0.clone(), bytes })
    }
}

impl Drop for FlightShare {
    fn drop(&mut self) {
        self.flight.state.lock().taken -= self.bytes;
        self.flight.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::OsEnv;

    use super::*;

    #[test]
    fn small_shares_do_not_starve_a_large_one() {
        let (budget, env) = (FlightBudget::new(100), OsEnv::new());
        let first = budget.take(10);
        let waiter = budget.clone();
        let large = move || drop(waiter.take(1000));
        let thread = env.spawn("large", Box::new(large)).unwrap();
        let waiting = |budget: &FlightBudget| {
            let (next, turn) = budget.0.state.lock().tickets;
            next - turn
        };
        while waiting(&budget) == 0 {
            std::thread::yield_now();
        }
        assert!(budget.try_take(1).is_none(), "a later call must not overtake it");
        let (small, order) = (budget.clone(), Arc::new(Mutex::new(vec![])));
        let done = order.clone();
        let behind = env.spawn(
            "small",
            Box::new(move || {
                let _share = small.take(1);
                done.lock().push(1);
            }),
        );
        while waiting(&budget) < 2 {
            std::thread::yield_now();
        }
        assert!(order.lock().is_empty());
        drop(first);
        thread.join();
        behind.unwrap().join();
        assert_eq!((budget.taken(), order.lock().len()), (0, 1));
        assert!(budget.try_take(1).is_some());
    }
}
