//! What the server sends back: the parameters.

use super::bytes::Rest;
use super::refused::Refused;
use crate::summary::crc32;
use crate::theta::Theta;

const MAGIC: &[u8; 4] = b"PMFB";
const VERSION: u16 = 1;
const HEADER: usize = 4 + 2 + 2 + 8 + 8 + 8 + 4 + 4;

/// The parameters of the joint model, as sent to all clients.
///
/// ```text
/// "PMFB" | version u16 | 0 u16 | model u64 | updates u64 | samples f64 | m u32 | p u32 | θ, target by target, f64 | CRC-32 u32
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// [`Agreement::fingerprint`](super::Agreement::fingerprint) of the model.
    pub model: u64,
    /// Updates it is made from.
    pub updates: u64,
    /// Samples they stand for.
    pub samples: f64,
    /// The parameters.
    pub theta: Theta,
}

impl Broadcast {
    /// Bytes of [`Broadcast::to_bytes`].
    pub fn nbytes(&self) -> usize {
        HEADER + 8 * self.theta.cells().len() + 4
    }

    /// As bytes; [`Broadcast::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.nbytes());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        for word in [self.model, self.updates, self.samples.to_bits()] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for size in [self.theta.width(), self.theta.targets()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        for v in self.theta.cells() {
            out.extend_from_slice(&v.to_le_bytes());
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
        if bytes[4..8] != [1, 0, 0, 0] {
            return refuse("it is of another version");
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return refuse("its check number does not match: bytes were changed or cut off");
        }
        let mut rest = Rest(&body[8..]);
        let (model, updates, samples) = (rest.word()?, rest.word()?, rest.double()?);
        let (m, p) = (rest.size()?, rest.size()?);
        let cells = rest.doubles(m.saturating_mul(p))?;
        let sound = m > 0
            && p > 0
            && rest.0.is_empty()
            && samples > 0.0
            && samples.is_finite()
            && cells.iter().all(|v| v.is_finite());
        match Theta::from_columns(m, p, cells) {
            Ok(theta) if sound => Ok(Self { model, updates, samples, theta }),
            _ => refuse("its numbers make no sense"),
        }
    }
}
