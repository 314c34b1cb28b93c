//! A bound that is called guaranteed is never crossed; one that is not called so is crossed somewhere.

use pmfcl::problem::logistic::{Curvature, Objective, OneTask, columns};
use pmfcl::{Basis, Design, Rows, Summary, Theta};

/// Uniform and normal numbers from a seed (splitmix64, Box and Muller).
struct Draws(u64);

impl Draws {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A power of ten between the two exponents.
    fn decade(&mut self, from: f64, to: f64) -> f64 {
        10f64.powf(from + (to - from) * self.uniform())
    }

    fn theta(&mut self, m: usize, p: usize, size: f64) -> Theta {
        let cells = (0..m * p).map(|_| size * self.normal()).collect();
        centred(Theta::from_columns(m, p, cells).unwrap())
    }
}

fn centred(mut theta: Theta) -> Theta {
    let p = theta.targets();
    if p > 1 {
        for j in 0..theta.width() {
            let mean = (0..p).map(|k| theta.column(k)[j]).sum::<f64>() / p as f64;
            (0..p).for_each(|k| theta.column_mut(k)[j] -= mean);
        }
    }
    theta
}

struct Case {
    design: Design,
    d: usize,
    classes: usize,
    x: Vec<f64>,
    y: Vec<u32>,
    weights: Option<Vec<f64>>,
}

impl Case {
    /// A task of any kind: with and without intercept, weights, dependent columns, missing classes.
    fn draw(draws: &mut Draws, classes: usize) -> Self {
        let (n, d) = (4 + draws.below(24), 1 + draws.below(4));
        let size = draws.decade(-1.0, 1.0);
        let dependent = draws.below(3) == 0;
        let mut x = Vec::new();
        for _ in 0..n {
            let mut row: Vec<f64> = (0..d).map(|_| size * draws.normal()).collect();
            if dependent && d > 1 {
                row[d - 1] = row[0] - 2.0 * row[(d - 1) / 2];
            }
            x.extend(row);
        }
        let present = 1 + draws.below(classes);
        let y = (0..n).map(|_| draws.below(present) as u32).collect();
        let weights =
            (draws.below(2) == 0).then(|| (0..n).map(|_| draws.decade(-2.0, 2.0)).collect());
        let design = Design::new(Basis::default().fix(&[], d).unwrap(), draws.below(2) == 0);
        Self { design, d, classes, x, y, weights }
    }

    fn rows(&self) -> OneTask<'_> {
        let (x, y) = (Rows::new(&self.x, self.d).unwrap(), (&self.y[..], self.classes));
        OneTask::new(&self.design, x, y, self.weights.as_deref(), 1).unwrap()
    }

    fn shape(&self) -> (usize, usize) {
        (self.design.width(), columns(self.classes))
    }

    fn loss(&self, theta: &Theta) -> f64 {
        self.rows().evaluate(theta).unwrap().0
    }

    fn gradient(&self, theta: &Theta) -> Theta {
        self.rows().evaluate(theta).unwrap().1
    }

    fn expand(&self, anchor: &Theta, curvature: Curvature) -> Summary {
        let bound = self.rows().expand(anchor, curvature).unwrap();
        let there = bound.loss(anchor).unwrap();
        assert!(rounding(&bound, there) >= (there - self.loss(anchor)).abs(), "touches");
        bound
    }
}

/// What the sums of a summary may round to: its largest parts are the value and the constant `c`, each a sum of
/// `m·p` products after a QR of backward error `64 m ε`.
fn rounding(bound: &Summary, value: f64) -> f64 {
    let m = (bound.width() * bound.targets()) as f64;
    64.0 * m * f64::EPSILON * (value.abs() + bound.min_loss().abs() + 1.0)
}

#[test]
fn logistic_guaranteed_bounds_are_never_crossed() {
    const CASES: usize = 220;
    const POINTS: usize = 520;
    let mut draws = Draws(5);
    for classes in [2, 3, 6] {
        let (mut checked, mut tightest, mut ratios) = (0usize, f64::INFINITY, Vec::new());
        for _ in 0..CASES {
            let case = Case::draw(&mut draws, classes);
            let (m, p) = case.shape();
            // From indifferent to hopelessly confident.
            let size = draws.decade(-2.0, 2.5);
            let anchor = draws.theta(m, p, size);
            let bounds: Vec<Summary> = [Curvature::Bohning, Curvature::Sharp, Curvature::Diagonal]
                .iter()
                .map(|c| {
                    assert!(c.guaranteed());
                    case.expand(&anchor, *c)
                })
                .collect();
            let slope = case.gradient(&anchor);
            let value = case.loss(&anchor);
            for _ in 0..POINTS {
                let reach = draws.decade(-3.0, 3.0);
                let mut theta = draws.theta(m, p, reach);
                theta.cells_mut().iter_mut().zip(anchor.cells()).for_each(|(t, a)| *t += a);
                let loss = case.loss(&theta);
                let at: Vec<f64> = bounds.iter().map(|b| b.loss(&theta).unwrap()).collect();
                for (bound, at) in bounds.iter().zip(&at) {
                    assert!(
                        loss <= at + rounding(bound, *at),
                        "{classes} classes: {loss} above {at}"
                    );
                }
                // Sharp lies between the loss and Böhning.
                assert!(at[1] <= at[0] + rounding(&bounds[0], at[0]), "{} above {}", at[1], at[0]);
                let line: f64 = value
                    + slope
                        .cells()
                        .iter()
                        .zip(theta.cells())
                        .zip(anchor.cells())
                        .map(|((g, t), a)| g * (t - a))
                        .sum::<f64>();
                if at[0] - line > 1e-6 {
                    ratios.push((at[1] - line) / (at[0] - line));
                    tightest = tightest.min((at[1] - loss) / (at[1] - line));
                }
                checked += 1;
            }
        }
        assert!(checked >= 100_000);
        ratios.sort_by(f64::total_cmp);
        println!(
            "{classes} classes: {checked} points, no crossing; curvature sharp/bohning median {:.3}, \
             least {:.4}; sharp comes as near as {tightest:.1e} of its own curvature",
            ratios[ratios.len() / 2],
            ratios[0]
        );
    }
}

#[test]
fn logistic_bounds_without_a_guarantee_are_crossed_somewhere() {
    let mut draws = Draws(6);
    for classes in [2, 4] {
        for curvature in
            [Curvature::Hessian, Curvature::Blend, Curvature::Fisher { draws: 4, seed: 1 }]
        {
            assert!(!curvature.guaranteed());
            let (mut crossed, mut points) = (0, 0);
            for _ in 0..60 {
                let case = Case::draw(&mut draws, classes);
                let (m, p) = case.shape();
                let size = draws.decade(-1.0, 1.0);
                let anchor = draws.theta(m, p, size);
                let bound = case.expand(&anchor, curvature);
                for _ in 0..50 {
                    let mut theta = draws.theta(m, p, 2.0);
                    theta.cells_mut().iter_mut().zip(anchor.cells()).for_each(|(t, a)| *t += a);
                    let at = bound.loss(&theta).unwrap();
                    crossed += usize::from(case.loss(&theta) > at + 1e-6);
                    points += 1;
                }
            }
            println!("{classes} classes, {curvature}: crossed at {crossed} of {points} points");
            assert!(crossed > 0, "{curvature}");
        }
    }
}

#[test]
fn logistic_gradient_and_curvature_are_those_of_differences() {
    let mut draws = Draws(7);
    // Central differences of a sum of logistic terms in η = xᵀθ: truncation h²/6 · |x|³ · max|σ''| (0.1) ≤ 2e-9
    // for |x| ≤ 5, rounding ε·|f|/h ≤ 2e-10 for |f| ≤ 10.
    let h = 1e-5;
    let tolerance = 4e-9;
    for classes in [2, 3, 5] {
        let mut cases = 0;
        while cases < 40 {
            let case = Case::draw(&mut draws, classes);
            if case.x.iter().any(|v| v.abs() > 5.0) {
                continue;
            }
            cases += 1;
            let (m, p) = case.shape();
            let theta = draws.theta(m, p, 0.5);
            let gradient = case.gradient(&theta);
            let hessian = case.expand(&theta, Curvature::Hessian);
            let moved = |j: usize, k: usize, t: f64| {
                let mut there = theta.clone();
                there.column_mut(k)[j] += t;
                there
            };
            for j in 0..m {
                let (mut trace, mut ours) = (0.0, 0.0);
                for k in 0..p {
                    let slope =
                        (case.loss(&moved(j, k, h)) - case.loss(&moved(j, k, -h))) / (2.0 * h);
                    let g = gradient.column(k)[j];
                    assert!((g - slope).abs() <= tolerance, "{g} against {slope}");
                    let (up, down) =
                        (case.gradient(&moved(j, k, h)), case.gradient(&moved(j, k, -h)));
                    let bend = (up.column(k)[j] - down.column(k)[j]) / (2.0 * h);
                    trace += bend;
                    // The summary is quadratic: any step gives its curvature.
                    let (up, down) = (
                        hessian.gradient(&moved(j, k, 1.0)).unwrap(),
                        hessian.gradient(&moved(j, k, -1.0)).unwrap(),
                    );
                    ours += (up.column(k)[j] - down.column(k)[j]) / 2.0;
                }
                // K columns of curvature c against the trace (K − 1)c of the true one.
                let ours = if p == 1 { ours } else { ours * (p - 1) as f64 / p as f64 };
                assert!((ours - trace).abs() <= p as f64 * tolerance, "{ours} against {trace}");
            }
        }
    }
}

#[test]
fn logistic_least_loss_is_below_every_loss_and_near_the_lowest() {
    let mut draws = Draws(8);
    let (mut separable, mut sharp, mut cases) = (0, 0, 0);
    for classes in [2, 3, 5] {
        for _ in 0..150 {
            let case = Case::draw(&mut draws, classes);
            let (m, p) = case.shape();
            let least = case.rows().least_loss(None).unwrap();
            assert!(least.value <= least.reached && least.value >= 0.0, "{least:?}");
            for _ in 0..20 {
                let size = draws.decade(-1.0, 1.5);
                let loss = case.loss(&draws.theta(m, p, size));
                assert!(least.value <= loss + 1e-12, "{least:?} above {loss}");
            }
            // All but no ridge: nearly the lowest loss there is.
            let objective = Objective { scale: 1.0, past: None, penalty: &vec![1e-9; m] };
            let fit = case.rows().minimize(&objective, None).unwrap();
            assert!(least.value <= fit.loss + 1e-12, "{least:?} above {}", fit.loss);
            assert!(least.separable || !fit.separable, "{least:?} {fit:?}");
            separable += usize::from(least.separable);
            sharp += usize::from(fit.loss - least.value <= 1e-3 * fit.loss + 1e-4);
            cases += 1;
        }
    }
    println!("{cases} tasks: {separable} separable, {sharp} least losses within 0.1 %");
    assert!(sharp * 100 >= cases * 95, "{sharp} of {cases}");
}
