//! Types.

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    AstName, Native, Pos, QualifiedName, TypeKind, TypeSyntax, lacks_parameters,
};
use crate::syntax::keyword::{Keyword, KeywordClass};
use crate::syntax::lexer::Tok;

/// Names that user-defined types must not have: they are reserved for future types.
const RESERVED_TYPES: [&str; 6] = ["byte", "complex", "enum", "interval", "macaddr", "bitstring"];

impl<'a> CqlParser<'a> {
    pub(super) fn type_(&mut self) -> Rule<TypeSyntax<'a>> {
        let at = Pos(self.token.start);
        self.enter()?;
        let kind = self.type_kind()?;
        self.leave();
        Ok(TypeSyntax { at, kind })
    }

    fn type_kind(&mut self) -> Rule<TypeKind<'a>> {
        self.height = 1;
        let generic = self.ahead.kind == Tok::Lt;
        let kind = match self.token.kind {
            Tok::Kw(Keyword::Map) if generic => {
                self.open();
                let key = self.type_()?;
                let highest = self.height;
                self.expect(Tok::Comma)?;
                let value = self.type_()?;
                self.grow(highest.max(self.height))?;
                TypeKind::Map(Box::new((key, value)))
            }
            Tok::Kw(Keyword::Set) if generic => TypeKind::Set(self.element()?),
            Tok::Kw(Keyword::List) if generic => TypeKind::List(self.element()?),
            Tok::Kw(Keyword::Frozen) if generic => {
                let token = self.token;
                let inner = self.element()?;
                if matches!(inner.kind, TypeKind::Native(_) | TypeKind::Custom(_)) {
                    let only = "is only allowed on collections, tuples, and user-defined types";
                    return self.fail(token, format!("frozen<> {only} (got {inner})"));
                }
                TypeKind::Frozen(inner)
            }
            Tok::Kw(Keyword::Tuple) if generic => {
                self.open();
                let types = self.list(Self::type_)?;
                self.grow(self.height)?;
                TypeKind::Tuple(types)
            }
            Tok::Kw(Keyword::Vector) if generic => {
                let element = self.element()?;
                self.expect(Tok::Comma)?;
                TypeKind::Vector(element, self.dimension()?)
            }
            Tok::Kw(Keyword::Set) => {
                self.bump();
                self.note(Expect::Tok(Tok::Lt));
                return self.unexpected_with(lacks_parameters("set").map(str::to_owned));
            }
            Tok::Str | Tok::DollarStr => return self.string("a type").map(TypeKind::Custom),
            Tok::Kw(k) if k.class() == KeywordClass::Type && self.ahead.kind != Tok::Dot => {
                self.bump();
                return Ok(TypeKind::Native(native(k)));
            }
            _ => return Ok(TypeKind::User(Box::new(self.user_type()?))),
        };
        self.expect(Tok::Gt)?;
        Ok(kind)
    }

    /// Takes `word <`.
    fn open(&mut self) {
        self.bump();
        self.bump();
    }

    fn element(&mut self) -> Rule<Box<TypeSyntax<'a>>> {
        self.open();
        let element = self.type_()?;
        self.grow(self.height)?;
        Ok(Box::new(element))
    }

    fn dimension(&mut self) -> Rule<i32> {
        self.note(Expect::What("the number of elements"));
        if self.token.kind != Tok::Integer {
            return self.unexpected();
        }
        match self.slice().parse() {
            Ok(n) => {
                self.bump();
                Ok(n)
            }
            Err(_) => {
                self.fail(self.token, format!("a vector cannot have {} elements", self.slice()))
            }
        }
    }

    /// Parses a native type, as `CAST` requires.
    pub(super) fn native_type(&mut self) -> Rule<Native> {
        match self.token.kind {
            Tok::Kw(k) if k.class() == KeywordClass::Type => {
                self.bump();
                Ok(native(k))
            }
            _ => {
                self.note(Expect::What("a native type"));
                self.unexpected()
            }
        }
    }

    /// Parses the name of a user-defined type. Words that are native types must be quoted.
    pub(super) fn user_type(&mut self) -> Rule<QualifiedName<'a>> {
        if Self::is_name(self.token.kind) && self.ahead.kind == Tok::Dot {
            let keyspace = self.name("a keyspace")?;
            self.bump();
            return Ok(QualifiedName { keyspace: Some(keyspace), name: self.user_type_name()? });
        }
        Ok(QualifiedName { keyspace: None, name: self.user_type_name()? })
    }

    fn user_type_name(&mut self) -> Rule<AstName<'a>> {
        match self.token.kind {
            Tok::Kw(k) if !matches!(k.class(), KeywordClass::Free) && k != Keyword::Key => {
                return self.no_name("a type");
            }
            Tok::Ident if RESERVED_TYPES.contains(&self.slice().to_ascii_lowercase().as_str()) => {
                return self.fail(
                    self.token,
                    format!("Invalid (reserved) user type name {}", self.slice()),
                );
            }
            _ => {}
        }
        self.name("a type")
    }
}

fn native(keyword: Keyword) -> Native {
    let is_it = |native: &Native| native.word().eq_ignore_ascii_case(keyword.text());
    Native::ALL.into_iter().find(is_it).unwrap_or(Native::VarInt)
}
