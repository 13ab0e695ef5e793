//! A page in headless Chromium, driven through its debugging pipe.
#![allow(clippy::disallowed_methods, reason = "a process, and pictures for people")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firn_testkit::browser::NAMES;
use serde_json::{Value, json};

/// A page.
pub struct ChromePage {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Value,
    sent: u64,
    width: u32,
    /// Uncaught errors of scripts, and refusals of the content security policy.
    pub faults: Vec<String>,
}

impl Drop for ChromePage {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ChromePage {
    /// Opens an empty page of this width. Without a browser it prints a message and returns `None`.
    pub fn open(width: u32, dark: bool) -> Option<ChromePage> {
        let is_there = |name: &&&str| {
            let found = Command::new("sh").arg("-c").arg(format!("command -v {name}")).output();
            found.is_ok_and(|o| o.status.success())
        };
        let Some(name) = NAMES.iter().find(is_there) else {
            eprintln!("skipped: there is no Chromium here (Debian has it as {})", NAMES[0]);
            return None;
        };
        // The pipe has the descriptors 3 and 4.
        let command = format!(
            "exec {name} --headless --no-sandbox --disable-gpu --hide-scrollbars \
             --remote-debugging-pipe about:blank 3<&0 4>&1 >/dev/null 2>&1"
        );
        let mut child = Command::new("sh")
            .args(["-c", &command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut page = ChromePage {
            child,
            input,
            output,
            session: Value::Null,
            sent: 0,
            width,
            faults: vec![],
        };
        let target = page.send("Target.createTarget", json!({"url": "about:blank"}));
        let of = json!({"targetId": target["targetId"], "flatten": true});
        page.session = page.send("Target.attachToTarget", of)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log"] {
            page.send(&format!("{domain}.enable"), json!({}));
        }
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        page.send("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        page.send("Emulation.setDeviceMetricsOverride", size);
        Some(page)
    }

    fn send(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = vec![];
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.faults.push(message["params"].to_string()),
                Some("Log.entryAdded") if message["params"]["entry"]["source"] == "security" => {
                    self.faults.push(message["params"].to_string());
                }
                _ => {}
            }
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Opens an address.
    pub fn go(&mut self, url: &str) {
        // A change of the fragment alone would not load the page again.
        self.send("Page.navigate", json!({"url": "about:blank"}));
        self.send("Page.navigate", json!({"url": url}));
    }

    /// Returns the value of an expression, when its promise is fulfilled.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let of = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let done = self.send("Runtime.evaluate", of);
        assert!(done["exceptionDetails"].is_null(), "{expression}: {}", done["exceptionDetails"]);
        done["result"]["value"].clone()
    }

    /// Waits until an expression is true. While the page loads, it is not.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let script = format!(
            "new Promise((good, bad) => {{ const began = Date.now(); (function look() {{ let is = false; \
             try {{ is = {expression}; }} catch {{ }} if (is) good(true); \
             else if (Date.now() - began > 30000) bad(new Error(document.body.innerText)); else setTimeout(look, 50); }})(); }})"
        );
        assert_eq!(self.eval(&script), true);
    }

    /// Asserts that the page is not wider than the window; writes a picture into the folder
    /// `FIRN_SCREENSHOTS`, if that is set.
    #[track_caller]
    pub fn check(&mut self, name: &str) {
        assert_eq!(self.faults, Vec::<String>::new(), "{name}");
        let [wide, high] = ["Width", "Height"]
            .map(|of| self.eval(&format!("document.documentElement.scroll{of}")));
        assert!(wide.as_u64() <= Some(self.width.into()), "{name}: {wide} pixels wide");
        let Some(dir) = std::env::var_os("FIRN_SCREENSHOTS") else { return };
        let clip = json!({"x": 0, "y": 0, "width": self.width, "height": high, "scale": 1});
        let of = json!({"captureBeyondViewport": true, "clip": clip});
        let picture = self.send("Page.captureScreenshot", of)["data"].clone();
        let bytes = BASE64_STANDARD.decode(picture.as_str().unwrap()).unwrap();
        let name = format!("{name}-{}.png", self.width);
        std::fs::write(std::path::Path::new(&dir).join(name), bytes).unwrap();
    }
}
