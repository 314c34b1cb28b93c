//! Finds a place for a label where it covers as little as possible.

use crate::pen::Rect;

/// What is already on the picture.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    within: Rect,
    taken: Vec<Rect>,
    dots: Vec<(f64, f64)>,
}

/// Enough dots to know where the lines run, few enough to be quick.
const MOST_DOTS: usize = 20_000;

impl Places {
    /// An empty picture; labels should stay within `within`.
    pub(crate) fn new(within: Rect) -> Self {
        Self { within, taken: vec![], dots: vec![] }
    }

    /// Something no label should lie on.
    pub(crate) fn take(&mut self, r: Rect) {
        self.taken.push(r);
    }

    /// A line that labels should keep off; `None` is a gap.
    pub(crate) fn avoid(&mut self, points: &[Option<(f64, f64)>]) {
        for pair in points.windows(2) {
            if let [Some(from), Some(to)] = *pair {
                let length = (to.0 - from.0).hypot(to.1 - from.1);
                let parts = (length / 4.0).ceil().clamp(1.0, 500.0);
                for k in 0..=parts as usize {
                    let t = k as f64 / parts;
                    self.dots.push((from.0 + t * (to.0 - from.0), from.1 + t * (to.1 - from.1)));
                }
            }
            if self.dots.len() > MOST_DOTS {
                return;
            }
        }
    }

    /// Of some rectangles, the first that covers least; it is taken from now on.
    pub(crate) fn choose(&mut self, candidates: impl IntoIterator<Item = Rect>) -> Option<Rect> {
        let mut best: Option<(f64, Rect)> = None;
        for candidate in candidates {
            let cost = self.cost(candidate);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, candidate));
            }
        }
        let (_, place) = best?;
        self.taken.push(place);
        Some(place)
    }

    fn cost(&self, r: Rect) -> f64 {
        let outside = r.x < self.within.x
            || r.y < self.within.y
            || r.right() > self.within.right()
            || r.bottom() > self.within.bottom();
        let on_others: f64 = self.taken.iter().map(|other| overlap(r, *other)).sum();
        let dots = self.dots.iter().filter(|&&(x, y)| holds(r, x, y)).count();
        let far = if outside { 1e6 } else { 0.0 };
        far + 10.0 * on_others + dots as f64
    }
}

fn holds(r: Rect, x: f64, y: f64) -> bool {
    r.x <= x && x <= r.right() && r.y <= y && y <= r.bottom()
}

/// The area two rectangles share.
fn overlap(a: Rect, b: Rect) -> f64 {
    let w = a.right().min(b.right()) - a.x.max(b.x);
    let h = a.bottom().min(b.bottom()) - a.y.max(b.y);
    w.max(0.0) * h.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Rect = Rect { x: 0.0, y: 0.0, w: 100.0, h: 100.0 };

    fn at(x: f64, y: f64) -> Rect {
        Rect { x, y, w: 20.0, h: 10.0 }
    }

    #[test]
    fn a_label_keeps_off_the_line() {
        let mut places = Places::new(PAGE);
        places.avoid(&[Some((0.0, 5.0)), Some((100.0, 5.0))]);
        assert_eq!(places.choose([at(0.0, 0.0), at(0.0, 50.0)]), Some(at(0.0, 50.0)));
    }

    #[test]
    fn a_label_keeps_off_the_label_before_it() {
        let mut places = Places::new(PAGE);
        assert_eq!(places.choose([at(0.0, 0.0), at(0.0, 50.0)]), Some(at(0.0, 0.0)));
        assert_eq!(places.choose([at(5.0, 5.0), at(0.0, 50.0)]), Some(at(0.0, 50.0)));
    }

    #[test]
    fn a_label_stays_on_the_page() {
        let mut places = Places::new(PAGE);
        assert_eq!(places.choose([at(90.0, 0.0), at(70.0, 0.0)]), Some(at(70.0, 0.0)));
    }
}
