//! Ranges of a sweep: numbers, and texts that hold one, from a first to a last value in steps or by a factor.

use toml::{Table, Value};

use crate::document;

type Wrong = (String, &'static str);

const EXPECTED: &str = "{ from = 1, to = 9, step = 2 }, or { from = \"1ms\", to = \"16ms\", factor = 2 }";

/// A number in a text: what stands before and after it.
#[derive(Clone, Debug, PartialEq)]
struct Amount {
    before: String,
    number: f64,
    after: String,
    is_text: bool,
    is_whole: bool,
}

impl Amount {
    /// The number that a value is, or the last one in a text.
    fn of(value: &Value) -> Option<Self> {
        let plain = |number: f64, is_whole: bool| {
            Some(Self { before: String::new(), number, after: String::new(), is_text: false, is_whole })
        };
        let text = match value {
            Value::Integer(number) => return plain(*number as f64, true),
            Value::Float(number) => return plain(*number, false),
            Value::String(text) => text,
            _ => return None,
        };
        let is_digit = |character: char| character.is_ascii_digit();
        let end = text.rfind(is_digit)? + 1;
        let start = text[..end].rfind(|character| !is_digit(character) && character != '.').map_or(0, |at| {
            // The character that ends the search may be longer than a byte.
            at + text[at..].chars().next().map_or(1, char::len_utf8)
        });
        let digits = text[start..end].trim_start_matches('.');
        let before = text[..end - digits.len()].to_owned();
        let number = digits.parse().ok()?;
        Some(Self { before, number, after: text[end..].to_owned(), is_text: true, is_whole: !digits.contains('.') })
    }

    /// The value with another number.
    fn with(&self, number: f64, is_whole: bool) -> Value {
        if self.is_text {
            return Value::String(format!("{}{number}{}", self.before, self.after));
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within the bounds of the range")]
        if is_whole { Value::Integer(number as i64) } else { Value::Float(number) }
    }
}

/// How one value follows another.
enum Next {
    Step(f64),
    Factor(f64),
}

/// The values of a range, at most `count_max`; the last is included where a step or factor leads there. An error says what is wrong and
/// what was expected.
pub(super) fn values(table: &Table, count_max: usize) -> Result<Vec<Value>, Wrong> {
    let wrong = |problem: &str| (problem.to_owned(), EXPECTED);
    if let Some(key) = table.keys().find(|key| !["from", "to", "step", "factor"].contains(&key.as_str())) {
        return Err((format!("a range has no key `{key}`"), EXPECTED));
    }
    let amount = |key: &str| {
        let value = table.get(key).ok_or_else(|| (format!("the range has no `{key}`"), EXPECTED))?;
        let amount = Amount::of(value).filter(|amount| amount.number.abs() <= NUMBER_MAX);
        amount.ok_or_else(|| (format!("`{key}` = {value} is no number within 2^53, nor a text with one"), EXPECTED))
    };
    let (from, to) = (amount("from")?, amount("to")?);
    if (&from.before, &from.after, from.is_text) != (&to.before, &to.after, to.is_text) {
        return Err(wrong("`from` and `to` differ in more than one number"));
    }
    let (next, by) = match (table.contains_key("step"), table.contains_key("factor")) {
        (true, false) => {
            let step = amount("step")?;
            if step.is_text && step.after != from.after {
                return Err(wrong("`step` has another unit than `from`"));
            }
            (Next::Step(step.number), step)
        }
        (false, true) => {
            let factor = amount("factor")?;
            if factor.is_text {
                return Err(wrong("`factor` has a unit"));
            }
            (Next::Factor(factor.number), factor)
        }
        _ => return Err(wrong("a range has either a `step` or a `factor`")),
    };
    let grows = match next {
        Next::Step(step) => step > 0.0,
        Next::Factor(factor) => factor > 1.0 && from.number > 0.0,
    };
    if !grows || from.number > to.number {
        return Err(wrong("the range does not lead from `from` to `to`"));
    }
    let is_whole = from.is_whole && to.is_whole && by.is_whole;
    let mut values = Vec::new();
    for count in 0.. {
        let number = match next {
            Next::Step(step) => from.number + step * f64::from(count),
            Next::Factor(factor) => from.number * factor.powi(count),
        };
        // The sum of 0.1 and 0.2 is 0.3 for who writes a range.
        let number = if is_whole { number } else { rounded(number) };
        if number > to.number {
            break;
        }
        if values.len() == count_max {
            return Err((format!("the range has more than {count_max} values"), EXPECTED));
        }
        values.push(from.with(number, is_whole));
    }
    Ok(values)
}

/// The numbers that values are, and the unit that they all have; none where they differ in more than a number.
pub(super) fn numbers(values: &[document::Value]) -> Option<(Vec<f64>, String)> {
    let amount = |value: &document::Value| match value {
        document::Value::Text(text) => Amount::of(&Value::String(text.clone())),
        value => Amount::of(&Value::Float(value.number()?)),
    };
    let amounts = values.iter().map(amount).collect::<Option<Vec<Amount>>>()?;
    let first = amounts.first()?;
    let is_alike = |other: &Amount| (&other.before, &other.after) == (&first.before, &first.after);
    // A name with a number in it, such as that of a device, is no number.
    let is_number = first.before.is_empty() || first.before.ends_with(['=', ':', 'x']);
    let numbers = amounts.iter().map(|amount| amount.number).collect();
    (is_number && amounts.iter().all(is_alike)).then(|| (numbers, first.after.clone()))
}

/// Beyond it not every whole number is one of these.
const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// Rounds to twelve digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}
