//! Native aggregates over the values of many rows (model 3.4).

use firn_wide::Type;
use num_bigint::BigInt;

use super::number::{Number, is_number, no_signature};
use crate::error::{Error, Result, invalid};

/// A native aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AggregateKind {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl AggregateKind {
    /// Returns the aggregate with this name.
    pub fn named(word: &str) -> Option<AggregateKind> {
        Some(match word {
            "count" => AggregateKind::Count,
            "min" => AggregateKind::Min,
            "max" => AggregateKind::Max,
            "sum" => AggregateKind::Sum,
            "avg" => AggregateKind::Avg,
            _ => return None,
        })
    }

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            AggregateKind::CountRows | AggregateKind::Count => "count",
            AggregateKind::Min => "min",
            AggregateKind::Max => "max",
            AggregateKind::Sum => "sum",
            AggregateKind::Avg => "avg",
        }
    }

    /// Returns the error for an unset argument.
    pub fn unset_argument(self) -> Error {
        invalid!("Invalid unset value for argument in call to function {}", self.name())
    }

    /// Returns the type of its result over values of a type.
    ///
    /// # Errors
    /// `Invalid call to function …` for a type that cannot be added.
    pub fn result(self, of: &Type) -> Result<Type> {
        match self {
            AggregateKind::CountRows | AggregateKind::Count => Ok(Type::Long),
            AggregateKind::Min | AggregateKind::Max => Ok(of.clone()),
            AggregateKind::Sum | AggregateKind::Avg if is_number(of) => Ok(of.clone()),
            AggregateKind::Sum | AggregateKind::Avg => Err(no_signature(self.name())),
        }
    }
}

/// The state of an aggregate.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: AggregateKind,
    of: Type,
    count: u64,
    best: Option<Vec<u8>>,
    whole: BigInt,
    /// For doubles: the sum and its rounding error.
    double: (f64, f64),
    /// Sum of doubles without compensation.
    plain: f64,
    /// For decimals.
    scale: i64,
}

impl Accumulator {
    /// Creates the state of an aggregate over values of a type.
    pub fn new(kind: AggregateKind, of: &Type) -> Accumulator {
        let of = of.unreversed().clone();
        Accumulator {
            kind,
            of,
            count: 0,
            best: None,
            whole: BigInt::ZERO,
            double: (0.0, 0.0),
            plain: 0.0,
            scale: 0,
        }
    }

    /// Resets the state.
    pub fn clear(&mut self) {
        (self.count, self.best, self.double, self.scale) = (0, None, (0.0, 0.0), 0);
        (self.whole, self.plain) = (BigInt::ZERO, 0.0);
    }

    /// Adds a value; null counts only for `count(*)`.
    ///
    /// # Errors
    /// `Invalid` for bytes that are not a number.
    pub fn add(&mut self, value: Option<&[u8]>) -> Result<()> {
        if self.kind == AggregateKind::CountRows {
            self.count += 1;
            return Ok(());
        }
        let Some(value) = value else { return Ok(()) };
        match self.kind {
            AggregateKind::CountRows | AggregateKind::Count => self.count += 1,
            AggregateKind::Min | AggregateKind::Max => {
                let better = self.best.as_ref().is_none_or(|best| {
                    let order = self.of.compare(value, best);
                    if self.kind == AggregateKind::Min { order.is_lt() } else { order.is_gt() }
                });
                if better {
                    let best = self.best.get_or_insert_default();
                    best.clear();
                    best.extend_from_slice(value);
                }
            }
            // An empty value is not a number.
            AggregateKind::Sum | AggregateKind::Avg if value.is_empty() => {}
            AggregateKind::Sum | AggregateKind::Avg => {
                self.count += 1;
                self.sum(Number::decode(&self.of, value)?);
            }
        }
        Ok(())
    }

    fn sum(&mut self, number: Number) {
        match number {
            Number::Whole(n) => self.whole += n,
            Number::Double(n) => {
                let (sum, lost) = self.double;
                let wanted = n - lost;
                let next = sum + wanted;
                self.double = (next, (next - sum) - wanted);
                self.plain += n;
            }
            Number::Decimal(scale, n) => {
                let common = scale.max(self.scale);
                let ten = |n: i64| BigInt::from(10).pow(u32::try_from(n).unwrap_or(0));
                let before = &self.whole * ten(common - self.scale);
                let next = n * ten(common - scale);
                // Cassandra maintains a running average and rounds it after each value.
                self.whole = match self.kind {
                    AggregateKind::Avg => {
                        let more = half_even(&(next - &before), &BigInt::from(self.count));
                        before + more
                    }
                    _ => before + next,
                };
                self.scale = common;
            }
        }
    }

    /// Returns the value of the aggregate.
    ///
    /// # Errors
    /// Errors for a decimal whose scale is too large.
    pub fn result(&self) -> Result<Option<Vec<u8>>> {
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        match self.kind {
            AggregateKind::CountRows | AggregateKind::Count => {
                Ok(Some(count.to_be_bytes().to_vec()))
            }
            AggregateKind::Min | AggregateKind::Max => Ok(self.best.clone()),
            AggregateKind::Sum | AggregateKind::Avg => {
                let divisor =
                    BigInt::from(if self.kind == AggregateKind::Avg { count.max(1) } else { 1 });
                Ok(Some(self.quotient(&divisor).encode(&self.of)?))
            }
        }
    }

    fn quotient(&self, divisor: &BigInt) -> Number {
        match self.of {
            Type::Float | Type::Double => {
                // With infinite values the compensation is NaN.
                let (sum, lost) = self.double;
                let sum = match (sum - lost).is_nan() && self.plain.is_infinite() {
                    true => self.plain,
                    false => sum - lost,
                };
                Number::Double(if self.kind == AggregateKind::Avg {
                    sum / self.count.max(1) as f64
                } else {
                    sum
                })
            }
            Type::Decimal => Number::Decimal(self.scale, self.whole.clone()),
            _ => Number::Whole(&self.whole / divisor),
        }
    }
}

/// Returns `n / divisor` for a positive divisor, rounded half to even.
fn half_even(n: &BigInt, divisor: &BigInt) -> BigInt {
    let (quotient, rest) = (n / divisor, n % divisor);
    let twice = (&rest * 2u8).magnitude().cmp(divisor.magnitude());
    let away = twice.is_gt() || twice.is_eq() && quotient.bit(0);
    match (away, rest.sign()) {
        (true, num_bigint::Sign::Minus) => quotient - 1,
        (true, num_bigint::Sign::Plus) => quotient + 1,
        _ => quotient,
    }
}
