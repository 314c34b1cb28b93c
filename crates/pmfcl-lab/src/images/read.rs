//! Images as bytes, from IDX files or a Parquet table.

use std::path::Path;
use std::sync::Arc;

use pmfcl_read::{Form, Options, Source, Wanted};

use super::Error;
use crate::data::DataSet;

/// Square images of one byte a pixel, and their classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pixels {
    side: usize,
    cells: Vec<u8>,
    codes: Vec<u32>,
}

impl Pixels {
    /// Images of `side × side` pixels, row after row.
    ///
    /// # Errors
    /// When pixels and classes do not go together.
    pub fn new(cells: Vec<u8>, codes: Vec<u32>, side: usize) -> Result<Self, Error> {
        if side == 0 || cells.len() != codes.len() * side * side {
            let what = format!("{} pixels are not {} images", cells.len(), codes.len());
            return Err(Error::Shape { what });
        }
        Ok(Self { side, cells, codes })
    }

    /// Pixels along an edge.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Images.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Class of every image.
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Pixels of image `i`.
    pub fn image(&self, i: usize) -> &[u8] {
        let size = self.side * self.side;
        &self.cells[i * size..(i + 1) * size]
    }
}

/// A set of images to learn from and to test on.
#[derive(Debug, Clone)]
pub struct Images {
    /// Its name.
    pub name: String,
    /// To learn from.
    pub train: Arc<Pixels>,
    /// To test on.
    pub test: Arc<Pixels>,
}

impl Images {
    /// Reads a set from a folder: `NAME.parquet` (columns of pixels, `y`, and `split`, 0 train and 1 test), or the four IDX
    /// files by their usual names, packed with gzip or not.
    ///
    /// # Errors
    /// When neither is there, or a file is not what it should be.
    pub fn read(dir: &Path, name: &str) -> Result<Self, Error> {
        let (train, test) = if dir.join(format!("{name}.parquet")).is_file() {
            from_table(&DataSet::read(dir, name)?)?
        } else {
            let idx = |part: &str| {
                let plain = dir.join(format!("{part}-images-idx3-ubyte"));
                let packed = dir.join(format!("{part}-images-idx3-ubyte.gz"));
                let found = [plain, packed].into_iter().find(|path| path.is_file());
                found.ok_or_else(|| Error::NotFound {
                    dir: dir.display().to_string(),
                    wanted: name.to_owned(),
                })
            };
            (from_idx(&idx("train")?)?, from_idx(&idx("t10k")?)?)
        };
        if train.side != test.side || train.is_empty() || test.is_empty() {
            let what = format!("{}: images to learn and to test do not match", dir.display());
            return Err(Error::Shape { what });
        }
        Ok(Self { name: name.to_owned(), train: Arc::new(train), test: Arc::new(test) })
    }
}

/// A value that is a byte.
fn byte(value: f64, file: &str) -> Result<u8, Error> {
    if (0.0..=255.0).contains(&value) && value.fract().abs() <= 0.0 {
        return Ok(value as u8);
    }
    Err(Error::Shape { what: format!("{file}: {value} is no pixel between 0 and 255") })
}

fn side(width: usize, file: &str) -> Result<usize, Error> {
    let side = width.isqrt();
    if side * side == width && side > 0 {
        return Ok(side);
    }
    Err(Error::Shape { what: format!("{file}: {width} pixels are no square") })
}

fn from_table(table: &DataSet) -> Result<(Pixels, Pixels), Error> {
    let side = side(table.width, &table.name)?;
    let part = |test: bool| {
        let rows = (0..table.y.len()).filter(|&i| table.test[i] == test);
        let (mut cells, mut codes) = (Vec::new(), Vec::new());
        for i in rows {
            for &value in table.row(i) {
                cells.push(byte(f64::from(value), &table.name)?);
            }
            codes.push(table.y[i]);
        }
        Pixels::new(cells, codes, side)
    };
    Ok((part(false)?, part(true)?))
}

fn from_idx(path: &Path) -> Result<Pixels, Error> {
    let source = Source::open(path, &Options::default())?;
    let scan =
        source.scan(&[Wanted::new("pixels", Form::Number), Wanted::new("label", Form::Number)])?;
    let (mut cells, mut codes, mut width) = (Vec::new(), Vec::new(), 0);
    while let Some(piece) = scan.next()? {
        let batch = scan.decode(piece)?;
        width = batch.columns[0].width();
        let mut rows = vec![0.0; batch.rows * (width + 1)];
        batch.gather(0..batch.rows, &[(0, 0), (1, width)], &mut rows, width + 1);
        for row in rows.chunks_exact(width + 1) {
            for &value in &row[..width] {
                cells.push(byte(value, source.label())?);
            }
            codes.push(u32::from(byte(row[width], source.label())?));
        }
    }
    Pixels::new(cells, codes, side(width, source.label())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idx(shape: &[u32], cells: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, shape.len() as u8];
        shape.iter().for_each(|n| bytes.extend(n.to_be_bytes()));
        bytes.extend_from_slice(cells);
        bytes
    }

    #[test]
    fn idx_files_become_bytes_and_classes() {
        let dir = tempfile::tempdir().unwrap();
        for (part, count) in [("train", 3u8), ("t10k", 2)] {
            let pixels: Vec<u8> = (0..count * 4).map(|v| v * 20).collect();
            let images = dir.path().join(format!("{part}-images-idx3-ubyte"));
            std::fs::write(images, idx(&[count.into(), 2, 2], &pixels)).unwrap();
            let labels = dir.path().join(format!("{part}-labels-idx1-ubyte"));
            std::fs::write(labels, idx(&[count.into()], &[7, 0, 9][..count.into()])).unwrap();
        }
        let images = Images::read(dir.path(), "mnist").unwrap();
        assert_eq!((images.train.len(), images.test.len(), images.train.side()), (3, 2, 2));
        assert_eq!(images.train.image(1), [80, 100, 120, 140]);
        assert_eq!(images.train.codes(), [7, 0, 9]);
    }

    #[test]
    fn a_folder_without_images_is_said_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let said = Images::read(dir.path(), "mnist").unwrap_err().to_string();
        assert!(said.contains("mnist.parquet") && said.contains("idx3"), "{said}");
    }
}
