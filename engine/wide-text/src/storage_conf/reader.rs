//! Elements of a configuration, and notes about ignored ones.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use firn_wide::internals::schema::{self, OWN_TYPES};

use firn_wide::{CfDef, Error, Registry, Result};
use roxmltree::{Document, Node};

/// An ignored element or attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfNote {
    /// Line, from 1.
    pub line: u32,
    /// The message.
    pub text: String,
}

pub(super) fn text_of(node: Node<'_, '_>) -> String {
    node.children()
        .filter_map(|n| if n.is_text() { n.text() } else { None })
        .collect::<String>()
        .trim()
        .to_owned()
}

pub(super) struct ConfReader<'a> {
    pub(super) registry: &'a Arc<Registry>,
    pub(super) document: &'a Document<'a>,
    /// Number of columns of the first line that are not the user's.
    pub(super) shift: u32,
    pub(super) notes: Vec<ConfNote>,
}

impl ConfReader<'_> {
    pub(super) fn error(&self, node: Node<'_, '_>, what: impl Display) -> Error {
        let at = self.document.text_pos_at(node.range().start);
        let column = if at.row == 1 { at.col.saturating_sub(self.shift).max(1) } else { at.col };
        Error::Configuration(format!("storage-conf.xml:{}:{column}: {what}", at.row))
    }

    pub(super) fn note(&mut self, node: Node<'_, '_>, text: String) {
        let line = self.document.text_pos_at(node.range().start).row;
        self.notes.push(ConfNote { line, text });
    }

    /// Returns the child elements, all of which should have this name; adds notes on others.
    pub(super) fn parts<'d, 'i>(&mut self, node: Node<'d, 'i>, name: &str) -> Vec<Node<'d, 'i>> {
        let (parts, others): (Vec<_>, Vec<_>) =
            node.children().filter(Node::is_element).partition(|n| n.has_tag_name(name));
        for other in others {
            self.note(
                other,
                format!("{} is not known in {}", other.tag_name().name(), node.tag_name().name()),
            );
        }
        parts
    }

    /// Parses the number in an element, within these bounds.
    pub(super) fn number<T: FromStr + PartialOrd + Display>(
        &self,
        node: Node<'_, '_>,
        bounds: RangeInclusive<T>,
    ) -> Result<T> {
        let text = text_of(node);
        match text.parse::<T>() {
            Ok(number) if bounds.contains(&number) => Ok(number),
            _ => {
                let (name, from, to) = (node.tag_name().name(), bounds.start(), bounds.end());
                Err(self.error(
                    node,
                    format_args!("{name} is a number from {from} to {to}, not {text:?}"),
                ))
            }
        }
    }

    /// Returns the type that an attribute names; `BytesType` if it is absent.
    pub(super) fn comparator(&self, node: Node<'_, '_>, attribute: &str) -> Result<String> {
        let Some(given) = node.attribute(attribute) else { return Ok("BytesType".into()) };
        match schema::lookup(given, self.registry) {
            Ok(_) => Ok(given.to_owned()),
            Err(unknown) => {
                let (class, known) = (unknown.class, unknown.known.join(", "));
                Err(self.error(
                    node,
                    format_args!(
                        "Unable to load class {class} for {attribute} attribute; there are {known}; {OWN_TYPES}"
                    ),
                ))
            }
        }
    }

    /// Reads the attributes other than name and types.
    pub(super) fn other_attributes(&mut self, node: Node<'_, '_>, def: &mut CfDef) {
        for attribute in node.attributes() {
            match attribute.name() {
                "Name" | "ColumnType" | "CompareWith" | "CompareSubcolumnsWith" => {}
                "Comment" => def.comment = attribute.value().to_owned(),
                known @ ("FlushPeriodInMinutes"
                | "KeysCached"
                | "KeysCachedFraction"
                | "RowsCached"
                | "KeyCacheSavePeriodInSeconds"
                | "RowCacheSavePeriodInSeconds") => {
                    self.note(
                        node,
                        format!("{known} of ColumnFamily {} has no effect on Firn", def.name),
                    );
                }
                other => self.note(
                    node,
                    format!("attribute {other} of ColumnFamily {} is not known", def.name),
                ),
            }
        }
    }
}
