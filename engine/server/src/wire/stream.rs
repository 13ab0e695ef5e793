//! The bytes of a connection cut into frames: those of versions 3 and 4, and those in the segments of
//! version 5.

use super::error::WireError;
use super::frame::{FRAME_HEADER, FrameHeader, is_known_version, unsupported_version};
use super::segment::SegmentParser;

/// What a buffer keeps for the next frame.
const KEPT: usize = 64 << 10;

/// Bytes that came, of which the first have been taken.
#[derive(Debug, Default)]
struct ByteQueue {
    bytes: Vec<u8>,
    from: usize,
}

impl ByteQueue {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Makes the bytes that are left the first ones.
    fn settle(&mut self) {
        if self.from == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
        } else if self.from > 0 {
            self.bytes.drain(..self.from);
        }
        self.from = 0;
    }
}

/// Why nothing more can be read, with the header that can be answered.
type BrokenStream = (Option<FrameHeader>, WireError);

/// The frames that come over a connection: requests, or responses.
#[derive(Debug)]
pub struct FrameStream {
    raw: ByteQueue,
    /// Envelopes that came in segments.
    inner: ByteQueue,
    segments: Option<SegmentParser>,
    /// The longest body.
    most: usize,
}

impl FrameStream {
    /// Of bodies of at most this many bytes.
    pub fn new(most: usize) -> FrameStream {
        FrameStream { raw: ByteQueue::default(), inner: ByteQueue::default(), segments: None, most }
    }

    /// Bodies have at most this many bytes from now on.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// What comes from now on are segments.
    pub fn begin_segments(&mut self, lz4: bool) {
        self.segments = Some(SegmentParser { lz4 });
    }

    /// Where bytes from the other side are appended.
    pub fn incoming(&mut self) -> &mut Vec<u8> {
        self.raw.settle();
        &mut self.raw.bytes
    }

    /// Whether a frame has begun that is not here whole.
    pub fn is_within_a_frame(&self) -> bool {
        !self.raw.rest().is_empty() || !self.inner.rest().is_empty()
    }

    /// The bytes that came and have not been taken.
    pub fn held_bytes(&self) -> usize {
        self.raw.rest().len() + self.inner.rest().len()
    }

    /// What came and has not been taken, as it came.
    pub fn untaken(&self) -> &[u8] {
        self.raw.rest()
    }

    /// The next frame that is here whole: its header and its body.
    ///
    /// # Errors
    /// A frame that is longer than allowed, with its header where it can be answered, and segments
    /// that are damaged. Nothing behind it can be read.
    pub fn take_frame(&mut self) -> Result<Option<(FrameHeader, &[u8])>, BrokenStream> {
        if let Some(segments) = self.segments {
            loop {
                if is_whole(self.inner.rest(), self.most)?.is_some() {
                    break;
                }
                self.inner.settle();
                let read = segments.read(self.raw.rest(), &mut self.inner.bytes);
                match read.map_err(|e| (None, e))? {
                    Some(len) => self.raw.from += len,
                    None => return Ok(None),
                }
            }
        }
        let queue = if self.segments.is_some() { &mut self.inner } else { &mut self.raw };
        let Some(header) = is_whole(queue.rest(), self.most)? else { return Ok(None) };
        let start = queue.from + FRAME_HEADER;
        queue.from = start + header.length as usize;
        Ok(Some((header, &queue.bytes[start..queue.from])))
    }
}

/// The header of the frame at the start of these bytes, when it is there whole.
fn is_whole(bytes: &[u8], most: usize) -> Result<Option<FrameHeader>, BrokenStream> {
    if let Some(version) = bytes.first().filter(|v| !is_known_version(**v & 0x7f)) {
        // Whatever follows, it is refused by its version; headers of old ones are shorter.
        return Err((None, unsupported_version(*version & 0x7f)));
    }
    let Some(header) = FrameHeader::read(bytes) else { return Ok(None) };
    if header.length as usize > most {
        let text = format!(
            "{} is too big: length {} exceeds maximum allowed length {most}",
            if header.is_response() { "Response" } else { "Request" },
            header.length
        );
        return Err((Some(header), WireError::protocol(text)));
    }
    Ok((bytes.len() - FRAME_HEADER >= header.length as usize).then_some(header))
}
