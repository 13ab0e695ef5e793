//! Tests families with custom comparators through the `firn` binary: scripts, and types that only
//! another program knows.

#![allow(clippy::disallowed_methods, missing_docs, reason = "the tests make files of a user")]

use super::common;

use common::{Ran, Temp};
use std::fs;
use std::sync::Arc;

use firn_wide::{
    CfDef, Column, ColumnParent, Comparator, KsDef, Malformed, Options, Registry, TypeError, Wide,
};

const SCRIPT: &str = "fn encode(value) { if value.len() > 5 { throw \"too long\" } value.len() }";

fn names(shown: &str) -> Vec<&str> {
    shown.lines().filter_map(|l| l.strip_prefix("=> (column=")?.split(',').next()).collect()
}

#[test]
fn every_command_uses_a_family_that_a_script_sorts() {
    let temp = Temp::new("comparators", "script");
    fs::write(temp.path("len.rhai"), SCRIPT).unwrap();
    fs::write(temp.path("bad.rhai"), "fn order(value) { 1 }").unwrap();
    fs::write(temp.path("none.rhai"), "fn encode(value) {").unwrap();
    let define = |file: &str, name: &str| {
        temp.firn(&["define", "--comparator", &format!("com.example.{name}={file}")])
    };
    define("bad.rhai", "Bad").said(2, &["it defines no function `fn encode(value)"]);
    define("none.rhai", "None").said(2, &["the script of com.example.None"]);
    assert_eq!(define("len.rhai", "ByLength").good(), "comparator com.example.ByLength\n");
    define("len.rhai", "ByLength").good();
    fs::write(temp.path("other.rhai"), "fn encode(value) { 1 }").unwrap();
    define("other.rhai", "ByLength").said(2, &["is there with another script"]);

    let cli = |text: &str| temp.firn(&["cli", "-e", text]);
    cli("create keyspace K; use K; create column family F with comparator = 'com.example.ByLength(reversed=true)'
         and key_validation_class = UTF8Type and default_validation_class = UTF8Type;
         create column family Unknown with comparator = 'com.example.Nope';")
        .said(1, &["Unable to find abstract-type class", "--comparator NAME=FILE", "types::Registry"]);
    cli("use K; set F['r']['aaa'] = 'x'; set F['r']['b'] = 'x'; set F['r']['cc'] = 'x';").good();
    cli("use K; set F['r']['abcdef'] = 'x';").said(1, &["too long"]);
    assert_eq!(names(&cli("use K; get F['r'];").good()), ["aaa", "cc", "b"]);
    // A file names the comparator, in the same call and in later ones.
    fs::write(
        temp.path("f.xml"),
        "<ColumnFamily CompareWith=\"com.example.ByLength\" Name=\"G\"/>
         <ColumnFamily CompareWith=\"com.example.One\" Name=\"H\"/>",
    )
    .unwrap();
    let one = ["define", "f.xml", "--keyspace", "K", "--comparator", "com.example.One=other.rhai"];
    temp.firn(&one).good();
    temp.firn(&["define", "f.xml", "--keyspace", "K"]).good();
    let document = "G: { r: { ccc: 3, a: 1, bb: 2 } }, H: { r: { b: 2, a: 1 } }";
    Ran::of(temp.run("db", &["import", "-", "--keyspace", "K"], document.as_bytes())).good();
    let exported = temp.json(&["export", "--keyspace", "K", "--notation", "short"]);
    assert_eq!(exported["G"]["r"]["bb"], "2");
    let cql = temp.firn(&["cql", "-e", "SELECT column1 FROM \"K\".\"G\" WHERE key = 0x72"]).good();
    let (a, bb, ccc) = (cql.find(" a ("), cql.find(" bb ("), cql.find(" ccc ("));
    assert!(a.is_some() && a < bb && bb < ccc, "{cql}");
    temp.firn(&["verify"]).good();
}

/// Sorts names by their last letters.
struct ByEnd;

impl Comparator for ByEnd {
    fn name(&self) -> &str {
        "com.example.ByEnd"
    }
    fn validate(&self, _: &[u8]) -> Result<(), TypeError> {
        Ok(())
    }
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend(value.iter().rev());
        Ok(())
    }
    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend(form.iter().rev());
        Ok(())
    }
    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

#[test]
fn a_type_that_the_commands_do_not_know_leaves_all_other_families() {
    let temp = Temp::new("comparators", "unknown");
    {
        let mut registry = Registry::new();
        registry.register(Arc::new(ByEnd));
        let options = Options { registry: Arc::new(registry), ..Options::default() };
        let wide = Wide::open_with(temp.path("db"), options).unwrap();
        wide.system_add_keyspace(&KsDef::new("K")).unwrap();
        for (name, comparator) in [("Plain", "UTF8Type"), ("Own", "com.example.ByEnd")] {
            let comparator_type = comparator.to_owned();
            let text = "UTF8Type".to_owned();
            let (key, value) = (text.clone(), text);
            wide.system_add_column_family(&CfDef {
                comparator_type,
                key_validation_class: key,
                default_validation_class: value,
                ..CfDef::new("K", name)
            })
            .unwrap();
            let column = Column::new("ab", "v", 1);
            let keyspace = wide.keyspace("K").unwrap();
            keyspace.insert(b"r", &ColumnParent::new(name), &column).unwrap();
        }
        wide.close().unwrap();
    }
    let said =
        ["column family Own of keyspace K is of the type com.example.ByEnd", "types::Registry"];
    let shown = temp.firn(&["cli", "-k", "K", "-e", "get Plain['r']; show schema;"]).good();
    assert!(names(&shown) == ["ab"] && shown.contains("com.example.ByEnd"), "{shown}");
    temp.firn(&["cli", "-k", "K", "-e", "get Own['r'];"]).said(1, &said);
    let exported = temp.firn(&["export", "--keyspace", "K", "--notation", "short"]);
    let exported: serde_json::Value = serde_json::from_str(&exported.said(0, &said)).unwrap();
    assert_eq!(exported, serde_json::json!({"Plain": {"r": {"ab": "v"}}}));
    temp.firn(&["export", "--keyspace", "K", "--family", "Own"]).said(2, &said);
    let cql = |text: &str| temp.firn(&["cql", "-e", text]);
    assert!(cql("SELECT value FROM \"K\".\"Plain\"").good().contains(" v"));
    cql("SELECT * FROM \"K\".\"Own\"").said(1, &said[..1]);
    let mut options = firn_server::Options::directory(temp.path("db"));
    options.thrift = Some("127.0.0.1:0".parse().unwrap());
    options.address = "127.0.0.1:0".parse().unwrap();
    let server = firn_server::Server::start(options).unwrap();
    let address = server.thrift_address().unwrap().to_string();
    let at = firn_server::client::ClientOptions::new(address);
    let mut client = firn_server::client::FamilyClient::connect(&at).unwrap();
    client.set_keyspace("K").unwrap();
    let path = |family: &str| firn_wide::ColumnPath::new(family).column("ab");
    assert!(client.get(b"r", &path("Plain")).is_ok());
    let refused = client.get(b"r", &path("Own")).unwrap_err().to_string();
    assert!(refused.contains(said[0]), "{refused}");
    server.stop().unwrap();
    temp.firn(&["verify"]).good();
}
