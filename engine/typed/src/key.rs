//! The traits of keys: [`Key`], [`AsKey`] and [`KeyPrefix`].

use crate::buffer::Buffer;
use crate::reader::{DecodeError, KeyReader};

/// A type of keys. The byte order of the encodings is the order of the values. The
/// [crate's page](crate#format) describes the format.
///
/// Derive it for structs and enums (feature `derive`):
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use firn_typed::Key;
/// #[derive(Debug, PartialEq, Key)]
/// struct Reading {
///     sensor: u32,
///     second: i64,
/// }
/// assert_eq!(Reading::decode(&[0, 0, 0, 7, 128, 0, 0, 0, 0, 0, 0, 9]), Ok(Reading { sensor: 7, second: 9 }));
/// # }
/// ```
///
/// An implementation by hand writes its parts in order and reads them in the same order. It also
/// implements [`AsKey`] for itself. Its order is right if its parts are written by other keys.
///
/// ```
/// use firn_typed::{AsKey, Buffer, DecodeError, Key, KeyReader};
/// /// Sorts from the greatest to the smallest.
/// #[derive(Debug, PartialEq)]
/// struct Newest(u64);
/// impl AsKey<Newest> for Newest {
///     fn write_part(&self, out: &mut Buffer) {
///         (!self.0).write_part(out);
///     }
/// }
/// impl Key for Newest {
///     type View<'a> = Newest;
///     fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Newest, DecodeError> {
///         Ok(Newest(!u64::decode_part(from)?))
///     }
///     fn from_view(view: Newest) -> Newest {
///         view
///     }
/// }
/// let (mut new, mut old) = (Buffer::new(), Buffer::new());
/// assert!(Newest(9).encode(&mut new) < Newest(8).encode(&mut old));
/// assert_eq!(Newest::decode(&new), Ok(Newest(9)));
/// ```
pub trait Key: AsKey<Self> + Sized + 'static {
    /// A decoded key that borrows from the encoded bytes if it can.
    type View<'a>;

    /// Decodes a key as a part of a larger one.
    ///
    /// # Errors
    /// The bytes are not an encoding of this type.
    fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Self::View<'a>, DecodeError>;

    /// Returns the key of a view.
    fn from_view(view: Self::View<'_>) -> Self;

    /// Decodes a whole key, and borrows from it.
    ///
    /// # Errors
    /// The bytes are not an encoding of this type.
    #[inline]
    fn view(bytes: &[u8]) -> Result<Self::View<'_>, DecodeError> {
        let mut from = KeyReader::new(bytes);
        let view = Self::view_part(&mut from)?;
        from.end(std::any::type_name::<Self>())?;
        Ok(view)
    }

    /// Decodes a key as a part of a larger one.
    ///
    /// # Errors
    /// As [`view_part`](Key::view_part).
    #[inline]
    fn decode_part(from: &mut KeyReader<'_>) -> Result<Self, DecodeError> {
        Self::view_part(from).map(Self::from_view)
    }

    /// Decodes a whole key.
    ///
    /// # Errors
    /// As [`view`](Key::view).
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::view(bytes).map(Self::from_view)
    }
}

/// A type with the encoding of the key `K`: `K` itself, references to it, and borrowed forms. So
/// `&str` is `AsKey<String>`, and `(&str, u64)` is `AsKey<(String, u64)>`.
pub trait AsKey<K> {
    /// Appends the encoding of this key as a part of a larger one.
    fn write_part(&self, out: &mut Buffer);

    /// Returns the encoding of this key as a whole. It uses `buffer`, which is empty, unless the
    /// key has its encoding in memory already.
    #[inline]
    fn encode<'a>(&'a self, buffer: &'a mut Buffer) -> &'a [u8] {
        self.write_part(buffer);
        buffer
    }
}

impl<K, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    #[inline]
    fn write_part(&self, out: &mut Buffer) {
        (**self).write_part(out);
    }

    #[inline]
    fn encode<'a>(&'a self, buffer: &'a mut Buffer) -> &'a [u8] {
        (**self).encode(buffer)
    }
}

/// A beginning of the key `K`. For a tuple, and for a struct with a derived [`Key`], it is a tuple
/// of the first parts: `(a,)` and `(a, b)` for `(a, b, c)`. For a `String` it is a `str`, for a
/// `Vec<u8>` it is bytes.
pub trait KeyPrefix<K> {
    /// Appends the bytes with which the encodings of all keys with this prefix begin. No other key
    /// begins with them.
    fn write_prefix(&self, out: &mut Buffer);
}

impl<K, P: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &P {
    fn write_prefix(&self, out: &mut Buffer) {
        (**self).write_prefix(out);
    }
}
