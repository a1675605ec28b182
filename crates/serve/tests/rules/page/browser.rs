//! A Chromium without a window, spoken to in its DevTools protocol over two pipes.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// The longest time of any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time until a condition on the page is met.
const CONDITION_MILLIS_MAX: u64 = 30_000;

/// The commands under which Chromium is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page in it.
pub(crate) struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    heard: Receiver<Value>,
    /// The standard error of all its processes, once the last of them has ended.
    ended: Receiver<String>,
    events: VecDeque<Value>,
    session: String,
    last: u64,
    _profile: tempfile::TempDir,
}

/// The requests that the page has made, and its errors, since it was loaded.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    pub(crate) requested: Vec<String>,
    pub(crate) complaints: Vec<String>,
    /// Errors of requests without an answer, as for a server that has ended.
    pub(crate) unanswered: Vec<String>,
}

impl Browser {
    /// Starts a browser; `None` where there is no Chromium, which is printed.
    pub(crate) fn start() -> Option<Self> {
        let is_there = |name: &&&str| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        let Some(name) = NAMES.iter().find(is_there) else {
            let _ = writeln!(std::io::stderr(), "skipped: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", name]);
        command.args(["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"]);
        command.args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-gpu"]);
        command.args(["--hide-scrollbars", "--force-color-profile=srgb", "--disable-font-subpixel-positioning"]);
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (commands, mut answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut errors = child.stderr.take().unwrap();
        let (say_ended, ended) = channel();
        std::thread::spawn(move || {
            let mut said = Vec::new();
            // The receiver may have been dropped.
            let _ = errors.read_to_end(&mut said);
            let _ = say_ended.send(String::from_utf8_lossy(&said).into_owned());
        });
        let (say, heard) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                if say.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            commands,
            heard,
            ended,
            events: VecDeque::new(),
            session: String::new(),
            last: 0,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let commands = self.commands.as_mut().unwrap();
        commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        commands.flush().unwrap();
        loop {
            let heard = self.heard.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if heard["id"] == self.last {
                assert!(heard.get("error").is_none(), "{method}: {heard}");
                return heard["result"].clone();
            }
            self.events.push_back(heard);
        }
    }

    /// Loads a page.
    pub(crate) fn open(&mut self, address: &str) {
        let opened = self.call("Page.navigate", json!({ "url": address }));
        assert!(opened.get("errorText").is_none(), "{address}: {opened}");
    }

    /// The value of an expression in the page; a promise is awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true, and checks it at each change of the page.
    pub(crate) fn until(&mut self, expression: &str) {
        let met = self.evaluate(&format!(
            "new Promise((tell) => {{
                let timer = 0;
                const is = () => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }};
                const watcher = new MutationObserver(() => is() && end(true));
                const end = (met) => {{ watcher.disconnect(); clearTimeout(timer); tell(met); }};
                watcher.observe(document, {{ subtree: true, childList: true, attributes: true, characterData: true }});
                timer = setTimeout(() => end(is()), {CONDITION_MILLIS_MAX});
                if (is()) end(true);
            }})"
        ));
        if met != json!(true) {
            let page = self.evaluate("document.body.innerText");
            panic!("never so: {expression}\n{}", page.as_str().unwrap_or_default());
        }
    }

    /// Sets the width of the page, and its colours.
    pub(crate) fn look(&mut self, width: u32, height: u32, colours: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": colours }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// The requests and errors of the page until now.
    pub(crate) fn noticed(&mut self) -> Noticed {
        // Events that happened before this answer arrive before it.
        self.evaluate("0");
        let mut noticed = Noticed::default();
        for event in &self.events {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    noticed.requested.push(parameters["request"]["url"].as_str().unwrap().to_string());
                }
                "Log.entryAdded" if parameters["entry"]["source"] == "network" => {
                    noticed.unanswered.push(parameters["entry"].to_string());
                }
                "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                    noticed.complaints.push(parameters.to_string());
                }
                _ => {}
            }
        }
        noticed
    }

    /// Ends the browser, and checks that none of its processes is left.
    pub(crate) fn close(mut self) {
        self.session.clear();
        self.call("Browser.close", json!({}));
        self.child.wait().unwrap();
        assert!(self.ended.recv_timeout(PATIENCE).is_ok(), "a process of the browser is left");
    }
}

/// A test that has failed leaves nothing behind either.
impl Drop for Browser {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A browser that has ended in the meantime needs no signal.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
