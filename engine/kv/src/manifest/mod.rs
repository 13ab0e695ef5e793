//! Floor 2: the manifest, which records the files that make up a Db.
//!
//! A manifest is a file `MANIFEST-nnnnnn` (its number in at least six digits) that only grows: a
//! snapshot of the [`ManifestState`], then version edits ([`Edit`]s). `CURRENT` names the one in
//! use. All integers are little-endian.
//!
//! Manifest file: a header of 16 bytes, then frames one directly after the other.
//!
//! | offset | size | header |
//! |---:|---:|---|
//! | 0 | 8 | magic, the bytes `FIRNMAN` and 0x0a |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | CRC-32 of the context (manifest number, 0) and bytes 0 to 11 |
//!
//! | offset | size | frame |
//! |---:|---:|---|
//! | 0 | 4 | length of the payload |
//! | 4 | 4 | CRC-32 of the context (manifest number, offset of the frame in the file), bytes 0 to 3, and the payload |
//! | 8 | … | payload: edits, see `edit`; empty in a mark |
//!
//! A *mark* is a frame without payload. It is written after a frame has been synced, and proves
//! that everything before it was durable.
//!
//! `CURRENT` is three lines of text, each ended by 0x0a: `firn format 1`, the name of the manifest,
//! and `crc ` with eight lower-case hexadecimal digits, the CRC-32 (no context) of the two lines
//! before.
//!
//! Invariants:
//! - M1: one [`Manifest::append`] is one frame. After a crash all of its edits count, or none.
//! - M2: a frame is synced before `append` returns, and before the next one is written. So at most
//!   the last frame can be torn. A bad frame with any valid frame after it, even a mark, is
//!   corruption. A bad frame with none after it is the end of the manifest. A mark is synced only
//!   with the frame after it. So a bad mark with a valid frame directly after it is skipped.
//! - M3: `CURRENT` is replaced by a rename, after the name and content of the new manifest are
//!   durable.
//! - M4: after a failed write or sync nothing more is written.
//! - M5: a writer continues the existing manifest only if the previous opening has closed the log
//!   cleanly (W7 of the log) and the file ends with a mark. Otherwise it begins another manifest
//!   ([`clean_end`]).
//!
//! Spec: `format-spec/README.md`, "Manifest".

pub mod clean_end;
mod current;
mod edit;
mod fields;
mod format;
mod live_files;
mod log;
pub mod options;
mod state;
mod table;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

pub use clean_end::CleanEnd;
pub use current::{CurrentFile, current};
pub use edit::{Edit, decode_edits, encode_edits};
pub use format::{CURRENT, CURRENT_NEW, manifest_name, manifest_number};
pub use live_files::{LiveFiles, Undo};
pub use log::{Log, ManifestFrame, ManifestGap, own_number, read, read_around, remove_others};
pub use options::PersistedOptions;
pub use state::{MAX_SUBSCRIPTIONS, ManifestState, SnapshotDue, SubscriptionState};
pub use table::TableMeta;
pub use tree::{AddedTable, RunState, TreeState};
pub use writer::{FoundManifest, Manifest, NewManifest};
