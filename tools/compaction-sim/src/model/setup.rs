//! The parts of a simulation.

use std::sync::Arc;

use firn_kv::TreeOptions;

use crate::model::machine::Machine;
use crate::model::ssd::SsdShape;
use crate::workload::SimWorkload;

/// Everything that defines a simulation.
#[derive(Clone)]
pub struct Setup {
    /// Options of the tree, with its policy.
    pub options: TreeOptions,
    /// The workload.
    pub workload: SimWorkload,
    /// The machine.
    pub machine: Machine,
    /// Cost factors of the flushes, in their order; 1 for later ones.
    pub flush_factors: Arc<[f64]>,
    /// The device, if its own garbage collection is simulated.
    pub ssd: Option<SsdShape>,
    /// Whether to simulate every key; otherwise only numbers.
    pub exact: bool,
    /// Whether to record frames of an animation.
    pub picture: bool,
}

impl Setup {
    /// Creates a simulation of the options' policy with a workload on a machine: only with numbers,
    /// without frames.
    pub fn new(options: TreeOptions, workload: SimWorkload, machine: Machine) -> Setup {
        Setup {
            options,
            workload,
            machine,
            flush_factors: Arc::default(),
            ssd: None,
            exact: false,
            picture: false,
        }
    }

    /// Returns the number of different first 8 bytes of keys: in the exact model keys are those of
    /// the engine, otherwise positions.
    pub fn key_span(&self) -> f64 {
        match self.workload.content.numbers {
            numbers if self.exact && numbers > 0 => numbers as f64,
            _ => 2f64.powi(64),
        }
    }
}
