//! What has been given away so far, over the steps of one client.

use super::budget::epsilon_of;
use super::{Budget, Clipped, Noise, Released, release};
use crate::error::{Error, Result};

/// An account of releases, which refuses to go beyond what was agreed.
///
/// A row that is in one step only costs that step's budget, however many steps there are. The account is for what does add up: the
/// same rows released again, and a person with a row in every step. It adds `ρ` of zCDP, which grows by the square root where ε
/// and δ as they stand would grow with the number of releases.
///
/// ```
/// use pmfcl::private::{Account, Budget};
/// let mut account = Account::new(Budget::new(1.0, 1e-6)?)?;
/// let step = Budget::new(0.25, 1e-6)?;
/// let steps = (0..).take_while(|_| account.spend(step).is_ok()).count();
/// assert_eq!(steps, 13); // sums of ε would allow 4, and a δ four times as large
/// assert!(account.spent().epsilon <= 1.0);
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    total: Budget,
    /// `ρ` of the total.
    most: f64,
    rho: f64,
    releases: u64,
    /// The last budget and its `ρ`, which takes thousands of logarithms: ledgers hold the same budget over and over.
    last: (Budget, f64),
}

impl Account {
    /// Nothing spent of a total.
    ///
    /// # Errors
    /// As [`Budget::new`].
    pub fn new(total: Budget) -> Result<Self> {
        let most = total.rho()?;
        Ok(Self { total, most, rho: 0.0, releases: 0, last: (total, most) })
    }

    /// Files a release, before it is made.
    ///
    /// # Errors
    /// When the total would be passed; nothing is filed then.
    pub fn spend(&mut self, budget: Budget) -> Result<()> {
        let rho = if self.last.0 == budget { self.last.1 } else { budget.rho()? };
        let after = self.rho + rho;
        // The same budget as agreed must pass, rounding or not.
        if after > self.most * (1.0 + 1e-12) {
            return Err(Error::Unsupported {
                operation: "another release",
                reason: format!(
                    "it would bring epsilon to {:.4} at delta {:e}, and {} was agreed; {} releases have been made. Stop here, or \
                     agree on more before anything else is released",
                    epsilon_of(after, self.total.delta),
                    self.total.delta,
                    self.total.epsilon,
                    self.releases
                ),
            });
        }
        (self.rho, self.last) = (after, (budget, rho));
        self.releases += 1;
        Ok(())
    }

    /// [`release`] on this account.
    ///
    /// # Errors
    /// As [`Account::spend`] and [`release`]; what was filed stays filed.
    pub fn release(
        &mut self,
        clipped: &Clipped,
        budget: Budget,
        noise: &mut Noise,
    ) -> Result<Released> {
        self.spend(budget)?;
        release(clipped, budget, noise)
    }

    /// ε spent so far, at the agreed δ.
    pub fn spent(&self) -> Budget {
        Budget { epsilon: epsilon_of(self.rho, self.total.delta), delta: self.total.delta }
    }

    /// What was agreed.
    pub fn total(&self) -> Budget {
        self.total
    }

    /// How many releases were filed.
    pub fn releases(&self) -> u64 {
        self.releases
    }
}
