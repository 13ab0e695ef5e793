//! `advise`: the recommended policy is right for the question, what it says to paste is what the
//! engine and CQL take, and questions that say too little are refused.

use clap::Parser;
use compaction_sim::candidates::{PolicyCandidate, candidates};
use compaction_sim::cli::{SimCli, SimCommand};
use compaction_sim::commands::execute;
use compaction_sim::question::{KnownStore, StoreQuestion};
use firn_cql::Session;
use firn_kv::{Policy, TreeOptions};
use serde_json::Value;

fn print(args: &[&str]) -> (String, bool) {
    let cli = SimCli::try_parse_from([&["compaction-sim", "--color", "never"], args].concat());
    let mut out = vec![];
    let done = execute(&cli.unwrap(), &mut out);
    (String::from_utf8(out).unwrap(), done.is_ok())
}

fn advice(args: &str) -> Value {
    let args: Vec<&str> = args.split(' ').collect();
    serde_json::from_str(&print(&[&["--json", "advise"], &args[..]].concat()).0).unwrap()
}

fn chosen(advice: &Value) -> &Value {
    &advice["costs"][advice["chosen"].as_u64().unwrap() as usize]
}

fn question(args: &str) -> Result<StoreQuestion, String> {
    let cli =
        SimCli::try_parse_from(["compaction-sim", "advise"].into_iter().chain(args.split(' ')))
            .map_err(|e| e.to_string())?;
    let SimCommand::Advise(args) = cli.command else { unreachable!() };
    args.question(None).map_err(|e| format!("{e:?}"))
}

#[test]
fn windows_are_considered_where_everything_expires() {
    let advice = advice("--ingest 1M/s --ttl 200s --reads 100/s --memtable-size 1M --scans 10/s");
    let costs = advice["costs"].as_array().unwrap();
    let windows = costs.iter().find(|c| c["policy"].as_str().unwrap().starts_with("time-window:"));
    let windows = windows.unwrap();
    assert_eq!(windows["policy"], "time-window:window_secs=60:min_runs=4");
    let class = "'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', \
                 'compaction_window_size': 1";
    assert_eq!(windows["cql"], format!("compaction = {{{class}}}"));
    assert!(windows["unfit"].as_array().unwrap().is_empty());
    assert!(chosen(&advice)["unfit"].as_array().unwrap().is_empty());
    // Without an age they are not.
    let updates = question("--live 2T --ingest 20M/s").unwrap();
    assert!(candidates(&updates).iter().all(|c| !matches!(c.policy, Policy::TimeWindow(_))));
}

#[test]
fn what_does_not_fit_is_said_and_is_an_exit_code() {
    let args = "--live 200M --ingest 2M/s --memtable-size 1M --disk 190M";
    let args: Vec<&str> = args.split(' ').collect();
    let (text, good) = print(&[&["advise"], &args[..]].concat());
    assert!(!good && text.contains("no policy fits"), "{text}");
    assert!(text.contains("MiB of tables, of 190 MiB of disk"), "{text}");
}

#[test]
fn updates_under_a_small_disk_get_a_policy_that_holds_it() {
    let roomy = advice("--live 200M --ingest 2M/s --workload zipfian:0.9 --memtable-size 1M");
    let tight = "--live 200M --ingest 2M/s --workload zipfian:0.9 --memtable-size 1M --disk 330M";
    let tight = advice(tight);
    let peak = |advice: &Value| chosen(advice)["peak_bytes"].as_f64().unwrap();
    assert!(chosen(&tight)["unfit"].as_array().unwrap().is_empty(), "{tight:#}");
    assert!(peak(&tight) <= 330.0 * 1048576.0 && peak(&tight) <= peak(&roomy) * 1.01);
    // The front is a front: who writes more takes less room, or reads less.
    let costs = tight["costs"].as_array().unwrap();
    let front = tight["front"].as_u64().unwrap() as usize;
    assert!((1..costs.len()).contains(&front));
    let of = |i: usize, name: &str| costs[i][name].as_f64().unwrap();
    for (i, j) in (0..front).flat_map(|i| (0..front).map(move |j| (i, j))) {
        let names = ["write_amplification", "peak_bytes", "runs"];
        let beats = names.iter().all(|name| of(i, name) < 0.97 * of(j, name));
        assert!(!beats, "{i} beats {j}");
    }
    assert!(tight["doubled"].as_str().unwrap().len() > 10);
}

/// What is to be pasted is taken, and means the policy that was simulated.
#[test]
fn what_is_to_be_pasted_is_what_the_engine_and_cql_take() {
    let session = Session::in_memory().unwrap();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(&format!("CREATE KEYSPACE k WITH replication = {replication}"), ()).unwrap();
    let series = question("--ingest 50M/s --ttl 30d").unwrap();
    let minutes = question("--ingest 1M/s --ttl 20min").unwrap();
    let updates = question("--live 2T --ingest 20M/s --workload zipfian:0.9").unwrap();
    let mut in_cql = 0;
    let all: Vec<PolicyCandidate> =
        [&series, &minutes, &updates].into_iter().flat_map(candidates).collect();
    for (i, c) in all.iter().enumerate() {
        let text = c.options(64 << 20);
        let policy = text.split('"').nth(1).unwrap();
        assert_eq!(policy.parse::<Policy>().as_ref(), Ok(&c.policy));
        let options = TreeOptions {
            policy: c.policy.clone(),
            memtable_size: 64 << 20,
            table_size: c.table,
            ..TreeOptions::default()
        };
        options.check().unwrap();
        let Some(cql) = &c.cql else { continue };
        session
            .execute(&format!("CREATE TABLE k.t{i} (p int PRIMARY KEY) WITH {cql}"), ())
            .unwrap();
        let catalog = session.engine().catalog();
        let table = catalog.keyspace("k").unwrap().table(&format!("t{i}")).unwrap().clone();
        let tree = session.engine().family(&table).unwrap().tree().options();
        assert_eq!((&tree.policy, tree.table_size), (&c.policy, c.table), "{cql}");
        in_cql += 1;
    }
    assert!(in_cql >= 5);
}

#[test]
fn a_device_is_simulated_where_it_is_named() {
    let args = "--live 60M --ingest 2M/s --memtable-size 1M --ssd 400M --erase-block 8M";
    let worn = advice(&format!("{args} --endurance 10T"));
    let wear = |c: &Value| c["device_write_amplification"].as_f64();
    assert!(wear(chosen(&worn)).unwrap() >= 1.0 && chosen(&worn)["endurance_seconds"].is_number());
    let plain = advice("--live 60M --ingest 2M/s --memtable-size 1M");
    assert!(plain["costs"].as_array().unwrap().iter().all(|c| wear(c).is_none()));
    // What does not fit on the device is unfit, and no failure.
    let tight = advice(&args.replace("400M", "100M"));
    let costs = tight["costs"].as_array().unwrap();
    assert!(costs.iter().any(|c| !c["unfit"].as_array().unwrap().is_empty() && wear(c).is_none()));
    let refused = question(&format!("{args} --over-provisioning 9")).unwrap_err();
    assert!(refused.contains("over-provisioning"), "{refused}");
}

#[test]
fn a_large_store_is_carried_on_from_smaller_ones() {
    let q = question("--live 2T --ingest 20M/s").unwrap();
    assert_eq!(q.scales().len(), 2);
    let small = question("--live 1G --ingest 20M/s").unwrap();
    assert_eq!(small.scales(), [1.0]);
}

#[test]
fn a_question_that_says_too_little_is_refused() {
    for (args, said) in [
        ("--live 2T", "give --ingest"),
        ("--ingest 5M/s", "give --live"),
        ("--ingest 5M/s --live 1M", "16 memtables"),
        ("--ingest 5M/s --ttl soon", "is no time"),
        ("--ingest 5M/s --live 1T --key-size 2", "8 to 524287"),
        ("--ingest 5M/s --live 1T --deletes 2", "is no share"),
    ] {
        let refused = question(args).unwrap_err();
        assert!(refused.contains(said), "{args}: {refused}");
    }
    // What a log tells stands in for options.
    let cli = SimCli::try_parse_from(["compaction-sim", "advise", "--reads", "5k/s"]).unwrap();
    let SimCommand::Advise(args) = cli.command else { unreachable!() };
    let known = KnownStore { held: Some(1e12), ingest: 1e6, ..KnownStore::default() };
    let q = args.question(Some(known)).unwrap();
    assert_eq!((q.held, q.ingest, q.reads), (1e12, 1e6, 5000.0));
}
