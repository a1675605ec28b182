use ioweir_config::Size;
use ioweir_lab::document::Origin;
use ioweir_lab::experiment::Experiment;
use ioweir_lab::run::{RunError, Silent};

use super::TargetsSpec;
use super::rule::{Binding, Found, Lack, Tenants};

const GIB: u64 = 1 << 30;

/// An experiment above a fast tier of 1 ms and a slow one of 10 ms, one request at a time each.
fn file(classes: &str) -> String {
    format!(
        "duration = \"10s\"\nwarm_up = \"2s\"\ninterval = \"2s\"\nschedulers = [\"pclock\"]\n[device.tiered]\n\
         capacity = \"1TiB\"\nplacement = {{ hit_ratio = 0.0 }}\nfast = {{ read = \"constant 1ms\" }}\n\
         slow = {{ read = \"constant 10ms\" }}\n{classes}"
    )
}

fn tenant(name: &str, gib: u64, rate: u32, latency: &str) -> String {
    format!(
        "[[class]]\nname = \"{name}\"\nrate = \"{rate}/s\"\nregion = {{ from = \"0B\", to = \"{gib}GiB\" }}\nlatency = \"{latency}\"\n\
         burst = 32\nreservation = \"{}/s\"\n",
        2 * rate
    )
}

fn busy(gib: u64) -> String {
    format!("[[class]]\nname = \"busy\"\nbacklog = 16\nregion = {{ from = \"0B\", to = \"{gib}GiB\" }}\n")
}

/// The result of an admission of classes, and whether each that is served gets what it is promised.
fn found(classes: &[String], fast_gib: u64) -> (Found, Vec<bool>) {
    let experiment = Experiment::parse("test", &file(&classes.concat())).unwrap();
    let spec = TargetsSpec { experiment: String::new(), fast: Some(Size(fast_gib * GIB)) };
    let (tiered, fast) = spec.check(&experiment).unwrap();
    let tenants = Tenants::new(&experiment, tiered, fast.0, &Silent);
    let found = tenants.admit().unwrap();
    let has = found.got.iter().map(|got| tenants.has(got)).collect();
    (found, has)
}

#[test]
fn smaller_targets_get_the_fast_tier_first() {
    let (found, has) = found(&[busy(10), tenant("slow", 10, 10, "100ms"), tenant("fast", 10, 100, "5ms")], 15);
    assert!(found.refused.is_empty());
    assert_eq!(found.placed, [0, 5 * GIB, 10 * GIB]);
    assert_eq!(has, [true; 3]);
}

#[test]
fn a_refusal_names_the_constraint_that_binds() {
    let binding = |classes: &[String], fast_gib| {
        let (found, _) = found(classes, fast_gib);
        let [refusal] = &found.refused[..] else { panic!("{:?}", found.refused) };
        (refusal.class, refusal.binding)
    };
    assert_eq!(binding(&[tenant("a", 10, 100, "500us")], 10), (0, Binding::Device));
    assert_eq!(binding(&[tenant("a", 10, 900, "50ms")], 10), (0, Binding::Device));
    assert_eq!(binding(&[tenant("a", 20, 100, "5ms")], 10), (0, Binding::Room));
    let two = |rate, latency| [tenant("a", 10, rate, latency), tenant("b", 10, rate, latency)];
    assert_eq!(binding(&two(100, "5ms"), 10), (1, Binding::RoomBeside));
    assert_eq!(binding(&two(450, "50ms"), 20), (1, Binding::Admitted));
}

#[test]
fn a_tenant_that_displaces_another_is_refused() {
    let (found, _) = found(&[tenant("first", 10, 100, "8ms"), tenant("later", 10, 50, "4ms")], 10);
    let [refusal] = &found.refused[..] else { panic!("{:?}", found.refused) };
    assert_eq!((refusal.class, refusal.binding), (1, Binding::RoomBeside));
    assert!(matches!(refusal.lack, Lack::Late { class: 0, .. }), "the data of the first would leave the fast tier");
    assert_eq!(found.placed, [10 * GIB, 0]);
}

#[test]
fn others_get_a_tenth_of_the_slow_tier() {
    let (found, has) = found(&[tenant("a", 10, 100, "15ms"), busy(10)], 10);
    let setting = found.setting.expect("a setting");
    assert_eq!((setting.depth, setting.classes[1].share.limit.map(|limit| limit.0)), (2, Some(10)));
    assert_eq!(has, [true; 2]);
}

/// The error, or the text of the document, for a file.
fn advised(text: &str, fast: Option<u64>) -> Result<String, RunError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("targets.toml");
    std::fs::write(&path, text).unwrap();
    let spec = TargetsSpec { experiment: path.display().to_string(), fast: fast.map(|gib| Size(gib * GIB)) };
    let origin = Origin { version: "1".into(), commit: "2".into(), command: spec.command() };
    Ok(spec.run(&origin, &Silent)?.to_terminal(false))
}

#[test]
fn the_document_says_what_to_refuse_and_why() {
    let text =
        advised(&file(&(tenant("quick", 10, 100, "5ms") + &tenant("hasty", 10, 50, "500us"))), Some(10)).unwrap();
    assert!(text.contains("1 of 2 promises can be kept, with pclock and 2 requests"), "{text}");
    assert!(text.contains("Refuse hasty."), "{text}");
    assert!(text.contains("hasty: the device binds: alone, with all data in the fast tier, its p99"), "{text}");
}

#[test]
fn promises_that_the_simulation_breaks_are_refused() {
    let text = advised(&file(&tenant("near", 10, 600, "1001us")), Some(10)).unwrap();
    assert!(text.contains("None of 1 promises can be kept. Promise less to near"), "{text}");
}

#[test]
fn files_outside_the_rule_are_refused() {
    let fails = |text: &str, fast| advised(text, fast).expect_err("an error").to_string();
    let tiers = file(&tenant("a", 10, 100, "5ms"));
    assert!(fails(&file(&busy(10)), Some(10)).contains("no class has a target"));
    assert!(fails(&tiers, None).contains("--fast 100GiB"));
    assert!(fails(&tiers.replace("hit_ratio = 0.0", "map = []"), Some(10)).contains("does not draw"));
    assert!(
        fails(&tiers.replace("\"pclock\"", "\"pclock\", \"mclock\""), Some(10)).contains("schedulers = [\"pclock\"]")
    );
    assert!(fails(&tiers.replace("200/s", "110/s"), Some(10)).contains("reservation = \"120/s\" or more"));
    assert!(fails(&tiers.replace("rate = \"100/s\"", "backlog = 4"), Some(10)).contains("constant `rate`"));
    assert!(fails(&tiers.replace("burst", "hit_ratio = 0.5\nburst"), Some(10)).contains("`hit_ratio` is given"));
    assert!(fails(&tiers.replace("latency = \"5ms\"\n", ""), Some(10)).contains("no class has a target"));
    let reserved = busy(10) + "reservation = \"5/s\"\n";
    assert!(fails(&(tiers + &reserved), Some(10)).contains("class busy: a reservation without `latency`"));
}
