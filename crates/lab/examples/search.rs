#![allow(warnings, clippy::all, clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, missing_docs)]
use ioweir_core::cores::{Cores, CoresLimits, find};
use ioweir_lab::device::{Bytes, Span};
use ioweir_lab::server::*;
struct R(u64);
impl R {
    fn u(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    fn r(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.u()
    }
    fn l(&mut self, a: f64, b: f64) -> f64 {
        (a.ln() + (b.ln() - a.ln()) * self.u()).exp()
    }
}
fn us(x: f64) -> Span {
    Span::from_nanos((x * 1000.0) as u64)
}
fn mrt(
    p: &PlatformSpec,
    w: &WorkloadSpec,
    c: &CostSpec,
    rate: f64,
    name: &str,
    secs: f64,
) -> (f64, bool, ServerOutcome) {
    let s = Server::new(p.clone(), w.clone(), c.clone()).unwrap();
    let per = c.swing.period.nanos() as f64 / 1e9;
    let n = (secs / per).ceil().max(2.0);
    let o = s
        .run(
            &name.replace("=1", "=yes").replace("=yes20", "=120").parse().unwrap(),
            &ServerLoad {
                requests_per_second: rate,
                warm_up: ioweir_core::Nanos((per * 2e9).max(1e9) as u64),
                measured: ioweir_core::Nanos((n * per * 1e9) as u64),
                seed: 7,
            },
        )
        .unwrap();
    (o.mean_seconds().unwrap_or(9.0) * 1e3, o.saturated, o)
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let dir = "crates/lab/src/server/";
    let read = |f: String| std::fs::read_to_string(format!("{dir}{f}")).unwrap();
    let p: PlatformSpec = toml::from_str(&read(format!("platforms/{}.toml", a[1]))).unwrap();
    let w0: WorkloadSpec = toml::from_str(&read(format!("workloads/spc-1.toml"))).unwrap();
    let c0: CostSpec = toml::from_str(&read("costs.toml".into())).unwrap();
    let mut r = R(a[2].parse::<u64>().unwrap() * 0x9e3779b97f4a7c15 | 1);
    for _ in 0..100 {
        r.u();
    }
    let limit: f64 = a[3].parse().unwrap();
    let t0 = std::time::Instant::now();
    while t0.elapsed().as_secs_f64() < limit {
        let (mut c, mut w) = (c0.clone(), w0.clone());
        let v: Vec<(&str, f64)> = vec![
            ("turn", r.r(6.0, 15.0)),
            ("slow", r.r(10.0, 20.0)),
            ("read", r.r(55.0, 100.0)),
            ("write", r.r(45.0, 70.0)),
            ("restart", r.r(25.0, 75.0)),
            ("spread", r.r(35.0, 65.0)),
            ("pfk", r.r(1.5, 3.5)),
            ("flk", r.l(0.2, 0.8)),
            ("amp", r.r(6.0, 12.0)),
            ("per", r.l(0.4, 0.8)),
            ("dl", if r.u() < 0.3 { 0.0 } else { r.r(10.0, 70.0) }),
        ];
        let g = |k: &str| v.iter().find(|x| x.0 == k).unwrap().1;
        c.turn = us(g("turn"));
        c.slow_path = us(g("slow"));
        c.read.base = us(g("read"));
        c.write.base = us(g("write"));
        c.restart.base = us(g("restart"));
        c.spread_percent = g("spread");
        c.prefetch.cost.per_kib = us(g("pfk"));
        c.flush.cost.per_kib = us(g("flk"));
        c.swing.amplitude_percent = g("amp");
        c.swing.period = Span::from_nanos((g("per") * 1e9) as u64);
        if g("dl") > 0.0 {
            for o in &mut w.operations {
                o.deadline = Some(DeadlineSpec { percent: g("dl"), within: us(20000.0) });
            }
        }

        let nm = |n: &str| n.to_string();
        // find the 30 ms point
        let (mut lo, mut hi) = (50e3, 160e3);
        for _ in 0..8 {
            let m = (lo + hi) / 2.0;
            let (x, sat, _) = mrt(&p, &w, &c, m, &nm("baseline"), 2.0);
            if sat || x > 30.0 { hi = m } else { lo = m }
        }
        let top = lo;
        let loads = [top * 0.94, top * 0.975, top];
        let names = [
            "baseline",
            "baseline:all-weights=1",
            "rs-to-hq:all-weights=1",
            "all-to-hq:all-weights=1",
            "np-to-hq:all-weights=1",
            "all-to-lq:all-weights=1",
            "rs-to-hq",
            "all-to-hq",
            "np-to-hq",
            "w-to-hq",
            "w-rs-to-hq",
            "baseline:hq-weight=90",
            "baseline:hq-weight=120",
            "w-rs-to-hq:hq-weight=90",
            "w-rs-to-hq:hq-weight=120",
            "w-rs-to-hq:hq-weight=30",
            "all-to-lq",
            "qats",
            "all-to-lq:qats=1",
            "all-to-hq:qats=1",
            "sord",
            "combo",
        ];
        let mut t: Vec<Vec<f64>> = Vec::new();
        for n in names {
            t.push(loads.iter().map(|&l| mrt(&p, &w, &c, l, &nm(n), 2.5).0).collect());
        }
        let base = t[0].clone();
        let i = |n: &str| names.iter().position(|x| *x == n).unwrap();
        let rat = |n: &str| -> Vec<f64> { t[i(n)].iter().zip(&base).map(|(a, b)| a / b).collect() };
        let vs = |n: &str, m: &str| -> Vec<f64> { t[i(n)].iter().zip(&t[i(m)]).map(|(a, b)| a / b).collect() };
        let mean = |x: &Vec<f64>| x.iter().sum::<f64>() / x.len() as f64;
        let min = |x: &Vec<f64>| x.iter().copied().fold(9e9, f64::min);
        let max = |x: &Vec<f64>| x.iter().copied().fold(0.0, f64::max);
        let (rs1, all1, np1, lq1) = (
            vs("rs-to-hq:all-weights=1", "baseline:all-weights=1"),
            vs("all-to-hq:all-weights=1", "baseline:all-weights=1"),
            vs("np-to-hq:all-weights=1", "baseline:all-weights=1"),
            vs("all-to-lq:all-weights=1", "baseline:all-weights=1"),
        );
        let (rs, all, np, wh, wrs, b90, b120) = (
            rat("rs-to-hq"),
            rat("all-to-hq"),
            rat("np-to-hq"),
            rat("w-to-hq"),
            rat("w-rs-to-hq"),
            rat("baseline:hq-weight=90"),
            rat("baseline:hq-weight=120"),
        );
        let (lq, q, qlq, qhq, sord, combo) = (
            rat("all-to-lq"),
            rat("qats"),
            rat("all-to-lq:qats=1"),
            rat("all-to-hq:qats=1"),
            rat("sord"),
            rat("combo"),
        );
        let (w90, w120, w12090, w30) = (
            vs("w-rs-to-hq:hq-weight=90", "w-rs-to-hq"),
            vs("w-rs-to-hq:hq-weight=120", "w-rs-to-hq"),
            vs("w-rs-to-hq:hq-weight=120", "w-rs-to-hq:hq-weight=90"),
            vs("w-rs-to-hq:hq-weight=30", "w-rs-to-hq"),
        );
        let checks: Vec<(&str, bool)> = vec![
            ("4a.rs", max(&rs1) > 1.0),
            ("4a.all", max(&all1) > 1.0),
            ("5d.all", mean(&all1) > 1.0),
            ("4b.np", min(&np1) < 1.0),
            ("4b.np<all", np1.iter().zip(&all1).all(|(a, b)| a < b)),
            ("4c.w", min(&wh) < 1.0),
            ("4c.wrs", mean(&wrs) < 1.0),
            ("4c.order", wrs.iter().zip(&wh).all(|(a, b)| a < b)),
            ("5a.90", mean(&b90) >= 0.995),
            ("5a.120", mean(&b120) >= 0.995),
            ("5b.90", mean(&w90) < 1.0),
            ("5b.120w", mean(&w12090) > 1.0),
            ("5b.120", mean(&w120) < 1.0),
            ("5c.30", min(&w30) > 1.0),
            ("5c.light", w30[0] > w30[2]),
            ("5d.lq", mean(&lq1) > 1.0 && lq1.iter().zip(&all1).all(|(a, b)| a > b)),
            ("6a", max(&q) < 1.0),
            ("6b.lq", mean(&qlq) > 1.0),
            ("6b.hq", mean(&qhq) < 1.0),
            ("6b.order", mean(&qhq) < mean(&qlq)),
            ("6c.sord", mean(&sord) < 1.0),
            ("6c.order", mean(&q) < mean(&sord)),
            ("6c.combo", combo.iter().enumerate().all(|(k, x)| *x < q[k] && *x < sord[k] && *x < 1.0)),
        ];
        let d = [
            (max(&rs1), 1.145),
            (mean(&all1), 1.063),
            (min(&np1), 0.932),
            (mean(&wrs), 0.913),
            (mean(&b90), 1.02),
            (mean(&w90), 0.878),
            (w30[0], 2.33),
            (w30[2], 1.24),
            (mean(&lq1), 1.486),
            (mean(&q), 0.78),
            (mean(&qlq), 1.05),
            (mean(&qhq), 0.80),
            (mean(&sord), 0.87),
            (mean(&combo), 0.65),
        ];
        let far: f64 = d.iter().map(|(a, b)| (a / b).ln().abs().min(0.5)).sum();
        let score = checks.iter().filter(|x| x.1).count();
        let failed: Vec<&str> = checks.iter().filter(|x| !x.1).map(|x| x.0).collect();
        let f = |x: &Vec<f64>| x.iter().map(|y| format!("{:+.0}", (y - 1.0) * 100.0)).collect::<Vec<_>>().join("/");
        println!(
            "{:.2} {score:2} {} fails {:?} | top {:.1}k base {} AW rs {} all {} np {} lq {} NE rs {} all {} np {} w {} wrs {} b90 {} b120 {} w30 {} w90 {} w120 {} lq {} qats {} qlq {} qhq {} sord {} combo {}",
            score as f64 - 3.0 * far,
            v.iter().map(|(k, x)| format!("{k}={x:.1}")).collect::<Vec<_>>().join(" "),
            failed,
            top / 1e3,
            base.iter().map(|x| format!("{x:.1}")).collect::<Vec<_>>().join("/"),
            f(&rs1),
            f(&all1),
            f(&np1),
            f(&lq1),
            f(&rs),
            f(&all),
            f(&np),
            f(&wh),
            f(&wrs),
            f(&b90),
            f(&b120),
            f(&w30),
            f(&w90),
            f(&w120),
            f(&lq),
            f(&q),
            f(&qlq),
            f(&qhq),
            f(&sord),
            f(&combo)
        );
    }
}
