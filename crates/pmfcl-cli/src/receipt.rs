//! Receipts: statements of what was removed from a model, which can be checked against its file.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use pmfcl_file::{Access, AuditEntry, Store, audit};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What a receipt states, in addition to numbers.
const STATEMENT: &str = "The rows were removed from the summary of their task, the solution was made again without them, and \
                         the file was rewritten, free pages included.";

/// A statement that rows were removed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt(Value);

impl Receipt {
    /// The statement of an entry of the audit table, with the hashes of the file before and after.
    pub(crate) fn new(model: &Path, entry: &AuditEntry, before: &str, after: &str) -> Self {
        let mut value = json!({
            "receipt": 1,
            "program": concat!("pmfcl ", env!("CARGO_PKG_VERSION")),
            "model": model.file_name().map(|name| name.to_string_lossy()),
            "time": entry.time,
            "action": entry.action,
            "task": entry.task,
            "rows": entry.rows,
            "content": entry.content.map(|hash| hex(&hash)),
            "file_before_sha256": before,
            "file_after_sha256": after,
            "statement": STATEMENT,
        });
        value["checksum"] = json!(checksum(&value));
        Self(value)
    }

    /// As a file holds it.
    pub(crate) fn text(&self) -> String {
        format!("{:#}\n", self.0)
    }

    /// Reads a receipt.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{}: the receipt cannot be read", path.display()))?;
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a receipt", path.display()))?;
        if value["receipt"] != json!(1) {
            bail!("{}: not a receipt of this version of pmfcl", path.display());
        }
        Ok(Self(value))
    }

    /// Checks it against a model file; what was checked.
    pub(crate) fn check(&self, path: &Path, model: &Path) -> Result<Vec<String>> {
        let mut plain = self.0.clone();
        let stated = plain.as_object_mut().and_then(|object| object.remove("checksum"));
        let path = path.display();
        if stated != Some(json!(checksum(&plain))) {
            bail!(
                "{path}: the receipt was changed since it was written: its checksum does not hold"
            );
        }
        let content = self.0["content"].as_str().map(str::to_owned);
        let entries = audit(model)?;
        let same = |entry: &&AuditEntry| {
            self.0["time"] == json!(entry.time)
                && self.0["action"] == json!(entry.action)
                && self.0["rows"] == json!(entry.rows)
                && content == entry.content.map(|hash| hex(&hash))
        };
        if entries.iter().find(same).is_none() {
            bail!(
                "{path}: the audit table of {} has no such removal: this is the receipt of another file, or the file is older",
                model.display()
            );
        }
        let (_, found) = Store::open(model, Access::Read)?;
        let kept = found.learner.records().iter().find(|record| {
            content.is_some() && record.head.content.map(|hash| hex(&hash)) == content
        });
        if let Some(task) = kept {
            bail!(
                "{path}: the rows have been learned again since, as task `{}` of {}",
                task.name,
                model.display()
            );
        }
        let hash = file_hash(model)?;
        let unchanged = self.0["file_after_sha256"] == json!(hash);
        Ok(vec![
            "the receipt is as it was written".to_owned(),
            format!("its removal is in the audit table ({} in all)", entries.len()),
            "no task has the rows it names".to_owned(),
            if unchanged {
                "the file is the one the removal left, to the byte".to_owned()
            } else {
                "the file has been changed since the removal".to_owned()
            },
        ])
    }
}

/// SHA-256 of a statement without its checksum; keys of objects are sorted.
fn checksum(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes()))
}

/// SHA-256 of a file.
pub(crate) fn file_hash(path: &Path) -> Result<String> {
    let bytes =
        std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// The time, in UTC.
pub(crate) fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let text = pmfcl_read::moment(i64::try_from(seconds).unwrap_or(0));
    // Midnight is written out too.
    if text.contains('T') { format!("{text}Z") } else { format!("{text}T00:00:00Z") }
}
