//! Runs one fuzzing input through the control socket's commands, for the target and for the test that replays the corpus on stable.

use std::sync::LazyLock;

use ioweir_serve::control::{Command, assign, differences};
use ioweir_serve::spec::Spec;

/// The spec that commands change. It is read once: inputs are short, and reading it takes most of the time of one.
static SPEC: LazyLock<Spec> = LazyLock::new(|| Spec::parse("fuzz", TEXT).expect("the spec is right"));

const TEXT: &str = "[server]
listen = [\"unix:s\"]
[[device]]
name = \"d\"
backend = \"null\"
size = \"1MiB\"
scheduler = \"mclock\"
[[group]]
name = \"g\"
device = \"d\"
[[export]]
name = \"a\"
device = \"d\"
group = \"g\"
[[export]]
name = \"\"
device = \"d\"
[[export]]
name = \"b.c=d\"
device = \"d\"
[service.s]
kind = \"scrub\"
device = \"d\"
";

/// Takes every line for a command. An assignment that is accepted gives a spec that reads back, and that the running server
/// can become.
pub(crate) fn drive(data: &[u8]) {
    for line in data.split_inclusive(|&byte| byte == b'\n').take(8) {
        let Ok(Command::Set(assignments)) = Command::parse(line) else { continue };
        let Ok(changed) = assign(&SPEC, &assignments) else { continue };
        assert!(differences(&SPEC, &changed).is_ok(), "{assignments:?}");
        assert_eq!(Spec::parse("fuzz", &changed.to_toml()).as_ref(), Ok(&changed));
    }
}
