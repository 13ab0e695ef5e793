//! The mutations of a change, put together by partition.

use std::collections::HashMap;

use firn_wide::internals::store::StoreMutation;

/// The end of the place of a cell of this raw name, after the place of its row.
pub fn cell_name(raw: &[u8]) -> Vec<u8> {
    use firn_wide::internals::key::END;
    use firn_wide::internals::types::{EMPTY, NEXT};
    match raw {
        [] => vec![EMPTY, END],
        _ => [&[NEXT], raw, &[END]].concat(),
    }
}

/// Mutations, one for each partition.
#[derive(Default)]
pub struct Mutations {
    pub all: Vec<StoreMutation>,
    /// What their rows weigh ([`BatchLimits`](super::limits::BatchLimits)).
    pub weight: usize,
    /// Where each is, when they are too many to be looked through.
    numbers: HashMap<Vec<u8>, usize>,
}

impl Mutations {
    /// Up to this many are looked through one by one.
    const FEW: usize = 8;

    /// That of the partition with this key.
    pub fn of(&mut self, key: &[u8]) -> &mut StoreMutation {
        if self.all.len() > Mutations::FEW && self.numbers.is_empty() {
            self.numbers =
                self.all.iter().enumerate().map(|(i, m)| (m.key().to_vec(), i)).collect();
        }
        let found = match self.numbers.is_empty() {
            true => self.all.iter().position(|m| m.key() == key),
            false => self.numbers.get(key).copied(),
        };
        let number = found.unwrap_or_else(|| {
            if !self.numbers.is_empty() {
                self.numbers.insert(key.to_vec(), self.all.len());
            }
            self.all.push(StoreMutation::new(key));
            self.all.len() - 1
        });
        &mut self.all[number]
    }
}
