//! Continues the manifest of an earlier opening: appends the next frame to it. This avoids a new
//! manifest, which takes two files and three more syncs.
//!
//! Why it is correct (M5): a frame that may not be durable, or that may be followed only by a part
//! of another, must never be followed by a frame. After a power cut that would be damage. A mark
//! follows each synced frame, so a file that ends with a mark ends with a durable frame. A full
//! disk cuts a frame off, but does not prevent a clean close of the log.
//!
//! The mark of the log is required too. A clean close of the log happens after the last frame, and
//! only if the durability of every frame is known. An opening makes a log segment durable before it
//! writes a frame. That segment ends the clean state of the log.

use super::format::FRAME;
use super::log::Log;

/// Length in bytes up to which any manifest is continued. A longer manifest that is mostly edits
/// takes more time to read at each opening than a new one would cost.
const SHORT: u64 = 16 << 10;

/// End of a manifest that can be continued, if the log was closed cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanEnd {
    /// Length of the file in bytes.
    pub(super) len: u64,
    /// Length in bytes up to the mark after the snapshot.
    pub(super) snapshot: u64,
}

impl Log {
    /// Returns its end, if it is a mark with nothing after it. Also returns `None` for a manifest
    /// that is longer than 16 KiB and than twice its snapshot.
    pub fn clean_end(&self) -> Option<CleanEnd> {
        let first = self.frames.first()?;
        let mark = self.marks.last()?;
        let (len, snapshot) = (self.len, first.offset + first.len + FRAME as u64);
        let is_long = len > SHORT && len > snapshot.saturating_mul(2);
        (mark.offset + mark.len == len && !is_long).then_some(CleanEnd { len, snapshot })
    }
}
