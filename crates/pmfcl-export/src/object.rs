//! JSON objects whose entries stay in the order they were put in, whatever features `serde_json` is built with.

use serde_json::Value;

/// An object on its way to text.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<String>);

impl Object {
    /// One more entry.
    pub(crate) fn with(self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into().to_string();
        self.with_text(key, &value)
    }

    /// One more entry, already JSON.
    pub(crate) fn with_text(mut self, key: &str, json: &str) -> Self {
        self.0.push(format!("{}:{json}", Value::from(key)));
        self
    }

    /// One line.
    pub(crate) fn text(&self) -> String {
        format!("{{{}}}", self.0.join(","))
    }

    /// A line for each entry.
    pub(crate) fn lines(&self) -> String {
        format!("{{\n{}\n}}\n", self.0.join(",\n"))
    }
}

/// A list of things that are JSON already.
pub(crate) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    format!("[{}]", items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(","))
}
