//! Tells whether a trace shows what a flash drive's reads of one mapping unit cost beside longer ones.

use ioweir_core::{Operation, SECTOR_BYTES};
use ioweir_device::fit::table::{FLASH_ONE_UNIT, Row};
use ioweir_device::validate::Measured;
use ioweir_device::{DeviceSpec, SsdOverhead, SsdSpec};

/// The fewest reads of a kind that show the cost of the kind.
const SHOWN_MIN: usize = 25;

/// The start of a fit to a trace, the rows that it searches in addition, and the page's remark on them. Reads of one kind alone do not show
/// the cost of the other kind. For a drive without a named preset both kinds are then assumed to cost the same, as a preset's drive is
/// another one.
pub(super) fn open(
    start: DeviceSpec,
    preset: Option<&str>,
    seen: &[Measured],
) -> (DeviceSpec, &'static [Row], Option<String>) {
    let DeviceSpec::Ssd(drive) = &start else { return (start, &[], None) };
    if drive.read_one_unit.is_none() && drive.overhead.read_one_unit.is_none() {
        return (start, &[], None);
    }
    let unit = (drive.mapping_unit.0 / SECTOR_BYTES).max(1);
    let is_one = |read: &Measured| read.sector % unit + u64::from(read.sectors) <= unit;
    let (one, longer): (Vec<&Measured>, Vec<&Measured>) =
        seen.iter().filter(|request| request.operation == Operation::Read).partition(|read| is_one(read));
    let missing = match (one.len() < SHOWN_MIN, longer.len() < SHOWN_MIN) {
        (false, false) => return (start, FLASH_ONE_UNIT, None),
        (true, _) => "reads of one mapping unit",
        (false, true) => "reads of more than one mapping unit",
    };
    let unit = drive.mapping_unit;
    let stays = match preset {
        Some(name) => format!("what reads of one unit take by themselves (`read_one_unit`) stays as in {name}"),
        None => "both are taken to cost the same (no `read_one_unit`)".into(),
    };
    let said = format!("The first half has fewer than {SHOWN_MIN} {missing} ({unit}): {stays}.");
    let overhead = SsdOverhead { read_one_unit: None, ..drive.overhead.clone() };
    let alike = || DeviceSpec::Ssd(SsdSpec { read_one_unit: None, overhead, ..drive.clone() });
    let begin = if preset.is_none() { alike() } else { start };
    (begin, &[], Some(said))
}
