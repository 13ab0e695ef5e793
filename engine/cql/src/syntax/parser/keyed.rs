//! Common parts of table and view definitions: the primary key, and the options after `WITH`.

use super::CqlParser;
use super::property::PropertyOwner;
use super::rule::Rule;
use crate::syntax::ast::{Ordering, Pos, PrimaryKey, TableProperty};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    pub(super) fn primary_key(&mut self) -> Rule<PrimaryKey<'a>> {
        let at = Pos(self.bump().start);
        self.expect_kw(Keyword::Key)?;
        self.expect(Tok::LParen)?;
        let partition = if self.at(Tok::LParen) {
            self.parenthesised(|p| p.name("a column"))?
        } else {
            vec![self.name("a column")?]
        };
        let clustering =
            if self.eat(Tok::Comma) { self.list(|p| p.name("a column"))? } else { Vec::new() };
        self.expect(Tok::RParen)?;
        Ok(PrimaryKey { at, partition, clustering })
    }

    /// Parses `column ASC` or `column DESC`.
    fn clustering(&mut self) -> Rule<Ordering<'a>> {
        let column = self.name("a column")?;
        let descending = !self.eat_kw(Keyword::Asc);
        if descending {
            self.expect_kw(Keyword::Desc)?;
        }
        Ok(Ordering { column, nearest: None, descending })
    }

    /// Parses `[WITH …]`: returns the properties, whether `COMPACT STORAGE` is set, and the
    /// clustering order.
    #[allow(clippy::type_complexity)] // three results used only together
    pub(super) fn table_options(
        &mut self,
    ) -> Rule<(Vec<TableProperty<'a>>, bool, Vec<Ordering<'a>>)> {
        let (mut properties, mut compact_storage, mut clustering_order) =
            (Vec::new(), false, Vec::new());
        if self.eat_kw(Keyword::With) {
            loop {
                match (self.token.kind, self.ahead.kind) {
                    (Tok::Kw(Keyword::Compact), Tok::Kw(Keyword::Storage)) => {
                        self.bump();
                        self.bump();
                        compact_storage = true;
                    }
                    (Tok::Kw(Keyword::Clustering), Tok::Kw(Keyword::Order)) => {
                        self.bump();
                        self.bump();
                        self.expect_kw(Keyword::By)?;
                        clustering_order.extend(self.parenthesised(Self::clustering)?);
                    }
                    _ => self.property(PropertyOwner::Table, &mut properties)?,
                }
                if !self.eat_kw(Keyword::And) {
                    break;
                }
            }
        }
        Ok((properties, compact_storage, clustering_order))
    }
}
