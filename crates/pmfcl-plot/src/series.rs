//! A series of points: a line, its markers and the band around it.

use crate::frame::Frame;
use crate::legend::{Entry, Key};
use crate::mark::{Dash, Marker};
use crate::pen::{Pen, Stroke, path};
use crate::theme::Paint;

/// Points that belong together, joined by a line.
///
/// Points that are not finite are left out, and the line has a gap there.
///
/// ```
/// use pmfcl_plot::Series;
///
/// let joint = Series::from_values("joint", [0.31, 0.28, 0.27]).with_band([0.02, 0.01, 0.01]);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The name in the legend; empty for none.
    pub name: String,
    /// The points, in the order in which the line joins them.
    pub points: Vec<(f64, f64)>,
    /// Half the height of the shaded band at each point (±1 standard deviation, say); empty for
    /// none.
    pub band: Vec<f64>,
    /// The colour, if not the next one in line.
    pub paint: Option<Paint>,
    /// The dashes, if not the next ones in line.
    pub dash: Option<Dash>,
    /// The marker, if not the next one in line.
    pub marker: Option<Marker>,
}

impl Series {
    /// A series of points `(x, y)`.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), ..Self::default() }
    }

    /// A series of values at 0, 1, 2, …: the places of an axis of names.
    pub fn from_values(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, values.into_iter().enumerate().map(|(i, v)| (i as f64, v)))
    }

    /// With a band of ± these heights.
    #[must_use]
    pub fn with_band(mut self, heights: impl IntoIterator<Item = f64>) -> Self {
        self.band = heights.into_iter().collect();
        self
    }

    /// In this colour.
    #[must_use]
    pub fn with_paint(mut self, paint: Paint) -> Self {
        self.paint = Some(paint);
        self
    }

    /// With these dashes.
    #[must_use]
    pub fn with_dash(mut self, dash: Dash) -> Self {
        self.dash = Some(dash);
        self
    }

    /// With this marker.
    #[must_use]
    pub fn with_marker(mut self, marker: Marker) -> Self {
        self.marker = Some(marker);
        self
    }

    /// What the y axis must hold: the points and, where it can be drawn, the band.
    pub(crate) fn heights(&self, log: bool) -> Vec<f64> {
        let mut heights: Vec<f64> = self.points.iter().map(|&(_, y)| y).collect();
        for (&(_, y), &half) in self.points.iter().zip(&self.band) {
            if y.is_finite() && half.is_finite() {
                // A band that reaches down to zero must not stretch a logarithmic axis for ever.
                heights.push(if log { (y - half.abs()).max(y / 10.0) } else { y - half.abs() });
                heights.push(y + half.abs());
            }
        }
        heights
    }

    pub(crate) fn look(&self, n: usize) -> Look {
        Look {
            paint: self.paint.unwrap_or(Paint::Series(n)),
            dash: self.dash.unwrap_or(Dash::nth(n)),
            marker: self.marker.unwrap_or(Marker::nth(n)),
        }
    }

    /// Where the points lie; `None` for those that cannot be drawn.
    pub(crate) fn places(&self, frame: &Frame) -> Vec<Option<(f64, f64)>> {
        self.points.iter().map(|&point| frame.at(point)).collect()
    }

    /// Where the band's edges lie: upper and lower, for each point that has both.
    fn band_edges(&self, frame: &Frame) -> Vec<Option<[(f64, f64); 2]>> {
        let edge = |(&(x, y), &half): (&(f64, f64), &f64)| {
            let (place, _) = frame.at((x, y))?;
            let half = half.is_finite().then_some(half.abs())?;
            let upper = frame.y.at(y + half).map(|_| frame.y_at(y + half))?;
            // Cut at the floor of a logarithmic axis: zero and less have no place on it.
            let lower =
                if frame.y.cuts(y - half) { frame.plot.bottom() } else { frame.y_at(y - half) };
            Some([(place, upper), (place, lower)])
        };
        self.points.iter().zip(&self.band).map(edge).collect()
    }

    /// Whether a part of the band lies below a logarithmic axis and is not seen.
    pub(crate) fn band_is_cut(&self, frame: &Frame) -> bool {
        self.points.iter().zip(&self.band).any(|(&point, &half)| {
            half.is_finite() && frame.at(point).is_some() && frame.y.cuts(point.1 - half.abs())
        })
    }

    /// The line and the edges of the band: what labels should keep off.
    pub(crate) fn outlines(&self, frame: &Frame) -> [Vec<Option<(f64, f64)>>; 3] {
        let edges = self.band_edges(frame);
        let side = |k: usize| edges.iter().map(|edge| edge.map(|pair| pair[k])).collect();
        [self.places(frame), side(0), side(1)]
    }

    /// Draws the band: one shape for each stretch without a gap.
    pub(crate) fn draw_band(&self, pen: &mut Pen, frame: &Frame, paint: Paint) {
        let edges = self.band_edges(frame);
        let mut d = String::new();
        for stretch in edges.split(Option::is_none).filter(|stretch| !stretch.is_empty()) {
            // A point between two gaps has a band as wide as its marker.
            if let [Some([(x, upper), (_, lower)])] = *stretch {
                let corners = [(-3.5, upper), (3.5, upper), (3.5, lower), (-3.5, lower)];
                d.push_str(&path(corners.map(|(dx, y)| Some((x + dx, y)))));
                d.push('Z');
                continue;
            }
            let upper = stretch.iter().flatten().map(|edge| Some(edge[0]));
            let lower = stretch.iter().rev().flatten().map(|edge| Some(edge[1]));
            d.push_str(&path(upper.chain(lower)));
            d.push('Z');
        }
        if !d.is_empty() {
            pen.fill(&d, paint, 0.16, None);
        }
    }

    /// Draws the line and its markers; `n` of `all` series, so that markers do not meet.
    pub(crate) fn draw_line(&self, pen: &mut Pen, frame: &Frame, look: Look, n: usize, all: usize) {
        let places = self.places(frame);
        let d = path(places.iter().copied());
        if look.dash != Dash::None && !d.is_empty() {
            pen.stroke(&d, Stroke::new(look.paint, 1.8).dashes(look.dash.dashes()));
        }
        let every = if places.len() <= MOST_MARKERS { 1 } else { places.len() / 12 };
        let shift = if every == 1 { 0 } else { n * every / all.max(1) };
        for (i, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let alone = (i == 0 || places[i - 1].is_none())
                && (i + 1 == places.len() || places[i + 1].is_none());
            if i % every == shift || look.dash == Dash::None {
                look.marker.draw(pen, place, 3.5, look.paint);
            } else if alone || (look.marker == Marker::None && places.len() == 1) {
                Marker::Circle.draw(pen, place, 2.0, look.paint);
            }
        }
    }
}

/// More points than this get a marker only now and then.
const MOST_MARKERS: usize = 45;

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) paint: Paint,
    pub(crate) dash: Dash,
    pub(crate) marker: Marker,
}

/// The legend of some series.
pub(crate) fn entries(series: &[Series]) -> Vec<Entry> {
    series
        .iter()
        .enumerate()
        .map(|(n, one)| {
            let look = one.look(n);
            let key = Key::Line(look.dash, look.marker);
            Entry { name: one.name.clone(), paint: look.paint, key }
        })
        .collect()
}
