//! The verb `govern`: joins the lab's governor to the sources and workers of this machine.

mod adapter;
mod file;
mod machine;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use ioweir_background::govern::{self, Governor, Sample};
use ioweir_background::series::{Kind, SeriesOptions, read_inputs};
use ioweir_block::real::{Stop, System};
use ioweir_config::{format_nanos, read_spec, shown};
use ioweir_core::Nanos;
use ioweir_core::background::Service;
use ioweir_govern::clock::{Clocks, Moment};
use ioweir_govern::run::{Plan, employment, run};
use ioweir_govern::source::{self, Past, Source, merged};
use ioweir_govern::spec::{Otherwise, SourceKeys, SourceKind, WorkerKeys, WorkerKind};
use ioweir_govern::store::{Found, Kept, Store};
use ioweir_govern::view::View;
use ioweir_govern::worker::{self, Position, WorkerError};
use ioweir_lab::document::{Column, Document, Format, Table};
use ioweir_trace::Input;

use self::adapter::{Adapter, Pace, new_bytes, sample_of};
use self::file::GovernFile;
pub(crate) use self::file::{key_tables, to_toml};
use crate::arguments::GovernArguments;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Governs, or says what would be done.
pub(crate) fn act(arguments: &GovernArguments) -> Result<(), Failure> {
    let text = read_spec(&arguments.spec)?;
    let file = GovernFile::parse(&arguments.spec, &text)?;
    let path = std::env::var("PATH").unwrap_or_default();
    if let Some(complaint) = machine::missing(&file, &System::default(), &path) {
        return Err(complaint.in_file(&arguments.spec, Some(&text)).into());
    }
    let outputs = Outputs::new(&arguments.output, &[], &[Path::new(&arguments.spec)])?;
    let tell = |line: &str| {
        if !arguments.quiet {
            output::notice(line);
        }
    };
    if arguments.dry_run {
        return outputs.write(&rehearse(&file, tell)?);
    }
    let span = arguments.span.as_deref().map(|span| crate::trace::time("--for", span)).transpose()?;
    let stop = Stop::on_signals().map_err(|error| Failure::Running(format!("signals: {error}")))?;
    // In a rehearsal time runs faster, so that no state is loaded or kept.
    let store = (arguments.speed == 1).then(|| Store::new(file.state.clone()));
    let kept = match store.as_ref().map_or(Ok(Found::Nothing), Store::load).map_err(Failure::Input)? {
        Found::Nothing => None,
        Found::Kept(kept) => Some(*kept),
        Found::Damaged(why) => {
            set_aside(store.as_ref(), &why)?;
            None
        }
    };
    let mut sources = open_sources(&file)?;
    let Begun { governor, positions, problem } = begin(&file, kept, &mut sources, &tell)?;
    if let Some(problem) = problem {
        set_aside(store.as_ref(), &problem)?;
    }
    let workers = file.workers().map(|(service, keys)| {
        let name = service.name();
        let position = positions.get(name).copied().unwrap_or_default();
        (employment(name, service, keys), keys.clone(), position)
    });
    let workers = workers.collect();
    let view = file.watch.as_ref().map(View::start).transpose().map_err(Failure::Running)?;
    if let Some(view) = &view {
        let place = view.name();
        let place = place.strip_prefix("tcp:").map_or_else(|| place.to_owned(), |place| format!("http://{place}/"));
        tell(&format!("the page is at {place}"));
    }
    let pace = Pace::new(arguments.speed, Clocks::new().now().wall);
    let mut adapter = Adapter::new(governor, pace);
    let plan = Plan { sources, workers, store, span, view };
    run(plan, &mut adapter, &stop, &mut |line| tell(line)).map_err(Failure::Running)?;
    let now = pace.governor_time(Clocks::new().now().wall);
    outputs.write(&govern::document(adapter.governor(), now)?)
}

/// Keeps a state that cannot be used under another name, and says so.
fn set_aside(store: Option<&Store>, why: &str) -> Result<(), Failure> {
    if let Some(store) = store {
        output::notice(&store.set_aside(why).map_err(Failure::Running)?);
    }
    Ok(())
}

/// The sources that say something about now.
fn open_sources(file: &GovernFile) -> Result<Vec<Box<dyn Source>>, Failure> {
    let mut sources = Vec::new();
    for (number, keys) in file.source.iter().enumerate() {
        let opened = source::open(keys, &System::default());
        let opened = opened.map_err(|error| Failure::Input(format!("source {}: {error}", number + 1)))?;
        sources.extend(opened);
    }
    Ok(sources)
}

/// A governor that can begin.
struct Begun {
    governor: Governor,
    /// Where each worker was left.
    positions: BTreeMap<String, Position>,
    /// The reason why the governor does not go on from the kept state.
    problem: Option<String>,
}

fn begin(
    file: &GovernFile,
    kept: Option<Kept>,
    sources: &mut [Box<dyn Source>],
    tell: &impl Fn(&str),
) -> Result<Begun, Failure> {
    let moment = Clocks::new().now();
    let (mut positions, mut problem) = (BTreeMap::new(), None);
    if let Some(kept) = kept {
        positions = kept.workers;
        let resumed = serde_json::from_value(kept.governor)
            .map_err(|error| error.to_string())
            .and_then(|state| Governor::resume(&file.govern, moment.wall, state).map_err(|error| error.problem));
        match resumed {
            Ok(mut governor) => {
                // Slices that were open when the state was kept are over: no worker runs yet.
                let open: Vec<_> = governor.running().map(|slice| slice.tag).collect();
                for tag in open {
                    governor.complete(moment.wall, tag, 0, Nanos::ZERO);
                }
                return Ok(Begun { governor, positions, problem });
            }
            Err(why) => problem = Some(why),
        }
    }
    let governor = anew(file, moment, sources, tell)?;
    Ok(Begun { governor, positions, problem })
}

/// A governor that begins now, with the past that sources know.
fn anew(
    file: &GovernFile,
    moment: Moment,
    sources: &mut [Box<dyn Source>],
    tell: &impl Fn(&str),
) -> Result<Governor, Failure> {
    let mut governor =
        Governor::new(&file.govern, moment.wall).map_err(|complaint| Failure::Input(complaint.problem()))?;
    let bin_seconds = (file.govern.bin().0 / 1_000_000_000) as u32;
    let mut pasts = Vec::new();
    for source in sources {
        match source.past(moment, bin_seconds) {
            Ok(past) => pasts.extend(past),
            Err(error) => tell(&format!("{}: the past is not known: {error}", source.name())),
        }
    }
    for keys in file.source.iter().filter(|keys| keys.kind == SourceKind::Series) {
        pasts.push(past_of_series(keys, bin_seconds)?);
    }
    governor.recall(remembered(&pasts, file.govern.cores.is_some()));
    Ok(governor)
}

/// The rates of files.
fn past_of_series(keys: &SourceKeys, bin_seconds: u32) -> Result<Past, Failure> {
    let inputs: Vec<Input> = keys.file.iter().map(|name| Input::from_path(Path::new(name))).collect();
    let columns = [&keys.requests, &keys.busy, &keys.written_bytes, &keys.discarded_bytes, &keys.unique];
    let options = SeriesOptions {
        bin_seconds: Some(bin_seconds),
        columns: columns.into_iter().flatten().cloned().collect(),
        kind: Kind::Mean,
        total: true,
    };
    let series = read_inputs(&inputs, &options)?;
    let of = |column: &Option<String>| {
        let found = series.iter().find(|series| Some(&series.name) == column.as_ref());
        found.map(|series| series.values.clone()).unwrap_or_default()
    };
    let start_unix_seconds = series.first().map_or(0, |series| series.start_unix_seconds);
    let [requests, busy, written_bytes, discarded_bytes, unique] = columns.map(of);
    Ok(Past { start_unix_seconds, bin_seconds, requests, written_bytes, discarded_bytes, unique, busy })
}

/// The past as samples of one bin each. Each bin comes from the first source that knows it.
fn remembered(pasts: &[Past], by_requests: bool) -> Vec<(Nanos, Sample)> {
    let mut all = BTreeMap::new();
    for past in pasts.iter().rev() {
        let load = if by_requests { &past.requests } else { &past.busy };
        for (at, value) in load.iter().enumerate() {
            let Some(value) = value else { continue };
            let span = Nanos::from_seconds(u64::from(past.bin_seconds));
            let seconds = past.start_unix_seconds + (at as i64 + 1) * i64::from(past.bin_seconds);
            let Ok(seconds) = u64::try_from(seconds) else { continue };
            let whole = |rate: f64| (rate * span.as_seconds()).round() as u64;
            let other = |rates: &[Option<f64>]| rates.get(at).copied().flatten();
            let written = other(&past.written_bytes);
            let written_bytes = whole(written.unwrap_or(0.0));
            let sample = Sample {
                span,
                requests: if by_requests { whole(*value) } else { 0 },
                written_bytes,
                new_bytes: new_bytes(written_bytes, written.and(other(&past.unique))),
                unmapped_bytes: whole(other(&past.discarded_bytes).unwrap_or(0.0)),
                busy: if by_requests { Nanos::ZERO } else { Nanos((value.min(1.0) * span.0 as f64) as u64) },
                background_busy: Some(Nanos::ZERO),
                ..Sample::default()
            };
            all.insert(seconds, sample);
        }
    }
    all.into_iter().map(|(seconds, sample)| (Nanos::from_seconds(seconds), sample)).collect()
}

/// Rehearses the governor without running anything: two looks at the sources, a plan, and the workers.
fn rehearse(file: &GovernFile, tell: impl Fn(&str)) -> Result<Document, Failure> {
    let kept = match Store::new(file.state.clone()).load().map_err(Failure::Input)? {
        Found::Kept(kept) => Some(*kept),
        Found::Nothing => None,
        Found::Damaged(why) => {
            tell(&format!("the kept state cannot be used: {why}"));
            None
        }
    };
    let mut sources = open_sources(file)?;
    let clocks = Clocks::new();
    let Begun { mut governor, problem, .. } = begin(file, kept, &mut sources, &tell)?;
    if let Some(problem) = problem {
        tell(&format!("the kept state cannot be used: {problem}"));
    }
    let first = clocks.now();
    for source in &mut sources {
        // A source's first reading only sets its starting point.
        let _ = source.read(first);
    }
    // No message is sent on the channel: it is only a way to wait.
    let (_keep, nothing) = channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_secs(1));
    let now = clocks.now();
    let seen: Vec<_> = sources.iter_mut().map(|source| (source.name(), source.read(now))).collect();
    let reading = merged(seen.iter().filter_map(|(_, seen)| seen.as_ref().ok()));
    if let Some(sample) = sample_of(&reading, now.steady.since(first.steady), file.govern.cores.is_some()) {
        governor.sample(now.wall, &sample);
    }
    let mut mute = Vec::new();
    for (service, owed) in owed_by_servers(file) {
        match owed {
            Ok(bytes) => governor.owes(now.wall, service, bytes),
            Err(error) => mute.push(format!("note: {}: what it owes is not known: {error}", service.name())),
        }
    }
    governor.replan();
    let step = governor.poll(now.wall);
    let mut document = govern::document(&governor, now.wall)?;
    mute.into_iter().for_each(|note| document.text(note));
    document.title = "What the governor would do".into();
    let what = match step {
        govern::Step::Run(slice) => {
            let [bytes, rate, reserved] = [slice.bytes, slice.bytes_per_second, slice.reservation_bytes_per_second]
                .map(ioweir_config::format_bytes);
            let reserved = if slice.reservation_bytes_per_second > 0 {
                format!(", {reserved}/s of it reserved")
            } else {
                String::new()
            };
            format!("It would run {} now: {bytes} at {rate}/s{reserved}.", slice.service.name())
        }
        govern::Step::WaitUntil(until, hold) => {
            let span = format_nanos(until.since(now.wall));
            format!("It would run nothing now ({}), and look again within {span}.", hold.name())
        }
        govern::Step::Idle(_) => "It would run nothing now:".to_owned(),
        govern::Step::Pause(_) | govern::Step::End(_) => "It would stop what runs.".to_owned(),
    };
    document.headline = format!("{what} {}", document.headline);
    document.push(seen_table(&seen));
    document.push(worker_table(file));
    Ok(document)
}

/// The debts that servers report for their services. Commands are not run to be asked.
fn owed_by_servers(file: &GovernFile) -> Vec<(Service, Result<u64, WorkerError>)> {
    let servers = file.workers().filter(|(_, keys)| keys.kind == WorkerKind::Server);
    let owed = |(service, keys): (Service, &WorkerKeys)| {
        let said = worker::open(service.name(), keys, Position::default()).and_then(|mut worker| worker.progress());
        (service, said.map(|progress| progress.owed_bytes.unwrap_or(0)))
    };
    servers.map(owed).collect()
}

fn seen_table(seen: &[(String, Result<source::Reading, source::SourceError>)]) -> Table {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [
        Column::text("source"),
        Column::digits("busy, %", 1),
        Column::digits("requests a second", 1),
        Column::seconds("latency"),
        words("problem"),
    ];
    let mut table = Table::new("What the sources see", columns);
    for (name, seen) in seen {
        let reading = seen.clone().unwrap_or_default();
        table.row([
            shown(name).into(),
            reading.busy.map(|busy| busy * 100.0).into(),
            reading.requests.into(),
            reading.latency_seconds.into(),
            seen.as_ref().err().map(ToString::to_string).unwrap_or_default().into(),
        ]);
    }
    table
}

/// The calls that would be made for each worker.
fn worker_table(file: &GovernFile) -> Table {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [Column::text("service"), words("is run by"), words("rests by"), words("without the governor")];
    let mut table = Table::new("Workers", columns);
    for (service, keys) in file.workers() {
        let [runs, rests] = ways(service.name(), keys);
        let otherwise = keys.rate.as_ref().and_then(|rate| rate.otherwise);
        let without = match (keys.kind, keys.default, otherwise) {
            (WorkerKind::Server, ..) => "as the server's spec says".into(),
            (_, Otherwise::Rest, Some(value)) => format!("goes on at {value}"),
            (_, Otherwise::Rest, None) => "rests".into(),
            (_, Otherwise::Run, _) => "runs".into(),
        };
        table.row([service.name().into(), runs.into(), rests.into(), without.into()]);
    }
    table
}

/// The ways in which a worker runs and rests.
fn ways(name: &str, keys: &WorkerKeys) -> [String; 2] {
    let line = |words: &[String]| shown(&words.join(" "));
    let rate = keys.rate.as_ref().map(|rate| match &rate.file {
        Some(file) => format!("a value in {}", shown(&file.display().to_string())),
        None => line(&rate.command),
    });
    match keys.kind {
        WorkerKind::Server => {
            let service = keys.service.as_deref().unwrap_or(name);
            [format!("service {} of a server", shown(service)), "the same".into()]
        }
        WorkerKind::Unit => {
            let unit = shown(keys.unit.as_deref().unwrap_or_default());
            [format!("systemctl start {unit}"), format!("systemctl freeze {unit}")]
        }
        WorkerKind::Command => {
            let first = |all: [&[String]; 3]| all.into_iter().find(|words| !words.is_empty()).map(line);
            let rests = first([&keys.pause, &keys.end, &[]]);
            let stopped = if keys.run.is_empty() { "its end" } else { "SIGSTOP" };
            [
                first([&keys.start, &keys.run, &keys.step]).or_else(|| rate.clone()).unwrap_or_default(),
                rests.or(rate).unwrap_or_else(|| stopped.into()),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;
    use ioweir_govern::source::Reading;

    #[test]
    fn rehearsal_explains_and_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [state, made] = ["state.json", "made"].map(|name| folder.path().join(name));
        let text = format!(
            "state = {state:?}\n[[source]]\nkind = \"disk\"\ndisk = \"no-such-disk\"\n[service.scrub]\nowed = \"1TiB\"\n\
             deadline = \"10d\"\n[worker.scrub]\nstart = [\"touch\", {made:?}]\nend = [\"true\"]\n"
        );
        let file = GovernFile::parse("govern.toml", &text).unwrap();
        let shown = rehearse(&file, |_| {}).unwrap().to_terminal(false);
        // The foreground's load is unknown, and no debt is due soon.
        for part in ["It would run nothing now (", "no-such-disk", "touch", "1 TiB", "without the governor"] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn rehearsal_plans_debts_of_servers() {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("control");
        let text = format!(
            "state = {:?}\n[[source]]\nkind = \"disk\"\ndisk = \"no-such-disk\"\n[service.unmap]\ndeadline = \"1d\"\n\
             [worker.unmap]\nkind = \"server\"\ncontrol = \"unix:{}\"\nservice = \"late\"\n",
            folder.path().join("state.json"),
            control.display()
        );
        let file = GovernFile::parse("govern.toml", &text).unwrap();
        let shown = rehearse(&file, |_| {}).unwrap().to_terminal(false);
        assert!(shown.contains("note: unmap: what it owes is not known: "), "{shown}");
        let server = UnixListener::bind(&control).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut client, _) = server.accept().unwrap();
            BufReader::new(&client).read_line(&mut String::new()).unwrap();
            let service = "{\"name\":\"late\",\"kind\":\"trim\",\"device\":\"d\",\"running\":false,\"waits_because\":\"\",\
                           \"lease_left_seconds\":null,\"owed_bytes\":1073741824,\"done_bytes\":7,\"device_seconds\":0.5,\
                           \"due_since\":null,\"late_seconds\":0,\"last_finished\":null,\"found\":{\"damaged_bytes\":0,\
                           \"failed_bytes\":0}}";
            let state = "\"schema_version\":1,\"version\":\"\",\"spec\":\"\",\"listen\":[],\"now_seconds\":0,\"connections\":0,\
                         \"connections_max\":1,\"devices\":[],\"groups\":[],\"classes\":[],\"changes\":[]";
            writeln!(client, "{{\"ok\":{{{state},\"services\":[{service}]}}}}").unwrap();
        });
        let document = rehearse(&file, |_| {}).unwrap();
        answering.join().unwrap();
        let shown = document.to_terminal(false);
        assert!(shown.contains("1 GiB are owed, and wait") && !shown.contains("not known: "), "{shown}");
        let paid = shown.lines().filter(|line| line.contains("GiB") && line.ends_with("unmap")).count();
        assert!(paid > 0, "it is in the plan\n{shown}");
    }

    #[test]
    fn new_governor_owes_and_plans_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let series = folder.path().join("busy.csv");
        // Two days until the open bin: a quarter of the time, and half of it in the last bin that is over.
        let began = 1_767_225_600 + 2 * 86_400 + 300;
        let row = |bin: i64| format!("{},{}\n", 1_767_225_600 + bin * 600, if bin < 287 { 0.25 } else { 0.5 });
        std::fs::write(&series, format!("time,busy\n{}", (0..288).map(row).collect::<String>())).unwrap();
        let text = format!(
            "state = \"s\"\n[[source]]\nkind = \"disk\"\ndisk = \"a\"\n[[source]]\nkind = \"series\"\nfile = [{series:?}]\n\
             busy = \"busy\"\n[forecast]\nbin = \"10m\"\nmethod = \"naive-day\"\n[service.scrub]\nowed = \"1GiB\"\n\
             deadline = \"10m\"\n[worker.scrub]\nrun = [\"true\"]\n"
        );
        let file = GovernFile::parse("govern.toml", &text).unwrap();
        let moment = Moment { steady: Nanos::ZERO, wall: Nanos::from_seconds(began) };
        let governor = anew(&file, moment, &mut [], &|line| panic!("{line}")).unwrap();
        let due = governor.status(moment.wall).services[0].due_unix_seconds;
        assert_eq!(due, Some(began as i64 + 600));
        let planned = |bin: usize| &governor.ahead()[bin];
        let paid: u64 = planned(0).pay_bytes.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!((planned(0).start_unix_seconds, paid), (began as i64 - 300, 1 << 30));
        let is_half = |bin: usize| planned(bin).forecast_per_mille[1] > 400;
        assert_eq!([0, 142, 143, 144].map(is_half), [false, false, true, false]);
    }

    #[test]
    fn past_bins_come_from_first_knowing_source() {
        let past = |start_unix_seconds, busy: &[Option<f64>]| Past {
            start_unix_seconds,
            bin_seconds: 600,
            busy: busy.to_vec(),
            ..Past::default()
        };
        let pasts = [past(600, &[Some(0.5), None]), past(0, &[Some(0.1), Some(0.2), Some(2.0), None])];
        let all = remembered(&pasts, false);
        let seconds = |nanos: Nanos| nanos.0 / 1_000_000_000;
        let busy: Vec<_> = all.iter().map(|(end, sample)| (seconds(*end), seconds(sample.busy))).collect();
        assert_eq!(busy, [(600, 60), (1200, 300), (1800, 600)]);
        assert!(remembered(&pasts, true).is_empty(), "how busy a device is says nothing about requests");
        let past = Past {
            written_bytes: vec![Some(100.0), None],
            discarded_bytes: vec![None, Some(7.0)],
            unique: vec![Some(0.25), Some(0.25)],
            ..past(0, &[Some(0.1), Some(0.2)])
        };
        let all = remembered(&[past], false);
        let blocks: Vec<_> =
            all.iter().map(|(_, sample)| (sample.written_bytes, sample.new_bytes, sample.unmapped_bytes)).collect();
        assert_eq!(blocks, [(60_000, Some(15_000), 0), (0, None, 4200)]);
    }

    #[test]
    fn latency_alone_makes_no_sample() {
        let latency_seconds = Some(0.02);
        let seen = Reading { latency_seconds, requests: Some(100.0), ..Reading::default() };
        let span = Nanos::from_seconds(2);
        assert_eq!(sample_of(&seen, span, false), None);
        assert_eq!(sample_of(&seen, span, true).map(|sample| sample.requests), Some(200));
        let seen = Reading { busy: Some(0.75), background_busy: Some(0.5), ..seen };
        let sample = sample_of(&seen, span, false).unwrap();
        assert_eq!((sample.busy, sample.background_busy), (Nanos::from_millis(1500), Some(Nanos::from_seconds(1))));
        assert_eq!(sample.latency, Some(Nanos::from_millis(20)));
        assert_eq!(sample.new_bytes, None);
        let seen = Reading { written_bytes: Some(1000.0), discarded_bytes: Some(8.0), unique: Some(0.5), ..seen };
        let sample = sample_of(&seen, span, false).unwrap();
        assert_eq!((sample.written_bytes, sample.new_bytes, sample.unmapped_bytes), (2000, Some(1000), 16));
    }
}
