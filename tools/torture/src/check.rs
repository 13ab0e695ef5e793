//! Compares a store with its expected state.

use std::sync::Arc;

use firn_kv::{Db, Error, Range, Snapshot, Tree, Value};

use super::error::{Checked, wrong};
use super::expected::{ExpectedChange, ExpectedKeys, ExpectedStore, Shard, touched};
use super::layout::{
    ACCOUNTS, BANK, COUNTS, DEPOSIT, LayoutVersion, NAMES, PARTS, ROLES, ROWS, SUMS, TREES, TWINS,
    account, key, number, parse, value,
};
use super::tables::Tables;

/// Returns the name of a key in reports.
fn name(tree: usize, shard: u32, index: u32) -> String {
    format!("{} shard {shard} key {index}", NAMES[tree])
}

fn written(tree: usize, version: u64) -> String {
    if tree == SUMS {
        format!("the number {version}")
    } else {
        format!("what {} wrote", LayoutVersion(version))
    }
}

fn found(tree: usize, bytes: &[u8]) -> String {
    match (tree, LayoutVersion::of(bytes)) {
        (SUMS, Some(v)) => format!("the number {}", v.0),
        (_, Some(v)) => format!("the value that {v} wrote ({} bytes)", bytes.len()),
        (_, None) => format!("{} bytes that nobody wrote", bytes.len()),
    }
}

/// Compares the value of one key.
pub fn check_value(
    what: &str,
    tree: usize,
    shard: u32,
    index: u32,
    expected: Option<u64>,
    got: Option<&[u8]>,
) -> Checked {
    let right = expected.map(|v| value(tree, shard, index, v));
    if right.as_deref() == got {
        return Ok(());
    }
    let is = got.map_or_else(|| "nothing".to_owned(), |g| found(tree, g));
    let should = expected.map_or_else(|| "nothing".to_owned(), |v| written(tree, v));
    let damaged = expected
        .is_some_and(|v| got.is_some_and(|g| LayoutVersion::of(g) == Some(LayoutVersion(v))));
    let note = if damaged { "; the version is right, the bytes are not" } else { "" };
    wrong(format!("{what}: {} should be {should}, and is {is}{note}", name(tree, shard, index)))
}

/// Compares the entries of a scan with the expected ones, in the order of the scan.
pub fn check_walk(
    what: &str,
    tree: usize,
    walk: impl Iterator<Item = Result<(Value, Value), Error>>,
    mut expected: impl Iterator<Item = (u32, u32, u64)>,
) -> Checked<u64> {
    let mut n = 0;
    for item in walk {
        let (k, v) = item?;
        n += 1;
        let at = expected.next();
        if at.is_some_and(|(shard, index, _)| *k == *key(shard, index)) {
            if let Some((shard, index, version)) = at {
                check_value(what, tree, shard, index, Some(version), Some(&v))?;
            }
            continue;
        }
        let is = match parse(&k) {
            Some((shard, index)) => {
                format!("{} with {}", name(tree, shard, index), found(tree, &v))
            }
            None => format!("a key of {} bytes that nobody wrote", k.len()),
        };
        let should = at.map_or_else(
            || "the end".to_owned(),
            |(s, i, v)| format!("{} with {}", name(tree, s, i), written(tree, v)),
        );
        return wrong(format!("{what}: next should be {should}, and is {is}"));
    }
    match expected.next() {
        Some((s, i, v)) => wrong(format!(
            "{what}: {} with {} is missing at the end",
            name(tree, s, i),
            written(tree, v)
        )),
        None => Ok(n),
    }
}

/// Returns the keys of a shard in the form for [`check_walk`].
pub fn of_shard(
    shard: u32,
    keys: &ExpectedKeys,
) -> impl DoubleEndedIterator<Item = (u32, u32, u64)> {
    keys.iter().map(move |(index, version)| (shard, *index, *version))
}

/// Returns the range of all keys of a shard.
pub fn shard_range(shard: u32) -> std::ops::Range<Vec<u8>> {
    let edge = |s: u32| (s as u16).to_be_bytes().to_vec();
    edge(shard)..edge(shard + 1)
}

/// Returns the trees of a store whose content is known.
pub fn trees(db: &Db) -> Checked<Vec<Tree>> {
    Ok(NAMES[..TREES].iter().map(|n| db.existing_tree(n)).collect::<Result<_, _>>()?)
}

/// Part of a store whose expected content is known exactly.
pub struct KnownState {
    /// Trees.
    pub trees: Vec<Tree>,
    /// Tables; `None` if the store was opened without them.
    pub tables: Option<Arc<Tables>>,
}

impl KnownState {
    /// Compares everything with the expected state. Returns the number of keys.
    pub fn check_all(&self, what: &str, expected: &ExpectedStore) -> Checked<u64> {
        let mut n = 0;
        for (t, tree) in self.trees.iter().enumerate() {
            let all = (0..)
                .zip(&expected.shards)
                .flat_map(|(shard, s): (u32, &Shard)| of_shard(shard, &s[t]));
            n += check_walk(what, t, tree.iter(), all)?;
        }
        for (shard, s) in (0..).zip(&expected.shards) {
            if let Some(tables) = &self.tables {
                tables.check_shard(what, shard, &s[ROWS], &s[COUNTS])?;
                tables.check_index(shard, &s[ROWS], shard as i32 % 32)?;
                n += (s[ROWS].len() + s[COUNTS].len()) as u64;
            }
        }
        if let Some(tables) = &self.tables {
            let all =
                (0..).zip(&expected.shards).map(|(shard, s): (u32, &Shard)| (shard, &s[ROLES]));
            n += tables.check_roles(what, all, true)?;
            tables.check_guest(what)?;
        }
        Ok(n)
    }

    /// Compares a shard with the expected state.
    pub fn check_shard(&self, what: &str, shard: u32, expected: &Shard) -> Checked {
        for (t, tree) in self.trees.iter().enumerate() {
            check_walk(what, t, tree.range(shard_range(shard)), of_shard(shard, &expected[t]))?;
        }
        match &self.tables {
            Some(tables) => {
                tables.check_shard(what, shard, &expected[ROWS], &expected[COUNTS])?;
                tables.check_roles(what, [(shard, &expected[ROLES])], false).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Reports whether a key has this version.
    fn is(&self, t: usize, shard: u32, index: u32, version: Option<u64>) -> Checked<bool> {
        let found = match (t, &self.tables) {
            (ROWS, Some(tables)) => tables.version("after opening", shard, index)?,
            (COUNTS, Some(tables)) => tables.sum(shard, index)?,
            (ROLES, Some(tables)) => tables.role(shard, index)?,
            _ => {
                let right = version.map(|v| value(t, shard, index, v));
                return Ok(right.as_deref() == self.trees[t].get(&key(shard, index))?.as_deref());
            }
        };
        Ok(found == version)
    }
}

/// Determines the outcome of a step that was begun and not done: the store has all of it or none of
/// it. Applies the step to the expected state if the store has it.
pub fn resolve_open_step(
    known: &KnownState,
    expected: &mut ExpectedStore,
    changes: &[ExpectedChange],
    step: LayoutVersion,
) -> Checked<bool> {
    let mut after = touched(changes, |shard| expected.shards.get(shard as usize));
    for c in changes {
        if let Some(shard) = after.get_mut(&c.shard) {
            c.apply(shard);
        }
    }
    let (mut with, mut without) = (None, None);
    for (shard, new) in &after {
        let old = &expected.shards[*shard as usize];
        for t in 0..PARTS {
            let indexes =
                old[t].keys().chain(new[t].keys()).collect::<std::collections::BTreeSet<_>>();
            for &&index in indexes.iter().filter(|i| old[t].get(i) != new[t].get(i)) {
                if known.is(t, *shard, index, new[t].get(&index).copied())? {
                    with = Some(name(t, *shard, index));
                } else if known.is(t, *shard, index, old[t].get(&index).copied())? {
                    without = Some(name(t, *shard, index));
                } else {
                    let key = name(t, *shard, index);
                    return wrong(format!(
                        "after opening, {step} was not done, and {key} has neither the state before it nor after it"
                    ));
                }
            }
        }
    }
    if let (Some(a), Some(b)) = (&with, &without) {
        return wrong(format!(
            "after opening, half of {step} is there: {a} is changed, and {b} is not"
        ));
    }
    if with.is_some() {
        for (shard, new) in after {
            expected.shards[shard as usize] = new;
        }
    }
    Ok(with.is_some())
}

/// Compares the twin trees in a snapshot from some key on: batches write both alike.
pub fn check_twins(
    what: &str,
    snapshot: &Snapshot,
    trees: &[Tree],
    from: &[u8],
    most: usize,
) -> Checked {
    let walk = |t: usize| -> Range { snapshot.range(&trees[TWINS[t]], from..) };
    let (mut a, mut b) = (walk(0), walk(1));
    for _ in 0..most {
        match (a.next().transpose()?, b.next().transpose()?) {
            (None, None) => break,
            (Some((ka, va)), Some((kb, vb))) if *ka == *kb && *va == *vb => {}
            (x, y) => {
                let say = |x: Option<(Value, Value)>| {
                    x.map_or_else(
                        || "the end".to_owned(),
                        |(k, v)| {
                            let (shard, index) = parse(&k).unwrap_or((u32::MAX, 0));
                            format!("shard {shard} key {index} with {}", found(TWINS[0], &v))
                        },
                    )
                };
                return wrong(format!(
                    "{what}: half a batch: one twin has {}, the other {}",
                    say(x),
                    say(y)
                ));
            }
        }
    }
    Ok(())
}

/// Checks that transfers have not changed the total amount of money.
pub fn check_bank(what: &str, snapshot: &Snapshot, bank: &Tree) -> Checked {
    let mut sum = 0i64;
    for n in 0..ACCOUNTS {
        let Some(v) = snapshot.get(bank, &account(n))? else {
            return wrong(format!("{what}: account {n} is gone"));
        };
        sum += number(&v)? as i64;
    }
    if sum != ACCOUNTS as i64 * DEPOSIT {
        return wrong(format!(
            "{what}: the accounts hold {sum}, and should hold {}",
            ACCOUNTS as i64 * DEPOSIT
        ));
    }
    Ok(())
}

/// Checks the data that all threads write to: accounts, and the temporary trees.
pub fn check_shared(what: &str, db: &Db, trees: &[Tree]) -> Checked {
    let snapshot = db.snapshot();
    check_bank(what, &snapshot, &db.existing_tree(BANK)?)?;
    check_twins(what, &snapshot, trees, b"", usize::MAX)?;
    for name in super::layout::SCRATCH {
        let Ok(tree) = db.existing_tree(name) else { continue };
        for item in snapshot.range(&tree, ..) {
            let (k, v) = match item {
                Err(e) if e.kind() == firn_kv::ErrorKind::Closed => break,
                item => item?,
            };
            check_scratch(what, &k, &v)?;
        }
    }
    Ok(())
}

/// Checks that a value of a temporary tree was written for this key.
pub fn check_scratch(what: &str, k: &[u8], v: &[u8]) -> Checked {
    let (shard, index) = match parse(k) {
        Some(of)
            if LayoutVersion::of(v).is_some_and(|version| value(0, of.0, of.1, version.0) == v) =>
        {
            return Ok(());
        }
        Some(of) => of,
        None => {
            return wrong(format!(
                "{what}: a temporary tree has a key of {} bytes that nobody wrote",
                k.len()
            ));
        }
    };
    wrong(format!("{what}: a temporary tree has, for shard {shard} key {index}, {}", found(0, v)))
}
