//! Column families as tables. A family of `firn-wide` is presented as a table whose rows and
//! columns are the family's cells (model 2.12).
//!
//! | family | table |
//! |---|---|
//! | Standard, without defined columns | `PRIMARY KEY (key, column1)` and `value`: each cell is a row; a composite comparator gives `column1`, `column2`, … |
//! | Standard, with defined columns | `PRIMARY KEY (key)` and these columns; cells of other names are hidden |
//! | Super, without defined columns | `PRIMARY KEY (key, column1, column2)` and `value`: each subcolumn is a row |
//! | Super, with defined columns | `PRIMARY KEY (key, column1)` and these columns: each super column is a row |
//!
//! A composite key type gives `key`, `key2`, …; `key_alias` is the name of the first one. If a
//! defined column has such a name, the next free one is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_wide::Type;
use firn_wide::internals::schema::{Family, FamilyKind};
use firn_wide::internals::types::Wording;
use md5::{Digest, Md5};

use super::{
    ColumnKind, ColumnType, FamilyForm, IndexTarget, TableColumn, TableIndex, TableOptions,
    TableSchema,
};

/// Names in use in a table.
struct FreeNames(BTreeSet<String>);

impl FreeNames {
    /// Returns the first free name of `prefix`, `prefix2`, … from this number on. The first has no
    /// number unless `numbered` is set.
    fn take(&mut self, prefix: &str, from: usize, numbered: bool) -> String {
        let name = |n: usize| match n {
            1 if !numbered => prefix.to_owned(),
            n => format!("{prefix}{n}"),
        };
        let mut n = from;
        while !self.0.insert(name(n)) {
            n += 1;
        }
        name(n)
    }
}

/// Returns the type of the column for a type of names, and whether it is descending.
fn part(of: &Type) -> (Type, bool) {
    (of.unreversed().clone(), of.is_reversed())
}

/// Returns the types of all columns for a type of names.
fn parts(of: &Type) -> Vec<(Type, bool)> {
    match of {
        Type::Composite(parts) if !parts.is_empty() => parts.iter().map(part).collect(),
        other => vec![part(other)],
    }
}

impl TableSchema {
    /// Creates the table of a family.
    pub fn of_family(family: &Arc<Family>) -> TableSchema {
        let def = family.def();
        let digest = Md5::new()
            .chain_update(family.id().to_be_bytes())
            .chain_update(family.keyspace())
            .chain_update(family.name());
        let mut table = TableSchema {
            id: family.id(),
            uuid: uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid(),
            keyspace: family.keyspace().to_owned(),
            name: family.name().to_owned(),
            options: TableOptions::of_family(def),
            compact: true,
            columns: vec![],
            partition: 0,
            clustering: 0,
            next_column: 1,
            dropped: vec![],
            indexes: vec![],
            view: None,
            family: Some(family.clone()),
            form: None,
        };
        let (names, mut free) = table.put_known(family);
        let mut put = |kind, name, (of, descending): (Type, bool)| {
            let of = ColumnType::frozen(of);
            table.columns.push(TableColumn::of_key(kind, name, of, descending));
        };
        let partition = match family.key_validator() {
            // If the key is one column, the key is that column's value.
            Type::Composite(parts) if parts.len() < 2 => vec![part(family.key_validator())],
            of => parts(of),
        };
        for (n, (of, _)) in partition.into_iter().enumerate() {
            let alias = def.key_alias.clone().filter(|_| n == 0);
            let alias = alias.and_then(|bytes| String::from_utf8(bytes).ok());
            let alias = alias.filter(|name| !name.is_empty() && free.0.insert(name.clone()));
            let name = alias.unwrap_or_else(|| free.take("key", n + 1, false));
            put(ColumnKind::Partition, name, (of, false));
        }
        let clustering = match family.kind() {
            FamilyKind::Super { comparator, subcomparator } if names.is_empty() => {
                vec![part(comparator), part(subcomparator)]
            }
            FamilyKind::Super { comparator, .. } => vec![part(comparator)],
            FamilyKind::Standard { comparator } if names.is_empty() => parts(comparator),
            _ => vec![],
        };
        for (n, part) in clustering.into_iter().enumerate() {
            put(ColumnKind::Clustering, free.take("column", n + 1, true), part);
        }
        let of_kind = |kind| table.columns.iter().filter(|c| c.kind == kind).count();
        (table.partition, table.clustering) =
            (of_kind(ColumnKind::Partition), of_kind(ColumnKind::Clustering));
        // Values of the empty type have no content.
        if names.is_empty() && *family.default_validator() != Type::Empty {
            table.put_column(free.take("value", 1, false), family.default_validator());
        }
        let is_composite = names.is_empty()
            && !family.is_super()
            && matches!(family.comparator(), Type::Composite(parts) if !parts.is_empty());
        table.form = Some(FamilyForm::new(family.is_super(), is_composite, names));
        table.arrange();
        table
    }

    fn put_column(&mut self, name: String, of: &Type) -> u16 {
        let (id, of) = (self.next_column, ColumnType::frozen(of.unreversed().clone()));
        let (kind, position, descending) = (ColumnKind::Regular, 0, false);
        self.columns.push(TableColumn { id, name, kind, position, of, descending, mask: None });
        self.next_column = id.saturating_add(1);
        id
    }

    /// Adds the defined columns of the family, with their indexes. Returns the ids of the columns,
    /// and the names in use.
    fn put_known(&mut self, family: &Family) -> (BTreeMap<Vec<u8>, u16>, FreeNames) {
        let comparator = family.cell_comparator();
        let (mut names, mut free) = (BTreeMap::new(), FreeNames(BTreeSet::new()));
        // Ids are limited to 16 bits.
        for column in family.columns().take(usize::from(u16::MAX) - 1) {
            let name = comparator.to_text(column.name(), Wording::Cli);
            let mut component = vec![];
            if comparator.put_component(column.name(), &mut component).is_err()
                || !free.0.insert(name.clone())
            {
                continue;
            }
            if let Some(index) = column.index() {
                self.indexes.push(TableIndex {
                    id: index.id,
                    name: index.name.clone(),
                    column: name.clone(),
                    target: IndexTarget::Simple,
                    class: None,
                    options: index.options.clone(),
                });
            }
            names.insert(component, self.put_column(name, column.validator()));
        }
        (names, free)
    }
}
