//! Roles under torture. Each shard has a few, and the state of a role is one number, like the
//! version of a key.
//!
//! This module computes the effect of a statement on that number, and whether the store must refuse
//! it. The tests compare this with the store's answer. Other roles of a shard may be members of its
//! first role.

use std::collections::BTreeMap;

use firn_workload::rng::Rng;

use super::client::{StatementError, StatementResult, TortureClient};

/// Number of roles of a shard.
const ROLE_COUNT: u32 = 4;
/// Password of all roles.
const PASSWORD: &str = "torture";
/// Hash of the password, with a low cost.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuupL5sGOfTtb.Sh.C.bUuxlPRoZxGf7tq";
/// Role with all permissions, independent of the others.
pub const MASTER: (&str, &str) = ("master", PASSWORD);

/// Bits of a role's state.
const LOGIN: u64 = 1;
const SUPERUSER: u64 = 1 << 1;
const MEMBER: u64 = 1 << 2;
/// First bit of the [`RIGHTS`].
const FIRST_RIGHT: u32 = 3;

/// Permissions, each with its resource in a statement and in `system_auth`, and whether it allows
/// reading the rows.
const RIGHTS: [(&str, &str, &str, bool); 5] = [
    ("SELECT", "TABLE torture.rows", "data/torture/rows", true),
    ("MODIFY", "TABLE torture.rows", "data/torture/rows", false),
    ("SELECT", "KEYSPACE torture", "data/torture", true),
    ("SELECT", "ALL KEYSPACES", "data", true),
    ("DESCRIBE", "ALL ROLES", "roles", false),
];

/// States of the roles of a shard, by their numbers.
type RoleStates = BTreeMap<u32, u64>;

/// Effect of a statement on a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// `CREATE ROLE`, with these bits.
    Create(u64),
    /// `ALTER ROLE`, to these bits.
    Alter(u64),
    /// `DROP ROLE`.
    Drop,
    /// `GRANT` or `REVOKE` of one of [`RIGHTS`].
    Right { gives: bool, right: usize },
    /// `GRANT` or `REVOKE` of the shard's first role.
    Membership { gives: bool },
}

/// Returns the name of a role.
fn role_name(shard: u32, index: u32) -> String {
    format!("r{shard}_{index}")
}

/// Draws a role of a shard.
pub fn any_role(rng: &mut Rng) -> u32 {
    rng.below(u64::from(ROLE_COUNT)) as u32
}

/// Returns the statement that creates the role with all permissions.
pub fn make_master() -> String {
    let name = MASTER.0;
    format!(
        "CREATE ROLE IF NOT EXISTS {name} WITH HASHED PASSWORD = '{HASH}' AND LOGIN = true AND SUPERUSER = true"
    )
}

impl RoleChange {
    /// Draws a change of this role of a shard.
    pub fn draw(rng: &mut Rng, index: u32) -> RoleChange {
        let flags = |rng: &mut Rng| {
            let superuser = if rng.below(6) == 0 { SUPERUSER } else { 0 };
            superuser | if rng.below(4) > 0 { LOGIN } else { 0 }
        };
        match rng.below(10) {
            0..3 => RoleChange::Create(flags(rng)),
            3 => RoleChange::Alter(flags(rng)),
            4 => RoleChange::Drop,
            5..7 if index > 0 => RoleChange::Membership { gives: rng.below(3) > 0 },
            _ => RoleChange::Right {
                gives: rng.below(3) > 0,
                right: rng.below(RIGHTS.len() as u64) as usize,
            },
        }
    }

    /// Returns the change as a statement.
    pub fn statement(self, shard: u32, index: u32) -> String {
        let name = role_name(shard, index);
        let options = |bits: u64| {
            format!("LOGIN = {} AND SUPERUSER = {}", bits & LOGIN != 0, bits & SUPERUSER != 0)
        };
        let words = |gives| if gives { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        match self {
            RoleChange::Create(bits) => {
                format!("CREATE ROLE {name} WITH HASHED PASSWORD = '{HASH}' AND {}", options(bits))
            }
            RoleChange::Alter(bits) => format!("ALTER ROLE {name} WITH {}", options(bits)),
            RoleChange::Drop => format!("DROP ROLE {name}"),
            RoleChange::Right { gives, right } => {
                let ((verb, to), (what, on, ..)) = (words(gives), RIGHTS[right]);
                format!("{verb} {what} ON {on} {to} {name}")
            }
            RoleChange::Membership { gives } => {
                let ((verb, to), group) = (words(gives), role_name(shard, 0));
                format!("{verb} {group} {to} {name}")
            }
        }
    }

    /// Applies the change to the expected state. Returns `false` if the statement is refused, and
    /// changes nothing.
    pub fn apply(self, index: u32, roles: &mut RoleStates) -> bool {
        let has_group = roles.contains_key(&0);
        if let RoleChange::Create(bits) = self {
            let is_new = !roles.contains_key(&index);
            roles.entry(index).or_insert(bits);
            return is_new;
        }
        let Some(bits) = roles.get_mut(&index) else { return false };
        match self {
            RoleChange::Create(_) => {}
            RoleChange::Alter(flags) => *bits = *bits & !(LOGIN | SUPERUSER) | flags,
            RoleChange::Drop => {
                roles.remove(&index);
                if index == 0 {
                    roles.values_mut().for_each(|bits| *bits &= !MEMBER);
                }
            }
            RoleChange::Right { gives, right } => {
                let bit = 1 << (FIRST_RIGHT + right as u32);
                *bits = if gives { *bits | bit } else { *bits & !bit };
            }
            RoleChange::Membership { gives } => {
                if !has_group || (*bits & MEMBER != 0) == gives {
                    return false;
                }
                *bits ^= MEMBER;
            }
        }
        true
    }
}

/// Reports whether a role may read the rows after a login; `None` if it cannot log in.
pub fn may_read(index: u32, roles: &RoleStates) -> Option<bool> {
    let bits = roles.get(&index).copied().filter(|bits| bits & LOGIN != 0)?;
    let group = roles.get(&0).copied().filter(|_| bits & MEMBER != 0).unwrap_or(0);
    let reads = (FIRST_RIGHT..).zip(RIGHTS).filter(|(_, (.., reads))| *reads);
    let rights = reads.fold(SUPERUSER, |rights, (bit, _)| rights | 1 << bit);
    Some((bits | group) & rights != 0)
}

/// Logs in as a role; `None` if the login was refused.
pub fn log_in(
    client: &TortureClient,
    shard: u32,
    index: u32,
) -> StatementResult<Option<TortureClient>> {
    client.log_in(&role_name(shard, index), PASSWORD)
}

const ROLES_READ: &str = "SELECT role, can_login, is_superuser, member_of FROM system_auth.roles";
const RIGHTS_READ: &str = "SELECT role, resource, permissions FROM system_auth.role_permissions";

/// Returns the shard and number of a role.
fn parsed_name(name: &str) -> Option<(u32, u32)> {
    let (shard, index) = name.strip_prefix('r')?.split_once('_')?;
    Some((shard.parse().ok()?, index.parse().ok()?))
}

/// Reads the states of all roles of the store by shard and number, without the master role.
pub fn read_roles(client: &TortureClient) -> StatementResult<BTreeMap<(u32, u32), u64>> {
    let odd = |what: String| StatementError::Refused(-1, format!("there is an odd role: {what}"));
    let mut found = BTreeMap::new();
    let roles = client.read(ROLES_READ, (), Some(50), |r| {
        let member_of: Option<Vec<String>> = r.at(3)?;
        Ok::<_, StatementError>((
            r.at::<String>(0)?,
            r.at::<bool>(1)?,
            r.at::<bool>(2)?,
            member_of.unwrap_or_default(),
        ))
    })?;
    for (name, login, superuser, member_of) in roles.into_iter().filter(|r| r.0 != MASTER.0) {
        let Some((shard, index)) = parsed_name(&name) else { return Err(odd(name)) };
        let mut bits = if login { LOGIN } else { 0 } | if superuser { SUPERUSER } else { 0 };
        match &*member_of {
            [] => {}
            [group] if *group == role_name(shard, 0) => bits |= MEMBER,
            other => return Err(odd(format!("{name} is a member of {other:?}"))),
        }
        found.insert((shard, index), bits);
    }
    let rights = client.read(RIGHTS_READ, (), Some(50), |r| {
        let words: Option<Vec<String>> = r.at(2)?;
        Ok::<_, StatementError>((r.at::<String>(0)?, r.at::<String>(1)?, words.unwrap_or_default()))
    })?;
    for (name, path, words) in rights.into_iter().filter(|r| r.0 != MASTER.0) {
        let role = parsed_name(&name).and_then(|role| found.get_mut(&role));
        // The role was dropped or created between the two statements.
        let Some(bits) = role else { continue };
        for word in words {
            let known = RIGHTS.iter().position(|(w, _, p, _)| *w == word && *p == path);
            let Some(right) = known else {
                return Err(odd(format!("{name} has {word} on {path}")));
            };
            *bits |= 1 << (FIRST_RIGHT + right as u32);
        }
    }
    Ok(found)
}

/// Describes a role's state.
pub fn describe_role(index: u32, bits: u64) -> String {
    let flags = [(LOGIN, "login"), (SUPERUSER, "superuser"), (MEMBER, "member")];
    let flags = flags.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| (*word).to_owned());
    let rights = (FIRST_RIGHT..).zip(RIGHTS).filter(|(bit, _)| bits & (1 << bit) != 0);
    let rights = rights.map(|(_, (what, on, ..))| format!("{what} ON {on}"));
    let all: Vec<String> = flags.chain(rights).collect();
    format!("role {index} with [{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use firn_cql::Session;

    use super::*;

    #[test]
    fn what_is_expected_of_roles_is_what_statements_do() {
        let session = Session::in_memory().unwrap();
        for statement in [
            "CREATE KEYSPACE torture WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE torture.rows (id int PRIMARY KEY)",
            &make_master(),
        ] {
            session.execute(statement, ()).unwrap();
        }
        let client = TortureClient::session(session);
        let (mut rng, mut roles, mut refused) = (Rng::new(3, 7), RoleStates::new(), 0);
        for _ in 0..200 {
            let index = any_role(&mut rng);
            let change = RoleChange::draw(&mut rng, index);
            let done = client.execute(&change.statement(5, index));
            assert_eq!(done.is_ok(), change.apply(index, &mut roles), "{change:?}: {done:?}");
            refused += usize::from(done.is_err());
            let found = read_roles(&client).unwrap();
            let found: RoleStates =
                found.into_iter().map(|((_, index), bits)| (index, bits)).collect();
            assert_eq!(found, roles, "{change:?}");
            let own = log_in(&client, 5, index).unwrap();
            let may = own.map(|own| own.execute("SELECT * FROM torture.rows").is_ok());
            assert_eq!(may, may_read(index, &roles), "{}", describe_role(index, roles[&index]));
        }
        assert!((20..150).contains(&refused), "{refused}");
    }
}
