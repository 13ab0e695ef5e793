//! A piece of memory under loom: only its length.

use crate::base::error::Result;

/// No memory: nodes are boxed.
pub(crate) struct Mapping(usize);

impl Mapping {
    pub(crate) fn new(len: usize) -> Result<Mapping> {
        Ok(Mapping(len))
    }

    pub(crate) fn len(&self) -> usize {
        self.0
    }

    pub(crate) fn is_small(_: usize) -> bool {
        true
    }

    pub(crate) fn piece(len: usize) -> usize {
        len
    }

    pub(crate) fn fill(&self, _: usize, _: usize) {}

    pub(crate) fn populate(&mut self, _: usize) {}
}
