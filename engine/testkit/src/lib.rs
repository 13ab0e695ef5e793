//! Test tools for Firn, for dev-dependencies only: [`datadriven`] runs tests that are text files, [`rng`] is a small generator of
//! repeatable randomness.

pub mod datadriven;
pub mod rng;
