//! Charts of pmfcl: plain data in, SVG out.
//!
//! | chart       | shows                                                              |
//! |-------------|--------------------------------------------------------------------|
//! | [`Lines`]   | how losses, forgetting and bounds change along tasks, steps, sizes |
//! | [`Front`]   | what two tasks' losses can be at once, and where models stand      |
//! | [`HeatMap`] | tasks by tasks or tasks by time, in colours                        |
//! | [`Bars`]    | a few numbers side by side, with their spread                      |
//! | [`Grid`]    | several of these in one picture                                    |
//!
//! ```
//! use pmfcl_plot::{Axis, Lines, Series, Theme};
//!
//! let chart = Lines {
//!     title: "Loss after each task".into(),
//!     x: Axis::names("task", ["spring", "summer", "autumn"]),
//!     y: Axis::linear("loss (kWh²)"),
//!     series: vec![
//!         Series::from_values("pmfcl", [0.31, 0.28, 0.27]).with_band([0.02, 0.01, 0.01]),
//!         Series::from_values("fine-tuned", [0.31, 0.44, 0.61]).with_band([0.02, 0.03, 0.05]),
//!     ],
//!     ..Lines::default()
//! };
//! let svg = chart.svg(Theme::Auto);
//! ```
//!
//! Every chart is a struct of public fields with defaults; `svg` draws it. The same data give the
//! same bytes. Values that are not finite are left out, never written; a chart without a value says
//! "no data". Series differ in colour, marker and dashes, so a print in grey can be read. Nothing
//! here reads or writes files.
//!
//! With the feature `png`, `png(&svg, 2.0)` gives a picture in pixels. It carries the font
//! `DejaVu Sans`, whose licence is `FONT_LICENSE`.
//!
//! Inside, each stage is one module:
//!
//! ```text
//! lines front bars heat grid        the charts
//!   └─ frame legend names place     where things go
//!        └─ span number text        ticks, numbers in words, widths of texts
//!             └─ pen theme mark ramp   SVG, colours, shapes
//! ```

#![warn(clippy::unwrap_used)]

mod axis;
mod bars;
mod chart;
mod frame;
mod front;
mod grid;
mod heat;
mod legend;
mod lines;
mod mark;
mod names;
mod number;
mod pen;
mod place;
#[cfg(feature = "png")]
mod png;
mod ramp;
mod series;
mod span;
mod text;
mod theme;

pub use axis::{Axis, Scale};
pub use bars::{BarGroup, Bars};
pub use chart::Chart;
pub use front::{Front, Mark};
pub use grid::Grid;
pub use heat::{CellText, HeatMap};
pub use legend::Legend;
pub use lines::{Lines, On, Rule};
pub use mark::{Dash, Marker};
pub use pen::{Escaped, Size};
#[cfg(feature = "png")]
pub use png::{FONT_LICENSE, LONGEST, PngError, png};
pub use ramp::Ramp;
pub use series::Series;
pub use theme::{Paint, SERIES, Theme};
