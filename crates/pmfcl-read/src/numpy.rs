//! NumPy: `.npy`, one array, and `.npz`, a zip of named arrays.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::dense::{self, Array, Class, Element, Strip};
use crate::source::Contents;
use crate::store::{Packed, Store};
use crate::{Field, Kind, Options, ReadError};

/// No header of an array is longer.
const LONGEST_HEADER: usize = 1 << 20;
/// No more columns than this are offered out of one array.
const MOST_COLUMNS: usize = 1 << 20;

/// What the header of an array says.
struct Npy {
    /// `None` for strings, objects and records; then see `type_name`.
    element: Option<Element>,
    type_name: String,
    shape: Vec<u64>,
    by_column: bool,
    /// Where the values start, from the start of the array.
    data: u64,
}

/// Opens an `.npy` file: columns `x1`, `x2`, ….
pub(crate) fn open_npy(
    file: &str,
    store: &Store,
    options: &Options,
) -> Result<Contents, ReadError> {
    let bytes = store.len();
    let (array, _) = header(store, 0, bytes)
        .and_then(|npy| array(npy, store, 0, bytes))
        .and_then(|(array, npy)| Ok((array.ok_or(unusable(&npy))?, npy)))
        .map_err(|what| ReadError::Damaged { file: file.into(), format: "NumPy", what })?;
    let array = Arc::new(array);
    let columns = (0..array.width)
        .map(|c| {
            let field = Field { name: format!("x{}", c + 1), kind: array.element.kind() };
            (field, Strip { array: Some(Arc::clone(&array)), columns: c..c + 1 })
        })
        .collect();
    Ok(dense::table(file, "NumPy", columns, array.rows, bytes, options))
}

/// Opens an `.npz` file: arrays with one dimension are columns, those with two are blocks.
pub(crate) fn open_npz(
    file: &str,
    store: &Store,
    options: &Options,
) -> Result<Contents, ReadError> {
    let damaged =
        |what: String| ReadError::Damaged { file: file.into(), format: "NumPy zip", what };
    let mut columns = Vec::new();
    let mut length: Option<(u64, String)> = None;
    let used = Arc::new(AtomicU64::new(0));
    let all = members(store).map_err(damaged)?;
    check_apart(&all).map_err(damaged)?;
    for member in all {
        let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_string();
        let inside = |what: String| damaged(format!("array '{name}': {what}"));
        let Unpacked { head, values, offset, len } = member.open(store, &used).map_err(inside)?;
        let npy = header(&head, offset, len).map_err(inside)?;
        let (array, npy) = array(npy, &values, offset, len).map_err(inside)?;
        let Some(&rows) = npy.shape.first() else {
            let field = Field { name, kind: Kind::Other("scalar".into()) };
            columns.push((field, Strip { array: None, columns: 0..0 }));
            continue;
        };
        match &length {
            Some((other, first)) if *other != rows => {
                return Err(damaged(format!(
                    "array '{name}' has {rows} rows and array '{first}' has {other}"
                )));
            }
            Some(_) => {}
            None => length = Some((rows, name.clone())),
        }
        columns.push(match array {
            None => {
                let field = Field { name, kind: Kind::Other(npy.type_name) };
                (field, Strip { array: None, columns: 0..0 })
            }
            Some(array) => {
                let width = array.width;
                let kind =
                    if npy.shape.len() == 1 { array.element.kind() } else { Kind::Block { width } };
                (Field { name, kind }, Strip { array: Some(Arc::new(array)), columns: 0..width })
            }
        });
    }
    let rows = length.map_or(0, |(rows, _)| rows);
    Ok(dense::table(file, "NumPy zip", columns, rows, store.len(), options))
}

fn unusable(npy: &Npy) -> String {
    match npy.shape.len() {
        1 | 2 => format!("its values are of type {}, not numbers", npy.type_name),
        n => format!("it has {n} dimensions; 1 or 2 are wanted"),
    }
}

/// The array at `offset`, if it holds numbers in one or two dimensions.
fn array(npy: Npy, store: &Store, offset: u64, len: u64) -> Result<(Option<Array>, Npy), String> {
    let (Some(element), &[rows, ref more @ ..]) = (npy.element, &npy.shape[..]) else {
        return Ok((None, npy));
    };
    let width = match more {
        [] => 1,
        [width] => *width,
        _ => return Ok((None, npy)),
    };
    let width = usize::try_from(width).ok().filter(|w| (1..=MOST_COLUMNS).contains(w));
    let width = width.ok_or("it has no columns, or too many")?;
    let by_column = npy.by_column && !more.is_empty();
    let at = offset + npy.data;
    let array = Array { store: store.clone(), offset: at, element, rows, width, by_column };
    let end = array.bytes().and_then(|b| b.checked_add(npy.data));
    if !array.fits() || end.is_none_or(|end| end > len) {
        return Err("it is shorter than its shape says; the file was cut off".into());
    }
    Ok((Some(array), npy))
}

/// Parses `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }` and what goes before it.
fn header(store: &Store, offset: u64, len: u64) -> Result<Npy, String> {
    let get = |at: u64, n: usize| -> Result<bytes::Bytes, String> {
        if at.checked_add(n as u64).is_none_or(|end| end > len) {
            return Err("its header is cut off".into());
        }
        store.bytes(offset + at, n).map_err(|e| e.to_string())
    };
    let start = get(0, 10).map_err(|_| "it is too short")?;
    if !start.starts_with(b"\x93NUMPY") {
        return Err("it does not start with \\x93NUMPY".into());
    }
    let (text_at, text_len) = match start[6] {
        1 => (10, usize::from(u16::from_le_bytes([start[8], start[9]]))),
        2 | 3 => {
            let n = get(8, 4)?;
            (12, u32::from_le_bytes([n[0], n[1], n[2], n[3]]) as usize)
        }
        version => return Err(format!("version {version} of the format is unknown")),
    };
    if text_len > LONGEST_HEADER {
        return Err("its header is too long".into());
    }
    let text = get(text_at, text_len)?;
    let text = std::str::from_utf8(&text).map_err(|_| "its header is not text")?;
    let after = |key: &str| {
        let at = text.find(&format!("'{key}'")).or_else(|| text.find(&format!("\"{key}\"")));
        at.and_then(|at| text[at + key.len() + 2..].trim_start().strip_prefix(':'))
            .map(str::trim_start)
            .ok_or_else(|| format!("its header has no {key}"))
    };
    let descr = after("descr")?;
    let type_name = match descr.strip_prefix(['\'', '"']) {
        Some(rest) => rest.split(['\'', '"']).next().unwrap_or_default().to_string(),
        None => "record".to_string(),
    };
    let shape = after("shape")?.strip_prefix('(').and_then(|s| s.split_once(')'));
    let shape = shape.ok_or("its shape is unreadable")?.0;
    let shape = shape
        .split(',')
        .map(|n| n.trim().trim_end_matches('L'))
        .filter(|n| !n.is_empty())
        .map(|n| n.parse::<u64>().map_err(|_| "its shape is unreadable".to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    let by_column = after("fortran_order")?.starts_with("True");
    let data = text_at + text_len as u64;
    Ok(Npy { element: element(&type_name), type_name, shape, by_column, data })
}

/// The numbers a type name like `<f8` stands for.
fn element(name: &str) -> Option<Element> {
    let (big, name) = match name.split_at_checked(1)? {
        ("<" | "|" | "=", rest) => (false, rest),
        (">", rest) => (true, rest),
        _ => (false, name),
    };
    let (class, size) = name.split_at_checked(1)?;
    let size = size.parse().ok()?;
    let class = match (class, size) {
        ("b", 1) => Class::Boolean,
        ("i", 1 | 2 | 4 | 8) => Class::Signed,
        ("u", 1 | 2 | 4 | 8) => Class::Unsigned,
        ("f", 2 | 4 | 8) => Class::Float,
        _ => return None,
    };
    Some(Element { class, size, big })
}

/// A file inside a zip.
struct Member {
    name: String,
    method: u16,
    packed: u64,
    whole: u64,
    /// Where its local header lies.
    at: u64,
}

const NOT_ZIP: &str = "it is not a zip file, or it was cut off";

fn u16_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 2).map(|b| u64::from(u16::from_le_bytes([b[0], b[1]])))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 4).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u32_at(bytes, at)? | (u32_at(bytes, at + 4)? << 32))
}

/// The table of contents at the end of a zip.
fn members(store: &Store) -> Result<Vec<Member>, String> {
    let len = store.len();
    let tail_len = len.min(65_557);
    let get = |at: u64, n: u64| store.bytes(at, n as usize).map_err(|_| NOT_ZIP.to_string());
    let tail = get(len - tail_len, tail_len)?;
    let end = memchr::memmem::rfind(&tail, b"PK\x05\x06").ok_or(NOT_ZIP)?;
    let (mut size, mut start) =
        u32_at(&tail, end + 12).zip(u32_at(&tail, end + 16)).ok_or(NOT_ZIP)?;
    if size == 0xffff_ffff || start == 0xffff_ffff {
        let locator = end.checked_sub(20).and_then(|at| tail.get(at..end)).ok_or(NOT_ZIP)?;
        let record = get(u64_at(locator, 8).ok_or(NOT_ZIP)?, 56)?;
        (size, start) = u64_at(&record, 40).zip(u64_at(&record, 48)).ok_or(NOT_ZIP)?;
    }
    let size = usize::try_from(size).map_err(|_| NOT_ZIP)?;
    let table = store.bytes(start, size).map_err(|_| NOT_ZIP)?;
    let mut rest = &table[..];
    let mut members = Vec::new();
    while rest.starts_with(b"PK\x01\x02") {
        members.push(entry(&mut rest).ok_or("its table of contents is broken")?);
    }
    Ok(members)
}

/// Members that share bytes would make a small file unpack to any size.
fn check_apart(members: &[Member]) -> Result<(), String> {
    let mut places: Vec<(u64, u64)> =
        members.iter().map(|m| (m.at, m.at.saturating_add(m.packed))).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[1].0 < pair[0].1 || pair[1].0 == pair[0].0) {
        return Err("two of its arrays lie in the same place".to_owned());
    }
    Ok(())
}

/// One entry of the table of contents; moves `rest` behind it.
fn entry(rest: &mut &[u8]) -> Option<Member> {
    let (name_len, extra_len) = (u16_at(rest, 28)? as usize, u16_at(rest, 30)? as usize);
    let comment_len = u16_at(rest, 32)? as usize;
    let name = String::from_utf8_lossy(rest.get(46..46 + name_len)?).into_owned();
    let mut extra = rest.get(46 + name_len..46 + name_len + extra_len)?;
    let (mut packed, mut whole, mut at) = (u32_at(rest, 20)?, u32_at(rest, 24)?, u32_at(rest, 42)?);
    while let (Some(tag), Some(n)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let field = extra.get(4..4 + n as usize)?;
        if tag == 1 {
            // The long form of those numbers that did not fit, in this order.
            let mut long = 0;
            for value in [&mut whole, &mut packed, &mut at] {
                if *value == 0xffff_ffff {
                    *value = u64_at(field, long)?;
                    long += 8;
                }
            }
        }
        extra = &extra[4 + n as usize..];
    }
    let method = u16_at(rest, 10)? as u16;
    *rest = rest.get(46 + name_len + extra_len + comment_len..)?;
    Some(Member { name, method, packed, whole, at })
}

/// The bytes of a member: those of its header, and all of them, which are unpacked when they are read.
struct Unpacked {
    head: Store,
    values: Store,
    offset: u64,
    len: u64,
}

impl Member {
    /// Where the bytes are: in the zip itself, or to be unpacked into memory.
    fn open(&self, store: &Store, used: &Arc<AtomicU64>) -> Result<Unpacked, String> {
        let broken = |_| NOT_ZIP.to_string();
        let local = store.bytes(self.at, 30).map_err(broken)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err("its place in the zip holds something else".into());
        }
        let skip = u16_at(&local, 26).zip(u16_at(&local, 28)).map_or(0, |(a, b)| a + b);
        let data = self.at + 30 + skip;
        if data.checked_add(self.packed).is_none_or(|end| end > store.len()) {
            return Err(NOT_ZIP.into());
        }
        match self.method {
            0 => {
                let (head, values) = (store.clone(), store.clone());
                Ok(Unpacked { head, values, offset: data, len: self.packed })
            }
            8 => {
                let packed = Packed::new(store, (data, self.packed), self.whole, used)?;
                let head = Store::Memory(packed.start(LONGEST_HEADER as u64 + 12)?);
                let values = Store::Packed(Arc::new(packed));
                Ok(Unpacked { head, values, offset: 0, len: self.whole })
            }
            other => Err(format!("it is packed by method {other}; save it with savez_compressed")),
        }
    }
}
