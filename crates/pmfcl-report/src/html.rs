//! Escaped text: names come from files and may hold markup.

use std::fmt;

/// A text that cannot be taken for markup, in content or between quotes.
pub(crate) use pmfcl_plot::Escaped as Text;

/// Characters of a name in running text and tables; the whole is shown where the pointer rests.
const LONGEST: usize = 48;

/// A name from outside, kept apart from the text around it in its direction of writing too.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = label(self.0);
        let brief = cut(whole, LONGEST);
        if brief == whole {
            write!(f, "<bdi>{}</bdi>", Text(whole))
        } else {
            write!(f, "<bdi title=\"{}\">{}</bdi>", Text(whole), Text(&brief))
        }
    }
}

/// A name, or words in its place where there is nothing to see.
pub(crate) fn label(name: &str) -> &str {
    if name.trim().is_empty() { "(no name)" } else { name }
}

/// JSON that can stand inside a script element: no `<`, `>` or `&` is left in it.
pub(crate) fn script_json(value: &serde_json::Value) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Outside its strings JSON has none of these, inside an escape means the same.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// At most `most` characters of a name, its middle left out: names of tasks often differ at the end only.
pub(crate) fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let tail = most / 3;
    let head = most.saturating_sub(tail + 1);
    let (first, last) = (&letters[..head], &letters[letters.len() - tail..]);
    first.iter().chain(['…'].iter()).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_stays_text_and_scripts_stay_closed() {
        assert_eq!(
            Text("<a b='c'>&\"\u{0}").to_string(),
            "&lt;a b=&#39;c&#39;&gt;&amp;&quot;\u{fffd}"
        );
        let name = "</script><!--\u{2028}&";
        let json = script_json(&serde_json::json!([name])).unwrap();
        assert!(!json.contains(['<', '>', '&', '\u{2028}']));
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, [name]);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("März", 4), "März");
        assert_eq!(cut("März 2011", 4), "Mä…1");
        assert_eq!(cut("household 070", 9), "house…070");
    }
}
