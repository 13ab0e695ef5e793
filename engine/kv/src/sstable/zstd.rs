//! Zstandard for blocks (RFC 8878): a frame for each, of the library's level 3, without a checksum.
//! Where the crate is built without its feature `zstd` nothing is stored so, and what was is refused.

#[cfg(feature = "zstd")]
mod library {
    use std::cell::RefCell;

    use zstd::zstd_safe::{
        CCtx, CParameter, DCtx, compress_bound, find_frame_compressed_size, get_frame_content_size,
    };

    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::options::NO_MEMORY;

    /// Higher levels take much more time for a few per cent.
    const LEVEL: i32 = 3;

    thread_local! {
        /// Each has some 100 KiB of its own, too much to be made for a block.
        static UNPACKER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }

    /// Compresses blocks.
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
        /// Compresses into `packed`; the length. `None` when that cannot be done.
        ///
        /// # Errors
        /// `Exhausted` when there is no memory for it.
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

    /// Bytes that the frame says that it decompresses to; `None` where it says nothing.
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
        // One frame that states its length, and nothing behind it.
        if find_frame_compressed_size(packed) == Ok(packed.len())
            && raw_len(packed) == Ok(Some(len as u64))
            && context.decompress(out, packed) == Ok(len)
        {
            Ok(())
        } else {
            Err("a block that does not decompress")
        }
    }

    /// Decompresses a block that fills `out`.
    pub fn unpack(packed: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let kept = UNPACKER.try_with(|kept| {
            kept.try_borrow_mut().ok().map(|mut kept| unpack_in(&mut kept, packed, out))
        });
        // A thread that ends has none any more.
        kept.ok().flatten().unwrap_or_else(|| unpack_in(&mut None, packed, out))
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

    /// Knows no frame.
    pub fn raw_len(_: &[u8]) -> Result<Option<u64>, &'static str> {
        Err(NO_ZSTD)
    }

    /// Refuses to decompress.
    pub fn unpack(_: &[u8], _: &mut [u8]) -> Result<(), &'static str> {
        Err(NO_ZSTD)
    }
}

pub use library::{ZstdPacker, raw_len, unpack};
