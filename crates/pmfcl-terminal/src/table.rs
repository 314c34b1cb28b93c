//! A titled table of text cells, the form every experiment reports in.

/// Rows of text under named columns, with notes below.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// What to know to read it.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// As plain text: the first column to the left, the others to the right.
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = self.rows.iter().filter_map(|r| r.get(c));
                cells.chain([&self.columns[c]]).map(|s| s.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[String]| {
            let mut out = String::from(" ");
            for (c, cell) in cells.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                out.push_str(&if c == 0 {
                    format!(" {cell}{pad}")
                } else {
                    format!("  {pad}{cell}")
                });
            }
            out.trim_end().to_owned() + "\n"
        };
        let mut out = format!("{}\n\n", self.title);
        out.push_str(&line(&self.columns));
        let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        out.push_str(&line(&rule));
        for row in &self.rows {
            out.push_str(&line(row));
        }
        for note in &self.notes {
            out.push_str(&format!("\n  {note}"));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        out
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut out = row(&self.columns);
        out.push_str(&row(&vec!["---".to_owned(); self.columns.len()]));
        for cells in &self.rows {
            out.push_str(&row(cells));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_on_the_right() {
        let mut table = Table::new("t", &["way", "error"]);
        table.row(["gram".to_owned(), "1".to_owned()]);
        table.row(["q".to_owned(), "1e-10".to_owned()]);
        let lines: Vec<String> = table.text().lines().map(str::to_owned).collect();
        assert_eq!(lines[4], "  gram      1");
        assert_eq!(lines[5], "  q     1e-10");
    }
}
