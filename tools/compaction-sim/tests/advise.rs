//! `advise`: the recommended policy fits the question, the engine and CQL accept the printed
//! settings, and incomplete questions are refused.

use clap::Parser;
use compaction_sim::advise::candidates::{PolicyCandidate, candidates};
use compaction_sim::advise::profile::{RecordedStore, StoreProfile};
use compaction_sim::advise::{Advice, AdvisedResource, PolicyCost, advice_text, recommend};
use compaction_sim::cli::commands::execute;
use compaction_sim::cli::{SimCli, SimCommand};
use compaction_sim::validate::advice::{AdviceVerdict, check, in_memory};
use firn_cql::Session;
use firn_kv::{Policy, TreeOptions};
use firn_testkit::effort::times_effort;
use firn_tools::output::{Color, Style};
use firn_workload::rng::Rng;
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
    let mut windows =
        costs.iter().filter(|c| c["policy"].as_str().unwrap().starts_with("time-window:"));
    let short = |c: &&Value| c["policy"] == "time-window:window_secs=7:min_runs=4";
    let (short, windows): (Vec<&Value>, Vec<&Value>) = windows.by_ref().partition(short);
    // CQL has no window of seconds.
    assert!(short[0]["cql"].is_null() && windows.len() == 1);
    let windows = windows[0];
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

/// Returns the numbers of a text, as written. Those of policies' names do not count.
fn numbers(text: &str, names: &[String]) -> Vec<String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let text = names.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), " "));
    let split = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let trimmed = split.map(|n| n.trim_matches('.')).filter(|n| !n.is_empty());
    trimmed.map(str::to_owned).collect()
}

/// Returns a figure of the table as a number: plain, or in bytes.
fn number(cell: &str) -> f64 {
    let (n, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let power = ["", "KiB", "MiB", "GiB", "TiB"].iter().position(|u| *u == unit).unwrap();
    n.parse::<f64>().unwrap() * 1024f64.powi(power as i32)
}

/// Returns a random question about a store that is simulated quickly.
fn random_question(number: u64) -> String {
    let mut rng = Rng::new(number, 21);
    let mut any = |of: &[&str]| of[rng.below(of.len() as u64) as usize].to_owned();
    let store = any(&["--live 9M", "--live 15M", "--live 24M", "--live 3M", "--ttl 60s"]);
    let workload = match store.starts_with("--ttl") {
        true => String::new(),
        false => any(&["", "", " --workload zipfian:0.9", " --deletes 0.2"]),
    };
    let parts = [
        any(&["", "", " --reads 2k/s", " --reads 20k/s"]),
        any(&["", "", " --scans 200/s", " --scans 5k/s"]),
        any(&["", "", " --disk 30M", " --disk 60M"]),
        any(&["", "", " --p99 2ms"]),
        any(&["", " --cache 4M"]),
        any(&["", "", " --cores 0.2"]),
        any(&["", "", " --write-bandwidth 40M --read-bandwidth 80M"]),
    ];
    let ingest = any(&["40K/s", "300K/s", "4M/s", "12M/s"]);
    format!("{store} --ingest {ingest} --memtable-size 512K{workload}{}", parts.concat())
}

/// The reason has the figures of the table, to the digit. It says "the least" only of a figure that
/// no other policy that fits has, and names the resource that decided.
#[test]
fn the_reason_is_what_the_table_says() {
    let fixed = [
        "--live 100M --ingest 2M/s --memtable-size 1M --reads 1k/s",
        "--live 100M --ingest 2M/s --memtable-size 1M --disk 150M",
        "--live 60M --ingest 20k/s --memtable-size 1M --deletes 0.2",
        "--ingest 1M/s --ttl 200s --memtable-size 1M",
        "--live 100M --ingest 9M/s --memtable-size 1M --read-bandwidth 90M --write-bandwidth 80M",
    ];
    let random = (0..times_effort(24)).map(random_question);
    let (mut decided, mut small) = (vec![], 0);
    for question in fixed.map(str::to_owned).into_iter().chain(random) {
        let q = profile(&question).unwrap();
        let advice = recommend(&q).unwrap();
        let text = advice_text(&advice, &q, Style::new(Color::Never));
        let because = text.lines().find_map(|l| l.strip_prefix("because")).unwrap().trim();
        assert_eq!(because, advice.because);
        assert!(!text.contains("-0 ") && !text.contains("-0."), "{question}: {text}");
        if advice.costs[advice.chosen].unfit.is_empty() {
            check_figures(&question, &text, because, &q);
            small += u32::from(because.contains("less than 16 memtables"));
        }
        decided.extend(check_decision(&question, &text, &advice, &q));
    }
    // The questions have several answers.
    for resource in [AdvisedResource::Device, AdvisedResource::Cores, AdvisedResource::Space] {
        assert!(decided.contains(&Some(resource)), "{resource:?}: {decided:?}");
    }
    assert!(small > 0);
}

/// Checks the figures of a reason against the table.
fn check_figures(question: &str, text: &str, because: &str, q: &StoreProfile) {
    let rows = rows(text);
    let names: Vec<String> = rows.iter().map(|r| r.1.clone()).collect();
    let fit: Vec<_> = rows.iter().filter(|r| r.0 != '!').collect();
    let mut known: Vec<String> = rows.iter().flat_map(|r| numbers(&r.2.join(" "), &[])).collect();
    known.extend([fit.len().to_string(), rows.len().to_string()]);
    if q.is_small() {
        known.extend(["16".to_owned()]);
        known.extend(numbers(&firn_tools::output::bytes(q.memtable as u64), &[]));
    }
    for n in numbers(because, &names) {
        assert!(known.contains(&n), "{n} of {question} is not in {known:?}: {text}");
    }
    assert!(because.starts_with(&format!("{} of {} policies fit.", fit.len(), rows.len())));
    let (_, _, chosen) = rows.iter().find(|r| r.0 == '*').unwrap();
    for (column, said) in [(0, "It writes "), (1, ", takes "), (2, ", has ")] {
        let rest = because.rsplit_once(said).unwrap_or_else(|| panic!("{said}: {text}")).1;
        let rest = rest.strip_prefix(chosen[column].as_str()).unwrap_or_else(|| panic!("{text}"));
        let rest = [" bytes for each byte put", " at most", " runs"]
            .iter()
            .find_map(|unit| rest.strip_prefix(unit))
            .unwrap_or_else(|| panic!("{said}: {text}"));
        let mine = number(&chosen[column]);
        let others = fit.iter().filter(|r| r.0 != '*').map(|r| number(&r.2[column]));
        let least = others.fold(f64::MAX, f64::min);
        let place = rest.split_once('(').filter(|(before, _)| *before == " ");
        let place = place.map_or("", |(_, place)| place.split_once(')').unwrap().0);
        assert_eq!(place == "the least", mine < least && least < f64::MAX, "{question}: {text}");
        let cell = |name: &str| &fit.iter().find(|r| r.1 == name).unwrap().2[column];
        if let Some(name) = place.strip_prefix("as ").and_then(|p| p.strip_suffix(" does")) {
            assert!(cell(name) == &chosen[column] && mine <= least, "{question}: {text}");
        } else if let Some((name, figure)) = place.rsplit_once(": ") {
            assert!(cell(name) == figure && number(figure) == least, "{question}: {text}");
        }
    }
}

/// Checks the ranking, and returns the resource that decided.
fn check_decision(
    question: &str,
    text: &str,
    advice: &Advice,
    q: &StoreProfile,
) -> Option<Option<AdvisedResource>> {
    let costs = &advice.costs;
    let key = |c: &PolicyCost| (c.unfit.len(), c.strain);
    let first = |i: usize| {
        let (a, b) = (key(&costs[advice.chosen]), key(&costs[i]));
        a.0 < b.0 || (a.0 == b.0 && a.1 <= b.1)
    };
    let is_usual = advice.because.contains("policy is enough");
    assert!(is_usual || (0..costs.len()).all(first), "{question}: {text}");
    let decided = advice.decided.as_ref()?;
    let (mine, theirs) = (&costs[advice.chosen], &costs[advice.second.unwrap()]);
    assert!(
        costs
            .iter()
            .filter(|c| c.strain < theirs.strain)
            .all(|c| { !c.unfit.is_empty() || c.policy == mine.policy })
    );
    // The strain without the difference of the resource that decided is larger by at least as much
    // as without that of any other.
    let room = q.disk.unwrap_or(3.0 * q.held);
    let shares = |c: &PolicyCost| [c.device, c.cores / q.machine.cores, c.peak_bytes / room];
    let resources = [AdvisedResource::Device, AdvisedResource::Cores, AdvisedResource::Space];
    let strain = |c: &PolicyCost| c.scarcest.share + 0.1 * shares(c).iter().sum::<f64>();
    assert!((strain(mine) - mine.strain).abs() < 1e-9, "{question}");
    let scarcest = theirs.scarcest.share - mine.scarcest.share;
    let is_same = theirs.scarcest.resource == mine.scarcest.resource;
    let gain = |resource: AdvisedResource| {
        let i = resources.iter().position(|r| *r == resource);
        let rest = i.map_or(0.0, |i| 0.1 * (shares(theirs)[i] - shares(mine)[i]));
        let most = is_same && mine.scarcest.resource == resource;
        rest + if most { scarcest } else { 0.0 }
    };
    let by = decided.resource.map_or(scarcest, gain);
    let is_shown = |resource: AdvisedResource| {
        let of = |c: &PolicyCost| c.used(q, resource).unwrap().amount;
        of(mine) != of(theirs)
    };
    for other in resources.into_iter().filter(|r| is_shown(*r)) {
        assert!(gain(other) <= by + 1e-12, "{question}: {other:?} decided: {text}");
    }
    assert!(by > 0.0, "{question}: {text}");
    // The rows of the table have both figures.
    let row = |mark: char| rows(text).into_iter().find(|r| r.0 == mark).unwrap().2.join("  ");
    let (a, b) = match decided.resource {
        Some(_) => (decided.chosen.amount.clone(), decided.second.amount.clone()),
        None => (mine.scarcest.amount.clone(), theirs.scarcest.amount.clone()),
    };
    assert!(row('*').contains(&a) && row('2').contains(&b), "{question}: {a} {b} {text}");
    let words = [decided.chosen.share, decided.second.share].map(|s| format!("{:.1} %", 100.0 * s));
    let sentence = match decided.resource {
        Some(_) => format!(" decided: {a} against {b}"),
        None => format!("{} against", words[0]),
    };
    assert!(advice.because.contains(&sentence), "{question}: {sentence}: {text}");
    Some(decided.resource)
}

/// A policy with several times the writes is not chosen for space that is not scarce.
#[test]
fn space_that_is_not_scarce_does_not_cost_writes() {
    let roomy = advice("--live 100M --ingest 2M/s --memtable-size 1M --reads 1k/s");
    let writes = |c: &Value| c["write_amplification"].as_f64().unwrap();
    let least = roomy["costs"].as_array().unwrap().iter().map(writes).fold(f64::MAX, f64::min);
    assert!(writes(chosen(&roomy)) < 1.5 * least, "{roomy:#}");
}

/// A store of few memtables has an answer: the default, or its present policy.
#[test]
fn a_small_store_has_an_answer() {
    for args in [
        "--live 9M --ingest 5M/s",
        "--live 300K --ingest 5M/s --deletes 0.3",
        "--live 116 --ingest 1K/s",
        "--ingest 1M/s --ttl 20s",
        "--live 10M --ingest 1M/s --ttl 20s --memtable-size 1M",
    ] {
        let words: Vec<&str> = args.split(' ').collect();
        let (text, good) = print(&[&["advise"], &words[..]].concat());
        assert!(good, "{args}: {text}");
        assert!(text.contains("less than 16 memtables of "), "{args}: {text}");
        assert!(text.contains(" runs. The default policy is enough. It writes "), "{args}: {text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{args}: {text}");
        let default = Policy::default().to_string();
        let answer = advice(args);
        assert_eq!(chosen(&answer)["policy"], default.as_str(), "{args}");
        let cost = |name: &str| chosen(&answer)[name].as_f64().unwrap();
        assert!(cost("write_amplification") > 0.0 && cost("peak_bytes") > 0.0, "{args}: {text}");
    }
    // A present policy stays, and a much better one is not ignored.
    let mut q = profile("--live 3M --ingest 100K/s --memtable-size 512K").unwrap();
    q.present = Some(("leveled:4:base=1m".parse().unwrap(), 1 << 20));
    let answer = recommend(&q).unwrap();
    assert!(answer.costs[answer.chosen].policy.starts_with("leveled:ratio=4"));
    assert!(answer.because.contains("The present policy is enough"), "{}", answer.because);
    q.disk = Some(answer.costs[answer.chosen].peak_bytes * 0.9);
    let tight = recommend(&q).unwrap();
    assert!(!tight.costs[tight.chosen].policy.starts_with("leveled:ratio=4"), "{}", tight.because);
}

/// The engine runs recommendations in memory: the recommended policy uses less of the resource that
/// decided than the second best.
#[test]
fn recommendations_are_right_on_the_engine() {
    for (name, options, resource) in [
        (
            "overwrites",
            "--live 6M --ingest 4M/s --memtable-size 128K",
            Some(AdvisedResource::Space),
        ),
        (
            "series",
            "--ingest 20K/s --ttl 300s --scans 50/s --memtable-size 128K",
            Some(AdvisedResource::Space),
        ),
        (
            "disk",
            "--live 6M --ingest 4M/s --disk 15M --memtable-size 128K",
            Some(AdvisedResource::Space),
        ),
    ] {
        let checked = check(name, options, &mut |_, setup| in_memory(setup)).unwrap();
        assert_eq!(checked.verdict, AdviceVerdict::Right, "{checked:#?}");
        assert_eq!(checked.resource, resource, "{checked:#?}");
        let json = serde_json::json!(checked);
        assert_eq!((&json["question"], &json["verdict"]), (&name.into(), &"right".into()));
        let measured = json["second"]["measured"]["write_amplification"].as_f64();
        assert_eq!(measured, Some(checked.second.measured.write_amplification));
        for p in [&checked.chosen, &checked.second] {
            let (ours, real) = (p.predicted, p.measured);
            let off = |ours: f64, real: f64| (ours / real - 1.0).abs();
            assert!(off(ours.write_amplification, real.write_amplification) < 0.2, "{checked:#?}");
            assert!(off(ours.peak_bytes, real.peak_bytes) < 0.25, "{checked:#?}");
        }
    }
    // A question that one policy fits has no second best.
    let only = check(
        "none",
        "--live 200M --ingest 2M/s --memtable-size 1M --disk 190M",
        &mut |_, _| unreachable!(),
    );
    assert!(only.is_err());
}

/// A store that has no flush yet is refused, and the command in the hint has an answer.
#[test]
fn a_store_without_a_flush_is_refused_with_a_command() {
    let error = compaction_sim::history::parse("", None).unwrap_err();
    let error = format!("{error:?}");
    let command = error.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.strip_prefix("compaction-sim ").unwrap().split(' ').collect();
    let (text, good) = print(&words);
    assert!(good && text.contains("The default policy is enough"), "{command}: {text}");
}

/// The hint of a refusal is an option with which the question is answered.
#[test]
fn what_a_refusal_names_is_taken() {
    for args in [
        "--live 110M",
        "--ingest 5M/s",
        "--live 99 --ingest 5M/s",
        "--live 2000P --ingest 5M/s",
        "--ingest 50/s --ttl 1s",
    ] {
        let refused = profile(args).unwrap_err();
        let hints = refused.split("give ").nth(1).unwrap();
        let words = hints.split([' ', ',', '"']).filter(|w| !w.is_empty() && *w != "as");
        let words: Vec<&str> = words.collect();
        let mut taken = 0;
        for (i, option) in words.iter().enumerate().filter(|(_, w)| w.starts_with("--")) {
            // A hint without a value names an option of the question.
            let value = words.get(i + 1).filter(|w| w.starts_with(|c: char| c.is_ascii_digit()));
            let Some(value) = value else {
                taken += usize::from(args.contains(option));
                continue;
            };
            let others = args.split(' ').collect::<Vec<_>>();
            let others = others.chunks(2).filter(|o| o[0] != *option).flatten();
            let args = others.copied().chain([*option, *value]).collect::<Vec<_>>().join(" ");
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
        ("--ingest 5M/s --live 1", "less than one entry of 116"),
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
