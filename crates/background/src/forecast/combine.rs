//! Combines several forecasts of one bin: weights from past errors, and the weighted forecast.

/// The weights of experts from their losses on past days: the Hedge rule of Freund and Schapire, in which old days fade. A
/// loss is relative to the loss of all experts on that day, so that hard days do not count more.
pub(super) fn hedge(losses: &[Vec<f64>], experts: usize, rate: f64) -> Vec<f64> {
    const FORGETTING: f64 = 0.9;
    let mut total = vec![0.0; experts];
    for day in losses {
        let mean = day.iter().sum::<f64>() / day.len().max(1) as f64;
        for (total, loss) in total.iter_mut().zip(day) {
            *total = *total * FORGETTING + if mean > 0.0 { loss / mean } else { 0.0 };
        }
    }
    let least = total.iter().copied().fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> = total.iter().map(|total| (-rate * (total - least)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The weighted geometric mean of the experts on the winning side, which say that a bin is idle, or that it is busy. The
/// side with more weight wins, because a mean of idle and busy is near neither.
pub(super) fn combined(experts: &[Vec<f64>], weights: &[f64], floor: f64, median: bool) -> Vec<f64> {
    if let [only] = experts {
        return only.clone();
    }
    let at = |place: usize| {
        let (mut busy, mut sum) = (0.0, 0.0);
        for (expert, weight) in experts.iter().zip(weights).filter(|(expert, _)| expert[place] > floor) {
            busy += weight;
            sum += weight * expert[place].ln();
        }
        if busy <= 0.5 {
            return 0.0;
        }
        if !median {
            return (sum / busy).exp();
        }
        let mut ranked: Vec<(f64, f64)> =
            experts.iter().zip(weights).map(|(expert, weight)| (expert[place], *weight)).collect();
        ranked.retain(|(value, _)| *value > floor);
        ranked.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut passed = 0.0;
        let middle = ranked.iter().find(|(_, weight)| {
            passed += weight;
            passed >= busy / 2.0
        });
        middle.map_or(0.0, |(value, _)| *value)
    };
    (0..experts.first().map_or(0, Vec::len)).map(at).collect()
}

/// The mean symmetric error of a day, 0 to 1: bounded, as the rule for weights requires.
pub(super) fn loss(actual: &[Option<f64>], forecast: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for (actual, forecast) in actual.iter().zip(forecast) {
        let Some(actual) = actual else { continue };
        let size = actual + forecast;
        sum += if size > 0.0 { (actual - forecast).abs() / size } else { 0.0 };
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}
