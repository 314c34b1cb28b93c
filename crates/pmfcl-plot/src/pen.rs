//! Writes SVG: shapes and text in, bytes out.
//!
//! Everything that reaches the file goes through here, so here it is made sure that no text can
//! break the markup and no number is written that is not one.

use std::fmt::{self, Write as _};

use crate::theme::{Paint, Theme};

/// A width and a height in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Pixels across.
    pub width: f64,
    /// Pixels down.
    pub height: f64,
}

impl Size {
    /// A size; what is not a number between 160 and 10,000 is moved there.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height }.checked()
    }

    /// The size, moved to where a chart can be drawn.
    pub(crate) fn checked(self) -> Self {
        let checked = |v: f64| if v.is_finite() { v.clamp(160.0, 10_000.0) } else { 480.0 };
        Self { width: checked(self.width), height: checked(self.height) }
    }
}

impl Default for Size {
    /// 640 × 400.
    fn default() -> Self {
        Self { width: 640.0, height: 400.0 }
    }
}

/// A rectangle; `x`, `y` is the upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) w: f64,
    pub(crate) h: f64,
}

impl Rect {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.w
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Anchor {
    #[default]
    Start,
    Middle,
    End,
}

/// A text and how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) words: &'a str,
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    pub(crate) fill: Fill<'a>,
    pub(crate) bold: bool,
    /// Degrees, clockwise.
    pub(crate) turn: f64,
    /// A rim in the colour of the paper, for text over lines.
    pub(crate) halo: bool,
    /// The whole text where `words` is a cut one.
    pub(crate) full: Option<&'a str>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(words: &'a str, size: f64) -> Self {
        Self {
            words,
            size,
            anchor: Anchor::Start,
            fill: Fill::Paint(Paint::Ink),
            bold: false,
            turn: 0.0,
            halo: false,
            full: None,
        }
    }

    pub(crate) fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(crate) fn paint(mut self, paint: Paint) -> Self {
        self.fill = Fill::Paint(paint);
        self
    }

    pub(crate) fn on_data(mut self, light: &'a str, dark: &'a str) -> Self {
        self.fill = Fill::Data { light, dark };
        self
    }

    pub(crate) fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub(crate) fn turn(mut self, degrees: f64) -> Self {
        self.turn = degrees;
        self
    }

    pub(crate) fn halo(mut self) -> Self {
        self.halo = true;
        self
    }

    pub(crate) fn full(mut self, full: &'a str) -> Self {
        self.full = (full != self.words).then_some(full);
        self
    }
}

/// A colour of the theme, or one that is data.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill<'a> {
    Paint(Paint),
    /// Its values on light and on dark paper.
    Data {
        light: &'a str,
        dark: &'a str,
    },
}

/// A line's colour, width and dashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stroke {
    pub(crate) paint: Paint,
    pub(crate) width: f64,
    pub(crate) dashes: &'static str,
}

impl Stroke {
    pub(crate) fn new(paint: Paint, width: f64) -> Self {
        Self { paint, width, dashes: "" }
    }

    pub(crate) fn dashes(mut self, dashes: &'static str) -> Self {
        self.dashes = dashes;
        self
    }
}

/// A growing SVG.
#[derive(Debug)]
pub(crate) struct Pen {
    out: String,
    theme: Theme,
}

impl Pen {
    /// Opens an SVG of a size, with a name and a description for screen readers.
    pub(crate) fn new(theme: Theme, size: Size, title: &str, description: &str) -> Self {
        let (w, h) = (Num(size.width), Num(size.height));
        let mut pen = Self { out: String::new(), theme };
        pen.write(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pmf\" role=\"img\" \
             width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"system-ui, &quot;DejaVu Sans&quot;, sans-serif\">\n\
             <title>{}</title>\n<desc>{}</desc>\n{}",
            Escaped(title),
            Escaped(description),
            theme.style()
        ));
        let whole = Rect { x: 0.0, y: 0.0, w: size.width, h: size.height };
        pen.rect(whole, Fill::Paint(Paint::Surface), 1.0, 0.0, None);
        pen
    }

    /// Closes the SVG.
    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    /// What follows is moved, until [`close`](Self::close).
    pub(crate) fn open_at(&mut self, x: f64, y: f64) {
        self.write(format_args!("<g transform=\"translate({} {})\">\n", Num(x), Num(y)));
    }

    /// The end of [`open_at`](Self::open_at).
    pub(crate) fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// What follows is cut off outside the rectangle, until [`unclip`](Self::unclip).
    ///
    /// A nested `svg` rather than a clip path: no name that could clash with another chart on the page.
    pub(crate) fn clip(&mut self, r: Rect) {
        let (x, y, w, h) = (Num(r.x), Num(r.y), Num(r.w), Num(r.h));
        self.write(format_args!(
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"{x} {y} {w} {h}\" overflow=\"hidden\">\n"
        ));
    }

    /// The end of [`clip`](Self::clip).
    pub(crate) fn unclip(&mut self) {
        self.out.push_str("</svg>\n");
    }

    /// A straight line.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        let d = format!("M{} {}L{} {}", Num(from.0), Num(from.1), Num(to.0), Num(to.1));
        self.stroke(&d, stroke);
    }

    /// The outline of a path.
    pub(crate) fn stroke(&mut self, d: &str, stroke: Stroke) {
        let color = self.theme.color(stroke.paint);
        self.write(format_args!(
            "<path d=\"{d}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\" \
             stroke-linejoin=\"round\"",
            Num(stroke.width)
        ));
        if !stroke.dashes.is_empty() {
            self.write(format_args!(" stroke-dasharray=\"{}\"", stroke.dashes));
        }
        self.out.push_str("/>\n");
    }

    /// The inside of a path, and its outline.
    pub(crate) fn fill(&mut self, d: &str, paint: Paint, opacity: f64, outline: Option<Stroke>) {
        let color = self.theme.color(paint);
        self.write(format_args!("<path d=\"{d}\" fill=\"{color}\""));
        if opacity < 1.0 {
            self.write(format_args!(" fill-opacity=\"{}\"", Num(opacity)));
        }
        if let Some(stroke) = outline {
            let color = self.theme.color(stroke.paint);
            self.write(format_args!(
                " stroke=\"{color}\" stroke-width=\"{}\" stroke-linejoin=\"round\"",
                Num(stroke.width)
            ));
        }
        self.out.push_str("/>\n");
    }

    /// A filled rectangle; `tip` is shown where the pointer rests.
    pub(crate) fn rect(
        &mut self,
        r: Rect,
        fill: Fill,
        opacity: f64,
        round: f64,
        tip: Option<&str>,
    ) {
        let fill = self.fill_attribute(fill);
        self.write(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {fill}",
            Num(r.x),
            Num(r.y),
            Num(r.w.max(0.0)),
            Num(r.h.max(0.0))
        ));
        if round > 0.0 {
            self.write(format_args!(" rx=\"{}\"", Num(round)));
        }
        if opacity < 1.0 {
            self.write(format_args!(" fill-opacity=\"{}\"", Num(opacity)));
        }
        match tip {
            Some(tip) => self.write(format_args!("><title>{}</title></rect>\n", Escaped(tip))),
            None => self.out.push_str("/>\n"),
        }
    }

    /// A text with its baseline at `y`.
    pub(crate) fn text(&mut self, x: f64, y: f64, text: Text) {
        if text.words.trim().is_empty() {
            return;
        }
        let fill = self.fill_attribute(text.fill);
        self.write(format_args!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" {fill}",
            Num(x),
            Num(y),
            Num(text.size)
        ));
        match text.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.out.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.out.push_str(" text-anchor=\"end\""),
        }
        if text.bold {
            self.out.push_str(" font-weight=\"600\"");
        }
        if text.turn.abs() > 0.0 {
            self.write(format_args!(
                " transform=\"rotate({} {} {})\"",
                Num(text.turn),
                Num(x),
                Num(y)
            ));
        }
        if text.halo {
            let surface = self.theme.color(Paint::Surface);
            self.write(format_args!(
                " stroke=\"{surface}\" stroke-width=\"3\" stroke-linejoin=\"round\" \
                 paint-order=\"stroke\""
            ));
        }
        self.out.push('>');
        if let Some(full) = text.full {
            self.write(format_args!("<title>{}</title>", Escaped(full)));
        }
        self.write(format_args!("{}</text>\n", Escaped(text.words)));
    }

    fn fill_attribute(&self, fill: Fill) -> String {
        match fill {
            Fill::Paint(paint) => format!("fill=\"{}\"", self.theme.color(paint)),
            Fill::Data { light, dark } => self.theme.fill(light, dark),
        }
    }

    fn write(&mut self, args: fmt::Arguments) {
        self.out.write_fmt(args).expect("a String takes every write");
    }
}

/// A path through points; `None` lifts the pen.
pub(crate) fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> String {
    let mut d = String::new();
    let mut down = false;
    for point in points {
        if let Some((x, y)) = point {
            let verb = if down { 'L' } else { 'M' };
            write!(d, "{verb}{} {}", Num(x), Num(y)).expect("a String takes every write");
        }
        down = point.is_some();
    }
    d
}

/// A coordinate: at most two decimals, and always a number.
pub(crate) struct Num(pub(crate) f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0.is_finite(), "a coordinate is {}", self.0);
        let v = if self.0.is_finite() { (self.0 * 100.0).round() / 100.0 } else { 0.0 };
        // Adding zero turns −0 into 0. Rust writes the fewest digits that give `v` back.
        write!(f, "{}", v + 0.0)
    }
}

/// A text that cannot be taken for markup, in content or between quotes; control characters and those XML forbids
/// become `�`.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                c if c.is_control() => f.write_char('\u{FFFD}')?,
                '\u{FFFE}' | '\u{FFFF}' => f.write_char('\u{FFFD}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_stays_text() {
        let text = "<b a=\"1\" b='2'>&amp;\u{0}\u{FFFF}\n";
        assert_eq!(
            Escaped(text).to_string(),
            "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;\u{FFFD}\u{FFFD} "
        );
    }

    #[test]
    fn coordinates_are_short() {
        for (v, text) in [(1.0, "1"), (-0.001, "0"), (12.3456, "12.35"), (-7.5, "-7.5")] {
            assert_eq!(Num(v).to_string(), text);
        }
    }

    #[test]
    fn a_gap_lifts_the_pen() {
        let d = path([Some((0.0, 0.0)), Some((1.0, 1.0)), None, Some((3.0, 1.0))]);
        assert_eq!(d, "M0 0L1 1M3 1");
    }
}
