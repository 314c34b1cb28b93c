//! Parquet and Arrow. The first two bytes choose which, and the options.

use pmfcl_read::{Options, Source};

use super::table;

/// Reads it in every way.
pub fn run(bytes: &[u8]) {
    let Some((way, file)) = table::way(bytes) else { return };
    let name = if way.second { "x.arrow" } else { "x.parquet" };
    let open = |options: &Options| Source::from_bytes(name, file.to_vec(), options);
    table::go_through(&way, table::Found::ByOthers, &[&open]);
}
