//! The reports of a plan, worked by hand: the bucket of each service, the cores left for the foreground, and resident cores.

use ioweir_background::forecast::Calendar;
use ioweir_background::plan::{Demand, Ledger, Outlook, Plan, Setting, System, Terms, plan, servers_needed};
use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service};

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
