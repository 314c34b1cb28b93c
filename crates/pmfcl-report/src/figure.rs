//! Charts in the page: each drawn twice, for wide and for narrow screens, so that its words stay readable.

use pmfcl_plot::{Front, HeatMap, Lines, Size, Theme};

use crate::html::{Text, cut};

/// Characters of a task's name in a narrow chart.
const NARROW_NAME: usize = 9;

/// Both drawings of a chart, named `title` for screen readers.
fn both(title: &str, wide: &str, narrow: &str) -> String {
    // Headings stand in the page, so charts have none of their own and are called «chart».
    let named = |svg: &str| {
        svg.replacen("<title>chart</title>", &format!("<title>{}</title>", Text(title)), 1)
    };
    format!(
        "<div class=\"chart wide\">{}</div>\n<div class=\"chart narrow\">{}</div>\n",
        named(wide),
        named(narrow)
    )
}

/// A heat map with one row for each of some tasks.
pub(crate) fn heat(title: &str, chart: &HeatMap) -> String {
    let rows = chart.rows.len().max(1) as f64;
    let shorter = |names: &[String]| names.iter().map(|n| cut(n, NARROW_NAME)).collect();
    let wide = HeatMap {
        size: Size::new(640.0, (110.0 + 44.0 * rows).clamp(200.0, 560.0)),
        ..chart.clone()
    };
    let narrow = HeatMap {
        size: Size::new(336.0, (110.0 + 26.0 * rows).clamp(180.0, 275.0)),
        rows: shorter(&chart.rows),
        columns: shorter(&chart.columns),
        ..chart.clone()
    };
    both(title, &wide.svg(Theme::Auto), &narrow.svg(Theme::Auto))
}

/// Lines over the tasks.
pub(crate) fn lines(title: &str, chart: &Lines) -> String {
    let wide = Lines { size: Size::new(640.0, 360.0), ..chart.clone() };
    let narrow = Lines { size: Size::new(336.0, 330.0), ..chart.clone() };
    both(title, &wide.svg(Theme::Auto), &narrow.svg(Theme::Auto))
}

/// The front of two tasks.
pub(crate) fn front(title: &str, chart: &Front) -> String {
    let wide = Front { title: String::new(), size: Size::new(560.0, 420.0), ..chart.clone() };
    let narrow = Front { size: Size::new(336.0, 300.0), ..wide.clone() };
    both(title, &wide.svg(Theme::Auto), &narrow.svg(Theme::Auto))
}
