//! The page in a real browser: its first view, its keys, the scale of lengths, and that it requests
//! no other resource. Skipped with a message if there is no browser.

use std::path::{Path, PathBuf};

use clap::Parser;
use compaction_sim::cli::commands::execute;
use compaction_sim::cli::{SimCli, read};
use firn_testkit::browser;
use serde_json::Value;

/// Returns the script that tests a page, to append at its end.
fn asked() -> String {
    format!("<pre id=\"found\"></pre><script>{}</script>", include_str!("page.js"))
}

fn page_of(policies: &str) -> PathBuf {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{policies}.html"));
    let args = ["compaction-sim", "sweep", "--policies", policies, "--data", "200M"];
    // A maximum rate, so that compactions run nearly always.
    let load = ["--ingest", "0"];
    let sizes = ["--memtable-size", "2M", "--table-size", "2M", "--html"];
    let cli = [&args[..], &load, &sizes, &[page.to_str().unwrap()]].concat();
    execute(&SimCli::try_parse_from(cli).unwrap(), &mut vec![]).unwrap();
    let html = [read(&page).unwrap(), asked().into_bytes()].concat();
    firn_tools::io::write(&page, &html).unwrap();
    page
}

#[test]
fn a_browser_shows_the_page_and_follows_its_keys() {
    let page = page_of("tiered:4,leveled:6,lazy-leveled:3");
    for wide in [400, 1400] {
        let Some(text) = browser::found(&page, wide) else { return };
        let v: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&v["fault"], &v["fault_after"]), (&"".into(), &"".into()), "{v}");
        assert_eq!(v["panels"], 3, "{v}");
        assert!(v["curves"].as_u64() >= Some(3 * 4), "{v}");
        assert!(v["overflow"].as_i64() <= Some(0), "wider than {wide} pixels: {v}");
        assert_eq!(v["asked"], 0, "{v}");
        assert!(v["ticks"].as_u64() >= Some(2), "an axis with no number but 0: {v}");
        // It opens while the jobs that caused the peak run.
        assert!(v["busy"].as_u64() > Some(0) && v["opened"].as_u64() > Some(0), "{v}");
        let [most, next] = &v["next_peaks"].as_array().unwrap()[..] else { panic!("{v}") };
        assert!(next.as_array().unwrap().contains(most), "{v}");
        assert!(v["least"].as_i64() >= Some(0), "a peak below the space: {v}");
        // Lengths are to scale, except for bars that would be thinner than a pixel.
        let lengths: Vec<(f64, f64)> = serde_json::from_value(v["lengths"].clone()).unwrap();
        let (bytes, pixels) =
            lengths.iter().copied().fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        assert!(lengths.len() > 1 && bytes > 0.0, "{v}");
        for (b, p) in &lengths {
            let to_scale = (b / bytes * pixels).max(1.0);
            assert!((p - to_scale).abs() < 0.01, "{b} bytes are {p} pixels: {v}");
        }
        let keys = ["home", "right", "ten", "left"].map(|k| v[k].as_u64().unwrap());
        assert_eq!(keys, [0, 1, 11, 10], "{v}");
        assert_eq!(v["end"][0], v["end"][1], "{v}");
        assert_eq!(v["p"], v["opened"], "{v}");
        assert_eq!(v["l"], "Bytes: logarithmic", "{v}");
        assert_eq!((&v["x"], &v["x_again"]), (&"Axis: time".into(), &"Axis: operations".into()));
        assert_eq!((&v["hidden"], &v["again"]), (&2.into(), &3.into()), "{v}");
        assert_eq!((&v["playing"], &v["paused"]), (&"Pause".into(), &"Play".into()), "{v}");
        assert!(v["clicked"].as_u64() < Some(30), "{v}");
        assert!(v["address"].as_str().unwrap().contains("at="), "{v}");
    }
}
