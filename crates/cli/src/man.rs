//! `ioweir man`: manual pages, made of the same definition as the help.

use std::fs;

use clap::CommandFactory as _;

use crate::arguments::{Arguments, ManArguments};
use crate::failure::Failure;

/// Writes one page for the program and one for each verb, those that the help does not list among them.
pub(crate) fn act(arguments: &ManArguments) -> Result<(), Failure> {
    let name = arguments.folder.display().to_string();
    let failed = |error: std::io::Error| Failure::unwritable(&name, &error);
    fs::create_dir_all(&arguments.folder).map_err(failed)?;
    clap_mangen::generate_to(
        Arguments::command().disable_help_subcommand(true).mut_subcommands(|verb| verb.hide(false)),
        &arguments.folder,
    )
    .map_err(failed)
}
