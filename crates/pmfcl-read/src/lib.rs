//! Stage *read*: tables from files as streamed batches of columns, in bounded memory.
//!
//! ```text
//! Source::open ── fields ──► scan(wanted) ──► next: cut a piece off (cheap, in order)
//!                                                 decode: piece → batch of columns (any thread)
//!                                                     gather: columns → row-major table
//! ```
//!
//! A [`Source`] is one opened file: CSV (plain, gzip, zstd, standard input), Parquet, Arrow IPC,
//! NumPy `.npy` and `.npz`, IDX. It lists its [`Field`]s; [`Source::scan`] names the columns wanted
//! and in which [`Form`]. The [`Scan`] hands out [`Piece`]s in file order; which pieces there are
//! depends on the file and the [`Options`] alone, never on the threads, so results reduced by
//! [`Batch::index`] are the same on any machine. Memory in use is that of the pieces in flight. Files
//! that lie elsewhere are read by range through [`RemoteFiles`], which others implement. Without the
//! default feature `formats`, Parquet, Arrow and zstd are refused, and the crates for them are not built.
//!
//! ```
//! use pmfcl_read::{Form, Options, Source, Wanted};
//! let source = Source::from_bytes("bikes.csv", b"temp,town\n3.5,Bern\n4,Wien\n".to_vec(), &Options::default())?;
//! let scan = source.scan(&[Wanted::new("temp", Form::Number)])?;
//! while let Some(piece) = scan.next()? {
//!     let batch = scan.decode(piece)?;
//!     let mut rows = vec![0.0; batch.rows];
//!     batch.gather(0..batch.rows, &[(0, 0)], &mut rows, 1);
//!     assert_eq!(rows, [3.5, 4.0]);
//! }
//! # Ok::<(), pmfcl_read::ReadError>(())
//! ```

#![cfg_attr(
    not(feature = "formats"),
    allow(dead_code, unused_imports, reason = "some of it serves Parquet and Arrow alone")
)]

mod batch;
mod cells;
#[cfg(feature = "formats")]
mod columnar;
mod csv;
mod date;
mod dense;
mod error;
mod field;
mod gaps;
mod idx;
#[cfg(feature = "formats")]
mod ipc;
mod number;
mod numpy;
#[cfg(feature = "formats")]
mod parquet;
mod profile;
mod remote;
mod scan;
mod source;
mod store;

pub use batch::{Batch, Column, Gap, Numbers, Texts};
pub use date::{DateFormat, moment};
pub use error::{Place, ReadError};
pub use field::{Field, Form, Kind, Missing, Options, Wanted};
pub use profile::Profile;
pub use remote::{RemoteFile, RemoteFiles, remote_address};
pub use scan::{Piece, Scan};
pub use source::{CommaCell, Source};
