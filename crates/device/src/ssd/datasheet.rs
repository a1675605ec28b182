//! A flash drive as a datasheet describes it, from which the parameters of the model follow.

use ioweir_config::{ByteRate, Complaint, Duration, Rate, Size, keys};
use ioweir_core::Nanos;

use super::super::check::fail;
use super::super::quantity::whole;
use super::super::{Device, Model};
use super::spec::{SsdOverhead, SsdSerial, SsdSpec, SsdState};

const CHANNELS: u32 = 8;
const PAGE: Size = Size(16 << 10);
/// The part of the time of a lone read that the flash takes; the rest is firmware.
const SENSE_SHARE: f64 = 0.7;
/// Dies beyond those that the rated reads keep busy, because random reads meet on some of them.
const DIES_SPARE: f64 = 2.0;
/// About as many blocks on a die.
const DIE_BLOCKS: u64 = 1024;

keys! {
    /// A flash drive by the numbers of its datasheet: `ioweir show` prints them, and the model derives the rest. The rated
    /// commands a second are those of a stage that serves one after another; dies are as many as these reads need, and
    /// programs as long as the rate of writing says.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FlashDatasheet {
        /// the size
        capacity: Size = required,
        /// the time of a read of one mapping unit, alone
        read_latency: Duration = required,
        /// the time of a write of one mapping unit, alone
        write_latency: Duration = required,
        /// random reads a second of one mapping unit, at high depth
        read_iops: Rate = required,
        /// random writes a second of one mapping unit, at high depth; garbage collection comes on top
        write_iops: Rate = required,
        /// sequential reading
        read_rate: ByteRate = required,
        /// sequential writing, sustained
        write_rate: ByteRate = required,
        /// the unit of the drive's map (indirection unit): "16KiB" for many QLC drives; less is read, changed and written
        mapping_unit: Size = (Size(4096)),
        /// flash beyond the capacity, in thousandths of it
        over_provisioning_per_mille: u32 = (70),
        /// the memory in which writes are acknowledged
        write_buffer: Size = (Size(16 << 20)),
        /// whether that memory survives a loss of power
        power_loss_protection: bool = (false),
        /// the content at time zero: fresh, filled, steady
        state: SsdState = (SsdState::Filled),
    }
}

impl FlashDatasheet {
    /// The parameters of the model.
    pub(crate) fn expand(&self) -> Result<SsdSpec, Complaint> {
        self.check_own()?;
        let unit_bytes = self.mapping_unit.0 as f64;
        let pass_nanos = unit_bytes * 1e9 / self.read_rate.0 as f64;
        let serial = SsdSerial { read: each(self.read_iops), write: each(self.write_iops) };
        let read_nanos = self.read_latency.nanos().0 as f64 - pass_nanos - serial.read.nanos().0 as f64;
        let sense_nanos = (read_nanos * SENSE_SHARE).max(0.0);
        let busy = self.read_iops.0 as f64 * sense_nanos / 1e9;
        let reading = self.read_rate.0 as f64 * sense_nanos / 1e9 / PAGE.0 as f64;
        let dies_per_channel = whole((busy.max(reading) * DIES_SPARE / f64::from(CHANNELS)).ceil()).clamp(2, 128);
        let dies = u64::from(CHANNELS * dies_per_channel);
        let page = PAGE.max(self.mapping_unit);
        let program_nanos = (dies * page.0) as f64 * 1e9 / self.write_rate.0 as f64;
        let write_nanos = self.write_latency.nanos().0 as f64 - pass_nanos - serial.write.nanos().0 as f64;
        let pages = (self.capacity.0 / (dies * page.0 * DIE_BLOCKS)).max(64).next_power_of_two().min(16_384);
        Ok(SsdSpec {
            capacity: self.capacity,
            state: self.state,
            over_provisioning_per_mille: self.over_provisioning_per_mille,
            channels: CHANNELS,
            dies_per_channel,
            planes_per_die: 1,
            page,
            pages_per_block: u32::try_from(pages).unwrap_or(u32::MAX),
            pages_per_program: 1,
            mapping_unit: self.mapping_unit,
            read: span(sense_nanos),
            read_one_unit: None,
            read_spread: Duration::default(),
            program: span(program_nanos),
            erase: Duration::default(),
            suspend: Some(Duration::default()),
            channel_rate: None,
            interface_rate: Some(self.read_rate),
            transfer_chunk: self.mapping_unit,
            write_buffer: self.write_buffer,
            power_loss_protection: self.power_loss_protection,
            free_blocks_min: 2,
            serial: Some(serial),
            overhead: SsdOverhead {
                read: span(read_nanos - sense_nanos),
                read_one_unit: None,
                write: span(write_nanos),
                write_per_unit: Duration::default(),
                command: span(write_nanos),
            },
            wake: None,
        })
    }

    fn check_own(&self) -> Result<(), Complaint> {
        let rates = [("read_rate", self.read_rate), ("write_rate", self.write_rate)];
        for (key, rate) in rates {
            if !(1_000_000..=1_000_000_000_000).contains(&rate.0) {
                return complain(key, format!("is {rate}"), "give 1MB/s to 1TB/s");
            }
        }
        let commands = [
            ("read_iops", self.read_iops, self.read_latency, "read_latency"),
            ("write_iops", self.write_iops, self.write_latency, "write_latency"),
        ];
        for (key, rate, latency, name) in commands {
            if rate.0 == 0 {
                return complain(key, "is 0".into(), "give commands a second, such as \"500k/s\"");
            }
            let least = each(rate).nanos().0 as f64 + self.mapping_unit.0 as f64 * 1e9 / self.read_rate.0 as f64;
            if latency.nanos().0 as f64 <= least {
                let problem = format!("{latency} is less than a command and its transfer take at {rate}");
                return complain(name, problem, "give the time of one command alone");
            }
        }
        Ok(())
    }
}

fn complain<T>(key: &str, problem: String, hint: &str) -> Result<T, Complaint> {
    fail(format!("flash_datasheet.{key}"), problem, hint)
}

/// The time of each command at a rate.
fn each(rate: Rate) -> Duration {
    Duration::new(Nanos(1_000_000_000 / rate.0.max(1)))
}

fn span(nanos: f64) -> Duration {
    Duration::new(Nanos(u64::from(whole(nanos.max(0.0)))))
}

impl Model for FlashDatasheet {
    fn check(&self) -> Result<(), Complaint> {
        // Complaints of the model about a derived parameter concern the data sheet's numbers from which it follows.
        self.expand()?.lay_out().map(drop).map_err(|complaint| {
            complaint.about("flash_datasheet", |problem| format!("gives a drive that cannot be: {problem}"))
        })
    }

    fn serves_at_once(&self) -> u32 {
        self.expand().map_or(1, |drive| drive.serves_at_once())
    }

    fn switched_on(&self) -> Vec<String> {
        self.expand().map(|drive| drive.switched_on()).unwrap_or_default()
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        Model::build(&self.expand()?, seed)
    }
}
