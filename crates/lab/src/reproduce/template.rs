//! Sentences with numbers in them: `most here: {further:highest trace}[, {off:+.1} % off]`.
//!
//! Braces hold a name or an expression, and after a colon how it is shown: `+` with its sign, `.1` with one decimal,
//! `highest AXIS` the name of the highest cell, `label` a name as people read it. What is in brackets is left out where a number of it does not exist.

use super::expression::{At, Expression, Scope, number_of, text_of};

/// A parsed sentence.
#[derive(Clone, Debug, Default)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Value(Expression, Shown),
    Optional(Template),
}

/// How a value is shown.
#[derive(Clone, Debug, PartialEq)]
enum Shown {
    Number {
        signed: bool,
        decimals: Option<usize>,
    },
    /// The value of this axis at the cell with the highest number.
    Highest(String),
    /// A name as people read it.
    Label,
}

impl Shown {
    fn parse(text: &str) -> Option<Self> {
        if let Some(axis) = text.strip_prefix("highest ") {
            return Some(Self::Highest(axis.trim().into()));
        }
        if text == "label" {
            return Some(Self::Label);
        }
        let (signed, rest) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
        let decimals = match rest.strip_prefix('.') {
            Some(digits) => Some(digits.parse().ok().filter(|digits| *digits <= 9)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self::Number { signed, decimals })
    }
}

/// A number with its sign and decimals.
fn show(number: f64, signed: bool, decimals: Option<usize>) -> String {
    match (signed, decimals) {
        (true, Some(decimals)) => format!("{number:+.decimals$}"),
        (true, None) => format!("{number:+}"),
        (false, Some(decimals)) => format!("{number:.decimals$}"),
        (false, None) => format!("{number}"),
    }
}

/// Where the bracket that opens at the start of `text` closes.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    for (at, one) in text.char_indices() {
        depth += i32::from(one == open) - i32::from(one == close);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

impl Template {
    /// Reads a sentence that begins at byte `start` of a file.
    pub(super) fn parse(text: &str, start: usize) -> Result<Self, At> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(found) = text[at..].find(['{', '[']) {
            if found > 0 {
                pieces.push(Piece::Text(text[at..at + found].to_owned()));
            }
            at += found;
            let is_value = text[at..].starts_with('{');
            let (open, close) = if is_value { ('{', '}') } else { ('[', ']') };
            let length =
                closing(&text[at..], open, close).ok_or_else(|| (start + at, format!("a `{close}` is missing")))?;
            let inner = &text[at + 1..at + length];
            let inner_start = start + at + 1;
            pieces.push(if is_value {
                Self::value(inner, inner_start)?
            } else {
                Piece::Optional(Self::parse(inner, inner_start)?)
            });
            at += length + 1;
        }
        if at < text.len() {
            pieces.push(Piece::Text(text[at..].to_owned()));
        }
        Ok(Self(pieces))
    }

    fn value(inner: &str, start: usize) -> Result<Piece, At> {
        // A colon within a selection belongs to a name.
        let after = inner.rfind(']').map_or(0, |at| at + 1);
        let (expression, shown) = match inner[after..].rfind(':') {
            Some(at) => (&inner[..after + at], &inner[after + at + 1..]),
            None => (inner, ""),
        };
        let wrong =
            || (start + expression.len(), format!("`{shown}` is no way to show a number: `+`, `.1`, `highest AXIS`"));
        Ok(Piece::Value(Expression::parse(expression, start)?, Shown::parse(shown).ok_or_else(wrong)?))
    }

    /// Calls `act` for every expression.
    pub(super) fn walk(&self, act: &mut dyn FnMut(&Expression)) {
        for piece in &self.0 {
            match piece {
                Piece::Value(expression, _) => expression.walk(act),
                Piece::Optional(inner) => inner.walk(act),
                Piece::Text(_) => {}
            }
        }
    }

    /// The sentence; none where a number does not exist that is not optional.
    pub(super) fn render(&self, scope: &Scope<'_>) -> Result<Option<String>, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(words) => text.push_str(words),
                Piece::Optional(inner) => text.push_str(&inner.render(scope)?.unwrap_or_default()),
                Piece::Value(expression, shown) => match render_value(expression, shown, scope)? {
                    Some(words) => text.push_str(&words),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(text))
    }
}

fn render_value(expression: &Expression, shown: &Shown, scope: &Scope<'_>) -> Result<Option<String>, String> {
    if let Expression::Name(name, _) = expression
        && let Some(value) = scope.variables.get(name)
    {
        if *shown == Shown::Label {
            return Ok(Some(scope.label(&text_of(value))));
        }
        let plain = *shown == Shown::Number { signed: false, decimals: None };
        if plain || number_of(value).is_none() {
            return Ok(Some(text_of(value)));
        }
    }
    let values = scope.value(expression)?;
    Ok(match shown {
        Shown::Number { signed, decimals } => values.number()?.map(|number| show(number, *signed, *decimals)),
        Shown::Label => None,
        Shown::Highest(axis) => {
            let highest = values.0.iter().max_by(|left, right| left.mean().total_cmp(&right.mean()));
            let cell = highest.and_then(|entry| scope.results.cells.get(entry.cell?));
            cell.and_then(|cell| cell.place(axis)).map(|name| scope.label(name))
        }
    })
}
