//! Numbers, `bool`, `char`, byte arrays and `Option`.

use crate::buffer::Buffer;
use crate::key::{AsKey, Key};
use crate::reader::{DecodeError, KeyReader};

/// Implements keys that are copied: from a value to an array of bytes and back.
macro_rules! fixed {
    ($($of:ident: |$value:ident| $to:expr, |$bytes:ident| $from:expr;)*) => {$(
        impl AsKey<$of> for $of {
            #[inline]
            fn write_part(&self, out: &mut Buffer) {
                let $value = *self;
                out.extend_from_slice(&$to);
            }
        }

        impl Key for $of {
            type View<'a> = $of;

            #[inline]
            fn view_part(from: &mut KeyReader<'_>) -> Result<$of, DecodeError> {
                let at = from.offset();
                let $bytes = from.array(stringify!($of))?;
                let decoded: Result<$of, &'static str> = $from;
                decoded.map_err(|reason| DecodeError::new(stringify!($of), at, reason))
            }

            #[inline]
            fn from_view(view: $of) -> $of {
                view
            }
        }
    )*};
}

macro_rules! integers {
    ($($unsigned:ident $signed:ident)*) => {$(
        fixed! {
            $unsigned: |n| n.to_be_bytes(), |bytes| Ok($unsigned::from_be_bytes(bytes));
            $signed: |n| (n ^ $signed::MIN).to_be_bytes(),
                |bytes| Ok($signed::from_be_bytes(bytes) ^ $signed::MIN);
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 }

fixed! {
    bool: |b| [u8::from(b)], |bytes| match bytes {
        [0] => Ok(false),
        [1] => Ok(true),
        [_] => Err("the byte is neither 0 nor 1"),
    };
    char: |c| u32::from(c).to_be_bytes(),
        |bytes| char::from_u32(u32::from_be_bytes(bytes)).ok_or("no character has this number");
    f32: |x| flip_f32(x.to_bits()).to_be_bytes(),
        |bytes| Ok(f32::from_bits(unflip_f32(u32::from_be_bytes(bytes))));
    f64: |x| flip_f64(x.to_bits()).to_be_bytes(),
        |bytes| Ok(f64::from_bits(unflip_f64(u64::from_be_bytes(bytes))));
}

/// Defines the conversions between the bits of a float and an integer in the order of
/// `total_cmp`: negative numbers have all bits inverted, others the sign bit.
macro_rules! flips {
    ($($flip:ident $unflip:ident $bits:ident;)*) => {$(
        #[inline]
        fn $flip(bits: $bits) -> $bits {
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        }

        #[inline]
        fn $unflip(bits: $bits) -> $bits {
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            if bits & SIGN == 0 { !bits } else { bits & !SIGN }
        }
    )*};
}

flips! {
    flip_f32 unflip_f32 u32;
    flip_f64 unflip_f64 u64;
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    #[inline]
    fn write_part(&self, out: &mut Buffer) {
        out.extend_from_slice(self);
    }

    #[inline]
    fn encode<'a>(&'a self, _: &'a mut Buffer) -> &'a [u8] {
        self
    }
}

impl<const N: usize> Key for [u8; N] {
    type View<'a> = [u8; N];

    #[inline]
    fn view_part(from: &mut KeyReader<'_>) -> Result<[u8; N], DecodeError> {
        from.array("[u8; N]")
    }

    #[inline]
    fn from_view(view: [u8; N]) -> [u8; N] {
        view
    }
}

impl<K, Q: AsKey<K>> AsKey<Option<K>> for Option<Q> {
    #[inline]
    fn write_part(&self, out: &mut Buffer) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.write_part(out);
        }
    }
}

impl<K: Key> Key for Option<K> {
    type View<'a> = Option<K::View<'a>>;

    #[inline]
    fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Option<K::View<'a>>, DecodeError> {
        let at = from.offset();
        match from.tag("Option")? {
            0 => Ok(None),
            1 => K::view_part(from).map(Some),
            _ => Err(DecodeError::new("Option", at, "the byte is neither 0 nor 1")),
        }
    }

    #[inline]
    fn from_view(view: Option<K::View<'_>>) -> Option<K> {
        view.map(K::from_view)
    }
}
