//! Charts of pmfcl.
