//! Replication of keyspaces: the number of replicas for each data centre, and whether the cluster
//! has enough nodes.
//!
//! Invariant: the decision is made before anything is created, from the nodes that the cluster
//! lists, including those that are down.

use std::collections::BTreeMap;

use firn_cluster::Session;
use firn_cql::internals::syntax::ast::{PropertyValue, Statement};
use firn_cql::internals::syntax::parse;
use firn_cql::quote_if_needed;
use firn_table_events::cql_trouble;
use firn_tools::output::{Done, Failure, things};

/// A CQL replication map: `class` and the options of the strategy.
pub type ReplicationMap = BTreeMap<String, String>;
/// Number of nodes by data centre.
pub type DatacenterNodes = BTreeMap<String, usize>;

/// Returns the name of a strategy without the package.
fn strategy(map: &ReplicationMap) -> &str {
    map.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(class))
}

/// Parses a number of replicas: `3`, or `3/1`, of which one is transient.
fn factor(text: &str) -> Option<u64> {
    text.split('/').next()?.trim().parse().ok()
}

/// Returns the replicas by data centre; `None` stands for the whole cluster. Empty for a strategy
/// without numbers.
fn copies(map: &ReplicationMap, nodes: &DatacenterNodes) -> Vec<(Option<String>, u64)> {
    let all = map.get("replication_factor").and_then(|text| factor(text));
    match strategy(map) {
        "SimpleStrategy" if nodes.len() == 1 => {
            all.map(|n| (nodes.keys().next().cloned(), n)).into_iter().collect()
        }
        "SimpleStrategy" => all.map(|n| (None, n)).into_iter().collect(),
        "NetworkTopologyStrategy" => {
            let mut each: BTreeMap<String, u64> = BTreeMap::new();
            each.extend(all.into_iter().flat_map(|n| nodes.keys().map(move |dc| (dc.clone(), n))));
            let is_place = |key: &str| key != "class" && key != "replication_factor";
            let named = map.iter().filter(|(key, _)| is_place(key));
            each.extend(named.filter_map(|(dc, n)| Some((dc.clone(), factor(n)?))));
            each.retain(|_, n| *n > 0);
            each.into_iter().map(|(dc, n)| (Some(dc), n)).collect()
        }
        _ => vec![],
    }
}

/// Returns the reason why a cluster has too few nodes for a map. `None`: it has enough.
pub fn misfit(map: &ReplicationMap, nodes: &DatacenterNodes) -> Option<String> {
    let all: usize = nodes.values().sum();
    let known = || nodes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    copies(map, nodes).into_iter().find_map(|(dc, n)| {
        let copies = things(n, "copy", "copies");
        let (place, there) = match &dc {
            Some(dc) => match nodes.get(dc) {
                Some(there) => (format!("the data centre {dc}"), *there),
                None => {
                    return Some(format!(
                        "it asks for {copies} in the data centre {dc}, which the cluster does not have: it has {}",
                        known()
                    ));
                }
            },
            None => ("the cluster".to_owned(), all),
        };
        let nodes = things(there as u64, "node", "nodes");
        (n > there as u64).then(|| format!("it asks for {copies}, and {place} has {nodes}"))
    })
}

/// The result of checking a keyspace's replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationVerdict {
    /// The replication fits.
    Fits,
    /// The keyspace exists with more replicas than there are nodes.
    ThereWithTooMany(String),
}

/// Checks the replication of a keyspace: `wanted` for a new one, `there` of an existing one.
/// `asked`: whether the user requested `wanted`.
///
/// # Errors
/// Too few nodes for the replicas; an existing keyspace with other replicas than requested.
pub fn judge(
    keyspace: &str,
    wanted: &ReplicationMap,
    asked: bool,
    there: Option<&ReplicationMap>,
    nodes: &DatacenterNodes,
) -> Done<ReplicationVerdict> {
    let name = quote_if_needed(keyspace);
    let Some(there) = there else {
        return match misfit(wanted, nodes) {
            None => Ok(ReplicationVerdict::Fits),
            Some(why) => Err(Failure::with_next(
                format!("the keyspace {name} does not fit the cluster: {why}"),
                "--replication names another number of copies, or a map of data centres",
            )),
        };
    };
    if asked && copies(wanted, nodes) != copies(there, nodes) {
        return Err(Failure::with_next(
            format!(
                "the keyspace {name} is there with the replication {}, and --replication asks for {}",
                map_text(there),
                map_text(wanted)
            ),
            format!(
                "leave out --replication, or change it there first: ALTER KEYSPACE {name} WITH replication = {}",
                map_text(wanted)
            ),
        ));
    }
    Ok(misfit(there, nodes).map_or(ReplicationVerdict::Fits, ReplicationVerdict::ThereWithTooMany))
}

/// Formats a map in CQL.
fn map_text(map: &ReplicationMap) -> String {
    let class = format!("'class': '{}'", strategy(map));
    let others = map.iter().filter(|(key, _)| *key != "class");
    let others = others.map(|(key, value)| format!("'{key}': '{value}'"));
    format!("{{{}}}", std::iter::once(class).chain(others).collect::<Vec<_>>().join(", "))
}

/// Parses the map of a replication as returned by
/// [`definitions::replication`](crate::definitions::replication).
///
/// # Errors
/// Errors of the CQL parser.
pub fn replication_map(text: &str) -> Done<ReplicationMap> {
    let wrong = |why: &str| Failure::new(format!("--replication {text}: {why}"));
    let statement = format!("CREATE KEYSPACE k WITH replication = {text}");
    let parsed = parse(&statement).map_err(|e| wrong(&e.to_string()))?;
    let Statement::CreateKeyspace(made) = parsed.statement else { return Err(wrong("no map")) };
    let maps = made.properties.into_iter().filter_map(|property| match property.value {
        PropertyValue::Map(pairs) => Some(pairs),
        _ => None,
    });
    Ok(maps
        .flatten()
        .map(|(key, value)| (key.text.into_owned(), value.text.into_owned()))
        .collect())
}

/// Returns the replication of a keyspace at the cluster. `None`: the keyspace is missing.
///
/// # Errors
/// Errors of the cluster.
pub fn replication_there(session: &Session, keyspace: &str) -> Done<Option<ReplicationMap>> {
    let cql = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows = session.execute(cql, (keyspace,)).map_err(|e| cql_trouble(&e))?;
    let found: Vec<(ReplicationMap,)> = rows.typed().map_err(|e| cql_trouble(&e))?;
    Ok(found.into_iter().next().map(|row| row.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> ReplicationMap {
        replication_map(&crate::definitions::replication(text).unwrap()).unwrap()
    }

    fn nodes(of: &[(&str, usize)]) -> DatacenterNodes {
        of.iter().map(|(dc, n)| ((*dc).to_owned(), *n)).collect()
    }

    #[test]
    fn copies_need_as_many_nodes_in_each_data_centre() {
        let simple =
            |n: u16| map(&format!("{{'class': 'SimpleStrategy', 'replication_factor': {n}}}"));
        let named = |text: &str| map(&format!("{{'class': 'NetworkTopologyStrategy', {text}}}"));
        let two = nodes(&[("dc1", 2)]);
        let both = nodes(&[("dc1", 3), ("dc2", 1)]);
        for (wanted, there, why) in [
            (map("2"), &two, None),
            (map("5"), &two, Some("5 copies, and the data centre dc1 has 2 nodes")),
            (map("2"), &both, Some("2 copies, and the data centre dc2 has 1 node")),
            (simple(4), &both, None),
            (simple(5), &both, Some("5 copies, and the cluster has 4 nodes")),
            (named("'dc1': 3"), &both, None),
            (named("'dc1': 3, 'dc2': 2"), &both, Some("the data centre dc2 has 1 node")),
            (named("'replication_factor': 3, 'dc2': 1"), &both, None),
            (
                named("'dc3': 1"),
                &both,
                Some("dc3, which the cluster does not have: it has dc1, dc2"),
            ),
        ] {
            let found = misfit(&wanted, there);
            match why {
                None => assert_eq!(found, None, "{wanted:?}"),
                Some(why) => {
                    assert!(found.as_deref().is_some_and(|f| f.contains(why)), "{found:?}")
                }
            }
        }
    }

    #[test]
    fn what_is_asked_for_and_what_is_there_must_agree() {
        let two = nodes(&[("dc1", 2)]);
        let judged = |wanted: &str, asked, there: Option<&str>| {
            let there = there.map(map);
            judge("shop", &map(wanted), asked, there.as_ref(), &two)
        };
        let simple = "{'class': 'SimpleStrategy', 'replication_factor': 2}";
        assert_eq!(judged("2", true, None).unwrap(), ReplicationVerdict::Fits);
        assert_eq!(judged("2", true, Some("2")).unwrap(), ReplicationVerdict::Fits);
        assert_eq!(judged("2", true, Some(simple)).unwrap(), ReplicationVerdict::Fits);
        // The store's replication does not matter for an existing keyspace.
        assert_eq!(judged("1", false, Some("2")).unwrap(), ReplicationVerdict::Fits);
        let too_many = judged("5", false, Some("5")).unwrap();
        assert!(matches!(too_many, ReplicationVerdict::ThereWithTooMany(_)), "{too_many:?}");
        for (wanted, asked, there, why) in [
            ("5", true, None, "asks for 5 copies"),
            ("3", false, None, "asks for 3 copies"),
            ("1", true, Some("2"), "ALTER KEYSPACE shop WITH replication"),
        ] {
            let refused = format!("{:?}", judged(wanted, asked, there).unwrap_err());
            assert!(refused.contains(why), "{refused}");
        }
    }
}
