//! Schedulers as a replay gets them: by name, each with the settings that a device has under it.

use ioweir_config::{SchedulerChoice, shown};

use crate::failure::Failure;

/// Settings of the queue that a scheduler may have beside its own, in a replay and in the model.
pub(super) const QUEUE_REQUESTS: &str = "nr_requests";
pub(super) const REQUEST_KIB_MAX: &str = "max_sectors_kb";

/// A scheduler with its settings, by the names of their files: `mq-deadline:fifo_batch=1:nr_requests=64`.
pub(super) struct Under {
    /// The scheduler as the user named it.
    pub(super) text: String,
    pub(super) name: String,
    /// Keys of the queue, those of the scheduler below `iosched/`, and values.
    pub(super) own: Vec<(String, String)>,
}

impl Under {
    /// One without settings.
    pub(super) fn plain(name: &str) -> Self {
        Self { text: name.to_owned(), name: name.to_owned(), own: Vec::new() }
    }

    fn of(text: &str) -> Result<Self, Failure> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let own = parts.map(|part| {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                let problem = format!("`{}` of scheduler `{}` has no value", shown(part), shown(&name));
                Failure::input(problem, "NAME:KEY=VALUE, with KEY as its file in queue/iosched is called", "")
            })?;
            let is_queues = [QUEUE_REQUESTS, REQUEST_KIB_MAX].contains(&key);
            Ok((if is_queues { key.to_owned() } else { format!("iosched/{key}") }, value.to_owned()))
        });
        Ok(Self { text: text.to_owned(), own: own.collect::<Result<_, Failure>>()?, name })
    }

    /// A setting of the queue, and the one for all schedulers where it has none of its own.
    pub(super) fn queues(&self, key: &str, all: &[(String, String)]) -> Option<u64> {
        let of = |set: &[(String, String)]| set.iter().rfind(|(own, _)| own == key)?.1.parse().ok();
        of(&self.own).or_else(|| of(all))
    }

    /// The scheduler in the simulator, if it has the scheduler and all parameters that are set.
    pub(super) fn modelled(&self) -> Option<SchedulerChoice> {
        let own = self.own.iter().filter_map(|(key, value)| Some((key.strip_prefix("iosched/")?, value)));
        own.fold(self.name.clone(), |text, (key, value)| format!("{text}:{key}={value}")).parse().ok()
    }
}

/// Settings of the queue, by key.
pub(super) type Set = Vec<(String, String)>;

/// The schedulers of `--scheduler`, each with its settings of `--set`, and the settings that `--set` gives to all.
pub(super) fn of_arguments(schedulers: &[String], set: &[String]) -> Result<(Vec<Under>, Set), Failure> {
    let mut schedulers: Vec<Under> = schedulers.iter().map(|text| Under::of(text)).collect::<Result<_, _>>()?;
    let mut all = Vec::new();
    for text in set {
        let (owner, key, value) = setting(text, &schedulers)?;
        match owner {
            None => all.push((key, value)),
            Some(owner) => schedulers
                .iter_mut()
                .filter(|under| under.name == owner)
                .for_each(|under| under.own.push((key.clone(), value.clone()))),
        }
    }
    Ok((schedulers, all))
}

/// `nr_requests=64`, or `bfq/low_latency=0` for one scheduler.
fn setting<'a>(text: &'a str, schedulers: &[Under]) -> Result<(Option<&'a str>, String, String), Failure> {
    let wrong = || {
        let expected = "KEY=VALUE, or SCHEDULER/KEY=VALUE with a scheduler of --scheduler";
        Failure::input(format!("setting `{}` cannot be read", shown(text)), expected, "")
    };
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    match key.split_once('/') {
        None if key == "scheduler" => Err(Failure::input("the scheduler is no setting", "--scheduler NAME", "")),
        None => Ok((None, key.into(), value.into())),
        Some((scheduler, key)) if schedulers.iter().any(|under| under.name == scheduler) => {
            Ok((Some(scheduler), format!("iosched/{key}"), value.into()))
        }
        Some(_) => Err(wrong()),
    }
}
