//! Functions and aggregates of users. Their bodies are the only words that both sides do not share:
//! each has one in the language that is spoken here and one in that of the others.

use std::borrow::Cow;

use firn_testkit::rng::Rng;

/// A function: its name, the type that it takes, how it begins, and what follows its language, here
/// and there.
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

/// Aggregates over them: name, the type that each takes, and what makes it.
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

/// What makes all of them.
pub fn definitions() -> Vec<String> {
    let functions = all().map(|f| format!("CREATE FUNCTION {} LANGUAGE {}", f.head, f.here));
    let aggregates = AGGREGATES.iter().map(|(_, _, text)| format!("CREATE AGGREGATE {text}"));
    functions.chain(aggregates).collect()
}

/// The name of a function that takes this type, now and then of one that doesn't.
pub fn function_of(rng: &mut Rng, of: &str) -> Option<&'static str> {
    let odd = rng.one_in(40);
    let fits: Vec<_> = all().filter(|f| odd || f.of == of).map(|f| f.name).collect();
    rng.choose(&fits).copied()
}

/// The same of aggregates.
pub fn aggregate_of(rng: &mut Rng, of: &str) -> Option<&'static str> {
    let odd = rng.one_in(40);
    let fits: Vec<_> = AGGREGATES.iter().filter(|a| odd || a.1 == of).map(|a| a.0).collect();
    rng.choose(&fits).copied()
}

/// The statement with the bodies of the other side.
pub fn spoken_there(cql: &str) -> Cow<'_, str> {
    match all().find(|f| cql.ends_with(f.here)) {
        Some(f) => Cow::Owned(cql.replace(f.here, f.there)),
        None => Cow::Borrowed(cql),
    }
}
