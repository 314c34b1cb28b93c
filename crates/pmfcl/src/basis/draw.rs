//! Random numbers that are the same on every machine, for every release.
//!
//! A stored model keeps the seed of its basis, not the weights drawn from it; the draws are thus
//! part of the file format. Integers come from xoshiro256++ (Blackman and Vigna), whose state is
//! filled by `SplitMix64`; only exactly rounded arithmetic and `libm` follow, never the platform's
//! logarithm.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    state: [u64; 4],
    spare: Option<f64>,
}

impl Draw {
    /// The stream numbered `stream` of a seed; different streams are unrelated.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // One round of SplitMix on the stream number, so that (seed, stream) pairs do not collide
        // along seed + stream = constant.
        let mut mixer = seed ^ split_mix(&mut stream.wrapping_add(0x5851_f42d_4c95_7f2d));
        let state = std::array::from_fn(|_| split_mix(&mut mixer));
        Self { state, spare: None }
    }

    /// 64 random bits (xoshiro256++).
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..n without bias (Lemire's multiplication with rejection).
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        let reject = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.bits()) * u128::from(n);
            if product as u64 >= reject {
                return (product >> 64) as usize;
            }
        }
    }

    /// Standard normal (Marsaglia's polar method; each accepted pair gives two).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let factor = (-2.0 * libm::log(s) / s).sqrt();
                self.spare = Some(v * factor);
                return u * factor;
            }
        }
    }

    /// `count` different numbers of 0..n, in random order (the first steps of Fisher–Yates).
    pub(crate) fn sample(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for i in 0..count {
            let j = i + self.below(n - i);
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }
}

/// One step of `SplitMix64`.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[expect(clippy::unreadable_literal, reason = "digit for digit as the oracle gave them")]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_follows_the_reference_implementation() {
        // Outputs of the authors' C code from the state (1, 2, 3, 4), also in rand_xoshiro's tests.
        let mut draw = Draw { state: [1, 2, 3, 4], spare: None };
        let expected: [u64; 6] = [
            41943041,
            58720359,
            3588806011781223,
            3591011842654386,
            9228616714210784205,
            9973669472204895162,
        ];
        assert_eq!(expected, std::array::from_fn(|_| draw.bits()));
    }

    #[test]
    fn split_mix_follows_the_reference_implementation() {
        // The published sequence of SplitMix64 from the state 1234567.
        let mut state = 1_234_567;
        let expected: [u64; 3] = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected, std::array::from_fn(|_| split_mix(&mut state)));
    }

    #[test]
    fn draws_are_pinned_to_the_bit() {
        // Part of the file format: a stored basis keeps its seed and draws its weights again.
        // The numbers come from the same algorithms written in Python.
        let mut draw = Draw::new(7, 3);
        let normals: [u64; 4] = std::array::from_fn(|_| draw.normal().to_bits());
        let uniform = draw.uniform().to_bits();
        assert_eq!(
            normals,
            [
                0x3fef_a450_a58f_b5ed,
                0x3fe4_c6ed_702b_ad78,
                0x3ff2_298b_5168_6ce8,
                0x3fe3_4055_1cb6_09cf
            ]
        );
        assert_eq!(uniform, 0x3fe1_3616_9d53_6479);
        assert_eq!(draw.sample(10, 4), [2, 3, 4, 9]);
    }

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let n = 200_000;
        let mut draw = Draw::new(0, 0);
        let mut moment = [0.0; 4];
        for _ in 0..n {
            let z = draw.normal();
            for (power, sum) in (1..).zip(&mut moment) {
                *sum += z.powi(power) / f64::from(n);
            }
        }
        // Standard errors of the first four moments are √(1, 2, 15, 96)/√n; five of each.
        let expected = [0.0, 1.0, 0.0, 3.0];
        let variance: [f64; 4] = [1.0, 2.0, 15.0, 96.0];
        for i in 0..4 {
            let tolerance = 5.0 * (variance[i] / f64::from(n)).sqrt();
            assert!((moment[i] - expected[i]).abs() < tolerance, "moment {}: {}", i + 1, moment[i]);
        }
    }

    #[test]
    fn a_sample_takes_no_row_twice() {
        let mut taken = Draw::new(1, 1).sample(50, 50);
        taken.sort_unstable();
        assert_eq!(taken, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, stream| Draw::new(seed, stream).bits();
        let mut all: Vec<u64> =
            (0..30).flat_map(|seed| (0..30).map(move |stream| first(seed, stream))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 900);
    }
}
