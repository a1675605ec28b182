//! Finds the columns of a line: separators, headings, and a column that may contain separators.

use super::reader::TableReader;
use super::{Column, Heading, Role, Separator, Value};
use crate::reader::fields::{split_quoted, text, trimmed, word_spans, wrong_count};
use crate::reader::number::{Fault, Faulty, digits, quote};

/// The separators that are tried, in this order, if the separator of a format is guessed.
const USUAL_SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

impl TableReader {
    /// The names of the columns, as a line has them.
    pub(crate) fn expected(&self) -> String {
        let separator = match self.separator {
            Separator::Blanks => " ".to_owned(),
            Separator::Byte(b';') => " ; ".to_owned(),
            Separator::Byte(byte) | Separator::Quoted(byte) => char::from(byte).to_string(),
            Separator::SemicolonOrComma | Separator::Guessed => ",".to_owned(),
        };
        let name = |column: &Column| column.name.to_owned();
        let more = self.table.more_columns.then(|| "...".to_owned());
        self.table.columns.iter().map(name).chain(more).collect::<Vec<_>>().join(&separator)
    }

    /// Whether the first line of a file looks like this table.
    pub(crate) fn detects(&mut self, head: &[u8]) -> bool {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = without_mark(line.strip_suffix(b"\r").unwrap_or(line));
        match self.table.heading {
            Heading::Names(_) => self.heading(line).is_ok(),
            Heading::Required => self.begins_like_heading(line, 2),
            Heading::Optional => self.begins_like_heading(line, 2) || self.looks_right(line),
            Heading::None => self.looks_right(line),
            Heading::Guessed => false,
        }
    }

    pub(super) fn looks_right(&mut self, line: &[u8]) -> bool {
        self.split(line).is_ok() && (0..self.columns.len()).all(|place| self.read(line, place).is_ok())
    }

    fn begins_like_heading(&mut self, line: &[u8], columns: usize) -> bool {
        let found = self.cut(line).is_ok();
        let names = self.table.columns.iter().take(columns);
        found && names.zip(&self.cells).all(|(column, cell)| text(line, *cell) == column.name.as_bytes())
    }

    /// Reads the first line, which may be a heading; `false` if it is a request.
    #[cold]
    pub(super) fn first_line(&mut self, line: &[u8]) -> Faulty<bool> {
        if self.separator == Separator::Guessed {
            self.guess_separator(line);
        }
        let is_heading = match self.table.heading {
            Heading::None => false,
            Heading::Optional => self.begins_like_heading(line, 1),
            Heading::Required | Heading::Names(_) => true,
            Heading::Guessed => !self.looks_right(line),
        };
        if is_heading && !matches!(self.table.heading, Heading::Guessed) {
            self.heading(line)?;
        }
        self.prepare();
        Ok(is_heading)
    }

    fn guess_separator(&mut self, line: &[u8]) {
        let wanted = self.table.columns.len();
        let enough = |byte: &u8| line.iter().filter(|found| *found == byte).count() + 1 >= wanted;
        let found = USUAL_SEPARATORS.into_iter().find(|byte| wanted > 1 && enough(byte));
        self.separator = found.map_or(Separator::Blanks, Separator::Quoted);
        if let Separator::Quoted(byte) = self.separator
            && !line.contains(&b'"')
        {
            self.separator = Separator::Byte(byte);
        }
    }

    /// Reads the heading, and finds the columns in it.
    pub(crate) fn heading(&mut self, line: &[u8]) -> Faulty<()> {
        let line = without_mark(line);
        self.cut(line)?;
        let Heading::Names(matches) = self.table.heading else { return self.heading_in_order(line) };
        let names: Vec<&str> = self.table.columns.iter().map(|column| column.name).collect();
        let mut places = Vec::with_capacity(names.len());
        for name in &names {
            let found = self.cells.iter().position(|cell| matches(text(line, *cell), name));
            places.push(found.ok_or_else(|| {
                Fault::new(line.len(), format!("column `{name}` is missing"))
                    .expected(format!("a heading with {}", names.join(", ")))
            })?);
        }
        self.places = Some((places, self.cells.len()));
        Ok(())
    }

    fn heading_in_order(&mut self, line: &[u8]) -> Faulty<()> {
        let mut columns = Vec::new();
        let mut known = self.table.columns.iter();
        for cell in &self.cells {
            let name = text(line, *cell);
            match known.next() {
                Some(column) if column.name.as_bytes() == name => columns.push(*column),
                _ if self.table.columns.iter().any(|column| column.name.as_bytes() == name) => {
                    let problem = format!("column {} is out of place", quote(name));
                    return Err(Fault::new(cell.0, problem).expected(self.expected()));
                }
                _ => {
                    return Err(Fault::new(cell.0, format!("unknown column {}", quote(name))).expected(self.expected()));
                }
            }
        }
        match known.next() {
            Some(missing) => {
                Err(Fault::new(line.len(), format!("column `{}` is missing", missing.name)).expected(self.expected()))
            }
            None => {
                self.columns = columns;
                Ok(())
            }
        }
    }

    /// Splits a line at its separators.
    pub(super) fn cut(&mut self, line: &[u8]) -> Faulty<()> {
        // A column that may contain separators is kept as it is, including blanks.
        let bare = self.greedy().is_some();
        let separator = match self.separator {
            Separator::Blanks => {
                self.cells.clear();
                self.cells.extend(word_spans(line, 0));
                return Ok(());
            }
            Separator::SemicolonOrComma => {
                self.separator = Separator::Quoted(if line.contains(&b';') { b';' } else { b',' });
                return self.cut(line);
            }
            Separator::Quoted(byte) => return split_quoted(line, byte, &mut self.cells),
            Separator::Byte(byte) => byte,
            Separator::Guessed => b',',
        };
        self.cells.clear();
        let mut start = 0;
        for end in memchr::memchr_iter(separator, line).chain([line.len()]) {
            self.cells.push(if bare { (start, end) } else { trimmed(line, (start, end)) });
            start = end + 1;
        }
        Ok(())
    }

    /// The column that may contain separators: a command between columns that may not.
    fn greedy(&self) -> Option<usize> {
        let quoted = matches!(self.separator, Separator::Quoted(_));
        self.columns.iter().position(|column| column.role == Role::Command).filter(|_| !quoted)
    }

    /// Finds the columns of a line.
    pub(super) fn split(&mut self, line: &[u8]) -> Faulty<()> {
        self.cut(line)?;
        let (found, wanted) = (self.cells.len(), self.columns.len());
        self.spans.clear();
        if let Some((places, count)) = &self.places {
            if found != *count {
                return Err(wrong_count(line, found, &format!("{count} columns, as in the heading")));
            }
            self.spans.extend(places.iter().map(|&place| self.cells[place]));
            return Ok(());
        }
        if found < wanted || found > wanted && !self.table.more_columns && self.greedy().is_none() {
            return Err(wrong_count(line, found, &self.expected()));
        }
        let Some(greedy) = self.greedy() else {
            self.spans.extend_from_slice(&self.cells[..wanted]);
            return Ok(());
        };
        let extra = if self.table.more_columns { self.anchored(line, greedy)? } else { found - wanted };
        self.spans.extend_from_slice(&self.cells[..greedy]);
        self.spans.push((self.cells[greedy].0, self.cells[greedy + extra].1));
        self.spans.extend_from_slice(&self.cells[greedy + extra + 1..wanted + extra]);
        Ok(())
    }

    /// How many words beyond its first the greedy column has, if more columns may follow the last: as few as possible such
    /// that an operation among numbers follows.
    fn anchored(&self, line: &[u8], greedy: usize) -> Faulty<usize> {
        let fits = |extra: &usize| {
            let after = self.columns.iter().zip(self.cells.iter().skip(*extra)).skip(greedy + 1);
            after.into_iter().all(|(column, cell)| match column.value {
                Value::Words(words) => words.iter().any(|(word, _)| word.as_bytes() == text(line, *cell)),
                _ => digits(text(line, *cell)).is_some(),
            })
        };
        let found = (0..=self.cells.len() - self.columns.len()).find(fits);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.columns[greedy + 1..].iter().map(|column| column.name).collect();
            let problem = format!("the line has no {} after its {}", names.join(" "), self.columns[greedy].name);
            Fault::new(0, problem).expected(self.expected())
        })
    }
}

/// A line without the byte order mark, which some exporters put before the heading.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}
