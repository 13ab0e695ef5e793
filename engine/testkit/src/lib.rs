//! Test tools for Firn, for dev-dependencies only: [`datadriven`] runs tests that are text files, [`history`] makes histories of
//! operations and [`oracle`] knows what they must answer, [`linear`] judges calls that were made at the same time, [`rng`] is a small
//! generator of repeatable randomness.

pub mod datadriven;
pub mod history;
pub mod linear;
pub mod oracle;
pub mod rng;
