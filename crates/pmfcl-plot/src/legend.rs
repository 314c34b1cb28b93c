//! Which line is which: to the right of or below the data, never over it.

use crate::mark::{Dash, Marker};
use crate::pen::{Fill, Pen, Rect, Size, Stroke, Text};
use crate::text::{self, NORMAL};
use crate::theme::Paint;

/// Where the legend goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Legend {
    /// To the right if it fits there, else below.
    #[default]
    Auto,
    /// To the right of the data.
    Right,
    /// Below the data.
    Below,
    /// Left out.
    Hidden,
}

/// One line of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) paint: Paint,
    pub(crate) key: Key,
}

/// The little picture before the name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Key {
    Line(Dash, Marker),
    Swatch,
}

/// A legend with its place found: how much room it takes from the right or from below.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    entries: Vec<Entry>,
    rows: usize,
    /// Of each column.
    widths: Vec<f64>,
    /// Taken from the right; 0 if below.
    pub(crate) width: f64,
    /// Taken from below; 0 if to the right.
    pub(crate) height: f64,
}

const KEY: f64 = 30.0;
const GAP: f64 = 8.0;
const ROW: f64 = 19.0;
const AIR: f64 = 16.0;

impl Placed {
    /// Finds a place for the entries in a picture of a size.
    pub(crate) fn find(entries: &[Entry], choice: Legend, size: Size) -> Self {
        let entries: Vec<Entry> =
            entries.iter().filter(|entry| !entry.name.trim().is_empty()).cloned().collect();
        let nothing = Self { entries: vec![], rows: 0, widths: vec![], width: 0.0, height: 0.0 };
        if entries.is_empty() || choice == Legend::Hidden {
            return nothing;
        }
        let widest = text::widest(entries.iter().map(|entry| entry.name.as_str()), NORMAL);
        let column = KEY + GAP + widest;
        let fits_right =
            column <= 0.3 * size.width && (entries.len() as f64) * ROW <= 0.7 * size.height;
        if choice == Legend::Right || (choice == Legend::Auto && fits_right) {
            let column = column.min(0.4 * size.width);
            let rows = entries.len();
            return Self { entries, rows, widths: vec![column], width: AIR + column, height: 0.0 };
        }
        let room = size.width - 2.0 * AIR;
        // As many columns as fit side by side, each as wide as its widest name.
        let (rows, widths) = (1..=entries.len())
            .map(|rows| (rows, column_widths(&entries, rows, room)))
            .find(|(_, widths)| total(widths) <= room)
            .unwrap_or((entries.len(), vec![room]));
        let height = 8.0 + rows as f64 * ROW;
        Self { entries, rows, widths, width: 0.0, height }
    }

    /// Draws it: to the right of the plot, or in the strip of `height` that ends at `bottom`.
    pub(crate) fn draw(&self, pen: &mut Pen, plot: Rect, bottom: f64, size: Size) {
        if self.entries.is_empty() {
            return;
        }
        let (left, top) = if self.width > 0.0 {
            (plot.right() + AIR, plot.y + 2.0)
        } else {
            let used = total(&self.widths);
            // Under the plot if it fits there, else from the left margin on.
            let left = if plot.x + used <= size.width - AIR { plot.x } else { AIR };
            (left, bottom - self.height + 8.0)
        };
        for (i, entry) in self.entries.iter().enumerate() {
            let (column, row) = (i / self.rows, i % self.rows);
            let x = left + self.widths[..column].iter().map(|width| width + AIR).sum::<f64>();
            let y = top + row as f64 * ROW + ROW / 2.0;
            entry.draw_key(pen, x, y);
            let name = text::fit(&entry.name, NORMAL, self.widths[column] - KEY - GAP + 0.5);
            pen.text(x + KEY + GAP, y + 0.36 * NORMAL, Text::new(&name, NORMAL).full(&entry.name));
        }
    }
}

/// The widths of the columns if the entries stand in so many rows, column by column.
fn column_widths(entries: &[Entry], rows: usize, room: f64) -> Vec<f64> {
    entries
        .chunks(rows)
        .map(|column| {
            let widest = text::widest(column.iter().map(|entry| entry.name.as_str()), NORMAL);
            (KEY + GAP + widest).min(room)
        })
        .collect()
}

/// The width of columns side by side.
fn total(widths: &[f64]) -> f64 {
    widths.iter().sum::<f64>() + AIR * widths.len().saturating_sub(1) as f64
}

impl Entry {
    fn draw_key(&self, pen: &mut Pen, x: f64, y: f64) {
        match self.key {
            Key::Line(dash, marker) => {
                if dash != Dash::None {
                    let stroke = Stroke::new(self.paint, 2.0).dashes(dash.dashes());
                    pen.line((x, y), (x + KEY, y), stroke);
                }
                marker.draw(pen, (x + KEY / 2.0, y), 3.5, self.paint);
            }
            Key::Swatch => {
                let swatch = Rect { x: x + KEY - 14.0, y: y - 6.0, w: 14.0, h: 12.0 };
                pen.rect(swatch, Fill::Paint(self.paint), 1.0, 2.0, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(n: usize, name: &str) -> Vec<Entry> {
        let key = Key::Line(Dash::Solid, Marker::Circle);
        (0..n).map(|i| Entry { name: name.into(), paint: Paint::Series(i), key }).collect()
    }

    #[test]
    fn short_names_stand_beside_and_long_ones_below() {
        let size = Size::default();
        let short = Placed::find(&entries(3, "joint"), Legend::Auto, size);
        assert!(short.width > 0.0 && short.height < 1.0);
        let long = "the joint model of all tasks seen so far";
        let long = Placed::find(&entries(3, long), Legend::Auto, size);
        assert!(long.width < 1.0 && long.height > 0.0);
    }

    #[test]
    fn more_entries_than_rows_go_below() {
        let placed = Placed::find(&entries(20, "joint"), Legend::Auto, Size::default());
        assert!(placed.width < 1.0 && placed.widths.len() > 1);
    }

    #[test]
    fn series_without_a_name_have_no_legend() {
        let placed = Placed::find(&entries(2, " "), Legend::Right, Size::default());
        assert!(placed.width < 1.0 && placed.height < 1.0);
    }
}
