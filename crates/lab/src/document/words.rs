//! Shares and lists as sentences write them.

/// A share in percent, with a digit where it is small; a share above zero is never shown as zero.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value >= 10.0 {
        format!("{value:.0} %")
    } else if value >= 0.1 || value == 0.0 {
        format!("{value:.1} %").replace(".0 %", " %")
    } else {
        // Rounded up, so that a difference is not shown as none.
        "0.1 %".into()
    }
}

/// Items as a sentence lists them: "a, b and c".
#[must_use]
pub fn and_list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_string(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}
