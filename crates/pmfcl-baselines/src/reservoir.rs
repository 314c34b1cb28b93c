//! A buffer that holds a uniform sample of everything offered so far.

use crate::random::Random;

/// Reservoir sampling: of `n` rows offered, each is held with probability `capacity / n`.
///
/// A row is any numbers put together: inputs, target, outputs. Rows offered again count as new.
#[derive(Debug, Clone)]
pub struct Reservoir {
    capacity: usize,
    offered: usize,
    width: usize,
    cells: Vec<f64>,
    /// Slots in some order; a draw shuffles its front.
    slots: Vec<usize>,
    random: Random,
}

impl Reservoir {
    /// An empty buffer for `capacity` rows.
    pub fn new(capacity: usize, seed: u64) -> Self {
        let random = Random::of(seed, "buffer");
        Self { capacity, offered: 0, width: 0, cells: Vec::new(), slots: Vec::new(), random }
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Offers one row, given in parts, and returns the slot it went to.
    ///
    /// # Panics
    /// When the row is not as long as those before.
    pub fn offer(&mut self, parts: &[&[f64]]) -> Option<usize> {
        let width = parts.iter().map(|p| p.len()).sum();
        assert!(self.offered == 0 || self.width == width, "a row of another length");
        self.width = width;
        let before = self.offered;
        self.offered += 1;
        let slot = if before < self.capacity { before } else { self.random.below(before + 1) };
        if slot >= self.capacity {
            return None;
        }
        if slot == self.slots.len() {
            self.slots.push(slot);
            self.cells.resize((slot + 1) * width, 0.0);
        }
        let mut at = slot * width;
        for part in parts {
            self.cells[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Some(slot)
    }

    /// Draws `count` of the rows held without replacement, or all when there are fewer.
    pub fn draw(&mut self, count: usize) -> impl ExactSizeIterator<Item = &[f64]> {
        let held = self.slots.len();
        let count = count.min(held);
        for i in 0..count {
            let j = i + self.random.below(held - i);
            self.slots.swap(i, j);
        }
        self.slots[..count].iter().map(|&slot| self.row(slot))
    }

    /// The row in a slot.
    pub fn row(&self, slot: usize) -> &[f64] {
        &self.cells[slot * self.width..(slot + 1) * self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_order_then_replaces_or_drops() {
        let mut buffer = Reservoir::new(3, 1);
        for i in 0..200 {
            let value = f64::from(i);
            match buffer.offer(&[&[value], &[-value]]) {
                Some(slot) if i < 3 => assert_eq!(slot, i as usize),
                Some(slot) => assert_eq!(buffer.row(slot), [value, -value]),
                None => assert!(i >= 3, "the first three have room"),
            }
        }
        assert_eq!((buffer.len(), buffer.width()), (3, 2));
    }

    #[test]
    fn holds_every_offer_as_likely() {
        let (offers, capacity, trials) = (20usize, 5usize, 4000u64);
        let mut held = vec![0u32; offers];
        for seed in 0..trials {
            let mut buffer = Reservoir::new(capacity, seed);
            for i in 0..offers {
                buffer.offer(&[&[i as f64]]);
            }
            (0..capacity).for_each(|slot| held[buffer.row(slot)[0] as usize] += 1);
        }
        // Hypergeometric counts: their scaled squares add up to chi-square with 19 degrees of freedom, above 43.8 once
        // in a thousand.
        let expected = trials as f64 * capacity as f64 / offers as f64;
        let scale = expected * (1.0 - capacity as f64 / offers as f64) * 20.0 / 19.0;
        let chi: f64 = held.iter().map(|&h| (f64::from(h) - expected).powi(2) / scale).sum();
        assert!(chi < 43.8, "{held:?}");
    }

    #[test]
    fn draws_without_replacement_and_uniformly() {
        let mut buffer = Reservoir::new(6, 2);
        for i in 0..6 {
            buffer.offer(&[&[f64::from(i)]]);
        }
        let mut counts = [0u32; 6];
        for _ in 0..3000 {
            let drawn: Vec<usize> = buffer.draw(2).map(|row| row[0] as usize).collect();
            assert!(drawn.len() == 2 && drawn[0] != drawn[1]);
            drawn.iter().for_each(|&i| counts[i] += 1);
        }
        // As above with five degrees of freedom: expected 1000, chi-square above 20.5 once in a thousand.
        let scale = 1000.0 * (2.0 / 3.0) * 6.0 / 5.0;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1000.0).powi(2) / scale).sum();
        assert!(chi < 20.5, "{counts:?}");
        assert_eq!(buffer.draw(9).len(), 6);
    }
}
