//! Settings of an axis: its label, its scale, its limits.

/// One axis of a chart.
///
/// ```
/// use pmfcl_plot::Axis;
///
/// let loss = Axis::log("loss (kWh²)");
/// let tasks = Axis::names("task", ["spring", "summer", "autumn"]);
/// let share = Axis::linear("share of rows").between(0.0, 1.0);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// How numbers become distances.
    pub scale: Scale,
    /// The ends, if they are not to follow the data. Ignored unless `lo < hi` can be drawn.
    pub range: Option<(f64, f64)>,
    /// Zero belongs to the axis even if all values are far from it. Not for logarithms.
    pub from_zero: bool,
}

/// How numbers become distances.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Scale {
    /// Equal differences are equal distances.
    #[default]
    Linear,
    /// As linear, with ticks at whole numbers only: steps, rows, tasks.
    Whole,
    /// Equal ratios are equal distances. Values of zero or less cannot be drawn and are left out.
    Log,
    /// The value `i` stands for the `i`-th name, counted from 0.
    Names(Vec<String>),
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A linear axis with ticks at whole numbers.
    pub fn whole(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Whole, ..Self::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, ..Self::default() }
    }

    /// An axis of names: the value `i` stands for the `i`-th one.
    pub fn names<S: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        let scale = Scale::Names(names.into_iter().map(Into::into).collect());
        Self { label: label.into(), scale, ..Self::default() }
    }

    /// With fixed ends.
    #[must_use]
    pub fn between(mut self, lo: f64, hi: f64) -> Self {
        self.range = Some((lo, hi));
        self
    }

    /// With zero on it.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }
}
