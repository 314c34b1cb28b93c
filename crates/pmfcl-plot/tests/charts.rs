//! What holds for every chart, whatever its data: well-formed, finite, the same every time.

use pmfcl_plot::{
    Axis, BarGroup, Bars, CellText, Chart, Front, Grid, HeatMap, Legend, Lines, Mark, Ramp, Rule,
    Scale, Series, Size, Theme,
};
use proptest::prelude::*;

const THEMES: [Theme; 3] = [Theme::Auto, Theme::Light, Theme::Dark];

fn lines() -> Lines {
    Lines {
        title: "Loss after each task".into(),
        x: Axis::names("task", ["spring", "summer", "autumn"]),
        y: Axis::linear("loss"),
        series: vec![
            Series::from_values("pmfcl", [0.3, 0.2, 0.25]).with_band([0.02, 0.01, 0.02]),
            Series::from_values("joint", [0.3, f64::NAN, 0.2]),
        ],
        rules: vec![Rule::at_y(0.22, "target"), Rule::at_x(1.0, "drift")],
        ..Lines::default()
    }
}

fn front() -> Front {
    Front::new("spring", "summer", [(0.1, 0.9), (0.2, 0.4), (0.6, 0.2)])
        .with_curve("bound", [(0.2, 1.0), (0.3, 0.5), (0.7, 0.3)])
        .with_mark(Mark::new("knee", (0.2, 0.4)))
        .with_mark(Mark::new("current", (f64::NAN, 0.4)))
}

fn heat() -> HeatMap {
    let tasks = || vec!["spring".to_owned(), "summer".to_owned()];
    HeatMap {
        title: "Forgetting".into(),
        rows: tasks(),
        columns: tasks(),
        cells: vec![vec![Some(0.0), Some(0.5)], vec![None, Some(f64::INFINITY)]],
        color: Axis::linear("forgetting"),
        text: CellText::Values,
        ..HeatMap::default()
    }
}

fn bars() -> Bars {
    Bars {
        title: "Seconds".into(),
        names: vec!["small".into(), "large".into()],
        y: Axis::log("seconds"),
        groups: vec![
            BarGroup::new("pmfcl", [0.1, 2.0]).with_spread([0.01, 0.3]),
            BarGroup::new("others", [1.0, f64::NAN]),
        ],
        ..Bars::default()
    }
}

fn all() -> Vec<Chart> {
    let charts: Vec<Chart> = vec![lines().into(), front().into(), heat().into(), bars().into()];
    let grid = Grid { title: "All".into(), charts: charts.clone(), ..Grid::default() };
    charts.into_iter().chain([grid.into()]).collect()
}

/// Attributes whose every word that could be a number must be a finite one.
const NUMBERS: [&str; 12] = [
    "x",
    "y",
    "width",
    "height",
    "viewBox",
    "font-size",
    "rx",
    "stroke-width",
    "stroke-dasharray",
    "fill-opacity",
    "d",
    "transform",
];

/// Parses the SVG and looks at each number in it.
fn check(svg: &str) {
    let document = roxmltree::Document::parse(svg).expect("well-formed");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        for attribute in node.attributes().filter(|a| NUMBERS.contains(&a.name())) {
            let value = attribute.value().replace("translate", "").replace("rotate", "");
            let words = value.split(|c: char| "MLaZ(), ".contains(c));
            for word in words.filter(|word| !word.is_empty()) {
                let number: f64 = word.parse().unwrap_or(f64::NAN);
                // A nested chart may lie far down, but nothing lies where no screen reaches.
                assert!(number.abs() < 1e7, "{}: {}", attribute.name(), attribute.value());
            }
        }
    }
}

fn count(svg: &str, tag: &str) -> usize {
    let document = roxmltree::Document::parse(svg).expect("well-formed");
    document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)))
        .count()
}

#[test]
fn every_chart_is_well_formed_and_names_itself() {
    for chart in all() {
        for theme in THEMES {
            let svg = chart.svg(theme);
            check(&svg);
            let document = roxmltree::Document::parse(&svg).unwrap();
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"));
            let mut inside = root.children().filter(roxmltree::Node::is_element);
            assert_eq!(inside.next().map(|node| node.tag_name().name()), Some("title"));
            assert_eq!(inside.next().map(|node| node.tag_name().name()), Some("desc"));
        }
    }
}

#[test]
fn the_same_data_give_the_same_bytes() {
    for (one, other) in all().into_iter().zip(all()) {
        for theme in THEMES {
            assert_eq!(one.svg(theme), other.svg(theme));
        }
    }
}

#[test]
fn only_the_readers_theme_has_variables() {
    for chart in all() {
        assert!(chart.svg(Theme::Auto).contains("prefers-color-scheme: dark"));
        assert!(chart.svg(Theme::Auto).contains("var(--pmf-ink)"));
        for theme in [Theme::Light, Theme::Dark] {
            assert!(!chart.svg(theme).contains("--pmf"));
        }
    }
}

#[test]
fn all_text_from_outside_is_escaped() {
    let evil = "</text><script>alert('\"&')</script>";
    let mut chart = lines();
    chart.title = evil.into();
    chart.description = evil.into();
    chart.x = Axis::names(evil, [evil, evil, evil]);
    chart.y.label = evil.into();
    chart.series[0].name = evil.into();
    chart.rules[0].label = evil.into();
    let svg = chart.svg(Theme::Auto);
    check(&svg);
    assert_eq!(count(&svg, "script"), 0);
    assert!(svg.contains("&lt;script&gt;"));
}

#[test]
fn a_gap_lifts_the_line_and_its_point_is_missing() {
    let all_there = Lines { series: vec![Series::from_values("a", [1.0, 2.0, 3.0])], ..lines() };
    let one_gone =
        Lines { series: vec![Series::from_values("a", [1.0, f64::NAN, 3.0])], ..lines() };
    let (whole, broken) = (all_there.svg(Theme::Light), one_gone.svg(Theme::Light));
    // One marker less; the line is still one path, with two strokes.
    assert_eq!(count(&whole, "path"), count(&broken, "path") + 1);
}

#[test]
fn an_empty_cell_has_no_square() {
    let full = HeatMap { cells: vec![vec![Some(0.0), Some(0.5)], vec![Some(0.1); 2]], ..heat() };
    let (some, all) = (heat().svg(Theme::Light), full.svg(Theme::Light));
    assert_eq!(count(&some, "rect") + 2, count(&all, "rect"));
}

#[test]
fn one_bar_for_each_finite_value() {
    let svg = bars().svg(Theme::Light);
    // The paper, three bars, two squares of the legend.
    assert_eq!(count(&svg, "rect"), 6);
}

#[test]
fn charts_without_a_value_say_so() {
    let empty: [Chart; 8] = [
        Lines::default().into(),
        Lines { series: vec![Series::from_values("a", [f64::NAN])], ..Lines::default() }.into(),
        Lines {
            y: Axis::log("loss").between(0.1, 1.0),
            series: vec![Series::from_values("a", [-1.0])],
            ..Lines::default()
        }
        .into(),
        Front::default().into(),
        HeatMap::default().into(),
        HeatMap { cells: vec![vec![None; 2]; 2], ..heat() }.into(),
        Bars::default().into(),
        Grid::default().into(),
    ];
    for chart in empty {
        let svg = chart.svg(Theme::Light);
        check(&svg);
        assert!(svg.contains(">no data<"), "{svg}");
    }
}

#[test]
fn one_legend_serves_a_grid_of_equal_charts() {
    let grid = Grid { charts: vec![lines().into(); 4], ..Grid::default() };
    assert_eq!(grid.svg(Theme::Light).matches(">pmfcl<").count(), 1);
}

/// Values as they come from experiments that went wrong.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..10.0_f64,
        2 => Just(1.0),
        1 => Just(0.0),
        1 => any::<f64>(),
        2 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE,
            5e-324, -5e-324, 1e-200, 1e-201, 1e200, 1e300, -1e300, 1.0 + f64::EPSILON,
        ]),
    ]
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(value(), 0..60)
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![
        Just(Scale::Linear),
        Just(Scale::Whole),
        Just(Scale::Log),
        (0..5_usize).prop_map(|n| Scale::Names(vec!["a name that is long".into(); n])),
    ];
    let range = prop::option::weighted(0.3, (value(), value()));
    (scale, range, any::<bool>()).prop_map(|(scale, range, from_zero)| Axis {
        label: "label".into(),
        scale,
        range,
        from_zero,
    })
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        2 => Just(Size::default()),
        1 => (value(), value()).prop_map(|(width, height)| Size { width, height }),
    ]
}

fn legend() -> impl Strategy<Value = Legend> {
    prop::sample::select(vec![Legend::Auto, Legend::Right, Legend::Below, Legend::Hidden])
}

proptest! {
    #[test]
    fn lines_are_finite_whatever_the_data(
        (x, y) in (axis(), axis()), xs in values(), ys in values(), band in values(),
        at in value(), size in size(), legend in legend(),
    ) {
        let points = xs.iter().copied().zip(ys.iter().copied());
        let chart = Lines {
            series: vec![
                Series::new("one", points).with_band(band.clone()),
                Series::from_values("two", ys).with_band(band),
            ],
            rules: vec![Rule::at_x(at, "x"), Rule::at_y(at, "y"), Rule::at_x(1.0, "one")],
            x, y, size, legend, ..Lines::default()
        };
        check(&chart.svg(Theme::Auto));
    }

    #[test]
    fn fronts_are_finite_whatever_the_data(
        (x, y) in (axis(), axis()), xs in values(), ys in values(), at in (value(), value()),
        size in size(),
    ) {
        let points: Vec<_> = xs.into_iter().zip(ys).collect();
        let front = Front::new("a", "b", points.clone()).with_curve("bound", points);
        let chart = Front { x, y, size, ..front }
            .with_mark(Mark::new("current", at))
            .with_mark(Mark::new("other", at));
        check(&chart.svg(Theme::Light));
    }

    #[test]
    fn bars_are_finite_whatever_the_data(
        y in axis(), one in values(), two in values(), spread in values(), names in 0..20_usize,
        size in size(), legend in legend(),
    ) {
        let chart = Bars {
            names: (0..names).map(|i| format!("name {i}")).collect(),
            groups: vec![BarGroup::new("one", one).with_spread(spread), BarGroup::new("two", two)],
            y, size, legend, ..Bars::default()
        };
        check(&chart.svg(Theme::Dark));
    }

    #[test]
    fn heat_maps_are_finite_whatever_the_data(
        color in axis(), cells in prop::collection::vec(values(), 0..8), center in value(),
        (rows, columns) in (0..9_usize, 0..60_usize), size in size(),
        ramp in prop::sample::select(vec![Ramp::Viridis, Ramp::Blues, Ramp::BlueRed]),
    ) {
        let names = |n: usize| (0..n).map(|i| format!("task {i}")).collect::<Vec<_>>();
        let chart = HeatMap {
            rows: names(rows),
            columns: names(columns),
            cells: cells.into_iter().map(|row| row.into_iter().map(Some).collect()).collect(),
            text: CellText::Values,
            color, center, ramp, size, ..HeatMap::default()
        };
        check(&chart.svg(Theme::Auto));
    }

    #[test]
    fn any_text_is_well_formed(text in any::<String>()) {
        let chart = Lines { title: text.clone(), description: text.clone(), ..lines() };
        check_form(&chart.svg(Theme::Auto));
        let chart = Bars { names: vec![text.clone(), text], ..bars() };
        check_form(&chart.svg(Theme::Light));
    }
}

fn check_form(svg: &str) {
    roxmltree::Document::parse(svg).expect("well-formed");
}

const CUT: &str = "cut off at the lower end";

#[test]
fn a_band_below_a_logarithmic_axis_is_cut_and_noted() {
    let chart = |y: Axis, half: f64| Lines {
        title: "Loss".into(),
        y,
        series: vec![Series::from_values("a", [1.0, 2.0, 4.0]).with_band([0.1, half, 0.1])],
        ..Lines::default()
    };
    for (y, half, noted) in [
        (Axis::log("loss"), 0.5, false),
        (Axis::log("loss"), 1.999, true),
        (Axis::log("loss"), 2.0, true),
        (Axis::log("loss"), 5.0, true),
        (Axis::linear("loss"), 5.0, false),
    ] {
        let svg = chart(y, half).svg(Theme::Light);
        assert_eq!(svg.contains(CUT), noted, "{half}");
        let document = roxmltree::Document::parse(&svg).unwrap();
        let clip = document.descendants().find(|n| n.has_attribute("overflow")).unwrap();
        let number = |name: &str| clip.attribute(name).unwrap().parse::<f64>().unwrap();
        let bottom = number("y") + number("height");
        // The band is the filled path inside the plot; none of its corners lies below the plot.
        let band = clip.children().find(|n| n.has_attribute("fill-opacity")).unwrap();
        let corners = band.attribute("d").unwrap().split(['M', 'L', 'Z']).filter(|c| !c.is_empty());
        let lowest = corners.map(|c| c.split(' ').nth(1).unwrap().parse::<f64>().unwrap());
        // Coordinates are written with two decimals.
        assert!(lowest.fold(0.0, f64::max) <= bottom + 0.011, "{half}: {svg}");
    }
}

#[test]
fn a_whisker_below_a_logarithmic_axis_is_cut_and_noted() {
    for (spread, noted) in [(0.2, false), (3.0, true)] {
        let chart = Bars {
            names: vec!["a".into()],
            y: Axis::log("seconds"),
            groups: vec![BarGroup::new("one", [1.0]).with_spread([spread])],
            ..Bars::default()
        };
        assert_eq!(chart.svg(Theme::Light).contains(CUT), noted, "{spread}");
    }
}

#[test]
fn a_heat_map_has_other_colours_on_dark_paper() {
    let chart = HeatMap { ramp: Ramp::Blues, ..heat() };
    let (light, dark, auto) =
        (chart.svg(Theme::Light), chart.svg(Theme::Dark), chart.svg(Theme::Auto));
    // The lowest cell is nearly white on light paper, and both colours are in the automatic theme.
    assert!(light.contains("#f1f6fc") && !light.contains("#1b2736"));
    assert!(dark.contains("#1b2736") && !dark.contains("#f1f6fc"));
    assert!(auto.contains("--c:var(--pmf-is-dark) #1b2736;fill:var(--c,#f1f6fc)"));
}

#[cfg(feature = "png")]
#[test]
fn a_heat_map_of_the_automatic_theme_is_light_as_png() {
    let chart = HeatMap { ramp: Ramp::BlueRed, ..heat() };
    let picture = |theme| pmfcl_plot::png(&chart.svg(theme), 1.0).unwrap();
    assert_eq!(picture(Theme::Auto), picture(Theme::Light));
    assert_ne!(picture(Theme::Auto), picture(Theme::Dark));
}
