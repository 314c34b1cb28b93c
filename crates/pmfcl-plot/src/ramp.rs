//! Colours for numbers: steps that look equal are equal.

/// A way from a low colour to a high one. All can be told apart by people with any of the common
/// colour deficiencies, and the first two in greyscale as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ramp {
    /// Dark purple over green to yellow (viridis), for amounts.
    #[default]
    Viridis,
    /// Pale to dark blue, for amounts where low means nothing to worry about.
    Blues,
    /// Blue over near-white to red, for what has two sides; white is at a centre.
    BlueRed,
}

/// Red, green and blue from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rgb([f64; 3]);

impl Ramp {
    /// Whether the colours have a middle.
    pub(crate) fn diverges(self) -> bool {
        self == Self::BlueRed
    }

    /// The colour at a place between 0 and 1, on light paper.
    pub(crate) fn at(self, u: f64) -> Rgb {
        between(self.stops(), u)
    }

    /// The same on dark paper: what is pale on light paper is dark there, so that small amounts do not glare.
    pub(crate) fn on_dark(self, u: f64) -> Rgb {
        between(self.dark_stops(), u)
    }

    /// As [`stops`](Self::stops). Viridis serves both papers; the hues of the others are those of their tables.
    fn dark_stops(self) -> &'static [u32] {
        match self {
            Self::Viridis => self.stops(),
            Self::Blues => &[
                0x001b_2736,
                0x001c_3550,
                0x001d_4670,
                0x0023_5990,
                0x0031_70b0,
                0x0049_89cb,
                0x006a_a3dd,
                0x0090_bceb,
                0x00b8_d6f5,
            ],
            Self::BlueRed => &[
                0x00a9_d1f3,
                0x0071_aee0,
                0x0043_8bc9,
                0x002f_679b,
                0x002a_4664,
                0x0028_2c33,
                0x0058_3a35,
                0x008f_473a,
                0x00c7_5a48,
                0x00e8_8068,
                0x00f7_b39f,
            ],
        }
    }

    /// Colours at equal distances, taken from the published tables: matplotlib's viridis, and
    /// `ColorBrewer`'s Blues and `RdBu`.
    fn stops(self) -> &'static [u32] {
        match self {
            Self::Viridis => &[
                0x0044_0154,
                0x0048_2475,
                0x0041_4487,
                0x0035_5f8d,
                0x002a_788e,
                0x0021_918c,
                0x0022_a884,
                0x0044_bf70,
                0x007a_d151,
                0x00bd_df26,
                0x00fd_e725,
            ],
            Self::Blues => &[
                0x00f1_f6fc,
                0x00de_ebf7,
                0x00c6_dbef,
                0x009e_cae1,
                0x006b_aed6,
                0x0042_92c6,
                0x0021_71b5,
                0x0008_519c,
                0x0008_306b,
            ],
            Self::BlueRed => &[
                0x0005_3061,
                0x0021_66ac,
                0x0043_93c3,
                0x0092_c5de,
                0x00d1_e5f0,
                0x00f7_f7f7,
                0x00fd_dbc7,
                0x00f4_a582,
                0x00d6_604d,
                0x00b2_182b,
                0x0067_001f,
            ],
        }
    }
}

impl Rgb {
    /// As SVG writes it.
    pub(crate) fn hex(self) -> String {
        let [r, g, b] = self.0.map(|c| c.round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// Black or white, whichever can be read better on this colour.
    pub(crate) fn ink(self) -> &'static str {
        let light = self.luminance();
        // The contrast ratio of the Web Content Accessibility Guidelines.
        if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 { "#ffffff" } else { "#111111" }
    }

    /// How bright it looks, from 0 to 1.
    fn luminance(self) -> f64 {
        let [r, g, b] = self.0.map(|c| {
            let c = c / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }
}

/// The colour at a place between 0 and 1 of equally spaced stops.
fn between(stops: &[u32], u: f64) -> Rgb {
    let place = u.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let i = (place as usize).min(stops.len() - 2);
    let t = place - i as f64;
    let (from, to) = (channels(stops[i]), channels(stops[i + 1]));
    Rgb(std::array::from_fn(|c| from[c] + t * (to[c] - from[c])))
}

fn channels(color: u32) -> [f64; 3] {
    [16, 8, 0].map(|shift| f64::from((color >> shift) & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_the_ends_of_the_table() {
        assert_eq!(Ramp::Viridis.at(0.0).hex(), "#440154");
        assert_eq!(Ramp::Viridis.at(1.0).hex(), "#fde725");
        assert_eq!(Ramp::BlueRed.at(0.5).hex(), "#f7f7f7");
        assert_eq!(Ramp::Blues.at(7.0).hex(), Ramp::Blues.at(1.0).hex());
    }

    #[test]
    fn amounts_keep_their_order_in_greyscale() {
        for k in 0..100 {
            let (u, v) = (f64::from(k) / 100.0, f64::from(k + 1) / 100.0);
            assert!(Ramp::Viridis.at(u).luminance() < Ramp::Viridis.at(v).luminance(), "{u}");
            assert!(Ramp::Blues.at(u).luminance() > Ramp::Blues.at(v).luminance(), "{u}");
            assert!(Ramp::Blues.on_dark(u).luminance() < Ramp::Blues.on_dark(v).luminance(), "{u}");
        }
    }

    #[test]
    fn little_amounts_do_not_glare_on_dark_paper() {
        // A pale cell on light paper has a luminance of about 0.9. The dark paper has 0.009.
        for (ramp, least) in [(Ramp::Viridis, 0.0), (Ramp::Blues, 0.0), (Ramp::BlueRed, 0.5)] {
            assert!(ramp.on_dark(least).luminance() < 0.03, "{ramp:?}");
        }
        // Both sides of a centre are lighter the farther they are.
        for k in 0..50 {
            let (u, v) = (f64::from(k) / 100.0, f64::from(k + 1) / 100.0);
            let light = |u: f64| Ramp::BlueRed.on_dark(u).luminance();
            assert!(light(u) > light(v) && light(1.0 - u) > light(1.0 - v), "{u}");
        }
    }

    #[test]
    fn text_on_a_cell_can_be_read() {
        assert_eq!(Ramp::Viridis.at(0.0).ink(), "#ffffff");
        assert_eq!(Ramp::Viridis.at(1.0).ink(), "#111111");
    }
}
