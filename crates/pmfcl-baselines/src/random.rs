//! Random numbers from a seed: xoshiro256++, the same bits on every platform.

/// A generator of uniform numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        // SplitMix64 spreads the seed over the state, so that close seeds are far apart.
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// A generator of the same seed for another purpose, so that one draw more here changes nothing there.
    pub fn of(seed: u64, purpose: &str) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self::new(purpose.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed.rotate_left(32), mix))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..bound`, without bias.
    ///
    /// # Panics
    /// When the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing to choose from");
        let bound = bound as u64;
        // The last, incomplete stretch of the 64 bits is drawn again.
        let end = u64::MAX - (u64::MAX % bound + 1) % bound;
        loop {
            let draw = self.next();
            if draw <= end {
                return (draw % bound) as usize;
            }
        }
    }

    /// Puts a list in uniform random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }

    /// The numbers `0..count` in uniform random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..count).collect();
        self.shuffle(&mut list);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_three_is_as_likely() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 6];
        for _ in 0..6000 {
            let p = random.permutation(3);
            counts[p[0] * 2 + usize::from(p[1] > p[2])] += 1;
        }
        // Chi-square with five degrees of freedom: above 20.5 once in a thousand seeds.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 20.5, "{counts:?}");
    }

    #[test]
    fn purposes_and_seeds_differ() {
        let draw = |mut r: Random| r.uniform().to_bits();
        assert_eq!(draw(Random::of(1, "order")), draw(Random::of(1, "order")));
        assert_ne!(draw(Random::of(1, "order")), draw(Random::of(1, "buffer")));
        assert_ne!(draw(Random::of(1, "order")), draw(Random::of(2, "order")));
    }
}
