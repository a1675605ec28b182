//! Quantiles of Student's distribution.

/// For a two-sided interval of 95 %, by degrees of freedom from 1.
const TWO_SIDED_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// For a two-sided interval of 90 %, and for one side that chance exceeds in one of twenty cases.
const TWO_SIDED_90: [f64; 30] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
    1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
];

/// Student's t for a two-sided interval of 95 %; infinite without a degree of freedom.
#[must_use]
pub fn student_95(freedom: usize) -> f64 {
    of(&TWO_SIDED_95, freedom, 1.96)
}

/// Student's t for a two-sided interval of 90 %; infinite without a degree of freedom.
#[must_use]
pub fn student_90(freedom: usize) -> f64 {
    of(&TWO_SIDED_90, freedom, 1.645)
}

fn of(table: &[f64], freedom: usize, normal: f64) -> f64 {
    freedom.checked_sub(1).map_or(f64::INFINITY, |place| table.get(place).copied().unwrap_or(normal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_fall_to_those_of_the_normal_distribution() {
        for student in [student_90, student_95] {
            assert!(student(0).is_infinite());
            assert!((1..40).all(|freedom| student(freedom) >= student(freedom + 1)));
        }
        assert_eq!([student_95(4), student_90(4), student_95(1000)], [2.776, 2.132, 1.96]);
    }
}
