//! Two ways of doing the same, measured by turns: [`Meter`] times, [`Report`] prints. The benches of the models above the engine use it.

mod meter;
mod report;

pub use meter::Meter;
pub use report::Report;
