//! Secure aggregation of summaries: a server learns the *sum* of its clients' summaries, exactly, and nothing else of them.

mod client;
mod error;
mod fixed;
mod keys;
mod mask;
mod params;
mod roster;
mod server;
mod sharing;
mod wire;

pub use client::Client;
pub use error::{Error, Result};
pub use fixed::FixedPoint;
pub use getrandom::SysRng;
pub use params::Params;
pub use server::{Server, Total};
