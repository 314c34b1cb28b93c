//! Several charts in one picture.

use crate::chart::{self, Chart, Picture};
use crate::frame::draw_no_data;
use crate::legend::{Entry, Legend, Placed};
use crate::pen::{Pen, Rect, Size, Text};
use crate::text::{self, HUGE};
use crate::theme::Theme;

/// Small multiples: charts side by side under one title.
///
/// Charts that have the same legend share one below all of them.
///
/// ```
/// use pmfcl_plot::{Axis, Grid, Lines, Series, Theme};
///
/// let of = |task: &str| Lines {
///     title: task.into(),
///     x: Axis::whole("step"),
///     y: Axis::linear("loss"),
///     series: vec![Series::from_values("joint", [0.3, 0.2]), Series::from_values("ours", [0.4, 0.2])],
///     ..Lines::default()
/// };
/// let grid = Grid {
///     title: "Loss of each task".into(),
///     charts: vec![of("spring").into(), of("summer").into()],
///     ..Grid::default()
/// };
/// assert_eq!(grid.svg(Theme::Auto).matches(">joint<").count(), 1);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The title of them all.
    pub title: String,
    /// The picture in words, for screen readers; empty for a text made from the other fields.
    pub description: String,
    /// The charts, row by row. Their own sizes are not used.
    pub charts: Vec<Chart>,
    /// How many stand side by side; 0 for as many as make the picture about square.
    pub columns: usize,
    /// The size of each chart.
    pub cell: Size,
}

impl Default for Grid {
    /// Nothing yet, in cells of 400 × 280.
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            charts: vec![],
            columns: 0,
            cell: Size { width: 400.0, height: 280.0 },
        }
    }
}

const EDGE: f64 = 12.0;
const TITLE_LINE: f64 = 25.0;
const LEGEND_EDGE: f64 = 10.0;

impl Grid {
    /// The picture as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        chart::svg(self, theme)
    }

    fn columns(&self) -> usize {
        let n = self.charts.len().max(1);
        let columns =
            if self.columns > 0 { self.columns } else { (n as f64).sqrt().ceil() as usize };
        columns.clamp(1, n)
    }

    fn width(&self) -> f64 {
        self.columns() as f64 * self.cell.checked().width
    }

    fn title_lines(&self) -> Vec<String> {
        // Bold letters need an eighth more room.
        text::wrap(&self.title, HUGE, (self.width() - 2.0 * EDGE) / 1.13, 2)
    }

    fn head(&self) -> f64 {
        let lines = self.title_lines().len();
        if lines == 0 { 0.0 } else { EDGE + TITLE_LINE * lines as f64 }
    }

    /// The legend, if two charts or more have one and it is the same.
    fn shared(&self) -> Vec<Entry> {
        let all: Vec<Vec<Entry>> = self.charts.iter().map(Picture::entries).collect();
        let mut some = all.iter().filter(|entries| !entries.is_empty());
        match some.next() {
            Some(first) if all.len() > 1 && some.all(|entries| entries == first) => first.clone(),
            _ => vec![],
        }
    }

    fn legend_below(&self) -> Placed {
        let size = Size { width: self.width(), height: self.cell.checked().height };
        Placed::find(&self.shared(), Legend::Below, size)
    }

    fn legend_height(&self) -> f64 {
        let height = self.legend_below().height;
        if height > 0.0 { height + LEGEND_EDGE } else { 0.0 }
    }
}

impl Picture for Grid {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        let all: Vec<String> = self
            .charts
            .iter()
            .map(|one| format!("{}: {}", chart::or(one.title(), "chart"), one.description()))
            .collect();
        format!("{} charts. {}", all.len(), all.join(" "))
    }

    fn size(&self) -> Size {
        let rows = self.charts.len().max(1).div_ceil(self.columns());
        let height = self.head() + rows as f64 * self.cell.checked().height + self.legend_height();
        Size { width: self.width(), height }
    }

    fn legend(&self) -> Legend {
        Legend::Auto
    }

    fn entries(&self) -> Vec<Entry> {
        vec![]
    }

    /// In a grid of grids this one is as large as its cells make it, not as large as asked.
    fn draw(&self, pen: &mut Pen, size: Size, _legend: Legend) {
        if self.charts.is_empty() {
            return draw_no_data(pen, &self.title, size);
        }
        for (i, line) in self.title_lines().iter().enumerate() {
            let y = EDGE + HUGE + TITLE_LINE * i as f64;
            pen.text(EDGE, y, Text::new(line, HUGE).bold());
        }
        let rows = self.charts.len().div_ceil(self.columns());
        let cell = Size {
            width: size.width / self.columns() as f64,
            height: (size.height - self.head() - self.legend_height()) / rows as f64,
        };
        let shared = !self.shared().is_empty();
        for (i, one) in self.charts.iter().enumerate() {
            let (row, column) = (i / self.columns(), i % self.columns());
            pen.open_at(column as f64 * cell.width, self.head() + row as f64 * cell.height);
            one.draw(pen, cell, if shared { Legend::Hidden } else { one.legend() });
            pen.close();
        }
        let strip = Rect { x: 2.0 * EDGE, y: 0.0, w: size.width, h: size.height };
        self.legend_below().draw(pen, strip, size.height - LEGEND_EDGE, size);
    }
}
