//! Every test of the crate through its public interface, in one program: linking forty takes longer than running them.

mod corpora;
mod cost;
mod faults;
mod file;
mod kills;
mod layout_1;
#[cfg(feature = "private")]
mod ledger;
mod limits;
mod register;
mod retry;
mod settings;
mod stateful;
mod verify;
