//! Names of types: Cassandra's class names with parameters in parentheses, and CQL names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::class::{PACKAGE, PARAMETRIC, SIMPLE, with_package};
use super::errors::{TypeError, error};
use super::hex::hex;
use super::registry::Registry;
use super::{DynamicTypes, Type, UserType};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 32;

impl Type {
    /// Parses a class name: `UTF8Type`, `org.apache.cassandra.db.marshal.UTF8Type`,
    /// `CompositeType(LongType,ReversedType(UTF8Type))`, `LongType(reversed=true)`, which is
    /// `ReversedType(LongType)`, or a registered comparator. Blanks are ignored.
    ///
    /// # Errors
    /// `Unable to load class <full name>` with the existing names; errors of the parameters.
    pub fn parse(text: &str, registry: &Registry) -> Result<Type, TypeError> {
        let mut parser = TypeNameParser { rest: text.trim(), registry, depth: 0 };
        let parsed = parser.one()?;
        match parser.rest.trim_start() {
            "" => Ok(parsed),
            rest => error(format!("Syntax error parsing '{text}': unexpected '{rest}'")),
        }
    }

    /// Returns the type of a CQL type name without parameters (`text`, `varchar`, `bigint`, …),
    /// ignoring case.
    pub fn from_cql_word(word: &str) -> Option<Type> {
        if word.eq_ignore_ascii_case("varchar") {
            return Some(Type::Utf8);
        }
        SIMPLE.iter().find(|s| s.2.eq_ignore_ascii_case(word)).map(|s| s.0.clone())
    }

    /// Returns the class name without Cassandra's package; [`parse`](Type::parse) accepts it.
    pub fn name(&self) -> String {
        self.class_name("")
    }

    /// Returns the class name with Cassandra's package for every built-in class, as stored in
    /// definitions.
    pub fn full_name(&self) -> String {
        self.class_name(PACKAGE)
    }

    fn class_name(&self, package: &str) -> String {
        let many = |class: &str, of: &[Type]| {
            let names: Vec<_> = of.iter().map(|t| t.class_name(package)).collect();
            format!("{package}{class}({})", names.join(","))
        };
        match self {
            Type::Composite(of) => many("CompositeType", of),
            Type::Dynamic(types) => {
                let pair = |(alias, of): (&u8, &Type)| {
                    format!("{}=>{}", char::from(*alias), of.class_name(package))
                };
                let pairs: Vec<String> = types.aliases.iter().map(pair).collect();
                let class = format!("{package}DynamicCompositeType");
                if pairs.is_empty() { class } else { format!("{class}({})", pairs.join(",")) }
            }
            Type::Reversed(of) => many("ReversedType", std::slice::from_ref(of)),
            Type::List(of) => many("ListType", std::slice::from_ref(of)),
            Type::Set(of) => many("SetType", std::slice::from_ref(of)),
            Type::Map(of) => many("MapType", &[of.0.clone(), of.1.clone()]),
            Type::Tuple(of) => many("TupleType", of),
            Type::Vector(of, count) => {
                format!("{package}VectorType({} , {count})", of.class_name(package))
            }
            Type::Udt(u) => {
                let fields = u
                    .fields
                    .iter()
                    .map(|(n, t)| format!(",{}:{}", hex(n.as_bytes()), t.class_name(package)));
                format!(
                    "{package}UserType({},{}{})",
                    u.keyspace,
                    hex(u.name.as_bytes()),
                    fields.collect::<String>()
                )
            }
            Type::Custom(c) if package.is_empty() => c.0.name().to_owned(),
            Type::Custom(c) => with_package(c.0.name()),
            simple => SIMPLE
                .iter()
                .find(|s| s.0 == *simple)
                .map_or(String::new(), |s| format!("{package}{}", s.1)),
        }
    }

    /// Returns the CQL name: `text`, `frozen<list<int>>`, `tuple<int, text>`; a class without CQL
    /// name is in quotes.
    pub fn cql_name(&self) -> String {
        let bare = self.bare_cql_name();
        match self {
            Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Tuple(_) | Type::Udt(_) => {
                format!("frozen<{bare}>")
            }
            _ => bare,
        }
    }

    /// Returns the CQL name without an enclosing `frozen`.
    fn bare_cql_name(&self) -> String {
        match self {
            Type::Reversed(of) => of.cql_name(),
            Type::List(of) => format!("list<{}>", of.cql_name()),
            Type::Set(of) => format!("set<{}>", of.cql_name()),
            Type::Map(of) => format!("map<{}, {}>", of.0.cql_name(), of.1.cql_name()),
            Type::Tuple(of) => {
                let names: Vec<_> = of.iter().map(Type::cql_name).collect();
                format!("tuple<{}>", names.join(", "))
            }
            Type::Udt(u) => u.name.clone(),
            // Elements of a vector are not separate cells, so `frozen` is not shown, except for a
            // tuple.
            Type::Vector(of, count) if matches!(**of, Type::Tuple(_)) => {
                format!("vector<{}, {count}>", of.cql_name())
            }
            Type::Vector(of, count) => format!("vector<{}, {count}>", of.bare_cql_name()),
            Type::Composite(_) | Type::Dynamic(_) | Type::Custom(_) => {
                format!("'{}'", self.full_name())
            }
            simple => {
                SIMPLE.iter().find(|s| s.0 == *simple).map_or(String::new(), |s| s.2.to_owned())
            }
        }
    }
}

struct TypeNameParser<'a> {
    rest: &'a str,
    registry: &'a Registry,
    depth: usize,
}

impl<'a> TypeNameParser<'a> {
    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "._-$+&".contains(c)))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        word
    }

    fn eat(&mut self, what: char) -> bool {
        let after = self.rest.trim_start().strip_prefix(what);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn one(&mut self) -> Result<Type, TypeError> {
        let class = self.word();
        if class.is_empty() {
            // A missing name is BytesType, like a missing attribute.
            return if self.rest.is_empty() && self.depth == 0 {
                Ok(Type::Bytes)
            } else {
                error("Syntax error: a type is missing")
            };
        }
        let short = class.strip_prefix(PACKAGE).unwrap_or(class);
        if let Some(simple) = SIMPLE.iter().find(|s| s.1 == short) {
            return self.properties(simple.0.clone());
        }
        if PARAMETRIC.contains(&short) {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return error(format!("types may be nested at most {MAX_DEPTH} deep"));
            }
            let parsed = match short {
                "UserType" => self.user_type(),
                "VectorType" => self.vector(),
                "DynamicCompositeType" => self.dynamic(),
                _ => self.parametric(short),
            };
            self.depth -= 1;
            return parsed;
        }
        match self.registry.get(class) {
            Some(custom) => self.properties(Type::Custom(custom.clone())),
            None => error(format!(
                "Unable to load class {}; known are {}",
                with_package(class),
                self.registry.names().join(", ")
            )),
        }
    }

    /// Parses the optional properties of a type without parameters: `()`, `(reversed)`,
    /// `(reversed=true)`, `(reversed=false)`.
    fn properties(&mut self, of: Type) -> Result<Type, TypeError> {
        let mut is_reversed = false;
        if self.eat('(') {
            while !self.eat(')') {
                let property = self.word();
                let value = if self.eat('=') { self.word() } else { "true" };
                match (property, value) {
                    ("reversed", "true") => is_reversed = true,
                    ("reversed", "false") => is_reversed = false,
                    ("reversed", other) => {
                        return error(format!("reversed is true or false, and not '{other}'"));
                    }
                    (other, _) => {
                        return error(format!("unknown property '{other}': there is reversed"));
                    }
                }
                if !self.eat(',') && !self.rest.trim_start().starts_with(')') {
                    return error(format!(
                        "Syntax error in the properties of {}: expected ',' or ')'",
                        of.name()
                    ));
                }
            }
        }
        Ok(if is_reversed { Type::Reversed(Arc::new(of)) } else { of })
    }

    /// Parses `(alias=>type,…)`, or nothing.
    fn dynamic(&mut self) -> Result<Type, TypeError> {
        let wrong = || {
            TypeError(
                "Syntax error in the parameters of DynamicCompositeType: expected (alias=>type,…), each alias one letter or digit"
                    .into(),
            )
        };
        let mut aliases = BTreeMap::new();
        if self.eat('(') {
            while !self.eat(')') {
                let &[alias] = self.word().as_bytes() else { return Err(wrong()) };
                if !(self.eat('=') && self.eat('>')) {
                    return Err(wrong());
                }
                let of = self.one()?;
                if matches!(of.unreversed(), Type::Dynamic(_)) {
                    return error("a component of DynamicCompositeType can't be of that type");
                }
                aliases.insert(alias, of);
                if !self.eat(',') && !self.rest.trim_start().starts_with(')') {
                    return Err(wrong());
                }
            }
        }
        let custom = self.registry.custom().clone();
        Ok(Type::Dynamic(Arc::new(DynamicTypes { aliases, custom })))
    }

    fn parametric(&mut self, class: &str) -> Result<Type, TypeError> {
        let mut of = vec![];
        if self.eat('(') && !self.eat(')') {
            loop {
                of.push(self.one()?);
                if self.eat(')') {
                    break;
                }
                if !self.eat(',') {
                    return error(format!(
                        "Syntax error in the parameters of {class}: expected ',' or ')'"
                    ));
                }
            }
        }
        let wanted = match class {
            "CompositeType" | "TupleType" => None,
            "MapType" => Some(2),
            _ => Some(1),
        };
        if wanted.map_or(of.is_empty(), |n| of.len() != n) {
            return error(format!("Nonsensical number of parameters of {class}: {}", of.len()));
        }
        let mut parts = of.into_iter();
        let mut next = || parts.next().unwrap_or(Type::Bytes);
        Ok(match class {
            "ReversedType" => match next() {
                Type::Reversed(twice) => (*twice).clone(),
                once => Type::Reversed(Arc::new(once)),
            },
            "FrozenType" => next(),
            "ListType" => Type::List(Arc::new(next())),
            "SetType" => Type::Set(Arc::new(next())),
            "MapType" => Type::Map(Arc::new((next(), next()))),
            "TupleType" => Type::Tuple(parts.collect()),
            _ => Type::Composite(parts.collect()),
        })
    }

    /// Parses `(type, number of elements)`.
    fn vector(&mut self) -> Result<Type, TypeError> {
        let wrong = || {
            TypeError(
                "Syntax error in the parameters of VectorType: expected (type,number of elements)"
                    .into(),
            )
        };
        if !self.eat('(') {
            return Err(wrong());
        }
        let element = self.one()?;
        let count = if self.eat(',') { self.word().parse().ok() } else { None };
        let count = count.filter(|n| *n > 0 && *n <= i32::MAX as u32).ok_or_else(wrong)?;
        if self.eat(')') { Ok(Type::Vector(Arc::new(element), count)) } else { Err(wrong()) }
    }

    /// Parses `(keyspace,hex of the name,hex of a field:type,…)`.
    fn user_type(&mut self) -> Result<Type, TypeError> {
        let wrong = || {
            TypeError(
                "Syntax error in the parameters of UserType: expected (keyspace,name,field:type,…)"
                    .into(),
            )
        };
        let text = |word: &str| {
            super::hex_to_bytes(word).ok().and_then(|b| String::from_utf8(b).ok()).ok_or_else(wrong)
        };
        if !self.eat('(') {
            return Err(wrong());
        }
        let keyspace = self.word().to_owned();
        if !self.eat(',') {
            return Err(wrong());
        }
        let name = text(self.word())?;
        let mut fields = vec![];
        while self.eat(',') {
            let field = text(self.word())?;
            if !self.eat(':') {
                return Err(wrong());
            }
            fields.push((field, self.one()?));
        }
        if !self.eat(')') {
            return Err(wrong());
        }
        Ok(Type::Udt(Arc::new(UserType { keyspace, name, fields })))
    }
}
