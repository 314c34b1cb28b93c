//! What the server sends back: the parameters.

use super::refused::Refused;
use crate::error::{Error, Result};
use crate::problem::{Agreement, Digest, Limits, Reader, Response};
use crate::rows::Rows;
use crate::summary::crc32;
use crate::theta::Theta;

const MAGIC: &[u8; 4] = b"PMFB";
/// 3 has limits; without them it is 2.
const VERSION: u16 = 2;
const LIMITED: u16 = 3;
const HEADER: usize = 4 + 2 + 2 + 32 + 8 + 8 + 4 + 4;
/// Rows answered at a time: a block of design rows stays in cache.
const BLOCK: usize = 512;

/// The parameters of the joint model, as sent to all clients.
///
/// ```text
/// "PMFB" | version u16 | 0 u16 | agreement 32 bytes | updates u64 | samples f64 | m u32 | p u32 | θ, target by target, f64
///        | for each target 1 byte: whether its class has rows
///        | version 3: for each target the smallest and the largest prediction, f64 | CRC-32 u32
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// The digest of the agreement.
    pub agreement: Digest,
    /// Updates it is made from.
    pub updates: u64,
    /// Samples they stand for.
    pub samples: f64,
    /// The parameters.
    pub theta: Theta,
    /// For each column of parameters, whether its class has rows; all `true` for values.
    pub present: Vec<bool>,
    /// Between which predictions of each target stay; empty where nothing limits them.
    pub limits: Vec<Limits>,
}

impl Broadcast {
    /// Bytes of [`Broadcast::to_bytes`].
    pub fn nbytes(&self) -> usize {
        HEADER + 8 * self.theta.cells().len() + self.present.len() + 16 * self.limits.len() + 4
    }

    /// As bytes; [`Broadcast::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.nbytes());
        out.extend_from_slice(MAGIC);
        let version = if self.limits.is_empty() { VERSION } else { LIMITED };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&self.agreement.0);
        for word in [self.updates, self.samples.to_bits()] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for size in [self.theta.width(), self.theta.targets()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        for v in self.theta.cells() {
            out.extend_from_slice(&v.to_le_bytes());
        }
        out.extend(self.present.iter().map(|there| u8::from(*there)));
        for end in self.limits.iter().flat_map(|limits| [limits.least, limits.most]) {
            out.extend_from_slice(&end.to_le_bytes());
        }
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`Broadcast::to_bytes`] wrote; more than `most` bytes are not looked at.
    ///
    /// # Errors
    /// On any byte string that is not exactly a broadcast with finite numbers.
    pub fn from_bytes(bytes: &[u8], most: usize) -> Result<Self, Refused> {
        if bytes.len() > most {
            return Err(Refused::TooLarge { bytes: bytes.len(), most });
        }
        let refuse = |reason: &str| Err(Refused::bytes(format!("as a broadcast, {reason}")));
        if bytes.len() < HEADER + 4 || &bytes[..4] != MAGIC {
            return refuse("it does not begin with PMFB and a header");
        }
        let limited = bytes[4..8] == [LIMITED as u8, 0, 0, 0];
        if !limited && bytes[4..8] != [VERSION as u8, 0, 0, 0] {
            return refuse("it is of another version");
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return refuse("its checksum does not match: bytes were changed or cut off");
        }
        let mut rest = Reader(&body[8..]);
        let agreement = Digest(rest.take(32)?.try_into().expect("thirty-two bytes"));
        let (updates, samples) = (rest.word()?, rest.double()?);
        let (m, p) = (rest.size()?, rest.size()?);
        let cells = rest.doubles(m.saturating_mul(p))?;
        let flags = rest.take(p)?;
        let ends = rest.doubles(if limited { p.saturating_mul(2) } else { 0 })?;
        let pair = |pair: &[f64]| Limits { least: pair[0], most: pair[1] };
        let limits: Vec<Limits> = ends.chunks_exact(2).map(pair).collect();
        let sound = m > 0
            && p > 0
            && rest.0.is_empty()
            && flags.iter().all(|flag| *flag <= 1)
            && limits.iter().all(Limits::is_sound)
            && samples > 0.0
            && samples.is_finite()
            && cells.iter().all(|v| v.is_finite());
        let present = flags.iter().map(|flag| *flag == 1).collect();
        match Theta::from_columns(m, p, cells) {
            Ok(theta) if sound => Ok(Self { agreement, updates, samples, theta, present, limits }),
            _ => refuse("its numbers are invalid"),
        }
    }

    /// Predicted values, or scores of the classes in sorted order, row after row: those of the joint model, to the bit.
    ///
    /// # Errors
    /// When the parameters are of another model, or the inputs have other columns or values that are not finite.
    pub fn answer(&self, agreement: &Agreement, x: Rows<'_>) -> Result<Vec<f64>> {
        let design = agreement.design();
        let (m, p) = (design.width(), agreement.columns());
        if self.agreement != agreement.digest()
            || (self.theta.width(), self.theta.targets()) != (m, p)
        {
            return Err(Error::Mismatch {
                what: "the model",
                left: format!("{} here", agreement.digest()),
                right: format!("{} in what was sent", self.agreement),
            });
        }
        if x.width() != design.inputs() {
            return Err(Error::Shape {
                what: "the feature table",
                unit: "columns",
                expected: design.inputs(),
                found: x.width(),
            });
        }
        let mut response = agreement.problem().method().response(self.present.clone());
        if let Response::Values { limits, .. } = &mut response {
            limits.clone_from(&self.limits);
        }
        let mut out = Vec::with_capacity(x.len() * p);
        let mut rows = vec![0.0; BLOCK.min(x.len()) * m];
        let mut from = 0;
        while from < x.len() {
            let block = x.slice(from, (from + BLOCK).min(x.len()));
            let rows = &mut rows[..block.len() * m];
            let written = design.write(&block, 0, rows, m, None);
            written.map_err(|e| Error::from(e).shifted(from as u64))?;
            match agreement.outputs().classes() {
                Some(classes) => response.scores(&self.theta, classes, rows, &mut out),
                None => response.values(&self.theta, rows, &mut out),
            }
            from += block.len();
        }
        Ok(out)
    }
}
