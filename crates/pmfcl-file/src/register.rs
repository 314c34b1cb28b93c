//! A federation's server whose memory is a model file: one task for each client and step it has accepted.
//!
//! The file is an ordinary model, for `show`, `predict`, `report` and the rest. A server that is started again opens it and goes
//! on; what was committed is there, what was not was never accepted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pmfcl::federated::{Rules, Server};
use pmfcl::problem::Agreement;
use pmfcl::{Design, Error, Learner, Rows};

use crate::error::FileError;
use crate::model::Model;
use crate::schema::Schema;
use crate::store::{Access, Result, Store};

impl Model {
    /// A model that has learned nothing, but whose design is fixed: what clients and server agree on. Its bytes can be sent.
    ///
    /// `rows` are those all may see; a basis that takes its ranges from rows needs them.
    ///
    /// # Errors
    /// When the basis needs rows and there are none, and when something has been learned.
    pub fn founded(mut self, rows: Option<Rows<'_>>) -> Result<Self> {
        let settings = self.learner.settings();
        let design = match rows {
            Some(rows) => self.learner.design_for(&rows)?,
            None => {
                let map = settings.basis.fix(&[], self.schema.inputs.len()).map_err(Error::from)?;
                Design::new(map, settings.intercept).with_clip(settings.clip)
            }
        };
        let design = design.with_fills(self.schema.fills())?;
        self.learner.fix_design(design)?;
        Ok(self)
    }

    /// What a federation goes on with: this model, which has learned nothing, with inputs behind its own.
    ///
    /// # Errors
    /// When the basis mixes inputs, or the schema is not this model's with more behind it.
    pub fn founded_with(&self, schema: Schema) -> Result<Self> {
        let settings = self.learner.settings().clone();
        let design = self.learner.design().ok_or(Error::NotLearned)?;
        if !schema.begins_with(&self.schema) {
            return Err(Error::State { reason: "inputs are added behind others".to_owned() }.into());
        }
        let wider = design.with_inputs(schema.inputs.len() - self.schema.inputs.len())?;
        let mut learner = Learner::new(self.learner.problem().clone(), settings)?;
        learner.fix_design(wider.with_fills(schema.fills())?)?;
        Ok(Self { schema, learner })
    }

    /// What clients and server of a federation hold in common, of a model whose design is fixed.
    ///
    /// # Errors
    /// When it is not fixed, or the settings depend on an order of tasks.
    pub fn agreement(&self) -> Result<Agreement> {
        let learner = &self.learner;
        let design = learner.design().ok_or(Error::NotLearned)?.clone();
        let (problem, settings) = (learner.problem().clone(), learner.settings().clone());
        Ok(Agreement::new(problem, settings, design, self.schema.targets.len())?)
    }
}

/// A server and the file it keeps its register in.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
    schema: Schema,
    server: Server,
    /// There is no file before the first commit.
    store: Option<Store>,
    /// The model as it was last made; the next one is made from it.
    joint: Option<Learner>,
    /// The node each client's uploads come from.
    nodes: BTreeMap<String, u64>,
}

/// The note that keeps `nodes`: the names of clients are theirs over restarts of the server.
const NODES: &str = "nodes";

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
            let nodes = BTreeMap::new();
            return Ok(Self { path, schema, server, store: None, joint: None, nodes });
        }
        let own = agreement.problem().clone();
        let find = |spec: &str| Some(own.clone()).filter(|own| own.to_string() == spec);
        let (mut store, mut model) = Store::open_with(&path, Access::Write, &find)?;
        store.load(&mut model)?;
        // The file may have been written before inputs were added.
        let known = model.schema.inputs.len();
        let begun = known <= schema.inputs.len() && schema.begins_with(&model.schema);
        if begun && known < schema.inputs.len() {
            model.learner.extend_inputs(schema.inputs.len() - known)?;
            model.learner.set_fills(schema.fills())?;
        }
        if !begun || model.agreement()?.digest() != agreement.digest() {
            return Err(FileError::OtherFederation(path));
        }
        let joint = model.learner;
        let server = Server::resume(agreement, rules, &joint).map_err(|error| match error {
            Error::State { reason } => FileError::NotOfAClient(path.clone(), reason),
            other => other.into(),
        })?;
        let nodes = match store.note(NODES) {
            Some(noted) => serde_json::from_slice(noted)
                .map_err(|e| FileError::Damaged(path.clone(), format!("its list of nodes: {e}")))?,
            None => BTreeMap::new(),
        };
        Ok(Self { path, schema, server, store: Some(store), joint: Some(joint), nodes })
    }

    /// Goes on with more inputs, those of a model that begins with this one's ([`Model::founded_with`]); [`Register::commit`] writes
    /// it.
    ///
    /// # Errors
    /// When the model is another one. Nothing is changed then.
    pub fn extend(&mut self, agreed: &Model) -> Result<()> {
        if !agreed.schema.begins_with(&self.schema) {
            return Err(FileError::OtherFederation(self.path.clone()));
        }
        let agreement = agreed.agreement()?.after(self.server.agreement())?;
        self.server.extend(agreement)?;
        self.schema = agreed.schema.clone();
        Ok(())
    }

    /// Which node of a transport each client's uploads come from.
    pub fn nodes(&self) -> &BTreeMap<String, u64> {
        &self.nodes
    }

    /// Notes it; [`Register::commit`] writes it.
    pub fn set_nodes(&mut self, nodes: BTreeMap<String, u64>) {
        self.nodes = nodes;
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server, to accept and remove; [`Register::commit`] writes what was done.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The joint model, with the names of its columns.
    ///
    /// # Errors
    /// When nothing has been accepted.
    pub fn model(&self) -> Result<Model> {
        Ok(Model { schema: self.schema.clone(), learner: self.server.joint()? })
    }

    /// Solves once, and writes what was accepted and removed since, with the model, in one transaction.
    ///
    /// # Errors
    /// When nothing has been accepted, and as [`Store::commit`]; the file is unchanged. After [`FileError::Changed`] open the
    /// register again, and accept again what it does not hold.
    pub fn commit(&mut self) -> Result<Model> {
        let learner = match self.joint.take() {
            Some(mut joint) => {
                self.server.update_joint(&mut joint)?;
                joint
            }
            None => self.server.joint()?,
        };
        let mut model = Model { schema: self.schema.clone(), learner };
        let committed = self.write(&mut model);
        self.joint = Some(model.learner.clone());
        committed.map(|()| model)
    }

    fn write(&mut self, model: &mut Model) -> Result<()> {
        model.learner.solution()?;
        let noted = serde_json::to_vec(&self.nodes).expect("names and numbers");
        let store = match &mut self.store {
            Some(store) => store,
            None => {
                let store = self.store.insert(Store::create_first(&self.path, model)?);
                if self.nodes.is_empty() {
                    return Ok(());
                }
                store
            }
        };
        if store.note(NODES).is_some() || !self.nodes.is_empty() {
            store.set_note(NODES, noted);
        }
        store.commit(model)
    }
}
