//! IDX files, plain and in gzip. The first two bytes choose the options and the wrapping: as it is, or put into gzip
//! with the right checksum, so that what is behind it is reached.

use pmfcl_read::{Options, Source};

use super::crc::crc32;
use super::table;

/// Reads it in every way.
pub fn run(bytes: &[u8]) {
    let Some((way, file)) = table::way(bytes) else { return };
    let file = if way.second { gzip(file) } else { file.to_vec() };
    let open = |options: &Options| Source::from_bytes("x-idx3-ubyte", file.clone(), options);
    table::go_through(&way, table::Found::ByUs, &[&open]);
}

/// In gzip, stored in one block.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(0xffff)];
    let length = bytes.len() as u16;
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(bytes);
    out.extend(crc32(bytes).to_le_bytes());
    out.extend(u32::from(length).to_le_bytes());
    out
}
