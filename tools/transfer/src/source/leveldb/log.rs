//! LevelDB's log format, which logs and manifests have: records in fragments, in blocks of 32 KiB.

use firn_tools::output::Done;

use super::super::file::SourceFile;
use super::super::rows::damaged;
use super::bytes::{ByteReader, is_sum};

/// Bytes of a block.
const BLOCK: usize = 32 << 10;
/// Bytes before a fragment: checksum, length, type.
const HEADER: usize = 7;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// Receives the offset and bytes of a record; returns the reason if they are malformed.
pub type RecordVisit<'v> = dyn FnMut(u64, &[u8]) -> Result<(), String> + 'v;

/// Passes each complete record with its offset on.
///
/// # Errors
/// Damage; errors of `visit`, which return the reason.
pub fn records(file: &mut SourceFile, visit: &mut RecordVisit<'_>) -> Done {
    let (mut at, mut record, mut start) = (0, vec![], None);
    while at < file.len() {
        let length = BLOCK.min((file.len() - at) as usize);
        let block = file.read_at(at, length)?;
        let mut bytes = ByteReader::new(&block);
        let mut read = 0;
        while read + HEADER <= length {
            let offset = at + read as u64;
            let header = (bytes.fixed32(), bytes.take(2), bytes.byte());
            let (Some(sum), Some(size), Some(kind)) = header else { break };
            let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
            // The rest of a preallocated file.
            if (sum, size, kind) == (0, 0, 0) {
                break;
            }
            let Some(part) = bytes.take(size) else {
                // The write of the last fragment was not complete.
                if at + length as u64 == file.len() {
                    return Ok(());
                }
                return Err(damaged(file.path(), format!("byte {offset}: a fragment too long")));
            };
            read += HEADER + size;
            if !is_sum(sum, [&[kind], part]) {
                let why = format!("byte {offset}: the checksum of a record is wrong");
                return Err(damaged(file.path(), why));
            }
            let is_continued = start.is_some();
            match (kind, is_continued) {
                (FULL | FIRST, _) => {
                    record.clear();
                    start = Some(offset);
                }
                (MIDDLE | LAST, true) => {}
                _ => return Err(damaged(file.path(), format!("byte {offset}: a stray fragment"))),
            }
            record.extend_from_slice(part);
            if let (FULL | LAST, Some(start)) = (kind, start.filter(|_| kind != FIRST)) {
                visit(start, &record).map_err(|why| damaged(file.path(), why))?;
            }
            if matches!(kind, FULL | LAST) {
                start = None;
            }
        }
        at += length as u64;
    }
    Ok(())
}
