//! Persists the part of [`TreeOptions`] that belongs to a tree's files: all values, and the names
//! of the hooks.
//!
//! A tree's options are a message (see `fields`): 2 compression (one byte per level), 4 filter (one
//! byte per level), 6 block size, 8 table size, 10 memtable size, 12 policy, 14 maximum age of a
//! tombstone in seconds, 24 blob threshold in bytes (if any), 26 blob garbage in percent at which a
//! blob file is rewritten (if not 30), 28 filter allocation (if not by level). If the tree has
//! hooks, their names follow: 16 merge operator, 18 compaction filter, 20 summary, 22 filter
//! prefix.
//!
//! A policy is a message of 2 its name and one field 4 per parameter, in the order in which the
//! policy declares them ([`Description`]). A parameter is a message of 2 its name and 4 its value.
//! An integer is a varint; a fraction is an IEEE double of 8 bytes, little-endian; a list is zigzag
//! varints; a choice is its number, which is omitted if it is 0.
//!
//! Invariants: decoding returns an equal value to the encoded one. An unknown policy, parameter,
//! compression, filter or allocation is `Incompatible`; decoding never guesses.

use super::fields::{Field, FieldDef, Message, field, field_value, lacks};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::{Compression, FilterAllocation, FilterKind, TreeOptions};
use crate::compaction::policy::{
    Description, Param, ParameterKind, ParameterValue, Policy, is_left_out,
};
use crate::util::coding::{ByteReader, put_varint};

/// Percentage of blob garbage that is not encoded.
const DEFAULT_BLOB_GC_PERCENT: u8 = 30;

/// Options of a tree without the hooks themselves; see [`TreeOptions`] for the meaning of each.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // the fields have the meaning of those of TreeOptions
pub struct PersistedOptions {
    pub compression: Vec<Compression>,
    pub filter: Vec<FilterKind>,
    pub filter_allocation: FilterAllocation,
    pub block_size: u64,
    pub table_size: u64,
    pub memtable_size: u64,
    pub blob_threshold: u64,
    pub blob_gc_percent: u8,
    pub policy: Policy,
    pub tombstone_age_secs: u64,
    /// Name of the merge operator.
    pub merge_operator: Option<String>,
    /// Name of the compaction filter.
    pub compaction_filter: Option<String>,
    /// Name of the summary hook.
    pub summary: Option<String>,
    /// Name of the filter prefix hook.
    pub filter_prefix: Option<String>,
}

impl PersistedOptions {
    /// Returns the persisted part of `o`.
    pub fn of(o: &TreeOptions) -> PersistedOptions {
        PersistedOptions {
            compression: o.compression.clone(),
            filter: o.filter.clone(),
            filter_allocation: o.filter_allocation,
            block_size: o.block_size as u64,
            table_size: o.table_size,
            memtable_size: o.memtable_size as u64,
            blob_threshold: o.blob_threshold as u64,
            blob_gc_percent: o.blob_gc_percent,
            policy: o.policy.clone(),
            tombstone_age_secs: o.tombstone_age_secs,
            merge_operator: o.merge_operator.as_ref().map(|h| h.name().to_owned()),
            compaction_filter: o.compaction_filter.as_ref().map(|h| h.name().to_owned()),
            summary: o.summary.as_ref().map(|h| h.name().to_owned()),
            filter_prefix: o.filter_prefix.as_ref().map(|h| h.name().to_owned()),
        }
    }

    /// Returns these options with the hook names of `other`.
    pub fn with_names_of(self, other: &PersistedOptions) -> PersistedOptions {
        let PersistedOptions { merge_operator, compaction_filter, summary, filter_prefix, .. } =
            other.clone();
        PersistedOptions { merge_operator, compaction_filter, summary, filter_prefix, ..self }
    }

    /// Returns these options with the hooks of `given`.
    pub fn with_hooks_of(&self, given: &TreeOptions) -> TreeOptions {
        TreeOptions {
            compression: self.compression.clone(),
            filter: self.filter.clone(),
            filter_allocation: self.filter_allocation,
            block_size: usize::try_from(self.block_size).unwrap_or(usize::MAX),
            table_size: self.table_size,
            memtable_size: usize::try_from(self.memtable_size).unwrap_or(usize::MAX),
            blob_threshold: usize::try_from(self.blob_threshold).unwrap_or(usize::MAX),
            blob_gc_percent: self.blob_gc_percent,
            policy: self.policy.clone(),
            tombstone_age_secs: self.tombstone_age_secs,
            ..given.clone()
        }
    }

    /// Checks that `given` names the same hooks as those with which the tree was written.
    ///
    /// # Errors
    /// `Incompatible`, naming the hook and both names.
    pub fn check_hooks(&self, tree: &str, given: &TreeOptions) -> Result<()> {
        let now = PersistedOptions::of(given);
        let hooks = [
            ("merge operator", &self.merge_operator, &now.merge_operator),
            ("compaction filter", &self.compaction_filter, &now.compaction_filter),
            ("summary hook", &self.summary, &now.summary),
            ("filter prefix hook", &self.filter_prefix, &now.filter_prefix),
        ];
        let quoted =
            |name: &Option<String>| name.as_ref().map_or("none".to_owned(), |n| format!("{n:?}"));
        match hooks.into_iter().find(|(_, kept, given)| kept != given) {
            None => Ok(()),
            Some((what, kept, given)) => Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "tree {tree:?} was written with {what} {}; the one given now is {}",
                    quoted(kept),
                    quoted(given)
                ),
            )),
        }
    }
}

impl Message for PersistedOptions {
    const NAME: &'static str = "tree's options";
    const FIELDS: &'static [FieldDef<Self>] = &[
        field!(2, compression, "compression"),
        field!(4, filter, "filter"),
        field!(6, block_size, "block size"),
        field!(8, table_size, "table size"),
        field!(10, memtable_size, "memtable size"),
        field!(12, policy, "policy"),
        field!(14, tombstone_age_secs, "tombstone age"),
        field!(24, blob_threshold, if |o| o.blob_threshold > 0),
        field!(26, blob_gc_percent, if |o| o.blob_gc_percent != DEFAULT_BLOB_GC_PERCENT),
        field!(28, filter_allocation, if |o| o.filter_allocation != FilterAllocation::ByLevel),
        field!(16, merge_operator),
        field!(18, compaction_filter),
        field!(20, summary),
        field!(22, filter_prefix),
    ];

    fn empty() -> PersistedOptions {
        PersistedOptions { blob_gc_percent: DEFAULT_BLOB_GC_PERCENT, ..PersistedOptions::default() }
    }
}

field_value! {
    Vec<Compression>:
        |v, tag, w| w.bytes(tag, &v.iter().map(|&c| c as u8).collect::<Vec<_>>()),
        |f| each(f, "compression", Compression::from_u8)?;
    Vec<FilterKind>:
        |v, tag, w| w.bytes(tag, &v.iter().map(|&f| f as u8).collect::<Vec<_>>()),
        |f| each(f, "filter", |b| match b {
            0 => Some(FilterKind::None),
            1 => Some(FilterKind::Fuse8),
            2 => Some(FilterKind::Fuse16),
            _ => None,
        })?;
    FilterAllocation:
        |v, tag, w| w.number(tag, *v as u64),
        |f| match f.number()? {
            0 => FilterAllocation::ByLevel,
            1 => FilterAllocation::Monkey,
            n => return Err(newer(&format!("allocation of filters {n}"))),
        };
    Policy:
        |v, tag, w| StoredPolicy::of(v).write(tag, w),
        |f| StoredPolicy::decode(f.bytes)?.policy()?;
}

fn each<T>(f: &Field<'_>, what: &str, known: impl Fn(u8) -> Option<T>) -> Result<Vec<T>> {
    f.bytes.iter().map(|&b| known(b).ok_or_else(|| newer(&format!("{what} {b}")))).collect()
}

fn newer(what: &str) -> Error {
    Error::new(
        ErrorKind::Incompatible,
        format!("unknown {what}: the store was written by a newer version, use a newer build"),
    )
}

/// Policy as it is stored.
#[derive(Default)]
struct StoredPolicy {
    name: String,
    parameters: Vec<StoredParameter>,
}

#[derive(Default)]
struct StoredParameter {
    name: String,
    value: Vec<u8>,
}

impl Message for StoredPolicy {
    const NAME: &'static str = "policy";
    const FIELDS: &'static [FieldDef<Self>] = &[field!(2, name, "name"), field!(4, parameters)];
}

impl Message for StoredParameter {
    const NAME: &'static str = "policy's parameter";
    const FIELDS: &'static [FieldDef<Self>] = &[field!(2, name, "name"), field!(4, value, "value")];
}

impl StoredPolicy {
    fn of(p: &Policy) -> StoredPolicy {
        let Description { name, params, .. } = p.description();
        let stored = |(param, value): (&Param, ParameterValue)| {
            let mut bytes = vec![];
            match value {
                ParameterValue::Number(0) if matches!(param.kind, ParameterKind::Choice(_)) => {
                    return None;
                }
                ParameterValue::Number(n) => put_varint(&mut bytes, n),
                ParameterValue::Double(x) => bytes.extend(x.to_le_bytes()),
                ParameterValue::List(list) => list.iter().for_each(|&n| {
                    put_varint(&mut bytes, u64::from(((n << 1) ^ (n >> 31)) as u32));
                }),
            }
            Some(StoredParameter { name: param.name.to_owned(), value: bytes })
        };
        let parameters = params.iter().zip(p.values()).filter_map(stored).collect();
        StoredPolicy { name: (*name).to_owned(), parameters }
    }

    fn policy(self) -> Result<Policy> {
        let StoredPolicy { name, mut parameters } = self;
        if is_left_out(&name) {
            let words = format!(
                "this build lacks the compaction policy {name}: enable the feature `policies` of firn-kv"
            );
            return Err(Error::new(ErrorKind::Incompatible, words));
        }
        let policy =
            Policy::named(&name).ok_or_else(|| newer(&format!("compaction policy {name:?}")))?;
        let mut values = vec![];
        for param in policy.params {
            // Each parameter is taken once.
            let stored = parameters.iter().position(|p| p.name == param.name);
            values.push(match (stored, param.kind) {
                (Some(i), _) => decode_value(&parameters.swap_remove(i).value, param, &name)?,
                (None, ParameterKind::Choice(_)) => ParameterValue::Number(0),
                (None, _) => return Err(lacks("policy", param.name)),
            });
        }
        if let Some(p) = parameters.first() {
            return Err(newer(&format!("parameter {:?} of compaction policy {name:?}", p.name)));
        }
        Policy::of(&name, &values).ok_or_else(|| {
            Error::corruption(format!("a number of compaction policy {name:?} is too large"))
        })
    }
}

fn decode_value(bytes: &[u8], param: &Param, policy: &str) -> Result<ParameterValue> {
    let f = Field { tag: 4, bytes, of: StoredParameter::NAME };
    Ok(match param.kind {
        ParameterKind::Number { .. }
        | ParameterKind::Bytes { .. }
        | ParameterKind::Seconds { .. } => ParameterValue::Number(f.number()?),
        ParameterKind::Factor { .. } => ParameterValue::Double(f64::from_le_bytes(f.fixed()?)),
        ParameterKind::Choice(names) => match f.number()? {
            n if n < names.len() as u64 => ParameterValue::Number(n),
            n => return Err(newer(&format!("{} {n} of compaction policy {policy:?}", param.name))),
        },
        ParameterKind::List { .. } => {
            let mut r = ByteReader::new(bytes);
            let mut list = vec![];
            while !r.is_empty() {
                let v = r.varint().and_then(|v| u32::try_from(v).ok());
                let v = v.ok_or_else(|| lacks("policy", param.name))?;
                list.push((v >> 1) as i32 ^ -((v & 1) as i32));
            }
            ParameterValue::List(list)
        }
    })
}
