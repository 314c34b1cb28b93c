//! Noise that clients add together, each a share of it, inside a sum nobody sees the parts of.
//!
//! With secure aggregation a server sees the sum of its clients' numbers and nothing else. If each of them adds a discrete Gaussian to its
//! integers, the sum has the noise of all, and the same guarantee takes much less of it than noise at every client for itself.
//!
//! A sum of `h` discrete Gaussians of parameter `s` on the integers is no discrete Gaussian, and nearly one: for a vector of `d` integers that
//! one row moves by at most `Δ`, it is `½(Δ/(√h s) + τ√d)²`-zCDP with `τ = 10 Σ_{k=1}^{h−1} e^{−2π²s²k/(k+1)}` (Kairouz, Liu and Steinke 2021,
//! arXiv 2102.06387, Theorem 1). Parameters are at least [`LEAST_STEPS`], where `τ` is below 10⁻²⁷⁰; it is counted all the same.

use std::f64::consts::PI;

use sha2::{Digest as _, Sha256};

use super::budget::epsilon_of;
use super::clipped::{Form, LEAST, Piece, XX, XY, YY, symmetric};
use super::noise::WIDEST;
use super::{Bounds, Budget, Clipped, ClippedClasses, Noise, Released, ReleasedClasses};
use crate::error::{Error, Result};
use crate::problem::Digest;
use crate::summary::Products;

/// The least parameter of a client's noise, in steps of the grid.
const LEAST_STEPS: u64 = 8;
/// The smallest step a sum can have: that of the fixed point of secure aggregation.
const FINEST: f64 = 1.0 / (1_u64 << 60) as f64;
/// The largest square of a bound: 10¹¹ rows of it are within the fixed point, so that no rows can be too long to be sent.
const LARGEST: f64 = 4096.0;
/// Shares of the budget for `XᵀX`, `XᵀY`, `Σy²` and rows that were scaled down.
const SHARES: [f64; 4] = [0.5, 0.4, 0.09, 0.01];

/// Whose noise is in a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cohort {
    /// Fewest clients a sum is opened over: the threshold of the round. All others may drop out.
    pub threshold: usize,
    /// Most of them that tell others what noise they have added, or add none.
    pub colluding: usize,
}

impl Cohort {
    /// Clients whose noise nobody else knows, in any sum that is opened.
    fn honest(self) -> Result<usize> {
        match self.threshold.checked_sub(self.colluding) {
            Some(honest) if honest > 0 => Ok(honest),
            _ => Err(Error::Unsupported {
                operation: "noise shared by clients",
                reason: format!(
                    "{} of {} clients may collude, which leaves nobody's noise; agree on a higher threshold",
                    self.colluding, self.threshold
                ),
            }),
        }
    }
}

/// What clients agree on before they add noise to their sums: how much each of them adds.
///
/// The noise is made for the fewest honest clients a sum can be over, so the guarantee holds for whoever drops out. Where more stay there
/// is more of it than promised: [`SharedNoise::guarantee`].
///
/// ```
/// use pmfcl::private::{Bounds, Budget, Clipped, Cohort, Noise};
/// use pmfcl::{Design, Rows};
///
/// let empty = Clipped::new(Design::linear(1, true)?, 1, Bounds::new(1.0, 1.0)?)?;
/// let cohort = Cohort { threshold: 3, colluding: 1 };
/// let shared = empty.shared_noise(Budget::new(1.0, 1e-6)?, cohort)?;
/// let mut own = empty.clone();
/// own.add(Rows::new(&[0.5, -0.5], 1)?, Rows::new(&[0.2, 0.1], 1)?)?;
/// let sent = own.with_noise(&shared, &mut Noise::from_system()?)?; // to be masked, never sent as it is
/// assert_eq!(sent.n, 1.0); // clients, not rows
/// assert!(shared.guarantee(2).epsilon <= 1.0); // three stay, one of them colludes
/// assert!(shared.guarantee(5).epsilon < shared.guarantee(2).epsilon);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SharedNoise {
    form: Form,
    width: usize,
    targets: usize,
    bounds: Bounds,
    budget: Budget,
    cohort: Cohort,
    pieces: Vec<Piece>,
    /// The parameter of one client's noise on every piece, in steps of its grid; 0 where a piece is left out.
    steps: Vec<u64>,
}

impl SharedNoise {
    fn of(sums: &Clipped, budget: Budget, cohort: Cohort) -> Result<Self> {
        let (honest, rho) = (cohort.honest()?, budget.rho()?);
        let bounds = sums.bounds();
        if !sums.design().intercept() {
            return Err(Error::Unsupported {
                operation: "noise shared by clients",
                reason: "counts are sums over the column of ones; take a design with an intercept"
                    .to_owned(),
            });
        }
        let largest = (1.0 + bounds.x() * bounds.x()).max(bounds.y() * bounds.y());
        if largest > LARGEST {
            let (what, must) =
                ("a bound", "at most 63 for a masked sum; scale the columns to about one");
            return Err(Error::Range { what, value: bounds.x().max(bounds.y()), must });
        }
        let pieces: Vec<Piece> = match sums.form() {
            Form::Classes => sums.pieces().to_vec(),
            Form::Values => {
                let share = |at: usize| match at {
                    XX | XY | YY => SHARES[at],
                    LEAST => 0.0,
                    _ => SHARES[3],
                };
                let all = sums.pieces().iter().cloned().enumerate();
                all.map(|(at, piece)| piece.with_share(share(at))).collect()
            }
        };
        let steps = |piece: &Piece| {
            if piece.share <= 0.0 {
                return Ok(0);
            }
            if piece.step < FINEST {
                let (what, must) =
                    ("a bound", "large enough for the fixed point; scale the columns to about one");
                return Err(Error::Range { what, value: bounds.x().min(bounds.y()), must });
            }
            // ρ_b = Δ²/2hs², rounded up, with room for τ.
            let all = piece.sensitivity / (2.0 * rho * piece.share * (1.0 - 1e-9)).sqrt();
            let own = (all / (honest as f64).sqrt() / piece.step).ceil();
            if own > WIDEST as f64 {
                let must = "larger for so many columns: the noise would be wider than its sampler";
                return Err(Error::Range { what: "epsilon", value: budget.epsilon, must });
            }
            Ok((own as u64).max(LEAST_STEPS))
        };
        let steps = pieces.iter().map(steps).collect::<Result<_>>()?;
        let (form, width, targets) = (sums.form(), sums.design().width(), sums.targets());
        let shared = Self { form, width, targets, bounds, budget, cohort, pieces, steps };
        debug_assert!(shared.rho(honest) <= rho, "the noise is as much as the budget asks for");
        Ok(shared)
    }

    /// ε and δ for every sum that can be opened.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Whose noise it counts on.
    pub fn cohort(&self) -> Cohort {
        self.cohort
    }

    /// ρ of zCDP of a sum with the noise of so many clients that nobody else knows.
    pub fn rho(&self, honest: usize) -> f64 {
        let h = honest.max(1) as f64;
        let of = |(piece, steps): (&Piece, &u64)| {
            let s = *steps as f64;
            let ratio = piece.sensitivity / piece.step / (h.sqrt() * s);
            let all = ratio + tau(s, honest) * (piece.count as f64).sqrt();
            all * all / 2.0
        };
        self.pieces.iter().zip(&self.steps).filter(|(_, steps)| **steps > 0).map(of).sum()
    }

    /// ε, at the agreed δ, of a sum with the noise of so many clients that nobody else knows: those who stayed, without those who
    /// collude. One at least.
    pub fn guarantee(&self, honest: usize) -> Budget {
        let delta = self.budget.delta;
        Budget { epsilon: epsilon_of(self.rho(honest), delta), delta }
    }

    /// Standard deviation of one client's noise on the diagonal of `XᵀX`, and on `XᵀY`.
    pub fn sigma(&self) -> [f64; 2] {
        [XX, XY].map(|at| self.steps[at] as f64 * self.pieces[at].step)
    }

    /// A digest of an agreement and of everything here: a round bound to it is one of clients that add this noise. Without, a server
    /// could tell the others to add less, and a client would be alone with its own.
    pub fn digest(&self, agreement: Digest) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"pmfcl noise shared by clients 1");
        hash.update(agreement.0);
        hash.update([u8::from(self.form == Form::Classes)]);
        for size in [self.width, self.targets, self.cohort.threshold, self.cohort.colluding] {
            hash.update((size as u64).to_le_bytes());
        }
        let Budget { epsilon, delta } = self.budget;
        for number in [self.bounds.x(), self.bounds.y(), epsilon, delta] {
            hash.update(number.to_bits().to_le_bytes());
        }
        self.steps.iter().for_each(|steps| hash.update(steps.to_le_bytes()));
        Digest(hash.finalize().into())
    }

    /// The sums of a client with its share of the noise, whole steps of powers of two: fixed point changes nothing.
    fn noisy(&self, sums: &Clipped, noise: &mut Noise) -> Result<Products> {
        let shape = (sums.form(), sums.design().width(), sums.targets(), sums.bounds());
        if shape != (self.form, self.width, self.targets, self.bounds) {
            return Err(Error::Mismatch {
                what: "the shape or the bounds",
                left: format!("{} × {}, {:?}", self.width, self.targets, self.bounds),
                right: format!("{} × {}, {:?}", shape.1, shape.2, shape.3),
            });
        }
        let mut numbers: Vec<Vec<f64>> = Vec::new();
        for ((piece, steps), own) in self.pieces.iter().zip(&self.steps).zip(sums.rounded_sums()) {
            let noisy = |v: i128| (v + i128::from(noise.gaussian(*steps))) as f64 * piece.step;
            let left_out = *steps == 0;
            numbers.push(if left_out { Vec::new() } else { own.into_iter().map(noisy).collect() });
        }
        let (m, p) = (self.width, self.targets);
        let mut out = Products {
            n: 1.0,
            features: m,
            targets: p,
            xx: vec![0.0; m * (m + 1) / 2],
            xy: std::mem::take(&mut numbers[XY]),
            yy: vec![0.0; p],
            y: vec![0.0; p],
        };
        // Products of classes leave the column of ones to the counts.
        let first = out.xx.len() - numbers[XX].len();
        out.xx[first..].copy_from_slice(&numbers[XX]);
        if self.form == Form::Values {
            out.yy = std::mem::take(&mut numbers[YY]);
        }
        out.y[0] = numbers[numbers.len() - 1][0];
        Ok(out)
    }

    /// How many clients are in a sum, if it can be one.
    fn clients(&self, total: &Products, form: Form) -> Result<f64> {
        let (m, p) = (self.width, self.targets);
        let shape = [
            total.features,
            total.targets,
            total.xx.len(),
            total.xy.len(),
            total.yy.len(),
            total.y.len(),
        ];
        let clients = total.n;
        let is_sum = clients >= self.cohort.threshold as f64 && clients.fract().abs() <= 0.0;
        if form != self.form || shape != [m, p, m * (m + 1) / 2, m * p, p, p] || !is_sum {
            return Err(Error::Mismatch {
                what: "the sum of noisy clients",
                left: format!("{m} × {p} of at least {} clients", self.cohort.threshold),
                right: format!("{} × {} of {clients}", total.features, total.targets),
            });
        }
        Ok(clients)
    }

    /// What a sum of [`Clipped::with_noise`] over clients releases. There is no noisy `λ_min` in it: `Released::with_ridge(0.0)` is
    /// the summary to take, and [`Released::ridge`] that of the worst case.
    ///
    /// # Errors
    /// When it is no such sum, or over fewer clients than the threshold.
    pub fn released(&self, total: &Products) -> Result<Released> {
        let clients = self.clients(total, Form::Values)?;
        let gram = symmetric(self.width, total.xx.iter().copied());
        let m = self.width;
        let products = Products {
            n: gram[(0, 0)],
            xx: (0..m).flat_map(|i| (i..m).map(move |j| (i, j))).map(|at| gram[at]).collect(),
            y: total.xy[..self.targets].to_vec(),
            ..total.clone()
        };
        let variances = [XX, XY, YY].map(|at| self.variance(at, clients));
        Ok(Released::of_sum(self.bounds, self.budget, products, total.y[0], variances, clients))
    }

    /// What a sum of [`ClippedClasses::with_noise`] over clients releases.
    ///
    /// # Errors
    /// As [`SharedNoise::released`].
    pub fn released_classes(&self, total: &Products) -> Result<ReleasedClasses> {
        let clients = self.clients(total, Form::Classes)?;
        let numbers = [total.xx[self.width..].to_vec(), total.xy.clone(), vec![total.y[0]]];
        let variances = [XX, XY].map(|at| self.variance(at, clients));
        Ok(ReleasedClasses::of(self.bounds, self.targets, self.budget, &numbers, variances))
    }

    fn variance(&self, at: usize, clients: f64) -> f64 {
        let sigma = self.steps[at] as f64 * self.pieces[at].step;
        clients * sigma * sigma
    }
}

/// What a sum of `honest` discrete Gaussians has more than one of the same variance would, in the theorem's measure.
fn tau(steps: f64, honest: usize) -> f64 {
    let term = |k: usize| {
        let k = k as f64;
        libm::exp(-2.0 * PI * PI * steps * steps * k / (k + 1.0))
    };
    10.0 * (1..honest).map(term).sum::<f64>()
}

impl Clipped {
    /// What every client of a round is to add, for sums of this shape.
    ///
    /// # Errors
    /// When the budget or the cohort is out of range, without an intercept, and for bounds a masked sum has no room for.
    pub fn shared_noise(&self, budget: Budget, cohort: Cohort) -> Result<SharedNoise> {
        SharedNoise::of(self, budget, cohort)
    }

    /// These sums with this client's share of the noise, as the input of a masked sum. **Not private by itself**: a share is a fraction
    /// of the noise. `n` counts the client, and off-diagonal products are in the coordinates of the noise; [`SharedNoise::released`] reads
    /// the sum of them.
    ///
    /// # Errors
    /// When shape or bounds are others than agreed.
    pub fn with_noise(&self, shared: &SharedNoise, noise: &mut Noise) -> Result<Products> {
        shared.noisy(self, noise)
    }
}

impl ClippedClasses {
    /// As [`Clipped::shared_noise`].
    ///
    /// # Errors
    /// As there.
    pub fn shared_noise(&self, budget: Budget, cohort: Cohort) -> Result<SharedNoise> {
        SharedNoise::of(self.sums(), budget, cohort)
    }

    /// As [`Clipped::with_noise`]; [`SharedNoise::released_classes`] reads the sum of them.
    ///
    /// # Errors
    /// As there.
    pub fn with_noise(&self, shared: &SharedNoise, noise: &mut Noise) -> Result<Products> {
        shared.noisy(self.sums(), noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_is_that_of_the_theorem() {
        // h = 3, s = 1/2: 10 (e^{−π²/4} + e^{−π²/3})
        let expected = 10.0 * ((-PI * PI / 4.0).exp() + (-PI * PI / 3.0).exp());
        assert!((tau(0.5, 3) - expected).abs() < 1e-12);
        assert!(tau(8.0, 1) <= 0.0);
        assert!(tau(8.0, 1000) < 1e-269);
    }
}
