//! Policies from outside that can be chosen by name, beside those of the table.

use std::sync::{PoisonError, RwLock};

use ioweir_core::policy::{POLICIES, PolicyRow};

use crate::{ChoiceError, is_same_name, shown};

static REGISTERED: RwLock<Vec<&'static PolicyRow>> = RwLock::new(Vec::new());

/// Makes a policy known under its name, in this process: a scheduler of a comparison or an experiment may be it, alone or in
/// a pair. A policy that was registered under the same name is replaced.
///
/// # Errors
/// [`ChoiceError`] if the name is that of a built-in policy, or could not be written in a list of schedulers.
pub fn register_policy(row: &'static PolicyRow) -> Result<(), ChoiceError> {
    let error = |problem: &str| ChoiceError {
        problem: format!("policy `{}` {problem}", shown(row.name)),
        expected: "a name of its own of letters, digits, - and _".into(),
        hint: String::new(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if row.name.is_empty() || !row.name.bytes().all(is_plain) {
        return Err(error("has no name that can be written in a list"));
    }
    if POLICIES.iter().any(|built_in| is_same_name(built_in.name, row.name)) {
        return Err(error("is built in"));
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|other| other.name != row.name);
    registered.push(row);
    Ok(())
}

/// Finds a policy by its name, as people write it: of the table, or registered.
pub(crate) fn find(name: &str) -> Option<&'static PolicyRow> {
    let registered = || {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().copied().find(|row| is_same_name(row.name, name))
    };
    POLICIES.iter().find(|row| is_same_name(row.name, name)).or_else(registered)
}

#[cfg(test)]
mod tests {
    use ioweir_core::QueueLimits;
    use ioweir_core::external::{ElevatorFactory, ExternalElevator, Maker, Next};
    use ioweir_core::policy::Settings;
    use ioweir_core::{Nanos, Request};

    use super::*;
    use crate::SchedulerChoice;

    #[derive(Debug)]
    struct Idle;

    impl ExternalElevator for Idle {
        fn submit(&mut self, _now: Nanos, _slot: u32, _request: &Request) {}
        fn remove(&mut self, _slot: u32) {}
        fn poll(&mut self, _now: Nanos) -> Next {
            Next::WaitUntil(Nanos::NEVER)
        }
        fn boxed(&self) -> Box<dyn ExternalElevator> {
            Box::new(Self)
        }
    }

    impl ElevatorFactory for Idle {
        fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
            Box::new(Self)
        }
    }

    static MINE: PolicyRow = PolicyRow::external("mine", "never", Maker::Elevator(&Idle));
    static TAKEN: PolicyRow = PolicyRow::external("noop", "never", Maker::Elevator(&Idle));
    static SPLIT: PolicyRow = PolicyRow::external("a+b", "never", Maker::Elevator(&Idle));

    #[test]
    fn registered_policy_is_chosen_by_name() {
        assert!("mine".parse::<SchedulerChoice>().is_err());
        register_policy(&MINE).expect("the name is free");
        register_policy(&MINE).expect("it replaces itself");
        for text in ["mine", "sfq+mine:window=8"] {
            let choice = text.parse::<SchedulerChoice>().expect("it is registered");
            assert_eq!(choice.to_string(), text);
            let _ = choice.build(QueueLimits::DEFAULT);
        }
        assert!(register_policy(&TAKEN).is_err() && register_policy(&SPLIT).is_err());
    }
}
