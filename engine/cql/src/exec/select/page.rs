//! Encoding of the paging state, from which a result continues.
//!
//! ```text
//! state ::= version u8 = 1 | checksum u32 LE, of what follows | table u32 LE | rows left u64 LE | rows left in the partition u64 LE
//!           | length of the key u32 LE | key | 0, or 1 and the components of the row
//! ```
//! It names the last row of the page (or the partition, if that is complete). So it stays valid
//! over restarts and changes of the data.

use md5::{Digest, Md5};

use crate::catalog::{PartitionKey, TableSchema};
use crate::error::{Result, invalid};
use crate::exec::rows::PagingState;

const VERSION: u8 = 1;
/// Bytes before the key.
const HEAD: usize = 29;

/// Position after which a result continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Rows (or groups) that the limit still allows.
    pub left: u64,
    /// Rows that the limit of the partition still allows.
    pub left_in_partition: u64,
    /// Key of the partition.
    pub key: Vec<u8>,
    /// Components of the row; `None` if the partition is complete.
    pub row: Option<Vec<u8>>,
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let digest: [u8; 16] = Md5::digest(bytes).into();
    [digest[0], digest[1], digest[2], digest[3]]
}

impl Position {
    /// Encodes the position for a statement on this table.
    pub fn encode(&self, table: u32) -> PagingState {
        let mut body = vec![];
        body.extend_from_slice(&table.to_le_bytes());
        body.extend_from_slice(&self.left.to_le_bytes());
        body.extend_from_slice(&self.left_in_partition.to_le_bytes());
        body.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        body.extend_from_slice(&self.key);
        body.push(u8::from(self.row.is_some()));
        body.extend_from_slice(self.row.as_deref().unwrap_or_default());
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&checksum(&body));
        bytes.extend_from_slice(&body);
        PagingState(bytes)
    }

    /// Decodes a position.
    ///
    /// # Errors
    /// `Invalid value for the paging state` for bytes that are not a position in this table.
    pub fn decode(state: &PagingState, table: &TableSchema) -> Result<Position> {
        // Clients can compute the checksum, so check the content too.
        let good = |p: &Position| {
            p.left > 0 && !p.key.is_empty() && PartitionKey::default().set(table, &p.key).is_ok()
        };
        Position::read(&state.0, table.id)
            .filter(good)
            .ok_or_else(|| invalid("Invalid value for the paging state"))
    }

    fn read(bytes: &[u8], table: u32) -> Option<Position> {
        let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let small = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let good = bytes.first() == Some(&VERSION)
            && bytes.get(1..5)? == checksum(&bytes[5..])
            && small(5)? == table;
        if !good {
            return None;
        }
        let rest = bytes.get(HEAD..)?;
        let (key, rest) = rest.split_at_checked(usize::try_from(small(25)?).ok()?)?;
        let row = match rest.split_first()? {
            (0, []) => None,
            (1, row) => Some(row.to_vec()),
            _ => return None,
        };
        Some(Position { left: number(9)?, left_in_partition: number(17)?, key: key.to_vec(), row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written_and_nothing_else_is() {
        for row in [None, Some(vec![]), Some(vec![0x40, 1, 2])] {
            let position =
                Position { left: 7, left_in_partition: u64::MAX, key: vec![1, 2, 3], row };
            let state = position.encode(9).0;
            assert_eq!(Position::read(&state, 9), Some(position));
            assert_eq!(Position::read(&state, 8), None);
            for i in 0..state.len() {
                assert_eq!(Position::read(&state[..i], 9), None);
                let mut wrong = state.clone();
                wrong[i] ^= 0x10;
                assert_eq!(Position::read(&wrong, 9), None);
            }
        }
    }
}
