//! Every test of the crate through its public interface, in one program: linking forty takes longer than running them.

mod corpora;
mod cost;
mod file;
mod layout_1;
mod register;
mod retry;
mod settings;
mod verify;
