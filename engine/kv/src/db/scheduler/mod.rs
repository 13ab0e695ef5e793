//! Background work: queue, worker slots, rate limits, write slowdowns, and the gate that closes the
//! store.

pub mod gate;
pub mod queue;
pub mod slots;
pub mod throttle;
pub mod write_controller;
