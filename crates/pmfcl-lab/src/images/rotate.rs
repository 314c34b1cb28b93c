//! A rotation of a square image as a list of pixels to look at.

/// Which pixel each pixel of the rotated image takes, nearest neighbour about the centre, counter-clockwise; beyond
/// the last where it lies outside.
///
/// Positions are sums of 16-bit fixed-point fractions, as Pillow has them, so that pixels on an edge fall to the same side.
pub(super) fn rotation(side: usize, degrees: f64) -> Vec<u32> {
    let fixed = |v: f64| (v * 65536.0 + 0.5).floor() as i64;
    let radians = -degrees.to_radians();
    let (sin, cos) = (radians.sin(), radians.cos());
    let centre = side as f64 / 2.0;
    // Where the centre of the first pixel comes from, and how far each step goes.
    let start = |a: f64, b: f64| fixed(centre - a * centre - b * centre + (a + b) / 2.0);
    let (x0, y0) = (start(cos, sin), start(-sin, cos));
    let (cos, sin, minus) = (fixed(cos), fixed(sin), fixed(-sin));
    let side = side as u32;
    let at = |steps: i64| u32::try_from(steps >> 16).ok().filter(|&at| at < side);
    let mut from = Vec::new();
    for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (i64::from(y), i64::from(x)))) {
        let seen = at(x0 + cos * x + sin * y).zip(at(y0 + minus * x + cos * y));
        from.push(seen.map_or(side * side, |(x, y)| y * side + x));
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_as_pillow_does() {
        // `Image.rotate` of Pillow, nearest neighbour, on six by six pixels numbered from 1; 0 is outside.
        let cases: [(f64, [u32; 36]); 2] = [
            (
                30.0,
                [
                    0, 3, 4, 11, 12, 0, 2, 3, 10, 11, 18, 18, 8, 8, 15, 16, 23, 24, 13, 14, 21, 22,
                    29, 29, 19, 19, 26, 27, 34, 35, 0, 25, 26, 33, 34, 0,
                ],
            ),
            (
                117.5,
                [
                    0, 18, 24, 29, 35, 0, 12, 18, 23, 29, 34, 34, 11, 11, 16, 22, 27, 33, 4, 10,
                    15, 21, 26, 26, 3, 3, 8, 14, 19, 25, 0, 2, 8, 13, 19, 0,
                ],
            ),
        ];
        for (degrees, expected) in cases {
            let shown: Vec<u32> = rotation(6, degrees).iter().map(|p| (p + 1) % 37).collect();
            assert_eq!(shown, expected, "{degrees}");
        }
        assert_eq!(rotation(5, 0.0), (0..25).collect::<Vec<u32>>());
    }
}
