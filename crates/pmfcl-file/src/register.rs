//! A federation's server whose memory is a model file: one task for each client and step it has accepted.
//!
//! The file is an ordinary model, for `show`, `predict`, `report` and the rest. A server that is started again opens it and goes
//! on; what was committed is there, what was not was never accepted.

use std::path::{Path, PathBuf};

use pmfcl::classify::ClassifierParts;
use pmfcl::federated::{Agreement, Joint, Rules, Server};
use pmfcl::learner::{LearnerParts, MemoryParts};
use pmfcl::{Classifier, Error, Learner, Rows};

use crate::error::FileError;
use crate::model::{Learned, Model};
use crate::schema::Schema;
use crate::store::{Access, Change, Result, Store};

impl Model {
    /// A model that has learned nothing, but whose design is fixed: what clients and server agree on. Its bytes can be sent.
    ///
    /// `rows` are those all may see; a basis that takes its ranges from rows needs them.
    ///
    /// # Errors
    /// When the basis needs rows and there are none, and when something has been learned.
    pub fn founded(self, rows: Option<Rows<'_>>) -> Result<Self> {
        if !self.learner().records().is_empty() {
            return Err(FileError::Core(Error::Unsupported {
                operation: "an agreement from a model that has learned",
                reason: "begin with an empty one".to_owned(),
            }));
        }
        let settings = self.learner().settings().clone();
        let design = match rows {
            Some(rows) => self.learner().design_for(&rows)?,
            None => {
                let map = settings.basis.fix(&[], self.schema.inputs.len()).map_err(Error::from)?;
                pmfcl::Design::new(map, settings.intercept)
            }
        };
        let learner = LearnerParts {
            settings,
            design: Some(design),
            targets: 0,
            tasks: Vec::new(),
            memory: MemoryParts::Empty,
            model: None,
        };
        let learned = match self.learned {
            Learned::Regression(_) => Learned::Regression(Box::new(Learner::from_parts(learner)?)),
            Learned::Classification(classifier) => {
                let settings = classifier.settings().clone();
                let classes = settings.classes.clone().unwrap_or_default();
                let (notes, moments) = (Vec::new(), None);
                let parts = ClassifierParts { settings, classes, learner, notes, moments };
                Learned::Classification(Box::new(Classifier::from_parts(parts)?))
            }
        };
        Ok(Self { schema: self.schema, learned })
    }

    /// The joint model of a federation, with the names of its columns.
    pub fn joint(schema: Schema, joint: Joint) -> Self {
        let learned = match joint {
            Joint::Values(learner) => Learned::Regression(learner),
            Joint::Classes(classifier) => Learned::Classification(classifier),
        };
        Self { schema, learned }
    }

    /// What clients and server of a federation hold in common, of a model whose design is fixed.
    ///
    /// # Errors
    /// When it is not fixed, or the settings depend on an order of tasks.
    pub fn agreement(&self) -> Result<Agreement> {
        let design = self.learner().design().ok_or(Error::NotLearned)?.clone();
        Ok(match &self.learned {
            Learned::Regression(learner) => {
                Agreement::values(learner.settings().clone(), self.schema.targets.len(), design)?
            }
            Learned::Classification(c) => Agreement::classes(c.settings().clone(), design)?,
        })
    }
}

/// A server and the file it keeps its register in.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
    schema: Schema,
    /// There is no file before the first commit.
    store: Option<Store>,
    server: Server,
}

impl Register {
    /// Goes on with the server in `path`, or begins one that will be there. Nobody else can change the file meanwhile.
    ///
    /// # Errors
    /// As [`Store::open`]; when the file holds another model than was agreed on, or the rules are out of range.
    pub fn open(path: &Path, agreed: &Model, rules: Rules) -> Result<Self> {
        let (agreement, schema) = (agreed.agreement()?, agreed.schema.clone());
        let path = path.to_path_buf();
        if !path.exists() {
            let server = Server::new(agreement, rules)?;
            return Ok(Self { path, schema, store: None, server });
        }
        let (mut store, mut model) = Store::open(&path, Access::Write)?;
        store.load(&mut model)?;
        if model.schema != schema || model.agreement()?.fingerprint() != agreement.fingerprint() {
            return Err(FileError::OtherFederation(path));
        }
        let joint = match model.learned {
            Learned::Regression(learner) => Joint::Values(learner),
            Learned::Classification(classifier) => Joint::Classes(classifier),
        };
        let server = Server::resume(agreement, rules, &joint).map_err(|error| match error {
            Error::Parts { reason } => FileError::NotOfAClient(path.clone(), reason),
            other => other.into(),
        })?;
        Ok(Self { path, schema, store: Some(store), server })
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server, to accept and remove; [`Register::commit`] keeps what was done.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The joint model, with the names of its columns.
    ///
    /// # Errors
    /// When nothing has been accepted.
    pub fn model(&self) -> Result<Model> {
        Ok(Model::joint(self.schema.clone(), self.server.joint()?))
    }

    /// Solves, and writes register and model to the file in one transaction.
    ///
    /// # Errors
    /// When nothing has been accepted, and as [`Store::commit`]; the file is unchanged. After [`FileError::Changed`] open the
    /// register again, and accept again what it does not hold.
    pub fn commit(&mut self) -> Result<Model> {
        let mut model = self.model()?;
        match &mut self.store {
            Some(store) => store.commit(&mut model, Change::All)?,
            None => self.store = Some(Store::create_first(&self.path, &model)?),
        }
        Ok(model)
    }
}
