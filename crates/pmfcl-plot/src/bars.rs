//! Bars in groups: a few numbers side by side.

use crate::axis::{Axis, Scale};
use crate::chart::{self, Picture};
use crate::frame::{Around, CUT_NOTE, Frame, NOTE, draw_no_data, draw_note};
use crate::legend::{Entry, Key, Legend};
use crate::number;
use crate::pen::{Fill, Pen, Rect, Size, Stroke};
use crate::span::Ends;
use crate::theme::{Paint, Theme};

/// One bar for each name and group, with whiskers where the spread is known.
///
/// ```
/// use pmfcl_plot::{Axis, BarGroup, Bars, Theme};
///
/// let chart = Bars {
///     title: "Time to learn a task".into(),
///     names: vec!["100 columns".into(), "1000 columns".into()],
///     y: Axis::log("seconds"),
///     groups: vec![
///         BarGroup::new("pmfcl", [0.01, 0.8]).with_spread([0.001, 0.05]),
///         BarGroup::new("from scratch", [0.2, 31.0]),
///     ],
///     ..Bars::default()
/// };
/// assert!(chart.svg(Theme::Dark).contains("seconds"));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// What the chart shows.
    pub title: String,
    /// The chart in words, for screen readers; empty for a text made from the other fields.
    pub description: String,
    /// The size in pixels.
    pub size: Size,
    /// What the names are.
    pub x_label: String,
    /// The axis up. A linear one always has zero on it: a bar's length is its value.
    pub y: Axis,
    /// The places along the axis.
    pub names: Vec<String>,
    /// One bar at each place, in one colour.
    pub groups: Vec<BarGroup>,
    /// Where the legend goes.
    pub legend: Legend,
}

/// Bars of one colour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarGroup {
    /// The name in the legend.
    pub name: String,
    /// One value for each name; what is not finite or missing has no bar.
    pub values: Vec<f64>,
    /// Half the length of each whisker; empty for none.
    pub spread: Vec<f64>,
    /// The colour, if not the next one in line.
    pub paint: Option<Paint>,
    /// A colour for each bar, where a colour stands for a name; empty for one colour.
    pub paints: Vec<Paint>,
}

impl BarGroup {
    /// A group of values.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self { name: name.into(), values: values.into_iter().collect(), ..Self::default() }
    }

    /// With whiskers of ± these lengths.
    #[must_use]
    pub fn with_spread(mut self, spread: impl IntoIterator<Item = f64>) -> Self {
        self.spread = spread.into_iter().collect();
        self
    }

    /// Value and whisker at a place.
    fn at(&self, i: usize) -> Option<(f64, Option<f64>)> {
        let value = self.values.get(i).copied().filter(|v| v.is_finite())?;
        let spread = self.spread.get(i).copied().filter(|s| s.is_finite() && s.abs() > 0.0);
        Some((value, spread.map(f64::abs)))
    }
}

impl Bars {
    /// The chart as SVG.
    pub fn svg(&self, theme: Theme) -> String {
        chart::svg(self, theme)
    }

    fn paint(&self, n: usize) -> Paint {
        self.groups[n].paint.unwrap_or(Paint::Series(n))
    }

    /// What the y axis must hold.
    fn heights(&self, log: bool) -> Vec<f64> {
        let mut heights = Vec::new();
        for group in &self.groups {
            for (value, spread) in (0..self.names.len()).filter_map(|i| group.at(i)) {
                // On a logarithmic axis a bar needs some length below its value.
                heights.push(if log { value / 1.5 } else { value });
                if let Some(spread) = spread {
                    let low = value - spread;
                    heights.extend([if log { low.max(value / 10.0) } else { low }, value + spread]);
                } else {
                    heights.push(value);
                }
            }
        }
        heights
    }

    /// Whether a whisker goes on below a logarithmic axis.
    fn is_cut(&self, frame: &Frame) -> bool {
        let bars = self.groups.iter().flat_map(|group| (0..self.names.len()).map(|i| group.at(i)));
        bars.flatten().any(|(value, spread)| {
            frame.y.at(value).is_some() && spread.is_some_and(|s| frame.y.cuts(value - s))
        })
    }

    fn draw_bar(&self, pen: &mut Pen, frame: &Frame, n: usize, i: usize) {
        let Some((value, spread)) = self.groups[n].at(i) else { return };
        if frame.y.at(value).is_none() {
            return;
        }
        let slot = frame.plot.w / self.names.len() as f64;
        let air = (0.22 * slot).min(40.0);
        let each = ((slot - air) / self.groups.len() as f64).min(56.0);
        let used = each * self.groups.len() as f64;
        let x = frame.x_at(i as f64) - used / 2.0 + n as f64 * each;
        let gap = (0.08 * each).min(2.0);
        let base = if frame.y.log { frame.plot.bottom() } else { frame.y_at(0.0) };
        let tip = frame.y_at(value);
        let bar = Rect { x: x + gap, y: base.min(tip), w: each - 2.0 * gap, h: (base - tip).abs() };
        let name = format!("{}, {}: {}", self.names[i], self.groups[n].name, number::short(value));
        let paint = self.groups[n].paints.get(i).copied().unwrap_or(self.paint(n));
        pen.rect(bar, Fill::Paint(paint), 1.0, 0.0, Some(&name));
        if let Some(spread) = spread {
            let cut = frame.y.cuts(value - spread);
            let low = if cut { frame.plot.bottom() } else { frame.y_at(value - spread) };
            let high = frame.y_at(value + spread);
            let (middle, half) = (x + each / 2.0, (each / 5.0).clamp(1.5, 5.0));
            let stroke = Stroke::new(Paint::Ink, 1.2);
            pen.line((middle, low), (middle, high), stroke);
            // A whisker that goes on below the axis has no end there.
            for end in [(!cut).then_some(low), Some(high)].into_iter().flatten() {
                pen.line((middle - half, end), (middle + half, end), stroke);
            }
        }
    }
}

impl Picture for Bars {
    fn title(&self) -> &str {
        &self.title
    }

    fn description(&self) -> String {
        if !self.description.is_empty() {
            return self.description.clone();
        }
        let groups: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        format!(
            "Bars of {} for {}. Groups: {}.",
            chart::or(&self.y.label, "values"),
            chart::or(&self.names.join(", "), "nothing"),
            chart::or(&groups.join(", "), "none")
        )
    }

    fn size(&self) -> Size {
        self.size
    }

    fn legend(&self) -> Legend {
        self.legend
    }

    fn entries(&self) -> Vec<Entry> {
        let entry = |(n, group): (usize, &BarGroup)| Entry {
            name: group.name.clone(),
            paint: self.paint(n),
            key: Key::Swatch,
        };
        // One group needs no legend.
        if self.groups.len() > 1 {
            self.groups.iter().enumerate().map(entry).collect()
        } else {
            vec![]
        }
    }

    fn draw(&self, pen: &mut Pen, size: Size, legend: Legend) {
        let entries = self.entries();
        let log = self.y.scale == Scale::Log;
        let x = Axis::names(self.x_label.clone(), self.names.iter().cloned());
        let y = Axis { from_zero: !log, ..self.y.clone() };
        let around = Around {
            title: &self.title,
            x: &x,
            y: &y,
            x_ends: Ends::Data,
            y_ends: Ends::Ticks,
            x_grid: false,
            entries: &entries,
            legend,
            above: 0.0,
        };
        let heights = self.heights(log);
        if heights.is_empty() {
            return draw_no_data(pen, &self.title, size);
        }
        let Some(mut frame) = Frame::find(around, size, &[], &heights) else {
            return draw_no_data(pen, &self.title, size);
        };
        if self.is_cut(&frame) {
            let roomy = Frame::find(Around { above: NOTE, ..around }, size, &[], &heights);
            frame = roomy.unwrap_or(frame);
            draw_note(pen, frame.plot, 0, CUT_NOTE);
        }
        frame.draw_behind(pen);
        pen.clip(frame.plot);
        for i in 0..self.names.len() {
            for n in 0..self.groups.len() {
                self.draw_bar(pen, &frame, n, i);
            }
        }
        pen.unclip();
        frame.draw_before(pen);
    }
}
