//! The Pareto front of two tasks, and where the models stand on it.

use crate::axis::Axis;
use crate::chart::{self, Picture};
use crate::frame::{Around, Frame, draw_no_data};
use crate::legend::{Entry, Legend};
use crate::mark::{Dash, Marker};
use crate::pen::{Pen, Rect, Size, Stroke, Text};
use crate::place::Places;
use crate::series::{self, Series};
use crate::span::Ends;
use crate::text::{self, NORMAL};
use crate::theme::{Paint, Theme};

/// What two tasks' losses can be at once, with models marked.
///
/// ```
/// use pmfcl_plot::{Front, Mark, Theme};
///
/// let chart = Front::new("spring", "summer", [(0.1, 0.9), (0.2, 0.4), (0.6, 0.2)])
///     .with_mark(Mark::new("knee", (0.2, 0.4)))
///     .with_mark(Mark::new("current", (0.3, 0.35)));
/// assert!(chart.svg(Theme::Light).contains("loss of spring"));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Front {
    /// What the chart shows.
    pub title: String,
    /// The chart in words, for screen readers; empty for a text made from the other fields.
    pub description: String,
    /// The size in pixels.
    pub size: Size,
    /// The loss of the first task.
    pub x: Axis,
    /// The loss of the second task.
    pub y: Axis,
    /// The front first, then others such as its bounds.
    pub curves: Vec<Series>,
    /// Models with their losses.
    pub marks: Vec<Mark>,
    /// Where the legend of the curves goes; the models have their names next to them.
    pub legend: Legend,
}

/// A model on the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Its name, written next to it.
    pub label: String,
    /// Its two losses.
    pub at: (f64, f64),
    /// Its shape.
    pub marker: Option<Marker>,
    /// Its colour, if not that of its name.
    pub paint: Option<Paint>,
}

impl Mark {
    /// A model; well-known names have a shape of their own.
    pub fn new(label: impl Into<String>, at: (f64, f64)) -> Self {
        Self { label: label.into(), at, marker: None, paint: None }
    }

    /// Shape and colour; the n-th name that is not well known takes the n-th of the others.
    fn look(&self, n: usize) -> (Marker, Paint) {
        let (marker, color) = match self.label.as_str() {
            "current" => (Marker::Circle, 1),
            "knee" => (Marker::Diamond, 2),
            "min-max" | "minmax" => (Marker::Square, 3),
            "joint" => (Marker::Star, 4),
            "fine-tuned" => (Marker::Triangle, 7),
            _ => ([Marker::Wedge, Marker::Plus, Marker::Cross][n % 3], 5 + n % 2),
        };
        (self.marker.unwrap_or(marker), self.paint.unwrap_or(Paint::Series(color)))
    }
}

impl Front {
    /// The front of tasks `a` and `b` through points `(loss of a, loss of b)`.
    pub fn new(a: &str, b: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            title: format!("Pareto front of {a} and {b}"),
            size: Size { width: 560.0, height: 440.0 },
            x: Axis::linear(format!("loss of {a}")),
            y: Axis::linear(format!("loss of {b}")),
            curves: vec![Series::new("front", points)],
            ..Self::default()
        }
    }

    /// With a second curve, drawn thinner and dashed.
    #[must_use]
    pub fn with_curve(mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.curves.push(Series::new(name, points).with_paint(Paint::Muted).with_dash(Dash::Long));
        self
    }

    /// With a model marked.
    #[must_use]
    pub fn with_mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// The chart as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        chart::svg(self, theme)
    }

    /// The curves without markers, unless they were asked for.
    fn drawn_curves(&self) -> Vec<Series> {
        let plain = |one: &Series| Series {
            marker: one.marker.or(if one.points.len() > 1 { Some(Marker::None) } else { None }),
            dash: one.dash.or(Some(Dash::Solid)),
            ..one.clone()
        };
        self.curves.iter().map(plain).collect()
    }

    fn draw_marks(&self, pen: &mut Pen, frame: &Frame, places: &mut Places) {
        let mut others = 0;
        let mut drawn: Vec<((f64, f64), &Mark)> = Vec::new();
        for mark in &self.marks {
            let Some((x, y)) = frame.at(mark.at) else { continue };
            let (marker, paint) = mark.look(others);
            others += usize::from(matches!(marker, Marker::Wedge | Marker::Plus | Marker::Cross));
            marker.draw(pen, (x, y), 6.0, paint);
            places.take(Rect { x: x - 7.0, y: y - 7.0, w: 14.0, h: 14.0 });
            drawn.push(((x, y), mark));
        }
        for ((x, y), mark) in drawn {
            let (w, h) = (text::width(&mark.label, NORMAL), NORMAL + 2.0);
            let spots = [10.0, 22.0, 36.0, 52.0].into_iter().flat_map(|r| {
                // Left or right, above, below, then the corners: the corner of the label nearest the mark.
                let d = r * std::f64::consts::FRAC_1_SQRT_2;
                [
                    (x + r, y - h / 2.0),
                    (x + d, y - d - h),
                    (x + d, y + d),
                    (x - w / 2.0, y - r - h),
                    (x - w / 2.0, y + r),
                    (x - d - w, y - d - h),
                    (x - r - w, y - h / 2.0),
                    (x - d - w, y + d),
                ]
                .map(|(x, y)| Rect { x, y, w, h })
            });
            let Some(spot) = places.choose(spots) else { continue };
            let near = (x.clamp(spot.x, spot.right()), y.clamp(spot.y, spot.bottom()));
            let distance = (near.0 - x).hypot(near.1 - y);
            if distance > 14.0 {
                let t = 8.0 / distance;
                let from = (x + t * (near.0 - x), y + t * (near.1 - y));
                pen.line(from, near, Stroke::new(Paint::Muted, 0.8));
            }
            pen.text(spot.x, spot.y + NORMAL - 0.5, Text::new(&mark.label, NORMAL).halo());
        }
    }
}

impl Picture for Front {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        let names: Vec<&str> = self.marks.iter().map(|mark| mark.label.as_str()).collect();
        format!(
            "{} against {}, as far as both can be low at once. Marked: {}.",
            chart::or(&self.y.label, "loss"),
            chart::or(&self.x.label, "loss"),
            chart::or(&names.join(", "), "none")
        )
    }

    fn size(&self) -> Size {
        self.size
    }

    fn legend(&self) -> Legend {
        self.legend
    }

    fn entries(&self) -> Vec<Entry> {
        // One curve needs no legend: the title names it.
        if self.curves.len() > 1 { series::entries(&self.drawn_curves()) } else { vec![] }
    }

    fn draw(&self, pen: &mut Pen, size: Size, legend: Legend) {
        let entries = self.entries();
        let curves = self.drawn_curves();
        let points = || {
            let on_curves = curves.iter().flat_map(|one| one.points.iter().copied());
            on_curves.chain(self.marks.iter().map(|mark| mark.at))
        };
        let both = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let (xs, ys): (Vec<f64>, Vec<f64>) = points().filter(both).unzip();
        if xs.is_empty() {
            return draw_no_data(pen, &self.title, size);
        }
        let around = Around {
            title: &self.title,
            x: &self.x,
            y: &self.y,
            x_ends: Ends::Beyond,
            y_ends: Ends::Beyond,
            x_grid: true,
            entries: &entries,
            legend,
            above: 0.0,
        };
        let Some(frame) = Frame::find(around, size, &xs, &ys) else {
            return draw_no_data(pen, &self.title, size);
        };
        frame.draw_behind(pen);
        frame.draw_before(pen);
        let mut places = Places::new(frame.plot);
        let edge = 8.0;
        let plot = frame.plot;
        pen.clip(Rect {
            x: plot.x - edge,
            y: plot.y - edge,
            w: plot.w + 2.0 * edge,
            h: plot.h + 2.0 * edge,
        });
        for (n, one) in curves.iter().enumerate().rev() {
            places.avoid(&one.places(&frame));
            one.draw_line(pen, &frame, one.look(n), n, curves.len());
        }
        self.draw_marks(pen, &frame, &mut places);
        pen.unclip();
    }
}
