//! Rules of every table.

use proptest::prelude::*;

use super::reader::TableReader;
use crate::FORMATS;
use crate::reader::names::Volumes;

/// A line that every table with these columns reads, from a seed.
fn line(reader: &TableReader, numbers: &[u32]) -> Vec<u8> {
    use super::{Role, Separator, Value};
    let Separator::Byte(separator) = reader.separator else { return Vec::new() };
    let mut out = Vec::new();
    for (place, column) in reader.columns.iter().enumerate() {
        if place > 0 {
            out.push(separator);
        }
        let number = numbers[place % numbers.len()];
        let text = match (column.role, column.value) {
            (_, Value::Words(words)) => words[number as usize % words.len()].0.to_owned(),
            (_, Value::Letters) => ["R", "WS", "FWFSM", "FN", "D", "X"][number as usize % 6].to_owned(),
            (_, Value::Time(_) | Value::Seconds) => format!("{}.{}", number % 1000, number / 7),
            (Role::Command, _) | (_, Value::Text) => ["a", "b c", "d,e", " f"][number as usize % 4].to_owned(),
            _ => number.to_string(),
        };
        out.extend_from_slice(text.as_bytes());
    }
    out
}

#[test]
fn incomplete_line_is_left() {
    let mut reader = TableReader::new(crate::format("msr-csv").and_then(|format| format.table).expect("a table"));
    let line = b"128166372003061629,hm,1,Read,383496192,32768,413\n";
    for length in 0..line.len() {
        assert_eq!(reader.fast(&line[..length], &Volumes::default()), None, "{length}");
    }
    assert_eq!(reader.fast(line, &Volumes::default()), Some(line.len() - 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fast_and_careful_readers_agree(
        numbers in prop::collection::vec(any::<u32>(), 7),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"0123456789.,; -RWx".to_vec()),
        damaged in any::<bool>(),
    ) {
        for table in FORMATS.iter().filter_map(|format| format.table) {
            let mut reader = TableReader::new(table);
            let mut line = line(&reader, &numbers);
            if line.is_empty() {
                continue;
            }
            if damaged {
                let place = place.index(line.len());
                line[place] = byte;
            }
            let rest = [&line[..], b"\n7,8"].concat();
            if let Some(length) = reader.fast(&rest, &Volumes::default()) {
                let quick = reader.values;
                let read = reader.careful(&line).is_ok();
                prop_assert_eq!((length, read), (line.len(), true), "{} {}", table.name, line.escape_ascii());
                prop_assert_eq!(reader.values, quick, "{} {}", table.name, line.escape_ascii());
            }
        }
    }
}

#[test]
fn plain_lines_take_the_quick_way() {
    for name in ["hadoop-csv", "msr-csv", "alibaba-csv", "systor-csv", "tencent-csv", "spc"] {
        let mut reader = TableReader::new(crate::format(name).and_then(|format| format.table).expect("a table"));
        let line = line(&reader, &[8, 8, 8, 0, 512, 512, 8]);
        let rest = [&line[..], b"\n"].concat();
        assert_eq!(reader.fast(&rest, &Volumes::default()), Some(line.len()), "{name}: {}", line.escape_ascii());
    }
}
