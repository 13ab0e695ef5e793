//! Byte-comparable forms of values (OSS50; model 2.1), and components: forms prefixed by the
//! separator of a sequence.

use super::errors::{Malformed, TypeError};
use super::escape::{escaped_len, masked_len, put_escaped, unescape};
use super::frame::{EMPTY, EMPTY_REVERSED, NEXT, NULL};

use super::{Type, decimal, nested, uuids, varint};

const TOP: u32 = 0x8000_0000;
const TOP64: u64 = 0x8000_0000_0000_0000;

impl Type {
    /// Appends the byte-comparable form of a valid value.
    ///
    /// # Errors
    /// Errors for a value of the wrong length, and for the empty value where only
    /// [`put_component`](Type::put_component) can encode it (types other than bytes and text).
    /// Bytes appended so far remain.
    #[inline]
    #[doc(hidden)]
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        match self {
            Type::Bytes | Type::Utf8 | Type::Ascii | Type::Inet | Type::Duration | Type::Empty => {
                put_escaped(value, out)
            }
            Type::Long => varint::put_long(i64::from_be_bytes(self.exact(value)?), out),
            Type::TimeUuid => out.extend_from_slice(&uuids::time_form(self.exact(value)?)),
            Type::Uuid => out.extend_from_slice(&uuids::uuid_form(self.exact(value)?)),
            _ => return self.encode_other(value, out),
        }
        Ok(())
    }

    fn encode_other(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        match self {
            Type::LexicalUuid => out.extend_from_slice(&uuids::lexical_form(self.exact(value)?)),
            Type::Timestamp | Type::Counter => {
                out.extend_from_slice(
                    &(u64::from_be_bytes(self.exact(value)?) ^ TOP64).to_be_bytes(),
                );
            }
            Type::Date | Type::Time => out.extend_from_slice(&self.exact::<8>(value)?),
            Type::SimpleDate => out.extend_from_slice(&self.exact::<4>(value)?),
            Type::Int32 => {
                out.extend_from_slice(&(u32::from_be_bytes(self.exact(value)?) ^ TOP).to_be_bytes())
            }
            Type::Short => out.extend_from_slice(
                &(u16::from_be_bytes(self.exact(value)?) ^ 0x8000).to_be_bytes(),
            ),
            Type::Byte => out.push(self.exact::<1>(value)?[0] ^ 0x80),
            Type::Boolean => out.push(u8::from(self.exact::<1>(value)? != [0])),
            Type::Float => out.extend_from_slice(&float_form(self.exact(value)?)),
            Type::Double => out.extend_from_slice(&double_form(self.exact(value)?)),
            Type::Integer if value.is_empty() => return Err(self.no_form(value)),
            Type::Integer => varint::put_integer(value, out),
            Type::Decimal => decimal::put(value, out).ok_or_else(|| self.no_form(value))?,
            Type::Reversed(inner) => {
                let at = out.len();
                inner.encode(value, out)?;
                out[at..].iter_mut().for_each(|b| *b = !*b);
            }
            Type::Custom(c) => {
                let mut form = vec![];
                c.0.encode(value, &mut form)?;
                put_escaped(&form, out);
            }
            _ => return nested::encode(self, value, out),
        }
        Ok(())
    }

    fn exact<const N: usize>(&self, value: &[u8]) -> Result<[u8; N], TypeError> {
        value.try_into().map_err(|_| self.no_form(value))
    }

    fn no_form(&self, value: &[u8]) -> TypeError {
        match self.validate(value) {
            Err(e) => e,
            Ok(()) => TypeError(format!("an empty {} has no form of its own", self.name())),
        }
    }

    /// Takes a form from the start of `input` and appends the value, in its canonical spelling.
    ///
    /// # Errors
    /// Errors for malformed bytes. Then `input` is unchanged, and `out` may have grown.
    #[inline]
    #[doc(hidden)]
    pub fn decode(&self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let len = self.form_len(input).ok_or(Malformed)?;
        let (form, rest) = input.split_at_checked(len).ok_or(Malformed)?;
        self.decode_form(form, out).ok_or(Malformed)?;
        *input = rest;
        Ok(())
    }

    /// Returns the length of the form at the start of `bytes`; `None` if there is none.
    #[inline]
    #[doc(hidden)]
    pub fn form_len(&self, bytes: &[u8]) -> Option<usize> {
        let len = match self {
            Type::Bytes
            | Type::Utf8
            | Type::Ascii
            | Type::Inet
            | Type::Duration
            | Type::Empty
            | Type::Custom(_) => escaped_len(bytes)?,
            Type::Long => varint::long_len(bytes)?,
            Type::TimeUuid | Type::Uuid | Type::LexicalUuid => 16,
            Type::Date | Type::Time | Type::Timestamp | Type::Counter | Type::Double => 8,
            Type::SimpleDate | Type::Int32 | Type::Float => 4,
            Type::Short => 2,
            Type::Byte | Type::Boolean => 1,
            Type::Integer => varint::integer_len(bytes)?,
            Type::Decimal => decimal::form_len(bytes)?,
            Type::Reversed(inner) => inner.inverted_len(bytes)?,
            _ => nested::form_len(self, bytes)?,
        };
        (len <= bytes.len()).then_some(len)
    }

    fn inverted_len(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Type::Bytes
            | Type::Utf8
            | Type::Ascii
            | Type::Inet
            | Type::Duration
            | Type::Empty
            | Type::Custom(_) => masked_len::<0xFF>(bytes),
            Type::Long => varint::long_len(&[!*bytes.first()?, bytes.get(1).map_or(0, |b| !b)]),
            _ => self.form_len(&bytes.iter().map(|b| !b).collect::<Vec<_>>()),
        }
    }

    #[inline]
    fn decode_form(&self, form: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Type::Bytes | Type::Utf8 | Type::Ascii | Type::Inet | Type::Duration | Type::Empty => {
                unescape(form, out).then_some(())
            }
            Type::Long => {
                out.extend_from_slice(&varint::take_long(form)?.0.to_be_bytes());
                Some(())
            }
            Type::TimeUuid => {
                out.extend_from_slice(&uuids::from_time_form(form.try_into().ok()?));
                Some(())
            }
            Type::Uuid => {
                out.extend_from_slice(&uuids::from_uuid_form(form.try_into().ok()?));
                Some(())
            }
            _ => self.decode_other(form, out),
        }
    }

    fn decode_other(&self, form: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Type::LexicalUuid => out.extend_from_slice(&uuids::lexical_form(form.try_into().ok()?)),
            Type::Timestamp | Type::Counter | Type::Int32 | Type::Short | Type::Byte => {
                out.push(form.first()? ^ 0x80);
                out.extend_from_slice(&form[1..]);
            }
            Type::Date | Type::Time | Type::SimpleDate => out.extend_from_slice(form),
            Type::Boolean => out.push(form.first().copied().filter(|b| *b <= 1)?),
            Type::Float | Type::Double if form[0] & 0x80 == 0 => {
                out.extend(form.iter().map(|b| !b))
            }
            Type::Float | Type::Double => {
                out.push(form[0] ^ 0x80);
                out.extend_from_slice(&form[1..]);
            }
            Type::Integer => varint::take_integer(form, out)?,
            Type::Decimal => decimal::take(form, out)?,
            Type::Reversed(inner) => {
                inner.decode_form(&form.iter().map(|b| !b).collect::<Vec<_>>(), out)?
            }
            Type::Custom(c) => {
                let mut raw = vec![];
                if !unescape(form, &mut raw) {
                    return None;
                }
                c.0.decode(&raw, out).ok()?;
            }
            _ => nested::decode_form(self, form, out)?,
        }
        Some(())
    }

    /// Returns a value with nulls for missing components at the end of tuples and user types. In
    /// keys such nulls are omitted, because there a tuple without its trailing nulls is equal to
    /// one with them.
    ///
    /// # Errors
    /// Errors for bytes that are not a value.
    #[doc(hidden)]
    pub fn with_last_nulls(&self, value: &[u8]) -> Result<Vec<u8>, TypeError> {
        let mut whole = Vec::with_capacity(value.len());
        nested::put_whole(self, value, &mut whole)?;
        Ok(whole)
    }

    /// Appends a value as a component of a sequence: a separator and its form, or only a separator
    /// if it is empty.
    ///
    /// # Errors
    /// Those of [`encode`](Type::encode).
    #[inline]
    #[doc(hidden)]
    pub fn put_component(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        if value.is_empty() {
            out.push(if self.is_reversed() { EMPTY_REVERSED } else { EMPTY });
            return Ok(());
        }
        out.push(NEXT);
        self.encode(value, out)
    }

    /// Returns the length of the component, with its separator, at the start of `bytes`.
    #[inline]
    #[doc(hidden)]
    pub fn component_len(&self, bytes: &[u8]) -> Option<usize> {
        match *bytes.first()? {
            NEXT => Some(1 + self.form_len(&bytes[1..])?),
            EMPTY | EMPTY_REVERSED | NULL => Some(1),
            _ => None,
        }
    }

    /// Takes a component from the start of `input` and appends its value. Returns false for null.
    ///
    /// # Errors
    /// Errors for bytes that are not a component.
    #[inline]
    #[doc(hidden)]
    pub fn take_component(&self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, Malformed> {
        let (&separator, mut rest) = input.split_first().ok_or(Malformed)?;
        match separator {
            NEXT => self.decode(&mut rest, out)?,
            EMPTY if !self.is_reversed() => {}
            EMPTY_REVERSED if self.is_reversed() => {}
            NULL => {}
            _ => return Err(Malformed),
        }
        *input = rest;
        Ok(separator != NULL)
    }
}

impl Type {
    /// Appends the value of the component in `bytes`. Returns false for null.
    ///
    /// # Errors
    /// Errors for bytes that are not a component.
    #[inline]
    pub(crate) fn whole_component(
        &self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        if let (Type::Bytes | Type::Utf8 | Type::Ascii, [NEXT, form @ ..]) = (self, bytes) {
            // Such a form must end at the end of the bytes, so its length need not be searched.
            return if unescape(form, out) { Ok(true) } else { Err(Malformed) };
        }
        let some = self.take_component(&mut bytes, out)?;
        if bytes.is_empty() { Ok(some) } else { Err(Malformed) }
    }
}

/// Encodes a float to sort like Java's `Float.compare`: all NaNs are equal, and the largest.
pub(super) fn float_form(value: [u8; 4]) -> [u8; 4] {
    let mut bits = u32::from_be_bytes(value);
    if f32::from_bits(bits).is_nan() {
        bits = 0x7FC0_0000;
    }
    (if bits & TOP == 0 { bits ^ TOP } else { !bits }).to_be_bytes()
}

/// Like [`float_form`], for a double.
pub(super) fn double_form(value: [u8; 8]) -> [u8; 8] {
    let mut bits = u64::from_be_bytes(value);
    if f64::from_bits(bits).is_nan() {
        bits = 0x7FF8_0000_0000_0000;
    }
    (if bits & TOP64 == 0 { bits ^ TOP64 } else { !bits }).to_be_bytes()
}
