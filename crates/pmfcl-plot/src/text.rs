//! How wide a text will be, without a font.
//!
//! The widths are those of `DejaVu Sans`, which is wider than most system fonts: what fits here fits
//! there.

/// A tick label.
pub(crate) const SMALL: f64 = 11.0;
/// An axis label, a legend entry.
pub(crate) const NORMAL: f64 = 12.0;
/// A chart's title.
pub(crate) const LARGE: f64 = 15.0;
/// The title of a grid of charts.
pub(crate) const HUGE: f64 = 18.0;

/// Bold letters of `DejaVu Sans` are at most this much wider.
const BOLD: f64 = 1.13;

/// Widths of the characters from space to tilde, in thousandths of the font size.
const ASCII: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// The width of `text` in pixels at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// The same for bold letters.
pub(crate) fn bold_width(text: &str, size: f64) -> f64 {
    BOLD * width(text, size)
}

/// The width of the widest of several texts.
pub(crate) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, size: f64) -> f64 {
    texts.into_iter().map(|text| width(text, size)).fold(0.0, f64::max)
}

/// `text`, cut with an ellipsis if it is wider than `room`.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let room = room - advance('…') * size / 1000.0;
    let mut used = 0.0;
    let kept: String = text
        .chars()
        .take_while(|&c| {
            used += advance(c) * size / 1000.0;
            used <= room
        })
        .collect();
    format!("{}…", kept.trim_end())
}

/// `text`, cut in the middle if it is wider than `room`: the end is kept too.
pub(crate) fn fit_middle(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let half = (room - advance('…') * size / 1000.0) / 2.0;
    let within = |c: &char, used: &mut f64| {
        *used += advance(*c) * size / 1000.0;
        *used <= half
    };
    let (mut head, mut tail) = (0.0, 0.0);
    let start: String = text.chars().take_while(|c| within(c, &mut head)).collect();
    let end: Vec<char> = text.chars().rev().take_while(|c| within(c, &mut tail)).collect();
    let end: String = end.into_iter().rev().collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// `text` in lines no wider than `room`, broken at spaces; at most `most` lines, the last one cut.
pub(crate) fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() >= most;
        match lines.last_mut() {
            Some(line)
                if full || width(line, size) + width(" ", size) + width(word, size) <= room =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| fit(line, size, room)).collect()
}

fn advance(c: char) -> f64 {
    match c as u32 {
        code @ 32..=126 => f64::from(ASCII[code as usize - 32]),
        // Superscripts: exponents of tick labels.
        0xB2 | 0xB3 | 0xB9 | 0x2070..=0x209C => 430.0,
        // Marks that combine with the letter before, and characters of no width.
        0x300..=0x36F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0.0,
        0x2009 | 0x202F => 200.0,
        0x410..=0x44F => 716.0,
        0..0x1100 => 640.0,
        // Chinese, Japanese, Korean, pictures: a full square.
        0x1100..=0x11FF | 0x2E80..=0xD7FF | 0xF900..=0xFAFF | 0xFF00.. => 1000.0,
        _ => 840.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_left_alone() {
        assert_eq!(fit("knee", NORMAL, 100.0), "knee");
    }

    #[test]
    fn a_text_that_is_cut_fits() {
        let name = "a task with a name as long as the day";
        for room in [20.0, 50.0, 90.0, 150.0] {
            let cut = fit(name, SMALL, room);
            assert!(cut.ends_with('…') && width(&cut, SMALL) <= room, "{cut}");
            let cut = fit_middle(name, SMALL, room);
            assert!(cut.contains('…') && width(&cut, SMALL) <= room, "{cut}");
        }
    }

    #[test]
    fn lines_are_broken_at_spaces_and_none_is_lost() {
        let lines = wrap("the loss of every task after every task", LARGE, 130.0, 9);
        assert_eq!(lines.join(" "), "the loss of every task after every task");
        assert!(lines.iter().all(|line| width(line, LARGE) <= 130.0));
    }

    #[test]
    fn a_text_of_too_many_lines_ends_with_an_ellipsis() {
        let lines = wrap("the loss of every task after every task", LARGE, 130.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'));
    }
}
