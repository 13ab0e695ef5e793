//! `String` and `Vec<u8>`. As a whole key they are their bytes, so that trees with plain text or
//! bytes as keys can be opened. As a part of a key they are escaped and have an end.

use std::borrow::Cow;

use crate::buffer::Buffer;
use crate::key::{AsKey, Key, KeyPrefix};
use crate::reader::{DecodeError, ESCAPED_ZERO, KeyReader, STRING_END};

/// Appends bytes with zeros escaped, and an end that sorts before every longer string.
fn write_string(bytes: &[u8], out: &mut Buffer) {
    for (i, piece) in bytes.split(|b| *b == 0).enumerate() {
        if i > 0 {
            out.extend_from_slice(&[0, ESCAPED_ZERO]);
        }
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&[0, STRING_END]);
}

fn text(bytes: Cow<'_, [u8]>, at: usize) -> Result<Cow<'_, str>, DecodeError> {
    let wrong = |valid: usize| DecodeError::new("String", at + valid, "the bytes are not UTF-8");
    match bytes {
        Cow::Borrowed(bytes) => {
            std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|e| wrong(e.valid_up_to()))
        }
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|e| wrong(e.utf8_error().valid_up_to())),
    }
}

/// Implements [`AsKey`] for forms of a string.
macro_rules! strings {
    ($key:ty: $([$($n:tt)*] $form:ty),*) => {$(
        impl<$($n)*> AsKey<$key> for $form {
            fn write_part(&self, out: &mut Buffer) {
                write_string(self.as_ref(), out);
            }

            #[inline]
            fn encode<'a>(&'a self, _: &'a mut Buffer) -> &'a [u8] {
                self.as_ref()
            }
        }

        impl<$($n)*> KeyPrefix<$key> for $form {
            fn write_prefix(&self, out: &mut Buffer) {
                out.extend_from_slice(self.as_ref());
            }
        }
    )*};
}

strings! { Vec<u8>: [] [u8], [] Vec<u8>, [const N: usize] [u8; N], [] Cow<'_, [u8]> }

impl Key for Vec<u8> {
    type View<'a> = Cow<'a, [u8]>;

    fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Cow<'a, [u8]>, DecodeError> {
        from.string("Vec<u8>")
    }

    fn view(bytes: &[u8]) -> Result<Cow<'_, [u8]>, DecodeError> {
        Ok(Cow::Borrowed(bytes))
    }

    fn from_view(view: Cow<'_, [u8]>) -> Vec<u8> {
        view.into_owned()
    }
}

/// Implements [`AsKey`] for forms of a text.
macro_rules! texts {
    ($($form:ty),*) => {$(
        impl AsKey<String> for $form {
            fn write_part(&self, out: &mut Buffer) {
                write_string(self.as_bytes(), out);
            }

            #[inline]
            fn encode<'a>(&'a self, _: &'a mut Buffer) -> &'a [u8] {
                self.as_bytes()
            }
        }

        impl KeyPrefix<String> for $form {
            fn write_prefix(&self, out: &mut Buffer) {
                out.extend_from_slice(self.as_bytes());
            }
        }
    )*};
}

texts! { str, String, Cow<'_, str> }

impl Key for String {
    type View<'a> = Cow<'a, str>;

    fn view_part<'a>(from: &mut KeyReader<'a>) -> Result<Cow<'a, str>, DecodeError> {
        let at = from.offset();
        text(from.string("String")?, at)
    }

    fn view(bytes: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
        text(Cow::Borrowed(bytes), 0)
    }

    fn from_view(view: Cow<'_, str>) -> String {
        view.into_owned()
    }
}
