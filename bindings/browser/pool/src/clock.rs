//! Clocks and randomness of JavaScript. Tests of this crate run natively, on those of the system.

use std::time::Duration;

#[cfg(target_family = "wasm")]
mod source {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = Date, js_name = now)]
        fn millis_since_1970() -> f64;
        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        fn millis_since_start() -> f64;
    }

    pub fn wall_micros() -> u64 {
        (millis_since_1970() * 1e3) as u64
    }

    pub fn monotonic_nanos() -> u64 {
        (millis_since_start() * 1e6) as u64
    }
}

#[cfg(not(target_family = "wasm"))]
#[allow(clippy::disallowed_methods, reason = "the clock behind `Env`")]
mod source {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};

    pub fn wall_micros() -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_micros() as u64
    }

    pub fn monotonic_nanos() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

pub(crate) use source::{monotonic_nanos, wall_micros};

/// Waits actively, because a worker has no other way to wait inside a call.
pub(crate) fn sleep(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let end = monotonic_nanos().saturating_add(nanos);
    while monotonic_nanos() < end {
        std::hint::spin_loop();
    }
}

/// Returns a random number: of `crypto.getRandomValues` in a browser.
#[allow(clippy::disallowed_methods, reason = "the source of randomness behind `Env`")]
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| monotonic_nanos() ^ wall_micros().rotate_left(32))
}
