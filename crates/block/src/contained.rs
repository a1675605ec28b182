//! Keeps a panic in a library from ending a thread, and from printing a backtrace into an operator's log.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread reports its panics itself.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Installs the hook that prints nothing for threads which report their panics themselves.
static INSTALLED: Once = Once::new();

/// Does some work; a panic becomes an error with its message, and is not printed. The caller must not use anything that the work may have
/// left half changed.
///
/// # Errors
/// The message of the panic.
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    INSTALLED.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CONTAINED.get() {
                print(panic);
            }
        }));
    });
    let was_contained = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(was_contained);
    done.map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").lines().next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(contained(|| 3), Ok(3));
        let index = "7".parse::<usize>().unwrap_or_default();
        let panicked = contained(|| vec![0_u8; 3][index]);
        assert!(panicked.unwrap_err().contains("index out of bounds"));
        assert!(!IS_CONTAINED.get());
    }
}
