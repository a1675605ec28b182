//! `ioweir completions`: a script for a shell, which asks the program for candidates or has them written down.

use clap::CommandFactory as _;
use clap_complete::env::Shells;
use clap_complete_nushell::Nushell;

use crate::arguments::{Arguments, CompletionsArguments, Shell};
use crate::failure::Failure;
use crate::output;

/// Prints the script.
pub(crate) fn act(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = match arguments.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Nushell => {
            clap_complete::generate(Nushell, &mut Arguments::command(), "ioweir", &mut script);
            return output::print(&script);
        }
        Shell::Powershell => "powershell",
        Shell::Zsh => "zsh",
    };
    if let Some(shell) = Shells::builtins().completer(name) {
        shell.write_registration("COMPLETE", "ioweir", "ioweir", "ioweir", &mut script)?;
    }
    output::print(&script)
}
