//! Sums over rows that do not depend on how the rows were chunked.

/// A sum with its rounding error carried along (Neumaier).
#[derive(Debug, Clone, Copy, Default)]
struct Compensated {
    sum: f64,
    carry: f64,
}

impl Compensated {
    fn add(&mut self, v: f64) {
        let t = self.sum + v;
        self.carry +=
            if self.sum.abs() >= v.abs() { (self.sum - t) + v } else { (v - t) + self.sum };
        self.sum = t;
    }

    fn value(self) -> f64 {
        self.sum + self.carry
    }
}

/// A compensated sum over rows. Neighbouring rows are added to different parts, so that none waits for the one before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowSum([Compensated; 4]);

impl RowSum {
    pub(super) fn add(&mut self, row: u64, v: f64) {
        self.0[(row % 4) as usize].add(v);
    }

    pub(super) fn value(self) -> f64 {
        let mut total = Compensated::default();
        for part in self.0 {
            total.add(part.sum);
            total.add(part.carry);
        }
        total.value()
    }
}
