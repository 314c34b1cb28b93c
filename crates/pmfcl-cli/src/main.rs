//! The pmfcl command line.
fn main() {}
