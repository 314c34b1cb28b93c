//! A matrix in colours: tasks by tasks, tasks by time.

use crate::axis::{Axis, Scale};
use crate::chart::{self, Picture};
use crate::frame::{draw_no_data, draw_title, title_height, title_lines};
use crate::legend::{Entry, Legend};
use crate::names::Names;
use crate::number;
use crate::pen::{Anchor, Fill, Pen, Rect, Size, Stroke, Text};
use crate::ramp::Ramp;
use crate::span::{Ends, Span};
use crate::text::{self, NORMAL, SMALL};
use crate::theme::{Paint, Theme};

/// A matrix in colours, with a bar that says what the colours mean.
///
/// ```
/// use pmfcl_plot::{Axis, CellText, HeatMap, Theme};
///
/// let chart = HeatMap {
///     title: "Forgetting of each task over time".into(),
///     rows: vec!["spring".into(), "summer".into()],
///     columns: vec!["after spring".into(), "after summer".into()],
///     cells: vec![vec![Some(0.0), Some(0.02)], vec![None, Some(0.0)]],
///     color: Axis::linear("forgetting (kWh²)"),
///     text: CellText::Values,
///     ..HeatMap::default()
/// };
/// assert!(chart.svg(Theme::Auto).contains("forgetting"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// What the chart shows.
    pub title: String,
    /// The chart in words, for screen readers; empty for a text made from the other fields.
    pub description: String,
    /// The size in pixels.
    pub size: Size,
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// The values, row by row; `None`, a missing one or one that is not finite is an empty cell.
    pub cells: Vec<Vec<Option<f64>>>,
    /// What the colours measure: label with unit, linear or logarithmic, ends.
    pub color: Axis,
    /// The colours.
    pub ramp: Ramp,
    /// The value in the middle of [`Ramp::BlueRed`].
    pub center: f64,
    /// What is written into the cells.
    pub text: CellText,
}

/// What is written into the cells, if they are large enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CellText {
    /// Nothing.
    #[default]
    None,
    /// The values, in three digits.
    Values,
    /// These texts, row by row: stars for p-values, say.
    Given(Vec<Vec<String>>),
}

impl Default for HeatMap {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            size: Size { width: 600.0, height: 480.0 },
            x_label: String::new(),
            y_label: String::new(),
            rows: vec![],
            columns: vec![],
            cells: vec![],
            color: Axis::default(),
            ramp: Ramp::default(),
            center: 0.0,
            text: CellText::default(),
        }
    }
}

const EDGE: f64 = 12.0;
const BAR: f64 = 14.0;
const ROW_NAME: f64 = 150.0; // a row's name at its longest
const SMALLEST: f64 = 6.5; // a text that can still be read

impl HeatMap {
    /// The chart as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        chart::svg(self, theme)
    }

    fn value(&self, row: usize, column: usize) -> Option<f64> {
        let value = self.cells.get(row)?.get(column).copied().flatten()?;
        value.is_finite().then_some(value)
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows.len())
            .flat_map(|row| (0..self.columns.len()).map(move |column| (row, column)))
    }

    /// From the lowest value to the highest, or as far to either side of the centre.
    fn span(&self) -> Option<Span> {
        let values = || self.places().filter_map(|(row, column)| self.value(row, column));
        let mut axis = self.color.clone();
        if matches!(axis.scale, Scale::Names(_)) {
            axis.scale = Scale::Linear; // colours measure
        }
        if axis.range.is_none() {
            let log = axis.scale == Scale::Log;
            let drawable = || values().filter(|&v| !log || v > 0.0);
            let (mut lo, mut hi) = drawable()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
            if self.ramp.diverges() && !log && self.center.is_finite() && lo <= hi {
                let reach = (hi - self.center).abs().max((lo - self.center).abs());
                (lo, hi) = (self.center - reach, self.center + reach);
            } else if axis.from_zero && !log {
                (lo, hi) = (lo.min(0.0), hi.max(0.0));
            }
            axis.range = Some((lo, hi));
        }
        Span::fit(&axis, values(), Ends::Ticks, 5)
    }

    fn cell_text(&self, row: usize, column: usize) -> Option<String> {
        match &self.text {
            CellText::None => None,
            CellText::Values => self.value(row, column).map(number::short),
            CellText::Given(texts) => texts.get(row)?.get(column).cloned(),
        }
    }

    /// The size at which all texts fit into their cells; `None` if none would be readable.
    fn text_size(&self, w: f64, h: f64) -> Option<f64> {
        let texts: Vec<String> =
            self.places().filter_map(|(row, column)| self.cell_text(row, column)).collect();
        let widest = text::widest(texts.iter().map(String::as_str), 1.0).max(0.1);
        let size = SMALL.min(0.8 * h).min((w - 4.0) / widest);
        (size >= SMALLEST).then_some(size)
    }

    fn draw_cells(&self, pen: &mut Pen, area: Rect, span: &Span) {
        let w = area.w / self.columns.len() as f64;
        let h = area.h / self.rows.len() as f64;
        // Between large cells some paper shows; small ones touch, on whole pixels.
        let gap = if w.min(h) >= 8.0 { 0.75 } else { 0.0 };
        let edge = |v: f64| if gap > 0.0 { v } else { v.round() };
        let size = self.text_size(w, h);
        for (row, column) in self.places() {
            let Some(value) = self.value(row, column) else { continue };
            let Some(u) = span.at(value) else { continue };
            let (light, dark) = (self.ramp.at(u), self.ramp.on_dark(u));
            let (left, top) = (area.x + w * column as f64, area.y + h * row as f64);
            let (x, y) = (edge(left) + gap, edge(top) + gap);
            let (right, bottom) = (edge(left + w) - gap, edge(top + h) - gap);
            let tip =
                format!("{}, {}: {}", self.rows[row], self.columns[column], number::short(value));
            let cell = Rect { x, y, w: right - x, h: bottom - y };
            let (hex_light, hex_dark) = (light.hex(), dark.hex());
            let fill = Fill::Data { light: &hex_light, dark: &hex_dark };
            pen.rect(cell, fill, 1.0, gap, Some(&tip));
            if let (Some(size), Some(text)) = (size, self.cell_text(row, column)) {
                let text = Text::new(&text, size).anchor(Anchor::Middle);
                let text = text.on_data(light.ink(), dark.ink());
                pen.text(left + w / 2.0, top + h / 2.0 + 0.36 * size, text);
            }
        }
    }

    fn draw_names(&self, pen: &mut Pen, area: Rect, names: &Names) {
        let h = area.h / self.rows.len() as f64;
        let stride = (1.05 * SMALL / h).ceil().max(1.0) as usize;
        for row in (0..self.rows.len()).step_by(stride) {
            let name = text::fit(&self.rows[row], SMALL, ROW_NAME);
            let y = area.y + h * (row as f64 + 0.5) + 0.36 * SMALL;
            let text = Text::new(&name, SMALL).anchor(Anchor::End).paint(Paint::Muted);
            pen.text(area.x - 6.0, y, text.full(&self.rows[row]));
        }
        let w = area.w / self.columns.len() as f64;
        names.draw(pen, area.bottom() + 5.0, |column| area.x + w * (column as f64 + 0.5));
        let middle = area.x + area.w / 2.0;
        let y = area.bottom() + 5.0 + names.depth + 15.0;
        pen.text(middle, y, Text::new(&self.x_label, NORMAL).anchor(Anchor::Middle));
        let text = Text::new(&self.y_label, NORMAL).anchor(Anchor::Middle).turn(-90.0);
        pen.text(EDGE / 2.0 + 12.0, area.y + area.h / 2.0, text);
    }

    fn draw_bar(&self, pen: &mut Pen, bar: Rect, span: &Span, size: Size) {
        let steps = 100;
        let h = bar.h / f64::from(steps);
        for k in 0..steps {
            let u = (f64::from(k) + 0.5) / f64::from(steps);
            let (light, dark) = (self.ramp.at(u).hex(), self.ramp.on_dark(u).hex());
            // Each step reaches a little under the one above it, so that no seam shows.
            let y = bar.bottom() - h * f64::from(k + 1);
            let under = if k == 0 { 0.0 } else { 0.5 };
            let step = Rect { x: bar.x, y, w: bar.w, h: h + under };
            pen.rect(step, Fill::Data { light: &light, dark: &dark }, 1.0, 0.0, None);
        }
        for (tick, label) in span.ticks.iter().zip(&span.labels) {
            let y = bar.bottom() - span.at_or_floor(*tick) * bar.h;
            pen.line((bar.right(), y), (bar.right() + 4.0, y), Stroke::new(Paint::Axis, 1.0));
            let text = Text::new(label, SMALL).paint(Paint::Muted);
            pen.text(bar.right() + 7.0, y + 0.36 * SMALL, text);
        }
        let x = bar.right() + 7.0 + text::widest(span.labels.iter().map(String::as_str), SMALL);
        let label = text::fit(&self.color.label, NORMAL, size.height - 2.0 * EDGE);
        let half = text::width(&label, NORMAL) / 2.0;
        let middle = (bar.y + bar.h / 2.0).max(half + 6.0).min(size.height - half - 6.0);
        let text = Text::new(&label, NORMAL).anchor(Anchor::Middle).turn(-90.0);
        pen.text(x + 16.0, middle, text.full(&self.color.label));
    }
}

impl Picture for HeatMap {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        format!(
            "{} in colours: {} rows ({}) by {} columns ({}).",
            chart::or(&self.color.label, "values"),
            self.rows.len(),
            chart::or(&self.y_label, "rows"),
            self.columns.len(),
            chart::or(&self.x_label, "columns")
        )
    }

    fn size(&self) -> Size {
        self.size
    }

    fn legend(&self) -> Legend {
        Legend::Hidden // the colour bar is its legend
    }

    fn entries(&self) -> Vec<Entry> {
        vec![]
    }

    fn draw(&self, pen: &mut Pen, size: Size, _legend: Legend) {
        let Some(span) = self.span() else {
            return draw_no_data(pen, &self.title, size);
        };
        let title = title_lines(&self.title, size);
        let top = title_height(&title);
        let label = |text: &str| if text.trim().is_empty() { 0.0 } else { 20.0 };
        let row_names = text::widest(self.rows.iter().map(String::as_str), SMALL).min(ROW_NAME);
        let left = EDGE / 2.0 + label(&self.y_label) + row_names + 8.0;
        let ticks = text::widest(span.labels.iter().map(String::as_str), SMALL);
        let right = 16.0 + BAR + 7.0 + ticks + label(&self.color.label) + EDGE;
        let columns = self.columns.len() as f64;
        let room = (size.width - left - right).max(20.0);
        let names = Names::find(&self.columns, room / columns);
        let left =
            left.max(names.overhang - room / columns / 2.0 + EDGE / 2.0).min(0.5 * size.width);
        let room = (size.width - left - right).max(20.0);
        let below = |names: &Names| 5.0 + names.depth + label(&self.x_label) + EDGE;
        let high = (size.height - top - below(&names)).max(20.0);
        let (w, h) = (room / columns, high / self.rows.len() as f64);
        // A matrix of tasks by tasks has square cells, others none that are all too long.
        let (w, h) = if self.rows.len() == self.columns.len() {
            (w.min(1.25 * h), h.min(w))
        } else {
            (w.min(4.0 * h), h.min(1.5 * w))
        };
        let names = Names::find(&self.columns, w);
        let high = (size.height - top - below(&names)).max(20.0);
        let area =
            Rect { x: left, y: top, w: w * columns, h: high.min(h * self.rows.len() as f64) };
        draw_title(pen, &title);
        self.draw_cells(pen, area, &span);
        self.draw_names(pen, area, &names);
        let bar = Rect { x: area.right() + 16.0, y: area.y, w: BAR, h: area.h };
        self.draw_bar(pen, bar, &span, size);
    }
}
