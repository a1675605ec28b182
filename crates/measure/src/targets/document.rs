//! An admission as a document: what can be promised to each tenant, and the setting that keeps it or the constraint that prevents it.

use ioweir_config::Size;
use ioweir_lab::document::{
    Block, Cell, Column, Document, DocumentError, Format, Origin, Provenance, Table, Value, and_list, format_seconds,
};
use ioweir_lab::experiment::Experiment;
use ioweir_lab::gate::Judgement;
use serde_json::{Value as Json, json};

use super::TargetsSpec;
use super::rule::{Binding, Found, Got, Lack, Refusal, Tenants, has_promise};

/// Makes the document.
pub(super) fn document(
    spec: &TargetsSpec,
    origin: &Origin,
    judgement: &Judgement,
    tenants: &Tenants<'_>,
    found: &Found,
) -> Result<Document, DocumentError> {
    let experiment = tenants.experiment;
    let answers = Answers { tenants, found };
    let setting = found.setting.as_ref().map(|setting| {
        json!({
            "scheduler": "pclock",
            "depth": setting.depth,
            "limits": limits(setting).map(|(class, limit)| json!({ "class": class, "per_second": limit })).collect::<Vec<Json>>(),
        })
    });
    let classes = 0..experiment.classes.len();
    let data = json!({
        "meta": {
            "version": origin.version,
            "commit": origin.commit,
            "command": origin.command,
            "seeds": experiment.seeds,
            "fast_bytes": spec.fast.map(|fast| fast.0),
        },
        "judgement": serde_json::to_value(judgement)?,
        "setting": setting,
        "tenants": classes.map(|class| answers.json(class)).collect::<Vec<Json>>(),
    });
    let mut document = Document::new("ioweir advise targets", format!("targets of {}", spec.experiment), &data)?;
    document.headline = answers.headline(judgement);
    if judgement.recommends() {
        let care = judgement.text();
        if !care.is_empty() {
            document.text(care);
        }
        if let Some(setting) = &found.setting {
            document.push(Block::Facts(answers.facts(setting)));
        }
    }
    for refusal in &found.refused {
        document.text(format!("{}: {}.", tenants.class(refusal.class).name, answers.reason(refusal)));
    }
    let table = answers.table();
    document.records = table.clone();
    document.push(table);
    let mut specs = vec![("The experiment as TOML, with every default".to_owned(), experiment.to_toml())];
    specs
        .extend(found.setting.as_ref().map(|setting| ("The setting, for `ioweir simulate`".into(), setting.to_toml())));
    document.provenance = Some(Provenance::new(origin, Vec::new(), specs));
    Ok(document)
}

/// The answer for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Promise {
    Kept,
    /// Admitted by the rule, and not kept where the setting was simulated.
    TooNear,
    Refused,
}

impl Promise {
    fn word(this: Option<Self>) -> &'static str {
        match this {
            None => "none",
            Some(Self::Kept) => "kept",
            Some(Self::TooNear) => "too near",
            Some(Self::Refused) => "refused",
        }
    }
}

/// The classes without a promise, with the limit of each of their clients.
fn limits(setting: &Experiment) -> impl Iterator<Item = (&str, u64)> {
    let others = setting.classes.iter().filter(|class| !has_promise(class));
    others.filter_map(|class| Some((class.name.as_str(), class.share.limit?.0)))
}

struct Answers<'a> {
    tenants: &'a Tenants<'a>,
    found: &'a Found,
}

impl Answers<'_> {
    fn refusal(&self, class: usize) -> Option<&Refusal> {
        self.found.refused.iter().find(|refusal| refusal.class == class)
    }

    fn got(&self, class: usize) -> Option<&Got> {
        self.found.got.iter().find(|got| got.class == class)
    }

    /// None for a class without a promise.
    fn promise(&self, class: usize) -> Option<Promise> {
        has_promise(self.tenants.class(class)).then(|| {
            if self.refusal(class).is_some() {
                Promise::Refused
            } else if self.got(class).is_some_and(|got| self.tenants.has(got)) {
                Promise::Kept
            } else {
                Promise::TooNear
            }
        })
    }

    fn json(&self, class: usize) -> Json {
        let share = &self.tenants.class(class).share;
        let (refusal, got) = (self.refusal(class), self.got(class));
        json!({
            "class": self.tenants.class(class).name,
            "target_seconds": share.latency.map(|target| target.nanos().as_seconds()),
            "promise": self.promise(class),
            "refused": refusal.map(|refusal| refusal.binding),
            "reason": refusal.map(|refusal| self.reason(refusal)),
            "data_bytes": self.tenants.bytes[class],
            "fast_bytes": got.map(|_| self.found.placed[class]),
            "p99_seconds": got.and_then(|got| got.p99_seconds),
            "iops": got.map(|got| got.per_second),
        })
    }

    /// The names of the tenants with an answer.
    fn names(&self, promise: Promise) -> Vec<&str> {
        let classes = 0..self.tenants.experiment.classes.len();
        classes
            .filter(|class| self.promise(*class) == Some(promise))
            .map(|class| self.tenants.class(class).name.as_str())
            .collect()
    }

    fn headline(&self, judgement: &Judgement) -> String {
        if !judgement.recommends() {
            return judgement.text();
        }
        let [kept, near, refused] =
            [Promise::Kept, Promise::TooNear, Promise::Refused].map(|promise| self.names(promise));
        let count = kept.len() + near.len() + refused.len();
        let mut text = match &self.found.setting {
            Some(setting) if !kept.is_empty() => format!(
                "{} of {count} promises can be kept, with pclock and {} in the device at once: {}.",
                kept.len(),
                if setting.depth == 1 { "one request".into() } else { format!("{} requests", setting.depth) },
                and_list(&kept)
            ),
            _ => format!("None of {count} promises can be kept."),
        };
        if !refused.is_empty() {
            text += &format!(" Refuse {}.", and_list(&refused));
        }
        if !near.is_empty() {
            text +=
                &format!(" Promise less to {}: the p99 of the simulated setting exceeds the target.", and_list(&near));
        }
        text
    }

    /// The setting to make.
    fn facts(&self, setting: &Experiment) -> Vec<(String, String)> {
        let mut facts =
            vec![("scheduler".to_owned(), "pclock".to_owned()), ("depth".to_owned(), setting.depth.to_string())];
        let placed = |got: &Got| {
            let placed = self.found.placed[got.class];
            (placed > 0).then(|| format!("{} of {}", Size(placed), self.tenants.class(got.class).name))
        };
        let placed: Vec<String> = self.found.got.iter().filter_map(placed).collect();
        if !placed.is_empty() {
            let placed = and_list(&placed.iter().map(String::as_str).collect::<Vec<_>>());
            facts.push(("in the fast tier".to_owned(), placed));
        }
        let limits = limits(setting);
        facts.extend(limits.map(|(class, limit)| (format!("limit of {class}"), format!("{limit}/s for each client"))));
        facts
    }

    /// The constraint that prevents a promise, as the end of a sentence about a class.
    fn reason(&self, refusal: &Refusal) -> String {
        let name = |class: usize| &self.tenants.class(class).name;
        let misses = match refusal.lack {
            Lack::Late { class, p99_seconds } => {
                let target = self.tenants.class(class).share.latency.expect("it has a promise");
                let whose =
                    if class == refusal.class { "its p99".into() } else { format!("the p99 of {}", name(class)) };
                format!("{whose} without any waiting is {}, for a target of {target}", format_seconds(p99_seconds))
            }
            Lack::Utilised(part) => {
                format!("a tier is utilised to {:.0} %, where at most 70 % are admitted", 100.0 * part)
            }
        };
        match refusal.binding {
            Binding::Device => format!("the device binds: alone, with all data in the fast tier, {misses}"),
            Binding::Room => format!(
                "the size of the fast tier binds: alone, with as much of its {} there as fits, {misses}",
                Size(self.tenants.bytes[refusal.class])
            ),
            Binding::RoomBeside => {
                format!("the size of the fast tier binds: beside the data of those admitted before it, {misses}")
            }
            Binding::Admitted => format!("the requests of those admitted before it bind: beside them {misses}"),
        }
    }

    fn table(&self) -> Table {
        let number = |name: &str, unit: &str| Column::text(name).unit(unit).format(Format::Own);
        let columns = [
            Column::text("tenant"),
            number("target", "ms"),
            Column::text("promise"),
            number("in the fast tier", "%"),
            number("p99", "ms"),
            number("rate", "/s"),
        ];
        let mut table = Table::new("Tenants", columns).caption(
            "p99 and rate where the setting was simulated, in the mean over seeds. The rule does not depend on them.",
        );
        for (class, its) in self.tenants.experiment.classes.iter().enumerate() {
            let got = self.got(class);
            let promise = self.promise(class);
            let share = got.map(|_| 100.0 * self.found.placed[class] as f64 / self.tenants.bytes[class] as f64);
            let millis = |seconds: Option<f64>| Cell::from(Value::from(seconds.map(|seconds| seconds * 1e3)));
            table.row([
                its.name.as_str().into(),
                millis(its.share.latency.map(|target| target.nanos().as_seconds())),
                Cell::from(Promise::word(promise))
                    .fails_if(matches!(promise, Some(Promise::Refused | Promise::TooNear))),
                Value::from(share).into(),
                millis(got.and_then(|got| got.p99_seconds)),
                Value::from(got.map(|got| got.per_second)).into(),
            ]);
        }
        table
    }
}
