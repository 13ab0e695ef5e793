//! Runs a page in a real browser: headless Chromium.

use std::path::Path;
use std::process::Command;

/// Names of its packages.
pub const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"];

/// Opens a page with this width in pixels, and returns the text of its element `found` after its
/// scripts. Without a browser it prints a message and returns `None`. Names do not resolve, so a
/// page that needs the network is incomplete.
///
/// # Panics
/// Panics if the browser fails, or the page has no such element.
pub fn found(page: &Path, wide: u32) -> Option<String> {
    let run = |name: &&str| {
        Command::new(name)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=2000"])
            .arg(format!("--window-size={wide},900"))
            .arg("--dump-dom")
            .arg(format!("file://{}", page.display()))
            .output()
            .ok()
    };
    let Some(output) = NAMES.iter().find_map(run) else {
        eprintln!("skipped: there is no Chromium here (Debian has it as {})", NAMES[0]);
        return None;
    };
    let dom = String::from_utf8_lossy(&output.stdout);
    let text = dom
        .split_once("id=\"found\">")
        .and_then(|(_, rest)| rest.split_once("</"))
        .map(|(text, _)| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.is_some(), "the browser gave no answer: {}\n{errors}", output.status);
    text
}
