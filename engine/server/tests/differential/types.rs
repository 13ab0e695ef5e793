//! Types, and values in three forms: as a literal, as bound bytes, and as JSON.

use std::collections::BTreeSet;

use firn_testkit::rng::Rng;

/// The type of a column, or of an element.
#[derive(Clone, Debug, PartialEq)]
pub enum DrawnType {
    Native(&'static str),
    List(Box<DrawnType>, bool),
    Set(Box<DrawnType>, bool),
    Map(Box<DrawnType>, Box<DrawnType>, bool),
    Tuple(Vec<DrawnType>),
    /// With this many floats.
    Vector(usize),
    /// A user type by its index in the schema; the flag, as for collections: frozen.
    User(usize, bool),
}

/// A user type: its name, and its fields with their names.
pub type UserType = (String, Vec<(String, DrawnType)>);

/// A value in three forms.
#[derive(Clone, Debug)]
pub struct DrawnValue {
    pub literal: String,
    pub bytes: Vec<u8>,
    pub json: String,
    /// Whether the bytes may be bound. Firn sorts and deduplicates bytes of a frozen set or map,
    /// Cassandra does not, so only short ones are equal.
    pub binds: bool,
}

/// Types for keys and set elements, common ones more often.
const KEYS: [&str; 23] = [
    "int",
    "int",
    "int",
    "int",
    "text",
    "text",
    "text",
    "bigint",
    "ascii",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "smallint",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

/// Draws a native type that can be compared.
pub fn draw_key_type(rng: &mut Rng) -> DrawnType {
    DrawnType::Native(KEYS[rng.below(KEYS.len() as u64) as usize])
}

/// Draws an element type: composed types are frozen.
fn draw_part(rng: &mut Rng, users: usize, deep: u32) -> DrawnType {
    if deep > 0 && rng.one_in(3) {
        return draw_type(rng, users, deep - 1).frozen();
    }
    draw_key_type(rng)
}

/// Draws any type, nested up to this depth.
pub fn draw_type(rng: &mut Rng, users: usize, deep: u32) -> DrawnType {
    let frozen = rng.one_in(3);
    match rng.below(16) {
        0 | 1 => DrawnType::List(Box::new(draw_part(rng, users, deep)), frozen),
        2 | 3 => DrawnType::Set(Box::new(draw_part(rng, users, deep)), frozen),
        4 | 5 => {
            let key = draw_part(rng, users, deep);
            DrawnType::Map(Box::new(key), Box::new(draw_part(rng, users, deep)), frozen)
        }
        6 => {
            let len = 1 + rng.below(3);
            DrawnType::Tuple((0..len).map(|_| draw_part(rng, users, deep)).collect())
        }
        7 | 8 if users > 0 => DrawnType::User(rng.below(users as u64) as usize, frozen),
        9 if rng.one_in(2) => DrawnType::Native("duration"),
        10 if rng.one_in(2) => DrawnType::Vector(1 + rng.below(4) as usize),
        _ => draw_key_type(rng),
    }
}

impl DrawnType {
    pub fn frozen(self) -> DrawnType {
        match self {
            DrawnType::List(of, _) => DrawnType::List(of, true),
            DrawnType::Set(of, _) => DrawnType::Set(of, true),
            DrawnType::Map(k, v, _) => DrawnType::Map(k, v, true),
            DrawnType::User(i, _) => DrawnType::User(i, true),
            other => other,
        }
    }

    /// Reports whether its elements are separate cells.
    pub fn is_multicell(&self) -> bool {
        matches!(
            self,
            DrawnType::List(_, false)
                | DrawnType::Set(_, false)
                | DrawnType::Map(_, _, false)
                | DrawnType::User(_, false)
        )
    }

    pub fn is_collection(&self) -> bool {
        matches!(self, DrawnType::List(..) | DrawnType::Set(..) | DrawnType::Map(..))
    }

    pub fn is_number(&self) -> bool {
        const NUMBERS: [&str; 8] =
            ["int", "bigint", "decimal", "double", "float", "smallint", "tinyint", "varint"];
        matches!(self, DrawnType::Native(name) if NUMBERS.contains(name))
    }

    /// Reports whether some values have other texts in Cassandra: invalid times, times before year
    /// 1, and numbers that are not in their shortest form.
    pub fn has_odd_texts(&self) -> bool {
        matches!(self, DrawnType::Native("time" | "timestamp" | "decimal" | "double" | "float"))
    }

    /// Reports whether it contains a duration, which has no order.
    pub fn has_duration(&self, users: &[UserType]) -> bool {
        match self {
            DrawnType::Native(name) => *name == "duration",
            DrawnType::Vector(_) => false,
            DrawnType::List(of, _) | DrawnType::Set(of, _) => of.has_duration(users),
            DrawnType::Map(k, v, _) => k.has_duration(users) || v.has_duration(users),
            DrawnType::Tuple(of) => of.iter().any(|t| t.has_duration(users)),
            DrawnType::User(i, _) => users[*i].1.iter().any(|(_, t)| t.has_duration(users)),
        }
    }

    /// Returns its CQL name.
    pub fn cql(&self, users: &[UserType]) -> String {
        let frozen = |is: bool, name: String| if is { format!("frozen<{name}>") } else { name };
        match self {
            DrawnType::Native(name) => (*name).to_owned(),
            DrawnType::List(of, is) => frozen(*is, format!("list<{}>", of.cql(users))),
            DrawnType::Set(of, is) => frozen(*is, format!("set<{}>", of.cql(users))),
            DrawnType::Map(k, v, is) => {
                frozen(*is, format!("map<{}, {}>", k.cql(users), v.cql(users)))
            }
            DrawnType::Tuple(of) => {
                let of: Vec<_> = of.iter().map(|t| t.cql(users)).collect();
                format!("frozen<tuple<{}>>", of.join(", "))
            }
            DrawnType::Vector(len) => format!("vector<float, {len}>"),
            DrawnType::User(i, is) => frozen(*is, users[*i].0.clone()),
        }
    }

    /// Draws a value from a small pool, so that values repeat.
    pub fn draw(&self, rng: &mut Rng, users: &[UserType]) -> DrawnValue {
        match self {
            DrawnType::Native(name) => native(name, rng),
            DrawnType::List(of, _) => {
                let parts: Vec<_> = (0..rng.below(4)).map(|_| of.draw(rng, users)).collect();
                sequence(&parts, '[', ']')
            }
            DrawnType::Set(of, frozen) => {
                let parts: Vec<_> = (0..rng.below(4)).map(|_| of.draw(rng, users)).collect();
                let mut value = sequence(&parts, '{', '}');
                value.binds &= !frozen || parts.len() < 2;
                value
            }
            DrawnType::Map(k, v, frozen) => {
                let mut parts: Vec<_> =
                    (0..rng.below(4)).map(|_| (k.draw(rng, users), v.draw(rng, users))).collect();
                // It is unspecified which of two values of a key counts. Composed values can be
                // equal with different bytes.
                let mut seen = BTreeSet::new();
                parts.retain(|(key, _)| seen.insert(key.bytes.clone()));
                if !matches!(**k, DrawnType::Native(_)) {
                    parts.truncate(1);
                }
                let mut value = map(&parts);
                value.binds &= !frozen || parts.len() < 2;
                value
            }
            DrawnType::Tuple(of) => {
                let mut parts: Vec<_> = of.iter().map(|t| part(t, rng, users)).collect();
                // Set the last field: in keys, Firn encodes trailing nulls shorter.
                if let (Some(last @ None), Some(of)) = (parts.last_mut(), of.last()) {
                    *last = Some(of.draw(rng, users));
                }
                let texts = |of: fn(&DrawnValue) -> &str| {
                    let null = |p: &Option<DrawnValue>| {
                        p.as_ref().map_or("null".to_owned(), |p| of(p).to_owned())
                    };
                    parts.iter().map(null).collect::<Vec<_>>().join(", ")
                };
                DrawnValue {
                    literal: format!("({})", texts(|p| &p.literal)),
                    bytes: parts.iter().flat_map(sized).collect(),
                    json: format!("[{}]", texts(|p| &p.json)),
                    binds: parts.iter().flatten().all(|p| p.binds),
                }
            }
            DrawnType::Vector(len) => vector(*len, rng),
            DrawnType::User(i, _) => {
                let mut fields: Vec<_> =
                    users[*i].1.iter().map(|(n, t)| (n, part(t, rng, users))).collect();
                if let (Some((_, last @ None)), Some((_, of))) =
                    (fields.last_mut(), users[*i].1.last())
                {
                    *last = Some(of.draw(rng, users));
                }
                let there = || fields.iter().filter_map(|(n, p)| Some((n, p.as_ref()?)));
                let literal: Vec<_> = there().map(|(n, p)| format!("{n}: {}", p.literal)).collect();
                let json: Vec<_> = there().map(|(n, p)| format!("\"{n}\": {}", p.json)).collect();
                // A user type without any field would be read as an empty map.
                let first = fields.first().map_or("", |(n, _)| n);
                let literal =
                    if literal.is_empty() { format!("{first}: null") } else { literal.join(", ") };
                DrawnValue {
                    literal: format!("{{{literal}}}"),
                    bytes: fields.iter().flat_map(|(_, p)| sized(p)).collect(),
                    json: format!("{{{}}}", json.join(", ")),
                    binds: fields.iter().filter_map(|(_, p)| p.as_ref()).all(|p| p.binds),
                }
            }
        }
    }
}

fn part(of: &DrawnType, rng: &mut Rng, users: &[UserType]) -> Option<DrawnValue> {
    (!rng.one_in(8)).then(|| of.draw(rng, users))
}

/// Returns a value with its length, or null.
fn sized(part: &Option<DrawnValue>) -> Vec<u8> {
    match part {
        None => vec![0xff; 4],
        Some(part) => behind_its_size(&part.bytes),
    }
}

fn behind_its_size(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn sequence(parts: &[DrawnValue], open: char, close: char) -> DrawnValue {
    let literals: Vec<_> = parts.iter().map(|p| p.literal.as_str()).collect();
    let json: Vec<_> = parts.iter().map(|p| p.json.as_str()).collect();
    let mut bytes = (parts.len() as u32).to_be_bytes().to_vec();
    parts.iter().for_each(|p| bytes.extend(behind_its_size(&p.bytes)));
    DrawnValue {
        literal: format!("{open}{}{close}", literals.join(", ")),
        bytes,
        json: format!("[{}]", json.join(", ")),
        binds: parts.iter().all(|p| p.binds),
    }
}

/// Draws a vector that rarely repeats: the order of equally near ones is unspecified.
fn vector(len: usize, rng: &mut Rng) -> DrawnValue {
    let all: Vec<f32> = (0..len).map(|_| rng.below(4096) as f32 - 1024.5).collect();
    let texts: Vec<_> = all.iter().map(f32::to_string).collect();
    plain(format!("[{}]", texts.join(", ")), all.iter().flat_map(|f| f.to_be_bytes()).collect())
}

fn map(parts: &[(DrawnValue, DrawnValue)]) -> DrawnValue {
    let literals: Vec<_> =
        parts.iter().map(|(k, v)| format!("{}: {}", k.literal, v.literal)).collect();
    let key = |json: &str| match json.starts_with('"') {
        true => json.to_owned(),
        false => format!("\"{}\"", json.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let json: Vec<_> = parts.iter().map(|(k, v)| format!("{}: {}", key(&k.json), v.json)).collect();
    let mut bytes = (parts.len() as u32).to_be_bytes().to_vec();
    for (k, v) in parts {
        bytes.extend(behind_its_size(&k.bytes));
        bytes.extend(behind_its_size(&v.bytes));
    }
    DrawnValue {
        literal: format!("{{{}}}", literals.join(", ")),
        bytes,
        json: format!("{{{}}}", json.join(", ")),
        binds: parts.iter().all(|(k, v)| k.binds && v.binds),
    }
}

/// Returns the shortest bytes of a whole number.
fn varint(n: i128) -> Vec<u8> {
    let all = n.to_be_bytes();
    let mut at = 0;
    while at < 15 && all[at] == if n < 0 { 0xff } else { 0 } && (all[at + 1] >> 7 == 1) == (n < 0) {
        at += 1;
    }
    all[at..].to_vec()
}

/// Returns a variable-length number with its sign in the lowest bit; a duration has three.
fn vint(n: i64) -> Vec<u8> {
    let n = ((n << 1) ^ (n >> 63)) as u64;
    let bits = 64 - n.leading_zeros().min(63);
    let extra = (bits.saturating_sub(1) / 7).min(8) as usize;
    let mut bytes = n.to_be_bytes()[8 - extra.min(8)..].to_vec();
    if extra < 8 {
        bytes = n.to_be_bytes()[7 - extra..].to_vec();
        bytes[0] |= !(0xff_u8 >> extra);
    } else {
        bytes.insert(0, 0xff);
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn whole(name: &str, rng: &mut Rng) -> i128 {
    let bits = match name {
        "tinyint" => 8,
        "smallint" => 16,
        "int" => 32,
        "bigint" => 64,
        _ => 100,
    };
    match rng.below(20) {
        0 => (1 << (bits - 1)) - 1,
        1 => -(1 << (bits - 1)),
        2 => 127,
        3 => -128,
        4 | 5 => -1,
        _ => i128::from(rng.below(5)),
    }
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Returns all forms of a value that JSON quotes.
fn quoted(text: &str, bytes: Vec<u8>) -> DrawnValue {
    let json = text.replace('\\', "\\\\").replace('"', "\\\"");
    DrawnValue {
        literal: format!("'{}'", text.replace('\'', "''")),
        bytes,
        json: format!("\"{json}\""),
        binds: true,
    }
}

fn plain(text: impl Into<String>, bytes: Vec<u8>) -> DrawnValue {
    let text = text.into();
    DrawnValue { literal: text.clone(), bytes, json: text, binds: true }
}

fn native(name: &str, rng: &mut Rng) -> DrawnValue {
    match name {
        "tinyint" | "smallint" | "int" | "bigint" | "varint" | "decimal" | "double" | "float" => {
            number(name, rng)
        }
        "date" | "time" | "timestamp" | "duration" => time(name, rng),
        "timeuuid" | "uuid" => identifier(name, rng),
        "boolean" => {
            let is = rng.one_in(2);
            plain(is.to_string(), vec![u8::from(is)])
        }
        "text" | "ascii" => {
            let pool = ["", "a", "b", "ab", "A", "it's", "a b", "\"q\"", "1", "zz"];
            let text = if name == "text" && rng.one_in(12) { "ü" } else { one_of(rng, &pool) };
            quoted(text, text.into())
        }
        "blob" => {
            let bytes = one_of(rng, &[&[][..], &[0], &[0xff], &[1, 2], &[0, 0, 0, 1]]);
            let mut value = plain(format!("0x{}", hex(bytes)), bytes.to_vec());
            value.json = format!("\"{}\"", value.json);
            value
        }
        "inet" => match rng.below(3) {
            0 => quoted("127.0.0.1", vec![127, 0, 0, 1]),
            1 => quoted("10.0.0.200", vec![10, 0, 0, 200]),
            _ => quoted("::1", [&[0; 15][..], &[1]].concat()),
        },
        // A counter is never written as a value.
        _ => plain("1", 1_i64.to_be_bytes().to_vec()),
    }
}

fn number(name: &str, rng: &mut Rng) -> DrawnValue {
    match name {
        "decimal" => {
            let (text, scale, unscaled) = one_of(
                rng,
                &[("0", 0, 0), ("1.5", 1, 15), ("-3", 0, -3), ("12.25", 2, 1225), ("7", 0, 7)],
            );
            plain(text, [&i32::to_be_bytes(scale)[..], &varint(unscaled)].concat())
        }
        "double" | "float" => {
            let n = one_of(rng, &[0.0_f32, 1.5, -2.25, 1e10, 3.0, 0.1, f32::NAN, f32::INFINITY]);
            let text = match n {
                n if n.is_nan() => "NaN".to_owned(),
                n if n.is_infinite() => "Infinity".to_owned(),
                n => n.to_string(),
            };
            let bytes = match name {
                "float" => n.to_be_bytes().to_vec(),
                _ => text.parse::<f64>().unwrap().to_be_bytes().to_vec(),
            };
            let mut value = plain(text, bytes);
            if !n.is_finite() {
                value.json = format!("\"{}\"", value.json);
            }
            value
        }
        _ => {
            let n = whole(name, rng);
            let width = match name {
                "tinyint" => 1,
                "smallint" => 2,
                "int" => 4,
                "bigint" => 8,
                _ => return plain(n.to_string(), varint(n)),
            };
            plain(n.to_string(), n.to_be_bytes()[16 - width..].to_vec())
        }
    }
}

fn time(name: &str, rng: &mut Rng) -> DrawnValue {
    match name {
        "date" => {
            let (text, day) = one_of(
                rng,
                &[
                    ("2020-01-02", 18263),
                    ("1969-12-31", -1),
                    ("1970-01-01", 0),
                    ("2000-02-29", 11016),
                ],
            );
            quoted(text, (day as u32).wrapping_add(1 << 31).to_be_bytes().to_vec())
        }
        "time" => {
            let (text, nanos) = one_of(
                rng,
                &[("00:00:00.000000000", 0), ("08:12:54.100000000", 29_574_100_000_000_i64)],
            );
            quoted(text, nanos.to_be_bytes().to_vec())
        }
        "timestamp" => {
            let (text, millis) = one_of(
                rng,
                &[
                    ("2020-01-02 03:04:05.678+0000", 1_577_934_245_678_i64),
                    ("1970-01-01 00:00:00.000+0000", 0),
                    ("1969-12-31 23:59:59.999+0000", -1),
                ],
            );
            quoted(text, millis.to_be_bytes().to_vec())
        }
        _ => {
            let (text, months, days, nanos) = one_of(
                rng,
                &[
                    ("1mo2d3h", 1, 2, 10_800_000_000_000_i64),
                    ("5s", 0, 0, 5_000_000_000),
                    ("-1d", 0, -1, 0),
                    ("12mo", 12, 0, 0),
                ],
            );
            let mut value = plain(text, [vint(months), vint(days), vint(nanos)].concat());
            value.json = format!("\"{text}\"");
            value
        }
    }
}

fn identifier(name: &str, rng: &mut Rng) -> DrawnValue {
    const TIMEUUIDS: [&str; 3] = [
        "50554d6e-29bb-11e5-b345-feff819cdc9f",
        "50554d6e-29bb-11e5-b345-feff819cdc01",
        "d2177dd0-eaa2-11de-a572-001b779c76e3",
    ];
    const UUIDS: [&str; 3] = [
        "550e8400-e29b-41d4-a716-446655440000",
        "00000000-0000-0000-0000-000000000000",
        "50554d6e-29bb-11e5-b345-feff819cdc9f",
    ];
    let text = one_of(rng, if name == "uuid" { &UUIDS } else { &TIMEUUIDS });
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let pairs = digits.chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    let bytes = pairs.map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
    let mut value = plain(text, bytes);
    value.json = format!("\"{text}\"");
    value
}
