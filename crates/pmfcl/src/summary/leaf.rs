//! A run of rows, and what is made of it at once: a factor, or sums of products.

use std::sync::Mutex;

use crate::basis::{BasisError, Design};
use crate::error::{Error, Result};
use crate::kernel::{self, Gram, Mixed, PlainTargets, Source, Triangle};
use crate::rows::Rows;

/// How one leaf is reduced.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    Factor,
    Sums,
    Mixed(&'a [f64]),
}

/// As [`Way`], for as long as one likes.
pub(super) enum OwnedWay {
    Factor,
    Sums,
    Mixed(Vec<f64>),
}

impl OwnedWay {
    pub(super) fn borrowed(&self) -> Way<'_> {
        match self {
            Self::Factor => Way::Factor,
            Self::Sums => Way::Sums,
            Self::Mixed(units) => Way::Mixed(units),
        }
    }
}

impl Way<'_> {
    pub(super) fn to_owned(self) -> OwnedWay {
        match self {
            Self::Factor => OwnedWay::Factor,
            Self::Sums => OwnedWay::Sums,
            Self::Mixed(units) => OwnedWay::Mixed(units.to_vec()),
        }
    }
}

/// What a leaf is reduced to.
pub(super) enum Reduced {
    Factor(Triangle),
    Sums(Gram),
}

/// A run of rows seen as design columns and targets, weights folded in as √w.
pub(super) struct Leaf<'a> {
    pub(super) design: &'a Design,
    pub(super) x: Rows<'a>,
    pub(super) y: Rows<'a>,
    pub(super) scale: Option<Vec<f64>>,
    /// Subtracted from every row before weights are applied; empty for nothing.
    pub(super) shift: Vec<f64>,
    /// What the basis refuses first, and the row from which the rows it refused were written.
    pub(super) failure: Mutex<Option<(usize, BasisError)>>,
}

impl Leaf<'_> {
    pub(super) fn reduce(&self, way: Way<'_>) -> Result<Reduced> {
        let (m, p) = (self.design.width(), self.y.width());
        match way {
            Way::Factor => {
                let t = kernel::factor(m, p, self, 0..self.x.len());
                let cell = t.cells.iter().position(|v| !v.is_finite()).map(|i| i % (m + p));
                let target = || t.residual.iter().position(|v| !v.is_finite()).map(|k| m + k);
                self.check(cell.or_else(target))?;
                Ok(Reduced::Factor(t))
            }
            Way::Sums | Way::Mixed(_) => {
                let mut sums = Gram::new(m, p);
                self.sum(&mut sums, way)?;
                Ok(Reduced::Sums(sums))
            }
        }
    }

    /// Adds the sums of products of the rows.
    pub(super) fn sum(&self, sums: &mut Gram, way: Way<'_>) -> Result<()> {
        let (m, p) = (self.design.width(), self.y.width());
        match way {
            Way::Mixed(units) => Mixed { units }.add(sums, self, 0..self.x.len()),
            _ => sums.add(self, 0..self.x.len()),
        }
        let bad = (0..m)
            .find(|&j| !sums.xx(j, j).is_finite())
            .or_else(|| (0..p).find(|&k| !sums.yy(k).is_finite()).map(|k| m + k));
        self.check(bad)
    }

    /// Reports what the basis refused, or the column whose numbers overflow.
    pub(super) fn check(&self, bad: Option<usize>) -> Result<()> {
        let failure = self.failure.lock().expect("no leaf panics while it holds this").take();
        if let Some((_, error)) = failure {
            // A value that is not finite is the more helpful thing to say.
            return Err(self.not_finite().unwrap_or(Error::Basis(error)));
        }
        match bad {
            Some(column) => Err(self.not_finite().unwrap_or(Error::Overflow { column })),
            None => Ok(()),
        }
    }

    fn not_finite(&self) -> Option<Error> {
        let place = |what, (row, column, value): (usize, usize, f64)| Error::NotFinite {
            what,
            row: row as u64,
            column,
            value,
        };
        let x = self.x.first_not_finite().map(|at| place("feature", at));
        x.or_else(|| self.y.first_not_finite().map(|at| place("target", at)))
    }
}

impl Source for Leaf<'_> {
    fn rows(&self) -> usize {
        self.x.len()
    }

    fn plain(&self) -> Option<kernel::Plain<'_>> {
        if !self.design.is_plain() || self.scale.is_some() {
            return None;
        }
        let x = self.x.as_f64(0, self.x.len())?;
        let y = match self.y.as_indicators() {
            Some(codes) => PlainTargets::Indicators(codes),
            None => PlainTargets::Numbers(self.y.as_f64(0, self.y.len())?),
        };
        Some(kernel::Plain { intercept: self.design.intercept(), x, y, shift: &self.shift })
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let w = self.design.width() + self.y.width();
        let scale = self.scale.as_ref().map(|s| &s[from..]);
        if let Err(error) = self.design.write(&self.x, from, out, w, scale) {
            let mut failure = self.failure.lock().expect("no leaf panics while it holds this");
            // Threads fill rows in any order; the first refused row is the one to name.
            if failure.as_ref().is_none_or(|(at, _)| from < *at) {
                *failure = Some((from, error.shifted(from)));
            }
            out.fill(0.0);
            return;
        }
        self.y.copy_into(from, out, w, self.design.width(), scale);
        if self.shift.is_empty() {
            return;
        }
        for (i, row) in out.chunks_exact_mut(w).enumerate() {
            let weight = scale.map_or(1.0, |s| s[i]);
            for (v, shift) in row.iter_mut().zip(&self.shift) {
                *v -= weight * shift;
            }
        }
    }
}
