//! User-defined functions and aggregates. Words used only in these statements are not keywords, and
//! can be names elsewhere.

use super::CqlParser;
use super::rule::Rule;
use crate::syntax::ast::{
    AstName, CreateAggregate, CreateFunction, Drop, Overload, QualifiedName, Statement, TypeSyntax,
};
use crate::syntax::keyword::{Keyword, KeywordClass};
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    /// Parses `[OR REPLACE] FUNCTION` or `AGGREGATE` after `CREATE`; returns `None` for another
    /// word.
    pub(super) fn created_function(&mut self) -> Rule<Option<Statement<'a>>> {
        let or_replace = self.eat_kw(Keyword::Or);
        if or_replace {
            self.expect_word("REPLACE")?;
        }
        if self.eat_kw(Keyword::Function) {
            return self.create_function(or_replace).map(Statement::CreateFunction).map(Some);
        }
        if self.eat_kw(Keyword::Aggregate) {
            return self.create_aggregate(or_replace).map(Statement::CreateAggregate).map(Some);
        }
        if or_replace { self.unexpected() } else { Ok(None) }
    }

    fn create_function(&mut self, or_replace: bool) -> Rule<CreateFunction<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.defined_function()?;
        self.expect(Tok::LParen)?;
        let argument = |p: &mut Self| Ok((p.name("an argument")?, p.type_()?));
        let arguments = self.list_until(Tok::RParen, argument)?;
        let called_on_null = self.eat_word("CALLED");
        if !called_on_null {
            self.expect_word("RETURNS")?;
            self.expect_kw(Keyword::Null)?;
        }
        self.expect_kw(Keyword::On)?;
        self.expect_kw(Keyword::Null)?;
        self.expect_word("INPUT")?;
        self.expect_word("RETURNS")?;
        let result = self.type_()?;
        self.expect_word("LANGUAGE")?;
        let language = match self.token.kind {
            Tok::Ident => self.take_name().text,
            _ => return self.no_name("a language"),
        };
        self.expect_kw(Keyword::As)?;
        let body = self.string("a body in quotes")?;
        Ok(CreateFunction {
            or_replace,
            if_not_exists,
            name,
            arguments,
            called_on_null,
            result,
            language,
            body,
        })
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Rule<CreateAggregate<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.defined_function()?;
        let arguments = self.argument_types()?;
        self.expect_word("SFUNC")?;
        let state_function = self.function_word()?;
        self.expect_word("STYPE")?;
        let state = self.type_()?;
        let final_function =
            if self.eat_word("FINALFUNC") { Some(self.function_word()?) } else { None };
        let initial = if self.eat_word("INITCOND") { Some(self.term()?) } else { None };
        Ok(CreateAggregate {
            or_replace,
            if_not_exists,
            name,
            arguments,
            state_function,
            state,
            final_function,
            initial,
        })
    }

    /// Parses `FUNCTION` or `AGGREGATE` after `DROP`; returns `None` for another word.
    pub(super) fn dropped_function(&mut self) -> Rule<Option<Statement<'a>>> {
        let make = if self.eat_kw(Keyword::Function) {
            Statement::DropFunction
        } else if self.eat_kw(Keyword::Aggregate) {
            Statement::DropAggregate
        } else {
            return Ok(None);
        };
        let if_exists = self.if_exists()?;
        let name = self.defined_function()?;
        let arguments = if self.at(Tok::LParen) { Some(self.argument_types()?) } else { None };
        Ok(Some(make(Drop { if_exists, name: Overload { name, arguments } })))
    }

    /// Parses `(type, …)`, possibly empty.
    pub(super) fn argument_types(&mut self) -> Rule<Vec<TypeSyntax<'a>>> {
        self.expect(Tok::LParen)?;
        self.list_until(Tok::RParen, Self::type_)
    }

    /// Parses the name of a function that is not called here.
    pub(super) fn defined_function(&mut self) -> Rule<QualifiedName<'a>> {
        if !(Self::is_name(self.token.kind) && self.ahead.kind == Tok::Dot) {
            return Ok(QualifiedName { keyspace: None, name: self.function_word()? });
        }
        let keyspace = self.keyspace_name()?;
        self.bump();
        Ok(QualifiedName { keyspace: Some(keyspace), name: self.function_word()? })
    }

    fn function_word(&mut self) -> Rule<AstName<'a>> {
        match self.token.kind {
            Tok::Kw(Keyword::Token | Keyword::Count) => Ok(self.take_name()),
            Tok::Kw(k) if matches!(k.class(), KeywordClass::Name) => self.no_name("a function"),
            _ => self.name("a function"),
        }
    }
}
