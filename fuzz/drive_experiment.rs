//! Runs one fuzzing input through the reader of experiments, for the target and for the test that replays the corpus on stable.

use ioweir_lab::experiment::Experiment;

/// The input is an experiment file. It is read, never run; traces that it names are not opened.
pub(crate) fn drive(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Experiment::parse("fuzz.toml", text) {
        Ok(experiment) => {
            let written = experiment.to_toml();
            match Experiment::parse("again.toml", &written) {
                Ok(again) => assert!(again == experiment, "what is written reads back as itself"),
                Err(error) => panic!("what is written cannot be read: {error}"),
            }
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml"), "an error names its file"),
    }
}
