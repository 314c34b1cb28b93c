//! Every test of the crate through its public interface, in one program: linking forty takes longer than running them.

mod bombs;
mod corpora;
mod csv;
mod formats;
