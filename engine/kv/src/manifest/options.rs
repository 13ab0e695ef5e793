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

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::options::{Compression, FilterAllocation, FilterKind, TreeOptions};
use crate::compaction::policy::{Description, Param, ParameterKind, ParameterValue, Policy};
use crate::manifest::fields::{Field, FieldWriter, fields, need};
use crate::util::coding::{ByteReader, put_varint};

/// Default percentage of blob garbage, which is not encoded.
const USUAL_GARBAGE: u8 = 30;

/// Options of a tree without the hooks themselves; see [`TreeOptions`] for the meaning of each.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields have the names of TreeOptions
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
    pub merge: Option<String>,
    /// Name of the compaction filter.
    pub purge: Option<String>,
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
            merge: o.merge.as_ref().map(|h| h.name().to_owned()),
            purge: o.purge.as_ref().map(|h| h.name().to_owned()),
            summary: o.summary.as_ref().map(|h| h.name().to_owned()),
            filter_prefix: o.filter_prefix.as_ref().map(|h| h.name().to_owned()),
        }
    }

    /// Returns these options with the hook names of `other`.
    pub fn with_names_of(self, other: &PersistedOptions) -> PersistedOptions {
        let PersistedOptions { merge, purge, summary, filter_prefix, .. } = other.clone();
        PersistedOptions { merge, purge, summary, filter_prefix, ..self }
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
            ("merge", &self.merge, &now.merge),
            ("purge", &self.purge, &now.purge),
            ("summary", &self.summary, &now.summary),
            ("filter prefix", &self.filter_prefix, &now.filter_prefix),
        ];
        let quoted =
            |name: &Option<String>| name.as_ref().map_or("none".to_owned(), |n| format!("{n:?}"));
        match hooks.into_iter().find(|(_, kept, given)| kept != given) {
            None => Ok(()),
            Some((what, kept, given)) => Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "tree {tree:?} was written with {what} hook {}; the one given now is {}",
                    quoted(kept),
                    quoted(given)
                ),
            )),
        }
    }

    pub(super) fn encode(&self, w: &mut FieldWriter) {
        w.bytes(2, &self.compression.iter().map(|&c| c as u8).collect::<Vec<_>>());
        w.bytes(4, &self.filter.iter().map(|&f| f as u8).collect::<Vec<_>>());
        w.number(6, self.block_size);
        w.number(8, self.table_size);
        w.number(10, self.memtable_size);
        w.message(12, |w| encode_policy(&self.policy, w));
        w.number(14, self.tombstone_age_secs);
        if self.blob_threshold > 0 {
            w.number(24, self.blob_threshold);
        }
        if self.blob_gc_percent != USUAL_GARBAGE {
            w.number(26, self.blob_gc_percent.into());
        }
        if self.filter_allocation != FilterAllocation::ByLevel {
            w.number(28, self.filter_allocation as u64);
        }
        for (tag, name) in
            [(16, &self.merge), (18, &self.purge), (20, &self.summary), (22, &self.filter_prefix)]
        {
            if let Some(name) = name {
                w.bytes(tag, name.as_bytes());
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<PersistedOptions> {
        const OF: &str = "tree's options";
        let (mut compression, mut filter, mut policy) = (None, None, None);
        let (mut block_size, mut table_size, mut memtable_size, mut age) = (None, None, None, None);
        let (mut merge, mut purge, mut summary, mut filter_prefix) = (None, None, None, None);
        let (mut blob_threshold, mut blob_gc_percent) = (0, USUAL_GARBAGE);
        let mut filter_allocation = FilterAllocation::ByLevel;
        for f in fields(bytes, OF) {
            let f = f?;
            match f.tag {
                2 => compression = Some(each(&f, "compression", Compression::from_u8)?),
                4 => {
                    filter = Some(each(&f, "filter", |b| match b {
                        0 => Some(FilterKind::None),
                        1 => Some(FilterKind::Fuse8),
                        2 => Some(FilterKind::Fuse16),
                        _ => None,
                    })?)
                }
                6 => block_size = Some(f.number()?),
                8 => table_size = Some(f.number()?),
                10 => memtable_size = Some(f.number()?),
                12 => policy = Some(decode_policy(f.bytes)?),
                14 => age = Some(f.number()?),
                16 => merge = Some(f.text()?),
                18 => purge = Some(f.text()?),
                20 => summary = Some(f.text()?),
                22 => filter_prefix = Some(f.text()?),
                24 => blob_threshold = f.number()?,
                26 => blob_gc_percent = f.small()?,
                28 => {
                    filter_allocation = match f.number()? {
                        0 => FilterAllocation::ByLevel,
                        1 => FilterAllocation::Monkey,
                        n => return Err(newer(&format!("allocation of filters {n}"))),
                    }
                }
                _ => f.unknown()?,
            }
        }
        Ok(PersistedOptions {
            compression: need(compression, OF, "compression")?,
            filter: need(filter, OF, "filter")?,
            filter_allocation,
            block_size: need(block_size, OF, "block size")?,
            table_size: need(table_size, OF, "table size")?,
            memtable_size: need(memtable_size, OF, "memtable size")?,
            policy: need(policy, OF, "policy")?,
            tombstone_age_secs: need(age, OF, "tombstone age")?,
            blob_threshold,
            blob_gc_percent,
            merge,
            purge,
            summary,
            filter_prefix,
        })
    }
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

fn encode_policy(p: &Policy, w: &mut FieldWriter) {
    let Description { name, params, .. } = p.description();
    w.bytes(2, name.as_bytes());
    for (param, value) in params.iter().zip(p.values()) {
        if matches!((param.kind, &value), (ParameterKind::Choice(_), ParameterValue::Number(0))) {
            continue;
        }
        w.message(4, |w| {
            w.bytes(2, param.name.as_bytes());
            match value {
                ParameterValue::Number(n) => w.number(4, n),
                ParameterValue::Double(x) => w.bytes(4, &x.to_le_bytes()),
                ParameterValue::List(list) => {
                    let mut bytes = vec![];
                    list.iter().for_each(|&n| {
                        put_varint(&mut bytes, u64::from(((n << 1) ^ (n >> 31)) as u32))
                    });
                    w.bytes(4, &bytes);
                }
            }
        });
    }
}

fn decode_policy(bytes: &[u8]) -> Result<Policy> {
    let (mut name, mut given) = (None, vec![]);
    for f in fields(bytes, "policy") {
        let f = f?;
        match f.tag {
            2 => name = Some(f.text()?),
            4 => given.push(decode_parameter(f.bytes)?),
            _ => f.unknown()?,
        }
    }
    let name = need(name, "policy", "name")?;
    let policy =
        Policy::named(&name).ok_or_else(|| newer(&format!("compaction policy {name:?}")))?;
    let mut values = vec![];
    for param in policy.params {
        // Each parameter is taken once.
        let field =
            given.iter().position(|(name, _)| name == param.name).map(|i| given.swap_remove(i).1);
        let field = match (field, param.kind) {
            (None, ParameterKind::Choice(_)) => None,
            (field, _) => Some(need(field, "policy", param.name)?),
        };
        values
            .push(field.map_or(Ok(ParameterValue::Number(0)), |f| decode_value(&f, param, &name))?);
    }
    if let Some((parameter, _)) = given.first() {
        return Err(newer(&format!("parameter {parameter:?} of compaction policy {name:?}")));
    }
    Policy::of(&name, &values).ok_or_else(|| {
        Error::corruption(format!("a number of compaction policy {name:?} is too large"))
    })
}

fn decode_value(f: &Field<'_>, param: &Param, policy: &str) -> Result<ParameterValue> {
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
            let mut r = ByteReader::new(f.bytes);
            let mut list = vec![];
            while !r.is_empty() {
                let v = need(r.varint().and_then(|v| u32::try_from(v).ok()), "policy", param.name)?;
                list.push((v >> 1) as i32 ^ -((v & 1) as i32));
            }
            ParameterValue::List(list)
        }
    })
}

fn decode_parameter(bytes: &[u8]) -> Result<(String, Field<'_>)> {
    let (mut name, mut value) = (None, None);
    for f in fields(bytes, "policy's parameter") {
        let f = f?;
        match f.tag {
            2 => name = Some(f.text()?),
            4 => value = Some(f),
            _ => f.unknown()?,
        }
    }
    Ok((need(name, "policy's parameter", "name")?, need(value, "policy's parameter", "value")?))
}
