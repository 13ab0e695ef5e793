//! Zstandard compression of blocks (RFC 8878): one frame per block, at the library's level 3,
//! without a checksum. A build without the feature `zstd` stores no such blocks and refuses
//! existing ones.

#[cfg(feature = "zstd")]
mod library {
    use std::cell::RefCell;

    use zstd::zstd_safe::{
        CCtx, CParameter, DCtx, compress_bound, find_frame_compressed_size, get_frame_content_size,
    };

    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::options::NO_MEMORY;

    /// Compression level. Higher levels take much more time for a few per cent.
    const LEVEL: i32 = 3;

    thread_local! {
        /// Decompression context per thread. It takes about 100 KiB, too much to allocate per
        /// block.
        static UNPACKER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }

    /// Compresses blocks with Zstandard.
    #[derive(Default)]
    pub struct ZstdPacker(Option<CCtx<'static>>);

    fn begun() -> Result<CCtx<'static>> {
        let mut context =
            CCtx::try_create().ok_or_else(|| Error::new(ErrorKind::Exhausted, NO_MEMORY))?;
        let level = context.set_parameter(CParameter::CompressionLevel(LEVEL));
        level.map_err(|_| Error::invalid("zstd does not know its level"))?;
        Ok(context)
    }

    impl ZstdPacker {
        /// Compresses into `packed`. Returns the length; `None` if compression fails.
        ///
        /// # Errors
        /// `Exhausted` if memory is exhausted.
        pub fn shrink(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> Result<Option<usize>> {
            let context = match &mut self.0 {
                Some(c) => c,
                none => none.insert(begun()?),
            };
            let bound = compress_bound(raw.len());
            if packed.len() < bound {
                packed.resize(bound, 0);
            }
            Ok(context.compress2(packed.as_mut_slice(), raw).ok())
        }
    }

    /// Returns the decompressed length that the frame declares; `None` if it declares none.
    pub fn raw_len(packed: &[u8]) -> Result<Option<u64>, &'static str> {
        Ok(get_frame_content_size(packed).ok().flatten())
    }

    fn unpack_in(
        unpacker: &mut Option<DCtx<'static>>,
        packed: &[u8],
        out: &mut [u8],
    ) -> Result<(), &'static str> {
        let context = match unpacker {
            Some(c) => c,
            none => none.insert(DCtx::try_create().ok_or(NO_MEMORY)?),
        };
        let len = out.len();
        // The input must be one frame that declares its length, with no bytes after it.
        if find_frame_compressed_size(packed) == Ok(packed.len())
            && raw_len(packed) == Ok(Some(len as u64))
            && context.decompress(out, packed) == Ok(len)
        {
            Ok(())
        } else {
            Err("a block that does not decompress")
        }
    }

    /// Decompresses a block, which must fill `out`.
    pub fn unpack(packed: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let kept = UNPACKER.try_with(|kept| {
            kept.try_borrow_mut().ok().map(|mut kept| unpack_in(&mut kept, packed, out))
        });
        // A terminating thread has no context any more.
        kept.ok().flatten().unwrap_or_else(|| unpack_in(&mut None, packed, out))
    }
}

#[cfg(not(feature = "zstd"))]
mod library {
    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::options::NO_ZSTD;

    /// Placeholder that compresses nothing.
    #[derive(Default)]
    pub struct ZstdPacker;

    impl ZstdPacker {
        /// Refuses to compress.
        ///
        /// # Errors
        /// Always `Incompatible`.
        pub fn shrink(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<Option<usize>> {
            Err(Error::new(ErrorKind::Incompatible, NO_ZSTD))
        }
    }

    /// Refuses every frame.
    pub fn raw_len(_: &[u8]) -> Result<Option<u64>, &'static str> {
        Err(NO_ZSTD)
    }

    /// Refuses to decompress.
    pub fn unpack(_: &[u8], _: &mut [u8]) -> Result<(), &'static str> {
        Err(NO_ZSTD)
    }
}

pub use library::{ZstdPacker, raw_len, unpack};
