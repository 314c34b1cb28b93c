//! The paper's own recursion, as an executable reference.
//!
//! Keeps `(V, Σ, ỹ)` of each task and the matrix `A_k`, forms normal equations, and is slower and less
//! accurate than what pmfcl does; tests hold the two against each other.
//!
//! Paper: Lemma 4.1 (`lem:msi_linear`), Theorem 4.2 (`thm:mfcl_linear`), Algorithm 3 (`alg:linreg-cl`).

use faer::{Mat, Side};

/// Which formulas to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// With the factor `1/n_k` (erratum E1): reaches the joint solution.
    Corrected,
    /// As printed: solves for weights `n_t²`, right only when all tasks have the same size.
    Printed,
}

/// What the paper keeps of a task: `V_t^e`, the diagonal of `Σ_t^e`, and `ỹ_t = Σ⁻¹Uᵀy` (erratum E3).
#[derive(Debug, Clone)]
struct Factors {
    n: f64,
    v: Mat<f64>,
    sigma: Vec<f64>,
    y: Vec<f64>,
}

/// Algorithm 3 of the paper for one target and no intercept.
///
/// Holds the factors while they are smaller than `A`, then folds them and goes on with
///
/// ```text
/// A_k = (N_{k−1}/N_k) A_{k−1} + (1/N_k) V Σ² Vᵀ
/// A_k Δθ_k = (1/N_k) V Σ² (ỹ_k − Vᵀ θ_{k−1}),     θ_0 = 0
/// ```
#[derive(Debug, Clone)]
pub struct Recursion {
    d: usize,
    form: Form,
    /// Added to `A_k` in the Δ-system, as in the paper's experiments; 0 means pseudo-inverse.
    lambda: f64,
    held: Vec<Factors>,
    a: Option<Mat<f64>>,
    seen: f64,
    theta: Vec<f64>,
    switched_at: Option<usize>,
    tasks: usize,
}

impl Recursion {
    /// A recursion over `d` features.
    pub fn new(d: usize, form: Form, lambda: f64) -> Self {
        Self {
            d,
            form,
            lambda,
            held: Vec::new(),
            a: None,
            seen: 0.0,
            theta: vec![0.0; d],
            switched_at: None,
            tasks: 0,
        }
    }

    /// The parameters after the tasks so far.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The task (counted from 0) at which factors were folded into `A`.
    pub fn switched_at(&self) -> Option<usize> {
        self.switched_at
    }

    /// Learns a task of row-major features `x` and targets `y`.
    ///
    /// # Panics
    /// When the singular values do not converge; this is a reference for tests.
    pub fn learn(&mut self, x: &[f64], y: &[f64]) -> &[f64] {
        let task = Factors::new(x, y, self.d);
        self.seen += task.n;
        let rank: usize = self.held.iter().map(|f| f.sigma.len()).sum::<usize>() + task.sigma.len();
        if self.a.is_none() && rank <= self.d {
            self.held.push(task);
            self.solve_held();
        } else {
            self.step(&task);
        }
        self.tasks += 1;
        &self.theta
    }

    /// Weight of a task of size `n` in `A`: `α/n = 1/N`, or the printed `α = n/N`.
    fn weight(&self, n: f64) -> f64 {
        match self.form {
            Form::Corrected => 1.0 / self.seen,
            Form::Printed => n / self.seen,
        }
    }

    /// Phase one: eq. 6 (`eq:theta-p-star`) over the held factors.
    fn solve_held(&mut self) {
        let (mut a, mut nu) = (Mat::zeros(self.d, self.d), vec![0.0; self.d]);
        for f in &self.held {
            let w = 1.0 / self.seen; // the direct form carries 1/n_t also in print
            f.add_to(&mut a, w);
            add(&mut nu, &f.pull(&f.y, w));
        }
        self.theta = self.invert(&a, &nu);
    }

    /// Phase two: one step of Theorem 4.2.
    fn step(&mut self, task: &Factors) {
        let before = self.seen - task.n;
        let mut a = match self.a.take() {
            Some(a) => a * faer::Scale(before / self.seen),
            None => {
                self.switched_at = Some(self.tasks);
                let mut a = Mat::zeros(self.d, self.d);
                for f in &std::mem::take(&mut self.held) {
                    f.add_to(&mut a, self.weight(f.n));
                }
                a
            }
        };
        let w = self.weight(task.n);
        task.add_to(&mut a, w);
        let predicted: Vec<f64> = (0..task.sigma.len())
            .map(|i| task.y[i] - (0..self.d).map(|j| task.v[(j, i)] * self.theta[j]).sum::<f64>())
            .collect();
        let delta = self.invert(&a, &task.pull(&predicted, w));
        add(&mut self.theta, &delta);
        self.a = Some(a);
    }

    /// `(A + λI)⁻¹ b`, or `A⁺ b` for `λ = 0`.
    fn invert(&self, a: &Mat<f64>, b: &[f64]) -> Vec<f64> {
        let eigen = a.self_adjoint_eigen(Side::Lower).expect("eigenvalues converge");
        let (u, s) = (eigen.U(), eigen.S());
        let largest = s[self.d - 1];
        let cut = self.d as f64 * f64::EPSILON * largest;
        let mut x = vec![0.0; self.d];
        for i in 0..self.d {
            let value = s[i] + self.lambda;
            if self.lambda == 0.0 && s[i] <= cut {
                continue;
            }
            let along: f64 = (0..self.d).map(|j| u[(j, i)] * b[j]).sum::<f64>() / value;
            for j in 0..self.d {
                x[j] += along * u[(j, i)];
            }
        }
        x
    }
}

impl Factors {
    fn new(x: &[f64], y: &[f64], d: usize) -> Self {
        let n = y.len();
        let matrix = Mat::from_fn(n, d, |i, j| x[i * d + j]);
        let svd = matrix.thin_svd().expect("singular values converge");
        let (u, s, v) = (svd.U(), svd.S(), svd.V());
        let size = n.min(d);
        let cut = n.max(d) as f64 * f64::EPSILON * s[0];
        let rank = (0..size).take_while(|&i| s[i] > cut).count();
        let sigma: Vec<f64> = (0..rank).map(|i| s[i]).collect();
        let y = (0..rank).map(|i| (0..n).map(|k| u[(k, i)] * y[k]).sum::<f64>() / s[i]).collect();
        Self { n: n as f64, v: Mat::from_fn(d, rank, |j, i| v[(j, i)]), sigma, y }
    }

    /// `a += w V Σ² Vᵀ`
    fn add_to(&self, a: &mut Mat<f64>, w: f64) {
        let scaled = Mat::from_fn(self.v.nrows(), self.v.ncols(), |j, i| {
            self.v[(j, i)] * self.sigma[i] * w.sqrt()
        });
        *a += &scaled * scaled.transpose();
    }

    /// `w V Σ² y`
    fn pull(&self, y: &[f64], w: f64) -> Vec<f64> {
        (0..self.v.nrows())
            .map(|j| (0..y.len()).map(|i| w * self.v[(j, i)] * self.sigma[i].powi(2) * y[i]).sum())
            .collect()
    }
}

fn add(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}
