//! Appends to the manifest of an earlier opening: its next frame is appended, instead of another
//! manifest begun, which takes two files and three more syncs.
//!
//! Why it is sound (M5). A frame that may not be durable, or that another one may follow only in
//! part, must never get a frame behind it: after a power cut that would be damage. A mark follows
//! each frame that was synced, so a file that ends with one ends with a durable frame; a disk that
//! was full cuts a frame off, and does not keep the log from being closed. The mark of the log is
//! asked for too: who closes the log cleanly does so after the last frame and only if of none it is
//! unknown whether it is durable, and who opens a Db makes a log segment durable, which ends that,
//! before a frame is written.

use super::format::FRAME;
use super::log::Log;

/// Every opening reads the manifest: of one that is longer than this, and mostly edits, reading
/// begins to cost what another would.
const SHORT: u64 = 16 << 10;

/// The end of a manifest that can be gone on with, if the log was closed cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanEnd {
    /// Length of the file.
    pub(super) len: u64,
    /// Length up to the mark behind the snapshot.
    pub(super) snapshot: u64,
}

impl Log {
    /// Its end, if that is a mark and nothing behind it. `None` for a manifest that is longer than
    /// 16 KiB and than twice its snapshot, too.
    pub fn clean_end(&self) -> Option<CleanEnd> {
        let first = self.frames.first()?;
        let mark = self.marks.last()?;
        let (len, snapshot) = (self.len, first.offset + first.len + FRAME as u64);
        let is_long = len > SHORT && len > snapshot.saturating_mul(2);
        (mark.offset + mark.len == len && !is_long).then_some(CleanEnd { len, snapshot })
    }
}
