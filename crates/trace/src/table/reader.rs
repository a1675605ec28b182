//! Reads any table: splits a line into columns, reads each as its row says, and makes a record of them.

use std::borrow::Cow;

use ioweir_config::date::{self, DateOrder};
use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};

use super::fast::{Step, Word, quick_words};
use super::{Column, Heading, Role, Separator, Table, Value};
use crate::reader::RawSource;
use crate::reader::fields::{Span, choice, duration, hexadecimal, process_of, text, whole, words};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, quote, scaled, seconds};
use crate::reader::rwbs;
use crate::reader::units::{Decoder, Units};
use crate::{Input, Names, ReadOptions, Record, TraceError};

/// Added to arrival times that are computed from completions: the first arrival may lie before the first completion.
pub(crate) const BEFORE_ZERO_NANOS: u64 = 86_400 * 1_000_000_000;

/// The volumes, streams and processes of one trace.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) volumes: Volumes,
    streams: Volumes,
    processes: Processes,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self { volumes: Volumes::default(), streams: Volumes::default(), processes: Processes::new() }
    }
}

/// The values of one line, before names are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// Numbers, by the role of their column: times in nanoseconds, the extent in the units of its columns.
    pub(super) numbers: [u64; Role::COUNT],
    pub(super) has_latency: bool,
    pub(super) operation: Option<Operation>,
    /// Block-layer letters that have not been read yet.
    pub(super) letters: Option<Span>,
    pub(super) flags: Flags,
    /// The first byte and the length.
    extent: (u64, u64),
    pub(super) command: Span,
    /// The number of the volume, if it is that of the previous line.
    pub(super) known_volume: Option<u32>,
    /// The one or two columns of the volume.
    pub(super) volume: [Span; 2],
    stream: [Span; 2],
}

/// A table, prepared for the lines of one file.
#[derive(Debug)]
pub(crate) struct TableReader {
    pub(super) table: Table,
    /// The columns that this file has.
    pub(super) columns: Vec<Column>,
    /// The steps of the fast path, if there is one.
    pub(super) steps: Vec<Step>,
    pub(super) words: Vec<Word>,
    pub(super) separator: Separator,
    /// The positions of the columns in the heading, and the number of columns that the heading has.
    pub(super) places: Option<(Vec<usize>, usize)>,
    started: bool,
    /// The decimal mark, once it is known.
    decimal_mark: Option<u8>,
    pub(super) cells: Vec<Span>,
    pub(super) spans: Vec<Span>,
    plain: Vec<u8>,
    /// The values of the last line, kept here because moving them costs a tenth of the speed.
    pub(super) values: Values,
    /// Whether `values` are those of the next line, which the fast path has read.
    ready: bool,
    /// The arrival of the next request, if the columns have gaps.
    next_arrival: u64,
    pub(super) shape: Shape,
}

/// Properties of the columns, determined once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    volume: bool,
    stream: bool,
    process: bool,
    event: bool,
    gap: bool,
    think: bool,
    moved: bool,
    completion: bool,
    pub(super) latency: bool,
    offset_unit_bytes: u64,
    length_unit_bytes: u64,
}

impl TableReader {
    pub(crate) fn new(table: &Table) -> Self {
        let mut reader = Self {
            table: *table,
            columns: table.columns.to_vec(),
            steps: Vec::new(),
            words: Vec::new(),
            separator: table.separator,
            places: None,
            started: matches!(table.heading, Heading::None) && table.separator != Separator::Guessed,
            decimal_mark: None,
            cells: Vec::new(),
            spans: Vec::new(),
            plain: Vec::new(),
            values: Values::default(),
            ready: false,
            next_arrival: 0,
            shape: Shape::default(),
        };
        reader.prepare();
        reader
    }

    /// Derives everything that follows from the columns and the separator.
    pub(super) fn prepare(&mut self) {
        let process = self.columns.iter().any(|column| column.role == Role::Pid || column.value == Value::Process);
        let stream = process || self.has(Role::Stream);
        let unit_bytes = |role: Role| match self.place(role).map(|(_, column)| column.value) {
            Some(Value::Size(unit_bytes)) => unit_bytes,
            _ => 1,
        };
        self.shape = Shape {
            volume: self.has(Role::Volume),
            stream,
            process,
            event: self.has(Role::Event),
            gap: self.has(Role::Gap) || self.has(Role::Think),
            think: self.has(Role::Think),
            moved: self.has(Role::Moved),
            completion: self.has(Role::Completion),
            latency: self.has(Role::Latency),
            offset_unit_bytes: unit_bytes(Role::Offset),
            length_unit_bytes: unit_bytes(Role::Length),
        };
        self.words = quick_words(&self.columns, self.separator);
        self.steps = self.quick_steps();
    }

    pub(super) fn has(&self, role: Role) -> bool {
        self.columns.iter().any(|column| column.role == role)
    }

    /// The names that every record has: those of the file, if no column has any.
    fn names(&self, file: &str) -> Names {
        let of = |without: bool| if without { vec![file.to_owned()] } else { Vec::new() };
        let Shape { volume, stream, .. } = self.shape;
        Names { streams: of(!volume && !stream), volumes: of(!volume) }
    }

    /// Reads the column at `place`, which [`Self::split`] found.
    pub(super) fn read(&mut self, line: &[u8], place: usize) -> Faulty<()> {
        let column = self.columns[place];
        let span = self.spans[place];
        if column.empty.is_some() && text(line, span).is_empty() {
            return match (column.role, column.empty) {
                (Role::Operation, Some(why)) => Err(Fault::new(span.0, format!("{} is empty: {why}", column.name))
                    .expected(expected_words(&column))
                    .hint("read leniently to leave such lines out")),
                _ => Ok(()),
            };
        }
        let number = if self.table.localised && matches!(column.value, Value::Time(_) | Value::Size(_)) {
            self.plain_number(line, span, &column)?;
            let plain = (0, self.plain.len());
            number(&self.plain, plain, &column).map_err(|fault| fault.shifted(span.0))?
        } else {
            number(line, span, &column)?
        };
        let values = &mut self.values;
        match column.role {
            Role::Latency => {
                let sum = &mut values.numbers[Role::Latency as usize];
                *sum = sum.saturating_add(number);
                values.has_latency = true;
            }
            Role::Operation if column.value == Value::Letters => values.letters = Some(span),
            Role::Operation => values.operation = operation(line, span, &column)?,
            Role::Command => values.command = span,
            Role::Volume | Role::Stream if column.value == Value::Process => {
                let (pid, command) = process_of(line, span)?;
                values.numbers[Role::Pid as usize] = u64::from(pid);
                values.command = command;
            }
            Role::Volume => push(&mut values.volume, span),
            Role::Stream => push(&mut values.stream, span),
            Role::Ignored => {
                operation(line, span, &column)?;
            }
            Role::Event => {}
            Role::Time | Role::Completion => {
                // Seconds and microseconds may stand in columns of their own, and so may a date and a time of day.
                let sum = &mut values.numbers[column.role as usize];
                *sum = sum.checked_add(number).ok_or_else(|| {
                    Fault::new(span.0, format!("{} does not fit 64 bits of nanoseconds", column.name))
                })?;
            }
            role => values.numbers[role as usize] = number,
        }
        Ok(())
    }

    /// Sets `plain` to the number of a column, with a point as the decimal mark.
    fn plain_number(&mut self, line: &[u8], span: Span, column: &Column) -> Faulty<()> {
        let mark = match self.decimal_mark {
            Some(mark) => mark,
            None => *self.decimal_mark.insert(self.find_decimal_mark(line)?),
        };
        self.plain.clear();
        for (place, &byte) in text(line, span).iter().enumerate() {
            match byte {
                b'0'..=b'9' => self.plain.push(byte),
                _ if byte == mark => self.plain.push(b'.'),
                b'.' | b',' | b' ' => {}
                _ => {
                    let problem = format!("{} {} is not a number", column.name, quote(text(line, span)));
                    return Err(Fault::new(span.0 + place, problem).expected("decimal digits"));
                }
            }
        }
        Ok(())
    }

    /// Finds the decimal mark of the time.
    fn find_decimal_mark(&self, line: &[u8]) -> Faulty<u8> {
        let time = self.columns.iter().position(|column| column.role == Role::Time).unwrap_or(0);
        let (name, span) = (self.columns[time].name, self.spans[time]);
        let last = text(line, span).iter().rev().find(|byte| !byte.is_ascii_digit());
        let mark = last.filter(|mark| matches!(mark, b',' | b'.'));
        mark.copied().ok_or_else(|| {
            Fault::new(span.0, format!("{name} {} has no decimals", quote(text(line, span))))
                .expected("seconds with decimals, such as 1.079943800 or 1,079943800")
        })
    }

    /// Reads every column of a line, and what follows from several of them together.
    pub(super) fn careful(&mut self, line: &[u8]) -> Faulty<()> {
        self.split(line)?;
        self.values = Values { operation: self.table.operation, ..Values::default() };
        for place in 0..self.columns.len() {
            self.read(line, place)?;
        }
        self.finish(line)
    }

    fn place(&self, role: Role) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.role == role)
    }

    /// The name of the column with a role, and its position in the line.
    #[cold]
    fn named(&self, role: Role) -> (&'static str, usize) {
        let found = self.place(role);
        found.map_or(("", 0), |(place, column)| (column.name, self.spans.get(place).map_or(0, |span| span.0)))
    }

    /// Combines columns: letters, bytes, and the arrival if there is only a completion.
    // Called once for each line: without inlining, the call costs a fiftieth of the speed.
    #[inline(always)]
    pub(super) fn finish(&mut self, line: &[u8]) -> Faulty<()> {
        let values = &mut self.values;
        let [offset, length] = [Role::Offset, Role::Length].map(|role| values.numbers[role as usize]);
        if let Some(span) = values.letters.take() {
            let letters = text(line, span);
            let meaning = rwbs::parse(letters, length).map_err(|fault| fault.shifted(span.0))?;
            (values.operation, values.flags) = (meaning.operation, meaning.flags);
            if meaning.operation.is_none() {
                return Err(self.moves_nothing(letters));
            }
            self.remember(letters);
        }
        let (shape, values) = (&self.shape, &mut self.values);
        if self.table.empty_write_flushes && values.operation == Some(Operation::Write) && length == 0 {
            values.operation = Some(Operation::Flush);
        }
        if shape.moved && values.numbers[Role::Moved as usize] != length {
            return Err(self.not_whole(length));
        }
        values.extent = (0, 0);
        if values.operation != Some(Operation::Flush) {
            let bytes = offset.checked_mul(shape.offset_unit_bytes).zip(length.checked_mul(shape.length_unit_bytes));
            let extent = bytes.filter(|(offset, length)| offset.checked_add(*length).is_some());
            values.extent = match extent {
                Some(extent) => extent,
                None => return Err(self.beyond(offset, length)),
            };
        }
        if values.numbers[Role::Pid as usize] > u64::from(u32::MAX) {
            return Err(self.large_pid());
        }
        if shape.completion { self.arrival() } else { Ok(()) }
    }

    #[cold]
    fn moves_nothing(&self, letters: &[u8]) -> Box<Fault> {
        let (name, at) = self.named(Role::Operation);
        Fault::new(at, format!("{name} {} moves no data and is no flush", quote(letters))).expected("R, W or D")
    }

    #[cold]
    fn not_whole(&self, length: u64) -> Box<Fault> {
        let moved = self.values.numbers[Role::Moved as usize];
        Fault::new(self.named(Role::Moved).1, format!("the drive returned {moved} bytes of {length}"))
            .expected("a request that was served in full")
            .hint("read leniently to leave failed requests out")
    }

    #[cold]
    fn beyond(&self, offset: u64, length: u64) -> Box<Fault> {
        let ((start, at), (size, _)) = (self.named(Role::Offset), self.named(Role::Length));
        Fault::new(at, format!("{start} {offset} + {size} {length} ends beyond 2^64 bytes"))
            .expected("an extent that ends within 2^64 bytes")
    }

    #[cold]
    fn large_pid(&self) -> Box<Fault> {
        let (name, at) = self.named(Role::Pid);
        Fault::new(at, format!("{name} {} does not fit 32 bits", self.values.numbers[Role::Pid as usize]))
    }

    /// Computes the latency from arrival and completion, or the arrival from completion and latency.
    fn arrival(&mut self) -> Faulty<()> {
        let [time, completion, latency] =
            [Role::Time, Role::Completion, Role::Latency].map(|role| self.values.numbers[role as usize]);
        if self.has(Role::Time) {
            let early = || Fault::new(self.named(Role::Completion).1, "the request was done before it was created");
            self.values.numbers[Role::Latency as usize] = completion.checked_sub(time).ok_or_else(early)?;
            self.values.has_latency = true;
            return Ok(());
        }
        let shifted = completion.checked_add(BEFORE_ZERO_NANOS).and_then(|shifted| shifted.checked_sub(latency));
        self.values.numbers[Role::Time as usize] = shifted.ok_or_else(|| {
            let (name, at) = self.named(Role::Latency);
            Fault::new(at, format!("{name} is longer than a day before the trace"))
        })?;
        Ok(())
    }

    /// The record of a line; `None` for a heading.
    #[inline]
    pub(crate) fn line(&mut self, line: &[u8], numbers: &mut Numbers, names: &mut Names) -> Faulty<Option<Record>> {
        if !self.started {
            // The columns of some tables are unknown until the right heading is found, so the next line is tried as well.
            self.started = !matches!(self.table.heading, Heading::Names(_));
            let is_heading = self.first_line(line)?;
            self.started = true;
            if is_heading {
                return Ok(None);
            }
        }
        if self.shape.event && !self.is_wanted(line) {
            return Ok(None);
        }
        self.request(line, numbers, names).map(Some)
    }

    /// Whether a line has one of the wanted words in its column of events. A line without that column is read, so that it
    /// is an error.
    fn is_wanted(&mut self, line: &[u8]) -> bool {
        if line.trim_ascii().is_empty() {
            return false;
        }
        if self.cut(line).is_err() {
            return true;
        }
        let places = self.places.as_ref().map(|(places, _)| places);
        self.columns.iter().enumerate().all(|(place, column)| {
            let Value::OneOf(words) = column.value else { return true };
            let place = places.map_or(place, |places| places[place]);
            let found = self.cells.get(place).map(|cell| text(line, *cell));
            found.is_none_or(|found| words.iter().any(|word| word.as_bytes() == found.trim_ascii()))
        })
    }

    /// The record of a line that is not a heading.
    #[inline]
    pub(crate) fn request(&mut self, line: &[u8], numbers: &mut Numbers, names: &mut Names) -> Faulty<Record> {
        if !std::mem::take(&mut self.ready) {
            self.careful(line)?;
        }
        let values = &self.values;
        let number = |role: Role| values.numbers[role as usize];
        let volume = if let Some(volume) = values.known_volume {
            volume
        } else if self.shape.volume {
            let key = &*volume_key(line, values.volume);
            let name = || self.volume_name(line);
            match self.shape.stream {
                true => numbers.volumes.number(key, names, name)?,
                false => numbers.volumes.with_stream(key, names, name)?,
            }
        } else {
            0
        };
        let stream = if self.shape.process {
            let pid = u32::try_from(number(Role::Pid)).unwrap_or(u32::MAX);
            numbers.processes.stream(pid, text(line, values.command), names)?
        } else if self.shape.stream {
            self.stream(line, numbers, names)?
        } else {
            StreamId(volume)
        };
        let mut time = number(Role::Time);
        let latency = values.has_latency.then(|| Nanos(number(Role::Latency)));
        let (operation, flags) = (values.operation.unwrap_or(Operation::Read), values.flags);
        let (offset_bytes, length_bytes) = values.extent;
        if self.shape.gap {
            time = self.next_arrival;
            // A table has one of the two columns. After a think time, the next request waits for this one's completion.
            let (gap, think) = (number(Role::Gap), number(Role::Think));
            let next = match self.shape.think {
                true => time.checked_add(number(Role::Latency)).and_then(|done| done.checked_add(think)),
                false => time.checked_add(gap),
            };
            self.next_arrival = next.ok_or_else(|| Fault::new(0, "the gaps do not fit 64 bits of nanoseconds"))?;
        }
        let priority = Priority::NONE;
        Ok(Record {
            time: Nanos(time),
            offset_bytes,
            length_bytes,
            operation,
            flags,
            priority,
            stream,
            volume,
            latency,
        })
    }

    /// The columns of a volume, with the prefix of each.
    #[cold]
    fn volume_name(&self, line: &[u8]) -> String {
        let columns = self.columns.iter().filter(|column| column.role == Role::Volume);
        let parts = columns
            .zip(self.values.volume)
            .map(|(column, span)| (column.prefix, String::from_utf8_lossy(text(line, span))));
        parts.map(|(prefix, text)| format!("{prefix}{text}")).collect()
    }

    fn stream(&self, line: &[u8], numbers: &mut Numbers, names: &mut Names) -> Faulty<StreamId> {
        let [first, second] = self.values.stream;
        if second == (0, 0) {
            return numbers.streams.stream(text(line, first), names);
        }
        let key = [text(line, first), b" ", text(line, second)].concat();
        numbers.streams.stream(&key, names)
    }
}

/// The key that a volume is looked up by: its column, or both with the separator between them.
#[inline]
fn volume_key(line: &[u8], [first, second]: [Span; 2]) -> Cow<'_, [u8]> {
    if second == (0, 0) {
        Cow::Borrowed(text(line, first))
    } else if second.0 == first.1 + 1 {
        Cow::Borrowed(&line[first.0..second.1])
    } else {
        let separator = line.get(first.1..first.1 + 1).unwrap_or_default();
        Cow::Owned([text(line, first), separator, text(line, second)].concat())
    }
}

/// Adds the first or second column of a name.
fn push(spans: &mut [Span; 2], span: Span) {
    let place = usize::from(spans[0] != (0, 0));
    spans[place] = span;
}

/// The number in a column: nanoseconds, or the count of its unit of bytes; zero if it has none.
fn number(line: &[u8], span: Span, column: &Column) -> Faulty<u64> {
    match column.value {
        Value::Time(unit) => duration(line, span, unit, column.name),
        Value::Seconds => seconds(line, span.0, span.1, column.name),
        Value::Ticks(unit) => scaled(whole(line, span, column.name)?, unit, span.0, column.name),
        Value::Size(_) | Value::Number => whole(line, span, column.name),
        Value::Hexadecimal => hexadecimal(line, span, column.name),
        Value::Date(_) | Value::Clock => moment(line, span, column),
        _ => Ok(0),
    }
}

/// A date or a time of day, in nanoseconds.
#[cold]
fn moment(line: &[u8], span: Span, column: &Column) -> Faulty<u64> {
    let bytes = text(line, span);
    let words = std::str::from_utf8(bytes).unwrap_or_default();
    let nanos = |moment: date::Moment| u64::try_from(moment.unix_nanos).ok();
    let (found, what, example) = match column.value {
        Value::Date(DateOrder::Assumed) => {
            let found = date::clear_moment(words).and_then(nanos);
            if found.is_none() && date::moment(words, DateOrder::Assumed).is_some() {
                let problem = format!("{} {} may begin with the day or with the month", column.name, quote(bytes));
                return Err(Fault::new(span.0, problem).expected("`time:day-first` or `time:month-first` in --columns"));
            }
            (found, "date", "2026-03-02 00:00:00.5+01:00")
        }
        Value::Date(order) => (date::moment(words, order).and_then(nanos), "date", "03/02/2026 00:00:00.5"),
        _ => (date::clock_nanos(words).map(i64::unsigned_abs), "time of day", "12:00:00.5"),
    };
    found.ok_or_else(|| {
        Fault::new(span.0, format!("{} {} is no {what}", column.name, quote(bytes)))
            .expected(format!("such as {example}"))
    })
}

/// The operation in a column, if it is a word.
fn operation(line: &[u8], span: Span, column: &Column) -> Faulty<Option<Operation>> {
    match column.value {
        Value::Words(words) => choice(line, span, column.name, words).map(Some),
        Value::Beginnings(words) => {
            let found = words.iter().find(|(word, _)| text(line, span).starts_with(word.as_bytes()));
            found.map_or_else(|| choice(line, span, column.name, words), |(_, operation)| Ok(*operation)).map(Some)
        }
        Value::ReadBit => {
            let is_read = hexadecimal(line, span, column.name)? & 1 == 1;
            Ok(Some(if is_read { Operation::Read } else { Operation::Write }))
        }
        _ => Ok(None),
    }
}

fn expected_words(column: &Column) -> String {
    match column.value {
        Value::Words(known) | Value::Beginnings(known) => words(known),
        _ => column.name.to_owned(),
    }
}

/// The lines of a file that is a table.
struct Lines {
    reader: TableReader,
    numbers: Numbers,
}

impl Decoder for Lines {
    #[inline]
    fn cut(&mut self, rest: &[u8]) -> Option<(usize, usize)> {
        let quick = if self.reader.started { self.reader.fast(rest, &self.numbers.volumes) } else { None };
        self.reader.ready = quick.is_some();
        let length = quick.or_else(|| memchr::memchr(b'\n', rest))?;
        Some((length, length + 1))
    }

    #[inline]
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        self.reader.line(line, &mut self.numbers, names)
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        // An arrival that is computed from the completion counts from a day before the zero of the clock.
        let is_shifted = self.reader.has(Role::Completion) && !self.reader.has(Role::Time);
        let shift = if is_shifted { i128::from(BEFORE_ZERO_NANOS) } else { 0 };
        self.reader.table.clock.unix_nanos().map(|zero| zero - shift)
    }
}

/// Opens a file that is a table.
pub(crate) fn open(input: &Input, table: &Table, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let reader = TableReader::new(table);
    let names = reader.names(&input.volume_name());
    let lines = Lines { reader, numbers: Numbers::new() };
    Ok(Box::new(Units::open(input, lines, names, options.order(table.window_records), options.lenient)?))
}
