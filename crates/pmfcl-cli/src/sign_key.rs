//! The key that receipts are signed with: ed25519, kept as PKCS#8 PEM, which openssl reads and writes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use pmfcl_terminal::note;
use sha2::{Digest as _, Sha256};

use crate::receipt::hex;

/// What stands before the 32 bytes of the key in its PKCS#8 form (RFC 8410).
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// A key to sign with.
pub(crate) struct SignKey(SigningKey);

impl SignKey {
    /// The key in a file, or the user's own, which is made when there is none yet.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self> {
        if let Some(path) = path {
            return Self::read(path);
        }
        let path = own_path()?;
        if path.exists() {
            return Self::read(&path);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| anyhow::anyhow!("no random numbers: {e}"))?;
        let key = Self(SigningKey::from_bytes(&seed));
        write_private(&path, &key.pem()).with_context(|| {
            format!("{}: the key cannot be written; name one with --sign-key", path.display())
        })?;
        note(&format!("made a key to sign receipts with: {} (keep it secret)", path.display()));
        Ok(key)
    }

    /// The user's own key, where there is one that can be read.
    pub(crate) fn own() -> Option<Self> {
        Self::read(&own_path().ok()?).ok()
    }

    fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        check_private(path)?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{shown}: the key cannot be read"))?;
        let body = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
        let body: Option<String> = body.map(|body| body.split_whitespace().collect());
        let bytes = body.and_then(|body| from_base64(&body));
        let seed = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(&PKCS8));
        match seed.and_then(|seed| <[u8; 32]>::try_from(seed).ok()) {
            Some(seed) => Ok(Self(SigningKey::from_bytes(&seed))),
            None => bail!(
                "{shown}: not an ed25519 key in PKCS#8 PEM; make one with `openssl genpkey -algorithm ed25519 -out {shown}`"
            ),
        }
    }

    fn pem(&self) -> String {
        let bytes = [&PKCS8[..], &self.0.to_bytes()].concat();
        format!("{BEGIN}\n{}\n{END}\n", to_base64(&bytes))
    }

    /// Its public half.
    pub(crate) fn public(&self) -> String {
        hex(self.0.verifying_key().as_bytes())
    }

    /// The signature of a text.
    pub(crate) fn sign(&self, text: &str) -> String {
        hex(&self.0.sign(text.as_bytes()).to_bytes())
    }
}

/// Whether a signature of a text is by the owner of a public key; both in hexadecimal digits.
pub(crate) fn is_signed(public: &str, signature: &str, text: &str) -> bool {
    let key = of_hex::<32>(public).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
    let signature = of_hex::<64>(signature).map(|bytes| Signature::from_bytes(&bytes));
    // Strict: a signature that could be taken for one of another key is none.
    key.zip(signature)
        .is_some_and(|(key, signature)| key.verify_strict(text.as_bytes(), &signature).is_ok())
}

/// What people compare instead of a public key: the first half of its SHA-256, in groups of four digits.
pub(crate) fn fingerprint(public: &str) -> String {
    let digits = hex(&Sha256::digest(public.as_bytes())[..16]);
    let groups: Vec<&str> = (0..digits.len()).step_by(4).map(|at| &digits[at..at + 4]).collect();
    groups.join("-")
}

/// Where the user's own key is.
fn own_path() -> Result<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME")
        .or_else(|| folder("APPDATA"))
        .or_else(|| folder("HOME").map(|home| home.join(".config")));
    match config {
        Some(config) => Ok(config.join("pmfcl").join("sign-key.pem")),
        None => bail!(
            "there is no folder for the key to sign with (HOME is not set); name one with --sign-key FILE"
        ),
    }
}

/// Writes a file that only its owner can read, and that is not there yet.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// Refuses a key that others can read.
#[cfg(unix)]
fn check_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = path.display();
    let found =
        std::fs::metadata(path).with_context(|| format!("{shown}: the key cannot be read"))?;
    if found.permissions().mode() & 0o077 != 0 {
        bail!("{shown}: others can read or change this key; run `chmod 600 {shown}`");
    }
    Ok(())
}

/// Permissions are the folder's own elsewhere.
#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<()> {
    Ok(())
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of bytes whose number is a multiple of three, as that of a key is.
fn to_base64(bytes: &[u8]) -> String {
    let digits = bytes.chunks_exact(3).flat_map(|three| {
        let word = three.iter().fold(0_usize, |word, byte| word << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[word >> shift & 63]))
    });
    digits.collect()
}

/// The bytes of such a text.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let place = |digit: &u8| DIGITS.iter().position(|known| known == digit);
    let digits: Vec<usize> = text.as_bytes().iter().map(place).collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let bytes = digits.chunks_exact(4).flat_map(|four| {
        let word = four.iter().fold(0, |word, digit| word << 6 | digit);
        [16, 8, 0].map(|shift| (word >> shift & 255) as u8)
    });
    Some(bytes.collect())
}

fn of_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_openssl_is_read_and_signs_as_the_standard_says() {
        // RFC 8032, section 7.1, test 1; the PEM is what `openssl pkey` makes of its key.
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("key.pem");
        write_private(&path, pem).unwrap();
        let key = SignKey::read(&path).unwrap();
        assert_eq!(
            key.public(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        assert!(key.sign("").starts_with("e5564300c360ac729086e2cc806e828a"));
        assert_eq!(key.pem(), pem);
        assert!(is_signed(&key.public(), &key.sign("text"), "text"));
        assert!(!is_signed(&key.public(), &key.sign("text"), "texts"));
        // A key is never overwritten, and none that others can read is used.
        assert!(write_private(&path, "").is_err());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(SignKey::read(&path).is_err());
        }
    }
}
