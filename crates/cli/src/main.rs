//! The program: everything is in the library, so that it can be called as a function too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ioweir::run(std::env::args_os()).into()
}
