//! Compression of bodies (versions 3 and 4) and of segments (version 5).

use super::error::WireError;

/// A compression that clients may choose in STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BodyCompression {
    Lz4,
    Snappy,
}

impl BodyCompression {
    /// Returns the compression of this name, in any case.
    pub fn named(name: &str) -> Option<BodyCompression> {
        match name.to_ascii_lowercase().as_str() {
            "lz4" => Some(BodyCompression::Lz4),
            "snappy" => Some(BodyCompression::Snappy),
            _ => None,
        }
    }

    /// Compresses a body. LZ4 has the length before it, four bytes in big endian.
    pub fn pack(self, body: &[u8]) -> Vec<u8> {
        match self {
            BodyCompression::Lz4 => {
                let mut out = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
                out.extend_from_slice(&lz4_flex::block::compress(body));
                out
            }
            // Fails only for bodies of 4 GiB, which are refused earlier.
            BodyCompression::Snappy => {
                snap::raw::Encoder::new().compress_vec(body).unwrap_or_default()
            }
        }
    }

    /// Decompresses a body of at most `most` bytes.
    ///
    /// # Errors
    /// Malformed bytes, or a longer body.
    pub fn unpack(self, packed: &[u8], most: usize) -> Result<Vec<u8>, WireError> {
        let long = || WireError::protocol(format!("Request is too big: over {most} bytes"));
        let broken = || WireError::protocol("Error during decompression");
        match self {
            BodyCompression::Lz4 => {
                let (len, block) = packed.split_first_chunk::<4>().ok_or_else(broken)?;
                let len = u32::from_be_bytes(*len) as usize;
                unpack_lz4(block, len, most)
            }
            BodyCompression::Snappy => {
                let len = snap::raw::decompress_len(packed).map_err(|_| broken())?;
                // Three bytes expand to at most 64.
                if len > most || len / 22 > packed.len() {
                    return Err(long());
                }
                snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| broken())
            }
        }
    }
}

/// Decompresses an LZ4 block to `len` bytes, at most `most`.
pub(super) fn unpack_lz4(block: &[u8], len: usize, most: usize) -> Result<Vec<u8>, WireError> {
    // A byte expands to at most 255.
    if len > most || len / 255 > block.len() {
        return Err(WireError::protocol(format!("Request is too big: over {most} bytes")));
    }
    let out = lz4_flex::block::decompress(block, len);
    out.ok()
        .filter(|o| o.len() == len)
        .ok_or_else(|| WireError::protocol("Error during decompression"))
}
