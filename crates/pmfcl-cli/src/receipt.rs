//! Receipts: statements of what was removed from a model, which can be checked against its file.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use pmfcl_file::{Access, AuditEntry, Store, audit};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::sign_key::{SignKey, fingerprint, is_signed};

/// What a receipt states, in addition to numbers.
const STATEMENT: &str = "The rows were removed from the summary of their task, the solution was made again without them, and \
                         the file was rewritten, free pages included.";

/// A statement that rows were removed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt(Value);

impl Receipt {
    /// The statement of an entry of the audit table, with the hashes of the file before and after, signed.
    pub(crate) fn new(
        model: &Path,
        entry: &AuditEntry,
        before: &str,
        after: &str,
        key: &SignKey,
    ) -> Self {
        let mut value = json!({
            "receipt": 2,
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
            "public_key": key.public(),
        });
        value["signature"] = json!(key.sign(&signed_text(&value)));
        Self(value)
    }

    /// What people compare to know who signed it.
    pub(crate) fn fingerprint(&self) -> String {
        fingerprint(self.0["public_key"].as_str().unwrap_or_default())
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
        if value["receipt"] == json!(1) {
            bail!("{}: a receipt of an earlier version, which was not signed", path.display());
        }
        if value["receipt"] != json!(2) {
            bail!("{}: not a receipt of this version of pmfcl", path.display());
        }
        Ok(Self(value))
    }

    /// Checks it against a model file, and that it was signed by a certain key where one is named; what was checked.
    pub(crate) fn check(&self, path: &Path, model: &Path, by: Option<&str>) -> Result<Vec<String>> {
        let mut plain = self.0.clone();
        let stated = plain.as_object_mut().and_then(|object| object.remove("signature"));
        let path = path.display();
        let public = self.0["public_key"].as_str().unwrap_or_default();
        let signature = stated.as_ref().and_then(Value::as_str).unwrap_or_default();
        if !is_signed(public, signature, &signed_text(&plain)) {
            bail!(
                "{path}: the receipt was changed since it was signed: its signature does not hold"
            );
        }
        let by_key = self.fingerprint();
        let signer = match by {
            Some(wanted) if wanted.eq_ignore_ascii_case(&by_key) => "the key that was named",
            Some(wanted) => {
                bail!("{path}: the receipt was signed by the key {by_key}, not {wanted}")
            }
            None if SignKey::own().is_some_and(|own| own.public() == public) => "your key",
            None => "a key that is not yours: compare it with what its owner says (--signed-by)",
        };
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
            format!("the receipt is as it was signed by {by_key}, {signer}"),
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

/// What is signed of a statement without its signature: its JSON text without blanks, keys sorted, after a line that no
/// other text has.
fn signed_text(value: &Value) -> String {
    format!("pmfcl receipt\n{value}")
}

/// SHA-256 of a file.
pub(crate) fn file_hash(path: &Path) -> Result<String> {
    let bytes =
        std::fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
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
