//! Comparators defined by scripts, which are stored with the schema.
//!
//! Invariant: a script that a family uses never changes, because the family is sorted by it.

use std::sync::Arc;

use firn_kv::{Batch, Durability};

use super::Wide;
use crate::base::error::{Result, invalid};
use crate::schema::{COMPARATORS, ComparatorRecord, Schema, language_of};
use crate::types::{Registry, ScriptComparator, Type};

/// Maximum bytes of a script.
const MAX_SCRIPT: usize = 64 << 10;

impl Wide {
    /// Defines a comparator by a script. From now on it is a type that definitions can name, also
    /// in programs that open the store later. The script is stored; its syntax depends on the
    /// language.
    ///
    /// # Errors
    /// `InvalidRequest` for a class that has another script, is built in, or is used by a family
    /// already; for an unknown language; and for an invalid script.
    pub fn define_comparator(&self, class: &str, language: &str, script: &str) -> Result<()> {
        let _alone = self.shared.changes.lock();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$');
        if class.is_empty() || class.len() > 255 || !class.chars().all(is_name) {
            return Err(invalid(format!(
                "'{class}' is not a class name: use letters, digits, dots and underscores"
            )));
        }
        if Registry::is_built_in(class) {
            return Err(invalid(format!("the type {class} is built in: give another name")));
        }
        if script.len() > MAX_SCRIPT {
            return Err(invalid(format!("a script has at most {MAX_SCRIPT} bytes")));
        }
        let record = ComparatorRecord::new(language.to_owned(), script.to_owned());
        let key = format!("{COMPARATORS}{class}").into_bytes();
        if let Some(there) = self.store.schema_tree().get(&key)? {
            return match ComparatorRecord::read(&key, &there)? == record {
                true => Ok(()),
                false => Err(invalid(format!(
                    "the comparator {class} is there with another script: give the new one another name"
                ))),
            };
        }
        let before = self.state();
        if before.schema.registry().get(class).is_some() || uses(&before.schema, class) {
            return Err(invalid(format!(
                "the class {class} is that of a program already: give the script another name"
            )));
        }
        let Some(known) = language_of(&self.shared.languages, language) else {
            return Err(invalid(format!("this program has no language {language}")));
        };
        known.compile(script).map_err(|e| invalid(format!("the script of {class}: {e}")))?;
        let comparator = ScriptComparator::new(class, script, Some(known));
        let mut registry = Registry::clone(&self.registry());
        registry.register(Arc::new(comparator));
        let mut batch = Batch::new();
        self.store.put_record(&mut batch, &key, Some(&record.to_bytes()))?;
        self.store.db().with_durability(Durability::Power).write(batch)?;
        let registry = Arc::new(registry);
        *self.shared.registry.write() = registry.clone();
        *self.shared.state.write() = Arc::new(before.with_registry(registry));
        Ok(())
    }
}

/// Reports whether a family uses this type.
fn uses(schema: &Schema, class: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$');
    let names = |of: &Type| of.name().split(|c| !is_part(c)).any(|word| word == class);
    schema.families().any(|f| {
        let columns = f.columns().any(|c| names(c.validator()));
        names(f.comparator())
            || f.subcomparator().is_some_and(names)
            || names(f.key_validator())
            || names(f.default_validator())
            || columns
    })
}
