//! A plan as timers of systemd: each window opens and closes the target of its service, and systemd understands the units.

use std::process::Command;

use ioweir_background::plan::PlanSpec;
use ioweir_lab::document::Origin;
use ioweir_lab::run::Silent;

const PLAN: &str = "[policy.pool]\nsize = \"4TiB\"\nused = \"1TiB\"\n[policy.cores]\ncount = 8\nforeground_iops = 100\n\
    background_operations = 50\n[policy.forecast]\nmethod = \"naive-day\"\nbin = \"1h\"\nhorizon = \"2d\"\n\
    [policy.service.rebuild]\nowed = \"10GiB\"\ndeadline = \"30h\"\n[policy.service.scrub]\nevery = \"1d\"\n";

#[test]
fn windows_open_and_close_their_services_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.csv").display().to_string();
    // Busy from eight to eighteen.
    let rate = |hour: usize| if (8..18).contains(&(hour % 24)) { 600 } else { 20 };
    let rows: Vec<String> =
        (0..10 * 24).map(|hour| format!("{},{}", 1_454_284_800 + hour * 3600, rate(hour))).collect();
    std::fs::write(&path, format!("time,reads\n{}\n", rows.join("\n"))).unwrap();
    let origin = Origin { version: String::new(), commit: String::new(), command: String::new() };
    let (plan, _) =
        PlanSpec::parse("p", &format!("series = '{path}'\n{PLAN}")).unwrap().make(&origin, &Silent).unwrap();
    let units = plan.timers();
    let of = |name: &str| units.iter().find(|(unit, _)| unit == name).map(|(_, text)| text.clone()).unwrap();
    for service in ["rebuild", "scrub"] {
        let windows: Vec<_> = plan.windows.iter().filter(|window| window.service == service).collect();
        assert!(!windows.is_empty());
        for (change, verb) in [("open", "start"), ("close", "stop")] {
            let timer = of(&format!("ioweir-{service}-{change}.timer"));
            let calendar: Vec<&str> = timer.lines().filter(|line| line.starts_with("OnCalendar=2016-02-")).collect();
            assert_eq!(calendar.len(), windows.len(), "{timer}");
            let unit = of(&format!("ioweir-{service}-{change}.service"));
            assert!(unit.contains(&format!("ExecStart=systemctl --no-block {verb} ioweir-{service}.target")), "{unit}");
        }
        assert!(of(&format!("ioweir-{service}.target")).contains("PartOf=ioweir-"));
    }
    for (name, text) in &units {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let names = units.iter().map(|(name, _)| folder.path().join(name));
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").args(names).output() else {
        println!("skipped: systemd-analyze is absent");
        return;
    };
    let told = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_ours: Vec<&str> = told.lines().filter(|line| line.contains("ioweir-")).collect();
    assert!(about_ours.is_empty(), "{about_ours:?}");
}
