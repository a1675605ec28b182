//! Tells whether a device serves two reads beside each other, which a disk with one arm cannot.

use ioweir_core::Operation;

use super::{Classes, Measured, span};
use crate::calibration::Pairs;

/// A class with fewer reads by themselves says nothing about how long such a read takes.
const ALONE_MIN: usize = 10;
/// Sequential reads, which a buffer may answer while the arm moves: the first two classes.
const PLACED_FROM: u8 = 2;

/// Looks at busy times of the device that two reads made up, neither of which continues the request before. One arm serves the second
/// for as long as such a read takes by itself; two arms are often done at nearly the same time. `None` if there are no such times.
#[must_use]
pub fn pairs(requests: &[Measured], device_sectors: u64) -> Option<Pairs> {
    let classes = Classes::new(requests, device_sectors).numbers;
    let mut busy: Vec<Vec<(&Measured, u8)>> = Vec::new();
    let mut end_nanos = 0;
    for (request, class) in requests.iter().zip(classes) {
        match busy.last_mut() {
            Some(last) if request.arrival_nanos < end_nanos => last.push((request, class)),
            _ => busy.push(vec![(request, class)]),
        }
        end_nanos = end_nanos.max(request.completion_nanos());
    }
    let mut alone = vec![Vec::new(); Classes::NAMES.len()];
    for period in &busy {
        if let [(request, class)] = period[..] {
            alone[usize::from(class)].push(request.response_nanos);
        }
    }
    let usual = |class: u8| {
        alone.get(usize::from(class)).filter(|times| times.len() >= ALONE_MIN).map(|times| super::mean(times))
    };
    let (mut count, mut apart, mut expected) = (0_u32, 0.0, 0.0);
    for period in &busy {
        let &[one, other] = &period[..] else { continue };
        let is_placed =
            |(request, class): (&Measured, u8)| request.operation == Operation::Read && class >= PLACED_FROM;
        if !is_placed(one) || !is_placed(other) {
            continue;
        }
        let [first, last] =
            if one.0.completion_nanos() <= other.0.completion_nanos() { [one, other] } else { [other, one] };
        let Some(usual) = usual(last.1) else { continue };
        let begins = first.0.completion_nanos().max(last.0.arrival_nanos);
        apart += last.0.completion_nanos().saturating_sub(begins) as f64;
        expected += usual;
        count += 1;
    }
    let each = |sum: f64| span(sum / f64::from(count.max(1)));
    (count > 0).then(|| Pairs { count: u64::from(count), apart: each(apart), alone: each(expected) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceSpec;
    use crate::random::Random;
    use crate::validate::{Load, replay};

    /// Reads at random places, half of them two at once.
    fn seen(device: &str) -> Pairs {
        let mut device = DeviceSpec::parse("hidden", device).expect("a device").build(3).expect("it is checked");
        let mut random = Random::new(4);
        let mut requests = Vec::new();
        for turn in 0..300 {
            for _ in 0..=turn % 2 {
                let sector = random.below(device.sectors() / 8) * 8;
                let arrival_nanos = turn * 90_000_000;
                requests.push(Measured {
                    operation: Operation::Read,
                    sector,
                    sectors: 8,
                    arrival_nanos,
                    response_nanos: 0,
                });
            }
        }
        let replayed = replay(&mut *device, &requests, Load::Arrivals).expect("they fit");
        for (request, replayed) in requests.iter_mut().zip(replayed) {
            request.response_nanos = replayed.response_nanos();
        }
        pairs(&requests, device.sectors()).expect("pairs")
    }

    #[test]
    fn one_arm_is_told_from_several() {
        for order in ["fifo", "sptf"] {
            let mut disk: toml::Table =
                DeviceSpec::load("barracuda").expect("a preset").to_toml().parse().expect("TOML");
            disk["hdd"]["command_order"] = order.into();
            let one = seen(&disk.to_string());
            assert!(one.count > 100 && !one.is_beside(), "{order}: {one:?}");
        }
        for layout in ["stripe\"\nchunk = \"64KiB", "mirror", "parity\"\nchunk = \"64KiB"] {
            let several = seen(&format!("[array]\nmembers = 4\nmember = \"barracuda\"\nlayout = \"{layout}\"\n"));
            assert!(several.count > 100 && several.is_beside(), "{layout}: {several:?}");
        }
    }
}
