//! Registry of compaction policies, and their common data: names, texts, bounds.
//!
//! Each policy is one file here: its type with name and parameters ([`describe`](super::describe)),
//! and its decisions (`strategy.rs`). Its module docs classify it by the VLDB'21 design space of
//! compactions:
//!
//! - *trigger*: the conditions under which it wants a job,
//! - *layout*: the number of runs of a level,
//! - *granularity*: the amount of data of one job,
//! - *movement*: the data that a job takes,
//! - *space*: the bound that it declares, relative to live data, with the reason.
//!
//! Policies are registered below. Other places list them too: the table in `format-spec`, which a
//! test compares, and `RARE` here, for those that need the feature `policies`.
//!
//! The text of a policy is its name followed by any of its parameters, such as
//! `tiered:4:bucket=1.5` or `tiered:min_runs=4:max_runs=32:bucket=1.5`.

#[cfg(feature = "policies")]
mod dynamic_leveled;
#[cfg(feature = "policies")]
mod fade;
mod fifo;
#[cfg(feature = "policies")]
mod fluid;
#[cfg(feature = "policies")]
mod incremental;
#[cfg(feature = "policies")]
mod lazy_leveled;
mod leveled;
#[cfg(feature = "policies")]
mod spooky;
mod tiered;
#[cfg(feature = "policies")]
mod tiered_leveled;
mod time_window;
#[cfg(feature = "policies")]
mod unified;
#[cfg(feature = "policies")]
mod universal;

use std::fmt;
use std::str::FromStr;

pub use super::custom::{CompactionPolicy, CompactionRequest, CustomPolicy};
use super::describe::DescribedPolicy;
pub use super::describe::{
    Description, Param, ParameterKind, ParameterValue, PolicyError, size, size_text,
};
pub use super::shape::{LsmShape, RunShape, ShapePlace};
use super::strategy::Strategy;
pub use super::tables::{RunTables, TableShape};
pub use leveled::Movement;

macro_rules! registry {
    ($($(#[$meta:meta])* $file:ident::$type:ident),+ $(,)?) => {
        $($(#[$meta])* pub use $file::$type;)+

        /// The compaction policy of a tree, with its parameters. It can be changed when a tree is
        /// opened again.
        ///
        /// ```
        /// use firn_kv::Policy;
        /// use firn_kv::policy::Leveled;
        /// let policy = Policy::from(Leveled { ratio: 8, ..Leveled::default() });
        /// assert_eq!("leveled:8".parse(), Ok(policy.clone()));
        /// assert_eq!(policy.to_string(), "leveled:ratio=8:level0_runs=4:base=256m:movement=least-overlap");
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Policy {
            $($(#[$meta])* #[doc = concat!("See [`", stringify!($type), "`].")] $type($type),)+
        }

        impl Policy {
            /// Descriptions of all policies.
            #[doc(hidden)]
            pub const ALL: &'static [Description] = &[$($(#[$meta])* <$type as DescribedPolicy>::DESCRIPTION),+];

            /// Returns the policy of this name with these values, in the order of its parameters.
            /// Returns `None` if no policy has the name or a value has the wrong type. Bounds are
            /// not checked.
            #[doc(hidden)]
            pub fn of(name: &str, values: &[ParameterValue]) -> Option<Policy> {
                $($(#[$meta])* if name == <$type as DescribedPolicy>::DESCRIPTION.name {
                    return <$type as DescribedPolicy>::of(values).map(Policy::$type);
                })+
                None
            }

            /// Returns its name and parameters.
            #[doc(hidden)]
            pub fn description(&self) -> Description {
                match self {
                    $($(#[$meta])* Policy::$type(_) => <$type as DescribedPolicy>::DESCRIPTION),+
                }
            }

            /// Returns the values of its parameters, in their order.
            #[doc(hidden)]
            pub fn values(&self) -> Vec<ParameterValue> {
                match self {
                    $($(#[$meta])* Policy::$type(policy) => policy.values()),+
                }
            }

            pub(super) fn strategy(&self) -> &dyn Strategy {
                match self {
                    $($(#[$meta])* Policy::$type(policy) => policy),+
                }
            }
        }

        $($(#[$meta])* impl From<$type> for Policy {
            fn from(policy: $type) -> Policy {
                Policy::$type(policy)
            }
        })+
    };
}

registry! {
    tiered::Tiered,
    leveled::Leveled,
    #[cfg(feature = "policies")]
    lazy_leveled::LazyLeveled,
    #[cfg(feature = "policies")]
    unified::Unified,
    time_window::TimeWindow,
    fifo::Fifo,
    #[cfg(feature = "policies")]
    tiered_leveled::TieredLeveled,
    #[cfg(feature = "policies")]
    fluid::Fluid,
    #[cfg(feature = "policies")]
    universal::Universal,
    #[cfg(feature = "policies")]
    dynamic_leveled::DynamicLeveled,
    #[cfg(feature = "policies")]
    spooky::Spooky,
    #[cfg(feature = "policies")]
    fade::Fade,
    #[cfg(feature = "policies")]
    incremental::Incremental,
}

/// Policies that need the feature `policies`.
const RARE: [&str; 9] = [
    "dynamic-leveled",
    "fade",
    "fluid",
    "ics",
    "lazy-leveled",
    "spooky",
    "tiered-leveled",
    "unified",
    "universal",
];

/// Reports whether this build lacks the policy of this name, but others have it.
pub(crate) fn is_left_out(name: &str) -> bool {
    RARE.contains(&name) && Policy::named(name).is_none()
}

impl Default for Policy {
    fn default() -> Self {
        Tiered::default().into()
    }
}

impl Policy {
    /// Returns the description of the policy of this name.
    #[doc(hidden)]
    pub fn named(name: &str) -> Option<&'static Description> {
        Policy::ALL.iter().find(|d| d.name == name)
    }

    /// Checks that every parameter is within its bounds.
    ///
    /// # Errors
    /// The first parameter that is out of bounds, with its bounds.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.description().check(&self.values())?;
        self.strategy().check()
    }

    /// Returns the policy with each out-of-bounds parameter set to the nearest bound, or to its
    /// default if there is no nearest bound.
    #[must_use]
    pub fn clamped(&self) -> Policy {
        let Description { name, params, .. } = self.description();
        let values = params
            .iter()
            .zip(self.values())
            .map(|(p, v)| p.kind.clamped(v).unwrap_or_else(p.default));
        Policy::of(name, &values.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Reports whether the policy ever merges. If not, it only drops tables.
    #[doc(hidden)]
    pub fn merges(&self) -> bool {
        self.strategy().merges()
    }

    /// Reports whether the passage of time alone can make a job due.
    #[doc(hidden)]
    pub fn ages(&self) -> bool {
        self.strategy().ages()
    }

    /// Reports whether tables wait to be dropped as a whole when they expire.
    #[doc(hidden)]
    pub fn expires(&self) -> bool {
        self.strategy().expires()
    }

    /// Reports whether the policy drops data that was not deleted.
    #[doc(hidden)]
    pub fn drops_live_data(&self) -> bool {
        self.strategy().drops_live_data()
    }

    /// Returns all policies with their parameters, defaults, bounds and meanings, for help texts.
    pub fn help() -> String {
        Policy::ALL.iter().map(Description::help).collect()
    }

    /// Returns a random policy with random, mostly small parameters within bounds, for tests.
    /// `below(n)` returns a random number below `n`.
    #[doc(hidden)]
    pub fn draw(below: &mut dyn FnMut(u64) -> u64) -> Policy {
        let chosen = &Policy::ALL[below(Policy::ALL.len() as u64) as usize];
        let mut one = || {
            let values: Vec<ParameterValue> =
                chosen.params.iter().map(|p| p.kind.draw(below)).collect();
            Policy::of(chosen.name, &values).filter(|p| p.check().is_ok())
        };
        // Drawn parameters may contradict each other. A constant number source may never draw valid
        // ones, so the number of tries is bounded.
        (0..64).find_map(|_| one()).unwrap_or_default()
    }
}

impl fmt::Display for Policy {
    /// Writes the name and all parameters, in the format that `FromStr` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description().text(&self.values()))
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    /// Parses a policy: its name, values of its first parameters, then other parameters by name:
    /// `NAME:VALUE…:PARAMETER=VALUE…`. Parameters that are not specified have their defaults.
    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let Some(chosen) = Policy::named(name) else {
            if is_left_out(name) {
                return Err(PolicyError(format!(
                    "this build lacks the policy {name}: enable the feature `policies` of firn-kv"
                )));
            }
            let names: Vec<&str> = Policy::ALL.iter().map(|d| d.name).collect();
            return Err(PolicyError(format!(
                "no policy is called {name:?}; there are {}",
                names.join(", ")
            )));
        };
        let values = chosen.read(parts)?;
        chosen.check(&values)?;
        let policy = Policy::of(name, &values);
        let policy = policy
            .ok_or_else(|| PolicyError(format!("the policy {name}: a number is too large")))?;
        policy.check()?;
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_policy_is_read_back() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..2_000 {
            let policy = Policy::draw(&mut below);
            let text = policy.to_string();
            assert_eq!(text.parse(), Ok(policy.clone()));
            let placed: Vec<&str> =
                text.split(':').map(|part| part.split_once('=').map_or(part, |(_, v)| v)).collect();
            assert_eq!(placed.join(":").parse(), Ok(policy.clone()));
            assert_eq!(Policy::of(policy.description().name, &policy.values()), Some(policy));
        }
        for description in Policy::ALL {
            let policy: Policy = description.name.parse().unwrap();
            assert_eq!(policy.values(), description.defaults());
            assert!(Policy::ALL.iter().filter(|d| d.name == description.name).count() == 1);
        }
    }

    #[cfg(feature = "policies")]
    #[test]
    fn a_build_without_the_feature_names_it_for_each_policy_that_it_lacks() {
        let always = ["tiered", "leveled", "time-window", "fifo"];
        let mut rare: Vec<&str> =
            Policy::ALL.iter().map(|d| d.name).filter(|n| !always.contains(n)).collect();
        rare.sort_unstable();
        assert_eq!(RARE.to_vec(), rare);
        assert!(RARE.iter().all(|name| !is_left_out(name)));
    }

    #[test]
    fn what_is_out_of_bounds_goes_to_the_nearest() {
        let policy = Policy::from(Tiered {
            min_runs: 1,
            max_runs: 65,
            bucket: f64::NAN,
            ..Tiered::default()
        });
        assert_eq!(
            policy.clamped(),
            Tiered { min_runs: 2, max_runs: 64, bucket: 3.0, ..Tiered::default() }.into()
        );
        let policy = Policy::from(Unified {
            scaling: vec![63; 33],
            target_table: 0,
            base_shards: 2000,
            ..Unified::default()
        });
        assert_eq!(
            policy.clamped(),
            Unified {
                scaling: vec![62; 32],
                target_table: 64 << 10,
                base_shards: 1024,
                ..Unified::default()
            }
            .into()
        );
        assert_eq!(
            Policy::from(Unified { scaling: vec![], ..Unified::default() }).clamped(),
            Unified::default().into()
        );
        assert_eq!(Policy::default().clamped(), Policy::default());
    }

    #[test]
    fn errors_name_the_policy_the_parameter_and_its_bounds() {
        for (text, said) in [
            ("tired", "no policy is called \"tired\"; there are tiered, leveled, "),
            ("", "no policy is called \"\"; there are "),
            ("lazy-leveled:ratio=1", "the policy lazy-leveled: ratio is 1; it must be 2 to 64"),
            (
                "lazy-leveled:ratio=",
                "the policy lazy-leveled: ratio is nothing; it must be 2 to 64",
            ),
            (
                "lazy-leveled:ratio=4294967298",
                "the policy lazy-leveled: ratio is 4294967298; it must be 2 to 64",
            ),
            ("lazy-leveled:4:5", "the policy lazy-leveled: \"5\" is of no parameter; it has ratio"),
            (
                "tiered:runs=4",
                "the policy tiered: \"runs=4\" is of no parameter; it has min_runs, max_runs, bucket",
            ),
            (
                "tiered:min_runs=4:8",
                "the policy tiered: \"8\" stands behind a parameter with a name, and has none",
            ),
            ("lazy-leveled:ratio=4:ratio=4", "the policy lazy-leveled: ratio is given twice"),
            ("tiered:bucket=NaN", "the policy tiered: bucket is NaN; it must be 1.1 to 10"),
            (
                "tiered:min_runs=9:max_runs=8",
                "the policy tiered: max_runs is 8; it must be at least min_runs, 9",
            ),
            ("leveled:base=1", "the policy leveled: base is 1; it must be 64k to 1p"),
            (
                "leveled:movement=up",
                "the policy leveled: movement is up; it must be one of least-overlap, ",
            ),
            (
                "unified:scaling=2/x",
                "scaling is 2/x; it must be 1 to 32 numbers of -62 to 62, with / between them",
            ),
        ] {
            let refused = text.parse::<Policy>().unwrap_err().to_string();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }

    #[test]
    fn sizes_parse_or_say_why_not() {
        let sizes = ["64m", "1GiB", "512", "4kb", "1.5KiB", "1P", "64M"].map(|t| size(t).unwrap());
        assert_eq!(sizes, [64 << 20, 1 << 30, 512, 4096, 1536, 1 << 50, 64 << 20]);
        for bad in ["m", "1x", "99999999t", "", "-1", "1.2.3"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        for bytes in [
            0,
            1,
            1023,
            1024,
            4032,
            64 << 20,
            3 << 40,
            5 << 50,
            u64::from(u32::MAX),
            u64::MAX,
            (1 << 62) + 1,
        ] {
            assert_eq!(size(&size_text(bytes)), Ok(bytes), "{}", size_text(bytes));
        }
    }
}
