//! Block traces, counted.

use ioweir_background::series::{Series, series_of_trace};
use ioweir_lab::run::Silent;
use ioweir_trace::{self as trace, Input, ReadOptions};

#[test]
fn trace_is_counted_by_operation_idle_zero() {
    let text = "time_s,pid,comm,op,lba,sectors\n\
                0.000000,1,a,R,0,8\n1.000000,1,a,W,0,8\n2.000000,1,a,W,0,16\n11.000000,1,a,D,0,64\n35.000000,1,a,R,0,8\n";
    let input = Input::from_bytes("t", text.as_bytes().to_vec());
    let mut source = trace::open_inputs(vec![input], &ReadOptions::default()).unwrap();
    let counted = series_of_trace(source.as_mut(), 10, "t", &Silent).unwrap();
    let values = |series: &Series| series.values.iter().map(|value| value.unwrap_or(-1.0)).collect::<Vec<_>>();
    // The fourth bin is cut by the end of the trace.
    assert_eq!(values(&counted.requests[0]), [0.1, 0.0, 0.0]);
    assert_eq!(values(&counted.requests[1]), [0.2, 0.0, 0.0]);
    assert_eq!(values(&counted.bytes[2]), [0.0, 3276.8, 0.0]);
    // Of three blocks written, one had been written before; without writes the ratio is unknown.
    assert_eq!(values(&counted.unique_ratio), [2.0 / 3.0, -1.0, -1.0]);
}
