//! Every test of the crate through its public interface, in one program: linking forty takes longer than running them.

mod bytes;
mod corpora;
mod lies;
mod noise;
mod refusals;
mod rounds;
mod signed;
mod support;
