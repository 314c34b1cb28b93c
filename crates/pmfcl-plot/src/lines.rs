//! Lines: how something changes along an axis.

use crate::axis::{Axis, Scale};
use crate::chart::{self, Picture};
use crate::frame::{Around, CUT_NOTE, Frame, NOTE, draw_no_data, draw_note};
use crate::legend::{Entry, Legend};
use crate::pen::{Pen, Rect, Size, Stroke, Text};
use crate::place::Places;
use crate::series::{self, Series};
use crate::span::Ends;
use crate::text::{self, SMALL};
use crate::theme::{Paint, Theme};

/// Several series over one pair of axes.
///
/// ```
/// use pmfcl_plot::{Axis, Lines, Rule, Series, Theme};
///
/// let chart = Lines {
///     title: "Forgetting after each task".into(),
///     x: Axis::names("task", ["spring", "summer", "autumn"]),
///     y: Axis::log("forgetting (kWh²)"),
///     series: vec![
///         Series::from_values("measured", [1e-4, 3e-4, 2e-3]),
///         Series::from_values("bound", [1e-3, 2e-3, 8e-3]),
///     ],
///     rules: vec![Rule::at_y(5e-3, "budget")],
///     ..Lines::default()
/// };
/// assert!(chart.svg(Theme::Auto).starts_with("<svg"));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// What the chart shows.
    pub title: String,
    /// The chart in words, for screen readers; empty for a text made from the other fields.
    pub description: String,
    /// The size in pixels.
    pub size: Size,
    /// The axis across.
    pub x: Axis,
    /// The axis up.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Reference lines.
    pub rules: Vec<Rule>,
    /// Where the legend goes.
    pub legend: Legend,
}

/// A reference line across the whole plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Which axis the value is on.
    pub on: On,
    /// The value.
    pub at: f64,
    /// What it stands for; empty for a line without words.
    pub label: String,
}

/// One of the two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The axis across: the line is upright.
    X,
    /// The axis up: the line is level.
    Y,
}

impl Rule {
    /// An upright line at a value of the x axis.
    pub fn at_x(at: f64, label: impl Into<String>) -> Self {
        Self { on: On::X, at, label: label.into() }
    }

    /// A level line at a value of the y axis.
    pub fn at_y(at: f64, label: impl Into<String>) -> Self {
        Self { on: On::Y, at, label: label.into() }
    }
}

impl Lines {
    /// The chart as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        chart::svg(self, theme)
    }

    /// Labels of upright rules stand above the plot, in rows: left edge, row, words, rule.
    fn upright_labels(&self, frame: &Frame) -> Vec<(f64, usize, &str, f64)> {
        let plot = frame.plot;
        let mut rules: Vec<(f64, &str)> = self
            .rules
            .iter()
            .filter(|rule| rule.on == On::X && !rule.label.trim().is_empty())
            .filter(|rule| frame.x.at(rule.at).and_then(inside).is_some())
            .map(|rule| (frame.x_at(rule.at), rule.label.as_str()))
            .collect();
        rules.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut labels: Vec<(f64, usize, &str, f64)> = Vec::new();
        for (i, &(x, label)) in rules.iter().enumerate() {
            let w = text::width(label, SMALL);
            let crowded = rules
                .get(i + 1)
                .is_some_and(|next| x + w / 2.0 + 8.0 > next.0 - text::width(next.1, SMALL) / 2.0);
            // Over its line, or ending there if the next one is close, or starting there.
            let starts = if crowded {
                [x + 3.0 - w, x - w / 2.0, x - 3.0]
            } else {
                [x - w / 2.0, x - 3.0, x + 3.0 - w]
            };
            let free = |left: f64, row: usize| {
                labels.iter().all(|&(other, its_row, words, _)| {
                    its_row != row
                        || left + w + 6.0 <= other
                        || other + text::width(words, SMALL) + 6.0 <= left
                })
            };
            let (left, row) = (0..=i)
                .flat_map(|row| starts.map(|left| (left.min(plot.right() - w).max(plot.x), row)))
                .find(|&(left, row)| free(left, row))
                .unwrap_or((x, i));
            labels.push((left, row, label, x));
        }
        labels
    }

    fn draw_rules(&self, pen: &mut Pen, frame: &Frame) {
        let stroke = Stroke::new(Paint::Muted, 1.2).dashes("4 3");
        let plot = frame.plot;
        for rule in &self.rules {
            match rule.on {
                On::X if frame.x.at(rule.at).and_then(inside).is_some() => {
                    let x = frame.x_at(rule.at);
                    pen.line((x, plot.y), (x, plot.bottom()), stroke);
                }
                On::Y if frame.y.at(rule.at).and_then(inside).is_some() => {
                    let y = frame.y_at(rule.at);
                    pen.line((plot.x, y), (plot.right(), y), stroke);
                }
                _ => {}
            }
        }
    }

    /// Labels of level rules lie in the plot, over or under their line, off the data.
    fn draw_level_labels(&self, pen: &mut Pen, frame: &Frame) {
        let plot = frame.plot;
        let mut places = Places::new(plot);
        for one in &self.series {
            for outline in one.outlines(frame) {
                places.avoid(&outline);
            }
        }
        for rule in self.rules.iter().filter(|rule| rule.on == On::Y) {
            if frame.y.at(rule.at).and_then(inside).is_none() {
                continue;
            }
            let label = text::fit(&rule.label, SMALL, plot.w - 8.0);
            let (w, h) = (text::width(&label, SMALL), SMALL + 2.0);
            let y = frame.y_at(rule.at);
            let across = [1.0, 0.0, 0.5, 0.75, 0.25].map(|t| plot.x + 4.0 + t * (plot.w - 8.0 - w));
            let spots = across
                .into_iter()
                .flat_map(|x| [y - 3.0 - h, y + 3.0].map(|y| Rect { x, y, w, h }));
            if let Some(spot) = places.choose(spots) {
                let text = Text::new(&label, SMALL).paint(Paint::Muted).halo().full(&rule.label);
                pen.text(spot.x, spot.y + SMALL - 1.0, text);
            }
        }
    }

    fn frame<'a>(
        &'a self,
        entries: &'a [Entry],
        size: Size,
        legend: Legend,
        above: f64,
    ) -> Option<Frame<'a>> {
        let on = |on: On| self.rules.iter().filter(move |rule| rule.on == on).map(|rule| rule.at);
        let points = || self.series.iter().flat_map(|one| &one.points);
        let mut xs: Vec<f64> = points().map(|point| point.0).collect();
        let log = self.y.scale == Scale::Log;
        let mut ys: Vec<f64> = self.series.iter().flat_map(|one| one.heights(log)).collect();
        if !points().any(|point| point.0.is_finite() && point.1.is_finite()) {
            return None;
        }
        xs.extend(on(On::X));
        ys.extend(on(On::Y));
        let around = Around {
            title: &self.title,
            x: &self.x,
            y: &self.y,
            x_ends: Ends::Data,
            y_ends: Ends::Ticks,
            x_grid: false,
            entries,
            legend,
            above,
        };
        Frame::find(around, size, &xs, &ys)
    }
}

impl Picture for Lines {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        let names: Vec<&str> = self.series.iter().map(|one| one.name.as_str()).collect();
        format!(
            "Lines of {} against {}. Series: {}.",
            chart::or(&self.y.label, "values"),
            chart::or(&self.x.label, "position"),
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
        series::entries(&self.series)
    }

    fn draw(&self, pen: &mut Pen, size: Size, legend: Legend) {
        let entries = self.entries();
        let Some(frame) = self.frame(&entries, size, legend, 0.0) else {
            return draw_no_data(pen, &self.title, size);
        };
        let rows = self.upright_labels(&frame).iter().map(|label| label.1 + 1).max().unwrap_or(0);
        let cut = self.series.iter().any(|one| one.band_is_cut(&frame));
        let above = rows as f64 * (SMALL + 3.0) + if cut { NOTE } else { 0.0 };
        let Some(frame) = self.frame(&entries, size, legend, above) else {
            return draw_no_data(pen, &self.title, size);
        };
        if cut {
            draw_note(pen, frame.plot, rows, CUT_NOTE);
        }
        frame.draw_behind(pen);
        pen.clip(frame.plot);
        for (n, one) in self.series.iter().enumerate() {
            one.draw_band(pen, &frame, one.look(n).paint);
        }
        self.draw_rules(pen, &frame);
        pen.unclip();
        frame.draw_before(pen);
        // A marker on the edge of the plot is drawn whole. The first line is solid: what lies exactly
        // over it is dashed and lets it show.
        let air = Rect {
            x: frame.plot.x - 6.0,
            y: frame.plot.y - 6.0,
            w: frame.plot.w + 12.0,
            h: frame.plot.h + 12.0,
        };
        pen.clip(air);
        for (n, one) in self.series.iter().enumerate() {
            one.draw_line(pen, &frame, one.look(n), n, self.series.len());
        }
        pen.unclip();
        self.draw_level_labels(pen, &frame);
        for (left, row, label, x) in self.upright_labels(&frame) {
            let y = frame.plot.y - 4.0 - row as f64 * (SMALL + 3.0);
            pen.line((x, frame.plot.y), (x, y + 2.0), Stroke::new(Paint::Muted, 1.2));
            pen.text(left, y, Text::new(label, SMALL).paint(Paint::Muted).halo());
        }
    }
}

/// The place, if it is on the axis.
fn inside(u: f64) -> Option<f64> {
    (0.0..=1.0).contains(&u).then_some(u)
}
