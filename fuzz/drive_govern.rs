//! Runs one fuzzing input through the governor, for the target and for the test that replays the corpus on stable.

use ioweir_background::govern::{GovernSpec, Governor, Sample, Slice, State, Step};
use ioweir_core::Nanos;

/// A plan of more bins takes too long to be tried often.
const BINS_MAX: u64 = 200;
/// The most that happens: for each day that passes the forecast is fitted anew, and with more of them an input took a minute.
const EVENTS_MAX: usize = 24;
/// The most instructions between two calls: a governor that never says what to wait for would run on.
const STEPS_MAX: usize = 200;
const START: Nanos = Nanos::from_seconds(1_772_409_600);

/// Up to a zero byte: the spec. Behind it: a kept state as JSON, if it begins with a brace, or else what happens, three bytes
/// each: how much time passes, what it is, and how much of it.
pub(crate) fn drive(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..split]) else { return };
    let Ok(spec) = GovernSpec::parse("govern.toml", text) else { return };
    if spec.forecast.horizon.nanos().0 / spec.bin().0 > BINS_MAX {
        return;
    }
    let rest = data.get(split + 1..).unwrap_or_default();
    if rest.first() == Some(&b'{') {
        let Ok(state) = serde_json::from_slice::<State>(rest) else { return };
        if let Ok(mut governor) = Governor::resume(&spec, START, state) {
            let _ = governor.status(START);
            drain(&mut governor, START, &mut Vec::new());
        }
        return;
    }
    let Ok(mut governor) = Governor::new(&spec, START) else { return };
    let (mut now, mut running) = (START, Vec::new());
    for event in rest.chunks_exact(3).take(EVENTS_MAX) {
        let (pause, what, much) = (u64::from(event[0]), event[1], u64::from(event[2]));
        // From a second to a few years.
        now = now.after(Nanos::from_seconds(1 << (pause / 9)));
        match what % 8 {
            0..=3 => {
                let span = Nanos::from_seconds(1 << (pause / 9).min(8));
                let sample = Sample {
                    span,
                    requests: much,
                    written_bytes: much << 20,
                    unmapped_bytes: much << 16,
                    new_bytes: (what & 16 == 16).then_some((much << 20) / 3),
                    busy: Nanos(span.0 / 255 * much),
                    background_busy: (what & 1 == 1).then_some(Nanos(span.0 / 512 * much)),
                    latency: (what & 2 == 2).then(|| Nanos::from_millis(much)),
                };
                governor.sample(now, &sample);
            }
            4 => {
                for (service, _) in spec.services() {
                    governor.owes(now, service, much << 24);
                }
            }
            5 => {
                let kept = serde_json::to_string(&governor.state()).expect("a state is JSON");
                let state = serde_json::from_str(&kept).expect("a state is read as it was written");
                let resumed = Governor::resume(&spec, now, state).expect("what was kept is valid");
                assert_eq!(resumed.status(now), governor.status(now));
                governor = resumed;
            }
            _ => {
                if let Some(slice) = running.pop() {
                    let Slice { tag, bytes, .. } = slice;
                    assert!(governor.complete(now, tag, bytes / 128 * much, Nanos::from_millis(much * 100)));
                }
            }
        }
        drain(&mut governor, now, &mut running);
        assert!(running.len() <= spec.cores.as_ref().map_or(12, |cores| cores.count as usize));
        assert!(governor.status(now).running_per_mille <= 1000);
    }
}

fn drain(governor: &mut Governor, now: Nanos, running: &mut Vec<Slice>) {
    for _ in 0..STEPS_MAX {
        match governor.poll(now) {
            Step::Run(slice) => running.push(slice),
            Step::Pause(tag) | Step::End(tag) => assert!(governor.running().any(|slice| slice.tag == tag)),
            Step::WaitUntil(until, _) | Step::Idle(until) => {
                assert!(until > now);
                return;
            }
        }
    }
}
