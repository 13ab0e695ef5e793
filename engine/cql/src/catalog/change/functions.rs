//! User-defined functions and aggregates.

use std::sync::Arc;

use super::{check_not_system_new, missing_keyspace};
use crate::catalog::function::{Signature, signature};
use crate::catalog::resolve::resolve;
use crate::catalog::{
    Catalog, ColumnType, KeyspaceEntry, Resource, StoredAggregate, StoredFunction, TableSchema,
};
use crate::error::{Error, Result, bail, bail_if, invalid};
use crate::script::{LANGUAGE, ScriptProgram};
use crate::syntax::ast::{
    CreateAggregate, CreateFunction, Drop, Overload, QualifiedName, TypeKind, TypeSyntax,
};

/// New catalog and signature of the dropped definition; `None` if nothing was dropped.
pub type DroppedOverload = Option<(Catalog, Signature)>;

fn check_directives(or_replace: bool, if_not_exists: bool) -> Result<()> {
    if or_replace && if_not_exists {
        bail!("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives");
    }
    Ok(())
}

/// Refuses `frozen<>` around a whole type, except a tuple, which is always frozen.
fn check_thawed(what: &str, of: &TypeSyntax<'_>) -> Result<()> {
    match &of.kind {
        TypeKind::Frozen(inner) if !matches!(inner.kind, TypeKind::Tuple(_)) => {
            Err(invalid!("{what} '{of}' cannot be frozen; remove frozen<> modifier from '{of}'"))
        }
        _ => Ok(()),
    }
}

fn check_language(language: &str) -> Result<()> {
    match language {
        LANGUAGE => Ok(()),
        "java" | "javascript" => Err(invalid!(
            "Functions in {language} are not run here; write the body in rhai: LANGUAGE rhai AS …"
        )),
        other => Err(invalid!(
            "Unknown language {other}; functions are written in rhai: LANGUAGE rhai AS …"
        )),
    }
}

fn types(home: &KeyspaceEntry, all: &[TypeSyntax<'_>]) -> Result<Vec<ColumnType>> {
    all.iter().map(|of| resolve(home, of, false)).collect()
}

/// Returns `name(type, …)` as a statement writes it.
fn called(name: &str, first: Option<&TypeSyntax<'_>>, rest: &[TypeSyntax<'_>]) -> String {
    let all: Vec<String> = first.into_iter().chain(rest).map(ToString::to_string).collect();
    format!("{name}({})", all.join(", "))
}

impl Catalog {
    /// Executes `CREATE FUNCTION` in this keyspace. The flag reports whether it replaces a
    /// function.
    ///
    /// # Errors
    /// Errors of the definition or of the body.
    pub fn create_function(
        &self,
        statement: &CreateFunction<'_>,
        keyspace: &str,
    ) -> Result<Option<(Catalog, bool)>> {
        check_not_system_new(keyspace)?;
        check_directives(statement.or_replace, statement.if_not_exists)?;
        check_language(&statement.language)?;
        let name = &*statement.name.name.text;
        let names: Vec<String> =
            statement.arguments.iter().map(|(name, _)| name.text.to_string()).collect();
        bail_if!(
            names.iter().enumerate().any(|(i, name)| names[..i].contains(name)),
            "Duplicate argument names for given function {name} with argument names [{}]",
            names.join(", ")
        );
        let of: Vec<TypeSyntax<'_>> =
            statement.arguments.iter().map(|(_, of)| of.clone()).collect();
        of.iter().try_for_each(|of| check_thawed("Argument", of))?;
        check_thawed("Return type", &statement.result)?;
        let home = self.keyspace(keyspace).ok_or_else(|| missing_keyspace(keyspace))?;
        let (arguments, result) = (types(home, &of)?, resolve(home, &statement.result, false)?);
        let program = ScriptProgram::new(names, statement.body.to_string());
        program
            .check()
            .map_err(|why| invalid!("Could not compile function '{keyspace}.{name}': {why}"))?;
        let key = signature(name, &arguments);
        if home.aggregates.contains_key(&key) {
            bail!("Function '{name}' cannot replace an aggregate");
        }
        if let Some(there) = home.functions.get(&key) {
            if statement.if_not_exists {
                return Ok(None);
            }
            bail_if!(!statement.or_replace, "Function '{name}' already exists");
            if there.called_on_null != statement.called_on_null {
                let word = if statement.called_on_null { "CALLED" } else { "RETURNS NULL" };
                bail!("Function '{name}' must have {word} ON NULL INPUT directive");
            }
            if there.result != result {
                bail!(
                    "Cannot replace function '{name}', the new return type {result} is not compatible with the return type {} of existing function",
                    there.result
                );
            }
        }
        let function = StoredFunction {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            arguments,
            called_on_null: statement.called_on_null,
            result,
            language: statement.language.to_string(),
            program,
        };
        let mut home = (**home).clone();
        let replaces = home.functions.insert(key, Arc::new(function)).is_some();
        Ok(Some((self.with_keyspace(home), replaces)))
    }

    /// Executes `CREATE AGGREGATE` in this keyspace. `value` evaluates the initial state, which has
    /// this type. The flag reports whether it replaces an aggregate.
    ///
    /// # Errors
    /// Errors of the definition; those of `value`.
    pub fn create_aggregate(
        &self,
        statement: &CreateAggregate<'_>,
        keyspace: &str,
        value: impl FnOnce(&ColumnType) -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<(Catalog, bool)>> {
        check_not_system_new(keyspace)?;
        check_directives(statement.or_replace, statement.if_not_exists)?;
        statement.arguments.iter().try_for_each(|of| check_thawed("Argument", of))?;
        check_thawed("State type", &statement.state)?;
        let name = &*statement.name.name.text;
        let home = self.keyspace(keyspace).ok_or_else(|| missing_keyspace(keyspace))?;
        let arguments = types(home, &statement.arguments)?;
        let state = resolve(home, &statement.state, false)?;
        let aggregate = StoredAggregate {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            arguments,
            state_function: statement.state_function.text.to_string(),
            state: state.clone(),
            final_function: statement.final_function.as_ref().map(|f| f.text.to_string()),
            result: state,
            initial: None,
        };
        let function = |key: &Signature, word: &str, text: String| {
            let missing = || invalid!("{word} function {keyspace}.{text} doesn't exist");
            let odd = || invalid!("{word} function {keyspace}.{text} isn't a scalar function");
            if home.aggregates.contains_key(key) {
                return Err(odd());
            }
            home.functions.get(key).ok_or_else(missing)
        };
        let shown = called(&aggregate.state_function, Some(&statement.state), &statement.arguments);
        let step = function(&aggregate.state_signature(), "State", shown.clone())?;
        bail_if!(
            step.result != aggregate.state,
            "State function {keyspace}.{shown} return type must be the same as the first argument type - check STYPE, argument and return types"
        );
        let mut aggregate = aggregate;
        if let Some(key) = aggregate.final_signature() {
            let shown = called(&key.0, Some(&statement.state), &[]);
            aggregate.result = function(&key, "Final", shown)?.result.clone();
        }
        if statement.initial.is_some() {
            aggregate.initial = value(&aggregate.state)?;
            let may_be_empty = matches!(
                aggregate.state.value_type,
                firn_wide::Type::Utf8 | firn_wide::Type::Ascii | firn_wide::Type::Bytes
            );
            if aggregate.initial.as_ref().is_some_and(Vec::is_empty) && !may_be_empty {
                bail!("INITCOND must not be empty for all types except TEXT, ASCII, BLOB");
            }
        }
        bail_if!(
            !step.called_on_null && aggregate.initial.is_none(),
            "Cannot create aggregate '{name}' without INITCOND because state function {keyspace}.{} does not accept 'null' arguments",
            aggregate.state_function
        );
        let key = aggregate.signature();
        bail_if!(home.functions.contains_key(&key), "Aggregate '{name}' cannot replace a function");
        if let Some(there) = home.aggregates.get(&key) {
            if statement.if_not_exists {
                return Ok(None);
            }
            bail_if!(!statement.or_replace, "Aggregate '{name}' already exists");
            bail_if!(
                there.result != aggregate.result,
                "Cannot replace aggregate '{name}', the new return type {} isn't compatible with the return type {} of existing function",
                aggregate.result,
                there.result
            );
        }
        let mut home = (**home).clone();
        let replaces = home.aggregates.insert(key, Arc::new(aggregate)).is_some();
        Ok(Some((self.with_keyspace(home), replaces)))
    }

    /// Executes `DROP FUNCTION` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, if there are several, or if an aggregate or a mask uses it.
    pub fn drop_function(
        &self,
        statement: &Drop<Overload<'_>>,
        keyspace: &str,
    ) -> Result<DroppedOverload> {
        let Some((home, key)) = self.dropped(statement, keyspace, "FUNCTION", "Function")? else {
            return Ok(None);
        };
        let uses = |a: &StoredAggregate| {
            a.state_signature() == key || a.final_signature().is_some_and(|f| f == key)
        };
        let users: Vec<String> = home
            .aggregates()
            .filter(|a| uses(a))
            .map(|a| format!("{keyspace}.{}", a.name))
            .collect();
        if !users.is_empty() {
            let shown = dropped_text(statement, keyspace);
            let users = users.join(", ");
            bail!("Function '{shown}' is still referenced by aggregates {users}");
        }
        let masks = |t: &TableSchema| {
            let mut all = t.columns.iter().filter_map(|c| c.mask.as_ref());
            all.any(|mask| mask.keyspace == keyspace && mask.signature() == key)
        };
        let users: Vec<&str> =
            home.tables.values().filter(|t| masks(t)).map(|t| &*t.name).collect();
        if !users.is_empty() {
            let shown = dropped_text(statement, keyspace);
            let users = users.join(", ");
            bail!("Function '{shown}' is still referenced by column masks in tables {users}");
        }
        let mut home = (**home).clone();
        home.functions.remove(&key);
        Ok(Some((self.without_function(home, &key), key)))
    }

    /// Executes `DROP AGGREGATE` in this keyspace.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, or if there are several.
    pub fn drop_aggregate(
        &self,
        statement: &Drop<Overload<'_>>,
        keyspace: &str,
    ) -> Result<DroppedOverload> {
        let found = self.dropped(statement, keyspace, "AGGREGATE", "Aggregate")?;
        let Some((home, key)) = found else { return Ok(None) };
        let mut home = (**home).clone();
        home.aggregates.remove(&key);
        Ok(Some((self.without_function(home, &key), key)))
    }

    fn without_function(&self, home: KeyspaceEntry, key: &Signature) -> Catalog {
        let gone = Resource::Function(home.name.clone(), key.0.clone(), key.1.clone());
        self.with_keyspace(home).without_permissions(|resource| *resource == gone)
    }

    /// Returns the keyspace and signature of the object to drop; `None` if it does not exist and
    /// `IF EXISTS` was given.
    fn dropped(
        &self,
        statement: &Drop<Overload<'_>>,
        keyspace: &str,
        word: &str,
        kind: &str,
    ) -> Result<Option<(&Arc<KeyspaceEntry>, Signature)>> {
        check_not_system_new(keyspace)?;
        let name = &*statement.name.name.name.text;
        let missing = || match statement.if_exists {
            true => Ok(None),
            false => Err(invalid!("{kind} '{}' doesn't exist", dropped_text(statement, keyspace))),
        };
        let Some(home) = self.keyspace(keyspace) else { return missing() };
        let named: Vec<&Signature> = home
            .functions
            .keys()
            .chain(home.aggregates.keys())
            .filter(|(n, _)| n == name)
            .collect();
        let key = match &statement.name.arguments {
            Some(arguments) => {
                arguments.iter().try_for_each(|of| check_thawed("Argument", of))?;
                signature(name, &types(home, arguments)?)
            }
            None if named.len() > 1 => return Err(several(word, name)),
            None => match named.first() {
                Some(key) => (*key).clone(),
                None => return missing(),
            },
        };
        let is_there = match word {
            "FUNCTION" => home.functions.contains_key(&key),
            _ => home.aggregates.contains_key(&key),
        };
        if is_there { Ok(Some((home, key))) } else { missing() }
    }

    /// Returns the functions and aggregates that a name in a statement may refer to, restricted by
    /// argument types if the statement has them.
    pub fn overloads(&self, of: &Overload<'_>, keyspace: &str) -> Vec<Resource> {
        let Some(home) = self.keyspace(keyspace) else { return vec![] };
        let wanted = of.arguments.as_ref().map(|all| types(home, all));
        let is_meant = |key: &&Signature| match &wanted {
            None => key.0 == of.name.name.text,
            Some(Ok(all)) => **key == signature(&of.name.name.text, all),
            Some(Err(_)) => false,
        };
        let all = home.functions.keys().chain(home.aggregates.keys()).filter(is_meant);
        all.map(|k| Resource::Function(keyspace.to_owned(), k.0.clone(), k.1.clone())).collect()
    }

    /// Returns the resource of a function or aggregate with these argument types, whether it exists
    /// or not.
    ///
    /// # Errors
    /// `Invalid` for an unknown type.
    pub fn function_resource(
        &self,
        keyspace: &str,
        name: &str,
        arguments: &[TypeSyntax<'_>],
    ) -> Result<Resource> {
        let home = self.keyspace(keyspace).ok_or_else(|| missing_keyspace(keyspace))?;
        let (name, types) = signature(name, &types(home, arguments)?);
        Ok(Resource::Function(keyspace.to_owned(), name, types))
    }

    /// Reports whether the function or aggregate exists.
    pub fn has_function(&self, resource: &Resource) -> bool {
        let Resource::Function(keyspace, name, types) = resource else { return false };
        let key = (name.clone(), types.clone());
        self.keyspace(keyspace).is_some_and(|home| {
            home.functions.contains_key(&key) || home.aggregates.contains_key(&key)
        })
    }
}

fn several(word: &str, name: &str) -> Error {
    invalid!(
        "'DROP {word} {name}' matches multiple function definitions; specify the argument types by issuing a statement like \
         'DROP {word} {name} (type, type, ...)'. You can use cqlsh 'DESCRIBE {word} {name}' command to find all overloads"
    )
}

/// Returns the object to drop for messages.
fn dropped_text(statement: &Drop<Overload<'_>>, keyspace: &str) -> String {
    let Overload { name: QualifiedName { name, .. }, arguments } = &statement.name;
    let name = format!("{keyspace}.{}", name.text);
    match arguments {
        Some(arguments) => called(&name, None, arguments),
        None => name,
    }
}
