//! A checksum over the whole file, so that even a changed byte nobody reads is found.
//!
//! SQLite's own check and our seals cover every byte that means something. Pages also have room that means
//! nothing, and a disk that loses bytes there will lose others. So when a writer closes the file the whole image is
//! summed up, and the sum is put into a row of fixed size that is overwritten in place: that changes one page
//! that is left out of the sum (and checked by its form), and two counters in the header (which must agree).
//!
//! The sum is written after the tasks are safe. Killed before, the file has none, which is no damage: the
//! next writer adds it. Files above [`LARGEST`] have none either, so that a task does not cost the time of
//! reading all others.

use rusqlite::Connection;

/// Files up to this size have a checksum of their own.
pub(crate) const LARGEST: i64 = 64 << 20;

/// Bytes of the row's value: length of the file, checksum.
const BYTES: usize = 12;

/// Stands for no checksum.
pub(crate) const NONE: [u8; BYTES] = [0; BYTES];

/// The image of the database as it is in the file, where it is not too large.
pub(crate) fn image(connection: &mut Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let count: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if count.saturating_mul(size) > LARGEST {
        return Ok(None);
    }
    Ok(Some(connection.serialize("main")?.to_vec()))
}

/// The checksum of an image.
pub(crate) fn value(image: &[u8], page_size: usize, own: usize) -> [u8; BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    for (i, page) in image.chunks(page_size).enumerate() {
        match i {
            0 if page.len() >= 100 => {
                hasher.update(&page[..24]);
                hasher.update(&page[28..92]);
                hasher.update(&page[96..]);
            }
            _ if i + 1 == own => {}
            _ => hasher.update(page),
        }
    }
    let mut value = NONE;
    value[..8].copy_from_slice(&(image.len() as u64).to_le_bytes());
    value[8..].copy_from_slice(&hasher.finalize().to_le_bytes());
    value
}

/// The page of the table `digest`.
pub(crate) fn own_page(connection: &Connection) -> rusqlite::Result<usize> {
    connection.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'digest'", [], |row| {
        row.get::<_, i64>(0).map(|page| usize::try_from(page).unwrap_or(0))
    })
}

/// The value on record.
pub(crate) fn stored(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    connection.query_row("SELECT value FROM digest WHERE place = 1", [], |row| row.get(0))
}

/// What is wrong with an image that has `stored` on record; `Ok(false)` where there is no checksum.
pub(crate) fn check(
    image: &[u8],
    page_size: usize,
    own: usize,
    stored: &[u8],
) -> Result<bool, &'static str> {
    if image.len() < 100 || image[24..28] != image[92..96] {
        return Err("the counters in its header do not agree");
    }
    let from = own.checked_sub(1).map(|page| page * page_size);
    let page = from.and_then(|from| image.get(from..from + page_size));
    if !page.is_some_and(|page| is_own(page, stored)) {
        return Err("the page of its checksum has changed bytes");
    }
    if stored == NONE {
        return Ok(false);
    }
    if stored == value(image, page_size, own) { Ok(true) } else { Err("a byte has changed") }
}

/// A leaf with one cell at its end, and nothing but zeros before it.
fn is_own(page: &[u8], stored: &[u8]) -> bool {
    // Payload length, row 1; header of three bytes: the row's own number, twelve bytes.
    let mut cell = vec![3 + BYTES as u8, 1, 3, 0, 12 + 2 * BYTES as u8];
    cell.extend_from_slice(stored);
    let Some(start) = page.len().checked_sub(cell.len()) else { return false };
    let place = (start as u16).to_be_bytes();
    // Table leaf; no free block; one cell; where cells start; no fragments; where the cell is.
    let head = [0x0d, 0, 0, 0, 1, place[0], place[1], 0, place[0], place[1]];
    page.starts_with(&head)
        && page[head.len()..start].iter().all(|b| *b == 0)
        && page[start..] == cell
}
