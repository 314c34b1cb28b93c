//! PNG pictures of the SVG charts.
//!
//! The text is set in `DejaVu Sans`, which is part of the program: the picture is the same on every
//! machine, fonts or not. The font has a licence of its own, see [`FONT_LICENSE`].

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};

use crate::theme::without_variables;

/// The licence of `DejaVu Sans`. It is to be handed on with every program that has this feature.
pub const FONT_LICENSE: &str = include_str!("../fonts/LICENSE-DejaVu.txt");

/// The longest side of a picture in pixels.
pub const LONGEST: u32 = 32_768;

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The text is not an SVG.
    #[error("this is not an SVG that can be drawn: {0}")]
    Svg(String),
    /// The scale makes the picture too large or empty.
    #[error(
        "a scale of {scale} makes the picture {width} × {height} pixels; each side must be 1 to {LONGEST}"
    )]
    Size {
        /// The scale asked for.
        scale: f32,
        /// Pixels across.
        width: f32,
        /// Pixels down.
        height: f32,
    },
    /// The pixels could not be packed.
    #[error("the picture could not be packed as PNG: {0}")]
    Pack(String),
}

/// An SVG of this crate as PNG, `scale` pixels for each pixel of the SVG; 2 is good for screens,
/// 3 for print.
///
/// A chart of [`Theme::Auto`](crate::Theme::Auto) comes out light.
///
/// # Errors
///
/// [`PngError::Svg`] if `svg` is not an SVG, [`PngError::Size`] if a side of the picture would be
/// empty or longer than [`LONGEST`].
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
        let mut fonts = fontdb::Database::new();
        for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
            fonts.load_font_source(fontdb::Source::Binary(Arc::new(font)));
        }
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    });
    let options = usvg::Options {
        fontdb: Arc::clone(&FONTS),
        font_family: "DejaVu Sans".to_owned(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(&without_variables(svg), &options)
        .map_err(|error| PngError::Svg(error.to_string()))?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let size = PngError::Size { scale, width, height };
    let side = |length: f32| {
        let whole = length.ceil();
        ((1.0..=LONGEST as f32).contains(&whole)).then_some(whole as u32)
    };
    let (Some(across), Some(down)) = (side(width), side(height)) else { return Err(size) };
    let mut picture = Pixmap::new(across, down).ok_or(size)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut picture.as_mut());
    picture.encode_png().map_err(|error| PngError::Pack(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lines, Series, Theme};

    fn chart() -> Lines {
        Lines {
            title: "Loss".into(),
            series: vec![Series::from_values("a", [1.0, 2.0])],
            ..Lines::default()
        }
    }

    /// Width and height as the PNG header says.
    fn size(png: &[u8]) -> (u32, u32) {
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        (number(16), number(20))
    }

    #[test]
    fn the_picture_has_the_size_of_the_chart_times_the_scale() {
        let picture = png(&chart().svg(Theme::Light), 2.0).unwrap();
        assert_eq!(size(&picture), (1280, 800));
    }

    #[test]
    fn the_colors_of_the_reader_come_out_light() {
        let auto = png(&chart().svg(Theme::Auto), 1.0).unwrap();
        assert_eq!(auto, png(&chart().svg(Theme::Light), 1.0).unwrap());
        assert_ne!(auto, png(&chart().svg(Theme::Dark), 1.0).unwrap());
    }

    #[test]
    fn text_is_drawn_without_any_font_of_the_machine() {
        let untitled = Lines { title: " ".into(), ..chart() };
        let with = png(&chart().svg(Theme::Light), 1.0).unwrap();
        assert_ne!(with, png(&untitled.svg(Theme::Light), 1.0).unwrap());
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(matches!(png("not an svg", 1.0), Err(PngError::Svg(_))));
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e6] {
            let got = png(&chart().svg(Theme::Light), scale);
            assert!(matches!(got, Err(PngError::Size { .. })), "{scale}");
        }
    }
}
