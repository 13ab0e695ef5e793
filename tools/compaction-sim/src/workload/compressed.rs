//! Decompression of traces while they are read: gzip and Zstandard, with one or several members or
//! frames, as `cat a.zst b.zst` makes them.
//!
//! Invariant: memory is bounded. The decoder refuses Zstandard windows above 100 MiB.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Bytes of a file that identify its compression.
pub(crate) const MAGIC_LEN: usize = 4;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns the content of a file that begins with these bytes, decompressed if it is compressed.
pub(crate) fn decompressed<'a>(first: &[u8], file: impl Read + 'a) -> Box<dyn Read + 'a> {
    if first.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file)))
    } else if first.starts_with(ZSTD) {
        let source = BufReader::with_capacity(1 << 16, file);
        Box::new(ZstdFrames { frame: None, source: Some(source) })
    } else {
        Box::new(file)
    }
}

/// Reader of consecutive Zstandard frames.
struct ZstdFrames<R: BufRead> {
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
    /// The input between two frames.
    source: Option<R>,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(frame) = &mut self.frame {
                let n = frame.read(buf)?;
                if n > 0 {
                    return Ok(n);
                }
            }
            if let Some(frame) = self.frame.take() {
                self.source = Some(frame.into_inner());
            }
            // After an error there is no input any more.
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new(source);
            let frame =
                frame.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()));
            self.frame = Some(frame?);
        }
    }
}
