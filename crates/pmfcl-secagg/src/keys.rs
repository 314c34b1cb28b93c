//! Keys: how they are derived, agreed on and used to seal. All of it by reviewed primitives.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use curve25519_dalek::Scalar;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, Zeroizing};

use crate::wire::Tag;

/// Two shares: of the mask key and of the seed of the own mask.
pub(crate) const SHARES: usize = 64;
/// The same, sealed.
pub(crate) const SEALED: usize = SHARES + 16;

/// Bytes of a secret for one purpose: HKDF-SHA-256 salted with the round.
pub(crate) fn derive<const N: usize>(
    secret: &[u8],
    tag: &Tag,
    purpose: &[&[u8]],
) -> Zeroizing<[u8; N]> {
    let mut out = Zeroizing::new([0; N]);
    Hkdf::<Sha256>::new(Some(tag), secret)
        .expand_multi_info(purpose, &mut *out)
        .expect("64 bytes at most");
    out
}

/// A random scalar of a secret for one purpose.
pub(crate) fn derive_scalar(secret: &[u8], tag: &Tag, purpose: &[&[u8]]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&derive::<64>(secret, tag, purpose))
}

/// SHA-256 over parts, each with its length.
pub(crate) fn hash(parts: &[&[u8]]) -> Tag {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

pub(crate) fn public(secret: &[u8; 32]) -> [u8; 32] {
    PublicKey::from(&StaticSecret::from(*secret)).to_bytes()
}

/// Whether a public key makes a secret at all: points of small order do not.
pub(crate) fn is_sound(public: &[u8; 32]) -> bool {
    StaticSecret::from([1; 32]).diffie_hellman(&PublicKey::from(*public)).was_contributory()
}

fn agree(own: &[u8; 32], theirs: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(StaticSecret::from(*own).diffie_hellman(&PublicKey::from(*theirs)).to_bytes())
}

/// The key of the mask two clients have in common, the same from both sides.
pub(crate) fn pair_mask(
    own: &[u8; 32],
    theirs: &[u8; 32],
    session: &Tag,
    (a, b): (u32, u32),
) -> Zeroizing<[u8; 32]> {
    let (low, high) = (a.min(b).to_le_bytes(), a.max(b).to_le_bytes());
    derive(&*agree(own, theirs), session, &[b"pair mask", &low, &high])
}

/// The key of a client's own mask.
pub(crate) fn own_mask(seed: &[u8; 32], session: &Tag) -> Zeroizing<[u8; 32]> {
    derive(seed, session, &[b"own mask"])
}

/// What binds a client to the seed of its own mask without showing it.
pub(crate) fn commitment(seed: &[u8; 32], session: &Tag) -> [u8; 32] {
    *derive(seed, session, &[b"commitment"])
}

/// A letter from one client to another. The key is for this round, this roster, this pair and this direction, hence used once,
/// hence the nonce is zero.
pub(crate) struct Letter<'a> {
    pub(crate) session: &'a Tag,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Letter<'_> {
    pub(crate) fn seal(
        &self,
        own: &[u8; 32],
        theirs: &[u8; 32],
        shares: &[u8; SHARES],
    ) -> [u8; SEALED] {
        let cipher = self.cipher(own, theirs);
        let data = self.data();
        cipher
            .encrypt(&[0; 12].into(), Payload { msg: shares, aad: &data })
            .expect("short")
            .try_into()
            .expect("as long as the plain text and a tag")
    }

    /// `None` where it was not sealed by that client for this one in this round.
    pub(crate) fn open(
        &self,
        own: &[u8; 32],
        theirs: &[u8; 32],
        sealed: &[u8; SEALED],
    ) -> Option<Zeroizing<[u8; SHARES]>> {
        let cipher = self.cipher(own, theirs);
        let data = self.data();
        let mut plain =
            cipher.decrypt(&[0; 12].into(), Payload { msg: sealed, aad: &data }).ok()?;
        let shares = Zeroizing::new(plain.as_slice().try_into().ok()?);
        plain.zeroize();
        Some(shares)
    }

    fn cipher(&self, own: &[u8; 32], theirs: &[u8; 32]) -> ChaCha20Poly1305 {
        let (from, to) = (self.from.to_le_bytes(), self.to.to_le_bytes());
        let key = derive::<32>(&*agree(own, theirs), self.session, &[b"letter", &from, &to]);
        ChaCha20Poly1305::new((&*key).into())
    }

    /// Round and roster, sender, receiver.
    fn data(&self) -> [u8; 40] {
        let mut data = [0; 40];
        data[..32].copy_from_slice(self.session);
        data[32..36].copy_from_slice(&self.from.to_le_bytes());
        data[36..].copy_from_slice(&self.to.to_le_bytes());
        data
    }
}
