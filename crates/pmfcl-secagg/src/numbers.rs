//! Sums of other numbers: what clients measure in a second round adds up as the products of their rows do.
//!
//! A vector goes as the products of a design of one column with as many targets as there are numbers, so that one protocol, with one
//! set of checks, serves both. The round is bound to the digest of what was asked in the place of the agreement's.

use pmfcl::summary::Products;

use crate::error::Result;
use crate::params::Params;
use crate::server::Total;

impl Params {
    /// Rounds that sum `count` numbers of each client; else as [`Params::new`].
    ///
    /// # Errors
    /// As [`Params::new`].
    pub fn for_numbers(threshold: usize, clients: usize, count: usize) -> Result<Self> {
        Self::new(threshold, clients, 1, count)
    }
}

/// Numbers of one client, to be masked in a round of [`Params::for_numbers`].
pub fn as_products(numbers: &[f64]) -> Products {
    let (targets, zeros) = (numbers.len(), vec![0.0; numbers.len()]);
    let (xy, yy, y) = (numbers.to_vec(), zeros.clone(), zeros);
    Products { n: 1.0, features: 1, targets, xx: vec![1.0], xy, yy, y }
}

impl Total {
    /// The sums of a round of [`Params::for_numbers`].
    pub fn numbers(&self) -> &[f64] {
        &self.products.xy
    }
}
