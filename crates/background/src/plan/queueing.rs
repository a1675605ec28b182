//! The queue M/M/c: how many servers keep a queue short. The paper sizes its background cores this way.

/// The probability that an arrival has to wait at `servers` servers that are offered `load` (arrival rate times service
/// time): Erlang's C. It is 1 if they cannot keep up.
#[must_use]
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    let count = f64::from(servers);
    if !(load >= 0.0 && load < count) {
        return 1.0;
    }
    // Erlang's B formula by its recursion, which does not overflow.
    let blocked = (1..=servers).fold(1.0, |blocked, server| load * blocked / (f64::from(server) + load * blocked));
    (count * blocked / (count - load * (1.0 - blocked))).clamp(0.0, 1.0)
}

/// The fewest servers, up to `servers_max`, with which at most `late_share` of arrivals wait longer than `wait_seconds`;
/// `servers_max` if no number suffices.
#[must_use]
pub fn servers_needed(
    arrivals: f64,
    service_seconds: f64,
    wait_seconds: f64,
    late_share: f64,
    servers_max: u32,
) -> u32 {
    let load = arrivals * service_seconds;
    if !(load.is_finite() && load > 0.0) {
        return 0;
    }
    let is_enough = |servers: u32| {
        let spare = (f64::from(servers) - load) / service_seconds;
        spare > 0.0 && erlang_c(servers, load) * (-spare * wait_seconds).exp() <= late_share
    };
    // With more servers, no wait is longer.
    let (mut low, mut high) = (1, servers_max.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_waits_as_often_as_busy() {
        for load in [0.1, 0.5, 0.9] {
            assert!((erlang_c(1, load) - load).abs() < 1e-12);
        }
        assert!((erlang_c(1, 1.0) - 1.0).abs() < 1e-12);
        assert!((erlang_c(2, f64::NAN) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_textbook_value_for_two_servers() {
        // a^2 / (2 - a) / (1 + a + a^2 / (2 - a)) with a = 1: 1/3.
        assert!((erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!(erlang_c(10_000, 9_000.0) < 1e-9);
    }

    #[test]
    fn servers_are_just_enough_for_short_waits() {
        assert_eq!(servers_needed(0.0, 0.05, 1.0, 0.01, 64), 0);
        // 100 arrivals a second of 50 ms keep five servers busy; a wait of at most one second takes one more.
        assert_eq!(servers_needed(100.0, 0.05, 1.0, 0.01, 64), 6);
        assert_eq!(servers_needed(1e9, 0.05, 1.0, 0.01, 64), 64);
        assert_eq!(servers_needed(f64::NAN, 0.05, 1.0, 0.01, 64), 0);
    }
}
