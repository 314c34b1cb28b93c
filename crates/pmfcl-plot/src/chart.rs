//! What all charts have in common.

use crate::bars::Bars;
use crate::front::Front;
use crate::grid::Grid;
use crate::heat::HeatMap;
use crate::legend::{Entry, Legend};
use crate::lines::Lines;
use crate::pen::{Pen, Size};
use crate::theme::Theme;

/// Any chart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Chart {
    /// Series over one pair of axes.
    Lines(Lines),
    /// The Pareto front of two tasks.
    Front(Front),
    /// A matrix in colours.
    HeatMap(HeatMap),
    /// Bars in groups.
    Bars(Bars),
    /// Several charts in one picture.
    Grid(Grid),
}

impl Chart {
    /// The chart as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        svg(self.picture(), theme)
    }

    fn picture(&self) -> &dyn Picture {
        match self {
            Self::Lines(chart) => chart,
            Self::Front(chart) => chart,
            Self::HeatMap(chart) => chart,
            Self::Bars(chart) => chart,
            Self::Grid(chart) => chart,
        }
    }
}

impl From<Lines> for Chart {
    fn from(chart: Lines) -> Self {
        Self::Lines(chart)
    }
}

impl From<Front> for Chart {
    fn from(chart: Front) -> Self {
        Self::Front(chart)
    }
}

impl From<HeatMap> for Chart {
    fn from(chart: HeatMap) -> Self {
        Self::HeatMap(chart)
    }
}

impl From<Bars> for Chart {
    fn from(chart: Bars) -> Self {
        Self::Bars(chart)
    }
}

impl From<Grid> for Chart {
    fn from(chart: Grid) -> Self {
        Self::Grid(chart)
    }
}

/// What can be drawn into a rectangle.
pub(crate) trait Picture {
    fn title(&self) -> &str;
    /// The picture in words.
    fn description(&self) -> String;
    /// The size it has when it stands alone.
    fn size(&self) -> Size;
    /// Where its legend goes when it stands alone.
    fn legend(&self) -> Legend;
    /// Its legend.
    fn entries(&self) -> Vec<Entry>;
    /// Draws it into a rectangle of a size, from the origin on.
    fn draw(&self, pen: &mut Pen, size: Size, legend: Legend);
}

impl Picture for Chart {
    fn title(&self) -> &str {
        self.picture().title()
    }

    fn description(&self) -> String {
        self.picture().description()
    }

    fn size(&self) -> Size {
        self.picture().size()
    }

    fn legend(&self) -> Legend {
        self.picture().legend()
    }

    fn entries(&self) -> Vec<Entry> {
        self.picture().entries()
    }

    fn draw(&self, pen: &mut Pen, size: Size, legend: Legend) {
        self.picture().draw(pen, size, legend);
    }
}

/// A picture that stands alone, as SVG.
pub(crate) fn svg(picture: &dyn Picture, theme: Theme) -> String {
    let size = picture.size().checked();
    let mut pen = Pen::new(theme, size, or(picture.title(), "chart"), &picture.description());
    picture.draw(&mut pen, size, picture.legend());
    pen.finish()
}

/// The text, or another if it is empty.
pub(crate) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.trim().is_empty() { other } else { text }
}
