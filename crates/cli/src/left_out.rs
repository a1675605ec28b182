//! Verbs that a build leaves out, because the feature that they belong to is off: they take any arguments, and are refused.

use clap::Args;

use crate::failure::Failure;

/// Arguments of a verb that is left out.
#[derive(Args, Debug)]
pub(crate) struct LeftOut {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<std::ffi::OsString>,
}

/// Says that a build leaves something out, and how to have it.
pub(crate) fn refused<T>(what: &str, feature: &str) -> Result<T, Failure> {
    Err(Failure::input(
        format!("this build has no {what}"),
        &format!("a build with the feature `{feature}`"),
        &format!("leave away --no-default-features, or add --features {feature}"),
    ))
}

/// The modules of verbs that belong to a feature which is off.
#[cfg(not(all(feature = "advise", feature = "govern", feature = "plan", feature = "reproduce")))]
macro_rules! left_out {
    ($feature:literal: $($verb:ident),+) => {$(
        mod $verb {
            #[allow(dead_code, reason = "verbs below another are refused with it")]
            pub(crate) fn act(_: &crate::left_out::LeftOut) -> Result<(), crate::failure::Failure> {
                crate::left_out::refused(concat!("`", stringify!($verb), "`"), $feature)
            }

            /// A spec of the verb.
            #[allow(dead_code, reason = "not every verb has specs")]
            pub(crate) fn to_toml(_: &str) -> Result<String, crate::failure::Failure> {
                crate::left_out::refused(concat!("`", stringify!($verb), "`"), $feature)
            }
        }
    )+};
}
