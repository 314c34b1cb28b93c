//! placeholder
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("basis")]
pub struct BasisError;
impl BasisError {
    pub(crate) fn shifted(self, _rows: usize) -> Self {
        self
    }
}
#[derive(Debug, Clone, PartialEq)]
pub enum Basis {
    Linear,
}
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    d: usize,
}
impl Basis {
    pub fn fix(&self, _rows: &[f64], d: usize) -> Result<Map, BasisError> {
        Ok(Map { d })
    }
    pub fn needs_rows(&self) -> bool {
        false
    }
}
impl Map {
    pub fn inputs(&self) -> usize {
        self.d
    }
    pub fn width(&self) -> usize {
        self.d
    }
    pub fn basis(&self) -> &Basis {
        &Basis::Linear
    }
    pub fn is_identity(&self) -> bool {
        true
    }
    pub fn apply(
        &self,
        rows: &[f64],
        out: &mut [f64],
        stride: usize,
        offset: usize,
    ) -> Result<(), BasisError> {
        for (o, r) in out.chunks_exact_mut(stride).zip(rows.chunks_exact(self.d)) {
            o[offset..offset + self.d].copy_from_slice(r);
        }
        Ok(())
    }
    pub fn names(&self, inputs: &[String]) -> Vec<String> {
        inputs.to_vec()
    }
    pub fn origin(&self) -> Option<&[f64]> {
        None
    }
}
impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("linear")
    }
}
