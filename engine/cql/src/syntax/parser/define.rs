//! Definitions: `CREATE`, `ALTER`, `DROP`; `DESCRIBE`.

use super::CqlParser;
use super::property::PropertyOwner;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{
    AlterKeyspace, AlterTable, AlterType, AstName, ColumnDefinition, CreateIndex, CreateKeyspace,
    CreateTable, CreateType, Describe, DescribedObject, Drop, IndexPartText, IndexTargetText,
    MaskSyntax, Pos, QualifiedName, SchemaObject, Statement, TableChange, TypeChange, TypeKind,
    TypeSyntax, lacks_parameters,
};
use crate::syntax::keyword::Keyword;
use crate::syntax::lexer::Tok;

impl<'a> CqlParser<'a> {
    pub(super) fn create(&mut self) -> Rule<Statement<'a>> {
        self.bump();
        if self.eat_kw(Keyword::Keyspace) || self.eat_kw(Keyword::Schema) {
            let if_not_exists = self.if_not_exists()?;
            let name = self.keyspace_name()?;
            self.expect_kw(Keyword::With)?;
            let properties = self.properties(PropertyOwner::Keyspace)?;
            return Ok(Statement::CreateKeyspace(CreateKeyspace {
                if_not_exists,
                name,
                properties,
            }));
        }
        if self.eat_table_word() {
            return self.create_table().map(Statement::CreateTable);
        }
        if self.eat_kw(Keyword::Type) {
            let if_not_exists = self.if_not_exists()?;
            let name = self.user_type()?;
            self.expect(Tok::LParen)?;
            let fields = self.definitions(|p| Ok((p.name("a field")?, p.type_()?)))?;
            return Ok(Statement::CreateType(CreateType { if_not_exists, name, fields }));
        }
        if self.eat_view_words()? {
            return self.create_view();
        }
        if let Some(made) = self.created_function()? {
            return Ok(made);
        }
        let custom = self.eat_kw(Keyword::Custom);
        if self.eat_kw(Keyword::Index) {
            return self.create_index(custom).map(Statement::CreateIndex);
        }
        if let Some(role) = self.role_definition(true)? {
            return Ok(Statement::CreateRole(role));
        }
        self.no_such_thing()
    }

    pub(super) fn alter(&mut self) -> Rule<Statement<'a>> {
        self.bump();
        if self.eat_kw(Keyword::Keyspace) || self.eat_kw(Keyword::Schema) {
            let if_exists = self.if_exists()?;
            let name = self.keyspace_name()?;
            self.expect_kw(Keyword::With)?;
            let properties = self.properties(PropertyOwner::Keyspace)?;
            return Ok(Statement::AlterKeyspace(AlterKeyspace { if_exists, name, properties }));
        }
        if self.eat_table_word() {
            let if_exists = self.if_exists()?;
            let name = self.table_name()?;
            return Ok(Statement::AlterTable(AlterTable {
                if_exists,
                name,
                change: self.table_change()?,
            }));
        }
        if self.eat_kw(Keyword::Type) {
            let if_exists = self.if_exists()?;
            let name = self.user_type()?;
            return Ok(Statement::AlterType(AlterType {
                if_exists,
                name,
                change: self.type_change()?,
            }));
        }
        if self.eat_view_words()? {
            return self.alter_view();
        }
        if let Some(role) = self.role_definition(false)? {
            return Ok(Statement::AlterRole(role));
        }
        self.no_such_thing()
    }

    pub(super) fn drop_statement(&mut self) -> Rule<Statement<'a>> {
        self.bump();
        if self.eat_kw(Keyword::Keyspace) || self.eat_kw(Keyword::Schema) {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropKeyspace(Drop { if_exists, name: self.keyspace_name()? }));
        }
        if self.eat_table_word() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropTable(Drop { if_exists, name: self.table_name()? }));
        }
        if self.eat_kw(Keyword::Index) {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropIndex(Drop { if_exists, name: self.index_name()? }));
        }
        if self.eat_kw(Keyword::Type) {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropType(Drop { if_exists, name: self.user_type()? }));
        }
        if self.eat_view_words()? {
            return self.drop_view();
        }
        if let Some(dropped) = self.dropped_function()? {
            return Ok(dropped);
        }
        if let Some(dropped) = self.dropped_role()? {
            return Ok(dropped);
        }
        self.no_such_thing()
    }

    /// Refuses `ADD IDENTITY …` with its own message.
    #[cold]
    pub(super) fn add(&mut self) -> Rule<Statement<'a>> {
        self.bump();
        self.no_such_thing()
    }

    /// Refuses `CREATE`, `ALTER`, `DROP` or `ADD` of an unsupported kind of object.
    #[cold]
    fn no_such_thing<T>(&mut self) -> Rule<T> {
        const UNKNOWN: [(&str, &str); 2] =
            [("trigger", "triggers"), ("identity", "identities of certificates")];
        let unknown = UNKNOWN.iter().find(|u| self.slice().eq_ignore_ascii_case(u.0));
        match unknown {
            Some((_, what)) => self.fail(self.token, format!("There are no {what} here")),
            None => self.unexpected(),
        }
    }

    /// Parses definitions up to `)`. All but the first may be omitted, as in `(a int,)`.
    fn definitions<T>(&mut self, mut item: impl FnMut(&mut Self) -> Rule<T>) -> Rule<Vec<T>> {
        let mut out = vec![item(self)?];
        loop {
            if self.eat(Tok::RParen) {
                return Ok(out);
            }
            self.expect(Tok::Comma)?;
            if !self.at(Tok::Comma) && !self.at(Tok::RParen) {
                out.push(item(self)?);
            }
        }
    }

    fn create_table(&mut self) -> Rule<CreateTable<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect(Tok::LParen)?;
        let (mut columns, mut primary_keys) = (Vec::new(), Vec::new());
        self.definitions(|p| {
            if p.at_kw(Keyword::Primary) {
                primary_keys.push(p.primary_key()?);
            } else {
                columns.push(p.column_definition(true)?);
            }
            Ok(())
        })?;
        let (properties, compact_storage, clustering_order) = self.table_options()?;
        Ok(CreateTable {
            if_not_exists,
            name,
            columns,
            primary_keys,
            properties,
            compact_storage,
            clustering_order,
        })
    }

    /// Parses `name type [STATIC] [MASKED WITH …] [PRIMARY KEY]`.
    fn column_definition(&mut self, may_be_key: bool) -> Rule<ColumnDefinition<'a>> {
        let name = self.name("a column")?;
        let of = self.type_()?;
        // The statement ends within its columns, so the parameters of a type may be missing.
        if may_be_key
            && self.at(Tok::End)
            && let TypeKind::User(name) = &of.kind
            && let Some(hint) = lacks_parameters(&name.name.text)
        {
            self.note(Expect::Tok(Tok::Lt));
            return self.unexpected_with(Some(hint.to_owned()));
        }
        let is_static = self.eat_kw(Keyword::Static);
        let mask = if self.at_word("masked") { Some(self.mask()?) } else { None };
        let primary_key = may_be_key && self.eat_words(&[Keyword::Primary, Keyword::Key])?;
        Ok(ColumnDefinition { name, of, is_static, mask, primary_key })
    }

    /// Parses `MASKED WITH function(…)`, or `DEFAULT` for the native function.
    fn mask(&mut self) -> Rule<MaskSyntax<'a>> {
        self.expect_word("masked")?;
        self.expect_kw(Keyword::With)?;
        if self.at_kw(Keyword::Default) && self.ahead.kind != Tok::LParen {
            let at = Pos(self.bump().start);
            let [keyspace, name] =
                ["system", "mask_default"].map(|text| AstName { text: text.into(), at });
            let function = QualifiedName { keyspace: Some(keyspace), name };
            return Ok(MaskSyntax { function, arguments: vec![] });
        }
        let function = self.defined_function()?;
        self.expect(Tok::LParen)?;
        Ok(MaskSyntax { function, arguments: self.list_until(Tok::RParen, Self::term)? })
    }

    fn table_change(&mut self) -> Rule<TableChange<'a>> {
        if self.eat_kw(Keyword::Add) {
            let if_not_exists = self.if_not_exists()?;
            let columns = self.one_or_parenthesised(|p| p.column_definition(false))?;
            return Ok(TableChange::Add { if_not_exists, columns });
        }
        if self.eat_kw(Keyword::Drop) {
            if (self.token.kind, self.ahead.kind)
                == (Tok::Kw(Keyword::Compact), Tok::Kw(Keyword::Storage))
            {
                self.bump();
                self.bump();
                return Ok(TableChange::DropCompactStorage);
            }
            let if_exists = self.if_exists()?;
            let columns = self.one_or_parenthesised(|p| p.name("a column"))?;
            let timestamp = if self.eat_words(&[Keyword::Using, Keyword::Timestamp])? {
                if self.token.kind != Tok::Integer {
                    self.note(Expect::What("an integer"));
                    return self.unexpected();
                }
                self.constant()
            } else {
                None
            };
            return Ok(TableChange::Drop { if_exists, columns, timestamp });
        }
        if self.eat_kw(Keyword::Rename) {
            let if_exists = self.if_exists()?;
            return Ok(TableChange::Rename { if_exists, pairs: self.renamings("a column")? });
        }
        if self.eat_kw(Keyword::Alter) {
            let if_exists = self.if_exists()?;
            let column = self.column()?;
            if self.at_word("masked") {
                let mask = Some(self.mask()?);
                return Ok(TableChange::Mask { if_exists, column, mask });
            }
            if self.eat_kw(Keyword::Drop) {
                self.expect_word("masked")?;
                return Ok(TableChange::Mask { if_exists, column, mask: None });
            }
            return Ok(TableChange::Retype { column, of: self.retyped()? });
        }
        if self.eat_kw(Keyword::With) {
            return self.properties(PropertyOwner::Table).map(TableChange::With);
        }
        self.unexpected()
    }

    fn type_change(&mut self) -> Rule<TypeChange<'a>> {
        if self.eat_kw(Keyword::Add) {
            let if_not_exists = self.if_not_exists()?;
            let field = self.name("a field")?;
            return Ok(TypeChange::Add { if_not_exists, field, of: self.type_()? });
        }
        if self.eat_kw(Keyword::Rename) {
            let if_exists = self.if_exists()?;
            return Ok(TypeChange::Rename { if_exists, pairs: self.renamings("a field")? });
        }
        if self.eat_kw(Keyword::Alter) {
            let field = self.name("a field")?;
            return Ok(TypeChange::Retype { field, of: self.retyped()? });
        }
        self.unexpected()
    }

    /// Parses `TYPE type`.
    fn retyped(&mut self) -> Rule<TypeSyntax<'a>> {
        self.expect_kw(Keyword::Type)?;
        self.type_()
    }

    fn one_or_parenthesised<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Rule<T>,
    ) -> Rule<Vec<T>> {
        if self.at(Tok::LParen) { self.parenthesised(item) } else { Ok(vec![item(self)?]) }
    }

    /// Parses `a TO b AND …`.
    fn renamings(&mut self, what: &'static str) -> Rule<Vec<(AstName<'a>, AstName<'a>)>> {
        let mut out = Vec::new();
        loop {
            let from = self.name(what)?;
            self.expect_kw(Keyword::To)?;
            out.push((from, self.name(what)?));
            if !self.eat_kw(Keyword::And) {
                return Ok(out);
            }
        }
    }

    fn create_index(&mut self, custom: bool) -> Rule<CreateIndex<'a>> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.at_kw(Keyword::On) { None } else { Some(self.name("an index")?) };
        self.expect_kw(Keyword::On)?;
        let table = self.table_name()?;
        let targets = self.parenthesised(Self::index_target)?;
        let class = if self.eat_kw(Keyword::Using) {
            Some(self.string("a class in quotes")?)
        } else {
            None
        };
        let properties = if self.eat_kw(Keyword::With) {
            self.properties(PropertyOwner::Index)?
        } else {
            Vec::new()
        };
        Ok(CreateIndex { custom, if_not_exists, name, table, targets, class, properties })
    }

    fn index_target(&mut self) -> Rule<IndexTargetText<'a>> {
        let part = match self.token.kind {
            Tok::Kw(Keyword::Keys) => IndexPartText::Keys,
            Tok::Kw(Keyword::Values) => IndexPartText::Values,
            Tok::Kw(Keyword::Entries) => IndexPartText::Entries,
            Tok::Kw(Keyword::Full) => IndexPartText::Full,
            _ => IndexPartText::Simple,
        };
        if part == IndexPartText::Simple || self.ahead.kind != Tok::LParen {
            return Ok(IndexTargetText { part: IndexPartText::Simple, column: self.column()? });
        }
        self.bump();
        self.bump();
        let column = self.column()?;
        self.expect(Tok::RParen)?;
        Ok(IndexTargetText { part, column })
    }

    pub(super) fn describe(&mut self) -> Rule<Describe<'a>> {
        self.bump();
        let what = self.described()?;
        let with_internals = self.eat_words(&[Keyword::With, Keyword::Internals])?;
        Ok(Describe { what, with_internals })
    }

    fn described(&mut self) -> Rule<DescribedObject<'a>> {
        // Some of these words are also names. A bare name is meant if the required token does not
        // follow.
        let named = |p: &Self| Self::is_name(p.ahead.kind);
        match self.token.kind {
            Tok::Kw(Keyword::Full) => {
                self.bump();
                self.expect_kw(Keyword::Schema)?;
                return Ok(DescribedObject::Schema { full: true });
            }
            Tok::Kw(Keyword::Schema) => {
                self.bump();
                return Ok(DescribedObject::Schema { full: false });
            }
            Tok::Kw(Keyword::Only) if self.ahead.kind == Tok::Kw(Keyword::Keyspace) => {
                self.bump();
                return self.described_keyspace(true);
            }
            Tok::Kw(Keyword::Keyspace) => return self.described_keyspace(false),
            Tok::Kw(Keyword::Table | Keyword::ColumnFamily) => {
                return self.described_one(SchemaObject::Table);
            }
            Tok::Kw(Keyword::Index) => return self.described_one(SchemaObject::Index),
            Tok::Kw(Keyword::Materialized) => {
                self.bump();
                if !self.at_kw(Keyword::View) {
                    return self.unexpected();
                }
                return self.described_one(SchemaObject::View);
            }
            Tok::Kw(Keyword::Type) if named(self) => return self.described_one(SchemaObject::Type),
            Tok::Kw(Keyword::Function) if named(self) => {
                return self.described_one(SchemaObject::Function);
            }
            Tok::Kw(Keyword::Aggregate) if named(self) => {
                return self.described_one(SchemaObject::Aggregate);
            }
            _ => {}
        }
        let list = match self.token.kind {
            _ if self.ahead.kind == Tok::Dot => None,
            Tok::Kw(Keyword::Cluster) => Some(DescribedObject::Cluster),
            Tok::Kw(Keyword::Keyspaces) => Some(DescribedObject::Keyspaces),
            Tok::Kw(Keyword::Tables | Keyword::ColumnFamilies) => {
                Some(DescribedObject::All(SchemaObject::Table))
            }
            Tok::Kw(Keyword::Types) => Some(DescribedObject::All(SchemaObject::Type)),
            Tok::Kw(Keyword::Functions) => Some(DescribedObject::All(SchemaObject::Function)),
            Tok::Kw(Keyword::Aggregates) => Some(DescribedObject::All(SchemaObject::Aggregate)),
            _ => None,
        };
        if let Some(list) = list {
            self.bump();
            return Ok(list);
        }
        self.qualified("a keyspace, table or index").map(DescribedObject::Any)
    }

    fn described_keyspace(&mut self, only: bool) -> Rule<DescribedObject<'a>> {
        self.bump();
        let name = if Self::is_name(self.token.kind) { Some(self.keyspace_name()?) } else { None };
        Ok(DescribedObject::Keyspace { only, name })
    }

    fn described_one(&mut self, kind: SchemaObject) -> Rule<DescribedObject<'a>> {
        self.bump();
        Ok(DescribedObject::One(kind, self.qualified("a name")?))
    }
}
