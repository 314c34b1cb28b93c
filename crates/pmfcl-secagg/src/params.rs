//! What all sides hold in common before a round.

use pmfcl::problem::Digest;

use crate::error::{Error, Result};
use crate::fixed::FixedPoint;
use crate::keys::hash;
use crate::wire::{Kind, Reader, Tag, Writer, is_name};

/// Most numbers of a vector: 4 GiB of them.
const MOST_NUMBERS: usize = 1 << 28;

/// What all sides hold in common before a round. Messages carry a hash of it, so sides that differ notice at the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    threshold: usize,
    clients: usize,
    features: usize,
    targets: usize,
    fixed: FixedPoint,
    agreement: [u8; 32],
    step: u64,
    signed: bool,
}

impl Params {
    /// Rounds of at most `clients` clients, of which `threshold` must stay to the end, over designs of `features` columns (the
    /// intercept included) and `targets` targets.
    ///
    /// The threshold is how many clients must collude with the server to see another's summary, and the least number of clients in
    /// a sum.
    ///
    /// # Errors
    /// When the threshold is not above half of the clients (else two halves could be told different stories), is below 2 (a sum of one
    /// is no sum), or above the clients; when the design is empty or too large.
    pub fn new(threshold: usize, clients: usize, features: usize, targets: usize) -> Result<Self> {
        let refuse = |reason: String| Err(Error::Params { reason });
        if threshold < 2 || threshold > clients || threshold <= clients / 2 {
            return refuse(format!(
                "a threshold of {threshold} of {clients} clients: it must be at least 2, above half of the clients, and at most all of them"
            ));
        }
        let fixed = FixedPoint::default();
        check_room(fixed, clients)?;
        if features == 0 || targets == 0 || features > 1 << 20 || targets > 1 << 20 {
            return refuse(format!("{features} columns and {targets} targets: 1 to 2^20 of each"));
        }
        let (agreement, step, signed) = ([0; 32], 0, false);
        let params = Self { threshold, clients, features, targets, fixed, agreement, step, signed };
        if params.numbers() > MOST_NUMBERS {
            return refuse(format!(
                "{features} columns and {targets} targets make {} numbers, {MOST_NUMBERS} are possible: take fewer columns",
                params.numbers()
            ));
        }
        Ok(params)
    }

    /// Another fixed point than the default.
    ///
    /// # Errors
    /// When the sum of all clients could leave 127 bits.
    pub fn fixed_point(self, fixed: FixedPoint) -> Result<Self> {
        check_room(fixed, self.clients)?;
        Ok(Self { fixed, ..self })
    }

    /// Binds the round to an agreement, all 256 bits of its digest, and to a step: keys, letters and signatures are of these, and a
    /// client refuses sums of any other ([`Input`](crate::Input)).
    #[must_use]
    pub fn of(self, agreement: Digest, step: u64) -> Self {
        Self { agreement: agreement.0, step, ..self }
    }

    /// The agreement the round is bound to.
    pub fn agreement(&self) -> Digest {
        Digest(self.agreement)
    }

    /// The step the round is bound to.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Asks for signatures: clients sign their keys and, before they help unmask, the list of survivors, and check those of the others
    /// ([`Identity`](crate::Identity)). A server that lies is then found out.
    #[must_use]
    pub fn signed(self) -> Self {
        Self { signed: true, ..self }
    }

    /// Whether signatures are asked for.
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// Clients that must stay to the end.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Most clients.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// Columns of the design.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Targets.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// The fixed point.
    pub fn fixed(&self) -> FixedPoint {
        self.fixed
    }

    /// Numbers of a client's vector.
    pub fn numbers(&self) -> usize {
        let (m, p) = (self.features, self.targets);
        1 + m * (m + 1) / 2 + m * p + 2 * p
    }

    /// The hash of a round with these parameters.
    pub(crate) fn tag(&self, round: &str) -> Result<Tag> {
        if !is_name(round) {
            return Err(Error::Params {
                reason: "a round id has 1 to 255 bytes and no control characters".to_owned(),
            });
        }
        let mut own = Writer::new(Kind::State, &[0; 32], 0);
        self.write(&mut own);
        Ok(hash(&[b"pmfcl secure aggregation 2", round.as_bytes(), &own.done()]))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.size(self.threshold).size(self.clients).size(self.features).size(self.targets);
        out.bytes(&[self.fixed.scale(), self.fixed.bound(), u8::from(self.signed)])
            .bytes(&self.agreement)
            .bytes(&self.step.to_le_bytes());
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let [threshold, clients, features, targets] =
            [from.place()?, from.place()?, from.place()?, from.place()?].map(|v| v as usize);
        let [scale, bound, signed] = from.array()?;
        let params = Self::new(threshold, clients, features, targets)?
            .fixed_point(FixedPoint::new(scale, bound)?)?
            .of(Digest(from.array()?), from.word()?);
        match signed {
            0 => Ok(params),
            1 => Ok(params.signed()),
            _ => Err(Kind::State.wrong("signed is neither 0 nor 1")),
        }
    }
}

fn check_room(fixed: FixedPoint, clients: usize) -> Result<()> {
    if clients as u128 > 1 << fixed.room() {
        return Err(Error::Params {
            reason: format!(
                "{clients} clients with {} bits of scale and {} of bound could leave 127 bits: take fewer bits of either",
                fixed.scale(),
                fixed.bound()
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_above_half_and_at_least_two() {
        for n in 0..40 {
            for t in 0..45 {
                let sound = t >= 2 && t <= n && 2 * t > n;
                assert_eq!(Params::new(t, n, 3, 1).is_ok(), sound, "{t} of {n}");
            }
        }
        assert!(Params::new(40_000, 65_536, 3, 1).is_ok());
        assert!(Params::new(40_000, 65_537, 3, 1).is_err());
        assert!(Params::new(2, 3, 1 << 20, 1).is_err());
        assert!(Params::new(2, 3, 0, 1).is_err());
    }

    #[test]
    fn whatever_differs_is_another_round() {
        let one = Params::new(3, 5, 4, 1).unwrap();
        let tag = |p: &Params| p.tag("r1").unwrap();
        for other in [
            Params::new(4, 5, 4, 1).unwrap(),
            Params::new(3, 4, 4, 1).unwrap(),
            Params::new(3, 5, 5, 1).unwrap(),
            Params::new(3, 5, 4, 2).unwrap(),
            one.of(Digest([1; 32]), 0),
            one.of(Digest([0; 32]), 1),
            one.signed(),
            one.fixed_point(FixedPoint::new(59, 50).unwrap()).unwrap(),
            one.fixed_point(FixedPoint::new(60, 49).unwrap()).unwrap(),
        ] {
            assert_ne!(tag(&one), tag(&other), "{other:?}");
        }
        assert_ne!(tag(&one), one.tag("r2").unwrap());
        assert!(one.tag("").is_err() && one.tag("a\nb").is_err());
    }
}
