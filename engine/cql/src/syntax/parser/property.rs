//! Properties after `WITH`: names and kinds of values. The analysis checks the values.

use std::collections::BTreeSet;

use super::CqlParser;
use super::rule::{Expect, Rule};
use crate::syntax::ast::{Constant, ConstantKind, PropertyValue, TableProperty};
use crate::syntax::keyword::{Keyword, KeywordClass};
use crate::syntax::lexer::{CqlToken, Tok};

/// Object with properties.
#[derive(Clone, Copy)]
pub(super) enum PropertyOwner {
    Keyspace,
    Table,
    Index,
}

impl PropertyOwner {
    /// Returns the properties whose values are maps, and all others.
    fn known(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            PropertyOwner::Keyspace => (&["replication"], &["durable_writes"]),
            PropertyOwner::Table => (
                &["caching", "compaction", "compression", "extensions"],
                &[
                    "additional_write_policy",
                    "allow_auto_snapshot",
                    "bloom_filter_fp_chance",
                    "cdc",
                    "comment",
                    "crc_check_chance",
                    "dclocal_read_repair_chance",
                    "default_time_to_live",
                    "gc_grace_seconds",
                    "id",
                    "incremental_backups",
                    "max_index_interval",
                    "memtable",
                    "memtable_flush_period_in_ms",
                    "min_index_interval",
                    "read_repair",
                    "read_repair_chance",
                    "speculative_retry",
                ],
            ),
            PropertyOwner::Index => (&["options"], &[]),
        }
    }
}

/// Reports whether a release before 3.0, ScyllaDB or DSE has this property in this form.
fn is_foreign_property(of: PropertyOwner, name: &str, value: &PropertyValue<'_>) -> bool {
    let is_map = matches!(value, PropertyValue::Map(_));
    match (of, value) {
        (PropertyOwner::Table, PropertyValue::Constant(c)) if name == "caching" => {
            c.kind == ConstantKind::String
        }
        (PropertyOwner::Table, _) if is_map => {
            matches!(name, "cdc" | "nodesync" | "per_partition_rate_limit" | "tombstone_gc")
        }
        (PropertyOwner::Table, _) => matches!(
            name,
            "index_interval"
                | "paxos_grace_seconds"
                | "populate_io_cache_on_flush"
                | "replicate_on_write"
                | "synchronous_updates"
        ),
        (PropertyOwner::Keyspace, _) => is_map && name == "tablets",
        (PropertyOwner::Index, _) => false,
    }
}

impl<'a> CqlParser<'a> {
    /// Parses `property AND …`.
    pub(super) fn properties(&mut self, of: PropertyOwner) -> Rule<Vec<TableProperty<'a>>> {
        let mut out = Vec::new();
        loop {
            self.property(of, &mut out)?;
            if !self.eat_kw(Keyword::And) {
                return Ok(out);
            }
        }
    }

    /// Parses one property and appends it.
    pub(super) fn property(
        &mut self,
        of: PropertyOwner,
        to: &mut Vec<TableProperty<'a>>,
    ) -> Rule<()> {
        let token = self.token;
        let name = self.name("a property")?;
        self.expect(Tok::Eq)?;
        let value = self.property_value()?;
        let (maps, others) = of.known();
        let is_map = matches!(value, PropertyValue::Map(_));
        let is_foreign = is_foreign_property(of, &name.text, &value);
        if to.iter().any(|p| p.name == name) {
            return self.fail(token, format!("Multiple definition for property '{}'", name.text));
        }
        if maps.contains(&&*name.text) && !is_map && !is_foreign {
            return self.fail(
                token,
                format!("Invalid value for property '{}'. It should be a map.", name.text),
            );
        }
        if others.contains(&&*name.text) && is_map && !is_foreign {
            return self.fail(
                token,
                format!("Invalid value for property '{}'. It should be a string", name.text),
            );
        }
        if !maps.contains(&&*name.text) && !others.contains(&&*name.text) && !is_foreign {
            return self.unknown_property(token, &name.text, &[maps, others].concat());
        }
        to.push(TableProperty { name, value });
        Ok(())
    }

    #[cold]
    fn unknown_property<T>(&self, token: CqlToken, name: &str, known: &[&str]) -> Rule<T> {
        self.fail_hint(
            token,
            format!("Unknown property '{name}'"),
            format!("there are {}", known.join(", ")),
        )
    }

    fn property_value(&mut self) -> Rule<PropertyValue<'a>> {
        if let Some(constant) = self.constant() {
            return Ok(PropertyValue::Constant(constant));
        }
        match self.token.kind {
            Tok::LBrace => {
                self.bump();
                let mut names = BTreeSet::new();
                self.list_until(Tok::RBrace, |p| {
                    let token = p.token;
                    let key = p.property_constant("name")?;
                    p.expect(Tok::Colon)?;
                    let value = p.property_constant("value")?;
                    if !names.insert(key.text.clone()) {
                        let text = format!("Multiple definition for property {}", key.text);
                        return p.fail(token, text);
                    }
                    Ok((key, value))
                })
                .map(PropertyValue::Map)
            }
            Tok::Kw(k) if k.class() != KeywordClass::Reserved => {
                Ok(PropertyValue::Word(self.take_name().text))
            }
            Tok::Question | Tok::Colon => self.no_marker("value"),
            _ => {
                self.note(Expect::What("a constant"));
                self.note(Expect::What("a map of constants"));
                self.unexpected()
            }
        }
    }

    fn property_constant(&mut self, what: &str) -> Rule<Constant<'a>> {
        if let Some(constant) = self.constant() {
            return Ok(constant);
        }
        if matches!(self.token.kind, Tok::Question | Tok::Colon) {
            return self.no_marker(what);
        }
        self.note(Expect::What("a constant"));
        self.unexpected()
    }

    #[cold]
    fn no_marker<T>(&self, what: &str) -> Rule<T> {
        self.fail(
            self.token,
            format!(
                "Invalid property {what}: {} (bind variables are not supported in DDL queries)",
                self.slice()
            ),
        )
    }
}
