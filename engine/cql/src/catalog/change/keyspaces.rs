//! Keyspaces: names and replication.

use std::collections::BTreeMap;

use super::{check_not_system_new, missing_keyspace};
use crate::catalog::{Catalog, DATACENTER, KeyspaceEntry, MAX_NAME, foreign_option, is_valid_name};
use crate::error::{Error, ErrorClass, Result, bail_if, configuration, skip_if};
use crate::syntax::ast::{
    AlterKeyspace, AstName, CreateKeyspace, Drop, PropertyValue, TableProperty,
};

const STRATEGIES: [&str; 4] =
    ["SimpleStrategy", "NetworkTopologyStrategy", "OldNetworkTopologyStrategy", "LocalStrategy"];
const LOCATOR: &str = "org.apache.cassandra.locator.";

impl Catalog {
    /// Executes `CREATE KEYSPACE`.
    ///
    /// # Errors
    /// `AlreadyExists`; `Invalid` for an invalid name; `Configuration` for an invalid strategy.
    pub fn create_keyspace(&self, statement: &CreateKeyspace<'_>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        check_not_system_new(name)?;
        bail_if!(
            !is_valid_name(name, MAX_NAME),
            "Keyspace name must not be empty, more than {MAX_NAME} characters long, or contain non-alphanumeric-underscore \
                 characters (got '{name}')"
        );
        let mut keyspace = KeyspaceEntry::new(name);
        apply_keyspace(&mut keyspace, &statement.properties)?;
        bail_if!(keyspace.replication.is_empty(), "Missing mandatory option 'replication'");
        if self.keyspace(name).is_some() {
            return skip_if(statement.if_not_exists, || Error::AlreadyExists {
                keyspace: name.to_owned(),
                table: None,
            });
        }
        Ok(Some(self.with_keyspace(keyspace)))
    }

    /// Executes `ALTER KEYSPACE`.
    ///
    /// # Errors
    /// `Invalid` if it does not exist; those of [`create_keyspace`](Catalog::create_keyspace).
    pub fn alter_keyspace(&self, statement: &AlterKeyspace<'_>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        super::super::check_not_system(name)?;
        let Some(before) = self.keyspace(name) else {
            return skip_if(statement.if_exists, || missing_keyspace(name));
        };
        let mut keyspace = (**before).clone();
        apply_keyspace(&mut keyspace, &statement.properties)?;
        Ok(Some(self.with_keyspace(keyspace)))
    }

    /// Executes `DROP KEYSPACE`.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Unauthorized` for a system keyspace.
    pub fn drop_keyspace(&self, statement: &Drop<AstName<'_>>) -> Result<Option<Catalog>> {
        let name = &*statement.name.text;
        super::super::check_not_system(name)?;
        if self.keyspace(name).is_none() {
            return skip_if(statement.if_exists, || missing_keyspace(name));
        }
        let mut next = self.next();
        next.keyspaces.remove(name);
        Ok(Some(next.without_permissions(|resource| resource.keyspace() == Some(name))))
    }
}

fn apply_keyspace(keyspace: &mut KeyspaceEntry, properties: &[TableProperty<'_>]) -> Result<()> {
    for property in properties.iter().filter(|p| foreign_option(&p.name.text).is_none()) {
        match &property.value {
            PropertyValue::Map(pairs) => {
                let map =
                    pairs.iter().map(|(k, v)| (k.text.to_string(), v.text.to_string())).collect();
                keyspace.replication = check_replication(keyspace, map)?;
            }
            PropertyValue::Constant(c) => keyspace.durable_writes = durable(&c.text)?,
            PropertyValue::Word(w) => keyspace.durable_writes = durable(w)?,
        }
    }
    Ok(())
}

fn durable(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(Error::refused(
            ErrorClass::Syntax,
            format!("Invalid boolean value {text} for 'durable_writes'"),
        )),
    }
}

const FACTOR: &str = "replication_factor";

/// Checks and completes the replication in `map`. The keyspace still has its previous replication.
fn check_replication(
    keyspace: &KeyspaceEntry,
    mut map: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let class =
        map.get("class").ok_or_else(|| configuration("Missing replication strategy class"))?;
    let full = if class.contains('.') { class.clone() } else { format!("{LOCATOR}{class}") };
    let short = full.strip_prefix(LOCATOR).filter(|s| STRATEGIES.contains(s));
    let Some(short) = short else {
        return Err(configuration!("Unable to find replication strategy class '{full}'"));
    };
    let factor = |text: &str| match text.parse::<i64>() {
        Ok(n) if n < 0 => Err(configuration!("Replication factor must be non-negative; found {n}")),
        Ok(_) => Ok(()),
        Err(_) => Err(configuration!("Replication factor must be numeric; found {text}")),
    };
    if short == "SimpleStrategy" {
        if !map.contains_key(FACTOR) {
            return Err(configuration(
                "SimpleStrategy requires a replication_factor strategy option.",
            ));
        }
        if let Some(other) = map.keys().find(|k| *k != "class" && *k != FACTOR) {
            return Err(configuration!(
                "Unrecognized strategy option {{{other}}} passed to SimpleStrategy for keyspace {}",
                keyspace.name
            ));
        }
    }
    // Any other key is the name of a datacenter. One that resembles this option is a misspelling.
    let is_misspelt = |name: &&String| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        *name != FACTOR && letters.collect::<String>().eq_ignore_ascii_case("replicationfactor")
    };
    if let Some(name) = map.keys().find(is_misspelt) {
        return Err(configuration!(
            "Unrecognized strategy option {{{name}}} passed to {short} for keyspace {}",
            keyspace.name
        ));
    }
    for (_, value) in map.iter().filter(|(k, _)| *k != "class") {
        factor(value)?;
    }
    if short == "NetworkTopologyStrategy" {
        spread(&mut map, &keyspace.replication);
    }
    map.insert("class".into(), full);
    Ok(map)
}

/// Applies a factor without a datacenter to each datacenter without a factor of its own, now or
/// before. If no factor is given, the previous one remains; the default is 1.
fn spread(map: &mut BTreeMap<String, String>, before: &BTreeMap<String, String>) {
    let says_nothing = map.len() == 1;
    let of_all = map.remove(FACTOR).or_else(|| {
        says_nothing.then(|| before.get(FACTOR).cloned().unwrap_or_else(|| "1".into()))
    });
    if let Some(factor) = of_all {
        let factor = before.get(DATACENTER).cloned().unwrap_or(factor);
        map.entry(DATACENTER.into()).or_insert(factor);
    }
}
