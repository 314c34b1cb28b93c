//! Shamir's secret sharing: a secret is the value at 0 of a polynomial of degree `t − 1`, a share its value at 1, 2, 3, …
//!
//! The field is that of Curve25519's scalars, whose arithmetic is reviewed, constant in time and here already; so nothing is written
//! anew but Horner's rule and Lagrange's formula, and a cohort may be of any size. A secret is a random scalar (252 bits) and serves
//! as a key through its bytes.

use std::collections::BTreeMap;

use curve25519_dalek::Scalar;
use zeroize::{Zeroize, Zeroizing};

/// Sets of answers that are tried for one secret: enough for any two wrong ones of ninety.
const MOST_TRIED: usize = 4096;

/// A share or a secret, as the bytes of a scalar below the field's order.
pub(crate) type Bytes = [u8; 32];

/// A polynomial with a secret at 0.
pub(crate) struct Polynomial(Vec<Scalar>);

impl Drop for Polynomial {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Polynomial {
    /// The secret, then the other coefficients: as many as the threshold, all drawn at random by the caller.
    pub(crate) fn new(coefficients: Vec<Scalar>) -> Self {
        Self(coefficients)
    }

    /// The share of whoever is at this place of the roster.
    pub(crate) fn share(&self, place: u32) -> Zeroizing<Bytes> {
        let x = at(place);
        let mut value = Scalar::ZERO;
        for c in self.0.iter().rev() {
            value = value * x + c;
        }
        let bytes = Zeroizing::new(value.to_bytes());
        value.zeroize();
        bytes
    }
}

/// Lagrange's weights at 0 for a set of holders.
pub(crate) struct Weights(Vec<Scalar>);

impl Weights {
    /// `places` must differ.
    pub(crate) fn new(places: &[u32]) -> Self {
        let weight = |i: &u32| {
            let (mut above, mut below) = (Scalar::ONE, Scalar::ONE);
            for j in places.iter().filter(|j| *j != i) {
                above *= at(*j);
                below *= at(*j) - at(*i);
            }
            above * below.invert()
        };
        Self(places.iter().map(weight).collect())
    }

    /// The secret of shares in the order of the places; `None` where one is no scalar.
    pub(crate) fn secret(&self, shares: &[&Bytes]) -> Option<Zeroizing<Bytes>> {
        let mut sum = Scalar::ZERO;
        for (w, share) in self.0.iter().zip(shares) {
            sum += w * scalar(share)?;
        }
        Some(Zeroizing::new(sum.to_bytes()))
    }
}

/// Shares by who holds them, then by whose secret they are of.
pub(crate) type Answers = BTreeMap<u32, BTreeMap<u32, Zeroizing<Bytes>>>;

/// Secrets from shares of which some may be wrong.
pub(crate) struct Shares<'a> {
    answers: &'a Answers,
    places: Vec<u32>,
    threshold: usize,
    /// The holders whose shares gave the last secret: who was right once is likely to be again.
    trusted: Vec<u32>,
    weights: Weights,
}

impl<'a> Shares<'a> {
    /// At least a threshold of answers.
    pub(crate) fn new(answers: &'a Answers, threshold: usize) -> Self {
        let places: Vec<u32> = answers.keys().copied().collect();
        let trusted = places[..threshold].to_vec();
        let weights = Weights::new(&trusted);
        Self { answers, places, threshold, trusted, weights }
    }

    /// The secret of a member that `is_right` knows, from the first set of holders that has it: one wrong share is left out, then
    /// two, and so on.
    pub(crate) fn secret(
        &mut self,
        of: u32,
        is_right: impl Fn(&Bytes) -> bool,
    ) -> Option<Zeroizing<Bytes>> {
        let found = |holders: &[u32], weights: &Weights| {
            let shares: Vec<&Bytes> = holders.iter().map(|h| &*self.answers[h][&of]).collect();
            weights.secret(&shares).filter(|secret| is_right(secret))
        };
        if let Some(secret) = found(&self.trusted, &self.weights) {
            return Some(secret);
        }
        let spare = self.places.len() - self.threshold;
        let mut tried = 0;
        for without in (1..=spare).flat_map(|count| combinations(self.places.len(), count)) {
            tried += 1;
            if tried > MOST_TRIED {
                break;
            }
            let left = (0..self.places.len()).filter(|at| !without.contains(at));
            let holders: Vec<u32> = left.take(self.threshold).map(|at| self.places[at]).collect();
            let weights = Weights::new(&holders);
            if let Some(secret) = found(&holders, &weights) {
                (self.trusted, self.weights) = (holders, weights);
                return Some(secret);
            }
        }
        None
    }
}

/// All sets of `count` numbers below `n`, in order.
fn combinations(n: usize, count: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next = (count <= n).then(|| (0..count).collect::<Vec<usize>>());
    std::iter::from_fn(move || {
        let set = next.take()?;
        if let Some(at) = (0..count).rev().find(|at| set[*at] < n - count + at) {
            let mut after = set.clone();
            after[at] += 1;
            (at + 1..count).for_each(|k| after[k] = after[k - 1] + 1);
            next = Some(after);
        }
        Some(set)
    })
}

/// A scalar in its only form.
pub(crate) fn scalar(bytes: &Bytes) -> Option<Scalar> {
    Option::from(Scalar::from_canonical_bytes(*bytes))
}

/// Nobody holds the value at 0.
fn at(place: u32) -> Scalar {
    Scalar::from(u64::from(place) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polynomial(t: u64, seed: u64) -> (Polynomial, Bytes) {
        let mut wide = [7; 64];
        let coefficients: Vec<Scalar> = (0..t)
            .map(|k| {
                wide[..8].copy_from_slice(&(seed * 1000 + k).to_le_bytes());
                Scalar::from_bytes_mod_order_wide(&wide) * Scalar::from(k + 3)
            })
            .collect();
        let secret = coefficients[0].to_bytes();
        (Polynomial::new(coefficients), secret)
    }

    fn subsets(n: u32) -> impl Iterator<Item = Vec<u32>> {
        (0_u32..1 << n).map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
    }

    #[test]
    fn every_set_of_holders_has_the_secret_from_the_threshold_on_and_none_below() {
        for n in 1..=7_u32 {
            for t in 1..=n {
                let (p, secret) = polynomial(u64::from(t), u64::from(n));
                let all: Vec<_> = (0..n).map(|i| p.share(i)).collect();
                for set in subsets(n).filter(|s| !s.is_empty()) {
                    let shares: Vec<&Bytes> = set.iter().map(|i| &*all[*i as usize]).collect();
                    let found = *Weights::new(&set).secret(&shares).unwrap();
                    assert_eq!(found == secret, set.len() >= t as usize, "{t} of {n}: {set:?}");
                }
            }
        }
    }

    #[test]
    fn sets_of_numbers_are_all_there_once() {
        for n in 0..7 {
            for count in 0..=n {
                let mut all: Vec<_> = combinations(n, count).collect();
                let expected = (0..count).fold(1, |c, k| c * (n - k) / (k + 1));
                assert_eq!(all.len(), expected, "{count} of {n}");
                assert!(all.iter().all(|set| set.is_sorted_by(|a, b| a < b) && set.len() == count));
                all.dedup();
                assert_eq!(all.len(), expected);
            }
            assert_eq!(combinations(n, n + 1).count(), 0);
        }
    }

    #[test]
    fn as_many_wrong_shares_as_there_are_to_spare_cost_nothing() {
        let (p, secret) = polynomial(4, 3);
        for wrong in subsets(7).filter(|set| set.len() <= 3) {
            let answers: Answers = (0..7)
                .map(|place| {
                    let mut share = p.share(place);
                    if wrong.contains(&place) {
                        // Equal errors could cancel: weights of some places sum to zero.
                        let error =
                            Scalar::from(1_000_003_u64.pow(1 + place % 3) + u64::from(place));
                        *share = (scalar(&share).unwrap() + error).to_bytes();
                    }
                    (place, BTreeMap::from([(9, share)]))
                })
                .collect();
            let mut shares = Shares::new(&answers, 4);
            let found = shares.secret(9, |bytes| *bytes == secret).expect("four are right");
            assert_eq!(*found, secret, "{wrong:?}");
            assert!(shares.trusted.iter().all(|place| !wrong.contains(place)));
            assert!(shares.secret(9, |_| false).is_none());
        }
    }

    #[test]
    fn fewer_shares_go_with_every_secret() {
        // Two shares of a threshold of three: for any secret there is a polynomial through both and it.
        let (p, _) = polynomial(3, 1);
        let (one, two) = (scalar(&p.share(0)).unwrap(), scalar(&p.share(1)).unwrap());
        for guess in [0_u64, 1, 99, u64::MAX] {
            let s = Scalar::from(guess);
            // Through (0, s), (1, one), (2, two).
            let c2 = (two - one - one + s) * Scalar::from(2_u64).invert();
            let c1 = one - s - c2;
            let q = Polynomial::new(vec![s, c1, c2]);
            assert_eq!((scalar(&q.share(0)), scalar(&q.share(1))), (Some(one), Some(two)));
        }
    }

    #[test]
    fn small_numbers_are_shared_as_in_plain_integers() {
        for (a, b, c) in
            (0..6).flat_map(|a| (0..6).flat_map(move |b| (0..6).map(move |c| (a, b, c))))
        {
            let p = Polynomial::new([a, b, c].map(Scalar::from).to_vec());
            for place in 0..9_u32 {
                let x = u64::from(place) + 1;
                assert_eq!(scalar(&p.share(place)), Some(Scalar::from(a + b * x + c * x * x)));
            }
        }
    }

    #[test]
    fn a_share_that_is_no_scalar_is_refused() {
        assert!(Weights::new(&[0]).secret(&[&[0xff; 32]]).is_none());
    }
}
