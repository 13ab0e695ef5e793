//! Formats of booleans, numbers and times that options of `COPY` select.
//!
//! They apply to columns of these types, not to elements of collections.

use std::borrow::Cow;

use firn_wide::Type;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Formats of values in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueForms {
    /// Texts of true and false, unless they are the default ones.
    booleans: Option<(String, String)>,
    /// Decimal separator.
    pub decimal: char,
    /// Separator of groups of three digits.
    pub thousands: Option<char>,
    /// Format of timestamps, as for `strftime`.
    datetime: Option<String>,
    /// Digits after the point of a float.
    pub float_digits: Option<usize>,
    /// Digits after the point of a double.
    pub double_digits: Option<usize>,
}

impl Default for ValueForms {
    fn default() -> ValueForms {
        ValueForms {
            booleans: None,
            decimal: '.',
            thousands: None,
            datetime: None,
            float_digits: None,
            double_digits: None,
        }
    }
}

fn is_number(of: &Type) -> bool {
    matches!(
        of,
        Type::Long
            | Type::Counter
            | Type::Int32
            | Type::Short
            | Type::Byte
            | Type::Integer
            | Type::Decimal
            | Type::Double
            | Type::Float
    )
}

impl ValueForms {
    /// Sets the texts of booleans, as in `BOOLSTYLE = 'Yes,No'`.
    pub fn set_booleans(&mut self, value: &str) -> Result<(), String> {
        let pair = value.split_once(',').map(|(yes, no)| (yes.trim(), no.trim()));
        let Some((yes, no)) = pair.filter(|(yes, no)| !yes.is_empty() && !no.is_empty()) else {
            return Err(format!("BOOLSTYLE is two words such as 'Yes,No', not '{value}'"));
        };
        if yes.eq_ignore_ascii_case(no) {
            return Err(format!("BOOLSTYLE has the same word twice: '{value}'"));
        }
        self.booleans = Some((yes.to_owned(), no.to_owned()));
        Ok(())
    }

    /// Sets the format of times, as in `DATETIMEFORMAT = '%d.%m.%Y %H:%M'`.
    pub fn set_datetime(&mut self, value: &str) -> Result<(), String> {
        strtime::format(value, &Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC))
            .map_err(|e| format!("DATETIMEFORMAT '{value}': {e}"))?;
        self.datetime = Some(value.to_owned());
        Ok(())
    }

    /// Fails if formats exclude each other.
    pub fn check(&self) -> Result<(), String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+');
        match self.thousands {
            Some(sign) if sign == self.decimal => {
                Err("DECIMALSEP and THOUSANDSSEP must be different characters".to_owned())
            }
            sign if sign.is_some_and(is_part) || is_part(self.decimal) => {
                Err("DECIMALSEP and THOUSANDSSEP must not be letters, digits or signs".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Converts a text of the file in these formats to the default format.
    ///
    /// # Errors
    /// The text has none of the formats.
    pub fn usual<'t>(&self, of: &Type, text: &'t str) -> Result<Cow<'t, str>, String> {
        match (of.unreversed(), &self.booleans, &self.datetime) {
            (Type::Boolean, Some((yes, no)), _) => {
                match [(yes, "true"), (no, "false")].iter().find(|p| p.0.eq_ignore_ascii_case(text))
                {
                    Some((_, usual)) => Ok((*usual).into()),
                    None => Err(format!("'{text}' is neither '{yes}' nor '{no}'")),
                }
            }
            (of, ..) if is_number(of) && (self.thousands.is_some() || self.decimal != '.') => {
                let without = text.chars().filter(|c| Some(*c) != self.thousands);
                Ok(without.map(|c| if c == self.decimal { '.' } else { c }).collect())
            }
            (Type::Timestamp | Type::Date, _, Some(format)) => Ok(match millis(format, text) {
                Some(millis) => millis.to_string().into(),
                // As in cqlsh, the default formats are accepted too.
                None => text.into(),
            }),
            _ => Ok(text.into()),
        }
    }

    /// Formats a value; `text` is its default format.
    pub fn written(&self, of: &Type, bytes: &[u8], text: String) -> String {
        if bytes.is_empty() {
            return text;
        }
        let of = of.unreversed();
        match (of, &self.booleans, &self.datetime) {
            (Type::Boolean, Some((yes, no)), _) => if bytes == [0] { no } else { yes }.clone(),
            (Type::Timestamp | Type::Date, _, Some(format)) => {
                let millis = <[u8; 8]>::try_from(bytes).map(i64::from_be_bytes).ok();
                let at = millis.and_then(|ms| Timestamp::from_millisecond(ms).ok());
                let shown = at.and_then(|at| {
                    strtime::format(format, &at.to_zoned_datetime(TimeZone::UTC)).ok()
                });
                shown.unwrap_or(text)
            }
            (Type::Float, ..) if self.float_digits.is_some() => {
                let n = <[u8; 4]>::try_from(bytes).map(f32::from_be_bytes).ok();
                self.separated(rounded(n.map(f64::from), self.float_digits, text))
            }
            (Type::Double, ..) if self.double_digits.is_some() => {
                let n = <[u8; 8]>::try_from(bytes).map(f64::from_be_bytes).ok();
                self.separated(rounded(n, self.double_digits, text))
            }
            (of, ..) if is_number(of) => self.separated(text),
            _ => text,
        }
    }

    /// Formats a number with the selected separators.
    fn separated(&self, text: String) -> String {
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        if self.thousands.is_none() && self.decimal == '.' || text.starts_with("0x") {
            return text;
        }
        let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(w, f)| (w, Some(f)));
        let mut out = String::new();
        let digits = whole.trim_start_matches('-').len();
        for (i, c) in whole.chars().enumerate() {
            let left = whole.len() - i;
            if let Some(sign) =
                self.thousands.filter(|_| is_plain && left < digits && left % 3 == 0)
            {
                out.push(sign);
            }
            out.push(c);
        }
        if let Some(fraction) = fraction {
            out.push(self.decimal);
            out.push_str(fraction);
        }
        out
    }
}

/// Parses milliseconds since 1970 in this format; in UTC if the format has no offset.
fn millis(format: &str, text: &str) -> Option<i64> {
    let parsed = strtime::parse(format, text).ok()?;
    if let Ok(at) = parsed.to_timestamp() {
        return Some(at.as_millisecond());
    }
    let civil = match parsed.to_datetime() {
        Ok(civil) => civil,
        Err(_) => DateTime::from(parsed.to_date().ok()?),
    };
    TimeZone::UTC.to_timestamp(civil).ok().map(|at| at.as_millisecond())
}

/// Formats a number with at most this many digits after the point. Like cqlsh, uses an exponent for
/// very small and very large numbers.
fn rounded(n: Option<f64>, digits: Option<usize>, text: String) -> String {
    let (Some(n), Some(digits)) = (n.filter(|n| n.is_finite()), digits) else { return text };
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    let exponent = n.abs().log10();
    if n == 0.0 || (exponent > -5.0 && exponent < digits as f64) {
        return trimmed(format!("{n:.digits$}"));
    }
    let text = format!("{n:.*e}", digits - 1);
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{}e{exponent}", trimmed(digits.to_owned())),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_have_the_forms_that_were_chosen() {
        let mut forms = ValueForms { thousands: Some('.'), decimal: ',', ..ValueForms::default() };
        forms.set_booleans("Ja,Nein").unwrap();
        forms.set_datetime("%d.%m.%Y %H:%M:%S").unwrap();
        for (of, bytes, usual, written) in [
            (Type::Int32, vec![0, 1, 226, 64], "123456", "123.456"),
            (Type::Int32, vec![255, 254, 29, 192], "-123456", "-123.456"),
            (Type::Int32, vec![0, 0, 0, 12], "12", "12"),
            (Type::Decimal, vec![0; 5], "-1234567.50", "-1.234.567,50"),
            (Type::Double, 1e300f64.to_be_bytes().to_vec(), "1e300", "1e300"),
            (Type::Double, 1.5f64.to_be_bytes().to_vec(), "1.5", "1,5"),
            (Type::Boolean, vec![1], "true", "Ja"),
            (Type::Boolean, vec![0], "false", "Nein"),
            (Type::Timestamp, 1000i64.to_be_bytes().to_vec(), "1000", "01.01.1970 00:00:01"),
            (Type::Utf8, b"1.5".to_vec(), "1.5", "1.5"),
        ] {
            assert_eq!(forms.written(&of, &bytes, usual.to_owned()), written);
            assert_eq!(forms.usual(&of, written).unwrap(), usual, "{written}");
        }
        assert!(forms.usual(&Type::Boolean, "true").is_err());
        assert_eq!(forms.usual(&Type::Timestamp, "2020-01-01").unwrap(), "2020-01-01");
        for wrong in ["Ja", "x,X", ",No"] {
            assert!(forms.set_booleans(wrong).is_err(), "{wrong}");
        }
        assert!(forms.set_datetime("%").is_err());
    }

    #[test]
    fn floats_have_at_most_the_digits_that_were_chosen() {
        let shown = |n: f64, digits| rounded(Some(n), Some(digits), "nan".to_owned());
        for (n, digits, text) in [
            (1.0 / 3.0, 5, "0.33333"),
            (1234.5, 5, "1234.5"),
            (0.0, 5, "0"),
            (123_456_789.0, 3, "1.23e8"),
            (0.000_001_234_567, 3, "1.23e-6"),
            (-2.0, 12, "-2"),
            (f64::NAN, 3, "nan"),
        ] {
            assert_eq!(shown(n, digits), text);
        }
    }
}
