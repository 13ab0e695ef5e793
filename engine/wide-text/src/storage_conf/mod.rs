//! `storage-conf.xml`, the configuration of the article's era (model 1.2, 2.9): keyspaces, and a
//! few settings of the store.
//!
//! A document is a `Storage`, or one of its parts: a `Keyspaces` or a `Keyspace`, as the article
//! prints it. Misplaced blanks in tags are repaired first (module `blanks`). Unknown elements, and
//! those without effect in Firn, give a [`ConfNote`], not an error.

mod blanks;
mod reader;
mod settings;

use std::sync::Arc;

use firn_wide::internals::schema::Schema;
use firn_wide::{CfDef, Error, KsDef, Registry, Result};
use roxmltree::{Document, Node, ParsingOptions};

pub use reader::ConfNote;
use reader::{ConfReader, text_of};
pub use settings::{CommitLogSync, ConfSettings};

/// Longest accepted text, in bytes.
const MAX_LEN: usize = 16 << 20;
/// Maximum number of elements, texts and comments.
const MAX_NODES: u32 = 1 << 20;

/// Contents of a `storage-conf.xml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageConf {
    /// The keyspaces with their column families: together a valid schema.
    pub keyspaces: Vec<KsDef>,
    /// The settings.
    pub settings: ConfSettings,
    /// Elements that are unknown or have no effect.
    pub notes: Vec<ConfNote>,
}

impl StorageConf {
    /// Parses a document whose outermost element is a `Storage`, a `Keyspaces` or a `Keyspace`.
    ///
    /// # Errors
    /// `Configuration`, with line and column, for an error of the XML or of a definition; for an
    /// unknown comparator, with the known ones.
    pub fn parse(text: &str, registry: &Arc<Registry>) -> Result<StorageConf> {
        let tidy = check_len(text).map(blanks::tidy)?;
        let document = document(&tidy, 0)?;
        let mut reader = ConfReader { registry, document: &document, shift: 0, notes: Vec::new() };
        let mut conf = StorageConf::default();
        conf.read(&mut reader, document.root_element())?;
        conf.notes = reader.notes;
        conf.notes.sort_by_key(|note| note.line);
        Ok(conf)
    }

    /// Parses `ColumnFamily` elements alone, as the article prints them, for this keyspace.
    ///
    /// # Errors
    /// As [`StorageConf::parse`].
    pub fn parse_families(
        text: &str,
        keyspace: &str,
        registry: &Arc<Registry>,
    ) -> Result<Vec<CfDef>> {
        const OPENING: &str = "<Keyspace>";
        let tidy = format!("{OPENING}{}</Keyspace>", check_len(text).map(blanks::tidy)?);
        let document = document(&tidy, OPENING.len() as u32)?;
        let reader = &mut ConfReader {
            registry,
            document: &document,
            shift: OPENING.len() as u32,
            notes: Vec::new(),
        };
        let mut def = KsDef::new(keyspace);
        let mut schema = Schema::new(Arc::clone(registry));
        schema = schema.add_keyspace(&def).map_err(configuration)?;
        for node in document.root_element().children().filter(Node::is_element) {
            if !node.has_tag_name("ColumnFamily") {
                return Err(reader.error(
                    node,
                    format_args!("{} is not a ColumnFamily", node.tag_name().name()),
                ));
            }
            let family = reader.family(node, keyspace, ConfSettings::default().gc_grace_seconds)?;
            schema = schema.add_family(&family).map_err(|e| reader.error(node, e))?;
            def.cf_defs.push(family);
        }
        Ok(def.cf_defs)
    }

    fn read(&mut self, reader: &mut ConfReader<'_>, root: Node<'_, '_>) -> Result<()> {
        let mut keyspaces = Vec::new();
        match root.tag_name().name() {
            "Storage" => {
                let mut sync = settings::Sync::default();
                for node in root.children().filter(Node::is_element) {
                    match node.tag_name().name() {
                        "Keyspaces" => keyspaces.extend(reader.parts(node, "Keyspace")),
                        _ => self.settings.read(reader, &mut sync, node)?,
                    }
                }
                self.settings.finish(&sync);
            }
            "Keyspaces" => keyspaces.extend(reader.parts(root, "Keyspace")),
            "Keyspace" => keyspaces.push(root),
            other => {
                return Err(reader.error(
                    root,
                    format_args!(
                        "a storage-conf.xml is a Storage, Keyspaces or Keyspace, not {other}"
                    ),
                ));
            }
        }
        let mut schema = Schema::new(Arc::clone(reader.registry));
        for node in keyspaces {
            let def = reader.keyspace(node, &self.settings)?;
            schema = schema
                .add_keyspace(&KsDef { cf_defs: Vec::new(), ..def.clone() })
                .map_err(|e| reader.error(node, e))?;
            let families = node.children().filter(|n| n.has_tag_name("ColumnFamily"));
            for (node, family) in families.zip(&def.cf_defs) {
                schema = schema.add_family(family).map_err(|e| reader.error(node, e))?;
            }
            self.keyspaces.push(def);
        }
        Ok(())
    }
}

fn check_len(text: &str) -> Result<&str> {
    if text.len() > MAX_LEN {
        return Err(Error::Configuration(format!(
            "storage-conf.xml has {} bytes; at most {MAX_LEN} are read",
            text.len()
        )));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn configuration(e: Error) -> Error {
    Error::Configuration(e.to_string())
}

/// Parses the XML; the first `shift` columns of the first line are not the user's.
fn document(text: &str, shift: u32) -> Result<Document<'_>> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|e| {
        let at = e.pos();
        // The parser's own text ends with the position.
        let text = e.to_string();
        let what = text.strip_suffix(&format!(" at {at}")).unwrap_or(&text);
        let column = if at.row == 1 { at.col.saturating_sub(shift).max(1) } else { at.col };
        Error::Configuration(format!("storage-conf.xml:{}:{column}: {what}", at.row))
    })
}

impl ConfReader<'_> {
    fn keyspace(&mut self, node: Node<'_, '_>, settings: &ConfSettings) -> Result<KsDef> {
        let Some(name) = node.attribute("Name") else {
            return Err(self.error(node, "Table name attribute is required"));
        };
        if name.eq_ignore_ascii_case("system") {
            return Err(
                self.error(node, "'system' is a reserved table name for Cassandra internals")
            );
        }
        let mut def = KsDef::new(name);
        let mut factor = settings.replication_factor;
        for part in node.children().filter(Node::is_element) {
            match part.tag_name().name() {
                "ColumnFamily" => {
                    def.cf_defs.push(self.family(part, name, settings.gc_grace_seconds)?)
                }
                "ReplicaPlacementStrategy" => def.strategy_class = text_of(part),
                "ReplicationFactor" => factor = self.number(part, 1..=u32::MAX)?,
                "EndPointSnitch" => {
                    self.note(part, "EndPointSnitch has no effect on one node of Firn".into())
                }
                other => self.note(part, format!("{other} is not known in Keyspace")),
            }
        }
        // This strategy has a factor for each data centre, in another file.
        def.strategy_options.clear();
        if !def.strategy_class.ends_with("DatacenterShardStrategy") {
            def.strategy_options.insert("replication_factor".into(), factor.to_string());
        }
        Ok(def)
    }

    fn family(
        &mut self,
        node: Node<'_, '_>,
        keyspace: &str,
        gc_grace_seconds: i32,
    ) -> Result<CfDef> {
        let Some(name) = node.attribute("Name") else {
            return Err(self.error(node, "ColumnFamily name attribute is required"));
        };
        let mut def = CfDef { gc_grace_seconds, ..CfDef::new(keyspace, name) };
        if let Some(given) = node.attribute("ColumnType") {
            let known =
                ["Standard", "Super"].into_iter().find(|known| known.eq_ignore_ascii_case(given));
            let Some(known) = known else {
                return Err(
                    self.error(node, format_args!("ColumnFamily {name} has invalid type {given}"))
                );
            };
            def.column_type = known.into();
        }
        if node.has_attribute("ColumnSort") {
            return Err(self.error(
                node,
                "ColumnSort is no longer an accepted attribute.  Use CompareWith instead.",
            ));
        }
        def.comparator_type = self.comparator(node, "CompareWith")?;
        if def.column_type == "Super" {
            def.subcomparator_type = Some(self.comparator(node, "CompareSubcolumnsWith")?);
        } else if node.has_attribute("CompareSubcolumnsWith") {
            return Err(self.error(
                node,
                format_args!(
                    "CompareSubcolumnsWith is only a valid attribute on super columnfamilies (not regular columnfamily {name})"
                ),
            ));
        }
        self.other_attributes(node, &mut def);
        for part in node.children().filter(Node::is_element) {
            match part.tag_name().name() {
                "Comment" => def.comment = text_of(part),
                other => self.note(part, format!("{other} is not known in ColumnFamily")),
            }
        }
        Ok(def)
    }
}
