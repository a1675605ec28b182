//! Combines several forecasts of one bin: weights from past errors, and the weighted median.

/// The weights of experts from their losses on past days: the Hedge rule of Freund and Schapire, in which old days fade. Losses are
/// relative to the usual loss of all experts, so that a day on which one of them failed by far counts by far.
pub(super) fn hedge(losses: &[Vec<f64>], experts: usize) -> Vec<f64> {
    const FORGETTING: f64 = 0.8;
    const RATE: f64 = 3.0;
    let (mut total, mut days) = (vec![0.0; experts], 0.0);
    for day in losses {
        days = days * FORGETTING + 1.0;
        for (total, loss) in total.iter_mut().zip(day) {
            *total = *total * FORGETTING + loss;
        }
    }
    let usual = total.iter().sum::<f64>() / (experts as f64 * days);
    let least = total.iter().copied().fold(f64::INFINITY, f64::min);
    let worse_by = |total: f64| if usual > 0.0 { (total - least) / usual } else { 0.0 };
    let weights: Vec<f64> = total.iter().map(|total| (-RATE * worse_by(*total)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The weighted median of the experts in each bin.
pub(super) fn combined(experts: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    if let [only] = experts {
        return only.clone();
    }
    let mut ranked: Vec<(f64, f64)> = Vec::with_capacity(experts.len());
    let at = |place: usize| {
        ranked.clear();
        ranked.extend(experts.iter().zip(weights).map(|(expert, weight)| (expert[place], *weight)));
        ranked.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut passed = 0.0;
        let middle = ranked.iter().find(|(_, weight)| {
            passed += weight;
            passed >= 0.5 - 1e-9
        });
        middle.map_or(0.0, |(value, _)| *value)
    };
    (0..experts.first().map_or(0, Vec::len)).map(at).collect()
}

/// The mean absolute error of a day.
pub(super) fn loss(actual: &[Option<f64>], forecast: &[f64]) -> f64 {
    let known = actual.iter().zip(forecast).filter_map(|(actual, forecast)| Some((actual.as_ref()? - forecast).abs()));
    let (sum, count) = known.fold((0.0, 0.0), |(sum, count), error| (sum + error, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
