//! Splits the bytes of a connection into frames: plain ones, and those in the segments of version
//! 5.

use super::error::WireError;
use super::frame::{FRAME_HEADER, FrameHeader, is_known_version, unsupported_version};
use super::segment::SegmentParser;

/// Capacity that a buffer retains for the next frame.
const RETAINED_CAPACITY: usize = 64 << 10;

/// Received bytes; those before `from` are consumed.
#[derive(Debug, Default)]
struct ByteQueue {
    bytes: Vec<u8>,
    from: usize,
}

impl ByteQueue {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Moves the remaining bytes to the front.
    fn compact(&mut self) {
        if self.from == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(RETAINED_CAPACITY);
        } else if self.from > 0 {
            self.bytes.drain(..self.from);
        }
        self.from = 0;
    }
}

/// The error of an unreadable stream, with a header if the request can be answered.
type BrokenStream = (Option<FrameHeader>, WireError);

/// Stream of frames of a connection: requests, or responses.
#[derive(Debug)]
pub struct FrameStream {
    raw: ByteQueue,
    /// Envelopes from segments.
    inner: ByteQueue,
    segments: Option<SegmentParser>,
    /// Maximum length of a body.
    most: usize,
}

impl FrameStream {
    /// Creates a stream with bodies of at most this many bytes.
    pub fn new(most: usize) -> FrameStream {
        FrameStream { raw: ByteQueue::default(), inner: ByteQueue::default(), segments: None, most }
    }

    /// Sets the maximum length of later bodies.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Switches to segments for later bytes.
    pub fn begin_segments(&mut self, lz4: bool) {
        self.segments = Some(SegmentParser { lz4 });
    }

    /// Returns the buffer to which received bytes are appended.
    pub fn incoming(&mut self) -> &mut Vec<u8> {
        self.raw.compact();
        &mut self.raw.bytes
    }

    /// Reports whether a frame has partly arrived.
    pub fn is_within_a_frame(&self) -> bool {
        !self.raw.rest().is_empty() || !self.inner.rest().is_empty()
    }

    /// Returns the number of received bytes that are not consumed.
    pub fn buffered_bytes(&self) -> usize {
        self.raw.rest().len() + self.inner.rest().len()
    }

    /// Returns the received bytes that are not consumed, unparsed.
    pub fn unparsed(&self) -> &[u8] {
        self.raw.rest()
    }

    /// Returns the next complete frame: header and body.
    ///
    /// # Errors
    /// A frame that is longer than allowed, with its header if it can be answered, and damaged
    /// segments. Later bytes cannot be read.
    pub fn take_frame(&mut self) -> Result<Option<(FrameHeader, &[u8])>, BrokenStream> {
        if let Some(segments) = self.segments {
            loop {
                if complete_frame(self.inner.rest(), self.most)?.is_some() {
                    break;
                }
                self.inner.compact();
                let read = segments.read(self.raw.rest(), &mut self.inner.bytes);
                match read.map_err(|e| (None, e))? {
                    Some(len) => self.raw.from += len,
                    None => return Ok(None),
                }
            }
        }
        let queue = if self.segments.is_some() { &mut self.inner } else { &mut self.raw };
        let Some(header) = complete_frame(queue.rest(), self.most)? else { return Ok(None) };
        let start = queue.from + FRAME_HEADER;
        queue.from = start + header.length as usize;
        Ok(Some((header, &queue.bytes[start..queue.from])))
    }
}

/// Returns the header of the frame at the start of these bytes, if it is complete.
fn complete_frame(bytes: &[u8], most: usize) -> Result<Option<FrameHeader>, BrokenStream> {
    if let Some(version) = bytes.first().filter(|v| !is_known_version(**v & 0x7f)) {
        // Refuse the version at once: headers of old versions are shorter.
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
