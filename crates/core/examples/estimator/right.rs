//! The right allocation: weighted proportional fairness under what each tier can do.

use crate::cases::Case;

/// The rates a second that maximise the sum of weight times log rate, zero for clients that are not there.
///
/// Each tier has a price for a second of a server, and a client's rate is its weight over the price of its mean request.
/// Prices rise where more is asked for than the tier has, and fall elsewhere.
pub(crate) fn rates(case: &Case) -> Vec<f64> {
    let mut prices = vec![1.0; case.tiers.len() + 1];
    let mut rates = vec![];
    for step in 0..200_000 {
        rates = rates_at(case, &prices);
        let mut is_settled = true;
        for (at, price) in prices.iter_mut().enumerate() {
            let room = case.tiers.get(at).map_or(f64::from(case.depth), |tier| tier.servers as f64);
            let asked: f64 =
                case.clients.iter().zip(&rates).map(|(client, rate)| rate * seconds(case, client, at)).sum();
            let part = asked / room;
            is_settled &= (part - 1.0).abs() < 1e-6 || part < 1.0 && *price < 1e-9;
            let most = if step < 1_000 { 0.5 } else { 0.1 };
            *price = f64::max(*price * part.powf(most), 1e-12);
        }
        if is_settled {
            break;
        }
    }
    rates
}

/// The seconds of a tier's servers that a client's mean request needs; beyond the last tier, of the array's slots.
fn seconds(case: &Case, client: &crate::cases::Client, tier: usize) -> f64 {
    if tier == case.tiers.len() {
        return (0..tier).map(|tier| seconds(case, client, tier)).sum();
    }
    client.hits[tier] * client.factor * case.tiers[tier].mean_nanos / 1e9
}

fn rates_at(case: &Case, prices: &[f64]) -> Vec<f64> {
    let rate = |client: &crate::cases::Client| {
        let price: f64 = prices.iter().enumerate().map(|(at, price)| price * seconds(case, client, at)).sum();
        if client.is_here { f64::from(client.weight) / price } else { 0.0 }
    };
    case.clients.iter().map(rate).collect()
}

/// The seconds that a client's mean request is served.
pub(crate) fn service(case: &Case, client: &crate::cases::Client) -> f64 {
    seconds(case, client, case.tiers.len())
}
