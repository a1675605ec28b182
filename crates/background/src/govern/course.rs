//! The course of debts on one device whose work takes the time that the foreground leaves: which deadlines cannot be kept, and whether
//! work can wait for quieter hours.

/// A bin of the coming time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    pub(super) seconds: f64,
    /// The share of the device that the work finds.
    pub(super) idle: f64,
}

/// The debt of a service that is due at one time. Times are in seconds from the begin of the first bin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Debt {
    /// The place of its service among those that are governed.
    pub(super) service: usize,
    pub(super) bytes: f64,
    /// When it may be paid.
    pub(super) from: f64,
    /// When it must be paid; infinite if it can wait for ever.
    pub(super) due: f64,
    /// Bytes that a second of the device pays.
    pub(super) rate: f64,
    /// The most bytes in a second.
    pub(super) rate_max: f64,
}

/// The bytes paid in each bin, by debt, and what is left of each debt when it is due.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Course {
    pub(super) paid: Vec<Vec<f64>>,
    pub(super) late: Vec<f64>,
}

impl Course {
    /// The late part of a service's debts.
    pub(super) fn late_bytes(&self, debts: &[Debt], service: usize) -> f64 {
        debts.iter().zip(&self.late).filter(|(debt, _)| debt.service == service).map(|(_, late)| late).sum()
    }
}

/// Pays debts in the order in which they are due, in all bins in which their services may work.
pub(super) fn course(bins: &[Bin], debts: &[Debt], is_open: &dyn Fn(usize, usize) -> bool) -> Course {
    let mut order: Vec<usize> = (0..debts.len()).collect();
    order.sort_by(|left, right| debts[*left].due.total_cmp(&debts[*right].due));
    let mut left: Vec<f64> = debts.iter().map(|debt| debt.bytes).collect();
    let mut course = Course { paid: Vec::with_capacity(bins.len()), late: vec![0.0; debts.len()] };
    let mut begin = 0.0;
    for (at, bin) in bins.iter().enumerate() {
        let end = begin + bin.seconds;
        let mut idle_seconds = bin.seconds * bin.idle;
        let mut paid = vec![0.0; debts.len()];
        for &which in &order {
            let debt = &debts[which];
            // Late debts are still paid.
            let until = if debt.due > begin { end.min(debt.due) } else { end };
            let seconds = (until - begin.max(debt.from)).max(0.0);
            if is_open(debt.service, at) {
                let own_seconds = idle_seconds.min(seconds * bin.idle);
                paid[which] = left[which].min(own_seconds * debt.rate).min(seconds * debt.rate_max);
                idle_seconds -= paid[which] / debt.rate.max(1.0);
                left[which] -= paid[which];
            }
            if begin < debt.due && debt.due <= end {
                course.late[which] = left[which];
            }
        }
        course.paid.push(paid);
        begin = end;
    }
    course
}

/// The load of a quieter bin, at most, as a part of the load of the first.
const QUIETER: f64 = 0.8;
/// The least load of the first bin for which work waits.
const BUSY: f64 = 0.1;
/// How much more than what is owed has to fit.
const SAFETY: f64 = 1.2;
/// How early it has to be paid, in parts of the time until it is due.
const EARLY: f64 = 0.05;
/// How long debt waits at most that is never due.
const PATIENCE_SECONDS: f64 = 86_400.0;

/// The bins that are quieter than the first, if all work can wait for them; in the others nothing is paid. What the first bin cannot use
/// later is lost, so that work waits only if there is time for more than is owed.
pub(super) fn quieter(bins: &[Bin], debts: &[Debt], is_open: &dyn Fn(usize, usize) -> bool) -> Option<Vec<Bin>> {
    let load = |bin: &Bin| 1.0 - bin.idle;
    let now = bins.first().map(load).filter(|load| *load >= BUSY)?;
    let idle = |bin: &Bin| if load(bin) < QUIETER * now { bin.idle } else { 0.0 };
    let quiet: Vec<Bin> = bins.iter().map(|bin| Bin { idle: idle(bin), ..*bin }).collect();
    let end: f64 = bins.iter().map(|bin| bin.seconds).sum();
    let due = |debt: &Debt| if debt.due.is_finite() { debt.due } else { debt.from.max(0.0) + PATIENCE_SECONDS };
    // Debts of a later time count where they meet those that are there.
    let last = debts.iter().filter(|debt| debt.from <= 0.0).map(due).fold(0.0, f64::max);
    let safe = |debt: &Debt| {
        let from = debt.from.max(0.0);
        Debt { bytes: debt.bytes * SAFETY, due: from + (due(debt) - from) * (1.0 - EARLY), ..debt.clone() }
    };
    let counts = |debt: &&Debt| debt.from <= 0.0 || debt.from < last;
    let safe: Vec<Debt> = debts.iter().filter(counts).map(safe).filter(|debt| debt.due <= end).collect();
    let late = course(&quiet, &safe, is_open).late;
    late.iter().all(|late| *late < 1.0).then_some(quiet)
}

/// The last part of the time of a debt, in which longer requests make up for what short ones did not do.
const LAST: f64 = 0.3;

/// Whether short requests would leave some of a debt that is nearly due. `time_of` is the time from when a service's debts may be paid until
/// they are due, in seconds.
pub(super) fn is_behind(
    bins: &[Bin],
    debts: &[Debt],
    time_of: &dyn Fn(usize) -> f64,
    is_open: &dyn Fn(usize, usize) -> bool,
) -> bool {
    let is_near = |debt: &&Debt| debt.from <= 0.0 && debt.due <= LAST * time_of(debt.service);
    let near: Vec<Debt> = debts.iter().filter(is_near).cloned().collect();
    course(bins, &near, is_open).late.iter().any(|late| *late >= 1.0)
}

/// The constraint that keeps the debts of a service from being paid in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// The time that the foreground and other services leave.
    Time,
    /// The hours in which the service may run.
    Hours,
    /// The most that it does in a second.
    Rate,
}

/// The constraint without which the least of a service's debt would be late.
pub(super) fn binding(bins: &[Bin], debts: &[Debt], is_open: &dyn Fn(usize, usize) -> bool, service: usize) -> Binding {
    let late = |debts: &[Debt], is_open: &dyn Fn(usize, usize) -> bool| {
        course(bins, debts, is_open).late_bytes(debts, service)
    };
    let rate_max = |debt: &Debt| if debt.service == service { f64::INFINITY } else { debt.rate_max };
    let unlimited: Vec<Debt> = debts.iter().map(|debt| Debt { rate_max: rate_max(debt), ..debt.clone() }).collect();
    let without_rate = late(&unlimited, is_open);
    let without_hours = late(debts, &|of, bin| of == service || is_open(of, bin));
    // Less than a byte is an error of rounding.
    if without_rate.min(without_hours) > late(debts, is_open) - 1.0 {
        Binding::Time
    } else if without_rate <= without_hours {
        Binding::Rate
    } else {
        Binding::Hours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3600.0;
    const RATE: f64 = 100e6;

    fn debt(idle_hours: f64, due_hours: f64) -> Debt {
        let bytes = idle_hours * HOUR * RATE;
        Debt { service: 0, bytes, from: 0.0, due: due_hours * HOUR, rate: RATE, rate_max: f64::INFINITY }
    }

    fn hours(idle: &[f64]) -> Vec<Bin> {
        idle.iter().map(|idle| Bin { seconds: HOUR, idle: *idle }).collect()
    }

    #[test]
    fn impossible_deadlines_are_seen_at_once() {
        let Course { paid, late } = course(&hours(&[0.5; 30]), &[debt(20.0, 24.0)], &|_, _| true);
        assert!((late[0] / (HOUR * RATE) - 8.0).abs() < 1e-6, "{late:?}");
        assert!(paid[29][0] > 0.0, "what is late is paid all the same");
    }

    #[test]
    fn what_is_due_first_is_paid_first() {
        let debts = [debt(4.0, f64::INFINITY), debt(6.0, 10.0)];
        let Course { paid, late } = course(&hours(&[0.5; 24]), &debts, &|_, _| true);
        let hours_of = |debt: usize| paid.iter().filter(|paid| paid[debt] > 1.0).count();
        assert_eq!(
            (hours_of(1), late[1].round() as u64),
            (12, (HOUR * RATE) as u64),
            "an hour of it is late, and is paid after that"
        );
        assert_eq!(late[0], 0.0);
    }

    #[test]
    fn closed_hours_pay_nothing() {
        let Course { paid, late } = course(&hours(&[1.0; 24]), &[debt(4.0, 24.0)], &|_, bin| bin >= 8);
        assert!(paid[..8].iter().all(|paid| paid[0] == 0.0) && late == [0.0], "{paid:?}");
    }

    #[test]
    fn rates_bound_what_is_paid() {
        let slow = Debt { rate_max: RATE / 10.0, ..debt(4.0, 24.0) };
        let Course { late, .. } = course(&hours(&[1.0; 24]), &[slow], &|_, _| true);
        assert!((late[0] / (HOUR * RATE) - 1.6).abs() < 1e-6, "{late:?}");
    }

    #[test]
    fn the_constraint_that_binds_is_named() {
        let slow = Debt { rate_max: RATE / 10.0, ..debt(4.0, 24.0) };
        let fast = Debt { rate_max: RATE * 10.0, ..debt(20.0, 24.0) };
        let of = |idle: f64, debt: &Debt, opens: usize| {
            binding(&hours(&[idle; 24]), std::slice::from_ref(debt), &|_, bin| bin >= opens, 0)
        };
        assert_eq!(of(1.0, &slow, 0), Binding::Rate);
        assert_eq!(of(0.5, &fast, 0), Binding::Time, "a limit that is never reached is no limit");
        assert_eq!(of(1.0, &fast, 12), Binding::Hours);
        assert_eq!(of(0.1, &debt(20.0, 24.0), 0), Binding::Time);
    }

    #[test]
    fn only_debt_that_is_nearly_due_is_behind() {
        let behind =
            |debt: Debt, idle: f64| is_behind(&hours(&[idle; 24]), &[debt], &|_| 24.0 * HOUR, &|_, bin| bin != 1);
        assert!(behind(debt(3.0, 6.0), 0.5) && !behind(debt(2.4, 6.0), 0.5), "a closed hour pays nothing");
        assert!(!behind(debt(20.0, 12.0), 0.5), "there is time");
        assert!(!behind(Debt { from: HOUR, ..debt(3.0, 6.0) }, 0.5), "nothing of it may be paid yet");
        assert!(!behind(debt(30.0, f64::INFINITY), 0.5));
    }

    #[test]
    fn work_waits_for_quieter_bins_that_suffice() {
        let day: Vec<f64> = (0..24).map(|hour| if hour < 10 { 0.4 } else { 0.9 }).collect();
        let waits =
            |idle: &[f64], debt: &Debt| quieter(&hours(idle), std::slice::from_ref(debt), &|_, _| true).is_some();
        assert!(waits(&day, &debt(8.0, 24.0)), "the quiet hours suffice");
        assert!(!waits(&day, &debt(10.0, 24.0)), "too little is left if they are less quiet than expected");
        assert!(!waits(&day[10..], &debt(1.0, 14.0)), "none is quieter");
        assert!(waits(&day, &debt(1.0, f64::INFINITY)) && !waits(&day, &debt(50.0, f64::INFINITY)));
        assert!(!waits(&[0.95, 1.0, 1.0], &debt(0.1, 3.0)), "there is next to no load");
        assert!(!waits(&[], &debt(0.1, 3.0)));
    }
}
