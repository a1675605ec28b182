//! Rules of the live page in a browser: its view of a server, of one that is gone, and of one that has returned.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

mod browser;
mod fixture;
mod real;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use browser::Browser;
use fixture::{Fixture, class, second, state};
use ioweir_core::Reason;
use real::{Place, end};
use serde_json::json;
use sha2::{Digest as _, Sha256};

const PAGE: &str = include_str!("../../../src/watch/page.html");

#[test]
fn only_the_pages_own_style_and_script_run() {
    for element in ["style", "script"] {
        let (_, rest) = PAGE.split_once(&format!("<{element}>")).unwrap();
        let (text, rest) = rest.split_once(&format!("</{element}>")).unwrap();
        assert!(!rest.contains(&format!("<{element}")));
        let policy = format!("{element}-src 'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
        assert!(PAGE.contains(&policy), "the page's Content-Security-Policy has to say: {policy}");
    }
}

#[test]
fn every_reason_to_wait_has_its_words() {
    for reason in Reason::ALL {
        assert!(PAGE.contains(&format!("[\"{}\", ", reason.name())), "{}", reason.name());
    }
}

/// The text of a class's row in a table, from the cell of this number on.
fn cell(table: &str, class: &str, number: usize) -> String {
    format!(
        "Array.from(document.querySelectorAll('#{table} tbody tr')).find((line) => line.cells[0].innerText.includes({}))\
         .cells[{number}].innerText",
        json!(class)
    )
}

#[test]
fn empty_pages_show_how_to_connect() {
    let Some(mut browser) = Browser::start() else { return };
    let fixture = Fixture::start(json!({ "schema_version": 2 }));
    browser.open(&fixture.page());
    browser.until("document.body.innerText.includes('the server sends version 2')");
    browser.until("document.getElementById('main').hidden");
    fixture.set(state(3.5, &[class("a b", 100, vec![])]));
    browser.until("document.getElementById('banner').hidden");
    browser.until("document.getElementById('commands').innerText.includes('nbd://127.0.0.1:10809/a%20b')");
    fixture.set(state(4.5, &[class("a b", 100, vec![second(3, 5)])]));
    browser.until("document.getElementById('welcome').hidden");
    assert_eq!(browser.noticed().complaints, [""; 0]);
    browser.close();
}

#[test]
fn missing_samples_are_gaps_and_charges_are_shown() {
    let Some(mut browser) = Browser::start() else { return };
    let gold = [10, 10, 0, 10, 10, 10].into_iter().zip(4..).map(|(requests, at)| second(at, requests)).collect();
    let bronze = (4..10).map(|at| second(at, 30)).collect();
    let mut made_up = state(10.2, &[class("gold", 300, gold), class("bronze", 100, bronze), class("idle", 9, vec![])]);
    made_up["changes"] = json!([{ "at_seconds": 8.1, "what": "export.gold.weight 100 -> 300" }]);
    let fixture = Fixture::start(made_up);
    browser.open(&fixture.page());
    browser.until(&format!("{} === '10'", cell("classes", "gold", 1)));
    browser.until(&format!("{} === '75 %'", cell("shares", "gold", 3)));
    browser.until(&format!("{} === '22 %'", cell("shares", "gold", 4)));
    browser.until(&format!("{} === 'idle'", cell("shares", "idle", 3)));
    // Each stretch without gaps is a line of its own.
    let strokes = "document.querySelector('#details .line').getAttribute('d').split('M').length - 1";
    assert_eq!(browser.evaluate(strokes), json!(2));
    browser.until("document.querySelector('#throughput .mark').innerText === '1: export.gold.weight 100 -> 300'");
    browser.until("document.querySelector('#changes td.words').innerText === 'export.gold.weight 100 -> 300'");
    browser.close();
}

#[test]
fn long_markup_names_and_many_classes_fit() {
    let Some(mut browser) = Browser::start() else { return };
    let classes: Vec<_> = (0..64)
        .map(|index| {
            class(
                &format!("<img src=x onerror=alert({index})>"),
                100,
                vec![second(8, 1 + index), second(9, 64 - index)],
            )
        })
        .collect();
    let fixture = Fixture::start(state(10.0, &classes));
    browser.look(360, 800, "dark");
    browser.open(&fixture.page());
    browser.until("document.querySelectorAll('#classes tbody tr').length === 64");
    browser.until("document.querySelectorAll('#details section').length === 4");
    assert_eq!(browser.evaluate("document.images.length"), json!(0));
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), json!(360));
    browser.evaluate("document.querySelector('#classes input:not(:checked)').click()");
    browser.until("document.querySelectorAll('#details section').length === 5");
    let noticed = browser.noticed();
    assert_eq!(noticed.complaints, [""; 0]);
    assert_eq!(noticed.unanswered, [""; 0]);
    browser.close();
}

#[test]
fn the_page_shows_a_server_leave_and_return() {
    let Some(mut browser) = Browser::start() else { return };
    let fixture = Fixture::start(state(500.0, &[class("gold", 300, vec![second(499, 10)])]));
    let (address, page) = (fixture.address(), fixture.page());
    browser.open(&page);
    browser.until(&format!("{} === '10'", cell("classes", "gold", 1)));
    drop(fixture);
    browser.until("document.getElementById('banner').innerText.includes('cannot be reached')");
    browser.until("document.getElementById('banner').innerText.includes('s old')");
    browser.until("document.body.classList.contains('stale')");
    let _fixture = Fixture::start_at(address, state(2.0, &[class("gold", 300, vec![second(1, 20)])]));
    browser.until("document.getElementById('banner').hidden && !document.body.classList.contains('stale')");
    browser.until(&format!("{} === '20'", cell("classes", "gold", 1)));
    let noticed = browser.noticed();
    assert_eq!(noticed.complaints, [""; 0]);
    assert!(!noticed.unanswered.is_empty(), "the browser notes that nobody answered");
    assert!(noticed.requested.iter().all(|url| url.starts_with(&page) || url == "data:,"), "{:?}", noticed.requested);
    browser.close();
}

#[test]
fn the_page_follows_a_real_server_through_changes() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new();
    let server = place.serve();
    browser.open(&place.page());
    browser.until("!document.getElementById('welcome').hidden");
    let address = format!("nbd+unix:///gold?socket={}", place.socket().display());
    browser.until(&format!("document.getElementById('commands').innerText.includes({})", json!(address)));
    browser.evaluate("window.isTheSame = true");
    let clients = [place.ask("gold"), place.ask("bronze")];
    let (gold, bronze) = (cell("classes", "gold", 1), cell("classes", "bronze", 1));
    browser.until(&format!("Number({gold}) > 0 && Number({bronze}) > 0 && document.getElementById('welcome').hidden"));
    browser.until("document.querySelectorAll('#throughput path.line').length === 4");
    browser.until("document.getElementById('headline').innerText.includes('waits longest')");
    let before = browser.evaluate(&cell("classes", "gold", 3));
    browser.until(&format!("{} !== {before}", cell("classes", "gold", 3)));
    assert_eq!(browser.evaluate(&cell("shares", "bronze", 2)), json!("100"));
    place.set("export.bronze.weight=300");
    browser.until(&format!("{} === '300'", cell("shares", "bronze", 2)));
    browser.until("document.querySelector('#throughput .mark').innerText.includes('export.bronze.weight 100 -> 300')");
    end(server, clients);
    browser.until("document.getElementById('banner').innerText.includes('cannot be reached')");
    let server = place.serve();
    let clients = [place.ask("gold"), place.ask("bronze")];
    browser.until(&format!("document.getElementById('banner').hidden && Number({gold}) > 0 && Number({bronze}) > 0"));
    assert_eq!(browser.evaluate(&cell("shares", "bronze", 2)), json!("100"));
    assert_eq!(browser.evaluate("window.isTheSame"), json!(true), "it was never loaded anew");
    let noticed = browser.noticed();
    assert_eq!(noticed.complaints, [""; 0]);
    let is_own = |url: &String| url.starts_with(&place.page()) || url == "data:,";
    assert!(noticed.requested.iter().all(is_own), "{:?}", noticed.requested);
    browser.close();
    end(server, clients);
}

const PICTURE_WIDTH: u32 = 1150;

/// Makes the picture of the README: `cargo test -p ioweir-serve --test page -- --ignored picture`. On a busy machine run it with `chrt -r
/// 1`, because an emulated disk must wake in time.
#[test]
#[ignore = "takes two minutes and writes docs/live-page.png"]
fn picture() {
    let Some(mut browser) = Browser::start() else { return };
    let place = Place::new();
    let server = place.serve();
    let fio = |export: &str| {
        let uri = format!("--uri=nbd+unix:///{export}?socket={}", place.socket().display());
        let load = ["--ioengine=nbd", "--rw=randread", "--bs=4k", "--iodepth=16", "--size=1g", "--time_based"];
        let mut command = std::process::Command::new("fio");
        command.args(load).args(["--runtime=200", "--name", export, &uri]).stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let mut clients = [fio("gold"), fio("bronze")];
    browser.look(PICTURE_WIDTH, 1400, "light");
    browser.open(&place.page());
    let up = |seconds: u32| {
        format!("Number(/up (\\d+) s/.exec(document.getElementById('about').innerText)[1]) >= {seconds}")
    };
    for seconds in [25, 50] {
        browser.until(&up(seconds));
    }
    place.set("export.bronze.weight=300");
    for seconds in [75, 100] {
        browser.until(&up(seconds));
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Takes a picture from the top to the end of the first element that a selector matches.
    let mut shoot = |name: &str, width, last: &str, colours| {
        browser.look(width, 1400, colours);
        let end = format!("document.querySelector({}).getBoundingClientRect().bottom + scrollY + 16", json!(last));
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": browser.evaluate(&end), "scale": 1 });
        let asked = json!({ "format": "png", "clip": clip, "captureBeyondViewport": true });
        let shot = browser.call("Page.captureScreenshot", asked);
        std::fs::write(name, BASE64_STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()).unwrap();
    };
    shoot(root.join("docs/live-page.png").to_str().unwrap(), PICTURE_WIDTH, "#details section", "light");
    // Pictures for a person to check.
    if let Ok(folder) = std::env::var("IOWEIR_PICTURES") {
        shoot(&format!("{folder}/dark.png"), PICTURE_WIDTH, "#main", "dark");
        shoot(&format!("{folder}/narrow.png"), 360, "#main", "light");
    }
    browser.close();
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    end(server, []);
}

#[test]
fn services_are_shown_with_what_they_found() {
    let Some(mut browser) = Browser::start() else { return };
    let quiet = state(3.5, &[class("a", 100, vec![second(2, 5)])]);
    let fixture = Fixture::start(quiet.clone());
    browser.open(&fixture.page());
    browser.until("document.getElementById('services-section').hidden && !document.getElementById('main').hidden");
    let mut busy = quiet;
    busy["services"] = json!([{
        "name": "nightly", "kind": "scrub", "device": "disk", "running": true, "waits_because": "it works",
        "lease_left_seconds": 9.0, "owed_bytes": 3 << 20, "done_bytes": 1 << 20, "device_seconds": 0.25,
        "found": { "damaged_bytes": 8192, "failed_bytes": 0 },
        "last_finished": null, "due_since": 1.0, "late_seconds": 60.0,
    }]);
    fixture.set(busy);
    browser.until("document.getElementById('services').innerText.includes('nightly')");
    browser.until("document.getElementById('services').innerText.includes('8 KiB damaged')");
    browser.until(
        "document.getElementById('services').innerText.includes('it works; its lease ends in 9.00 s; late by 60 s')",
    );
    assert_eq!(browser.noticed().complaints, [""; 0]);
    browser.close();
}
