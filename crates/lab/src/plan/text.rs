//! How does a plan read? As tables on a terminal, as JSON for programs; the tables are those of the page too.

use std::fmt::Write as _;

use serde::Serialize;

use super::made::{Plan, PlanBin};
use super::replay::Replayed;
use crate::report::ReportError;
use crate::report::terminal::push_rows;
use crate::reproduce::{Provenance, Table};
use crate::series::civil_from_days;
use ioweir_config::{format_bytes, format_count, format_decimals};

const DAY_SECONDS: i64 = 86_400;
/// Windows of a service that the tables show; all are in the JSON.
const WINDOWS_SHOWN: usize = 7;

/// A moment on the local clock: `Wed 2016-02-24 07:00`.
pub(super) fn moment(unix_seconds: i64, utc_offset_seconds: i64) -> String {
    let local = unix_seconds.saturating_add(utc_offset_seconds);
    let time = local.rem_euclid(DAY_SECONDS);
    format!("{} {:02}:{:02}", date(local), time / 3600, time % 3600 / 60)
}

fn date(local_seconds: i64) -> String {
    let day = local_seconds.div_euclid(DAY_SECONDS);
    let (year, month, date) = civil_from_days(day);
    format!("{} {year:04}-{month:02}-{date:02}", weekday(day))
}

/// The day's name; 1970-01-01 was a Thursday.
pub(super) fn weekday(day: i64) -> &'static str {
    const NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    NAMES[usize::try_from(day.rem_euclid(7)).unwrap_or(0)]
}

fn short_moment(plan: &Plan, unix_seconds: i64) -> String {
    let text = moment(unix_seconds, plan.utc_offset_seconds);
    // The week is short enough to leave the date out; a longer plan shows month and day.
    let within_week = (unix_seconds - plan.start_unix_seconds).abs() < 7 * DAY_SECONDS;
    if within_week { format!("{} {}", &text[..3], &text[15..]) } else { format!("{} {}", &text[..3], &text[9..]) }
}

impl Plan {
    pub(super) fn bytes(&self, blocks: u64) -> String {
        format_bytes(blocks.saturating_mul(self.block_bytes))
    }

    /// One sentence: what is planned, and how sure it is.
    #[must_use]
    pub fn headline(&self) -> String {
        let days = self.bins.len() as f64 * self.bin_seconds as f64 / DAY_SECONDS as f64;
        format!(
            "Plan from {} for {} days: {} cores, pool {}, floor {}. It holds if no more comes than the {} % quantile of a \
             forecast from {} days of history.",
            moment(self.start_unix_seconds, self.utc_offset_seconds),
            format_decimals(days, 1).trim_end_matches(".0"),
            self.cores,
            self.bytes(self.pool_blocks),
            self.bytes(self.floor_blocks),
            format_decimals(self.quantile * 100.0, 1).trim_end_matches(".0"),
            self.history_days,
        )
    }

    /// The tables: days, windows, balance.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        vec![self.days(), self.window_table(), self.balance_table()]
    }

    fn days(&self) -> Table {
        let day_of = |bin: &PlanBin| (bin.start_unix_seconds + self.utc_offset_seconds).div_euclid(DAY_SECONDS);
        let mut rows = Vec::new();
        for bins in self.bins.chunk_by(|left, right| day_of(left) == day_of(right)) {
            let hours = self.bin_seconds as f64 / 3600.0;
            let iops: u64 = bins.iter().map(|bin| bin.foreground_iops.expected).sum();
            let most = |value: fn(&PlanBin) -> u64| bins.iter().map(value).max().unwrap_or(0);
            let least = |value: fn(&PlanBin) -> u64| bins.iter().map(value).min().unwrap_or(0);
            let core_hours: f64 = bins.iter().map(|bin| f64::from(bin.background_cores) * hours).sum();
            let paid: u64 = bins.iter().flat_map(|bin| &bin.paid_blocks).map(|(_, blocks)| blocks).sum();
            let cut = bins.iter().filter(|bin| bin.capacity_forecast_factor < 1.0).count();
            rows.push((
                date(day_of(&bins[0]) * DAY_SECONDS),
                vec![
                    format_count(iops / bins.len() as u64),
                    format_count(most(|bin| bin.foreground_cores_wanted)),
                    format_decimals(core_hours, 0),
                    self.bytes(paid),
                    self.bytes(least(|bin| bin.free_blocks.expected)),
                    self.bytes(least(|bin| bin.free_blocks.low)),
                    if cut == 0 { "no".into() } else { format!("{} h", format_decimals(cut as f64 * hours, 1)) },
                ],
            ));
        }
        let columns = [
            "mean IOPS",
            "peak cores wanted",
            "background core hours",
            "debt paid",
            "least free",
            "at the quantile",
            "foreground cut",
        ];
        Table {
            title: "The days".into(),
            text: "What is expected, and the least free space if as much comes as the quantile allows.".into(),
            columns: columns.map(String::from).to_vec(),
            rows,
        }
    }

    fn window_table(&self) -> Table {
        let mut rows = Vec::new();
        for sheet in &self.balance {
            let mut windows: Vec<_> = self.windows.iter().filter(|window| window.service == sheet.service).collect();
            let all = windows.len();
            // The largest, in the order of time.
            windows.sort_by_key(|window| std::cmp::Reverse(window.blocks));
            windows.truncate(WINDOWS_SHOWN);
            windows.sort_by_key(|window| window.start_unix_seconds);
            let shown = windows.len();
            for (place, window) in windows.into_iter().enumerate() {
                let more =
                    if place + 1 == shown && all > shown { format!("; {} more", all - shown) } else { String::new() };
                rows.push((
                    window.service.to_owned(),
                    vec![
                        short_moment(self, window.start_unix_seconds),
                        short_moment(self, window.end_unix_seconds),
                        self.bytes(window.blocks),
                        format!("{}/s{more}", self.bytes(window.blocks_per_second_max)),
                    ],
                ));
            }
        }
        Table {
            title: "When to run what".into(),
            text: "The largest windows of each service, and the most at a time.".into(),
            columns: ["from", "to", "how much", "at most"].map(String::from).to_vec(),
            rows,
        }
    }

    fn balance_table(&self) -> Table {
        let row = |sheet: &super::made::Sheet| {
            let deadline = match sheet.deadline_kept {
                None => "none",
                Some(true) => "kept",
                Some(false) => "MISSED",
            };
            let blocks = [
                sheet.opening_blocks,
                sheet.incurred_blocks,
                sheet.paid_blocks,
                sheet.closing_blocks,
                sheet.reclaimed_blocks,
            ];
            let mut cells: Vec<String> = blocks.iter().map(|blocks| self.bytes(*blocks)).collect();
            cells.extend([format_decimals(sheet.core_hours, 1), deadline.into()]);
            (sheet.service.to_owned(), cells)
        };
        let columns = ["owed at start", "incurred", "paid", "owed at end", "room back", "core hours", "deadline"];
        Table {
            title: "Balance sheet".into(),
            text: "If what is expected comes.".into(),
            columns: columns.map(String::from).to_vec(),
            rows: self.balance.iter().map(row).collect(),
        }
    }

    /// The findings, a line or two each.
    #[must_use]
    pub fn finding_lines(&self) -> Vec<String> {
        let line = |finding: &super::lint::Finding| {
            let severity = format!("{:?}", finding.severity).to_lowercase();
            let at = finding.at_unix_seconds.map(|at| format!(", from {}", moment(at, self.utc_offset_seconds)));
            let hint = if finding.hint.is_empty() { String::new() } else { format!("\n  hint: {}", finding.hint) };
            format!("{severity}: {}{} [{}]{hint}", finding.message, at.unwrap_or_default(), finding.code)
        };
        self.findings.iter().map(line).collect()
    }
}

/// What came of a plan, in one table.
pub(super) fn replay_table(plan: &Plan, replayed: &Replayed) -> Table {
    let hours = |bins: usize| format!("{} h", format_decimals(bins as f64 * plan.bin_seconds as f64 / 3600.0, 1));
    let percent = |value: f64| format!("{} %", format_decimals(value, 1));
    let rows = [
        ("bins", format_count(replayed.course.len() as u64)),
        ("time with requests that waited", percent(replayed.violated_percent())),
        ("requests that waited", percent(replayed.delayed_percent())),
        ("least free", plan.bytes(replayed.free_blocks_min)),
        ("below the floor", hours(replayed.below_floor_bins)),
        ("pool overrun", hours(replayed.overrun_bins)),
        ("debt past its deadline", hours(replayed.late_bins)),
    ];
    Table {
        title: "What came of it".into(),
        text: "The plan made anew in each bin, played on what really came.".into(),
        columns: vec!["actual".into()],
        rows: rows.map(|(name, value)| (name.to_owned(), vec![value])).to_vec(),
    }
}

/// The plan for a terminal, and what came of it where that is known.
#[must_use]
pub fn render_text(plan: &Plan, replayed: Option<&Replayed>, notes: &[String], colour: bool) -> String {
    let mut out = format!("{}\n", plan.headline());
    // Writing to a string does not fail: its results are not looked at.
    for note in notes {
        let _ = writeln!(out, "note: {note}");
    }
    let mut tables = plan.tables();
    tables.extend(replayed.map(|replayed| replay_table(plan, replayed)));
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        let _ = writeln!(out, "\n{}\n", table.title);
        let columns = std::iter::once(String::new()).chain(table.columns.clone()).collect();
        let rows = table.rows.iter().map(|(name, cells)| std::iter::once(name).chain(cells).cloned().collect());
        push_rows(&mut out, columns, rows, colour);
    }
    let lines = plan.finding_lines();
    let _ = writeln!(out, "\n{}", if lines.is_empty() { "Nothing is wrong with it." } else { "Findings\n" });
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// The plan as JSON, and what came of it where that is known.
///
/// # Errors
/// [`ReportError`] where a number cannot be written.
pub fn render_json(
    plan: &Plan,
    replayed: Option<&Replayed>,
    notes: &[String],
    meta: &Provenance,
) -> Result<String, ReportError> {
    let replay = replayed.map(|replayed| Replay {
        bins: replayed.course.len(),
        violated_time_percent: replayed.violated_percent(),
        delayed_requests_percent: replayed.delayed_percent(),
        free_blocks_min: replayed.free_blocks_min,
        below_floor_bins: replayed.below_floor_bins,
        overrun_bins: replayed.overrun_bins,
        late_bins: replayed.late_bins,
    });
    let mut text = serde_json::to_string_pretty(&Json { meta, notes, plan, replay })?;
    text.push('\n');
    Ok(text)
}

#[derive(Serialize)]
struct Json<'a> {
    meta: &'a Provenance,
    notes: &'a [String],
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Replay>,
}

#[derive(Serialize)]
struct Replay {
    bins: usize,
    violated_time_percent: f64,
    delayed_requests_percent: f64,
    free_blocks_min: u64,
    below_floor_bins: usize,
    overrun_bins: usize,
    late_bins: usize,
}
