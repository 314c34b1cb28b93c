//! Names along an axis: flat if they fit, slanted if not, upright if there are many.

use crate::pen::{Anchor, Pen, Text};
use crate::text::{self, SMALL};
use crate::theme::Paint;

/// Names with the angle found at which they fit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Names {
    /// What is written, in lines.
    texts: Vec<Vec<String>>,
    whole: Vec<String>,
    angle: Angle,
    /// Only every so-manieth name is written.
    stride: usize,
    /// Pixels below the axis.
    pub(crate) depth: f64,
    /// Pixels the first name reaches to the left of its place.
    pub(crate) overhang: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Angle {
    Flat,
    Slanted,
    Upright,
}

/// The longest a name may get when it is not flat.
const LONGEST: f64 = 125.0;
/// From one line of text to the next.
const LINE: f64 = SMALL * 1.1;
/// Between two flat names.
const GAP: f64 = 8.0;
/// A flat name has at most so many lines.
const MOST_LINES: usize = 3;
const SLANT: f64 = std::f64::consts::FRAC_1_SQRT_2;

impl Names {
    /// Finds the angle for names that stand `spacing` pixels apart.
    pub(crate) fn find(names: &[String], spacing: f64) -> Self {
        let whole = names.to_vec();
        if let Some(texts) = flat(names, spacing - GAP) {
            let lines = texts.iter().map(Vec::len).max().unwrap_or(1).max(1);
            let first = texts.first().map_or(0.0, |lines| block_width(lines));
            let depth = 2.0 + SMALL + LINE * (lines - 1) as f64;
            return Self {
                texts,
                whole,
                angle: Angle::Flat,
                stride: 1,
                depth,
                overhang: first / 2.0,
            };
        }
        let cut = cut(names);
        let widest = text::widest(cut.iter().map(String::as_str), SMALL);
        let stride = (LINE / spacing.max(0.1)).ceil().max(1.0) as usize;
        let (angle, depth, overhang) = if spacing * SLANT >= LINE {
            (Angle::Slanted, (widest + SMALL) * SLANT + 2.0, reach(&cut, spacing))
        } else {
            (Angle::Upright, widest + 4.0, SMALL / 2.0)
        };
        let texts = cut.into_iter().map(|name| vec![name]).collect();
        Self { texts, whole, angle, stride, depth, overhang }
    }

    /// Writes them below `y`; `at` says where the i-th one stands.
    pub(crate) fn draw(&self, pen: &mut Pen, y: f64, at: impl Fn(usize) -> f64) {
        for i in (0..self.texts.len()).step_by(self.stride) {
            let x = at(i);
            for (k, line) in self.texts[i].iter().enumerate() {
                let text = Text::new(line, SMALL).paint(Paint::Muted);
                match self.angle {
                    Angle::Flat => {
                        let y = y + SMALL + LINE * k as f64;
                        pen.text(x, y, text.anchor(Anchor::Middle));
                    }
                    Angle::Slanted => {
                        let text = text.anchor(Anchor::End).turn(-45.0).full(&self.whole[i]);
                        pen.text(x + 0.3 * SMALL, y + 0.6 * SMALL, text);
                    }
                    Angle::Upright => {
                        let text = text.anchor(Anchor::End).turn(-90.0).full(&self.whole[i]);
                        pen.text(x + 0.36 * SMALL, y + 2.0, text);
                    }
                }
            }
        }
    }
}

/// The names in lines no wider than `room`; `None` if one of them does not fit.
fn flat(names: &[String], room: f64) -> Option<Vec<Vec<String>>> {
    names
        .iter()
        .map(|name| {
            let lines = text::wrap(name, SMALL, room, MOST_LINES);
            let words: Vec<&str> = name.split_whitespace().collect();
            (lines.join(" ") == words.join(" ")).then_some(lines)
        })
        .collect()
}

/// The names, those that are too long cut at the end, or in the middle if they would look the same.
fn cut(names: &[String]) -> Vec<String> {
    let at_end: Vec<String> = names.iter().map(|name| text::fit(name, SMALL, LONGEST)).collect();
    let (mut all, mut left) = (names.to_vec(), at_end.clone());
    for list in [&mut all, &mut left] {
        list.sort_unstable();
        list.dedup();
    }
    if all.len() == left.len() {
        return at_end;
    }
    names.iter().map(|name| text::fit_middle(name, SMALL, LONGEST)).collect()
}

fn block_width(lines: &[String]) -> f64 {
    text::widest(lines.iter().map(String::as_str), SMALL)
}

/// How far slanted names reach to the left of the first one's place.
fn reach(texts: &[String], spacing: f64) -> f64 {
    texts
        .iter()
        .enumerate()
        .map(|(i, name)| text::width(name, SMALL) * SLANT - i as f64 * spacing)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize, name: &str) -> Vec<String> {
        vec![name.to_owned(); n]
    }

    #[test]
    fn the_angle_follows_the_room() {
        assert_eq!(Names::find(&names(5, "spring"), 80.0).angle, Angle::Flat);
        assert_eq!(Names::find(&names(5, "a longish season"), 40.0).angle, Angle::Slanted);
        assert_eq!(Names::find(&names(42, "a longish season"), 13.0).angle, Angle::Upright);
    }

    #[test]
    fn words_go_below_each_other_before_they_are_slanted() {
        let names = Names::find(&names(5, "spring again"), 60.0);
        assert_eq!(names.angle, Angle::Flat);
        assert_eq!(names.texts[0], ["spring", "again"]);
    }

    #[test]
    fn where_lines_would_touch_some_are_left_out() {
        assert_eq!(Names::find(&names(42, "task"), 13.0).stride, 1);
        assert_eq!(Names::find(&names(200, "task"), 3.0).stride, 5);
    }

    #[test]
    fn names_that_differ_at_the_end_are_cut_in_the_middle() {
        let names: Vec<String> =
            (0..9).map(|i| format!("household in the north, no {i}")).collect();
        let cut = cut(&names);
        assert!(cut.iter().all(|name| name.contains('…')));
        assert!(cut.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
