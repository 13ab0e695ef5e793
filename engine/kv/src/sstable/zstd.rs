//! Zstandard for blocks (RFC 8878): a frame for each, of the library's level 3, without a checksum.
//! Where the crate is built without its feature `zstd` nothing is stored so, and what was is refused.

#[cfg(feature = "zstd")]
mod library {
    use std::cell::RefCell;

    use zstd::bulk::{Compressor, Decompressor};

    use crate::base::error::{Error, ErrorKind, Result};

    /// Higher levels take much more time for a few per cent.
    const LEVEL: i32 = 3;

    thread_local! {
        /// Each has some 100 KiB of its own, too much to be made for a block.
        static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    /// Compresses blocks.
    #[derive(Default)]
    pub struct ZstdPacker(Option<Compressor<'static>>);

    impl ZstdPacker {
        /// Compresses into `packed`; the length. `None` when that cannot be done.
        ///
        /// # Errors
        /// `Exhausted` when there is no memory for it.
        pub fn shrink(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> Result<Option<usize>> {
            let compressor = match &mut self.0 {
                Some(c) => c,
                none => none.insert(Compressor::new(LEVEL).map_err(|e| {
                    Error::new(ErrorKind::Exhausted, format!("zstd cannot be begun: {e}"))
                })?),
            };
            let bound = zstd::zstd_safe::compress_bound(raw.len());
            if packed.len() < bound {
                packed.resize(bound, 0);
            }
            Ok(compressor.compress_to_buffer(raw, packed.as_mut_slice()).ok())
        }
    }

    /// Decompresses a block that fills `out`.
    pub fn unpack(packed: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        UNPACKER.with_borrow_mut(|unpacker| {
            let unpacker = match unpacker {
                Some(u) => u,
                none => none.insert(Decompressor::new().map_err(|_| "no memory for zstd")?),
            };
            match unpacker.decompress_to_buffer(packed, out) {
                Ok(n) if n == out.len() => Ok(()),
                _ => Err("a block that does not decompress"),
            }
        })
    }
}

#[cfg(not(feature = "zstd"))]
mod library {
    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::options::NO_ZSTD;

    /// Compresses nothing.
    #[derive(Default)]
    pub struct ZstdPacker;

    impl ZstdPacker {
        /// Refuses to.
        ///
        /// # Errors
        /// Always `Incompatible`.
        pub fn shrink(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<Option<usize>> {
            Err(Error::new(ErrorKind::Incompatible, NO_ZSTD))
        }
    }

    /// Refuses to decompress.
    pub fn unpack(_: &[u8], _: &mut [u8]) -> Result<(), &'static str> {
        Err(NO_ZSTD)
    }
}

pub use library::{ZstdPacker, unpack};
