//! Formats values like cqlsh: texts have quotes only inside of other values, floats have few
//! digits.

use firn_cql::internals::values::split;
use firn_cql::quote_if_needed;
use firn_wide::{Type, Wording};

/// Shown digits of `float` and `double`.
const FLOAT_DIGITS: i32 = 5;
const DOUBLE_DIGITS: i32 = 12;

/// Formats a value; `None` is null.
pub fn cell(of: &Type, bytes: Option<&[u8]>) -> String {
    show(of, bytes, false)
}

fn show(of: &Type, bytes: Option<&[u8]>, inside: bool) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    let of = of.unreversed();
    let quoted =
        |text: String| if inside { format!("'{}'", text.replace('\'', "''")) } else { text };
    match of {
        _ if of.validate(bytes).is_err() => {
            firn_cql::internals::values::literal(&Type::Bytes, Some(bytes))
        }
        Type::Utf8 | Type::Ascii => quoted(escaped(&String::from_utf8_lossy(bytes))),
        Type::Bytes => firn_cql::internals::values::literal(of, Some(bytes)),
        _ if of.has_parts() => many(of, bytes),
        _ if bytes.is_empty() => quoted(String::new()),
        Type::Boolean => if bytes == [0] { "False" } else { "True" }.into(),
        Type::Float => of_bytes(bytes)
            .map_or_else(String::new, |b| float(f32::from_be_bytes(b).into(), FLOAT_DIGITS)),
        Type::Double => of_bytes(bytes)
            .map_or_else(String::new, |b| float(f64::from_be_bytes(b), DOUBLE_DIGITS)),
        Type::Timestamp | Type::Date => quoted(micros(of.to_text(bytes, Wording::Cql))),
        // Shows a custom type of a server as bytes, with the name of its class.
        Type::Custom(custom) => {
            let class = custom.0.name().replace("org.apache.cassandra.db.marshal.", "");
            format!("{} ({class})", of.to_text(bytes, Wording::Cql))
        }
        Type::SimpleDate | Type::Time | Type::Inet => quoted(of.to_text(bytes, Wording::Cql)),
        _ => of.to_text(bytes, Wording::Cql),
    }
}

fn of_bytes<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Escapes line ends, tabs and other control characters: a row is one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Converts a time to `2009-08-16 15:53:24.000000+0000`, with six digits of the fraction and an
/// offset.
fn micros(text: String) -> String {
    let Some((front, back)) = text.split_once('.') else { return text };
    let digits: String = back.chars().take_while(char::is_ascii_digit).collect();
    let day = front.replace('T', " ");
    format!("{day}.{digits:0<6}+0000")
}

/// Formats a number like cqlsh: `digits` digits after the point, or fewer if they identify the
/// number. Very small and very large numbers have an exponent.
fn float(n: f64, digits: i32) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if n == 0.0 {
        return "0".into();
    }
    let rough = n.abs().log10().trunc() as i32;
    let significant = if (-4..digits).contains(&rough) { digits + rough + 1 } else { digits };
    let shortest = format!("{n:e}");
    let needed = shortest
        .split_once('e')
        .map_or(0, |(m, _)| m.bytes().filter(u8::is_ascii_digit).count() as i32);
    let significant = significant.clamp(1, needed.max(1));
    let scientific = format!("{n:.0$e}", (significant - 1) as usize);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    // An exponent as with `%g`, except for whole numbers whose zeros are exact.
    if power < -4 || power >= digits {
        return format!(
            "{}e{}{:02}",
            trimmed(mantissa),
            if power < 0 { '-' } else { '+' },
            power.abs()
        );
    }
    trimmed(&format!("{n:.0$}", (significant - 1 - power).max(0) as usize))
}

fn many(of: &Type, bytes: &[u8]) -> String {
    // The value has been validated.
    let parts = split(of, bytes).unwrap_or_default();
    let all = |of: &Type| parts.iter().map(|p| show(of, *p, true)).collect::<Vec<_>>().join(", ");
    let part = |i: usize, of: &Type| show(of, parts.get(i).copied().flatten(), true);
    match of {
        Type::Set(e) => format!("{{{}}}", all(e)),
        Type::Map(kv) => {
            let pair = |p: &[Option<&[u8]>]| {
                format!("{}: {}", show(&kv.0, p[0], true), show(&kv.1, p[1], true))
            };
            format!("{{{}}}", parts.chunks_exact(2).map(pair).collect::<Vec<_>>().join(", "))
        }
        Type::Tuple(types) => {
            let parts: Vec<_> = types.iter().enumerate().map(|(i, of)| part(i, of)).collect();
            format!("({})", parts.join(", "))
        }
        Type::Udt(udt) => {
            let field = |(i, (name, of)): (usize, &(String, Type))| {
                format!("{}: {}", quote_if_needed(name), part(i, of))
            };
            format!(
                "{{{}}}",
                udt.fields.iter().enumerate().map(field).collect::<Vec<_>>().join(", ")
            )
        }
        Type::List(e) | Type::Vector(e, _) => format!("[{}]", all(e)),
        other => firn_cql::internals::values::literal(other, Some(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_cql::internals::values::{put_collection, put_tuple};

    #[test]
    fn floats_have_few_digits() {
        let floats = [
            0.0,
            1.5,
            0.1,
            0.000123456,
            123456.789,
            1e30,
            -2.5e-7,
            100000.0,
            12345.678,
            f64::NAN,
            f64::NEG_INFINITY,
        ];
        let shown: Vec<_> = floats.iter().map(|n| float(*n, FLOAT_DIGITS)).collect();
        let wanted = [
            "0",
            "1.5",
            "0.1",
            "0.000123",
            "1.2346e+05",
            "1e+30",
            "-2.5e-07",
            "1e+05",
            "12345.678",
            "NaN",
            "-Infinity",
        ];
        assert_eq!(shown, wanted);
        assert_eq!(
            [float(0.1, DOUBLE_DIGITS), float(123456.789, DOUBLE_DIGITS)],
            ["0.1", "123456.789"]
        );
        assert_eq!(float(1_250_558_004.0, DOUBLE_DIGITS), "1250558004");
    }

    #[test]
    fn texts_have_quotes_only_within_others() {
        let list = Type::List(Type::Utf8.into());
        assert_eq!(cell(&Type::Utf8, Some("it's\n\u{1}é".as_bytes())), "it's\\n\\x01é");
        let bytes = put_collection(&list, &[b"it's".to_vec(), b"b".to_vec()]).unwrap();
        assert_eq!(cell(&list, Some(&bytes)), "['it''s', 'b']");
        let tuple = Type::Tuple([Type::Int32, Type::Inet, Type::Boolean].into());
        let bytes = put_tuple(&[Some(vec![0, 0, 0, 7]), Some(vec![127, 0, 0, 1])]).unwrap();
        assert_eq!(cell(&tuple, Some(&bytes)), "(7, '127.0.0.1', null)");
        let vector = Type::Vector(Type::Float.into(), 2);
        let bytes = [1.5f32.to_be_bytes(), (-2f32).to_be_bytes()].concat();
        assert_eq!(cell(&vector, Some(&bytes)), "[1.5, -2]");
        assert_eq!(
            cell(&Type::Timestamp, Some(&1_250_558_004_007_i64.to_be_bytes())),
            "2009-08-18 01:13:24.007000+0000"
        );
        assert_eq!(cell(&Type::Bytes, Some(b"\x00\xff")), "0x00ff");
        assert_eq!(
            (cell(&Type::Int32, None), cell(&Type::Int32, Some(b""))),
            ("null".into(), String::new())
        );
    }
}
