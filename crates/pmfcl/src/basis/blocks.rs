//! Groups of columns behind one frozen map: every robust basis, and the portfolio of `auto`.
//!
//! A robust basis is its features of the mapped inputs and, unless `linear=off`, the inputs next to them. `auto` has more
//! groups than any one model needs; a [`Candidate`] is some of them, and which candidate predicts is decided from
//! the pooled summary, again whenever it changes. The columns of a candidate are columns of the one design, so its sums are
//! part of the sums that are kept: nothing about learning, merging, removing or sending summaries knows of candidates.

use std::sync::Arc;

use super::frame::Frame;
use super::spec::{Kind, Piece, Scale};
use super::{Basis, BasisError, MAX_COLUMNS, Map, Parts, spline, units};

/// Splines for each input, and the share of the width they may have.
const SPLINES: usize = 6;
const SPLINE_SHARE: usize = 3;
/// Products may have this share of the width.
const PRODUCT_SHARE: usize = 6;
/// Where the knots of the splines lie.
const SPLINE_RANGE: f64 = 2.5;
/// γ·d of the random features.
const SMOOTH: f64 = 0.05;
const FINE: f64 = 0.2;
const RANKS: f64 = 0.15;
/// The columns that `auto` has by default next to the inputs, times the rows that fix it: a row costs its width squared, and
/// who begins with many rows has many.
const WORK: usize = 4_000_000;
/// The most of them, and the least: so many, and so many more for each input; but never more than `MOST`.
const WIDE: usize = 1200;
const NARROW: usize = 320;
const EACH: usize = 4;
pub(super) const MOST: usize = 2000;

/// Some groups of the columns of `auto`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)] // for cli, file, python, report
pub struct Candidate {
    /// The groups by name, such as `bounded+spline`.
    pub name: String,
    /// The columns of the map, ascending.
    pub columns: Vec<usize>,
    pieces: Vec<Piece>,
}

/// Groups of columns behind one frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocks {
    frame: Frame,
    groups: Vec<Block>,
    origin: Option<Vec<f64>>,
}

/// A group of columns next to each other.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    piece: Piece,
    features: Features,
    width: usize,
    /// Whether it is computed; the columns of others are 0.
    active: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Features {
    /// The inputs as they are.
    Inputs,
    /// The inputs, bounded far out.
    Bounded,
    /// A map of the inputs in the units of `scale`, without its first columns.
    Mapped { scale: Scale, map: Arc<Map>, skip: usize },
}

/// How many columns `auto` has by default next to `d` inputs when so many first rows fix it.
fn default_width(d: usize, rows: usize) -> usize {
    let least = d.saturating_mul(EACH).saturating_add(NARROW);
    (WORK / rows).clamp(least, WIDE.max(least)).min(MOST)
}

/// What the first rows decide about a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Columns next to the inputs.
    width: usize,
    /// Whether inputs have as many values as splines need; codes of categories do not.
    curved: bool,
}

impl Shape {
    fn write(self) -> [f64; 2] {
        [self.width as f64, f64::from(u8::from(self.curved))]
    }

    fn read(numbers: &[f64], given: Option<usize>) -> Result<Self, &'static str> {
        let &[width, curved] = numbers else { return Err("there are too many or too few") };
        let whole = (1..=MAX_COLUMNS).contains(&(width as usize)) && width.fract() <= 0.0;
        let found = Self { width: width as usize, curved: curved > 0.5 };
        let other = given.is_some_and(|given| given != found.width);
        if !whole || other || (found.write()[1] - curved).abs() > 0.0 {
            return Err("its width is not the one it was given");
        }
        Ok(found)
    }
}

/// The groups of `auto` on `d` inputs, with the number of columns of each.
fn portfolio(d: usize, shape: Shape, only: &[Piece]) -> Vec<(Piece, usize)> {
    let width = shape.width;
    let splines = d.saturating_mul(SPLINES);
    let splines = if shape.curved && splines <= width / SPLINE_SHARE { splines } else { 0 };
    let products = d.saturating_mul(d + 1) / 2;
    let products = if products <= width / PRODUCT_SHARE { products } else { 0 };
    let random = width - splines - products;
    let ranks = random * 35 / 100;
    let smooth = (random - ranks) / 2;
    let all = [
        (Piece::Linear, d),
        (Piece::Bounded, d),
        (Piece::Spline, splines),
        (Piece::Products, products),
        (Piece::Smooth, smooth),
        (Piece::Fine, random - ranks - smooth),
        (Piece::Ranks, ranks),
    ];
    let wanted = |piece: &Piece| only.is_empty() || only.contains(piece);
    all.into_iter().filter(|(piece, columns)| *columns > 0 && wanted(piece)).collect()
}

/// What a basis learns from the first rows behind its frame.
pub(super) fn learn(kind: &Kind, rows: &[f64], d: usize) -> Result<Vec<f64>, BasisError> {
    if let Kind::Auto { width, .. } = kind {
        let width = width.unwrap_or_else(|| default_width(d, rows.len() / d));
        let shape = Shape { width, curved: Frame::is_mostly_ranked(rows, d) };
        return Ok([&Frame::learn(rows, d, true)?.write()[..], &shape.write()].concat());
    }
    let scale = kind.frame().map_or(Scale::Clip, |(scale, _)| scale);
    let frame = Frame::learn(rows, d, scale == Scale::Quantile)?;
    let mut mapped = vec![0.0; rows.len()];
    frame.apply(scale, rows, &mut mapped);
    let learned = match kind.inside() {
        Kind::Spline { .. } => spline::learn(&mapped, d)?,
        inner @ (Kind::Rbf { .. } | Kind::Rff { .. }) => {
            // Units are those of the frame.
            units::learn(&inner, &mapped, d)?
        }
        _ => Vec::new(),
    };
    Ok([frame.write(), learned].concat())
}

impl Blocks {
    /// Builds the groups of a kind that has a frame.
    pub(super) fn build(kind: &Kind, d: usize, frozen: &[f64]) -> Result<Self, &'static str> {
        let Kind::Auto { width, only, seed } = kind else {
            let (scale, linear) = kind.frame().ok_or("the basis has no frozen map")?;
            let (frame, rest) = Frame::read(frozen, d, scale == Scale::Quantile)?;
            let inner = Basis(kind.inside());
            let given = inner.given(d);
            let skip = if linear && matches!(kind, Kind::Polynomial { .. }) { d } else { 0 };
            let frozen = if rest.is_empty() { &given } else { rest };
            let map = Map::thaw(&inner, d, frozen)
                .map_err(|_| "the numbers of its features are invalid")?;
            let mut blocks = Vec::new();
            if linear {
                blocks.push(Block::inputs(Piece::Bounded, d));
            }
            if map.width() > skip {
                blocks.push(Block::mapped(Piece::Smooth, scale, map, skip));
            }
            return Ok(Self::new(frame, blocks));
        };
        let (frame, rest) = Frame::read(frozen, d, true)?;
        let shape = Shape::read(rest, *width)?;
        let block = |(piece, columns): (Piece, usize)| {
            let (scale, kind) = match piece {
                Piece::Linear | Piece::Bounded => return Ok(Block::inputs(piece, d)),
                Piece::Spline => {
                    let range = Some((-SPLINE_RANGE, SPLINE_RANGE));
                    let (scale, linear) = (Scale::Range, false);
                    (Scale::Clip, Kind::Spline { count: SPLINES, range, scale, linear })
                }
                Piece::Products => {
                    let (degree, interactions, scale, linear) = (2, true, Scale::None, false);
                    (Scale::Clip, Kind::Polynomial { degree, interactions, scale, linear })
                }
                Piece::Smooth => (Scale::Clip, waves(columns, SMOOTH, d, *seed)),
                Piece::Fine => (Scale::Clip, waves(columns, FINE, d, seed.wrapping_add(1))),
                Piece::Ranks => (Scale::Quantile, waves(columns, RANKS, d, seed.wrapping_add(2))),
            };
            let inner = Basis(kind);
            let map =
                Map::thaw(&inner, d, &inner.given(d)).map_err(|_| "its features are invalid")?;
            let skip = if piece == Piece::Products { d } else { 0 };
            Ok(Block::mapped(piece, scale, map, skip))
        };
        let blocks: Result<Vec<Block>, &'static str> =
            portfolio(d, shape, only).into_iter().map(block).collect();
        let blocks = blocks?;
        if blocks.is_empty() {
            return Err("none of the groups it names has columns on so many inputs");
        }
        Ok(Self::new(frame, blocks))
    }

    fn new(frame: Frame, blocks: Vec<Block>) -> Self {
        let own = |block: &Block| match &block.features {
            Features::Mapped { map, .. } => map.origin().map(<[f64]>::to_vec),
            Features::Inputs | Features::Bounded => None,
        };
        let has = blocks.iter().any(|block| own(block).is_some());
        let origin = has.then(|| {
            blocks.iter().flat_map(|b| own(b).unwrap_or_else(|| vec![0.0; b.width])).collect()
        });
        Self { frame, groups: blocks, origin }
    }

    pub(super) fn origin(&self) -> Option<&[f64]> {
        self.origin.as_deref()
    }

    /// Whether the columns are so few for the inputs that sums of their products tell them apart.
    ///
    /// Random features of `r` inputs are nearly polynomials: there are `C(r + 4, 4)` of degree 4, and what only higher degrees tell
    /// apart is lost in the digits of a product. Codes of categories do not count, nor does an input that is another in other units.
    ///
    /// Cost: `O(d²)`.
    pub(super) fn tells_apart(&self) -> bool {
        let r = self.frame.different_inputs() as u128;
        // Inputs as they are meet no other group in a candidate.
        let others = self.groups.iter().filter(|block| block.piece != Piece::Linear);
        let width: usize = others.map(|block| block.width).sum();
        (r + 1) * (r + 2) * (r + 3) * (r + 4) / 24 >= width as u128
    }

    /// Columns of all groups.
    pub(super) fn width(&self) -> usize {
        self.groups.iter().map(|block| block.width).sum()
    }

    /// φ of all rows; row i of the result begins at `out[i * stride]`.
    pub(super) fn apply(&self, rows: &[f64], out: &mut [f64], stride: usize) {
        let d = self.frame.shift.len();
        let k = rows.len() / d;
        let mut mapped: [Option<Vec<f64>>; 2] = [None, None];
        let mut skipped = Vec::new();
        let mut offset = 0;
        for block in &self.groups {
            let width = block.width;
            match &block.features {
                _ if !block.active => {
                    (0..k).for_each(|i| out[i * stride + offset..][..width].fill(0.0));
                }
                Features::Inputs => {
                    for (i, row) in rows.chunks_exact(d).enumerate() {
                        out[i * stride + offset..][..d].copy_from_slice(row);
                    }
                }
                Features::Bounded => {
                    for (i, row) in rows.chunks_exact(d).enumerate() {
                        let out = &mut out[i * stride + offset..][..d];
                        (0..d).for_each(|j| out[j] = self.frame.bounded(j, row[j]));
                    }
                }
                Features::Mapped { scale, map, skip } => {
                    let rows =
                        mapped[usize::from(*scale == Scale::Quantile)].get_or_insert_with(|| {
                            let mut mapped = vec![0.0; rows.len()];
                            self.frame.apply(*scale, rows, &mut mapped);
                            mapped
                        });
                    if *skip == 0 {
                        map.apply_unchecked(rows, &mut out[offset..], stride);
                    } else {
                        let whole = map.width();
                        skipped.resize(k * whole, 0.0);
                        map.apply_unchecked(rows, &mut skipped, whole);
                        for i in 0..k {
                            let from = &skipped[i * whole + skip..][..width];
                            out[i * stride + offset..][..width].copy_from_slice(from);
                        }
                    }
                }
            }
            offset += width;
        }
    }

    /// The same with the columns of all groups but those of a candidate left at 0.
    pub(super) fn masked(&self, candidate: &Candidate) -> Self {
        let mut masked = self.clone();
        for block in &mut masked.groups {
            block.active = candidate.pieces.contains(&block.piece);
        }
        masked
    }

    /// The same with groups left at 0 of which no column counts; `None` where all are needed.
    pub(super) fn without_unused(&self, counts: impl Fn(usize) -> bool) -> Option<Self> {
        let mut masked = self.clone();
        let mut offset = 0;
        for block in &mut masked.groups {
            block.active &= (offset..offset + block.width).any(&counts);
            offset += block.width;
        }
        masked.groups.iter().any(|block| !block.active).then_some(masked)
    }

    /// The columns that are computed; `None` where all are.
    pub(super) fn computed_columns(&self) -> Option<Vec<usize>> {
        if self.groups.iter().all(|block| block.active) {
            return None;
        }
        let mut columns = Vec::new();
        let mut offset = 0;
        for block in &self.groups {
            if block.active {
                columns.extend(offset..offset + block.width);
            }
            offset += block.width;
        }
        Some(columns)
    }

    /// The columns of the inputs as they are.
    pub(super) fn line(&self) -> std::ops::Range<usize> {
        let mut offset = 0;
        for group in &self.groups {
            if group.piece == Piece::Linear {
                return offset..offset + group.width;
            }
            offset += group.width;
        }
        0..0
    }

    /// Every choice of groups that is compared, narrow ones first: the inputs as they are, and bounded with features next to them.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        use Piece::{Bounded, Fine, Linear, Products, Ranks, Smooth, Spline};
        let choices: [&[Piece]; 11] = [
            &[Linear],
            &[Bounded],
            &[Bounded, Spline],
            &[Bounded, Products],
            &[Bounded, Smooth],
            &[Bounded, Fine],
            &[Bounded, Ranks],
            &[Bounded, Smooth, Fine],
            &[Bounded, Spline, Products, Smooth, Fine],
            &[Bounded, Smooth, Fine, Ranks],
            &[Bounded, Spline, Products, Smooth, Fine, Ranks],
        ];
        let mut found: Vec<Candidate> = Vec::new();
        for choice in choices {
            let mut columns = Vec::new();
            let mut pieces = Vec::new();
            let mut offset = 0;
            for block in &self.groups {
                if choice.contains(&block.piece) {
                    columns.extend(offset..offset + block.width);
                    pieces.push(block.piece);
                }
                offset += block.width;
            }
            let missing =
                choice[1..].iter().any(|piece| !self.groups.iter().any(|b| b.piece == *piece));
            let alone = choice.len() <= 2 && missing;
            if !pieces.is_empty() && !alone && found.iter().all(|other| other.columns != columns) {
                found.push(Candidate { name: Piece::joined(&pieces), columns, pieces });
            }
        }
        found.sort_by_key(|candidate| candidate.columns.len());
        found
    }

    pub(super) fn names(&self, x: &[String], prefixed: bool) -> Vec<String> {
        let of = |block: &Block| match &block.features {
            Features::Bounded if prefixed => x.iter().map(|x| format!("bounded({x})")).collect(),
            Features::Inputs | Features::Bounded => x.to_vec(),
            Features::Mapped { map, skip, .. } => {
                let names = map.names(x).split_off(*skip);
                if !prefixed || matches!(block.piece, Piece::Spline | Piece::Products) {
                    return names;
                }
                (1..=names.len()).map(|i| format!("{}{i}", block.piece.name())).collect()
            }
        };
        self.groups.iter().flat_map(of).collect()
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        use super::parts::Group;
        let parts = self.groups.iter().map(|block| match &block.features {
            Features::Inputs => Group::Inputs,
            Features::Bounded => Group::Bounded,
            Features::Mapped { scale, map, skip } => {
                let quantile = *scale == Scale::Quantile;
                Group::Mapped { quantile, skip: *skip, parts: map.parts() }
            }
        });
        Parts::Groups { frame: &self.frame, groups: parts.collect() }
    }

    /// Whether the first group is that of the inputs.
    pub(super) fn begins_with_inputs(&self) -> bool {
        self.groups.first().is_some_and(|block| !matches!(block.features, Features::Mapped { .. }))
    }

    /// Whether a column is computed that is bounded: whether these are not the inputs alone.
    pub(super) fn is_bounded(&self) -> bool {
        self.groups.iter().any(|block| block.active && block.features != Features::Inputs)
    }

    /// The input farthest out.
    pub(super) fn responsible_input(&self, x: &[f64]) -> usize {
        let size = |j: &usize| ((x[*j] - self.frame.shift[*j]) / self.frame.spread[*j]).abs();
        (0..x.len()).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or_default()
    }

    /// The frame, for who asks how far rows lie from the first.
    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }
}

impl Block {
    fn inputs(piece: Piece, d: usize) -> Self {
        let features = if piece == Piece::Linear { Features::Inputs } else { Features::Bounded };
        Self { piece, features, width: d, active: true }
    }

    fn mapped(piece: Piece, scale: Scale, map: Map, skip: usize) -> Self {
        let width = map.width() - skip;
        let map = map.bounded();
        Self {
            piece,
            features: Features::Mapped { scale, map: Arc::new(map), skip },
            width,
            active: true,
        }
    }
}

impl Candidate {
    /// Whether it has the inputs as they are and nothing else.
    pub(crate) fn is_linear(&self) -> bool {
        self.pieces == [Piece::Linear]
    }

    /// The basis that has the columns of this candidate alone.
    pub(super) fn basis(&self, of: &Kind) -> Option<Basis> {
        let Kind::Auto { width, seed, .. } = of else { return None };
        Some(Basis(Kind::Auto { width: *width, only: self.pieces.clone(), seed: *seed }))
    }
}

fn waves(count: usize, gamma: f64, d: usize, seed: u64) -> Kind {
    let gamma = Some(gamma / d as f64);
    Kind::Rff { count, gamma, scale: Scale::None, linear: false, seed }
}
