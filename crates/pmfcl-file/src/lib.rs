//! The pmfcl model file: one SQLite database that holds everything needed to go on learning.
//!
//! A task is in the file wholly or not at all, whenever the process is killed. `docs/model-file.md` describes the
//! tables, for other languages.
//!
//! ```
//! use pmfcl::{Learner, Rows, Settings};
//! use pmfcl_file::{Access, Change, Learned, Model, ModelFile, Schema, verify};
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("sales.pmf");
//! let mut learner = Learner::new(Settings::default())?;
//! learner.learn("january", Rows::new(&[1.0, 2.0, 3.0], 1)?, Rows::new(&[2.0, 4.1, 5.9], 1)?)?;
//! let schema = Schema::numbers(&["price".into()], &["sold".into()]);
//! let mut file = ModelFile::create(&path, &Model { schema, learned: Learned::Regression(Box::new(learner)) })?;
//! if let Learned::Regression(learner) = &mut file.model_mut().learned {
//!     learner.learn("february", Rows::new(&[4.0, 5.0], 1)?, Rows::new(&[8.1, 9.9], 1)?)?;
//! }
//! file.commit(Change::Task)?;
//! drop(file);
//! assert_eq!(verify(&path)?.tasks, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::unwrap_used)]

mod digest;
mod error;
mod layout;
mod model;
mod register;
mod save;
mod schema;
mod seal;
mod settings;
mod store;
mod stored;
mod verify;
mod version;
mod words;
mod written;

pub use error::FileError;
pub use model::{Learned, Model};
pub use register::Register;
pub use save::Replace;
pub use schema::{Column, ColumnKind, Input, Others, Schema};
pub use store::{Access, Change, ModelFile, Result, Store};
#[doc(hidden)]
pub use stored::{TaskRow, assemble};
pub use verify::{Verified, verify};
pub use version::{Changes, Version};
pub use words::Word;
