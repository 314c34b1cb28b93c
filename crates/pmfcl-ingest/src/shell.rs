//! Options in messages, so that they can be copied into a shell.

/// An option with its values as a shell takes them: `--exclude "Unnamed: 0"`, `--exclude=-1`.
pub fn shell_option<T: AsRef<str>>(option: &str, values: &[T]) -> String {
    let value = values.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",");
    let separator = if value.starts_with('-') { '=' } else { ' ' };
    format!("{option}{separator}{}", shell_word(&value))
}

/// A text as one word of a shell, in quotes where it needs them.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else if !text.contains(['"', '$', '`', '\\', '!']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for name in
            ["x", "Unnamed: 0", "it's", "a\"b", "$HOME", "`ls`", "a\\b", "wow!", "", "größe", "*"]
        {
            let line = format!("printf %s {}", shell_word(name));
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), name, "{line}");
        }
    }

    #[test]
    fn only_what_needs_quotes_has_them() {
        assert_eq!(shell_option("--exclude", &["w"]), "--exclude w");
        assert_eq!(shell_option("--exclude", &["Unnamed: 0"]), "--exclude \"Unnamed: 0\"");
        assert_eq!(shell_option("--features", &["a", "b c"]), "--features \"a,b c\"");
        assert_eq!(shell_option("--exclude", &["-1"]), "--exclude=-1");
    }
}
