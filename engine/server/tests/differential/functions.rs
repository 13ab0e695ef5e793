//! User-defined functions and aggregates. Their bodies are the only difference between both sides:
//! each has one in Firn's language and one in Cassandra's.

use std::borrow::Cow;

use firn_testkit::rng::Rng;

/// A function: name, argument type, the statement's head, and the text after LANGUAGE for both
/// sides.
struct UserFunction {
    name: &'static str,
    of: &'static str,
    head: &'static str,
    here: &'static str,
    there: &'static str,
}

const FUNCTIONS: [UserFunction; 7] = [
    UserFunction {
        name: "f_sign",
        of: "int",
        head: "f_sign (x int) RETURNS NULL ON NULL INPUT RETURNS int",
        here: "rhai AS 'if x > 0 { 1 } else if x < 0 { -1 } else { 0 }'",
        there: "java AS 'return x > 0 ? 1 : x < 0 ? -1 : 0;'",
    },
    UserFunction {
        name: "f_there",
        of: "int",
        head: "f_there (x int) CALLED ON NULL INPUT RETURNS boolean",
        here: "rhai AS 'x != ()'",
        there: "java AS 'return x != null;'",
    },
    UserFunction {
        name: "f_twice",
        of: "text",
        head: "f_twice (t text) RETURNS NULL ON NULL INPUT RETURNS text",
        here: "rhai AS 't + t'",
        there: "java AS 'return t + t;'",
    },
    UserFunction {
        name: "f_half",
        of: "double",
        head: "f_half (x double) RETURNS NULL ON NULL INPUT RETURNS double",
        here: "rhai AS 'x / 2.0'",
        there: "java AS 'return x / 2.0;'",
    },
    UserFunction {
        name: "f_long",
        of: "int",
        head: "f_long (x int) RETURNS NULL ON NULL INPUT RETURNS bigint",
        here: "rhai AS 'x * 1000000'",
        there: "java AS 'return 1000000L * x;'",
    },
    UserFunction {
        name: "f_null",
        of: "boolean",
        head: "f_null (x boolean) CALLED ON NULL INPUT RETURNS int",
        here: "rhai AS '()'",
        there: "java AS 'return null;'",
    },
    UserFunction {
        name: "f_step",
        of: "bigint",
        head: "f_step (s bigint, x int) CALLED ON NULL INPUT RETURNS bigint",
        here: "rhai AS 'if x == () { s } else { s % 1000003 * 3 + x }'",
        there: "java AS 'return x == null ? s : Long.valueOf(s % 1000003 * 3 + x);'",
    },
];

/// Aggregates over them: name, argument type, definition.
const AGGREGATES: [(&str, &str, &str); 2] = [
    ("a_fold", "int", "a_fold (int) SFUNC f_step STYPE bigint INITCOND 1"),
    ("a_none", "int", "a_none (int) SFUNC f_step STYPE bigint FINALFUNC f_end INITCOND 0"),
];

const END: UserFunction = UserFunction {
    name: "f_end",
    of: "bigint",
    head: "f_end (s bigint) CALLED ON NULL INPUT RETURNS text",
    here: "rhai AS 'if s == () || s == 0 { () } else { \"some\" }'",
    there: "java AS 'return s == null || s == 0 ? null : \"some\";'",
};

fn all() -> impl Iterator<Item = &'static UserFunction> {
    FUNCTIONS.iter().chain([&END])
}

/// Returns the statements that create all of them.
pub fn definitions() -> Vec<String> {
    let functions = all().map(|f| format!("CREATE FUNCTION {} LANGUAGE {}", f.head, f.here));
    let aggregates = AGGREGATES.iter().map(|(_, _, text)| format!("CREATE AGGREGATE {text}"));
    functions.chain(aggregates).collect()
}

/// Returns the name of a function with this argument type, sometimes of another one.
pub fn function_of(rng: &mut Rng, of: &str) -> Option<&'static str> {
    let odd = rng.one_in(40);
    let fits: Vec<_> = all().filter(|f| odd || f.of == of).map(|f| f.name).collect();
    rng.choose(&fits).copied()
}

/// Returns the name of an aggregate with this argument type, sometimes of another one.
pub fn aggregate_of(rng: &mut Rng, of: &str) -> Option<&'static str> {
    let odd = rng.one_in(40);
    let fits: Vec<_> = AGGREGATES.iter().filter(|a| odd || a.1 == of).map(|a| a.0).collect();
    rng.choose(&fits).copied()
}

/// Returns the statement with the function bodies of the other side.
pub fn spoken_there(cql: &str) -> Cow<'_, str> {
    match all().find(|f| cql.ends_with(f.here)) {
        Some(f) => Cow::Owned(cql.replace(f.here, f.there)),
        None => Cow::Borrowed(cql),
    }
}
