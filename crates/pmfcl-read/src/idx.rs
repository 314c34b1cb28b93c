//! IDX, the format of MNIST and its kin: images as a block `pixels`, labels as a column `label`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dense::{self, Array, Class, Element, Strip};
use crate::source::Contents;
use crate::store::{Flow, GZIP, MOST_UNPACKED, Opened, Store, open as open_store};
use crate::{Field, Kind, Options, ReadError};

/// Four bytes, and four for each of 255 sizes.
const LONGEST_HEADER: u64 = 4 + 4 * 255;

/// Opens an IDX file, and the labels next to it if it holds images.
pub(crate) fn open(
    file: &str,
    store: &Store,
    path: Option<&Path>,
    options: &Options,
) -> Result<Contents, ReadError> {
    let bytes = store.len();
    let (field, strip, rows) = column(file, store)?;
    let mut columns = vec![(field, strip)];
    if let Some(path) = path.and_then(labels_beside) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Opened::Store(store) = open_store(&path, &name, None)? {
            let (field, strip, labels) = column(&name, &store)?;
            if labels != rows {
                return Err(ReadError::Damaged {
                    file: file.into(),
                    format: "IDX",
                    what: format!("it has {rows} images and {name} has {labels} labels"),
                });
            }
            columns.push((field, strip));
        }
    }
    Ok(dense::table(file, "IDX", columns, rows, bytes, options))
}

/// The labels that belong to a file of images.
fn labels_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let labels = ["-", "."].iter().find_map(|dot| {
        let (images, labels) = (format!("images{dot}idx3"), format!("labels{dot}idx1"));
        name.contains(&images).then(|| name.replace(&images, &labels))
    })?;
    let other = match labels.strip_suffix(".gz") {
        Some(bare) => bare.to_string(),
        None => format!("{labels}.gz"),
    };
    [labels, other].iter().map(|name| path.with_file_name(name)).find(|path| path.is_file())
}

/// The one array of an IDX file.
fn column(file: &str, store: &Store) -> Result<(Field, Strip, u64), ReadError> {
    let damaged =
        |what: &str| ReadError::Damaged { file: file.into(), format: "IDX", what: what.into() };
    let io = |error| ReadError::Io { file: file.into(), error };
    let mut store = store.clone();
    let mut rest = None;
    if store.start().map_err(io)?.starts_with(&GZIP) {
        let mut flow = Flow::new(Box::new(store.reader(0))).map_err(io)?;
        let mut text = Vec::new();
        flow.read_up_to(&mut text, LONGEST_HEADER).map_err(io)?;
        rest = Some((flow, text.clone()));
        store = Store::Memory(text.into());
    }
    let start = store.bytes(0, 4).map_err(|_| damaged("it is too short"))?;
    let (class, size) = match (start[0], start[1], start[2]) {
        (0, 0, 0x08) => (Class::Unsigned, 1),
        (0, 0, 0x09) => (Class::Signed, 1),
        (0, 0, 0x0b) => (Class::Signed, 2),
        (0, 0, 0x0c) => (Class::Signed, 4),
        (0, 0, 0x0d) => (Class::Float, 4),
        (0, 0, 0x0e) => (Class::Float, 8),
        _ => return Err(damaged("it does not start like an IDX file")),
    };
    let rank = usize::from(start[3]);
    let sizes = store.bytes(4, 4 * rank).map_err(|_| damaged("its header is cut off"))?;
    let mut sizes = sizes.chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let rows = u64::from(sizes.next().ok_or_else(|| damaged("it has no dimensions"))?);
    let width = sizes.try_fold(1_usize, |product, n| product.checked_mul(n as usize));
    let width = width.filter(|&w| w > 0 && w <= 1 << 31);
    let width = width.ok_or_else(|| damaged("its shape is impossible"))?;
    let element = Element { class, size, big: true };
    let offset = 4 + 4 * rank as u64;
    let mut array = Array { store, offset, element, rows, width, by_column: false };
    if let Some((mut flow, mut text)) = rest {
        // What the shape says and not a byte more, however much the file unpacks to.
        let whole = array.bytes().and_then(|bytes| bytes.checked_add(offset));
        let whole = whole.filter(|whole| *whole <= MOST_UNPACKED);
        let whole = whole.ok_or_else(|| damaged("its shape takes more than 4 GiB; unpack it"))?;
        let more = whole.saturating_sub(text.len() as u64);
        flow.read_up_to(&mut text, more).map_err(io)?;
        array.store = Store::Memory(text.into());
    }
    if !array.fits() {
        return Err(damaged("it is shorter than its shape says; the file was cut off"));
    }
    let field = if rank == 1 {
        Field { name: "label".into(), kind: Kind::Number }
    } else {
        Field { name: "pixels".into(), kind: Kind::Block { width } }
    };
    Ok((field, Strip { array: Some(Arc::new(array)), columns: 0..width }, rows))
}
