//! The pmfcl model file: one SQLite database that holds everything needed to go on learning.
//!
//! A task is in the file wholly or not at all, whenever the process is killed. `docs/model-file.md` describes the
//! tables, for other languages.
//!
//! ```
//! use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
//! use pmfcl_file::{Model, ModelFile, Schema, verify};
//!
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("sales.pmf");
//! let mut learner = Learner::new(Problem::squared(), Settings::default())?;
//! let january = TaskRows::new(Rows::new(&[1.0, 2.0, 3.0], 1)?, Rows::new(&[2.0, 4.1, 5.9], 1)?);
//! learner.learn("january", january, 1.0)?;
//! let schema = Schema::numbers(&["price".into()], &["sold".into()]);
//! let mut file = ModelFile::create(&path, &Model { schema, learner })?;
//! let february = TaskRows::new(Rows::new(&[4.0, 5.0], 1)?, Rows::new(&[8.1, 9.9], 1)?);
//! file.model_mut().learner.learn("february", february, 1.0)?;
//! file.commit()?;
//! drop(file);
//! assert_eq!(verify(&path)?.tasks, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::unwrap_used)]

mod audit;
mod column_names;
mod create;
mod digest;
mod error;
mod layout;
mod layout_1;
#[cfg(feature = "private")]
mod ledger;
mod model;
mod model_file;
mod pool;
mod read;
mod register;
mod releases;
mod save;
mod schema;
mod seal;
mod settings;
mod shard;
mod store;
mod verify;
mod version;
mod write;

pub use audit::{AuditEntry, audit};
pub use column_names::ColumnNames;
pub use error::FileError;
#[cfg(feature = "private")]
pub use ledger::{Ledger, Release};
pub use model::Model;
pub use model_file::ModelFile;
#[doc(hidden)]
pub use read::{TaskRow, assemble};
pub use register::Register;
pub use save::Replace;
pub use schema::{Coding, Column, ColumnKind, Input, MissingValues, Others, Schema};
pub use shard::{FittedPart, Shard, ShardError};
pub use store::{Access, Result, Store};
pub use verify::{Verified, verify};
pub use version::{Changes, Version};
