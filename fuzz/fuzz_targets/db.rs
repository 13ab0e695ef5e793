//! Histories of operations on a store, compared with a map: see [`firn_fuzz::model`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|history: firn_fuzz::model::History| firn_fuzz::model::run(history));
