//! The frame around the data: title, axes, grid, legend, and the room left between them.

use crate::axis::{Axis, Scale};
use crate::legend::{Entry, Legend, Placed};
use crate::names::Names;
use crate::pen::{Anchor, Pen, Rect, Size, Stroke, Text};
use crate::span::{Ends, Span};
use crate::text::{self, LARGE, NORMAL, SMALL};
use crate::theme::Paint;

/// What goes around the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a Axis,
    pub(crate) y: &'a Axis,
    pub(crate) x_ends: Ends,
    pub(crate) y_ends: Ends,
    /// Grid lines at the ticks of the x axis too.
    pub(crate) x_grid: bool,
    pub(crate) entries: &'a [Entry],
    pub(crate) legend: Legend,
    /// Pixels kept free between title and plot.
    pub(crate) above: f64,
}

/// A frame with everything in its place.
#[derive(Debug, Clone)]
pub(crate) struct Frame<'a> {
    around: Around<'a>,
    size: Size,
    title: Vec<String>,
    legend: Placed,
    names: Names,
    /// Where the data go.
    pub(crate) plot: Rect,
    pub(crate) x: Span,
    pub(crate) y: Span,
}

const EDGE: f64 = 12.0;
const TITLE_LINE: f64 = 20.0;
const TICK: f64 = 4.0;
const LABEL: f64 = 20.0; // an axis label with its air

impl<'a> Frame<'a> {
    /// Finds the place of everything; `None` if there is nothing to draw.
    pub(crate) fn find(around: Around<'a>, size: Size, xs: &[f64], ys: &[f64]) -> Option<Self> {
        let title = title_lines(around.title, size);
        let legend = Placed::find(around.entries, around.legend, size);
        let label = |axis: &Axis| if axis.label.trim().is_empty() { 4.0 } else { LABEL };
        let top = title_height(&title) + around.above;
        let below = label(around.x) + legend.height + EDGE / 2.0;
        // The names under the plot are not known yet; most are one line.
        let height = size.height - top - below - TICK - SMALL;
        // A low plot still has ticks enough to follow the data closely.
        let ticks = wanted(height, 44.0).max(if height >= 90.0 { 4 } else { 2 });
        let y = Span::fit(around.y, ys.iter().copied(), around.y_ends, ticks)?;
        let y_labels = text::widest(y.labels.iter().map(String::as_str), SMALL);
        let left = EDGE / 2.0 + label(around.y) + y_labels + TICK + 5.0;
        let right = EDGE + 4.0 + legend.width;

        let room = size.width - left - right;
        let (x, names) = x_axis(around, xs, room)?;
        // Slanted names may need more room on the left than the y axis does.
        let first = x.ticks.first().and_then(|&t| x.at(t)).unwrap_or(0.0) * room;
        let left = left.max(names.overhang - first + EDGE / 2.0).min(0.5 * size.width);
        let room = size.width - left - right;
        let (x, names) = x_axis(around, xs, room)?;
        let plot = Rect {
            x: left,
            y: top,
            w: room.max(20.0),
            h: (size.height - top - below - TICK - 4.0 - names.depth).max(20.0),
        };
        Some(Self { around, size, title, legend, names, plot, x, y })
    }

    /// Draws what lies behind the data.
    pub(crate) fn draw_behind(&self, pen: &mut Pen) {
        let Rect { x: left, y: top, .. } = self.plot;
        let (right, bottom) = (self.plot.right(), self.plot.bottom());
        draw_title(pen, &self.title);
        for &tick in &self.y.ticks {
            let y = self.y_at(tick);
            pen.line((left, y), (right, y), Stroke::new(Paint::Grid, 1.0));
        }
        if self.around.x_grid {
            for &tick in &self.x.ticks {
                let x = self.x_at(tick);
                pen.line((x, top), (x, bottom), Stroke::new(Paint::Grid, 1.0));
            }
        }
        if !self.y.log && self.y.lo < 0.0 && self.y.hi > 0.0 {
            let y = self.y_at(0.0);
            pen.line((left, y), (right, y), Stroke::new(Paint::Axis, 1.0));
        }
    }

    /// Draws the axes, over the data, and the legend.
    pub(crate) fn draw_before(&self, pen: &mut Pen) {
        let Rect { x: left, y: top, .. } = self.plot;
        let (right, bottom) = (self.plot.right(), self.plot.bottom());
        let axis = Stroke::new(Paint::Axis, 1.0);
        pen.line((left, bottom), (right, bottom), axis);
        pen.line((left, top), (left, bottom), axis);
        for (tick, label) in self.y.ticks.iter().zip(&self.y.labels) {
            let y = self.y_at(*tick);
            pen.line((left - TICK, y), (left, y), axis);
            let text = Text::new(label, SMALL).anchor(Anchor::End).paint(Paint::Muted);
            pen.text(left - TICK - 4.0, y + 0.36 * SMALL, text);
        }
        for &tick in &self.y.minor {
            let y = self.y_at(tick);
            pen.line((left - TICK / 2.0, y), (left, y), axis);
        }
        // Names stand under their place without a tick.
        if !matches!(self.around.x.scale, Scale::Names(_)) {
            for &tick in &self.x.ticks {
                let x = self.x_at(tick);
                pen.line((x, bottom), (x, bottom + TICK), axis);
            }
            for &tick in &self.x.minor {
                let x = self.x_at(tick);
                pen.line((x, bottom), (x, bottom + TICK / 2.0), axis);
            }
        }
        self.names.draw(pen, bottom + TICK + 3.0, |i| self.x_at(self.x.ticks[i]));
        let middle = f64::midpoint(left, right);
        let x_label = text::fit(&self.around.x.label, NORMAL, self.size.width - 2.0 * EDGE);
        let y = bottom + TICK + 3.0 + self.names.depth + 15.0;
        let text = Text::new(&x_label, NORMAL).anchor(Anchor::Middle).full(&self.around.x.label);
        pen.text(middle, y, text);
        let y_label = text::fit(&self.around.y.label, NORMAL, self.size.height - 2.0 * EDGE);
        let half = text::width(&y_label, NORMAL) / 2.0;
        let middle = f64::midpoint(top, bottom);
        // A label longer than the plot is high moves away from the edge it would cross.
        let middle = middle.max(half + EDGE / 2.0).min(self.size.height - half - EDGE / 2.0);
        let text = Text::new(&y_label, NORMAL)
            .anchor(Anchor::Middle)
            .turn(-90.0)
            .full(&self.around.y.label);
        pen.text(EDGE / 2.0 + 12.0, middle, text);
        self.legend.draw(pen, self.plot, self.size.height - EDGE / 2.0, self.size);
    }

    /// Where a value of the x axis lies; values that cannot be drawn lie at the left.
    pub(crate) fn x_at(&self, v: f64) -> f64 {
        self.plot.x + self.x.at_or_floor(v) * self.plot.w
    }

    /// Where a value of the y axis lies; values that cannot be drawn lie at the bottom.
    pub(crate) fn y_at(&self, v: f64) -> f64 {
        self.plot.bottom() - self.y.at_or_floor(v) * self.plot.h
    }

    /// Where a point lies; `None` if either value cannot be drawn.
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (u, v) = (self.x.at(x)?, self.y.at(y)?);
        Some((self.plot.x + u * self.plot.w, self.plot.bottom() - v * self.plot.h))
    }
}

/// Pixels a note above the plot needs.
pub(crate) const NOTE: f64 = SMALL + 3.0;

/// What is noted where a ± interval is cut at the lower end of a logarithmic axis.
pub(crate) const CUT_NOTE: &str = "± ranges are cut off at the lower end of the axis";

/// Writes a note at the right end above a plot, `rows` rows up.
pub(crate) fn draw_note(pen: &mut Pen, plot: Rect, rows: usize, note: &str) {
    let words = text::fit(note, SMALL, plot.w);
    let text = Text::new(&words, SMALL).anchor(Anchor::End).paint(Paint::Muted).full(note);
    pen.text(plot.right(), plot.y - 4.0 - rows as f64 * NOTE, text);
}

/// A picture that says there is nothing to see.
pub(crate) fn draw_no_data(pen: &mut Pen, title: &str, size: Size) {
    let title = title_lines(title, size);
    draw_title(pen, &title);
    let text = Text::new("no data", LARGE).anchor(Anchor::Middle).paint(Paint::Muted);
    pen.text(size.width / 2.0, f64::midpoint(title_height(&title), size.height), text);
}

/// The title in lines that fit.
pub(crate) fn title_lines(title: &str, size: Size) -> Vec<String> {
    let room = (size.width - 2.0 * EDGE) * LARGE / text::bold_width("M", LARGE)
        * text::width("M", LARGE)
        / LARGE;
    text::wrap(title, LARGE, room, 3)
}

/// The height of the title and the air around it.
pub(crate) fn title_height(lines: &[String]) -> f64 {
    if lines.is_empty() { EDGE } else { EDGE + TITLE_LINE * lines.len() as f64 + 12.0 }
}

/// Writes the title.
pub(crate) fn draw_title(pen: &mut Pen, lines: &[String]) {
    for (i, line) in lines.iter().enumerate() {
        let y = EDGE + TITLE_LINE * i as f64 + LARGE;
        pen.text(EDGE, y, Text::new(line, LARGE).bold());
    }
}

/// The x axis in a plot of a width: fewer ticks until their labels stand apart.
fn x_axis(around: Around, xs: &[f64], width: f64) -> Option<(Span, Names)> {
    let mut ticks = wanted(width, 60.0);
    loop {
        let span = Span::fit(around.x, xs.iter().copied(), around.x_ends, ticks)?;
        let spacing = spacing(&span, width);
        let names = Names::find(&span.labels, spacing);
        let widest = text::widest(span.labels.iter().map(String::as_str), SMALL);
        let numbers = !matches!(around.x.scale, Scale::Names(_));
        if !numbers || ticks <= 2 || widest + 14.0 <= spacing {
            return Some((span, names));
        }
        ticks -= 1;
    }
}

/// The least distance between two ticks in pixels.
fn spacing(span: &Span, width: f64) -> f64 {
    let places: Vec<f64> = span.ticks.iter().filter_map(|&t| span.at(t)).collect();
    places.windows(2).map(|pair| (pair[1] - pair[0]) * width).fold(width, f64::min)
}

/// How many ticks a length should have if each needs so much room.
fn wanted(length: f64, each: f64) -> i32 {
    ((length / each) as i32).clamp(2, 9)
}
