//! Shards: task summaries of some rows as bytes, made on any machine, merged and learned on one.
//!
//! ```text
//! "PMFD" | version u16 | recipe 32 bytes | source 32 bytes | rows u64 | dropped u64 | template u32, bytes
//!        | tasks u32, of each: name u32, part u64, UTF-8, bytes | CRC-32 u32
//! ```
//!
//! Little-endian. A part is the bytes of a task summary, or of an answer to a pass. The recipe is a digest of columns, problem and
//! design: parts of different recipes do not add up. The template is a model that has learned nothing, with columns and design;
//! where everybody has it already, as the workers of a cluster do, it is left out. The source is a digest of what the shard was
//! made from, zeros where it was not taken.
//!
//! Categories and classes meet by name, so shards share no dictionary.

use std::path::Path;

use pmfcl::problem::{Digest, Draft, Partial, Pass, Passes};
use pmfcl::{Design, Error, Learner, Preference, Settings, TaskSummary};
use sha2::{Digest as _, Sha256};

use crate::error::FileError;
use crate::model::Model;
use crate::schema::Schema;
use crate::store::Result;

const MAGIC: &[u8; 4] = b"PMFD";
const VERSION: u16 = 2;
/// Bytes up to the template.
const HEAD: usize = 4 + 2 + 32 + 32 + 8 + 8;

/// Task summaries of some rows, made anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// What the parts were made by; see [`Model::recipe_digest`].
    pub recipe: [u8; 32],
    /// What the shard was made from, where that was noted.
    pub source: Option<[u8; 32]>,
    /// Rows read.
    pub rows: u64,
    /// Rows left out for missing values.
    pub dropped: u64,
    /// Bytes of a model that has learned nothing.
    pub template: Option<Vec<u8>>,
    /// Name and part of each task.
    pub tasks: Vec<(String, Vec<u8>)>,
}

/// Why bytes are no shard, or one that does not go with a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShardError(pub String);

fn wrong<T>(what: impl Into<String>) -> Result<T, ShardError> {
    Err(ShardError(what.into()))
}

impl Shard {
    /// The shard as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.recipe);
        out.extend_from_slice(&self.source.unwrap_or_default());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.dropped.to_le_bytes());
        let template = self.template.as_deref().unwrap_or_default();
        out.extend_from_slice(&(template.len() as u32).to_le_bytes());
        out.extend_from_slice(template);
        out.extend_from_slice(&(self.tasks.len() as u32).to_le_bytes());
        for (name, part) in &self.tasks {
            out.extend_from_slice(&(name.len() as u32).to_le_bytes());
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(part);
        }
        let check = crc32fast::hash(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`Shard::to_bytes`] wrote; the parts are checked when they are merged.
    ///
    /// # Errors
    /// When the bytes are something else, were changed or cut off, or are of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ShardError> {
        if bytes.len() < 6 || &bytes[..4] != MAGIC {
            return wrong("this is no shard of task summaries, as `pmfcl summarize` makes them");
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return wrong(format!(
                "a shard of version {version}; this program reads version {VERSION}: make it again"
            ));
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if body.len() < HEAD || crc32fast::hash(body).to_le_bytes() != check {
            return wrong(
                "the checksum does not match: the bytes were changed or cut off; make the shard again",
            );
        }
        let mut rest = Rest(&body[6..]);
        let (recipe, source) = (rest.digest()?, rest.digest()?);
        let (rows, dropped) = (rest.word()?, rest.word()?);
        let template = rest.size()?;
        let template = rest.take(template)?.to_vec();
        let mut tasks = Vec::new();
        for _ in 0..rest.size()? {
            let (name, part) = (rest.size()?, rest.word()?);
            let name = std::str::from_utf8(rest.take(name)?);
            let name =
                name.map_err(|_| ShardError("the name of a task is not UTF-8".to_owned()))?;
            let part = usize::try_from(part).unwrap_or(usize::MAX);
            tasks.push((name.to_owned(), rest.take(part)?.to_vec()));
        }
        if !rest.0.is_empty() {
            return wrong("bytes are left over after the last task");
        }
        Ok(Self {
            recipe,
            source: (source != [0; 32]).then_some(source),
            rows,
            dropped,
            template: (!template.is_empty()).then_some(template),
            tasks,
        })
    }

    /// Reads a shard from a file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else; the error names the file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                FileError::Io(path.to_path_buf(), "there is no such shard".to_owned())
            }
            std::io::ErrorKind::PermissionDenied => {
                FileError::Permission(path.to_path_buf(), "read")
            }
            _ => FileError::Io(path.to_path_buf(), error.to_string()),
        })?;
        Self::from_bytes(&bytes).map_err(|what| FileError::Io(path.to_path_buf(), what.0))
    }

    /// The model that has learned nothing under which the parts were made.
    ///
    /// # Errors
    /// When the shard has none, or it cannot be read.
    pub fn model(&self) -> Result<Model> {
        let template = self.template.as_deref().unwrap_or_default();
        let model = Model::from_bytes(template)?;
        if model.learner.design().is_none() {
            return Err(Error::NotLearned.into());
        }
        Ok(model)
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ShardError> {
        match self.0.split_at_checked(count) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => wrong("it is shorter than its header says"),
        }
    }

    fn size(&mut self) -> Result<usize, ShardError> {
        let four = self.take(4)?.try_into().expect("four bytes");
        Ok(u32::from_le_bytes(four) as usize)
    }

    fn word(&mut self) -> Result<u64, ShardError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn digest(&mut self) -> Result<[u8; 32], ShardError> {
        Ok(self.take(32)?.try_into().expect("thirty-two bytes"))
    }
}

/// A part of a task that fits a model, not yet in it.
#[derive(Debug)]
pub struct FittedPart {
    /// The schema with the categories of the part.
    pub schema: Schema,
    /// The design with their columns.
    pub design: Design,
    /// What will be kept.
    pub draft: Draft,
}

impl Model {
    /// A model with these columns and settings that has learned nothing and whose design is fixed, as this one's is.
    ///
    /// # Errors
    /// When the design is not fixed yet.
    pub fn template(&self) -> Result<Self> {
        let design = self.learner.design().ok_or(Error::NotLearned)?.clone();
        let mut empty = self.emptied()?;
        empty.learner.fix_design(design)?;
        Ok(empty)
    }

    /// A model with these columns and settings that has learned nothing.
    ///
    /// # Errors
    /// When the settings are invalid together.
    pub fn emptied(&self) -> Result<Self> {
        let learner = &self.learner;
        let prefer = match &learner.settings().prefer {
            Preference::Chosen(_) => Preference::Samples,
            other => other.clone(),
        };
        let settings = Settings { prefer, ..learner.settings().clone() };
        let empty = Learner::new(learner.problem().clone(), settings)?;
        Ok(Self { schema: self.schema.clone(), learner: empty })
    }

    /// SHA-256 of everything the summary of some rows depends on: columns, problem and design.
    ///
    /// # Errors
    /// When the design is not fixed yet.
    pub fn recipe_digest(&self) -> Result<[u8; 32]> {
        let design = self.learner.design().ok_or(Error::NotLearned)?;
        let Schema { columns, inputs, targets, .. } = &self.schema;
        let mut hash = Sha256::new();
        hash.update(serde_json::json!([columns, inputs, targets]).to_string().as_bytes());
        hash.update(Digest::of(self.learner.problem(), design).0);
        Ok(hash.finalize().into())
    }

    /// Refuses parts made under a template that is not of this model, by what differs. The model may have learned categories and
    /// columns since.
    ///
    /// # Errors
    /// What differs.
    pub fn check_template(&self, template: &Self) -> Result<(), ShardError> {
        let (own, other) = (&self.schema, &template.schema);
        if own.targets != other.targets {
            let [a, b] = [&other.targets, &own.targets].map(|list| list.join(", "));
            return wrong(format!(
                "it was made for the target '{a}', and the model predicts '{b}'"
            ));
        }
        for (at, theirs) in other.columns.iter().enumerate() {
            if own.columns.get(at) != Some(theirs) {
                let here = own.columns.get(at).map_or_else(
                    || "no such column".to_owned(),
                    |column| format!("'{}' ({:?})", column.name, column.kind),
                );
                return wrong(format!(
                    "it was made for other columns: '{}' ({:?}), where the model has {here}",
                    theirs.name, theirs.kind
                ));
            }
        }
        let designs = self.learner.design().zip(template.learner.design());
        let Some((ours, theirs)) = designs else { return wrong("its basis is not fixed") };
        let [a, b] = [&template.learner, &self.learner].map(Learner::problem);
        if Digest::of(a, theirs) != Digest::of(b, theirs) {
            return wrong(format!("it was made for the loss {a}, and the model has {b}"));
        }
        let [a, b] = [theirs, ours].map(|design| design.map().basis().to_string());
        if a != b {
            return wrong(format!("it was made for the basis {a}, and the model has {b}"));
        }
        if theirs.intercept() != ours.intercept() {
            return wrong(
                "it was made with an intercept where the model has none, or the other way",
            );
        }
        if !own.inputs.starts_with(&other.inputs) {
            return wrong("it was made with other categories known from the start");
        }
        let more = ours.inputs().saturating_sub(theirs.inputs());
        let same = match more {
            0 => theirs == ours,
            _ => theirs.with_inputs(more).is_ok_and(|wider| wider == *ours),
        };
        if !same {
            return wrong(format!("its basis {a} was fixed by other rows than the model's"));
        }
        Ok(())
    }

    /// Fits a merged part of a task: its categories are put where this model has them, new ones at the end.
    ///
    /// # Errors
    /// When a new input is no category of a text column, or the part does not go with the model.
    pub fn fit_part(&self, part: &TaskSummary, weight: f64) -> Result<FittedPart> {
        let first = Partial { tasks: vec![part.clone()], ..Partial::default() };
        self.fit_passes(&[], first, &mut NoMore, weight)
    }

    /// Fits a task given the merged answer to its first pass and an executor for more. `keys` are new categories that get the
    /// next inputs before those of the task itself.
    ///
    /// # Errors
    /// As [`Model::fit_part`], and those of the executor.
    pub fn fit_passes(
        &self,
        keys: &[String],
        mut first: Partial,
        passes: &mut dyn Passes,
        weight: f64,
    ) -> Result<FittedPart> {
        let learner = &self.learner;
        let base = learner.design().ok_or(Error::NotLearned)?;
        let mut schema = self.schema.clone();
        let own = first.tasks.iter().flat_map(|task| &task.new_inputs);
        for key in keys.iter().chain(own) {
            if schema.input_of_key(key).is_none() {
                let reason =
                    format!("a part of a task has the input `{key}`, which is no category");
                return Err(Error::State { reason }.into());
            }
        }
        let design = base.with_inputs(schema.inputs.len().saturating_sub(base.inputs()))?;
        let offset = usize::from(design.intercept());
        for task in &mut first.tasks {
            let known = task.quadratic.width().saturating_sub(task.new_inputs.len());
            let mut places: Vec<usize> = (0..known).collect();
            for key in &task.new_inputs {
                places.extend(schema.input_of_key(key).map(|at| at + offset));
            }
            *task = task.rearranged(&places, design.width())?;
            task.new_inputs = Vec::new();
        }
        let draft = learner.fit(&design, first, passes, weight)?;
        Ok(FittedPart { schema, design, draft })
    }
}

/// Refuses more passes: the rows of a part are elsewhere.
struct NoMore;

impl Passes for NoMore {
    fn run(&mut self, _: &Pass) -> Result<Partial, Error> {
        Err(Error::Unsupported {
            operation: "learning a part",
            reason: "this loss looks at the rows of a task again; give the rows".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard() -> Shard {
        Shard {
            recipe: [7; 32],
            source: Some([9; 32]),
            rows: 12,
            dropped: 3,
            template: Some(vec![1, 2, 3]),
            tasks: vec![("März".to_owned(), vec![4, 5]), (String::new(), Vec::new())],
        }
    }

    #[test]
    fn a_shard_comes_back_as_it_was() {
        let bare = Shard { source: None, template: None, tasks: Vec::new(), ..shard() };
        for shard in [shard(), bare] {
            assert_eq!(Shard::from_bytes(&shard.to_bytes()).unwrap(), shard);
        }
    }

    #[test]
    fn cut_and_changed_shards_are_refused_and_never_panic() {
        let bytes = shard().to_bytes();
        for end in 0..bytes.len() {
            assert!(Shard::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xFF;
            assert!(Shard::from_bytes(&changed).is_err(), "{at}");
            let body = changed.len() - 4;
            let check = crc32fast::hash(&changed[..body]).to_le_bytes();
            changed[body..].copy_from_slice(&check);
            // Lengths that lie end in an error, whatever the checksum says; digests and counts may be any.
            let _ = Shard::from_bytes(&changed);
        }
    }
}
