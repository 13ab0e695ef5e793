//! Combines several relations on the same columns into one, if that is allowed (model 3.5).

use super::relation::{RelationKind, Restriction, TokenRestriction};
use crate::catalog::TableSchema;
use crate::error::{Result, bail, bail_if};

/// Adds a restriction to a list, which is sorted by first columns.
pub(super) fn add(table: &TableSchema, all: &mut Vec<Restriction>, new: Restriction) -> Result<()> {
    let overlap = all.iter().position(|r| r.columns.iter().any(|c| new.columns.contains(c)));
    match overlap {
        Some(at) => {
            let old = all.remove(at);
            let merged = merge(table, old, new)?;
            // It may overlap another one now.
            add(table, all, merged)
        }
        None => {
            let at = all.partition_point(|r| r.first() < new.first());
            all.insert(at, new);
            Ok(())
        }
    }
}

fn merge(table: &TableSchema, old: Restriction, new: Restriction) -> Result<Restriction> {
    let common: Vec<_> = new
        .columns
        .iter()
        .filter(|c| old.columns.contains(c))
        .map(|c| &*table.columns()[*c].name)
        .collect();
    let name = common.join(", ");
    let Restriction { columns, is_multi, what } = old;
    let alone = match what {
        RelationKind::Eq(_) => Some("an Equal"),
        RelationKind::Like(_) => Some("a LIKE"),
        RelationKind::In(_) => Some("a IN"),
        RelationKind::Slice { .. } | RelationKind::Contains { .. } => None,
    };
    if let Some(word) = alone {
        bail!("{name} cannot be restricted by more than one relation if it includes {word}");
    }
    let what = match (what, new.what) {
        (
            RelationKind::Slice { start, end },
            RelationKind::Slice { start: new_start, end: new_end },
        ) => {
            if columns.first() != new.columns.first() {
                let text =
                    "cannot be restricted by two inequalities not starting with the same column";
                bail!("Column \"{name}\" {text}");
            }
            for (word, twice) in [
                ("start", start.is_some() && new_start.is_some()),
                ("end", end.is_some() && new_end.is_some()),
            ] {
                if twice {
                    bail!("More than one restriction was found for the {word} bound on {name}");
                }
            }
            RelationKind::Slice { start: start.or(new_start), end: end.or(new_end) }
        }
        (RelationKind::Slice { .. }, _) => {
            let text = "cannot be restricted by both an equality and an inequality relation";
            bail!("Column \"{name}\" {text}");
        }
        (
            RelationKind::Contains { mut values, mut keys, mut entries },
            RelationKind::Contains { values: v, keys: k, entries: e },
        ) => {
            values.extend(v);
            keys.extend(k);
            entries.extend(e);
            RelationKind::Contains { values, keys, entries }
        }
        (_, _) => {
            let text = "can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality";
            bail!("Collection column {name} {text}");
        }
    };
    let columns = if new.columns.len() > columns.len() { new.columns } else { columns };
    Ok(Restriction { columns, is_multi: is_multi || new.is_multi, what })
}

/// Combines a restriction of the token with the previous one.
pub(super) fn add_token(
    table: &TableSchema,
    old: &mut Option<TokenRestriction>,
    new: TokenRestriction,
) -> Result<()> {
    let Some(old) = old else {
        *old = Some(new);
        return Ok(());
    };
    let names: Vec<_> = table.partition().iter().map(|c| &*c.name).collect();
    let name = names.join(", ");
    if old.equal.is_some() {
        bail!("{name} cannot be restricted by more than one relation if it includes an Equal");
    }
    if new.equal.is_some() {
        let text = "cannot be restricted by both an equality and an inequality relation";
        bail!("Columns \"{name}\" {text}");
    }
    for (word, twice) in [
        ("start", old.start.is_some() && new.start.is_some()),
        ("end", old.end.is_some() && new.end.is_some()),
    ] {
        bail_if!(twice, "More than one restriction was found for the {word} bound on {name}");
    }
    old.start = old.start.take().or(new.start);
    old.end = old.end.take().or(new.end);
    Ok(())
}
