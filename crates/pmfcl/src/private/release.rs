//! Noise, the ridge, and the way back to a summary.

use faer::{Mat, Side};

use super::clipped::{COUNT, LEAST, Piece, XX, XY, Y, YY, stuck, symmetric};
use super::noise::WIDEST;
use super::{Bounds, Budget, Clipped, Noise};
use crate::error::{Error, Result};
use crate::summary::{Products, Summary};

/// Chance that the ridge does not make up for the noise: the paper's.
const FAILURE: f64 = 0.05;

/// What may leave: noisy sums, with what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    intercept: bool,
    bounds: Bounds,
    budget: Budget,
    /// Noisy sums; `XᵀX` may be indefinite.
    products: Products,
    /// A lower bound of `λ_min(XᵀX)`, likely.
    least: f64,
    /// Rows that the bounds have scaled down, with noise.
    clipped: f64,
    /// Variances of the noise on diagonal `XᵀX`, on `XᵀY` and on `Σy²`.
    variances: [f64; 3],
    releases: u64,
}

/// Releases the sums with noise for an (ε, δ): see the module's page for the proof.
///
/// For a server that is trusted with sums: `clipped` is the sum over clients. For one that is not: every client releases its own
/// and sends [`Released::summary`], or [`Released`] to be [merged](Released::merge).
///
/// ```
/// use pmfcl::private::{Bounds, Budget, Clipped, Noise, release};
/// use pmfcl::{Design, Rows};
///
/// let design = Design::linear(1, true)?;
/// let mut clipped = Clipped::new(design, 1, Bounds::new(1.0, 1.0)?)?;
/// let x: Vec<f64> = (0..5000).map(|i| f64::from(i % 200) / 100.0 - 1.0).collect();
/// let y: Vec<f64> = x.iter().map(|x| 0.5 * x + 0.1).collect();
/// clipped.add(Rows::new(&x, 1)?, Rows::new(&y, 1)?)?;
///
/// let released = release(&clipped, Budget::new(1.0, 1e-6)?, &mut Noise::from_system()?)?;
/// let summary = released.summary()?; // for a learner, or `Update::from_summary`
/// assert_eq!(summary.width(), 2);
/// # Ok::<(), pmfcl::Error>(())
/// ```
///
/// # Errors
/// When the budget is out of range or too small for so many columns, or eigenvalues do not converge.
pub fn release(clipped: &Clipped, budget: Budget, noise: &mut Noise) -> Result<Released> {
    let spreads = spreads(clipped, budget, 1.0)?;
    let numbers = perturb(clipped, &clipped.rounded()?, &spreads, noise);
    let (m, p, intercept) =
        (clipped.design().width(), clipped.targets(), clipped.design().intercept());
    // λ̃ = max(0, λ_min + σZ − σ√ln(6/δ)): Wang 2018, Algorithm 2, step 2.
    let below = spreads[LEAST] * libm::log(6.0 / budget.delta).sqrt();
    let least = (numbers[LEAST][0] - below).max(0.0);
    let gram = symmetric(m, numbers[XX].iter().copied());
    let xx = (0..m).flat_map(|i| (i..m).map(move |j| (i, j))).map(|at| gram[at]).collect();
    let xy = numbers[XY].clone();
    let (n, y) = if intercept {
        (gram[(0, 0)], xy[..p].to_vec())
    } else {
        (numbers[COUNT][0], numbers[Y].clone())
    };
    let yy = numbers[YY].clone();
    Ok(Released {
        intercept,
        bounds: clipped.bounds(),
        budget,
        products: Products { n, features: m, targets: p, xx, xy, yy, y },
        least,
        clipped: numbers[numbers.len() - 1][0],
        variances: [XX, XY, YY].map(|b| spreads[b] * spreads[b]),
        releases: 1,
    })
}

/// `σ` of every piece: `share` of what the budget asks for, a whole number of steps of its grid.
pub(super) fn spreads(clipped: &Clipped, budget: Budget, share: f64) -> Result<Vec<f64>> {
    let rho = budget.rho()?;
    let spread = |piece: &Piece| {
        // ρ_b = Δ²/2σ², and σ rounded up.
        let sigma = share * piece.sensitivity / (2.0 * rho * piece.share).sqrt();
        let steps = (sigma / piece.step).ceil();
        if steps > WIDEST as f64 {
            return Err(Error::Range {
                what: "epsilon",
                value: budget.epsilon,
                must: "larger for so many columns: the noise would be wider than its sampler",
            });
        }
        Ok(steps * piece.step)
    };
    clipped.pieces().iter().map(spread).collect()
}

/// The numbers of every piece with noise.
pub(super) fn perturb(
    clipped: &Clipped,
    sums: &[Vec<i128>],
    spreads: &[f64],
    noise: &mut Noise,
) -> Vec<Vec<f64>> {
    let mut numbers = Vec::new();
    for ((piece, sums), sigma) in clipped.pieces().iter().zip(sums).zip(spreads) {
        let steps = (sigma / piece.step) as u64;
        let noisy = |v: &i128| (v + i128::from(noise.gaussian(steps))) as f64 * piece.step;
        numbers.push(sums.iter().map(noisy).collect());
    }
    numbers
}

/// All numbers [`release`] makes a [`Released`] of, in a row, as often as asked and with `share` of the noise; and the `σ` of
/// each. For tests alone: with less than all of the noise they are not private.
///
/// # Errors
/// As [`release`].
#[cfg(feature = "seeded-noise")]
#[doc(hidden)] // for tests
pub fn rehearse(
    clipped: &Clipped,
    (budget, share): (Budget, f64),
    times: usize,
    noise: &mut Noise,
) -> Result<(Vec<Vec<f64>>, Vec<f64>)> {
    let (sums, spreads) = (clipped.rounded()?, spreads(clipped, budget, share)?);
    let runs = (0..times).map(|_| perturb(clipped, &sums, &spreads, noise).concat()).collect();
    let each = sums.iter().zip(spreads).flat_map(|(sums, sigma)| vec![sigma; sums.len()]);
    Ok((runs, each.collect()))
}

impl Released {
    /// A sum over clients that each have added a share of the noise. Its design has an intercept.
    pub(super) fn of_sum(
        bounds: Bounds,
        budget: Budget,
        products: Products,
        clipped: f64,
        variances: [f64; 3],
        clients: f64,
    ) -> Self {
        let (intercept, least, releases) = (true, 0.0, clients as u64);
        Self { intercept, bounds, budget, products, least, clipped, variances, releases }
    }

    /// ε and δ, for neighbours by one row. Of merged releases the larger of each: a row is in one of them.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The noisy sums as they are. `XᵀX` may be indefinite and `n` negative.
    pub fn products(&self) -> &Products {
        &self.products
    }

    /// Rows, with noise.
    pub fn samples(&self) -> f64 {
        self.products.n
    }

    /// Share of the rows that the bounds have scaled down, with noise: as private as the rest. Above a tenth the fit is one of other rows;
    /// near one it is of directions alone, and worse than none.
    pub fn clipped_share(&self) -> f64 {
        (self.clipped / self.products.n.max(1.0)).clamp(0.0, 1.0)
    }

    /// Standard deviation of the noise on the diagonal of `XᵀX` (off it a factor of `1/√2` less), on `XᵀY`, and on `Σ y²`.
    pub fn sigma(&self) -> [f64; 3] {
        self.variances.map(f64::sqrt)
    }

    /// How many releases are in it.
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// What is added to the diagonal of `XᵀX`, the intercept's included: `max(0, σ√(m ln(2m²/β)) − λ̃)` with `β = 0.05`.
    ///
    /// Wang 2018, Algorithm 2, step 3, where `σ = B² √ln(6/δ) / (ε/3)`; here `σ` is the noise there is. The first term is more than the norm
    /// of the noise with probability `1 − β`.
    pub fn ridge(&self) -> f64 {
        let m = self.products.features as f64;
        let most = self.variances[0].sqrt() * (m * libm::log(2.0 * m * m / FAILURE)).sqrt();
        (most - self.least).max(0.0)
    }

    /// Both together, for clients that each add their own noise. Variances add up, and so do lower bounds of `λ_min`, which is
    /// superadditive; so the ridge of the whole is less than the sum of ridges.
    ///
    /// # Errors
    /// When shapes or bounds differ.
    pub fn merge(&self, other: &Released) -> Result<Released> {
        let shape = |r: &Released| (r.intercept, r.products.features, r.products.targets);
        if shape(self) != shape(other) || self.bounds != other.bounds {
            return Err(Error::Mismatch {
                what: "the shape or the bounds",
                left: format!("{:?}, {:?}", shape(self), self.bounds),
                right: format!("{:?}, {:?}", shape(other), other.bounds),
            });
        }
        let mut both = self.clone();
        let (mine, theirs) = (&mut both.products, &other.products);
        mine.n += theirs.n;
        for (mine, theirs) in [
            (&mut mine.xx, &theirs.xx),
            (&mut mine.xy, &theirs.xy),
            (&mut mine.yy, &theirs.yy),
            (&mut mine.y, &theirs.y),
        ] {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        both.least += other.least;
        both.clipped += other.clipped;
        both.variances.iter_mut().zip(other.variances).for_each(|(a, b)| *a += b);
        both.budget.epsilon = both.budget.epsilon.max(other.budget.epsilon);
        both.budget.delta = both.budget.delta.max(other.budget.delta);
        both.releases += other.releases;
        Ok(both)
    }

    /// The noisy sums with [`Released::ridge`] in them, as a summary.
    ///
    /// All of it is post-processing. Eigenvalues of `XᵀX + λI` below the noise of one number say nothing and are raised to it;
    /// that happens with probability `β` or so. `Σ y²` is raised to what the fit explains. With an intercept `n` is what the column
    /// of ones then sums to, the ridge included; [`Released::samples`] is the count without it. Solve it without another ridge.
    ///
    /// # Errors
    /// When eigenvalues do not converge.
    pub fn summary(&self) -> Result<Summary> {
        self.with_ridge(self.ridge())
    }

    /// The same with a ridge of one's own choice, made without a look at the rows.
    ///
    /// # Errors
    /// When it is negative or not finite; when eigenvalues do not converge.
    pub fn with_ridge(&self, ridge: f64) -> Result<Summary> {
        if !(ridge >= 0.0 && ridge.is_finite()) {
            return Err(Error::Range {
                what: "ridge",
                value: ridge,
                must: "0 or more, and finite",
            });
        }
        let (m, p) = (self.products.features, self.products.targets);
        let mut cells = self.products.xx.iter();
        let mut gram = Mat::zeros(m, m);
        for i in 0..m {
            for j in i..m {
                let value = *cells.next().expect("a triangle");
                gram[(i, j)] = value;
                gram[(j, i)] = value;
            }
            gram[(i, i)] += ridge;
        }
        let eigen = gram.self_adjoint_eigen(Side::Lower).map_err(stuck)?;
        let (u, floor) = (eigen.U(), self.variances[0].sqrt());
        let values: Vec<f64> = (0..m).map(|l| eigen.S()[l].max(floor)).collect();
        if (0..m).any(|l| eigen.S()[l] < floor) {
            gram = Mat::from_fn(m, m, |i, j| {
                (0..m).map(|l| u[(i, l)] * values[l] * u[(j, l)]).sum::<f64>()
            });
        }
        let mut sums = self.products.clone();
        sums.xx = (0..m).flat_map(|i| (i..m).map(move |j| (i, j))).map(|at| gram[at]).collect();
        sums.n = if self.intercept { gram[(0, 0)] } else { sums.n.max(1.0) };
        for k in 0..p {
            let explained: f64 = (0..m)
                .map(|l| {
                    let w: f64 = (0..m).map(|i| u[(i, l)] * sums.xy[i * p + k]).sum();
                    w * w / values[l]
                })
                .sum();
            sums.yy[k] = sums.yy[k].max(explained * (1.0 + 1e-9));
        }
        Summary::from_products(&sums)
    }
}
