//! What one fuzzing input means to the control socket, for the target and for the test that replays the corpus on stable.

use ioweir_serve::control::{Command, assign, differences};
use ioweir_serve::spec::Spec;

/// What is changed.
const SPEC: &str = "[server]
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
    let Ok(spec) = Spec::parse("fuzz", SPEC) else { unreachable!("the spec above is right") };
    for line in data.split_inclusive(|&byte| byte == b'\n').take(8) {
        let Ok(Command::Set(assignments)) = Command::parse(line) else { continue };
        let Ok(changed) = assign(&spec, &assignments) else { continue };
        assert!(differences(&spec, &changed).is_ok(), "{assignments:?}");
        assert_eq!(Spec::parse("fuzz", &changed.to_toml()).as_ref(), Ok(&changed));
    }
}
