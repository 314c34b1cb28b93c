//! Builders of text columns.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Texts;

/// Gives each distinct word of a batch a number, in order of appearance.
#[derive(Default)]
pub(crate) struct Words {
    texts: Texts,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Words {
    /// Room for `rows` codes.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        let mut words = Self::default();
        words.texts.codes.reserve(rows);
        words
    }

    /// The next row holds `word`.
    pub(crate) fn push(&mut self, word: &str) {
        let code = self.code(word);
        self.texts.codes.push(code);
    }

    /// The next row holds nothing; it will be left out.
    pub(crate) fn push_missing(&mut self) {
        self.push("");
    }

    /// The next row holds a word that already has a number.
    pub(crate) fn push_code(&mut self, code: u32) {
        self.texts.codes.push(code);
    }

    /// The number of a word.
    pub(crate) fn code(&mut self, word: &str) -> u32 {
        // Sorted files repeat the word of the row before.
        if let Some(&last) = self.texts.codes.last()
            && self.texts.names[last as usize] == word
        {
            return last;
        }
        let Self { texts, table, hasher } = self;
        let hash = hasher.hash_one(word);
        if let Some(&code) = table.find(hash, |&code| texts.names[code as usize] == word) {
            return code;
        }
        let code = texts.names.len() as u32;
        texts.names.push(word.to_string());
        table.insert_unique(hash, code, |&code| {
            hasher.hash_one(texts.names[code as usize].as_str())
        });
        code
    }

    /// The column.
    pub(crate) fn finish(self) -> Texts {
        self.texts
    }
}
