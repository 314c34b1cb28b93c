//! Streams of images by the protocol of the DER paper (Buzzega et al. 2020), its printed table, and who runs in it.
//!
//! [`Images`] are read once; a [`Stream`] shows them task by task through permutations, rotations or a choice of
//! classes, without a copy. A [`Student`] follows a stream and leaves a [`Run`]; [`run_all`] lets several [`Entry`]s run
//! side by side, and [`tables`] compares what they reached with what was [`published`].

mod entrants;
mod exact;
pub mod published;
mod read;
mod report;
mod rotate;
mod run;
mod stream;

pub use entrants::{entries, wanted};
pub use exact::Exact;
pub use read::{Images, Pixels};
pub use report::tables;
pub use run::{Entry, Finish, Run, Student, follow, run_all};
pub use stream::{Benchmark, Stage, Stream};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table of images cannot be read.
    #[error(transparent)]
    Table(#[from] crate::data::Error),
    /// A file of images cannot be read.
    #[error(transparent)]
    File(#[from] pmfcl_read::ReadError),
    /// There are no images where they were looked for.
    #[error("{dir}: neither {wanted}.parquet nor train-images-idx3-ubyte is there")]
    NotFound {
        /// Where.
        dir: String,
        /// The name of the set.
        wanted: String,
    },
    /// The images are not what the protocol is about.
    #[error("{what}")]
    Shape {
        /// What is wrong, with the file.
        what: String,
    },
    /// The library refused.
    #[error(transparent)]
    Learn(#[from] pmfcl::Error),
    /// Outputs are not numbers.
    #[error("{name} diverged: its outputs are not finite after task {task}")]
    Diverged {
        /// The method.
        name: String,
        /// The task, counted from 1.
        task: usize,
    },
    /// A method nobody knows.
    #[error("no method `{name}`; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}
