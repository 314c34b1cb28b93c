//! Who a client is and who the others are, known by another way than through the server. For signed rounds.

use std::collections::BTreeMap;
use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::error::{Error, Result};
use crate::wire::Tag;

/// A client's Ed25519 key, and the public keys of all clients it believes in. They last for many rounds and are no part of the state of
/// one.
#[derive(Clone)]
pub struct Identity {
    own: SigningKey,
    known: BTreeMap<String, VerifyingKey>,
}

impl fmt::Debug for Identity {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("known", &self.known).finish_non_exhaustive()
    }
}

impl Identity {
    /// A secret of 32 random bytes, and who the clients are: names and what [`Identity::public`] gives for their secrets.
    ///
    /// # Errors
    /// When a public key is none.
    pub fn new(secret: &[u8; 32], known: &BTreeMap<String, [u8; 32]>) -> Result<Self> {
        let mut keys = BTreeMap::new();
        for (name, bytes) in known {
            let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak());
            let Some(key) = key else {
                return Err(Error::Client {
                    client: name.clone(),
                    reason: "the key it is known by is no Ed25519 key",
                });
            };
            keys.insert(name.clone(), key);
        }
        Ok(Self { own: SigningKey::from_bytes(secret), known: keys })
    }

    /// The public key of a secret.
    pub fn public(secret: &[u8; 32]) -> [u8; 32] {
        SigningKey::from_bytes(secret).verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, what: &Tag) -> [u8; 64] {
        self.own.sign(what).to_bytes()
    }

    /// Whether the client of that name signed it; never for one that is not known.
    pub(crate) fn verify(&self, name: &str, what: &Tag, signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.known.get(name).is_some_and(|key| key.verify_strict(what, &signature).is_ok())
    }
}
