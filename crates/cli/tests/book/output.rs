//! Compares a command's output with the output in a document: a line `...` stands for any lines, `[..]` for anything in a line.

/// Any lines.
const LINES: &str = "...";
/// Anything in a line.
const ANY: &str = "[..]";
/// All that a command prints, which is filled in.
const UNKNOWN: &str = "???";

/// Whether the output is as the document says.
pub(crate) fn is_as_expected(expected: &str, printed: &str) -> bool {
    let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    matches(&expected, &printed)
}

fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&LINES, rest)) => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        Some((line, rest)) => {
            printed.first().is_some_and(|found| is_same_line(line, found)) && matches(rest, &printed[1..])
        }
    }
}

fn is_same_line(expected: &str, printed: &str) -> bool {
    match expected.split_once(ANY) {
        None => expected == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|printed| {
            let ends = (0..=printed.len()).filter(|at| printed.is_char_boundary(*at));
            ends.into_iter().any(|at| is_same_line(rest, &printed[at..]))
        }),
    }
}

/// The expectation, renewed from the present output: its lines are found again by their words, whatever their numbers. If a line is not
/// found, the whole output is shown.
pub(crate) fn renewed(expected: &str, printed: &str) -> String {
    let whole = || printed.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if !expected.lines().any(|line| line == LINES) || expected.lines().any(|line| line == UNKNOWN) {
        return whole();
    }
    let mut rest = printed.lines();
    let mut text = String::new();
    for line in expected.lines() {
        if line == LINES {
            text += "...\n";
            continue;
        }
        // A line matches one with the same words in the same order, or else one with the same first word.
        let found = [words as fn(&str) -> String, first_word].into_iter().find_map(|key| {
            let mut lines = rest.clone();
            let found = lines.find(|printed| key(printed) == key(line))?;
            rest = lines;
            Some(found)
        });
        match found {
            Some(found) => text += &format!("{}\n", found.trim_end()),
            None => return whole(),
        }
    }
    if is_as_expected(&text, printed) { text } else { whole() }
}

/// A line without its numbers and signs.
fn words(line: &str) -> String {
    let letters = line.chars().map(|letter| if letter.is_alphabetic() { letter } else { ' ' }).collect::<String>();
    letters.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn elisions_match_anything_the_rest_must_match() {
    let printed = "a table\n\nnone   1.5\nbfq    2.5\n";
    for (expected, is_so) in [
        (printed, true),
        ("...\n", true),
        ("a table\n...\nbfq    2.5\n", true),
        ("a table\n\nnone   [..]\nbfq    [..]5\n", true),
        ("a table\n...\nbfq    2.6\n", false),
        ("a table\n", false),
        ("", false),
    ] {
        assert_eq!(is_as_expected(expected, printed), is_so, "{expected}");
    }
    assert_eq!(renewed("a table\n...\nbfq    1.5\n", printed), "a table\n...\nbfq    2.5\n");
    assert_eq!(renewed("???\n", printed), printed);
    assert_eq!(renewed("a table\n...\nkyber  1.5\n", printed), printed);
}
