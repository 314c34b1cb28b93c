//! Colours: light, dark, or whichever the reader's screen asks for.
//!
//! The series colours are those of Okabe and Ito, chosen so that people with any of the common
//! colour deficiencies can tell them apart. Their yellow is too pale on white and their black is
//! lost on dark, so both have a stand-in on that side.

/// Which colours a chart is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Light or dark after the reader's settings, through CSS variables.
    ///
    /// Every colour is `var(--pmf-…)`, set on `svg.pmf`; a page may set them anew with a stronger
    /// selector, and `--pmf-is-dark` to nothing (`--pmf-is-dark: ;`) where its paper is dark. For
    /// browsers; other programs rarely know variables, give them [`Light`](Theme::Light).
    #[default]
    Auto,
    /// Dark ink on white, with fixed colours.
    Light,
    /// Light ink on near-black, with fixed colours.
    Dark,
}

/// What a stroke or a fill is for; the [`Theme`] knows its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// The paper.
    Surface,
    /// Titles and marks that must stand out.
    Ink,
    /// Tick labels, notes, reference lines.
    Muted,
    /// Axis lines.
    Axis,
    /// Grid lines.
    Grid,
    /// The n-th series, counted from 0; there are [`SERIES`] colours, then they start again.
    Series(usize),
}

/// How many different series colours there are.
pub const SERIES: usize = 8;

impl Paint {
    fn index(self) -> usize {
        match self {
            Self::Surface => 0,
            Self::Ink => 1,
            Self::Muted => 2,
            Self::Axis => 3,
            Self::Grid => 4,
            Self::Series(n) => 5 + n % SERIES,
        }
    }
}

impl Theme {
    /// The colour as written into the SVG.
    pub(crate) fn color(self, paint: Paint) -> &'static str {
        let [_, var, light, dark] = TABLE[paint.index()];
        match self {
            Self::Auto => var,
            Self::Light => light,
            Self::Dark => dark,
        }
    }

    /// The style sheet that gives the variables their values; only `Auto` needs one.
    pub(crate) fn style(self) -> String {
        if self != Self::Auto {
            return String::new();
        }
        let set = |side: usize| -> String {
            TABLE.iter().flat_map(|row| [row[0], ":", row[side], ";"]).collect()
        };
        format!(
            "<style>svg.pmf{{{}{IS_DARK}:initial;}}\
             @media (prefers-color-scheme: dark){{svg.pmf{{{}{IS_DARK}: ;}}}}</style>\n",
            set(LIGHT),
            set(DARK)
        )
    }

    /// The attribute that fills a shape with a colour that is data and has another value on dark paper.
    pub(crate) fn fill(self, light: &str, dark: &str) -> String {
        match self {
            Self::Light => format!("fill=\"{light}\""),
            Self::Dark => format!("fill=\"{dark}\""),
            // An empty variable leaves the dark colour alone in `--c`. An unset one makes `--c` invalid, and the
            // light colour is taken.
            Self::Auto => format!("style=\"--c:var({IS_DARK}) {dark};fill:var(--c,{light})\""),
        }
    }
}

/// The variable that is empty on dark paper and unset on light paper.
const IS_DARK: &str = "--pmf-is-dark";

/// Puts the light colours in place of the variables, for renderers that do not know them.
#[cfg(feature = "png")]
pub(crate) fn without_variables(svg: &str) -> String {
    let mut svg = svg.to_owned();
    if let (Some(from), Some(to)) = (svg.find("<style>svg.pmf{"), svg.find("</style>")) {
        svg.replace_range(from..to + "</style>".len(), "");
    }
    for [_, var, light, _] in TABLE {
        svg = svg.replace(var, light);
    }
    // What `Theme::fill` writes: the light colour is the last one.
    let mut plain = String::with_capacity(svg.len());
    let mut rest = svg.as_str();
    while let Some((before, pair)) = rest.split_once("style=\"--c:var(--pmf-is-dark) ") {
        let Some((light, after)) =
            pair.split_once("fill:var(--c,").and_then(|(_, colour)| colour.split_once(")\""))
        else {
            break;
        };
        plain.extend([before, "fill=\"", light, "\""]);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

const LIGHT: usize = 2;
const DARK: usize = 3;

/// Variable, its use, light, dark; in the order of [`Paint::index`].
const TABLE: [[&str; 4]; 5 + SERIES] = [
    ["--pmf-surface", "var(--pmf-surface)", "#ffffff", "#15181d"],
    ["--pmf-ink", "var(--pmf-ink)", "#1b1f24", "#e8eaed"],
    ["--pmf-muted", "var(--pmf-muted)", "#59616b", "#a6aeb8"],
    ["--pmf-axis", "var(--pmf-axis)", "#8b939d", "#6d7682"],
    ["--pmf-grid", "var(--pmf-grid)", "#e6e9ed", "#2b3139"],
    ["--pmf-s0", "var(--pmf-s0)", "#0072b2", "#4ba6e0"], // blue
    ["--pmf-s1", "var(--pmf-s1)", "#d55e00", "#f58442"], // vermillion
    ["--pmf-s2", "var(--pmf-s2)", "#009e73", "#2cc39a"], // bluish green
    ["--pmf-s3", "var(--pmf-s3)", "#cc79a7", "#e59dc5"], // reddish purple
    ["--pmf-s4", "var(--pmf-s4)", "#e69f00", "#f0b429"], // orange
    ["--pmf-s5", "var(--pmf-s5)", "#56b4e9", "#9fd4f5"], // sky blue
    ["--pmf-s6", "var(--pmf-s6)", "#8a7a00", "#f0e442"], // yellow
    ["--pmf-s7", "var(--pmf-s7)", "#4a4f57", "#c3c8cf"], // black
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ninth_series_has_the_first_color_again() {
        for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
            assert_eq!(theme.color(Paint::Series(SERIES)), theme.color(Paint::Series(0)));
        }
    }

    #[test]
    fn every_variable_is_set_for_both_sides() {
        let style = Theme::Auto.style();
        for row in TABLE {
            assert_eq!(style.matches(&format!("{}:", row[0])).count(), 2, "{}", row[0]);
            assert_eq!(row[1], format!("var({})", row[0]));
        }
    }
}
