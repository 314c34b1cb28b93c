//! Updates with differential privacy, made by every client before it sends.

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::private::{Account, Bounds, Budget, Clipped, Noise, Scaled, release};
use pmfcl::problem::{Agreement, Exactness};
use pmfcl::{Rows, Summary};

/// Share of rows over the bounds from which it is said.
const TELLING: f64 = 0.1;
/// Share of rows over the bounds from which the result would be useless.
const MOST: f64 = 0.5;

#[derive(Debug, Args)]
pub(super) struct Privacy {
    /// Make every update differentially private with this epsilon, for one row more or less. Numbers only.
    #[arg(long, value_name = "EPSILON", requires_all = ["clip_x", "clip_y"])]
    private: Option<f64>,
    /// The delta of --private: far below one over the number of rows.
    #[arg(long, default_value_t = 1e-6, value_name = "D")]
    delta: f64,
    /// Scale features of a row down to this norm, after the basis. From what is known of the columns, not from the data.
    #[arg(long, value_name = "B", requires = "private")]
    clip_x: Option<f64>,
    /// Scale targets of a row down to this norm. From what is known of them, not from the data.
    #[arg(long, value_name = "B", requires = "private")]
    clip_y: Option<f64>,
}

impl Privacy {
    /// What an update may give away; none where nothing was asked for.
    pub(super) fn budget(&self) -> Result<Option<Budget>> {
        Ok(self.private.map(|epsilon| Budget::new(epsilon, self.delta)).transpose()?)
    }

    /// Whether the promise can be kept under an agreement.
    pub(super) fn check(&self, agreement: &Agreement) -> Result<()> {
        if self.private.is_none() {
            return Ok(());
        }
        if agreement.problem().predicts_classes() {
            bail!("--private is for numbers: noisy counts of classes do not add up to the rows");
        }
        if agreement.problem().exactness() != Exactness::Exact {
            bail!("--private is for squared loss, whose sums of one pass are all that is sent");
        }
        if agreement.design().map().basis().needs_rows() {
            bail!(
                "--private does not go with this basis: it takes ranges from the first client's rows, which would show; use one that needs none, such as linear or poly"
            );
        }
        Ok(())
    }

    /// The private summary of a client's rows; none where nothing was asked for. `clipping` counts rows over the bounds.
    pub(super) fn summary(
        &self,
        agreement: &Agreement,
        x: Rows<'_>,
        y: Rows<'_>,
        clipping: &mut Scaled,
    ) -> Result<Option<Summary>> {
        let (Some(budget), Some(bx), Some(by)) = (self.budget()?, self.clip_x, self.clip_y) else {
            return Ok(None);
        };
        let bounds = Bounds::new(bx, by)?;
        let mut clipped = Clipped::new(agreement.design().clone(), y.width(), bounds)?;
        clipped.add(x, y)?;
        *clipping += clipped.scaled();
        Ok(Some(release(&clipped, budget, &mut Noise::from_system()?)?.summary()?))
    }

    /// What the bounds did to the rows, in words where it matters.
    ///
    /// # Errors
    /// Where they changed most rows: a model of what is left says nothing of the data.
    pub(super) fn clipping_note(&self, clipping: Scaled) -> Result<Option<String>> {
        let share = |rows: u64| rows as f64 / clipping.rows.max(1) as f64;
        if share(clipping.either) <= TELLING {
            return Ok(None);
        }
        let bound = |flag: &str, bound: Option<f64>, what: &str, rows: u64| {
            let percent = 100.0 * share(rows);
            bound.filter(|_| rows > 0).map(|bound| {
                format!("{percent:.1} % of the rows have {what} of a norm above {flag} {bound}")
            })
        };
        let found: Vec<String> = [
            bound("--clip-x", self.clip_x, "features", clipping.features),
            bound("--clip-y", self.clip_y, "targets", clipping.targets),
        ]
        .into_iter()
        .flatten()
        .collect();
        let found = found.join(", and ");
        let remedy = "Divide the columns by ranges known without the data, or give larger bounds (with more noise).";
        let caveat = "This share is counted from the rows and is not private; it is printed because this is a simulation on rows of one's own.";
        if share(clipping.either) > MOST {
            bail!(
                "--private: {found}; scaled down to it, they say little of the data. {remedy} {caveat}"
            );
        }
        Ok(Some(format!("clipped: {found}, and were scaled down to it. {remedy} {caveat}")))
    }

    /// What was promised, in words.
    pub(super) fn words(&self, steps: usize) -> Option<String> {
        let budget = self.budget().ok()??;
        let mut account = Account::new(Budget { epsilon: 100.0, ..budget }).ok()?;
        let spent = (0..steps).try_for_each(|_| account.spend(budget)).ok();
        let all = spent
            .map_or("more than 100".to_owned(), |()| format!("{:.3}", account.spent().epsilon));
        Some(format!(
            "private: every update has epsilon {} and delta {:e} for one row more or less; for a person with a row in each of {steps} steps, epsilon {all}. Rows are counted with noise and with the ridge in them. The rest of this page is made from the rows and is not private.",
            budget.epsilon, budget.delta
        ))
    }
}
