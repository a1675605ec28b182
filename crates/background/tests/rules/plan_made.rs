//! The reports of a plan, worked by hand: the bucket of each service, the cores left for the foreground, and resident cores.

use ioweir_background::forecast::Calendar;
use ioweir_background::plan::{Demand, Ledger, Outlook, Plan, Setting, System, Terms, document, plan, servers_needed};
use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service};
use ioweir_lab::document::{Block, Document, Origin, Provenance};

const BIN_SECONDS: u64 = 600;

/// Four cores that each serve ten requests, or do ten operations, in a bin.
fn system(service: Service, owed: Vec<(Nanos, u64)>, deadline: Nanos) -> System {
    let mut services = [const { None }; SERVICES_COUNT];
    let mut settings = service.row().defaults();
    (settings.cost_per_mille, settings.item_blocks, settings.deadline) = (1000, 1, deadline);
    services[service as usize] = Some(Terms {
        settings,
        share_per_mille: 1000,
        every: Nanos::ZERO,
        owed,
        bin_blocks_max: u64::MAX,
        open: vec![],
    });
    let bin = Nanos::from_seconds(BIN_SECONDS);
    System { bin, cores: 4, core_requests: 10, core_work: 10_000, services, resident_cores: 0, day_bin: 0 }
}

fn planned(system: &System, demand: &[Demand], written_high: Vec<u64>) -> Plan {
    let pool = Pool { blocks: 1_000_000, used_blocks: 0, floor_blocks: 0, alarm_blocks: 0 };
    let outlook = Outlook {
        expected: demand.to_vec(),
        high: demand.to_vec(),
        low: demand.to_vec(),
        requests_band: demand.iter().map(|demand| (demand.requests, demand.requests)).collect(),
        written_high,
        ..Outlook::default()
    };
    let calendar = Calendar::default();
    let setting = Setting { start_unix_seconds: 0, block_bytes: 4096, quantile: 0.95, calendar: &calendar };
    plan(system, &Ledger::new(pool), &outlook, setting)
}

#[test]
fn bucket_is_peak_debt_foreground_loses_reserved() {
    // Sixty blocks are due within three bins, and the foreground wants all four cores: at the last moment it is cut.
    let system = system(Service::Rebuild, vec![(Nanos::ZERO, 60)], Nanos::from_seconds(3 * BIN_SECONDS));
    let plan = planned(&system, &[Demand { requests: 40, ..Demand::default() }; 6], vec![0; 6]);
    let reserved: Vec<u32> = plan.bins.iter().map(|bin| bin.reserved_cores).collect();
    assert_eq!(reserved, [0, 2, 4, 0, 0, 0]);
    let left: Vec<f64> = plan.bins.iter().map(|bin| bin.capacity_forecast_factor).collect();
    assert_eq!(left, [1.0, 0.5, 0.0, 1.0, 1.0, 1.0]);
    // No block is paid when the first bin ends.
    let sheet = &plan.balance[0];
    assert_eq!((sheet.bucket_blocks, sheet.paid_blocks, sheet.closing_blocks), (60, 60, 0));
    assert!(plan.findings.iter().any(|finding| finding.code == "foreground-cut"));
}

#[test]
fn resident_cores_suffice_for_the_busiest_bin() {
    // Blocks are to be written back within a minute of ten. Of sums the first bin's quantile is far above its own.
    let system = System { cores: 16, ..system(Service::Flush, Vec::new(), Nanos::from_seconds(60)) };
    let demand = |written_blocks: u64| Demand { written_blocks, ..Demand::default() };
    let plan = planned(&system, &[demand(35), demand(8), demand(8)], vec![9, 12, 9]);
    // A core writes a block back in a minute; twelve come in ten minutes.
    let needed = |blocks: f64| servers_needed(blocks / 600.0, 60.0, 60.0, 0.01, 16);
    assert_eq!(plan.resident_cores, needed(12.0));
    assert!(
        needed(9.0) < needed(12.0) && needed(12.0) < needed(35.0),
        "{} {} {}",
        needed(9.0),
        needed(12.0),
        needed(35.0)
    );
}

/// A rebuild of sixty blocks that is due at the end of the last of six bins, beside a foreground that leaves two of four cores; it may run
/// in these bins.
fn rebuilt_in(open: [bool; 6]) -> Plan {
    let mut system = system(Service::Rebuild, vec![(Nanos::ZERO, 60)], Nanos::from_seconds(6 * BIN_SECONDS));
    system.services[Service::Rebuild as usize].as_mut().unwrap().open = open.to_vec();
    planned(&system, &[Demand { requests: 20, ..Demand::default() }; 6], vec![0; 6])
}

fn page(plan: &Plan) -> Document {
    let origin = Origin { version: String::new(), commit: String::new(), command: String::new() };
    document(plan, None, &[], Provenance::new(&origin, Vec::new(), Vec::new())).unwrap()
}

#[test]
fn plans_keep_hours_and_name_them_as_limits() {
    let paid = |plan: &Plan| -> Vec<u64> { plan.bins.iter().map(|bin| bin.paid_blocks[0].1).collect() };
    let plan = rebuilt_in([true, true, false, false, true, true]);
    assert_eq!((paid(&plan).iter().sum::<u64>(), &paid(&plan)[2..4]), (60, &[0, 0][..]), "{:?}", plan.findings);
    let plan = rebuilt_in([false, false, false, false, false, true]);
    assert_eq!(paid(&plan)[..5], [0; 5]);
    let missed = plan.findings.iter().find(|finding| finding.code == "deadline-missed").unwrap();
    assert!(missed.hint.starts_with("its hours"), "{missed:?}");
}

#[test]
fn pages_show_windows_over_time_and_violations_first() {
    let plan = rebuilt_in([true, true, false, false, false, false]);
    let Document { headline, blocks, .. } = page(&plan);
    assert!(headline.contains("It does not hold: ") && headline.contains(&plan.findings[0].message), "{headline}");
    let is_shown = |block: &Block| match block {
        Block::Figure(figure) if figure.title == "When each service runs" => {
            let mut series = figure.charts[0].series.iter();
            let band = &series.find(|series| series.name == "rebuild").unwrap().band;
            let drawn: Vec<i64> = band.iter().filter(|(_, low, high)| low < high).map(|(at, ..)| *at as i64).collect();
            let windows = plan.windows.iter().flat_map(|window| [window.start_unix_seconds, window.end_unix_seconds]);
            assert!(!drawn.is_empty() && drawn == windows.collect::<Vec<_>>(), "{drawn:?}");
            true
        }
        _ => false,
    };
    assert_eq!(blocks.iter().filter(|block| is_shown(block)).count(), 1);
    let holds = page(&rebuilt_in([true; 6])).headline;
    assert!(holds.contains("It holds if"), "{holds}");
}
