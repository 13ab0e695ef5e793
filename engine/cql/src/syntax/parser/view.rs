//! Materialized views: `CREATE`, `ALTER`, `DROP`.

use super::CqlParser;
use super::property::PropertyOwner;
use super::rule::Rule;
use crate::syntax::ast::{AlterView, CreateView, Drop, Statement};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    /// Takes `MATERIALIZED VIEW`, if it is next.
    pub(super) fn eat_view_words(&mut self) -> Rule<bool> {
        self.eat_words(&[Keyword::Materialized, Keyword::View])
    }

    pub(super) fn create_view(&mut self) -> Rule<Statement<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_kw(Keyword::As)?;
        self.expect_kw(Keyword::Select)?;
        let selection = if self.eat(Tok::Star) { Vec::new() } else { self.list(Self::selected)? };
        self.expect_kw(Keyword::From)?;
        let table = self.table_name()?;
        let relations = self.where_clause()?;
        if !self.at_kw(Keyword::Primary) {
            return self.unexpected();
        }
        let primary_key = self.primary_key()?;
        let token = self.token;
        let (properties, compact_storage, clustering_order) = self.table_options()?;
        if compact_storage {
            let text = "COMPACT STORAGE tables are not allowed starting with version 4.0";
            return self.fail(token, text.to_owned());
        }
        Ok(Statement::CreateView(CreateView {
            if_not_exists,
            name,
            selection,
            table,
            relations,
            primary_key,
            properties,
            clustering_order,
        }))
    }

    pub(super) fn alter_view(&mut self) -> Rule<Statement<'a>> {
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        self.expect_kw(Keyword::With)?;
        let properties = self.properties(PropertyOwner::Table)?;
        Ok(Statement::AlterView(AlterView { if_exists, name, properties }))
    }

    pub(super) fn drop_view(&mut self) -> Rule<Statement<'a>> {
        let if_exists = self.if_exists()?;
        Ok(Statement::DropView(Drop { if_exists, name: self.table_name()? }))
    }
}
