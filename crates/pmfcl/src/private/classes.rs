//! Counts, sums and products of the rows of classes with noise: what a gaussian classifier is made of.

use faer::{Mat, Side};

use super::bounds::MARGIN;
use super::clipped::{Scaled, XX, XY, stuck, symmetric};
use super::release::{perturb, spreads};
use super::{Account, Bounds, Budget, Clipped, Noise};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::summary::{Products, Summary};

/// Standard deviations of its noise that the count of a class must have to be one: less is no evidence of rows.
const EVIDENCE: f64 = 3.0;

/// Sums of clipped rows of classes, as exact integers. They are not private: [`ClippedClasses::release`] adds noise.
///
/// For each class the number of its rows and the sum of their features, and for all of them together `ΦᵀΦ`. The sensitivities are on the
/// [module's page](super).
#[derive(Debug, Clone, PartialEq)]
pub struct ClippedClasses {
    sums: Clipped,
}

impl ClippedClasses {
    /// No rows yet. `bound` is the largest norm of the features after the basis; it and the design come from what is known of the columns.
    ///
    /// # Errors
    /// As [`Bounds::new`] and [`Clipped::new`], and for a design without an intercept.
    pub fn new(design: Design, classes: usize, bound: f64) -> Result<Self> {
        Ok(Self { sums: Clipped::of_classes(design, classes, bound)? })
    }

    /// Adds rows by their places in the list of classes, each scaled down to the bound. A row of no class in the list is left out, and any
    /// other is taken whatever its values, as in [`Clipped::add`]: an error would show the row.
    ///
    /// # Errors
    /// On shapes that do not agree, and on more rows than the guarantee covers.
    pub fn add(&mut self, x: Rows<'_>, labels: &[u32]) -> Result<()> {
        self.sums.add_labels(x, labels)
    }

    /// The sums of both, to the last bit those of all rows in one place.
    ///
    /// # Errors
    /// As [`Clipped::merge`].
    pub fn merge(&self, other: &ClippedClasses) -> Result<ClippedClasses> {
        Ok(Self { sums: self.sums.merge(&other.sums)? })
    }

    /// How many rows the bound has scaled down. Not private.
    pub fn scaled(&self) -> Scaled {
        self.sums.scaled()
    }

    /// Releases the sums with noise for an (ε, δ).
    ///
    /// # Errors
    /// When the budget is out of range or too small for so many columns.
    pub fn release(&self, budget: Budget, noise: &mut Noise) -> Result<ReleasedClasses> {
        let spreads = spreads(&self.sums, budget, 1.0)?;
        let numbers = perturb(&self.sums, &self.sums.rounded()?, &spreads, noise);
        let variances = [XX, XY].map(|b| spreads[b] * spreads[b]);
        Ok(ReleasedClasses::of(
            self.sums.bounds(),
            self.sums.targets(),
            budget,
            &numbers,
            variances,
        ))
    }

    /// [`ClippedClasses::release`] on an account.
    ///
    /// # Errors
    /// As [`Account::spend`] and [`ClippedClasses::release`]; what was filed stays filed.
    pub fn release_on(
        &self,
        account: &mut Account,
        budget: Budget,
        noise: &mut Noise,
    ) -> Result<ReleasedClasses> {
        account.spend(budget)?;
        self.release(budget, noise)
    }

    pub(super) fn sums(&self) -> &Clipped {
        &self.sums
    }

    /// As [`Clipped::before_noise`]. For tests alone.
    ///
    /// # Errors
    /// As there.
    #[cfg(feature = "seeded-noise")]
    pub fn before_noise(&self) -> Result<Vec<(&'static str, Vec<f64>, f64)>> {
        self.sums.before_noise()
    }
}

/// Noisy counts, sums and products of classes: what may leave.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedClasses {
    bound: f64,
    budget: Budget,
    counts: Vec<f64>,
    /// Of the features, column after column, a number for each class.
    sums: Vec<f64>,
    /// `ΦᵀΦ`; it may be indefinite.
    products: Mat<f64>,
    /// Rows that the bound has scaled down.
    clipped: f64,
    /// Variances of the noise on diagonal `ΦᵀΦ`, and on counts and sums.
    variances: [f64; 2],
}

impl ReleasedClasses {
    pub(super) fn of(
        bounds: Bounds,
        classes: usize,
        budget: Budget,
        numbers: &[Vec<f64>],
        variances: [f64; 2],
    ) -> Self {
        let (counts, sums) = numbers[XY].split_at(classes);
        Self {
            bound: bounds.x(),
            budget,
            counts: counts.to_vec(),
            sums: sums.to_vec(),
            products: symmetric(sums.len() / classes, numbers[XX].iter().copied()),
            clipped: numbers[numbers.len() - 1][0],
            variances,
        }
    }

    /// ε and δ, for neighbours by one row. Of merged releases the larger of each: a row is in one of them.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Rows of each class, with noise; below zero where there are few.
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// Rows, with noise.
    pub fn samples(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Share of the rows that the bound has scaled down, with noise: as private as the rest.
    pub fn clipped_share(&self) -> f64 {
        (self.clipped / self.samples().max(1.0)).clamp(0.0, 1.0)
    }

    /// Standard deviation of the noise on the diagonal of `ΦᵀΦ` (off it a factor of `1/√2` less), and on counts and sums.
    pub fn sigma(&self) -> [f64; 2] {
        self.variances.map(f64::sqrt)
    }

    /// Both together, for clients that each add their own noise. Variances add up.
    ///
    /// # Errors
    /// When shapes or bounds differ.
    pub fn merge(&self, other: &ReleasedClasses) -> Result<ReleasedClasses> {
        let shape = |r: &Self| (r.counts.len(), r.sums.len(), r.bound.to_bits());
        if shape(self) != shape(other) {
            return Err(Error::Mismatch {
                what: "the shape or the bound",
                left: format!("{} classes, {}", self.counts.len(), self.bound),
                right: format!("{} classes, {}", other.counts.len(), other.bound),
            });
        }
        let mut both = self.clone();
        both.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        both.sums.iter_mut().zip(&other.sums).for_each(|(a, b)| *a += b);
        both.products += &other.products;
        both.clipped += other.clipped;
        both.variances.iter_mut().zip(other.variances).for_each(|(a, b)| *a += b);
        both.budget.epsilon = both.budget.epsilon.max(other.budget.epsilon);
        both.budget.delta = both.budget.delta.max(other.budget.delta);
        Ok(both)
    }

    /// A summary whose targets are indicators of the classes, for `gaussian` or least squares. All of it is post-processing:
    ///
    /// - a class whose count is not above three standard deviations of its noise counts as one without rows;
    /// - the mean of a class is no longer than the bound;
    /// - eigenvalues of the scatter within classes below the norm of the noise are raised to it: directions that are not seen through the
    ///   noise decide nothing;
    /// - the number of rows is the sum of the counts. Where no class is left it is what the noise hides, alike in all classes, which are
    ///   then not told apart.
    ///
    /// # Errors
    /// When eigenvalues do not converge.
    pub fn summary(&self) -> Result<Summary> {
        let k = self.counts.len();
        let d = self.sums.len() / k;
        let [sigma, sigma_counts] = self.sigma();
        let evidence = EVIDENCE * sigma_counts;
        let (mut counts, mut sums) = (self.counts.clone(), self.sums.clone());
        for class in 0..k {
            let norm = (0..d).map(|j| sums[j * k + class].powi(2)).sum::<f64>().sqrt();
            let longest = self.bound * (1.0 - MARGIN) * counts[class];
            let factor = if counts[class] <= evidence {
                counts[class] = 0.0;
                0.0
            } else if norm > longest {
                longest / norm
            } else {
                1.0
            };
            (0..d).for_each(|j| sums[j * k + class] *= factor);
        }
        let fewest = (d + k + 1) as f64;
        if counts.iter().sum::<f64>() < fewest {
            counts.fill(evidence.max(fewest));
            sums.fill(0.0);
        }
        let between = |i: usize, j: usize| {
            let of = |class: usize| sums[i * k + class] * sums[j * k + class] / counts[class];
            (0..k).filter(|class| counts[*class] > 0.0).map(of).sum::<f64>()
        };
        let within = Mat::from_fn(d, d, |i, j| self.products[(i, j)] - between(i, j));
        let eigen = within.self_adjoint_eigen(Side::Lower).map_err(stuck)?;
        // The norm of symmetric noise of σ on the diagonal and σ/√2 off it.
        let floor = sigma * (2.0 * d as f64).sqrt();
        let (u, values) = (eigen.U(), eigen.S());
        let lifted = |i: usize, j: usize| {
            (0..d).map(|l| u[(i, l)] * values[l].max(floor) * u[(j, l)]).sum::<f64>()
        };
        let n: f64 = counts.iter().sum();
        let total = |j: usize| (0..k).map(|class| sums[j * k + class]).sum::<f64>();
        let mut xx = vec![n];
        xx.extend((0..d).map(total));
        xx.extend(
            (0..d)
                .flat_map(|i| (i..d).map(move |j| (i, j)))
                .map(|(i, j)| lifted(i, j) + between(i, j)),
        );
        let xy = counts.iter().chain(&sums).copied().collect();
        let (yy, y) = (counts.clone(), counts);
        Summary::from_products(&Products { n, features: d + 1, targets: k, xx, xy, yy, y })
    }
}
