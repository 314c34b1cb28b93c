//! One page that shows what a model has learned and forgotten.
//!
//! [`page`] gives a single HTML file: no network, no framework, charts drawn into it. [`Pair`] is the Pareto
//! front of two tasks on its own, as numbers, chart or CSV.
//!
//! ```
//! use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
//! use pmfcl_report::{Pair, Subject, page};
//!
//! let mut learner = Learner::new(Problem::squared(), Settings::default())?;
//! let (x, y) = ([1.0, 2.0, 3.0, 4.0], [2.1, 3.9, 6.1, 8.0]);
//! learner.learn("january", TaskRows::new(Rows::new(&x, 1)?, Rows::new(&y, 1)?), 1.0)?;
//! let (x, y) = ([5.0, 6.0, 7.0], [9.8, 12.1, 13.2]);
//! learner.learn("february", TaskRows::new(Rows::new(&x, 1)?, Rows::new(&y, 1)?), 1.0)?;
//!
//! let names = ["hours".to_owned()];
//! let html = page(&Subject {
//!     title: "rentals",
//!     learner: &learner,
//!     features: &names,
//!     targets: &["bikes".to_owned()],
//!     coding: None,
//! })?;
//! assert!(html.starts_with("<!doctype html>"));
//!
//! let pair = Pair::of(&learner, &["january"], &["february"], 50)?;
//! assert_eq!(pair.csv().lines().count(), 51);
//! # Ok::<(), pmfcl_report::ReportError>(())
//! ```
//!
//! | module | what it is for |
//! | --- | --- |
//! | `subject`, `study` | what the page is about, and what all its sections need |
//! | `overview`, `calibration`, `checks`, `timeline`, `conflicts`, `trade`, `coefficients`, `memory`, `tasks` | one section each |
//! | `pair` | the front of two tasks |
//! | `limits` | how much a page may cost, and how long lists are thinned out |
//! | `figure`, `html`, `number` | charts, text and numbers as they stand in a page |
//! | `sheet` | the page put together |

#![warn(clippy::unwrap_used)]

mod calibration;
mod checks;
mod coefficients;
mod conflicts;
mod error;
mod figure;
mod html;
mod limits;
mod memory;
mod number;
mod overview;
mod pair;
mod sheet;
mod study;
mod subject;
mod tasks;
mod timeline;
mod trade;

pub use error::ReportError;
pub use pair::Pair;
pub use sheet::page;
pub use subject::{Coded, Subject};

pub use pmfcl::pareto::FrontPoint;
