//! The worked example of section 2, with one request in service at a time over both tiers, and what must hold beside it.

use super::{Lab, Part, REWARD, figure, rate_between};
use crate::reproduce::{Claim, Table};
use crate::run::RunError;

/// One request at a time over both tiers: HDD 10 ms, SSD 50 us.
const SERIAL: &str = "[device.tiered]\ncapacity = \"1TB\"\nserial = true\nplacement = { hit_ratio = 0.0 }\nfast = { read = \"constant \
                      50us\" }\nslow = { read = \"constant 10ms\" }\n";

fn spec(title: &str, scheduler: &str, seconds: u32, a: &str, b: &str) -> String {
    format!(
        "title = \"{title}\"\nduration = \"{seconds}s\"\ninterval = \"1s\"\nschedulers = [\"{scheduler}\"]\ndepth = 1\n{SERIAL}[[class]]\n\
         name = \"a\"\nbacklog = 10\n{a}\n[[class]]\nname = \"b\"\nbacklog = 10\n{b}\n"
    )
}

/// A case: what it is called, scheduler, keys of A and B, and what the serial model says A and B get.
struct Case {
    id: &'static str,
    words: &'static str,
    scheduler: &'static str,
    a: &'static str,
    b: &'static str,
    /// In the paper, where it says so.
    paper: &'static str,
    exact: (f64, f64),
}

const CASES: [Case; 5] = [
    Case {
        id: "even",
        words: "both on the HDD",
        scheduler: REWARD,
        a: "",
        b: "",
        paper: "50 + 50",
        exact: (50.0, 50.0),
    },
    Case {
        id: "proportional",
        words: "A hits the SSD with two of three, shared evenly (wfq)",
        scheduler: "wfq",
        a: "hit_ratio = 0.666667",
        b: "",
        paper: "75 + 75",
        exact: (74.8, 74.8),
    },
    Case {
        id: "reward",
        words: "A hits the SSD with two of three, under reward",
        scheduler: REWARD,
        a: "hit_ratio = 0.666667",
        b: "",
        paper: "150 + 50",
        exact: (148.5, 50.0),
    },
    Case {
        id: "weights",
        words: "equal hit ratios, weights 3:1",
        scheduler: REWARD,
        a: "hit_ratio = 0.5\nweight = 3",
        b: "hit_ratio = 0.5",
        paper: "3 to 1",
        exact: (149.25, 49.75),
    },
    Case {
        id: "letter",
        words: "A hits the SSD with two of three, Algorithm 1 to the letter",
        scheduler: super::LETTER,
        a: "hit_ratio = 0.666667",
        b: "",
        paper: "150 + 50",
        exact: (148.5, 50.0),
    },
];

pub(super) fn examples(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let mut part = Part::default();
    let mut rows = Vec::new();
    for case in &CASES {
        let seconds = if lab.options.quick { 1000 } else { 5000 };
        let report = lab.run(&spec(case.words, case.scheduler, seconds, case.a, case.b))?;
        let summary = report.summaries.first();
        let (a, b) = case.exact;
        for (class, exact) in [("a", a), ("b", b)] {
            let ours = summary.and_then(|summary| figure(summary, "iops", class));
            part.claims.push(
                Claim::within(
                    format!("golden-{}-{class}", case.id),
                    "Section 2",
                    format!("IOPS of {}, {}", class.to_uppercase(), case.words),
                    ours,
                    exact * 0.98,
                    exact * 1.02,
                )
                .paper(case.paper, "IOPS")
                .note(format!("within 2 % of {exact}, the exact value of the serial model")),
            );
            let deviation = ours.map_or("-".into(), |ours| format!("{:+.2} %", (ours / exact - 1.0) * 100.0));
            let ours = ours.map_or("-".into(), |ours| format!("{ours:.2}"));
            rows.push((format!("{}: {}", case.words, class.to_uppercase()), vec![format!("{exact}"), ours, deviation]));
        }
    }
    part.claims.push(idle_hour(lab)?);
    part.tables.push(Table {
        title: "Section 2: the worked example".into(),
        text: "Two clients, the HDD 10 ms, the SSD 50 us, one request in service at a time.".into(),
        columns: ["exact", "ours", "off"].map(String::from).to_vec(),
        rows,
    });
    Ok(part)
}

/// A client that was idle for an hour does not get an hour of credit: the other goes on at its rate.
fn idle_hour(lab: &mut Lab<'_>) -> Result<Claim, RunError> {
    let idle = "[[class.phase]]\nat = \"10s\"\nactive = false\n[[class.phase]]\nat = \"3610s\"\nactive = true";
    let report = lab.run(&spec("an hour's pause", REWARD, 3620, idle, ""))?;
    let least = report.summaries.first().and_then(|summary| rate_between(&report, summary, "b", 3610.0, 3620.0));
    Ok(Claim::within(
        "golden-idle-hour".into(),
        "Section 3",
        "IOPS of B in the ten seconds after A comes back from an hour's pause".into(),
        least,
        49.0,
        51.0,
    )
    .paper("no credit", "IOPS")
    .note("within 2 % of 50, its half"))
}
