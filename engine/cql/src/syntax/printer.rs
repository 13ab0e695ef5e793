//! Trees to text. The text is the canonical spelling: keywords in upper case, names quoted only where they must be, one space between
//! things. Parsing it gives the same tree.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Result};

use super::ast::*;
use super::keyword::{Class, Keyword};

/// The name as it has to be written in CQL: as it is, or in double quotes.
pub fn quote_if_needed(name: &str) -> Cow<'_, str> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    // JSON and DISTINCT are names, but where a selection begins they are not.
    let keyword = match Keyword::of(name) {
        Some(Keyword::Json | Keyword::Distinct) => true,
        Some(keyword) => keyword.class() == Class::Reserved,
        None => false,
    };
    if plain && !keyword { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn string(f: &mut Formatter<'_>, text: &str) -> Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// `a<separator>b`
struct Joined<'t, T>(&'t [T], &'static str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// `a: b, c: d`
struct Pairs<'t, K, V>(&'t [(K, V)]);

impl<K: Display, V: Display> Display for Pairs<'_, K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

fn list<T>(items: &[T]) -> Joined<'_, T> {
    Joined(items, ", ")
}

/// `word` where `when`.
fn opt(when: bool, word: &'static str) -> &'static str {
    if when { word } else { "" }
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&quote_if_needed(&self.text))
    }
}

impl Display for QualifiedName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        qualified(f, self, |_| false)
    }
}

/// A qualified name; `quotes` says which keywords that are names elsewhere need quotes here.
fn qualified(f: &mut Formatter<'_>, name: &QualifiedName<'_>, quotes: fn(Keyword) -> bool) -> Result {
    if let Some(keyspace) = &name.keyspace {
        write!(f, "{keyspace}.")?;
    }
    if Keyword::of(&name.name.text).is_some_and(quotes) { f.write_str(&quoted(&name.name.text)) } else { name.name.fmt(f) }
}

impl Display for Statement<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Statement::Use(name) => write!(f, "USE {name}"),
            Statement::CreateKeyspace(s) => s.fmt(f),
            Statement::AlterKeyspace(s) => {
                write!(f, "ALTER KEYSPACE {}{} WITH {}", opt(s.if_exists, "IF EXISTS "), s.name, Joined(&s.properties, " AND "))
            }
            Statement::DropKeyspace(d) => write!(f, "DROP KEYSPACE {}{}", opt(d.if_exists, "IF EXISTS "), d.name),
            Statement::CreateTable(s) => s.fmt(f),
            Statement::AlterTable(s) => s.fmt(f),
            Statement::DropTable(d) => write!(f, "DROP TABLE {}{}", opt(d.if_exists, "IF EXISTS "), d.name),
            Statement::Truncate(name) => write!(f, "TRUNCATE TABLE {name}"),
            Statement::CreateIndex(s) => s.fmt(f),
            Statement::DropIndex(d) => write!(f, "DROP INDEX {}{}", opt(d.if_exists, "IF EXISTS "), d.name),
            Statement::CreateType(s) => s.fmt(f),
            Statement::AlterType(s) => s.fmt(f),
            Statement::DropType(d) => {
                write!(f, "DROP TYPE {}", opt(d.if_exists, "IF EXISTS "))?;
                user_type(f, &d.name)
            }
            Statement::Describe(s) => s.fmt(f),
            Statement::Change(s) => s.fmt(f),
            Statement::Batch(s) => s.fmt(f),
            Statement::Select(s) => s.fmt(f),
        }
    }
}

impl Display for CreateKeyspace<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let properties = Joined(&self.properties, " AND ");
        write!(f, "CREATE KEYSPACE {}{} WITH {properties}", opt(self.if_not_exists, "IF NOT EXISTS "), self.name)
    }
}

impl Display for Property<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} = ", self.name)?;
        match &self.value {
            PropertyValue::Constant(constant) => constant.fmt(f),
            PropertyValue::Word(word) => f.write_str(word),
            PropertyValue::Map(pairs) => write!(f, "{{{}}}", Pairs(pairs)),
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
        write!(f, "{} {}{}{}", self.name, self.of, opt(self.is_static, " STATIC"), opt(self.primary_key, " PRIMARY KEY"))
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
        write!(f, "{} {}", self.column, if self.descending { "DESC" } else { "ASC" })
    }
}

/// One as it is, several in parentheses.
fn one_or_several<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    if let [one] = items { one.fmt(f) } else { write!(f, "({})", list(items)) }
}

fn renamings(f: &mut Formatter<'_>, if_exists: bool, pairs: &[(Name, Name)]) -> Result {
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
            TableChange::Rename { if_exists, pairs } => renamings(f, *if_exists, pairs),
            TableChange::Retype { column, of } => write!(f, "ALTER {column} TYPE {of}"),
            TableChange::With(properties) => write!(f, "WITH {}", Joined(properties, " AND ")),
        }
    }
}

impl Display for CreateIndex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE {}INDEX {}", opt(self.custom, "CUSTOM "), opt(self.if_not_exists, "IF NOT EXISTS "))?;
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        write!(f, "ON {} ({})", self.table, list(&self.targets))?;
        if let Some(class) = &self.class {
            f.write_str(" USING ")?;
            string(f, class)?;
        }
        write!(f, "{}{}", opt(!self.properties.is_empty(), " WITH "), Joined(&self.properties, " AND "))
    }
}

impl Display for IndexTarget<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.part {
            IndexPart::Simple => self.column.fmt(f),
            IndexPart::Keys => write!(f, "KEYS({})", self.column),
            IndexPart::Values => write!(f, "VALUES({})", self.column),
            IndexPart::Entries => write!(f, "ENTRIES({})", self.column),
            IndexPart::Full => write!(f, "FULL({})", self.column),
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
            Described::Cluster => f.write_str("CLUSTER"),
            Described::Schema { full } => write!(f, "{}SCHEMA", opt(*full, "FULL ")),
            Described::Keyspaces => f.write_str("KEYSPACES"),
            Described::Keyspace { only, name } => {
                write!(f, "{}KEYSPACE", opt(*only, "ONLY "))?;
                name.iter().try_for_each(|name| write!(f, " {name}"))
            }
            Described::Tables => f.write_str("TABLES"),
            Described::Table(name) => write!(f, "TABLE {name}"),
            Described::Index(name) => write!(f, "INDEX {name}"),
            Described::View(name) => write!(f, "MATERIALIZED VIEW {name}"),
            Described::Types => f.write_str("TYPES"),
            Described::Type(name) => write!(f, "TYPE {name}"),
            Described::Functions => f.write_str("FUNCTIONS"),
            Described::Function(name) => write!(f, "FUNCTION {name}"),
            Described::Aggregates => f.write_str("AGGREGATES"),
            Described::Aggregate(name) => write!(f, "AGGREGATE {name}"),
            Described::Any(name) => match &name.keyspace {
                Some(keyspace) => write!(f, "{}.{}", quoted(&keyspace.text), name.name),
                None => qualified(f, name, |_| true),
            },
        }?;
        f.write_str(opt(self.with_internals, " WITH INTERNALS"))
    }
}

// Types

fn user_type(f: &mut Formatter<'_>, name: &QualifiedName<'_>) -> Result {
    // Names that are kept for types to come are no keywords.
    if matches!(&*name.name.text, "byte" | "complex" | "enum" | "interval" | "macaddr" | "bitstring") {
        if let Some(keyspace) = &name.keyspace {
            write!(f, "{keyspace}.")?;
        }
        return f.write_str(&quoted(&name.name.text));
    }
    qualified(f, name, |k| k.class() != Class::Free && k != Keyword::Key)
}

impl Display for Type<'_> {
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
        f.write_str(match self {
            Native::Ascii => "ascii",
            Native::BigInt => "bigint",
            Native::Blob => "blob",
            Native::Boolean => "boolean",
            Native::Counter => "counter",
            Native::Date => "date",
            Native::Decimal => "decimal",
            Native::Double => "double",
            Native::Duration => "duration",
            Native::Float => "float",
            Native::Inet => "inet",
            Native::Int => "int",
            Native::SmallInt => "smallint",
            Native::Text => "text",
            Native::Time => "time",
            Native::Timestamp => "timestamp",
            Native::TimeUuid => "timeuuid",
            Native::TinyInt => "tinyint",
            Native::Uuid => "uuid",
            Native::VarChar => "varchar",
            Native::VarInt => "varint",
        })
    }
}

// Terms

impl Display for Constant<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.kind == ConstantKind::String { string(f, &self.text) } else { f.write_str(&self.text) }
    }
}

impl Display for Marker<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.name {
            Some(name) => write!(f, ":{}", quote_if_needed(name)),
            None => f.write_str("?"),
        }
    }
}

impl<T: Display> Display for Call<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.function.keyspace, &*self.function.name.text) {
            // Reserved, but a function's name.
            (None, "token") => f.write_str("token")?,
            _ => qualified(f, &self.function, |k| k.class() == Class::Name && k != Keyword::Count)?,
        }
        write!(f, "({})", list(&self.arguments))
    }
}

impl<T: Display> Display for Binary<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} {}", self.left, self.operator.sign(), self.right)
    }
}

impl Display for Term<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            TermKind::Null => f.write_str("NULL"),
            TermKind::Constant(constant) => constant.fmt(f),
            TermKind::Marker(marker) => marker.fmt(f),
            TermKind::List(items) => write!(f, "[{}]", list(items)),
            TermKind::Set(items) => write!(f, "{{{}}}", list(items)),
            TermKind::Map(pairs) => write!(f, "{{{}}}", Pairs(pairs)),
            TermKind::User(fields) => write!(f, "{{{}}}", Pairs(fields)),
            TermKind::Tuple(items) => write!(f, "({})", list(items)),
            TermKind::Call(call) => call.fmt(f),
            TermKind::Hint(hint) => write!(f, "({}) {}", hint.0, hint.1),
            TermKind::Cast(of, native) => write!(f, "CAST({of} AS {native})"),
            TermKind::Negate(of) => write!(f, "- {of}"),
            TermKind::Binary(binary) => binary.fmt(f),
        }
    }
}

// Changes

impl Display for Change<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Change::Insert(s) => s.fmt(f),
            Change::Update(s) => s.fmt(f),
            Change::Delete(s) => s.fmt(f),
        }
    }
}

impl Display for Insert<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "INSERT INTO {}", self.table)?;
        match &self.what {
            Inserted::Values { columns, values } => write!(f, " ({}) VALUES ({})", list(columns), list(values))?,
            Inserted::Json { value, default_unset } => write!(f, " JSON {value}{}", opt(*default_unset, " DEFAULT UNSET"))?,
        }
        write!(f, "{}{}", opt(self.if_not_exists, " IF NOT EXISTS"), self.using)
    }
}

impl Display for Using<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.timestamp, &self.ttl) {
            (None, None) => Ok(()),
            (Some(timestamp), None) => write!(f, " USING TIMESTAMP {timestamp}"),
            (None, Some(ttl)) => write!(f, " USING TTL {ttl}"),
            (Some(timestamp), Some(ttl)) if marker(timestamp) > marker(ttl) => {
                write!(f, " USING TTL {ttl} AND TIMESTAMP {timestamp}")
            }
            (Some(timestamp), Some(ttl)) => write!(f, " USING TIMESTAMP {timestamp} AND TTL {ttl}"),
        }
    }
}

/// The number of a marker: markers are printed in their order.
fn marker(term: &Term<'_>) -> Option<u16> {
    if let TermKind::Marker(marker) = &term.kind { Some(marker.index) } else { None }
}

fn where_clause(f: &mut Formatter<'_>, relations: &[Relation<'_>]) -> Result {
    write!(f, "{}{}", opt(!relations.is_empty(), " WHERE "), Joined(relations, " AND "))
}

impl Display for Update<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "UPDATE {}{} SET {}", self.table, self.using, list(&self.assignments))?;
        where_clause(f, &self.relations)?;
        self.guard.fmt(f)
    }
}

impl Display for Assignment<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let column = &self.column;
        match &self.operation {
            Assign::Set(value) => write!(f, "{column} = {value}"),
            Assign::Append(value) => write!(f, "{column} = {column} + {value}"),
            Assign::Remove(value) => write!(f, "{column} = {column} - {value}"),
            Assign::Prepend(value) => write!(f, "{column} = {value} + {column}"),
            Assign::Element { key, value } => write!(f, "{column}[{key}] = {value}"),
            Assign::Field { field, value } => write!(f, "{column}.{field} = {value}"),
        }
    }
}

impl Display for Delete<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "DELETE {}{}FROM {}", list(&self.targets), opt(!self.targets.is_empty(), " "), self.table)?;
        if let Some(timestamp) = &self.timestamp {
            write!(f, " USING TIMESTAMP {timestamp}")?;
        }
        where_clause(f, &self.relations)?;
        self.guard.fmt(f)
    }
}

impl Display for Target<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.part {
            Part::Whole => self.column.fmt(f),
            Part::Element(key) => write!(f, "{}[{key}]", self.column),
            Part::Field(field) => write!(f, "{}.{field}", self.column),
        }
    }
}

impl Display for Guard<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Guard::None => Ok(()),
            Guard::Exists => f.write_str(" IF EXISTS"),
            Guard::Conditions(conditions) => write!(f, " IF {}", Joined(conditions, " AND ")),
        }
    }
}

impl Display for Condition<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let target = &self.target;
        match &self.test {
            Test::Compare(comparison, value) => write!(f, "{target} {} {value}", comparison.sign()),
            Test::In(values) => write!(f, "{target} IN {values}"),
            Test::Contains(value) => write!(f, "{target} CONTAINS {value}"),
            Test::ContainsKey(key) => write!(f, "{target} CONTAINS KEY {key}"),
        }
    }
}

impl Display for Values<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Values::List(values) => write!(f, "({})", list(values)),
            Values::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for Batch<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{}", self.using)?;
        self.changes.iter().try_for_each(|change| write!(f, " {change};"))?;
        f.write_str(" APPLY BATCH")
    }
}

// Queries

impl Display for Select<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "SELECT {}{}", opt(self.json, "JSON "), opt(self.distinct, "DISTINCT "))?;
        if self.selection.is_empty() {
            f.write_str("*")?
        } else {
            list(&self.selection).fmt(f)?
        }
        write!(f, " FROM {}", self.table)?;
        where_clause(f, &self.relations)?;
        write!(f, "{}{}", opt(!self.group_by.is_empty(), " GROUP BY "), list(&self.group_by))?;
        write!(f, "{}{}", opt(!self.order_by.is_empty(), " ORDER BY "), list(&self.order_by))?;
        if let Some(limit) = &self.per_partition_limit {
            write!(f, " PER PARTITION LIMIT {limit}")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        f.write_str(opt(self.allow_filtering, " ALLOW FILTERING"))
    }
}

impl Display for Selected<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.selector.fmt(f)?;
        self.alias.iter().try_for_each(|alias| write!(f, " AS {alias}"))
    }
}

impl Display for Selector<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            SelectorKind::Column(name) => name.fmt(f),
            SelectorKind::Term(term) => term.fmt(f),
            SelectorKind::CountRows => f.write_str("count(*)"),
            SelectorKind::About(about, column) => write!(f, "{about}({column})"),
            SelectorKind::Call(call) => call.fmt(f),
            SelectorKind::Cast(of, native) => write!(f, "CAST({of} AS {native})"),
            // Without the space, a number's dot and this one would be a range.
            SelectorKind::Field(field) if matches!(field.0.kind, SelectorKind::Term(_)) => {
                write!(f, "{} .{}", field.0, field.1)
            }
            SelectorKind::Field(field) => write!(f, "{}.{}", field.0, field.1),
            SelectorKind::Element(element) => write!(f, "{}[{}]", element.0, element.1),
            SelectorKind::Slice(slice) => {
                let (of, from, to) = &**slice;
                write!(f, "{of}[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
            SelectorKind::Hint(hint) => write!(f, "({}) {}", hint.0, hint.1),
            SelectorKind::List(items) => write!(f, "[{}]", list(items)),
            SelectorKind::Set(items) => write!(f, "{{{}}}", list(items)),
            SelectorKind::Map(pairs) => write!(f, "{{{}}}", Pairs(pairs)),
            SelectorKind::Tuple(items) => write!(f, "({})", list(items)),
            SelectorKind::Negate(of) => write!(f, "- {of}"),
            SelectorKind::Binary(binary) => binary.fmt(f),
        }
    }
}

impl Display for About {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            About::WriteTime => "writetime",
            About::MaxWriteTime => "maxwritetime",
            About::Ttl => "ttl",
        })
    }
}

impl Display for Relation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Relation::Compare { column, comparison, value } => write!(f, "{column} {} {value}", comparison.sign()),
            Relation::In { column, values } => write!(f, "{column} IN {values}"),
            Relation::Contains { column, value } => write!(f, "{column} CONTAINS {value}"),
            Relation::ContainsKey { column, key } => write!(f, "{column} CONTAINS KEY {key}"),
            Relation::Element { column, key, comparison, value } => write!(f, "{column}[{key}] {} {value}", comparison.sign()),
            Relation::Like { column, pattern } => write!(f, "{column} LIKE {pattern}"),
            Relation::NotNull { column } => write!(f, "{column} IS NOT NULL"),
            Relation::Token { columns, comparison, value, .. } => {
                write!(f, "token({}) {} {value}", list(columns), comparison.sign())
            }
            Relation::Tuple { columns, comparison, value, .. } => {
                write!(f, "({}) {} {value}", list(columns), comparison.sign())
            }
            Relation::TupleIn { columns, values, .. } => write!(f, "({}) IN {values}", list(columns)),
        }
    }
}
