//! Description of a policy: its name, its parameters, and for each parameter the bounds, the
//! default and a line of help.
//!
//! All texts and files that contain a policy derive from it, so none of them depends on specific
//! policies. They are: `Display` and `FromStr` of [`Policy`](super::policy::Policy), bounds checks,
//! manifest fields, JSON, help texts, the table in `format-spec`, and the random policies of tests.
//!
//! A policy is declared with `policy!` in its own file. Invariant: a written value is read back
//! equal.

use std::fmt;

/// Columns of a line of help.
const HELP_WIDTH: usize = 100;

/// Formats a line of help; long text continues on indented lines.
fn line(head: &str, text: &str) -> String {
    let (mut out, mut column) = (head.to_owned(), head.chars().count());
    for word in text.split(' ') {
        let width = 1 + word.chars().count();
        if column + width > HELP_WIDTH {
            out += &format!("\n{:1$}", "", head.chars().count());
            column = head.chars().count();
        }
        out += " ";
        out += word;
        column += width;
    }
    out + "\n"
}

/// Name and parameters of a policy.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Description {
    /// Name, as in texts and in the manifest.
    pub name: &'static str,
    /// Summary of the policy in a sentence or two.
    pub about: &'static str,
    /// Parameters, in the order in which they are written.
    pub params: &'static [Param],
}

/// Parameter of a policy.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Param {
    /// Name, as in texts and in the manifest.
    pub name: &'static str,
    /// One-line meaning.
    pub help: &'static str,
    /// Type and bounds of the value.
    pub kind: ParameterKind,
    /// Returns the default value.
    pub default: fn() -> ParameterValue,
}

/// Type of a parameter, with inclusive bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are the bounds
#[doc(hidden)]
pub enum ParameterKind {
    /// Whole number.
    Number { min: u64, max: u64 },
    /// Size in bytes, such as `64m`.
    Bytes { min: u64, max: u64 },
    /// Time in seconds.
    Seconds { min: u64, max: u64 },
    /// Fraction.
    Factor { min: f64, max: f64 },
    /// One to `most` whole numbers, such as `2/-8/0`.
    List { min: i32, max: i32, most: usize },
    /// One of these names. The manifest stores its index, counted from 0.
    Choice(&'static [&'static str]),
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub enum ParameterValue {
    /// Value of [`ParameterKind::Number`], [`ParameterKind::Bytes`] or [`ParameterKind::Seconds`];
    /// for [`ParameterKind::Choice`] the index of the name.
    Number(u64),
    /// Value of [`ParameterKind::Factor`].
    Double(f64),
    /// Value of [`ParameterKind::List`].
    List(Vec<i32>),
}

/// Error in a policy or its text: names the policy, the parameter and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(pub(super) String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

/// Parses a size with an optional unit, such as `64m`, `1.5T` or `256MiB`. Units are powers of
/// 1,024.
///
/// # Errors
/// A sentence about the text.
#[doc(hidden)]
pub fn size(text: &str) -> Result<u64, String> {
    let t = text.trim().trim_end_matches(['B', 'b', 'i']);
    let split = t.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(t.len());
    let (number, unit) = t.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return Err(format!("{text:?} has no unit that is known: k, m, g, t, p")),
    };
    if let Some(bytes) = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)) {
        return Ok(bytes);
    }
    let n: f64 = number.parse().map_err(|_| format!("{text:?} is no size; 64m and 1g are"))?;
    let bytes = n * (1u64 << shift) as f64;
    if (0.0..9e18).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("{text:?} is too large, or below 0"))
    }
}

/// Formats a size exactly, so that [`size`] reads it back.
#[doc(hidden)]
pub fn size_text(bytes: u64) -> String {
    let unit = (1..=5).rev().find(|unit| bytes > 0 && bytes.is_multiple_of(1 << (10 * unit)));
    unit.map_or_else(
        || bytes.to_string(),
        |unit| format!("{}{}", bytes >> (10 * unit), ["k", "m", "g", "t", "p"][unit - 1]),
    )
}

impl ParameterKind {
    /// Returns the bounds in words.
    pub fn bounds(&self) -> String {
        let between = |min: String, max: String| format!("{min} to {max}");
        match *self {
            ParameterKind::Number { min, max: u64::MAX }
            | ParameterKind::Seconds { min, max: u64::MAX } => {
                format!("at least {min}")
            }
            ParameterKind::Bytes { min, max: u64::MAX } => format!("at least {}", size_text(min)),
            ParameterKind::Number { min, max } | ParameterKind::Seconds { min, max } => {
                between(min.to_string(), max.to_string())
            }
            ParameterKind::Bytes { min, max } => between(size_text(min), size_text(max)),
            ParameterKind::Factor { min, max } => between(min.to_string(), max.to_string()),
            ParameterKind::List { min, max, most } => {
                format!("1 to {most} numbers of {min} to {max}, with / between them")
            }
            ParameterKind::Choice(names) => format!("one of {}", names.join(", ")),
        }
    }

    /// Reports whether the value is within the bounds.
    pub fn admits(&self, value: &ParameterValue) -> bool {
        match (self, value) {
            (
                ParameterKind::Number { min, max }
                | ParameterKind::Bytes { min, max }
                | ParameterKind::Seconds { min, max },
                ParameterValue::Number(n),
            ) => (min..=max).contains(&n),
            (ParameterKind::Factor { min, max }, ParameterValue::Double(x)) => {
                (min..=max).contains(&x)
            }
            (ParameterKind::List { min, max, most }, ParameterValue::List(list)) => {
                (1..=*most).contains(&list.len()) && list.iter().all(|n| (min..=max).contains(&n))
            }
            (ParameterKind::Choice(names), ParameterValue::Number(n)) => *n < names.len() as u64,
            _ => false,
        }
    }

    /// Returns the nearest value within the bounds, or `None` if there is none.
    pub fn clamped(&self, value: ParameterValue) -> Option<ParameterValue> {
        let nearest = match (*self, value) {
            (
                ParameterKind::Number { min, max }
                | ParameterKind::Bytes { min, max }
                | ParameterKind::Seconds { min, max },
                ParameterValue::Number(n),
            ) => ParameterValue::Number(n.clamp(min, max)),
            (ParameterKind::Factor { min, max }, ParameterValue::Double(x)) => {
                ParameterValue::Double(x.clamp(min, max))
            }
            (ParameterKind::List { min, max, most }, ParameterValue::List(list)) => {
                ParameterValue::List(
                    list.into_iter().take(most).map(|n| n.clamp(min, max)).collect(),
                )
            }
            (_, value) => value,
        };
        Some(nearest).filter(|value| self.admits(value))
    }

    /// Parses a value; returns `None` if the text is invalid. Bounds are not checked.
    pub fn read(&self, text: &str) -> Option<ParameterValue> {
        match self {
            ParameterKind::Number { .. } | ParameterKind::Seconds { .. } => {
                text.parse().ok().map(ParameterValue::Number)
            }
            ParameterKind::Bytes { .. } => size(text).ok().map(ParameterValue::Number),
            ParameterKind::Factor { .. } => text.parse().ok().map(ParameterValue::Double),
            ParameterKind::List { .. } => text
                .split('/')
                .map(|n| n.parse().ok())
                .collect::<Option<_>>()
                .map(ParameterValue::List),
            ParameterKind::Choice(names) => {
                names.iter().position(|n| *n == text).map(|n| ParameterValue::Number(n as u64))
            }
        }
    }

    /// Formats the value, so that [`read`](ParameterKind::read) reads it back.
    pub fn text(&self, value: &ParameterValue) -> String {
        match (self, value) {
            (ParameterKind::Bytes { .. }, ParameterValue::Number(n)) => size_text(*n),
            (ParameterKind::Choice(names), ParameterValue::Number(n)) => {
                names.get(*n as usize).copied().unwrap_or_default().to_owned()
            }
            (_, ParameterValue::Number(n)) => n.to_string(),
            (_, ParameterValue::Double(x)) => x.to_string(),
            (_, ParameterValue::List(list)) => {
                list.iter().map(i32::to_string).collect::<Vec<_>>().join("/")
            }
        }
    }

    /// Returns a random, mostly small value within the bounds, for tests. `below(n)` returns a
    /// random number below `n`.
    pub fn draw(&self, below: &mut dyn FnMut(u64) -> u64) -> ParameterValue {
        fn small(bits: u64, below: &mut dyn FnMut(u64) -> u64) -> u64 {
            let width = 1 + below(bits);
            below(1 << width)
        }
        match *self {
            // If 0 means no bound, use it for half of the draws.
            ParameterKind::Seconds { min: 0, .. } | ParameterKind::Bytes { min: 0, .. }
                if below(2) == 0 =>
            {
                ParameterValue::Number(0)
            }
            ParameterKind::Number { min, max } => {
                ParameterValue::Number(min.saturating_add(small(4, below)).min(max))
            }
            ParameterKind::Seconds { min, max } => {
                ParameterValue::Number(min.saturating_add(small(12, below)).min(max))
            }
            ParameterKind::Bytes { min, max } => {
                ParameterValue::Number((min.max(64 << 10) << below(5)).min(max))
            }
            ParameterKind::Factor { min, max } => ParameterValue::Double(
                min + (max - min) * below(1 << 20) as f64 / (1u64 << 20) as f64,
            ),
            ParameterKind::List { min, max, most } => {
                let many = 1 + below((most as u64).min(4));
                let one = |i: u64| if i.is_multiple_of(2) { i as i32 / 2 } else { -(i as i32 / 2) };
                ParameterValue::List((0..many).map(|_| one(below(14)).clamp(min, max)).collect())
            }
            ParameterKind::Choice(names) => ParameterValue::Number(below(names.len() as u64)),
        }
    }
}

impl Description {
    fn error(&self, what: fmt::Arguments<'_>) -> PolicyError {
        PolicyError(format!("the policy {}: {what}", self.name))
    }

    /// Returns the default of every parameter.
    pub fn defaults(&self) -> Vec<ParameterValue> {
        self.params.iter().map(|p| (p.default)()).collect()
    }

    /// Parses the parts of a policy text: first values of the first parameters, then `name=value`.
    /// Parameters that are not specified have their defaults. Bounds are not checked.
    ///
    /// # Errors
    /// The error in the text.
    pub fn read<'t>(
        &self,
        parts: impl Iterator<Item = &'t str>,
    ) -> Result<Vec<ParameterValue>, PolicyError> {
        let mut values: Vec<Option<ParameterValue>> = vec![None; self.params.len()];
        let mut placed = Some(0);
        for part in parts {
            let (i, text) = match (part.split_once('='), placed) {
                (Some((name, text)), _) => {
                    placed = None;
                    (self.params.iter().position(|p| p.name == name), text)
                }
                (None, Some(i)) => {
                    placed = Some(i + 1);
                    (Some(i), part)
                }
                (None, None) => {
                    return Err(self.error(format_args!(
                        "{part:?} stands behind a parameter with a name, and has none"
                    )));
                }
            };
            let Some((i, param)) = i.and_then(|i| Some((i, self.params.get(i)?))) else {
                let names: Vec<&str> = self.params.iter().map(|p| p.name).collect();
                return Err(self.error(format_args!(
                    "{part:?} is of no parameter; it has {}",
                    names.join(", ")
                )));
            };
            let value = param.kind.read(text).ok_or_else(|| self.refused(param, text))?;
            if values[i].replace(value).is_some() {
                return Err(self.error(format_args!("{} is given twice", param.name)));
            }
        }
        Ok(values
            .into_iter()
            .zip(self.params)
            .map(|(value, p)| value.unwrap_or_else(p.default))
            .collect())
    }

    fn refused(&self, param: &Param, text: &str) -> PolicyError {
        let text = if text.is_empty() { "nothing" } else { text };
        self.error(format_args!("{} is {text}; it must be {}", param.name, param.kind.bounds()))
    }

    /// Checks that each value is within the bounds of its parameter.
    ///
    /// # Errors
    /// The first value that is out of bounds, with its bounds.
    pub fn check(&self, values: &[ParameterValue]) -> Result<(), PolicyError> {
        let outside = self.params.iter().zip(values).find(|(p, v)| !p.kind.admits(v));
        outside.map_or(Ok(()), |(p, v)| Err(self.refused(p, &p.kind.text(v))))
    }

    /// Formats the policy's name and values, so that [`read`](Description::read) reads the values
    /// back.
    pub fn text(&self, values: &[ParameterValue]) -> String {
        let pairs =
            self.params.iter().zip(values).map(|(p, v)| format!(":{}={}", p.name, p.kind.text(v)));
        std::iter::once(self.name.to_owned()).chain(pairs).collect()
    }

    /// Returns the policy and each of its parameters with default, bounds and meaning, one line
    /// each, for help texts.
    pub fn help(&self) -> String {
        let param = |p: &Param| {
            let given = format!("    {}={}", p.name, p.kind.text(&(p.default)()));
            line(&format!("{given:<28}"), &format!("{} ({})", p.help, p.kind.bounds()))
        };
        let about = line(&format!("  {:<14}", self.name), self.about);
        about + &self.params.iter().map(param).collect::<String>()
    }

    /// Returns the row of the policy in the table of `format-spec/README.md`.
    pub fn row(&self) -> String {
        let param = |p: &Param| {
            let value = match p.kind {
                ParameterKind::Number { .. }
                | ParameterKind::Bytes { .. }
                | ParameterKind::Seconds { .. } => String::new(),
                ParameterKind::Factor { .. } => " (double)".to_owned(),
                ParameterKind::List { .. } => " (zigzags)".to_owned(),
                ParameterKind::Choice(names) => {
                    let numbered: Vec<String> =
                        names.iter().enumerate().map(|(n, name)| format!("{n} {name}")).collect();
                    format!(" `?` ({})", numbered.join(", "))
                }
            };
            format!("`{}`{value}", p.name)
        };
        format!(
            "| `{}` | {} |",
            self.name,
            self.params.iter().map(param).collect::<Vec<_>>().join(", ")
        )
    }
}

/// Rust type of a parameter's value.
pub(super) trait Parameter: Sized {
    fn value(&self) -> ParameterValue;
    /// Returns `None` for a value of another type, or one out of the range of the Rust type.
    fn of(value: &ParameterValue) -> Option<Self>;
}

impl Parameter for u64 {
    fn value(&self) -> ParameterValue {
        ParameterValue::Number(*self)
    }

    fn of(value: &ParameterValue) -> Option<u64> {
        if let ParameterValue::Number(n) = value { Some(*n) } else { None }
    }
}

impl Parameter for u32 {
    fn value(&self) -> ParameterValue {
        ParameterValue::Number(u64::from(*self))
    }

    fn of(value: &ParameterValue) -> Option<u32> {
        u64::of(value)?.try_into().ok()
    }
}

impl Parameter for f64 {
    fn value(&self) -> ParameterValue {
        ParameterValue::Double(*self)
    }

    fn of(value: &ParameterValue) -> Option<f64> {
        if let ParameterValue::Double(x) = value { Some(*x) } else { None }
    }
}

impl Parameter for Vec<i32> {
    fn value(&self) -> ParameterValue {
        ParameterValue::List(self.clone())
    }

    fn of(value: &ParameterValue) -> Option<Vec<i32>> {
        if let ParameterValue::List(list) = value { Some(list.clone()) } else { None }
    }
}

/// Policy type, as [`policy!`] defines it.
pub(super) trait DescribedPolicy: Sized {
    const DESCRIPTION: Description;
    /// Returns the values of the parameters, in their order.
    fn values(&self) -> Vec<ParameterValue>;
    /// Returns `None` if the number of values differs from the number of parameters, or a value is
    /// invalid.
    fn of(values: &[ParameterValue]) -> Option<Self>;
}

/// Constructors of parameter types, for use in [`policy!`].
pub(super) mod kinds {
    use super::ParameterKind;

    pub const fn number(min: u64, max: u64) -> ParameterKind {
        ParameterKind::Number { min, max }
    }

    pub const fn bytes(min: u64, max: u64) -> ParameterKind {
        ParameterKind::Bytes { min, max }
    }

    pub const fn seconds(min: u64, max: u64) -> ParameterKind {
        ParameterKind::Seconds { min, max }
    }

    pub const fn factor(min: f64, max: f64) -> ParameterKind {
        ParameterKind::Factor { min, max }
    }

    pub const fn list(min: i32, max: i32, most: usize) -> ParameterKind {
        ParameterKind::List { min, max, most }
    }

    pub const fn choice(names: &'static [&'static str]) -> ParameterKind {
        ParameterKind::Choice(names)
    }
}

/// Declares the type of a policy: its name, and for each parameter a line of help, the default and
/// the [`kinds`] of value.
macro_rules! policy {
    (
        $(#[doc = $about:literal])+
        $type:ident = $name:literal {
            $( $(#[doc = $help:literal])+ $param:ident: $of:ty = $default:expr, $kind:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $type {
            $(
                $(#[doc = $help])+
                #[doc = concat!(" (`", stringify!($kind), "`; by default `", stringify!($default), "`)")]
                pub $param: $of,
            )+
            #[doc(hidden)]
            pub _non_exhaustive: (),
        }

        impl Default for $type {
            fn default() -> Self {
                $type { $($param: $default,)+ _non_exhaustive: () }
            }
        }

        impl $crate::compaction::describe::DescribedPolicy for $type {
            const DESCRIPTION: $crate::compaction::describe::Description = {
                use $crate::compaction::describe::{Description, Param, Parameter};
                #[allow(unused_imports, reason = "few policies have all kinds")]
                use $crate::compaction::describe::kinds::*;
                Description {
                    name: $name,
                    about: concat!($($about),+).trim_ascii(),
                    params: &[$(Param {
                        name: stringify!($param),
                        help: concat!($($help),+).trim_ascii(),
                        kind: $kind,
                        default: || <$of as Parameter>::value(&$default),
                    }),+],
                }
            };

            fn values(&self) -> Vec<$crate::compaction::describe::ParameterValue> {
                use $crate::compaction::describe::Parameter;
                vec![$(Parameter::value(&self.$param)),+]
            }

            fn of(values: &[$crate::compaction::describe::ParameterValue]) -> Option<Self> {
                use $crate::compaction::describe::Parameter;
                let mut values = values.iter();
                let policy = $type { $($param: Parameter::of(values.next()?)?,)+ _non_exhaustive: () };
                values.next().is_none().then_some(policy)
            }
        }
    };
}
pub(super) use policy;
