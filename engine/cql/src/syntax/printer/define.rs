//! Definitions, types, `DESCRIBE`.

use std::fmt::{Display, Formatter, Result};

use super::function::function;
use super::{Joined, PrintedPairs, list, opt, qualified, quoted, string};
use crate::syntax::ast::{
    AlterTable, AlterType, AstName, ColumnDefinition, CreateIndex, CreateKeyspace, CreateTable,
    CreateType, Describe, DescribedObject, IndexPartText, IndexTargetText, MaskSyntax, Native,
    Ordering, PrimaryKey, PropertyValue, QualifiedName, TableChange, TableProperty, TypeChange,
    TypeKind, TypeSyntax,
};
use crate::syntax::keyword::{Keyword, KeywordClass};

impl Display for CreateKeyspace<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let properties = Joined(&self.properties, " AND ");
        write!(
            f,
            "CREATE KEYSPACE {}{} WITH {properties}",
            opt(self.if_not_exists, "IF NOT EXISTS "),
            self.name
        )
    }
}

impl Display for TableProperty<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} = ", self.name)?;
        match &self.value {
            PropertyValue::Constant(constant) => constant.fmt(f),
            PropertyValue::Word(word) => f.write_str(word),
            PropertyValue::Map(pairs) => write!(f, "{{{}}}", PrintedPairs(pairs)),
        }
    }
}

impl Display for CreateTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE TABLE {}{} (", opt(self.if_not_exists, "IF NOT EXISTS "), self.name)?;
        list(&self.columns).fmt(f)?;
        for (i, key) in self.primary_keys.iter().enumerate() {
            write!(f, "{}{key}", opt(i > 0 || !self.columns.is_empty(), ", "))?;
        }
        f.write_str(")")?;
        let mut word = " WITH ";
        for property in &self.properties {
            write!(f, "{word}{property}")?;
            word = " AND ";
        }
        if self.compact_storage {
            write!(f, "{word}COMPACT STORAGE")?;
            word = " AND ";
        }
        if !self.clustering_order.is_empty() {
            write!(f, "{word}CLUSTERING ORDER BY ({})", list(&self.clustering_order))?;
        }
        Ok(())
    }
}

impl Display for ColumnDefinition<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}{}", self.name, self.of, opt(self.is_static, " STATIC"))?;
        self.mask.iter().try_for_each(|mask| write!(f, " {mask}"))?;
        f.write_str(opt(self.primary_key, " PRIMARY KEY"))
    }
}

impl Display for MaskSyntax<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("MASKED WITH ")?;
        function(f, &self.function)?;
        write!(f, "({})", list(&self.arguments))
    }
}

impl Display for PrimaryKey<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.partition[..] {
            [one] => write!(f, "PRIMARY KEY ({one}")?,
            several => write!(f, "PRIMARY KEY (({})", list(several))?,
        }
        write!(f, "{}{})", opt(!self.clustering.is_empty(), ", "), list(&self.clustering))
    }
}

impl Display for Ordering<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.column.fmt(f)?;
        self.nearest.iter().try_for_each(|term| write!(f, " ANN OF {term}"))?;
        f.write_str(if self.descending { " DESC" } else { " ASC" })
    }
}

/// Prints one item as it is, several in parentheses.
fn one_or_several<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    if let [one] = items { one.fmt(f) } else { write!(f, "({})", list(items)) }
}

fn renamings(f: &mut Formatter<'_>, if_exists: bool, pairs: &[(AstName, AstName)]) -> Result {
    write!(f, "RENAME {}", opt(if_exists, "IF EXISTS "))?;
    for (i, (from, to)) in pairs.iter().enumerate() {
        write!(f, "{}{from} TO {to}", opt(i > 0, " AND "))?;
    }
    Ok(())
}

impl Display for AlterTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "ALTER TABLE {}{} ", opt(self.if_exists, "IF EXISTS "), self.name)?;
        match &self.change {
            TableChange::Add { if_not_exists, columns } => {
                write!(f, "ADD {}", opt(*if_not_exists, "IF NOT EXISTS "))?;
                one_or_several(f, columns)
            }
            TableChange::Drop { if_exists, columns, timestamp } => {
                write!(f, "DROP {}", opt(*if_exists, "IF EXISTS "))?;
                one_or_several(f, columns)?;
                match timestamp {
                    Some(timestamp) => write!(f, " USING TIMESTAMP {timestamp}"),
                    None => Ok(()),
                }
            }
            TableChange::DropCompactStorage => f.write_str("DROP COMPACT STORAGE"),
            TableChange::Rename { if_exists, pairs } => renamings(f, *if_exists, pairs),
            TableChange::Retype { column, of } => write!(f, "ALTER {column} TYPE {of}"),
            TableChange::Mask { if_exists, column, mask } => {
                write!(f, "ALTER {}{column} ", opt(*if_exists, "IF EXISTS "))?;
                match mask {
                    Some(mask) => mask.fmt(f),
                    None => f.write_str("DROP MASKED"),
                }
            }
            TableChange::With(properties) => write!(f, "WITH {}", Joined(properties, " AND ")),
        }
    }
}

impl Display for CreateIndex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "CREATE {}INDEX {}",
            opt(self.custom, "CUSTOM "),
            opt(self.if_not_exists, "IF NOT EXISTS ")
        )?;
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        write!(f, "ON {} ({})", self.table, list(&self.targets))?;
        if let Some(class) = &self.class {
            f.write_str(" USING ")?;
            string(f, class)?;
        }
        write!(
            f,
            "{}{}",
            opt(!self.properties.is_empty(), " WITH "),
            Joined(&self.properties, " AND ")
        )
    }
}

impl Display for IndexTargetText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.part {
            IndexPartText::Simple => self.column.fmt(f),
            part => write!(f, "{}({})", part.word().to_ascii_uppercase(), self.column),
        }
    }
}

impl Display for CreateType<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE TYPE {}", opt(self.if_not_exists, "IF NOT EXISTS "))?;
        user_type(f, &self.name)?;
        f.write_str(" (")?;
        for (i, (field, of)) in self.fields.iter().enumerate() {
            write!(f, "{}{field} {of}", opt(i > 0, ", "))?;
        }
        f.write_str(")")
    }
}

impl Display for AlterType<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "ALTER TYPE {}", opt(self.if_exists, "IF EXISTS "))?;
        user_type(f, &self.name)?;
        f.write_str(" ")?;
        match &self.change {
            TypeChange::Add { if_not_exists, field, of } => {
                write!(f, "ADD {}{field} {of}", opt(*if_not_exists, "IF NOT EXISTS "))
            }
            TypeChange::Rename { if_exists, pairs } => renamings(f, *if_exists, pairs),
            TypeChange::Retype { field, of } => write!(f, "ALTER {field} TYPE {of}"),
        }
    }
}

impl Display for Describe<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("DESCRIBE ")?;
        match &self.what {
            DescribedObject::Cluster => f.write_str("CLUSTER"),
            DescribedObject::Schema { full } => write!(f, "{}SCHEMA", opt(*full, "FULL ")),
            DescribedObject::Keyspaces => f.write_str("KEYSPACES"),
            DescribedObject::Keyspace { only, name } => {
                write!(f, "{}KEYSPACE", opt(*only, "ONLY "))?;
                name.iter().try_for_each(|name| write!(f, " {name}"))
            }
            DescribedObject::All(kind) => write!(f, "{}S", kind.word()),
            DescribedObject::One(kind, name) => write!(f, "{} {name}", kind.word()),
            DescribedObject::Any(name) => match &name.keyspace {
                Some(keyspace) => write!(f, "{}.{}", quoted(&keyspace.text), name.name),
                None => qualified(f, name, |_| true),
            },
        }?;
        f.write_str(opt(self.with_internals, " WITH INTERNALS"))
    }
}

pub(super) fn user_type(f: &mut Formatter<'_>, name: &QualifiedName<'_>) -> Result {
    // Names that are reserved for future types are not keywords.
    if matches!(
        &*name.name.text,
        "byte" | "complex" | "enum" | "interval" | "macaddr" | "bitstring"
    ) {
        if let Some(keyspace) = &name.keyspace {
            write!(f, "{keyspace}.")?;
        }
        return f.write_str(&quoted(&name.name.text));
    }
    qualified(f, name, |k| k.class() != KeywordClass::Free && k != Keyword::Key)
}

impl Display for TypeSyntax<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            TypeKind::Native(native) => native.fmt(f),
            TypeKind::Map(pair) => write!(f, "map<{}, {}>", pair.0, pair.1),
            TypeKind::Set(element) => write!(f, "set<{element}>"),
            TypeKind::List(element) => write!(f, "list<{element}>"),
            TypeKind::Frozen(of) => write!(f, "frozen<{of}>"),
            TypeKind::Tuple(types) => write!(f, "tuple<{}>", list(types)),
            TypeKind::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            TypeKind::Custom(class) => string(f, class),
            TypeKind::User(name) => user_type(f, name),
        }
    }
}

impl Display for Native {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.word())
    }
}
