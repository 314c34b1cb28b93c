//! Errors of requests in one line each, with what to do.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Google,
    Azure,
    Web,
}

pub(crate) const CHANGED: &str =
    "the file was replaced while it was read; run the command again when nobody writes to it";

/// As long as the words of a server may be.
const LONGEST: usize = 300;

/// An address that cannot be used.
pub(crate) fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what.into())
}

/// An answer that cannot be used.
pub(crate) fn broken(what: &str) -> io::Error {
    let what = format!("the server's answer is unusable: {what}; download the file first");
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Service {
    /// Where credentials come from.
    fn credentials(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for temporary ones, AWS_SESSION_TOKEN \
                 (AWS_SKIP_SIGNATURE=true for public files)"
            }
            Self::Google => {
                "set GOOGLE_SERVICE_ACCOUNT to the file of a service account, or run `gcloud auth application-default \
                 login` (GOOGLE_SKIP_SIGNATURE=true for public files)"
            }
            Self::Azure => {
                "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_KEY \
                 (AZURE_SKIP_SIGNATURE=true for public files)"
            }
            Self::Web => "files that need a login are not read over HTTP; download the file first",
        }
    }

    /// What went wrong with a request, and what to do.
    pub(crate) fn explain(self, error: &Error) -> io::Error {
        let text = one_line(&error.to_string());
        let credentials = self.credentials();
        let (kind, what) = match error {
            Error::NotFound { .. } => (
                ErrorKind::NotFound,
                "there is no such file (404); check the address, in which patterns such as * are not expanded"
                    .to_owned(),
            ),
            Error::PermissionDenied { .. } => (
                ErrorKind::PermissionDenied,
                format!("access is denied (403), or the credential has expired; {credentials}"),
            ),
            Error::Unauthenticated { .. } => (
                ErrorKind::PermissionDenied,
                format!("a credential is missing or has expired (401); {credentials}"),
            ),
            Error::Precondition { .. } => (ErrorKind::InvalidData, CHANGED.to_owned()),
            Error::NotSupported { .. } => (
                ErrorKind::Unsupported,
                "the server does not send parts of files (HTTP range requests); download the file first"
                    .to_owned(),
            ),
            _ if self != Self::Web && asks_for_credentials(&text) => (
                ErrorKind::PermissionDenied,
                format!("no credential was found that the server accepts; {credentials} ({text})"),
            ),
            _ => match transport(error) {
                Some(HttpErrorKind::Connect | HttpErrorKind::Timeout) => (
                    ErrorKind::NotConnected,
                    format!("the server does not answer; check the address and the network ({text})"),
                ),
                Some(_) => (
                    ErrorKind::ConnectionAborted,
                    format!("the connection broke off; run the command again ({text})"),
                ),
                None => (ErrorKind::Other, format!("the request failed: {text}")),
            },
        };
        io::Error::new(kind, what)
    }
}

/// Whether an error is about finding or using a credential. S3 answers an expired token with 400, and without
/// words where only the size was asked for; machines in a cloud ask a fixed address for their credential.
fn asks_for_credentials(text: &str) -> bool {
    const SIGNS: [&str; 12] = [
        "400 Bad Request",
        "Account must be specified",
        "ExpiredToken",
        "InvalidToken",
        "169.254.169.254",
        "/latest/api/token",
        "/latest/meta-data",
        "metadata.google.internal",
        "credential",
        "Credential",
        "SecretAccessKey",
        "AccessKeyId",
    ];
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// How the connection failed, if that is the cause.
fn transport(error: &Error) -> Option<HttpErrorKind> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// The words of a server on one line, cut short.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
