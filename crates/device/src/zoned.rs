//! A drive whose zones are written in order, as host-managed shingled disks are, together with the host that keeps the rule.
//!
//! Every zone has a write pointer. A write at the pointer goes on, and the discard of a whole zone puts its pointer back. The
//! drive itself refuses any other write, so the host has to make something else of it: what lies before the pointer is read,
//! the zone is put back and written again with the new data in it; a gap behind the pointer is written as well. Traces of
//! ordinary disks show so what a host without a buffer of its own would pay.
//!
//! Of a zone that was not written yet the pointer is not known: it is where the first write begins.
//!
//! Commands are served in the order of arrival, so that writes keep theirs. Not modelled: a limit of open zones, and a host
//! that collects writes elsewhere first.

use std::collections::BTreeMap;

use ioweir_config::{Complaint, Size, keys};
use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES};

use super::check::fail;
use super::{CommandOrder, Device, FlashCounts, Model, ModelChoice, Service};

/// The largest zone.
const ZONE_MAX: Size = Size(1 << 40);

keys! {
    /// A drive in zones that are written in order (host-managed SMR), and its host, which reads and writes a zone again for a
    /// write that is not at the zone's write pointer. The discard of a whole zone puts its pointer back.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ZonedSpec {
        /// the size of a zone
        zone: Size = (Size(256 << 20)),
        /// how much at the front can be written anywhere (conventional zones)
        conventional: Size = (Size(0)),
        /// the drive: the name of a preset, or a device as in such a file: [zoned.drive.hdd]
        drive: ModelChoice = required,
    }
}

impl Model for ZonedSpec {
    fn check(&self) -> Result<(), Complaint> {
        for (key, size, least) in [("zone", self.zone, SECTOR_BYTES), ("conventional", self.conventional, 0)] {
            if size.0 < least || !size.0.is_multiple_of(SECTOR_BYTES) || key == "zone" && size > ZONE_MAX {
                return fail(
                    format!("zoned.{key}"),
                    format!("is {size}"),
                    "give a multiple of 512B, of a zone up to 1TiB",
                );
            }
        }
        self.drive.spec("zoned.drive").map(drop)
    }

    fn rotates(&self) -> bool {
        self.drive.spec("").is_ok_and(|drive| drive.rotates())
    }

    fn queue_depth(&self) -> u32 {
        self.drive.spec("").map_or(1, |drive| drive.queue_depth())
    }

    fn serves_at_once(&self) -> u32 {
        self.drive.spec("").map_or(1, |drive| drive.serves_at_once())
    }

    fn switched_on(&self) -> Vec<String> {
        let drive = self.drive.spec("").map(|drive| drive.with_command_order(CommandOrder::Fifo).switched_on());
        let zones = format!("zones of {}, written in order", self.zone);
        drive.unwrap_or_default().into_iter().chain([zones]).collect()
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        self.check()?;
        let drive = self.drive.spec("zoned.drive")?.with_command_order(CommandOrder::Fifo);
        let drive = drive.build_model(seed).map_err(|complaint| complaint.within("zoned.drive"))?;
        Ok(Box::new(Zoned {
            zone_sectors: self.zone.0 / SECTOR_BYTES,
            first_sector: self.conventional.0 / SECTOR_BYTES,
            drive,
            pointers: BTreeMap::new(),
        }))
    }
}

/// The drive, and what its host knows of the zones.
struct Zoned {
    zone_sectors: u64,
    /// Where the zones begin that are written in order.
    first_sector: u64,
    drive: Box<dyn Device>,
    /// The sector at which each zone that was written goes on.
    pointers: BTreeMap<u64, u64>,
}

impl Zoned {
    /// The zone that holds a sector: its number and its first sector. `None` before the first of them.
    fn zone(&self, sector: u64) -> Option<(u64, u64)> {
        let number = sector.checked_sub(self.first_sector)? / self.zone_sectors;
        Some((number, self.first_sector + number * self.zone_sectors))
    }

    /// Where the part of an extent ends that lies in one zone, or before the first.
    fn part_end(&self, sector: u64, end: u64) -> u64 {
        let zone_end = self.zone(sector).map_or(self.first_sector, |(_, begin)| begin + self.zone_sectors);
        end.min(zone_end)
    }

    fn ask(&mut self, now: Nanos, operation: Operation, (begin, end): (u64, u64), dispatch: &Dispatch) -> Service {
        let sectors = u32::try_from(end - begin).unwrap_or(u32::MAX);
        self.drive.serve(now, &Dispatch { operation, sector: begin, sectors, ..*dispatch })
    }

    /// Writes a part that lies in one zone.
    fn write(&mut self, now: Nanos, (sector, end): (u64, u64), dispatch: &Dispatch) -> Service {
        let Some((number, begin)) = self.zone(sector) else {
            return self.ask(now, Operation::Write, (sector, end), dispatch);
        };
        let pointer = self.pointers.get(&number).copied().unwrap_or(sector);
        self.pointers.insert(number, pointer.max(end));
        if sector >= pointer {
            return self.ask(now, Operation::Write, (pointer, end), dispatch);
        }
        let read = self.ask(now, Operation::Read, (begin, pointer), dispatch);
        let written = self.ask(read.finish, Operation::Write, (begin, pointer.max(end)), dispatch);
        joined(read, written)
    }

    /// Puts back the pointers of the zones that a discard covers.
    fn put_back(&mut self, sector: u64, end: u64) {
        let (first, zone_sectors) = (self.first_sector, self.zone_sectors);
        self.pointers.retain(|number, _| {
            let begin = first + number * zone_sectors;
            begin < sector || end < begin + zone_sectors
        });
    }
}

/// Two services, one after the other, as one.
fn joined(one: Service, next: Service) -> Service {
    Service {
        overhead_nanos: one.overhead_nanos + next.overhead_nanos,
        seek_nanos: one.seek_nanos + next.seek_nanos,
        rotation_nanos: one.rotation_nanos + next.rotation_nanos,
        transfer_nanos: one.transfer_nanos + next.transfer_nanos,
        track: one.track,
        movements: one.movements.saturating_add(next.movements),
        movement_tracks: one.movement_tracks + next.movement_tracks,
        movement_squares: one.movement_squares.saturating_add(next.movement_squares),
        ..next
    }
}

impl Device for Zoned {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let end = dispatch.sector.saturating_add(u64::from(dispatch.sectors)).min(self.sectors());
        if dispatch.operation == Operation::Discard {
            self.put_back(dispatch.sector, end);
        }
        if dispatch.operation != Operation::Write || dispatch.sector >= end {
            return self.drive.serve(now, dispatch).counted_from(now);
        }
        let first_end = self.part_end(dispatch.sector, end);
        let mut service = self.write(now, (dispatch.sector, first_end), dispatch);
        let mut sector = first_end;
        while sector < end {
            let part_end = self.part_end(sector, end);
            service = joined(service, self.write(service.finish, (sector, part_end), dispatch));
            sector = part_end;
        }
        service.counted_from(now)
    }

    fn positioning_nanos(&self, now: Nanos, dispatch: &Dispatch) -> u64 {
        self.drive.positioning_nanos(now, dispatch)
    }

    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn tracks(&self) -> u64 {
        self.drive.tracks()
    }

    fn flash(&self) -> Option<FlashCounts> {
        self.drive.flash()
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeviceSpec;
    use super::*;
    use ioweir_core::{Flags, Request, StreamId};

    const MIB: u64 = 2048;
    const TRACK: u64 = 1 << 16;

    /// A drive with zones of 2 MiB behind 4 MiB that can be written anywhere, all of them on its first track.
    fn zoned() -> Box<dyn Device> {
        let text = "[zoned]\nzone = \"2MiB\"\nconventional = \"4MiB\"\n[zoned.drive.hdd]\nrevolutions_per_minute = 6000\nsurfaces = 1\n\
                    cylinders = 20\ninterface_rate = \"1GB/s\"\nzone = [{ first_cylinder = 0, sectors_per_track = 65536 }]\n\
                    [zoned.drive.hdd.seek.datasheet]\nsingle = \"1ms\"\naverage = \"5ms\"\nfull = \"9ms\"\n";
        DeviceSpec::parse("zoned.toml", text).expect("a device").build(0).expect("it builds")
    }

    fn dispatch(operation: Operation, sector: u64, sectors: u32) -> Dispatch {
        Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors })
    }

    struct Host(Box<dyn Device>, Nanos);

    impl Host {
        fn serve(&mut self, operation: Operation, sector: u64, sectors: u32) -> Service {
            let service = self.0.serve(self.1, &dispatch(operation, sector, sectors));
            let from = self.1;
            self.1 = service.finish;
            assert_eq!(service.finish.since(from).0, service.work_nanos() + service.queue_nanos, "the parts add up");
            service
        }

        /// How many sectors pass the head for a write, to the next eight.
        fn written(&mut self, sector: u64, sectors: u32) -> u64 {
            let passed = self.serve(Operation::Write, sector, sectors).transfer_nanos * TRACK / 10_000_000;
            (passed + 4) / 8 * 8
        }
    }

    #[test]
    fn zone_is_written_at_its_pointer() {
        let mut host = Host(zoned(), Nanos::ZERO);
        let zone = 6 * MIB;
        assert_eq!([0, 64, 128].map(|at| host.written(zone + at, 64)), [64; 3], "at the pointer");
        assert_eq!(host.written(zone + 64, 64), 192 + 192, "what lies before the pointer is read and written");
        assert_eq!(host.written(zone + 160, 64), 192 + 224, "with what goes on behind it");
        assert_eq!(host.written(zone + 224, 64), 64, "it goes on from there");
        assert_eq!(host.written(zone + 392, 64), 104 + 64, "a gap is written as well");
    }

    #[test]
    fn discarding_a_whole_zone_resets_its_pointer() {
        let mut host = Host(zoned(), Nanos::ZERO);
        let (zone, whole) = (6 * MIB, 2 * MIB as u32);
        host.written(zone, 128);
        host.serve(Operation::Discard, zone, whole - 8);
        assert_eq!(host.written(zone, 128), 128 + 128);
        host.serve(Operation::Discard, zone, whole);
        assert_eq!(host.written(zone, 128), 128);
    }

    #[test]
    fn front_is_written_anywhere() {
        let mut host = Host(zoned(), Nanos::ZERO);
        assert_eq!([64, 0, 64].map(|at| host.written(at, 64)), [64; 3], "conventional");
        let border = 8 * MIB;
        assert_eq!(host.written(border - 64, 128), 128);
        assert_eq!(host.written(border + 64, 64), 64, "the second zone goes on");
        assert_eq!(host.written(4 * MIB - 64, 128), 128, "from the front into the first zone");
    }

    #[test]
    fn invalid_zones_are_refused_by_their_key() {
        for (zone, key) in [
            ("zone = \"0B\"", "zoned.zone: is 0"),
            ("zone = \"700B\"", "zoned.zone: is 700B"),
            ("conventional = \"1B\"", "zoned.conventional: is 1B"),
        ] {
            let text = format!("[zoned]\ndrive = \"hdd\"\n{zone}\n");
            let error = DeviceSpec::parse("zoned.toml", &text).expect_err(zone).to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
