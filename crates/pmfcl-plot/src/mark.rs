//! Marker shapes and dashes: what tells series apart where colours cannot.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use crate::pen::{Num, Pen, Stroke};
use crate::theme::{Paint, SERIES};

/// The shape drawn at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// ▼
    Wedge,
    /// ✚
    Plus,
    /// ★
    Star,
    /// ✖
    Cross,
    /// No shape, only the line.
    None,
}

/// How a line is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// ────
    Solid,
    /// ── ──
    Long,
    /// ─ · ─
    DashDot,
    /// · · ·
    Dots,
    /// No line, only the markers.
    None,
}

impl Marker {
    const ALL: [Self; 8] = [
        Self::Circle,
        Self::Square,
        Self::Triangle,
        Self::Diamond,
        Self::Wedge,
        Self::Plus,
        Self::Star,
        Self::Cross,
    ];

    /// The shape of the n-th series. After all colours are used up, each meets another shape.
    pub(crate) fn nth(n: usize) -> Self {
        Self::ALL[(n + 3 * (n / SERIES)) % Self::ALL.len()]
    }

    /// Draws the shape around a point, with a rim in the colour of the paper to set it off.
    pub(crate) fn draw(self, pen: &mut Pen, (x, y): (f64, f64), r: f64, paint: Paint) {
        if self != Self::None {
            pen.fill(&self.outline(x, y, r), paint, 1.0, Some(Stroke::new(Paint::Surface, 1.0)));
        }
    }

    /// The path around the shape. The sizes are such that all shapes look equally large.
    fn outline(self, x: f64, y: f64, r: f64) -> String {
        match self {
            Self::None => String::new(),
            Self::Circle => {
                let (x, r, d) = (Num(x - r), Num(r), Num(2.0 * r));
                format!("M{x} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", Num(y))
            }
            Self::Square => ring(x, y, &[1.25 * r; 4], 1.0 / 8.0),
            Self::Diamond => ring(x, y, &[1.3 * r; 4], 0.0),
            Self::Triangle => ring(x, y + 0.2 * r, &[1.4 * r; 3], 0.0),
            Self::Wedge => ring(x, y - 0.2 * r, &[1.4 * r; 3], 0.5),
            Self::Star => ring(x, y, &[1.5 * r, 0.65 * r].repeat(5), 0.0),
            Self::Plus => cross(x, y, r, 0.0),
            Self::Cross => cross(x, y, r, 1.0 / 8.0),
        }
    }
}

impl Dash {
    const ALL: [Self; 4] = [Self::Solid, Self::Long, Self::DashDot, Self::Dots];

    /// The dashes of the n-th series.
    pub(crate) fn nth(n: usize) -> Self {
        Self::ALL[(n + n / SERIES) % Self::ALL.len()]
    }

    /// As SVG writes it.
    pub(crate) fn dashes(self) -> &'static str {
        match self {
            Self::Solid | Self::None => "",
            Self::Long => "7 3.5",
            Self::DashDot => "8 3 2 3",
            Self::Dots => "2 2.5",
        }
    }
}

/// A closed path around a centre: corners at equal angles and given distances, the first one at
/// the top, turned by a part of a full turn.
fn ring(x: f64, y: f64, radii: &[f64], turn: f64) -> String {
    let n = radii.len() as f64;
    let corners = radii.iter().enumerate().map(|(i, &r)| (r, i as f64 / n + turn));
    closed(x, y, corners)
}

/// Four arms, turned by a part of a full turn.
fn cross(x: f64, y: f64, r: f64, turn: f64) -> String {
    let half = 0.42 * r; // of an arm's width
    let tip = 1.4 * r;
    let (far, near) = (tip.hypot(half), half * std::f64::consts::SQRT_2);
    let lean = (half / tip).atan() / TAU;
    let corners = (0..4).flat_map(|arm| {
        let at = f64::from(arm) / 4.0 + turn;
        [(far, at - lean), (far, at + lean), (near, at + 1.0 / 8.0)]
    });
    closed(x, y, corners)
}

/// A closed path through corners given as distance and part of a turn, clockwise from the top.
fn closed(x: f64, y: f64, corners: impl Iterator<Item = (f64, f64)>) -> String {
    let mut d = String::new();
    for (i, (r, turn)) in corners.enumerate() {
        let (sin, cos) = (turn * TAU).sin_cos();
        let verb = if i == 0 { 'M' } else { 'L' };
        write!(d, "{verb}{} {}", Num(x + r * sin), Num(y - r * cos))
            .expect("a String takes every write");
    }
    d.push('Z');
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_four_series_all_look_different() {
        let looks: Vec<_> = (0..24).map(|n| (n % SERIES, Marker::nth(n), Dash::nth(n))).collect();
        for (i, look) in looks.iter().enumerate() {
            assert!(!looks[..i].contains(look), "series {i}");
        }
    }

    #[test]
    fn neighbours_differ_without_colours() {
        for n in 0..24 {
            assert_ne!(Marker::nth(n), Marker::nth(n + 1));
            assert_ne!(Dash::nth(n), Dash::nth(n + 1));
        }
    }

    #[test]
    fn a_diamond_has_four_corners() {
        assert_eq!(Marker::Diamond.outline(0.0, 0.0, 1.0), "M0 -1.3L1.3 0L0 1.3L-1.3 0Z");
    }
}
