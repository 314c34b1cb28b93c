//! Rows of a task that are read more than once: in memory while they are few, otherwise in a temporary file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use pmfcl::problem::pass::map_rows;
use pmfcl::problem::{InMemory, Partial, Pass, Passes, TaskContext, Worker};
use pmfcl::{Rows, Targets, TaskRows};
use pmfcl_file::ColumnNames;

use crate::{IngestError, Result};

/// Most numbers that are kept in memory: 512 MiB.
const MOST_NUMBERS: usize = 1 << 26;

/// What the rows of a chunk are to predict.
#[derive(Debug, Clone)]
pub(crate) enum ChunkTargets {
    /// Numbers, so many for each row.
    Values { cells: Vec<f64>, width: usize },
    /// Codes, and the names they stand for.
    Classes { codes: Vec<u32>, names: Vec<String> },
}

impl ChunkTargets {
    fn view(&self) -> Result<Targets<'_>> {
        Ok(match self {
            Self::Values { cells, width } => Targets::Values(Rows::new(cells, *width)?),
            Self::Classes { codes, names } => Targets::Classes { codes, names },
        })
    }
}

/// Rows that were read together.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The file they come from.
    pub(crate) file: String,
    /// The row of the file of each, counted from 0.
    pub(crate) file_rows: FileRows,
    /// Inputs of a row: those of the schema, then those of `new`.
    pub(crate) width: usize,
    /// Inputs the schema did not have, by key.
    pub(crate) new: Vec<String>,
    pub(crate) y: ChunkTargets,
    /// Number of rows.
    pub(crate) len: usize,
    x: Kept,
}

/// Where rows of a chunk are in their file.
#[derive(Debug, Clone)]
pub(crate) enum FileRows {
    /// One after the other from here on.
    From(u64),
    /// One by one.
    Listed(Vec<u64>),
}

impl FileRows {
    /// The rows of a file that these are.
    pub(crate) fn of(rows: impl ExactSizeIterator<Item = u64> + Clone) -> Self {
        let mut numbered = rows.clone().enumerate();
        let first = rows.clone().next().unwrap_or(0);
        if numbered.all(|(i, row)| row == first + i as u64) {
            Self::From(first)
        } else {
            Self::Listed(rows.collect())
        }
    }

    fn get(&self, i: usize) -> u64 {
        match self {
            Self::From(first) => first + i as u64,
            Self::Listed(rows) => rows.get(i).copied().unwrap_or(0),
        }
    }
}

/// Numbers in memory, or where they are in the file.
#[derive(Debug)]
enum Kept {
    Memory(Vec<f64>),
    File { offset: u64, count: usize },
}

/// Numbers written one after the other to an unnamed temporary file.
#[derive(Debug, Default)]
struct Numbers {
    file: Option<File>,
    end: u64,
    in_memory: usize,
}

impl Numbers {
    fn keep(&mut self, cells: Vec<f64>) -> io::Result<Kept> {
        if self.in_memory + cells.len() <= MOST_NUMBERS {
            self.in_memory += cells.len();
            return Ok(Kept::Memory(cells));
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile()?,
        };
        let bytes: Vec<u8> = cells.iter().flat_map(|v| v.to_le_bytes()).collect();
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(&bytes)?;
        let kept = Kept::File { offset: self.end, count: cells.len() };
        self.end += bytes.len() as u64;
        self.file = Some(file);
        Ok(kept)
    }

    fn get<'a>(&self, kept: &'a Kept, room: &'a mut Vec<f64>) -> io::Result<&'a [f64]> {
        let (offset, count) = match kept {
            Kept::Memory(cells) => return Ok(cells),
            Kept::File { offset, count } => (*offset, *count),
        };
        let Some(mut file) = self.file.as_ref() else {
            return Err(io::Error::other("the temporary file of rows is gone"));
        };
        let mut bytes = vec![0; 8 * count];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut bytes)?;
        room.clear();
        let numbers = bytes.chunks_exact(8);
        room.extend(numbers.map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))));
        Ok(room)
    }
}

/// The rows of one task.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    pub(crate) chunks: Vec<Chunk>,
    numbers: Numbers,
}

fn aside(error: &io::Error) -> IngestError {
    IngestError::Column {
        file: "a temporary file".to_owned(),
        what: format!("rows that are looked at again could not be kept aside: {error}"),
    }
}

impl Spill {
    /// Adds rows: `x` has `chunk.width` numbers for each.
    pub(crate) fn push(&mut self, chunk: NewChunk, x: Vec<f64>) -> Result<()> {
        let NewChunk { file, file_rows, width, new, y, len } = chunk;
        let x = self.numbers.keep(x).map_err(|e| aside(&e))?;
        self.chunks.push(Chunk { file, file_rows, width, new, y, len, x });
        Ok(())
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len).sum()
    }

    /// File and row of a row of the task.
    pub(crate) fn place(&self, row: u64) -> (&str, u64) {
        let mut left = row as usize;
        for chunk in &self.chunks {
            if left < chunk.len {
                return (&chunk.file, chunk.file_rows.get(left));
            }
            left -= chunk.len;
        }
        self.chunks.first().map_or(("", row), |chunk| (&chunk.file, row))
    }

    /// Calls `f` with the inputs and targets of every chunk; `place` gives the input of a new category's key, of `width` in all.
    fn each(
        &self,
        place: &dyn Fn(&str) -> usize,
        width: usize,
        mut f: impl FnMut(&[f64], &Chunk) -> Result<()>,
    ) -> Result<()> {
        let (mut room, mut wide) = (Vec::new(), Vec::new());
        for chunk in &self.chunks {
            let cells = self.numbers.get(&chunk.x, &mut room).map_err(|e| aside(&e))?;
            if chunk.width == width && chunk.new.is_empty() {
                f(cells, chunk)?;
                continue;
            }
            let known = chunk.width - chunk.new.len();
            let places: Vec<usize> =
                (0..known).chain(chunk.new.iter().map(|key| place(key))).collect();
            wide.clear();
            wide.resize(chunk.len * width, 0.0);
            let rows = cells.chunks_exact(chunk.width.max(1));
            for (row, own) in wide.chunks_exact_mut(width.max(1)).zip(rows) {
                for (place, v) in places.iter().zip(own) {
                    row[*place] = *v;
                }
            }
            f(&wide, chunk)?;
        }
        Ok(())
    }

    /// The answer to the first pass of a problem, over all rows; none has new inputs.
    pub(crate) fn first_pass(
        &self,
        context: TaskContext<'_>,
        names: &ColumnNames,
    ) -> Result<Partial> {
        let failed = |e| self.error(&e, names);
        let mut worker = Worker::new(context, &context.problem.first_pass()).map_err(failed)?;
        self.each(&|_| 0, context.design.inputs(), |x, chunk| {
            let rows =
                TaskRows { x: Rows::new(x, chunk.width)?, y: chunk.y.view()?, weights: None };
            worker.add(rows).map_err(failed)
        })?;
        worker.finish().map_err(failed)
    }

    /// Runs `fit` with an executor over all rows, each mapped through the basis once.
    pub(crate) fn with_passes<T>(
        &self,
        context: TaskContext<'_>,
        place: &dyn Fn(&str) -> usize,
        names: &ColumnNames,
        fit: impl FnOnce(&mut dyn Passes) -> pmfcl::Result<T>,
    ) -> Result<T> {
        let width = context.design.inputs();
        let numbers = self.len().saturating_mul(context.design.width().max(width));
        if numbers > MOST_NUMBERS {
            let mut passes = OnDisk::new(self, context, place, names)?;
            return fit(&mut passes).map_err(|e| self.error(&e, names));
        }
        let mut x = Vec::with_capacity(self.len() * width);
        let mut y = Gathered::default();
        self.each(place, width, |cells, chunk| {
            x.extend_from_slice(cells);
            y.add(&chunk.y);
            Ok(())
        })?;
        let rows = TaskRows { x: Rows::new(&x, width)?, y: y.view()?, weights: None };
        let mut passes = InMemory::new(context, rows).map_err(|e| self.error(&e, names))?;
        fit(&mut passes).map_err(|e| self.error(&e, names))
    }

    /// An error of the learner about a row, with its place in a file and its column by name.
    fn error(&self, error: &pmfcl::Error, names: &ColumnNames) -> IngestError {
        let first = self.chunks.first().map_or("", |chunk| &chunk.file);
        IngestError::of_row(error, names, |row| {
            row.map_or((first.to_owned(), None), |row| {
                let (file, at) = self.place(row);
                (file.to_owned(), Some(at))
            })
        })
    }
}

/// What is known of rows before they are kept.
#[derive(Debug)]
pub(crate) struct NewChunk {
    pub(crate) file: String,
    pub(crate) file_rows: FileRows,
    pub(crate) width: usize,
    pub(crate) new: Vec<String>,
    pub(crate) y: ChunkTargets,
    pub(crate) len: usize,
}

/// Targets of several chunks, end to end.
#[derive(Debug, Default)]
struct Gathered {
    values: Vec<f64>,
    width: usize,
    codes: Vec<u32>,
    names: Vec<String>,
}

impl Gathered {
    fn add(&mut self, targets: &ChunkTargets) {
        match targets {
            ChunkTargets::Values { cells, width } => {
                self.values.extend_from_slice(cells);
                self.width = *width;
            }
            ChunkTargets::Classes { codes, names } => {
                let place = |name: &String| {
                    self.names.iter().position(|n| n == name).unwrap_or_else(|| {
                        self.names.push(name.clone());
                        self.names.len() - 1
                    }) as u32
                };
                let places: Vec<u32> = names.iter().map(place).collect();
                self.codes.extend(codes.iter().map(|&code| places[code as usize]));
            }
        }
    }

    fn view(&self) -> Result<Targets<'_>> {
        if self.width > 0 {
            return Ok(Targets::Values(Rows::new(&self.values, self.width)?));
        }
        Ok(Targets::Classes { codes: &self.codes, names: &self.names })
    }
}

/// Runs passes over stored design rows, chunk by chunk.
struct OnDisk<'a> {
    context: TaskContext<'a>,
    rows: &'a Spill,
    design_rows: Numbers,
    chunks: Vec<Kept>,
}

impl<'a> OnDisk<'a> {
    /// Maps all rows through the basis.
    fn new(
        rows: &'a Spill,
        context: TaskContext<'a>,
        place: &dyn Fn(&str) -> usize,
        names: &ColumnNames,
    ) -> Result<Self> {
        let mut design_rows = Numbers::default();
        let mut chunks = Vec::with_capacity(rows.chunks.len());
        let width = context.design.inputs();
        let mut before = 0;
        rows.each(place, width, |x, chunk| {
            let mut cells = Vec::new();
            map_rows(&context, &Rows::new(x, width)?, &mut cells)
                .map_err(|e| rows.error(&e.in_later_rows(before), names))?;
            chunks.push(design_rows.keep(cells).map_err(|e| aside(&e))?);
            before += chunk.len as u64;
            Ok(())
        })?;
        Ok(Self { context, rows, design_rows, chunks })
    }
}

impl Passes for OnDisk<'_> {
    fn run(&mut self, pass: &Pass) -> pmfcl::Result<Partial> {
        let mut worker = Worker::new(self.context, pass)?;
        let mut room = Vec::new();
        let lost =
            |_| pmfcl::Error::State { reason: "the temporary file of rows is gone".to_owned() };
        for (kept, chunk) in self.chunks.iter().zip(&self.rows.chunks) {
            let cells = self.design_rows.get(kept, &mut room).map_err(lost)?;
            // Later passes look at design rows alone.
            let x = Rows::new(cells, self.context.design.width())?;
            let y = chunk.y.view().map_err(|e| pmfcl::Error::State { reason: e.to_string() })?;
            worker.add_design_rows(cells, TaskRows { x, y, weights: None })?;
        }
        worker.finish()
    }
}
