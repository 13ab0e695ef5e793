//! `advise`: the recommended policy fits the question, the engine and CQL accept the printed
//! settings, and incomplete questions are refused.

use clap::Parser;
use compaction_sim::advise::candidates::{PolicyCandidate, candidates};
use compaction_sim::advise::profile::{RecordedStore, StoreProfile};
use compaction_sim::cli::commands::execute;
use compaction_sim::cli::{SimCli, SimCommand};
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

fn profile(args: &str) -> Result<StoreProfile, String> {
    let cli =
        SimCli::try_parse_from(["compaction-sim", "advise"].into_iter().chain(args.split(' ')))
            .map_err(|e| e.to_string())?;
    let SimCommand::Advise(args) = cli.command else { unreachable!() };
    args.profile(None).map_err(|e| format!("{e:?}"))
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
    let updates = profile("--live 2T --ingest 20M/s").unwrap();
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
    // The front is a front: a policy that writes more takes less space, or reads less.
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

/// Returns the rows of the table of an answer: mark, policy, and its cells.
fn rows(text: &str) -> Vec<(char, String, Vec<String>)> {
    let table = text.lines().skip_while(|l| !l.contains("write amp")).skip(1);
    let row = |line: &str| {
        let cells: Vec<String> = line
            .get(2..)?
            .split("  ")
            .map(|c| c.trim().to_owned())
            .filter(|c| !c.is_empty())
            .collect();
        let (name, cells) = cells.split_first()?;
        Some((line.chars().next()?, name.clone(), cells.to_vec()))
    };
    table.map_while(|l| (!l.is_empty()).then(|| row(l)).flatten()).collect()
}

/// The reason has the figures of the table, to the digit, and says "the least" only of the minimum
/// there. A policy with several times the writes is not chosen for space that is not scarce.
#[test]
fn the_reason_is_what_the_table_says() {
    for args in [
        "--live 100M --ingest 2M/s --memtable-size 1M --reads 1k/s",
        "--live 100M --ingest 2M/s --memtable-size 1M --disk 150M",
        "--live 60M --ingest 20k/s --memtable-size 1M --deletes 0.2",
        "--ingest 1M/s --ttl 200s --memtable-size 1M",
        "--live 100M --ingest 9M/s --memtable-size 1M --read-bandwidth 90M --write-bandwidth 80M",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let text = print(&[&["advise"], &args[..]].concat()).0;
        let because = text.lines().find(|l| l.starts_with("because")).unwrap();
        let rows = rows(&text);
        let (_, _, chosen) = rows.iter().find(|r| r.0 == '*').unwrap();
        let figures = [
            (0, format!("it writes {}", chosen[0])),
            (1, format!("takes {}", chosen[1])),
            (2, format!("has {}", chosen[2])),
        ];
        for (column, said) in figures {
            let at = because.find(&format!("{said} (")).unwrap_or_else(|| panic!("{said}: {text}"));
            let rest = &because[at + said.len() + 2..];
            let number = |cell: &str| {
                let size: u64 = firn_tools::options::size(&cell.replace(" MiB", "M")).unwrap_or(0);
                cell.parse::<f64>().unwrap_or(size as f64)
            };
            let least = rows.iter().map(|r| number(&r.2[column])).fold(f64::MAX, f64::min);
            let is_least = number(&chosen[column]) <= least;
            assert_eq!(rest.starts_with("the least of all)"), is_least, "{column}: {text}");
            if !is_least {
                let (name, figure) = rest.split_once(')').unwrap().0.rsplit_once(": ").unwrap();
                let other = rows.iter().find(|r| r.1 == name).unwrap_or_else(|| panic!("{text}"));
                assert_eq!((other.2[column].as_str(), number(figure)), (figure, least), "{text}");
            }
        }
        // No fitting policy uses its scarcest resource less, unless the reason says so.
        if let Some((_, words)) = because.split_once("the device is busy for ") {
            assert!(words.starts_with(&chosen[5]), "{text}");
            let percent = |cell: &str| cell.trim_end_matches(" %").parse::<u32>().unwrap();
            let least = rows.iter().filter(|r| r.0 != '!').map(|r| percent(&r.2[5])).min();
            let says_least =
                because.contains("resource the least") || because.contains("resource less");
            assert!(!says_least || Some(percent(&chosen[5])) == least, "{text}");
        }
        assert!(!text.contains("1.0 times the least") && !text.contains("-0 "), "{text}");
    }
    let roomy = advice("--live 100M --ingest 2M/s --memtable-size 1M --reads 1k/s");
    let writes = |c: &Value| c["write_amplification"].as_f64().unwrap();
    let least = roomy["costs"].as_array().unwrap().iter().map(writes).fold(f64::MAX, f64::min);
    assert!(writes(chosen(&roomy)) < 1.5 * least, "{roomy:#}");
}

/// The hint of a refusal is an option with which the question is answered.
#[test]
fn what_a_refusal_names_is_taken() {
    for args in [
        "--live 110M --ingest 5M/s",
        "--live 9M --ingest 5M/s --memtable-size 4M",
        "--live 300K --ingest 5M/s",
    ] {
        let refused = profile(args).unwrap_err();
        let hints = refused.split("give ").nth(1).unwrap();
        let mut words = hints.split([' ', ',', '"']).filter(|w| !w.is_empty());
        let mut taken = 0;
        while let Some(word) = words.next() {
            let option = word.trim_start_matches(':');
            if !option.starts_with("--") {
                continue;
            }
            let value = words.next().unwrap();
            // The last one counts.
            let others = args.split(' ').collect::<Vec<_>>();
            let others = others.chunks(2).filter(|o| o[0] != option).flatten();
            let args = others.copied().chain([option, value]).collect::<Vec<_>>().join(" ");
            profile(&args).unwrap_or_else(|e| panic!("{args}: {e}"));
            taken += 1;
        }
        assert!(taken >= 1, "{refused}");
    }
    // An option takes precedence over the log.
    let cli = ["compaction-sim", "advise", "--memtable-size", "1M"];
    let SimCommand::Advise(args) = SimCli::try_parse_from(cli).unwrap().command else {
        unreachable!()
    };
    let known = RecordedStore {
        held: Some(1e8),
        ingest: 1e6,
        memtable: Some(64e6),
        seconds: 3.0,
        ..RecordedStore::default()
    };
    let q = args.profile(Some(known)).unwrap();
    assert_eq!((q.memtable, q.seconds), (1048576.0, Some(3.0)));
}

/// The printed settings are accepted, and mean the simulated policy.
#[test]
fn what_is_to_be_pasted_is_what_the_engine_and_cql_take() {
    let session = Session::in_memory().unwrap();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(&format!("CREATE KEYSPACE k WITH replication = {replication}"), ()).unwrap();
    let series = profile("--ingest 50M/s --ttl 30d").unwrap();
    let minutes = profile("--ingest 1M/s --ttl 20min").unwrap();
    let updates = profile("--live 2T --ingest 20M/s --workload zipfian:0.9").unwrap();
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
    // A policy that does not fit on the device is unfit; that is no failure.
    let tight = advice(&args.replace("400M", "100M"));
    let costs = tight["costs"].as_array().unwrap();
    assert!(costs.iter().any(|c| !c["unfit"].as_array().unwrap().is_empty() && wear(c).is_none()));
    let refused = profile(&format!("{args} --over-provisioning 9")).unwrap_err();
    assert!(refused.contains("over-provisioning"), "{refused}");
}

#[test]
fn a_large_store_is_carried_on_from_smaller_ones() {
    let q = profile("--live 2T --ingest 20M/s").unwrap();
    assert_eq!(q.scales().len(), 2);
    let small = profile("--live 1G --ingest 20M/s").unwrap();
    assert_eq!(small.scales(), [1.0]);
}

#[test]
fn a_question_that_says_too_little_is_refused() {
    for (args, said) in [
        ("--live 2T", "give --ingest"),
        ("--ingest 5M/s", "give --live"),
        ("--ingest 5M/s --live 1M", "the 16 memtables of 64.0 MiB"),
        ("--ingest 5M/s --ttl soon", "is no time"),
        ("--ingest 5M/s --live 1T --key-size 2", "8 to 524287"),
        ("--ingest 5M/s --live 1T --deletes 2", "is no share"),
    ] {
        let refused = profile(args).unwrap_err();
        assert!(refused.contains(said), "{args}: {refused}");
    }
    // Facts of a log replace missing options.
    let cli = SimCli::try_parse_from(["compaction-sim", "advise", "--reads", "5k/s"]).unwrap();
    let SimCommand::Advise(args) = cli.command else { unreachable!() };
    let known = RecordedStore { held: Some(1e12), ingest: 1e6, ..RecordedStore::default() };
    let q = args.profile(Some(known)).unwrap();
    assert_eq!((q.held, q.ingest, q.reads), (1e12, 1e6, 5000.0));
}
