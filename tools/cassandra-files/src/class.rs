//! Types as named in files: Java classes with arguments (`FORMAT.md`, "Types").

use std::fmt;

/// Longest accepted type text in bytes.
const MOST_TEXT: usize = 1 << 20;
/// Maximum nesting of types.
const MOST_DEPTH: usize = 32;
/// The package that is omitted from class names.
const PACKAGE: &str = "org.apache.cassandra.db.marshal.";
/// Wrapper of a type whose values are one cell each, although they could be several.
const FROZEN: &str = "FrozenType";

/// A class with its arguments: `MapType(UTF8Type,Int32Type)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarshalClass {
    /// The name, without Cassandra's package. An argument that is no class (a keyspace, a number)
    /// is a class without arguments.
    pub name: String,
    /// The arguments.
    pub arguments: Vec<ClassArgument>,
}

/// An argument of a [`MarshalClass`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassArgument {
    /// The text before its colon: the name of a user type's field, in hexadecimal digits.
    pub field: Option<String>,
    /// The class.
    pub class: MarshalClass,
}

impl MarshalClass {
    /// Parses a type.
    ///
    /// # Errors
    /// The reason, for an invalid text, one longer than 1 MiB, or nesting deeper than 32.
    ///
    /// ```
    /// let class = firn_cassandra::MarshalClass::parse("org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.Int32Type)")?;
    /// assert_eq!(class.to_string(), "ListType(Int32Type)");
    /// assert_eq!(class.arguments[0].class.fixed_length(), Some(4));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<MarshalClass, String> {
        if text.len() > MOST_TEXT {
            return Err(format!("the name of a type has {} bytes", text.len()));
        }
        let mut rest = text;
        let class = class(&mut rest, 0)?;
        match rest {
            "" => Ok(class),
            _ => Err(format!("a type goes on behind its end: {rest:?}")),
        }
    }

    /// Returns the class of an argument.
    pub fn argument(&self, i: usize) -> Option<&MarshalClass> {
        self.arguments.get(i).map(|a| &a.class)
    }

    /// Returns the length of its values in bytes, if fixed: such values are written without a
    /// length.
    pub fn fixed_length(&self) -> Option<usize> {
        match &*self.name {
            "EmptyType" => Some(0),
            "BooleanType" => Some(1),
            "Int32Type" | "FloatType" => Some(4),
            "LongType" | "DoubleType" | "TimestampType" | "DateType" => Some(8),
            "UUIDType" | "TimeUUIDType" | "LexicalUUIDType" => Some(16),
            "ReversedType" => self.argument(0)?.fixed_length(),
            "VectorType" => {
                let dimension: usize = self.argument(1)?.name.parse().ok()?;
                self.argument(0)?.fixed_length()?.checked_mul(dimension)
            }
            _ => None,
        }
    }

    /// Reports whether each element has its own cell.
    pub fn is_multi_cell(&self) -> bool {
        matches!(&*self.name, "ListType" | "SetType" | "MapType" | "UserType")
    }

    /// Returns the class whose values are one cell each, from a class without this information:
    /// adds `FrozenType` around collections and user types. Their elements are frozen implicitly.
    ///
    /// ```
    /// # use firn_cassandra::MarshalClass;
    /// let class = MarshalClass::parse("ReversedType(ListType(SetType(Int32Type)))")?;
    /// let frozen = "ReversedType(FrozenType(ListType(SetType(Int32Type))))";
    /// assert_eq!(class.frozen().to_string(), frozen);
    /// # Ok::<(), String>(())
    /// ```
    pub fn frozen(mut self) -> MarshalClass {
        match &*self.name {
            "ReversedType" | "VectorType" => {
                self.arguments = freeze(self.arguments, |i, _| i == 0);
                self
            }
            _ if self.is_multi_cell() => {
                let argument = ClassArgument { field: None, class: self };
                MarshalClass { name: FROZEN.to_owned(), arguments: vec![argument] }
            }
            _ => self,
        }
    }

    /// Returns the class of a collection or user type with a cell for each element, from a class
    /// without this information: its elements are frozen.
    ///
    /// ```
    /// let class = firn_cassandra::MarshalClass::parse("UserType(shop,61,73:SetType(Int32Type))")?;
    /// let unfrozen = "UserType(shop,61,73:FrozenType(SetType(Int32Type)))";
    /// assert_eq!(class.with_frozen_elements().to_string(), unfrozen);
    /// # Ok::<(), String>(())
    /// ```
    pub fn with_frozen_elements(mut self) -> MarshalClass {
        // The first arguments of a user type are its keyspace and its name.
        let is_user = self.name == "UserType";
        self.arguments = freeze(self.arguments, |_, a| !is_user || a.field.is_some());
        self
    }

    /// Returns the text for files: with the package before each of Cassandra's own classes.
    ///
    /// ```
    /// let class = firn_cassandra::MarshalClass::parse("VectorType(FloatType,3)")?;
    /// let package = "org.apache.cassandra.db.marshal";
    /// assert_eq!(class.full_name(), format!("{package}.VectorType({package}.FloatType , 3)"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn full_name(&self) -> String {
        let mut out = match self.name.contains('.') {
            true => self.name.clone(),
            false => format!("{PACKAGE}{}", self.name),
        };
        let between = if self.name == "VectorType" { " , " } else { "," };
        for (i, a) in self.arguments.iter().enumerate() {
            out.push_str(if i == 0 { "(" } else { between });
            if let Some(field) = &a.field {
                out.push_str(field);
                out.push(':');
            }
            // A keyspace, a name and a number are no classes.
            let is_word = match &*self.name {
                "UserType" => i < 2,
                "VectorType" => i == 1,
                _ => false,
            };
            out.push_str(&if is_word { a.class.to_string() } else { a.class.full_name() });
        }
        if !self.arguments.is_empty() {
            out.push(')');
        }
        out
    }

    /// Reports whether it is a counter.
    pub fn is_counter(&self) -> bool {
        self.name == "CounterColumnType"
    }
}

fn freeze(
    arguments: Vec<ClassArgument>,
    is_meant: impl Fn(usize, &ClassArgument) -> bool,
) -> Vec<ClassArgument> {
    let freeze = |(i, a): (usize, ClassArgument)| match is_meant(i, &a) {
        true => ClassArgument { field: a.field, class: a.class.frozen() },
        false => a,
    };
    arguments.into_iter().enumerate().map(freeze).collect()
}

impl fmt::Display for MarshalClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, a) in self.arguments.iter().enumerate() {
            f.write_str(if i == 0 { "(" } else { "," })?;
            if let Some(field) = &a.field {
                write!(f, "{field}:")?;
            }
            write!(f, "{}", a.class)?;
        }
        f.write_str(if self.arguments.is_empty() { "" } else { ")" })
    }
}

fn word<'a>(rest: &mut &'a str) -> &'a str {
    let is_part = |c: char| c.is_alphanumeric() || "._+-$".contains(c);
    let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
    *rest = after;
    word
}

fn class(rest: &mut &str, depth: usize) -> Result<MarshalClass, String> {
    if depth > MOST_DEPTH {
        return Err(format!("types are nested deeper than {MOST_DEPTH}"));
    }
    let name = word(rest);
    if name.is_empty() {
        return Err("a type has no name".to_owned());
    }
    let name = name.strip_prefix(PACKAGE).unwrap_or(name).to_owned();
    let mut arguments = vec![];
    if let Some(inside) = rest.strip_prefix('(') {
        *rest = inside;
        loop {
            *rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(')') {
                *rest = after;
                break;
            }
            arguments.push(argument(rest, depth + 1)?);
            *rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(',') {
                *rest = after;
            } else if !rest.starts_with(')') {
                return Err(format!("the arguments of {name} have no end"));
            }
        }
    }
    Ok(MarshalClass { name, arguments })
}

fn argument(rest: &mut &str, depth: usize) -> Result<ClassArgument, String> {
    let mut ahead = *rest;
    let field = word(&mut ahead);
    // A field without a name has an empty text before its colon.
    if let Some(behind) = ahead.strip_prefix(':') {
        *rest = behind;
        return Ok(ClassArgument { field: Some(field.to_owned()), class: class(rest, depth)? });
    }
    Ok(ClassArgument { field: None, class: class(rest, depth)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_are_read_as_the_same() {
        for text in [
            "CompositeType(Int32Type,FrozenType(ListType(VectorType(FloatType,3))))",
            "UserType(ListType,61,73:FrozenType(SetType(Int32Type)),:com.example.Own(Int32Type))",
        ] {
            let class = MarshalClass::parse(text).unwrap();
            assert_eq!(MarshalClass::parse(&class.full_name()).unwrap(), class);
            assert!(class.full_name().starts_with(PACKAGE));
            assert_eq!(class.clone().with_frozen_elements(), class);
        }
        let vector = MarshalClass::parse("VectorType(ListType(Int32Type),3)").unwrap().frozen();
        assert_eq!(vector.to_string(), "VectorType(FrozenType(ListType(Int32Type)),3)");
    }

    #[test]
    fn types_are_read_and_named_again() {
        for (text, fixed) in [
            ("Int32Type", Some(4)),
            ("ReversedType(TimeUUIDType)", Some(16)),
            ("VectorType(FloatType,3)", Some(12)),
            ("VectorType(UTF8Type,3)", None),
            ("FrozenType(MapType(Int32Type,SetType(Int32Type)))", None),
            ("UserType(look,61,73:UTF8Type,:Int32Type)", None),
            ("com.example.Own", None),
        ] {
            let class = MarshalClass::parse(text).unwrap();
            assert_eq!((class.to_string(), class.fixed_length()), (text.to_owned(), fixed));
        }
        let spaced = "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)";
        assert_eq!(MarshalClass::parse(spaced).unwrap().fixed_length(), Some(12));
        let deep = "a(".repeat(40);
        for wrong in ["", "a(", "a(b", "a(b))", "a b", "(", &deep, "VectorType(a,,b)"] {
            assert!(MarshalClass::parse(wrong).is_err(), "{wrong}");
        }
        let huge = MarshalClass::parse("VectorType(LongType,18446744073709551615)").unwrap();
        assert_eq!(huge.fixed_length(), None);
    }
}
