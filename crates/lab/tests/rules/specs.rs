//! Tests of specs of comparisons and experiments: errors have their place, and the command of a spec gives it again.

use ioweir_lab::compare::Comparison;
use ioweir_lab::experiment::{Experiment, Overrides};

#[test]
fn command_says_differences_and_reads_back() {
    let comparison = Comparison::parse(
        "c",
        "traces = [\"my trace\", \"-x\"]\nschedulers = [\"noop\", \"bid-hdd:wait=2ms\"]\ndepth = [1, 4]\nmerge = false\n",
    );
    assert_eq!(
        comparison.unwrap().command(),
        "ioweir compare 'my trace' ./-x --device hdd --scheduler noop,bid-hdd:wait=2ms --load recorded --no-merge \
         --depth 1,4 --seeds 0"
    );
    let overrides = Overrides {
        schedulers: vec!["wfq".into(), "noop".into()],
        seeds: vec![3, 4],
        by_stream: true,
        fold: true,
        ..Overrides::default()
    };
    assert_eq!(
        overrides.command("a b.toml"),
        "ioweir simulate 'a b.toml' --scheduler wfq,noop --seeds 3,4 --by stream --fold"
    );
}

#[test]
fn overriding_values_are_checked_like_own() {
    let text = "duration = \"1s\"\nschedulers = [\"wfq\"]\n[device.null]\ncapacity = \"1GiB\"\nservice = \"1us\"\n\
                [[class]]\nname = \"a\"\nbacklog = 1\n";
    let experiment = Experiment::parse("e", text).unwrap();
    let with = |schedulers: &[&str], seeds: &[u64]| {
        let schedulers = schedulers.iter().map(ToString::to_string).collect();
        Overrides { schedulers, seeds: seeds.to_vec(), by_stream: true, ..Overrides::default() }
            .apply(experiment.clone())
    };
    let changed = with(&["noop"], &[3, 4]).unwrap();
    assert_eq!(
        (changed.schedulers[0].to_string(), changed.seeds, changed.by_stream),
        ("noop".into(), vec![3, 4], Some(true))
    );
    assert!(
        with(&["noop", "noop"], &[])
            .unwrap_err()
            .to_string()
            .starts_with("the flags: schedulers[1]: noop is named twice")
    );
    assert!(with(&[], &[1, 1]).unwrap_err().to_string().contains("seeds"));
    assert!(with(&["nop"], &[]).unwrap_err().to_string().starts_with("unknown scheduler `nop`"));
}

#[test]
fn error_in_list_is_at_its_value() {
    let error = |line: &str| Comparison::parse("c.toml", line).unwrap_err().to_string();
    for (line, expected) in [
        ("depth = [1, 0]", "c.toml:1:9: 0 is no depth"),
        ("depth = \"many\"", "c.toml:1:9: many is no depth"),
        ("seed = 1", "c.toml:1:1: unknown field `seed`: did you mean `seeds`?"),
        ("seeds = -1", "c.toml:1:9: seeds: invalid value: integer `-1`"),
    ] {
        let error = error(line);
        assert!(error.starts_with(expected), "{line}: {error}");
    }
}
