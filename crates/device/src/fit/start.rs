//! The device where a fit begins: a preset or a device file with its datasheet resolved, at the size of the device that was
//! measured.

use ioweir_config::{Complaint, Duration, Ratio, Size};
use ioweir_core::{Nanos, SECTOR_BYTES};

use super::UNKNOWN_DISK;
use crate::disk::cache::{CacheSpec, ReadAhead, WriteCache};
use crate::disk::seek::SeekTable;
use crate::disk::spec::{HddSpec, Layout, SeekSpec, ZoneSpec, Zoning};
use crate::quantity::whole;
use crate::{DeviceSpec, SsdSpec};

/// Tracks grow with a disk until it has at most so many cylinders: more than disks have, and few enough to be quick.
const CYLINDERS_MAX: u64 = 1 << 19;
/// The longest track that a disk is given, in sectors.
const TRACK_MAX: u32 = 1 << 13;
/// Zones of a disk whose own zones do not reach its size.
const ZONES: u32 = 16;
/// How often blocks, and then mapped units, are doubled for a larger flash drive.
const FLASH_STEPS: u32 = 8;
/// Segments of a buffer that was given by its size alone, and the least and greatest size of one.
const SEGMENTS: u32 = 8;
const SEGMENT_BYTES: (u64, u64) = (16 << 10, 2 << 20);

/// The device as a fit takes it: a datasheet or a zoned drive by the parameters of its model, of this size if one is given.
/// `None` for a device of several drives, or of none.
///
/// # Errors
/// What is wrong with the device.
pub fn start(spec: &DeviceSpec, capacity: Option<Size>) -> Result<Option<DeviceSpec>, Complaint> {
    Ok(match spec {
        DeviceSpec::DiskDatasheet(sheet) => Some(DeviceSpec::Hdd(disk(&sheet.expand()?, capacity)?)),
        DeviceSpec::Hdd(own) => Some(DeviceSpec::Hdd(disk(own, capacity)?)),
        DeviceSpec::FlashDatasheet(sheet) => Some(DeviceSpec::Ssd(flash(sheet.expand()?, capacity))),
        DeviceSpec::Ssd(own) => Some(DeviceSpec::Ssd(flash(own.clone(), capacity))),
        DeviceSpec::Zoned(zoned) => start(&*zoned.drive.spec("zoned.drive")?, capacity)?,
        DeviceSpec::Array(_) | DeviceSpec::Bank(_) | DeviceSpec::Null(_) | DeviceSpec::Tiered(_) => None,
    })
}

/// The flash drive at this size. A much larger one has larger blocks, and maps larger units, as the map has limits.
fn flash(drive: SsdSpec, capacity: Option<Size>) -> SsdSpec {
    let Some(capacity) = capacity else { return drive };
    let mut drive = drive;
    for step in 0..=FLASH_STEPS {
        let unit = drive.mapping_unit.0.max(SECTOR_BYTES);
        drive.capacity = Size(capacity.0 / unit * unit);
        if step == FLASH_STEPS || drive.lay_out().is_ok() {
            break;
        }
        if step < FLASH_STEPS / 2 {
            drive.pages_per_block = drive.pages_per_block.saturating_mul(2);
        } else {
            (drive.page, drive.mapping_unit) = (Size(drive.page.0 * 2), Size(drive.mapping_unit.0 * 2));
        }
    }
    drive
}

fn disk(own: &HddSpec, capacity: Option<Size>) -> Result<HddSpec, Complaint> {
    let disk = match capacity {
        Some(capacity) => sized(own, capacity)?,
        None => own.clone(),
    };
    Ok(with_buffer(disk))
}

/// The disk with its buffer in detail, whose parameters a fit searches, if it has one.
fn with_buffer(disk: HddSpec) -> HddSpec {
    if disk.cache.is_some() || (disk.read_ahead.0 == 0 && !disk.write_cache) {
        return disk;
    }
    let (least, most) = SEGMENT_BYTES;
    let Ok(DeviceSpec::Hdd(HddSpec { cache: Some(usual), .. })) = DeviceSpec::parse("device", UNKNOWN_DISK) else {
        return disk;
    };
    let cache = CacheSpec {
        segments: SEGMENTS,
        segment_size: Size(disk.read_ahead.0.clamp(least, most)),
        read_ahead: if disk.read_ahead.0 > 0 { ReadAhead::Segment } else { ReadAhead::None },
        write: if disk.write_cache { WriteCache::All } else { WriteCache::None },
        hit_overhead: disk.overhead.clone(),
        ..usual
    };
    HddSpec { read_ahead: Size::default(), write_cache: false, cache: Some(cache), ..disk }
}

/// The disk at another size: its zones from two numbers, its seeks from those of a datasheet, and longer tracks if it is larger.
fn sized(own: &HddSpec, capacity: Size) -> Result<HddSpec, Complaint> {
    let capacity = Size(capacity.0 / SECTOR_BYTES * SECTOR_BYTES);
    let zoned = own.with_zones()?;
    let (geometry, seek) = zoned.lay_out()?;
    let sectors = geometry.sectors();
    if capacity.0 <= sectors.saturating_mul(SECTOR_BYTES) {
        return Ok(HddSpec { capacity: Some(capacity), ..own.clone() });
    }
    let tracks = |at: Option<&ZoneSpec>| at.map_or(1, |zone| zone.sectors_per_track);
    let (outer, inner) = (tracks(zoned.zones.first()), tracks(zoned.zones.last()));
    // Platters have grown in both directions: along the track and across it.
    let grown = (capacity.0 as f64 / (sectors.max(1) as f64 * SECTOR_BYTES as f64)).sqrt();
    let mut track = whole(f64::from(outer) * grown).clamp(outer, TRACK_MAX.max(outer));
    let mut surfaces = own.surfaces;
    let inner = Ratio::new(f64::from(inner.min(outer)) / f64::from(outer.max(1))).unwrap_or(Ratio::ONE);
    let cylinders = |track: u32, surfaces: u32| {
        let mean = f64::from(track) * f64::midpoint(1.0, inner.value()) * f64::from(surfaces);
        capacity.0 / SECTOR_BYTES / (mean as u64).max(1)
    };
    while cylinders(track, surfaces) > CYLINDERS_MAX && track < TRACK_MAX {
        track = (track * 2).min(TRACK_MAX);
    }
    while cylinders(track, surfaces) > CYLINDERS_MAX && surfaces < 64 {
        surfaces = (surfaces * 2).min(64);
    }
    Ok(HddSpec {
        capacity: Some(capacity),
        surfaces,
        cylinders: 0,
        layout: Layout::Conventional,
        turn_skew: None,
        seek: by_three(&own.seek, &seek, zoned.cylinders),
        zones: Vec::new(),
        zoning: Some(Zoning { outer_sectors_per_track: track, inner, zones: ZONES }),
        ..own.clone()
    })
}

/// A seek curve by the three numbers of a datasheet, such that its form fits them.
fn by_three(own: &SeekSpec, table: &SeekTable, cylinders: u32) -> SeekSpec {
    if let SeekSpec::Datasheet { .. } = own {
        return own.clone();
    }
    let last = cylinders.saturating_sub(1).max(1);
    let single = table.nanos(1) as f64;
    let average = table.mean_nanos().max(single);
    let (low, high) = ((15.0 * average - 7.0 * single) / 8.0, (15.0 * average - 10.0 * single) / 5.0);
    let full = (table.nanos(last) as f64).clamp(low, high.max(low));
    let span = |nanos: f64| Duration::new(Nanos(whole(nanos).into()));
    SeekSpec::Datasheet { single: span(single), average: span(average), full: span(full) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PRESETS;

    #[test]
    fn presets_of_one_drive_begin_at_any_size() {
        let sizes = ["500MB", "9GB", "100GB", "1TB", "4TB", "20TB", "61TB"];
        for preset in PRESETS {
            let spec = DeviceSpec::load(preset.name).expect("a preset");
            assert!(start(&spec, None).is_ok(), "{}", preset.name);
            for size in sizes.map(|size| size.parse::<Size>().expect("a size")) {
                let Some(begins) = start(&spec, Some(size)).expect("a size") else { continue };
                begins.check().unwrap_or_else(|error| panic!("{} at {size}: {error}", preset.name));
                let sectors = begins.build(0).expect("it is checked").sectors();
                assert!((0..=256 << 10).contains(&(size.0 - sectors * SECTOR_BYTES)), "{} at {size}", preset.name);
            }
        }
    }

    #[test]
    fn sizeless_disk_changes_only_its_buffer() {
        let spec = DeviceSpec::load("cheetah-9lp").expect("a preset");
        assert_eq!(start(&spec, None).expect("a disk"), Some(spec));
        let sheet = DeviceSpec::load("hdd-20tb").expect("a preset");
        let Some(DeviceSpec::Hdd(disk)) = start(&sheet, None).expect("a disk") else { panic!("no disk") };
        assert!(disk.cache.is_some() && disk.read_ahead.0 == 0 && !disk.write_cache);
    }
}
