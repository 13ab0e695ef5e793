//! Roles: logins, permissions, and refusals.

#![allow(clippy::disallowed_methods, reason = "it removes what it has made")]

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_cql::{RunOptions, Session, Values};
use firn_crash::{CrashEnv, Fault, FaultEnv, OpClass};
use firn_wide::{Options, Wide};

const SETUP: [&str; 9] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (a int PRIMARY KEY, v text)",
    "CREATE TABLE ks.other (a int PRIMARY KEY, v text)",
    "CREATE ROLE admin WITH PASSWORD = 'a''s' AND LOGIN = true AND SUPERUSER = true",
    "CREATE ROLE reader",
    "CREATE USER ann WITH PASSWORD 'ann'",
    "CREATE ROLE nobody WITH PASSWORD = 'x'",
    "GRANT SELECT ON ks.t TO reader",
    "GRANT reader TO ann",
];

fn session() -> Session {
    let session = Session::in_memory().unwrap();
    SETUP.iter().for_each(|cql| drop(session.execute(cql, ()).unwrap()));
    session
}

fn as_role(session: &Session, name: &str, password: &str) -> Session {
    let own = session.clone();
    own.log_in(name, password).unwrap();
    own
}

fn refused(session: &Session, cql: &str, wanted: &str) {
    match session.execute(cql, ()) {
        Ok(_) => panic!("{cql} is not refused"),
        Err(e) => assert!(e.to_string().contains(wanted), "{cql}: {e}"),
    }
}

fn json(session: &Session, cql: &str) -> Vec<String> {
    let rows = session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    let row = |r: firn_cql::Row<'_>| {
        (0..r.columns().len())
            .map(|i| {
                firn_cql::internals::values::literal(
                    &r.columns()[i].column_type.value_type,
                    r.bytes(i),
                )
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    rows.iter().map(row).collect()
}

#[test]
fn only_the_right_password_of_a_role_that_may_logs_in() {
    let session = session();
    for (name, password) in [
        ("ann", "Ann"),
        ("ann", ""),
        ("nobody", "x"),
        ("reader", ""),
        ("not there", "x"),
        ("admin", "a's "),
    ] {
        let error = session.clone().log_in(name, password).unwrap_err();
        assert_eq!(error.code(), 0x0100, "{name}");
        assert_eq!(error.to_string(), "Provided username and/or password are incorrect");
    }
    let ann = as_role(&session, "ann", "ann");
    assert_eq!((ann.role(), ann.clone().role(), session.role()), (Some("ann"), Some("ann"), None));
    assert!(ann.log_in("admin", "a's").is_err(), "one session is one role");
    // Cassandra's hashes are accepted: bcrypt of "U*U", from OpenBSD's tests.
    let known = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
    session
        .execute(&format!("CREATE ROLE old WITH HASHED PASSWORD = '{known}' AND LOGIN = true"), ())
        .unwrap();
    as_role(&session, "old", "U*U");
    refused(&session, "CREATE ROLE bad WITH HASHED PASSWORD = 'plain'", "Invalid hashed password");
    refused(
        &session,
        &format!("CREATE ROLE bad WITH PASSWORD = 'x' AND HASHED PASSWORD = '{known}'"),
        "mutually exclusive",
    );
    // The same password has another hash each time.
    session.execute("CREATE ROLE twin WITH PASSWORD = 'ann' AND LOGIN = true", ()).unwrap();
    let hashes =
        json(&session, "SELECT salted_hash FROM system_auth.roles WHERE role IN ('ann', 'twin')");
    assert!(hashes[0] != hashes[1] && hashes.iter().all(|h| h.starts_with("'$argon2id$")));
}

/// The permissions of a view are those of its base.
#[test]
fn who_may_do_something_with_a_table_may_do_it_with_its_views() {
    let session = session();
    let of = "SELECT * FROM ks.t WHERE a IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, a)";
    session.execute(&format!("CREATE MATERIALIZED VIEW ks.by_v AS {of}"), ()).unwrap();
    let of_other = of.replace("ks.t", "ks.other");
    session.execute(&format!("CREATE MATERIALIZED VIEW ks.other_v AS {of_other}"), ()).unwrap();
    let ann = as_role(&session, "ann", "ann");
    ann.execute("SELECT * FROM ks.by_v", ()).unwrap();
    refused(&ann, "SELECT * FROM ks.other_v", "no SELECT permission on <table ks.other>");
    session.execute("GRANT SELECT ON ks.other_v TO ann", ()).unwrap();
    refused(&ann, "SELECT * FROM ks.other_v", "no SELECT permission on <table ks.other>");
    let no_alter = "User ann has no ALTER permission on <table ks.t> or any of its parents";
    refused(&ann, &format!("CREATE MATERIALIZED VIEW ks.x AS {of}"), no_alter);
    refused(&ann, "ALTER MATERIALIZED VIEW ks.by_v WITH comment = 'x'", no_alter);
    refused(&ann, "DROP MATERIALIZED VIEW ks.by_v", no_alter);
    refused(
        &ann,
        "DROP MATERIALIZED VIEW ks.nosuch",
        "Materialized view 'ks.nosuch' doesn't exist",
    );
    session.execute("GRANT ALTER ON ks.t TO ann", ()).unwrap();
    ann.execute("ALTER MATERIALIZED VIEW ks.by_v WITH comment = 'x'", ()).unwrap();
    ann.execute("DROP MATERIALIZED VIEW ks.by_v", ()).unwrap();
    ann.execute(&format!("CREATE MATERIALIZED VIEW ks.by_v AS {of}"), ()).unwrap();
    assert!(
        json(&session, "LIST ALL PERMISSIONS ON ks.by_v OF ann")
            .iter()
            .all(|p| !p.contains("by_v"))
    );
}

#[test]
fn a_role_may_do_what_was_granted_to_it_and_nothing_else() {
    let session = session();
    let ann = as_role(&session, "ann", "ann");
    ann.execute("SELECT * FROM ks.t", ()).unwrap();
    ann.execute("SELECT * FROM system.local", ()).unwrap();
    ann.execute("SELECT * FROM system_schema.tables", ()).unwrap();
    let no_select = "User ann has no SELECT permission on <table ks.other> or any of its parents";
    refused(&ann, "SELECT * FROM ks.other", no_select);
    let no_modify = "User ann has no MODIFY permission on <table ks.t> or any of its parents";
    for (cql, wanted) in [
        ("INSERT INTO ks.t (a) VALUES (1)", no_modify),
        ("UPDATE ks.t SET v = 'x' WHERE a = 1", no_modify),
        ("DELETE FROM ks.t WHERE a = 1", no_modify),
        ("BEGIN BATCH INSERT INTO ks.t (a) VALUES (1) APPLY BATCH", no_modify),
        ("TRUNCATE ks.t", no_modify),
        ("SELECT * FROM system_auth.roles", "no SELECT permission on <table system_auth.roles>"),
        (
            "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "no CREATE permission on <all keyspaces>",
        ),
        ("CREATE TABLE ks.new (a int PRIMARY KEY)", "no CREATE permission on <keyspace ks>"),
        ("ALTER TABLE ks.t ADD x int", "no ALTER permission on <table ks.t>"),
        ("CREATE INDEX ON ks.t (v)", "no ALTER permission on <table ks.t>"),
        ("DROP TABLE ks.t", "no DROP permission on <table ks.t>"),
        ("DROP KEYSPACE ks", "no DROP permission on <keyspace ks>"),
        ("CREATE TYPE ks.x (a int)", "no CREATE permission on <keyspace ks>"),
        ("CREATE ROLE x", "no CREATE permission on <all roles>"),
        ("ALTER ROLE reader WITH LOGIN = true", "no ALTER permission on <role reader>"),
        ("ALTER ROLE admin WITH PASSWORD = 'mine'", "Only superusers can alter"),
        ("ALTER ROLE ann WITH SUPERUSER = true", "Only superusers are allowed to alter"),
        ("DROP ROLE reader", "no DROP permission on <role reader>"),
        ("DROP ROLE ann", "Cannot DROP primary role"),
        ("GRANT admin TO ann", "no AUTHORIZE permission on <role admin>"),
        ("GRANT MODIFY ON ks.t TO ann", "no AUTHORIZE permission on <table ks.t>"),
        ("REVOKE SELECT ON ks.t FROM reader", "no AUTHORIZE permission on <table ks.t>"),
        ("LIST ROLES OF admin", "not authorized to view"),
        ("LIST ALL PERMISSIONS OF admin", "not authorized to view"),
    ] {
        refused(&ann, cql, wanted);
        assert!(ann.execute(cql, ()).unwrap_err().code() != 0, "{cql}");
    }
    // Prepared statements, batches, and results of conditions are checked too.
    let put = ann.prepare("INSERT INTO ks.t (a) VALUES (?)").unwrap();
    assert_eq!(ann.run(&put, (1,), &RunOptions::default()).unwrap_err().code(), 0x2100);
    let bound = (1,).bind(put.markers()).unwrap();
    let batch = ann.batch(firn_cql::BatchKind::Logged, &[(&put, bound)], &RunOptions::default());
    assert_eq!(batch.unwrap_err().code(), 0x2100);
    session.execute("CREATE ROLE writer WITH PASSWORD = 'w' AND LOGIN = true", ()).unwrap();
    session.execute("GRANT MODIFY ON KEYSPACE ks TO writer", ()).unwrap();
    let writer = as_role(&session, "writer", "w");
    writer.execute("INSERT INTO ks.t (a, v) VALUES (1, 'x')", ()).unwrap();
    refused(&writer, "INSERT INTO ks.t (a) VALUES (1) IF NOT EXISTS", "no SELECT permission");
    // A revoked permission is gone at once, also for statements prepared before.
    let read = ann.prepare("SELECT * FROM ks.t").unwrap();
    assert_eq!(ann.run(&read, (), &RunOptions::default()).unwrap().len(), 1);
    session.execute("REVOKE reader FROM ann", ()).unwrap();
    assert_eq!(ann.run(&read, (), &RunOptions::default()).unwrap_err().code(), 0x2100);
    session.execute("GRANT SELECT ON ALL KEYSPACES TO ann", ()).unwrap();
    assert_eq!(ann.run(&read, (), &RunOptions::default()).unwrap().len(), 1);
    session.execute("DROP ROLE ann", ()).unwrap();
    assert_eq!(ann.run(&read, (), &RunOptions::default()).unwrap_err().code(), 0x2100);
    let admin = as_role(&session, "admin", "a's");
    admin.execute("DROP TABLE ks.other", ()).unwrap();
    refused(&admin, "ALTER ROLE admin WITH SUPERUSER = false", "your own superuser status");
}

#[test]
fn who_makes_something_may_do_everything_with_it() {
    let session = session();
    session.execute("GRANT CREATE ON KEYSPACE ks TO ann", ()).unwrap();
    session.execute("GRANT CREATE ON ALL ROLES TO ann", ()).unwrap();
    let ann = as_role(&session, "ann", "ann");
    for cql in [
        "CREATE TABLE ks.mine (a int PRIMARY KEY)",
        "INSERT INTO ks.mine (a) VALUES (1)",
        "SELECT * FROM ks.mine",
        "CREATE ROLE friend WITH PASSWORD = 'f' AND LOGIN = true",
        "GRANT SELECT ON ks.mine TO friend",
        "ALTER TABLE ks.mine ADD v int",
        "ALTER ROLE ann WITH PASSWORD = 'new'",
    ] {
        ann.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }
    refused(&ann, "CREATE ROLE boss WITH SUPERUSER = true", "Only superusers can create");
    // A role cannot grant permissions that it does not have.
    refused(&ann, "GRANT SELECT ON ks.other TO friend", "no AUTHORIZE permission");
    let friend = as_role(&session, "friend", "f");
    assert_eq!(friend.execute("SELECT * FROM ks.mine", ()).unwrap().len(), 1);
    as_role(&session, "ann", "new");
    ann.execute("DROP TABLE ks.mine", ()).unwrap();
    // A new table with the same name inherits no permissions.
    session.execute("CREATE TABLE ks.mine (a int PRIMARY KEY)", ()).unwrap();
    refused(&friend, "SELECT * FROM ks.mine", "no SELECT permission");
    refused(&ann, "SELECT * FROM ks.mine", "no SELECT permission");
}

#[test]
fn lists_and_system_tables_tell_who_may_do_what() {
    let session = session();
    session.execute("GRANT ALL ON KEYSPACE ks TO nobody", ()).unwrap();
    session
        .execute("REVOKE CREATE, ALTER, DROP PERMISSIONS ON KEYSPACE ks FROM nobody", ())
        .unwrap();
    assert_eq!(
        json(&session, "LIST ROLES"),
        [
            "'admin' true true {} 'ALL'",
            "'ann' false true {} 'ALL'",
            "'nobody' false false {} 'ALL'",
            "'reader' false false {} 'ALL'",
        ]
    );
    assert_eq!(
        json(&session, "LIST ROLES OF ann"),
        ["'ann' false true {} 'ALL'", "'reader' false false {} 'ALL'"]
    );
    assert_eq!(json(&session, "LIST USERS"), ["'admin' true 'ALL'", "'ann' false 'ALL'"]);
    let all = [
        "'nobody' 'nobody' '<keyspace ks>' 'SELECT'",
        "'nobody' 'nobody' '<keyspace ks>' 'MODIFY'",
        "'nobody' 'nobody' '<keyspace ks>' 'AUTHORIZE'",
        "'nobody' 'nobody' '<keyspace ks>' 'UNMASK'",
        "'nobody' 'nobody' '<keyspace ks>' 'SELECT_MASKED'",
        "'reader' 'reader' '<table ks.t>' 'SELECT'",
    ];
    assert_eq!(json(&session, "LIST ALL PERMISSIONS"), all);
    assert_eq!(json(&session, "LIST SELECT ON ks.t"), [all[0], all[5]]);
    assert_eq!(json(&session, "LIST SELECT ON ks.t NORECURSIVE"), [all[5]]);
    assert_eq!(json(&session, "LIST ALL OF ann"), [all[5]]);
    assert_eq!(
        json(&session, "SELECT JSON * FROM system_auth.role_permissions"),
        [
            r#"'{"role": "nobody", "resource": "data/ks", "permissions": ["AUTHORIZE", "MODIFY", "SELECT", "SELECT_MASKED", "UNMASK"]}'"#,
            r#"'{"role": "reader", "resource": "data/ks/t", "permissions": ["SELECT"]}'"#,
        ]
    );
    assert_eq!(
        json(&session, "SELECT JSON * FROM system_auth.role_members"),
        [r#"'{"role": "reader", "member": "ann"}'"#]
    );
    for (cql, wanted) in [
        ("CREATE ROLE ann", "ann already exists"),
        ("DROP ROLE nowhere", "nowhere doesn't exist"),
        ("GRANT ann TO reader", "ann is a member of reader"),
        ("GRANT reader TO ann", "ann is a member of reader"),
        ("REVOKE ann FROM reader", "reader is not a member of ann"),
        ("GRANT SELECT ON ks.nowhere TO ann", "<table ks.nowhere> doesn't exist"),
        ("GRANT CREATE ON ks.t TO ann", "does not support any of the requested permissions"),
        ("GRANT SELECT ON ROLE ann TO ann", "does not support any of the requested permissions"),
        ("GRANT EXECUTE ON ALL TABLES IN KEYSPACE ks TO ann", "type DataResource does not support"),
        ("GRANT SELECT ON ALL TABLES IN KEYSPACE no TO ann", "<all tables in no> doesn't exist"),
        ("CREATE ROLE '' WITH LOGIN = true", "can't be an empty string"),
        (
            "CREATE ROLE x WITH COLOUR = 'red'",
            "met COLOUR, expected hashed, password, login, superuser or access",
        ),
        ("CREATE ROLE x WITH LOGIN = true AND LOGIN = false", "Multiple definition"),
    ] {
        refused(&session, cql, wanted);
    }
    for cql in [
        "CREATE ROLE IF NOT EXISTS ann",
        "ALTER ROLE IF EXISTS nowhere WITH LOGIN = true",
        "DROP USER IF EXISTS nowhere",
        "CREATE ROLE \"Mixed\"",
        "ALTER USER 'Mixed' WITH PASSWORD 'm' SUPERUSER",
        "DROP ROLE 'Mixed'",
    ] {
        session.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }
}

#[test]
fn permissions_of_all_tables_of_a_keyspace_cover_its_tables_and_not_the_keyspace() {
    let session = session();
    // Permissions that do not apply to the resource are ignored if others apply.
    let given = "GRANT SELECT, DESCRIBE, CREATE ON ALL TABLES IN KEYSPACE ks TO ann";
    drop(session.execute(given, ()).unwrap());
    let ann = as_role(&session, "ann", "ann");
    ann.execute("SELECT * FROM ks.other", ()).unwrap();
    refused(&ann, "CREATE TABLE ks.u (a int PRIMARY KEY)", "no CREATE permission on <keyspace ks>");
    assert_eq!(
        json(&session, "LIST ALL ON ks.other OF ann"),
        ["'ann' 'ann' '<all tables in ks>' 'CREATE'", "'ann' 'ann' '<all tables in ks>' 'SELECT'"]
    );
    assert_eq!(
        json(&session, "SELECT resource FROM system_auth.role_permissions WHERE role = 'ann'"),
        ["'data/ks/*'"]
    );
    drop(session.execute("DROP KEYSPACE ks", ()).unwrap());
    assert!(json(&session, "LIST ALL OF ann").is_empty());
}

#[test]
fn roles_are_there_when_the_store_is_opened_again_and_are_no_part_of_the_schema() {
    let dir = std::env::temp_dir().join(format!("firn-cql-roles-{}", std::process::id()));
    let version = {
        let session = Session::open(&dir).unwrap();
        SETUP[..3].iter().for_each(|cql| drop(session.execute(cql, ()).unwrap()));
        let version = session.engine().schema_version();
        SETUP[3..].iter().for_each(|cql| drop(session.execute(cql, ()).unwrap()));
        assert_eq!(session.engine().schema_version(), version);
        version
    };
    let session = Session::open(&dir).unwrap();
    assert_eq!(session.engine().schema_version(), version);
    let ann = as_role(&session, "ann", "ann");
    ann.execute("SELECT * FROM ks.t", ()).unwrap();
    refused(&ann, "SELECT * FROM ks.other", "no SELECT permission");
    drop((ann, session));
    std::fs::remove_dir_all(dir).ok();
}

#[test]
fn whatever_of_a_definition_fails_its_maker_has_what_is_there() {
    // The password is "U*U".
    let setup = [
        SETUP[0],
        "CREATE ROLE admin WITH HASHED PASSWORD = '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW' AND LOGIN = true \
         AND SUPERUSER = true",
    ];
    let made = [
        ("CREATE ROLE friend", "roles/friend"),
        ("CREATE TABLE ks.mine (a int PRIMARY KEY)", "data/ks/mine"),
    ];
    let mut seen = BTreeSet::new();
    for failing in 0..12 {
        let env = FaultEnv::new(Arc::new(CrashEnv::new(failing)));
        let open = || {
            let wide = Wide::open_in(Arc::new(env.clone()), "db", Options::default()).unwrap();
            Session::new(wide).unwrap()
        };
        let session = open();
        setup.iter().for_each(|cql| drop(session.execute(cql, ()).unwrap()));
        let admin = as_role(&session, "admin", "U*U");
        env.only(&[OpClass::Write]);
        env.fail_nth(env.count() + failing, Fault::Enospc);
        let done = made.map(|(cql, _)| admin.execute(cql, ()).is_ok());
        env.heal();
        drop((admin, session));
        let session = open();
        for (is_done, (cql, path)) in done.into_iter().zip(made) {
            let has = format!(
                "SELECT resource FROM system_auth.role_permissions WHERE role = 'admin' AND resource = '{path}'"
            );
            let has = !session.execute(&has, ()).unwrap().is_empty();
            let is_there = session.execute(cql, ()).is_err();
            assert_eq!((is_there, has), (is_done, is_done), "{cql}, write {failing} fails");
            seen.insert((cql, is_done));
        }
    }
    assert_eq!(seen.len(), 4, "each was refused once, and done once: {seen:?}");
}

#[cfg(feature = "rhai")]
#[test]
fn functions_are_called_and_changed_by_who_may() {
    let session = session();
    for cql in [
        "CREATE FUNCTION ks.twice(v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'v * 2'",
        "CREATE FUNCTION ks.adds(s int, v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 's + v'",
        "CREATE AGGREGATE ks.total(int) SFUNC adds STYPE int INITCOND 0",
        "GRANT MODIFY ON ks.t TO ann",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let ann = as_role(&session, "ann", "ann");
    let no_execute =
        "User ann has no EXECUTE permission on <function ks.twice(int)> or any of its parents";
    for cql in [
        "SELECT ks.twice(a) FROM ks.t",
        "SELECT ks.total(ks.twice(a)) FROM ks.t",
        "SELECT a FROM ks.t WHERE a = ks.twice(1)",
        "INSERT INTO ks.t (a) VALUES (ks.twice(1))",
        "DELETE FROM ks.t WHERE a = ks.twice(1)",
        "BEGIN BATCH DELETE FROM ks.t WHERE a = 1; INSERT INTO ks.t (a) VALUES (ks.twice(1)) APPLY BATCH",
    ] {
        refused(&ann, cql, no_execute);
    }
    let define = "FUNCTION ks.mine(v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'v'";
    let no_create = "no CREATE permission on <all functions in ks> or any of its parents";
    refused(&ann, &format!("CREATE {define}"), no_create);
    let replace = "CREATE OR REPLACE FUNCTION ks.twice(v int) CALLED ON NULL INPUT RETURNS int LANGUAGE rhai AS 'v'";
    refused(&ann, replace, "no ALTER permission on <function ks.twice(int)>");
    refused(&ann, "DROP FUNCTION ks.twice", "no DROP permission on <function ks.twice(int)>");
    refused(&ann, "DROP AGGREGATE ks.total(int)", "no DROP permission on <function ks.total(int)>");
    refused(&ann, "GRANT EXECUTE ON FUNCTION ks.twice(int) TO reader", "no AUTHORIZE permission");
    let aggregate = "CREATE AGGREGATE ks.sums(int) SFUNC adds STYPE int INITCOND 0";
    refused(&ann, aggregate, no_create);
    session.execute("GRANT CREATE ON ALL FUNCTIONS IN KEYSPACE ks TO ann", ()).unwrap();
    refused(&ann, aggregate, "no EXECUTE permission on <function ks.adds(int, int)>");
    // The role that creates a function gets all permissions on it.
    for cql in [
        &format!("CREATE {define}"),
        &format!("CREATE OR REPLACE {define}"),
        "SELECT ks.mine(a) FROM ks.t",
        "GRANT EXECUTE ON FUNCTION ks.mine(int) TO reader",
        "DROP FUNCTION ks.mine",
        &format!("CREATE {define}"),
        "DROP FUNCTION ks.mine(int)",
    ] {
        ann.execute(cql, ()).unwrap_or_else(|e| panic!("{cql}: {e}"));
    }
    let granted = "SELECT resource FROM system_auth.role_permissions WHERE role = 'reader'";
    assert_eq!(json(&session, granted), ["'data/ks/t'"], "nothing is left of dropped objects");
    // An aggregate also needs permissions on its functions.
    session.execute("GRANT EXECUTE ON FUNCTION ks.total(int) TO ann", ()).unwrap();
    let total = ann.prepare("SELECT ks.total(a) FROM ks.t").unwrap();
    assert_eq!(ann.run(&total, (), &RunOptions::default()).unwrap_err().code(), 0x2100);
    session.execute("GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE ks TO ann", ()).unwrap();
    ann.run(&total, (), &RunOptions::default()).unwrap();
    ann.execute("INSERT INTO ks.t (a) VALUES (ks.twice(1))", ()).unwrap();
    assert_eq!(
        json(&session, "LIST ALL PERMISSIONS ON FUNCTION ks.total(int) OF ann"),
        [
            "'ann' 'ann' '<all functions in ks>' 'CREATE'",
            "'ann' 'ann' '<all functions in ks>' 'EXECUTE'",
            "'ann' 'ann' '<function ks.total(int)>' 'EXECUTE'",
        ]
    );
    for (cql, wanted) in [
        ("GRANT EXECUTE ON FUNCTION ks.none(int) TO ann", "<function ks.none(int)> doesn't exist"),
        ("GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE none TO ann", "<all functions in none>"),
        ("GRANT SELECT ON ALL FUNCTIONS TO ann", "does not support any of the requested"),
        ("GRANT EXECUTE ON KEYSPACE ks TO ann", "does not support any of the requested"),
        ("GRANT CREATE ON FUNCTION ks.total(int) TO ann", "does not support any of the requested"),
    ] {
        refused(&session, cql, wanted);
    }
    session.execute("DROP KEYSPACE ks", ()).unwrap();
    let left = "LIST ALL PERMISSIONS OF ann";
    assert_eq!(json(&session, left), Vec::<String>::new());
}
