//! Tests of the gate: its decision for every standing and for all evidence that a trace can give.

use ioweir_device::calibration::{Part, Range, Source as Measurement};
use proptest::prelude::*;

use super::*;

fn assumed() -> Standing {
    Standing::load("hdd").expect("a preset")
}

fn calibrated(verdict: Verdict) -> Standing {
    Standing::Calibrated(Calibrated {
        source: Measurement::Trace,
        name: "seen.trace".into(),
        judged: Part::SecondHalf,
        error_share: Some(0.1),
        verdict,
        range: Range::default(),
    })
}

/// Evidence of a trace whose latencies the model misses by this factor.
fn missed(factor: f64, requests: u64) -> Evidence {
    let pair = Pair {
        class: "reads".into(),
        requests,
        measured_seconds: 1e-3,
        modelled_seconds: 1e-3 * factor,
        error_share: 0.1,
    };
    let source = Source { words: "a.trace".into(), latencies: requests, is_flash: false };
    Evidence { requests, pairs: vec![pair], source, ..Evidence::default() }
}

#[test]
fn decisions_follow_standing_and_trace() {
    use Decision::{Calibrate, Recommend, Warn};
    let inside = calibrated(Verdict::Inside);
    let spans = |spans| Evidence { spans: Some(spans), ..missed(1.0, 5_000) };
    for (name, standing, evidence, decision) in [
        ("a measurement needs no model", &Standing::Measured, missed(1e4, 5_000), Recommend),
        ("a preset that agrees", &assumed(), missed(1.0, 5_000), Warn),
        ("a preset that is 16,000 times slower", &assumed(), missed(16_000.0, 5_000), Calibrate),
        ("a preset that is 16,000 times faster", &assumed(), missed(1.0 / 16_000.0, 5_000), Calibrate),
        ("few latencies say little", &assumed(), missed(10.0, 50), Warn),
        ("a preset that falls behind", &assumed(), spans((58.0, 106.0)), Calibrate),
        ("a calibrated model that falls behind", &inside, spans((58.0, 106.0)), Warn),
        ("a model that keeps up", &inside, spans((58.0, 58.1)), Recommend),
        ("a calibrated model that agrees", &inside, missed(1.1, 5_000), Recommend),
        ("a calibrated model that is a third off", &inside, missed(1.3, 5_000), Warn),
        ("a calibrated model of another device", &inside, missed(3.0, 5_000), Calibrate),
        ("at the edge", &calibrated(Verdict::Edge), missed(1.0, 5_000), Warn),
        ("outside", &calibrated(Verdict::Outside), missed(1.0, 5_000), Calibrate),
        ("another range", &inside, Evidence { outside: vec!["writes".into()], ..missed(1.0, 5_000) }, Warn),
        ("folded", &inside, Evidence { folded: 3, ..missed(1.0, 5_000) }, Warn),
        ("generated", &inside, Evidence { is_generated: true, ..Evidence::default() }, Warn),
    ] {
        let judgement = judge(standing, &evidence);
        assert_eq!(judgement.decision, decision, "{name}: {judgement:?}");
        assert_eq!(judgement.text().is_empty(), decision == Recommend, "{name}");
        assert_eq!(judgement.recommends(), decision != Calibrate, "{name}");
    }
}

#[test]
fn commands_measure_what_is_missing() {
    let command = |standing: &Standing, evidence: &Evidence| judge(standing, evidence).command;
    assert_eq!(command(&assumed(), &missed(9.0, 5_000)), "ioweir calibrate a.trace --kind disk -o own.toml");
    assert_eq!(command(&assumed(), &Evidence::default()), "ioweir calibrate /dev/DEVICE -o own.toml");
    let outside = calibrated(Verdict::Outside);
    assert!(command(&outside, &missed(1.0, 5_000)).starts_with("ioweir replay a.trace /dev/DEVICE"));
    assert_eq!(command(&outside, &Evidence::default()), "ioweir record /dev/DEVICE -o seen.parquet");
    let text = judge(&outside, &missed(1.0, 5_000)).text();
    assert!(text.contains("its error on the second half is 10 % of the mean"), "{text}");
    assert!(text.contains("measure on the device: ioweir replay ") && !text.contains("Calibrate first"), "{text}");
    assert_eq!(command(&calibrated(Verdict::Inside), &missed(1.0, 5_000)), "", "there is nothing to be surer of");
}

proptest! {
    /// More evidence against a model never makes a decision bolder.
    #[test]
    fn worse_evidence_never_recommends_more(one in 0.01_f64..100.0, other in 0.01_f64..100.0, verdict in 0..3_usize) {
        let standing = calibrated([Verdict::Inside, Verdict::Edge, Verdict::Outside][verdict]);
        let distance = |factor: f64| factor.max(1.0 / factor);
        let (near, far) = if distance(one) <= distance(other) { (one, other) } else { (other, one) };
        prop_assert!(judge(&standing, &missed(near, 500)).decision <= judge(&standing, &missed(far, 500)).decision);
    }
}
