//! The traits of values: [`Value`] and [`AsValue`]. Every key is a value, too.

use crate::buffer::Buffer;
use crate::error::EncodeError;
use crate::key::{AsKey, Key};
use crate::reader::DecodeError;

/// A type of values. Every [`Key`] is one, with the encoding of a whole key. `()` has no bytes.
/// `Postcard` (feature `serde`) stores any type of `serde`.
///
/// An implementation by hand needs [`AsValue`] for itself, too:
///
/// ```
/// use firn_typed::{AsValue, Buffer, DecodeError, EncodeError, Value};
/// struct Flags { hot: bool, new: bool }
/// impl AsValue<Flags> for Flags {
///     fn encode_value<'a>(&'a self, buffer: &'a mut Buffer) -> Result<&'a [u8], EncodeError> {
///         buffer.push(u8::from(self.hot) | u8::from(self.new) << 1);
///         Ok(buffer)
///     }
/// }
/// impl Value for Flags {
///     type Owned = Flags;
///     type View<'a> = Flags;
///     fn view_value(bytes: &[u8]) -> Result<Flags, DecodeError> {
///         match bytes {
///             [bits] => Ok(Flags { hot: bits & 1 == 1, new: bits & 2 == 2 }),
///             _ => Err(DecodeError::new("Flags", 0, "it has not one byte")),
///         }
///     }
///     fn value_from_view(view: Flags) -> Flags {
///         view
///     }
/// }
/// ```
pub trait Value: 'static {
    /// The type that reads return.
    type Owned;
    /// A decoded value that borrows from the stored bytes if it can.
    type View<'a>;

    /// Decodes a value.
    ///
    /// # Errors
    /// The bytes are not an encoding of this type.
    fn view_value(bytes: &[u8]) -> Result<Self::View<'_>, DecodeError>;

    /// Returns the value of a view.
    fn value_from_view(view: Self::View<'_>) -> Self::Owned;
}

/// A type with the encoding of the value `V`: `V` itself and borrowed forms. So `str` is
/// `AsValue<String>`.
pub trait AsValue<V: ?Sized> {
    /// Returns the encoding. It uses `buffer`, which is empty, unless the value has its encoding in
    /// memory already.
    ///
    /// # Errors
    /// The value has no encoding. Only types of `serde` fail.
    fn encode_value<'a>(&'a self, buffer: &'a mut Buffer) -> Result<&'a [u8], EncodeError>;
}

impl<K: Key> Value for K {
    type Owned = K;
    type View<'a> = K::View<'a>;

    #[inline]
    fn view_value(bytes: &[u8]) -> Result<K::View<'_>, DecodeError> {
        K::view(bytes)
    }

    #[inline]
    fn value_from_view(view: K::View<'_>) -> K {
        K::from_view(view)
    }
}

impl<K: Key, Q: AsKey<K> + ?Sized> AsValue<K> for Q {
    #[inline]
    fn encode_value<'a>(&'a self, buffer: &'a mut Buffer) -> Result<&'a [u8], EncodeError> {
        Ok(self.encode(buffer))
    }
}

impl Value for () {
    type Owned = ();
    type View<'a> = ();

    fn view_value(bytes: &[u8]) -> Result<(), DecodeError> {
        match bytes {
            [] => Ok(()),
            _ => Err(DecodeError::new("()", 0, "bytes remain after the end")),
        }
    }

    fn value_from_view((): ()) {}
}

impl AsValue<()> for () {
    fn encode_value<'a>(&'a self, buffer: &'a mut Buffer) -> Result<&'a [u8], EncodeError> {
        Ok(buffer)
    }
}
