//! The TLS files named in a spec, read and checked against each other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use crate::spec;

/// The role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server's certificate, and the intermediate ones up to one that clients trust.
    Certificate,
    /// The server's private key.
    Key,
    /// The authorities that may sign certificates of clients.
    Clients,
    /// The authorities that may sign the certificate of an upstream.
    Authority,
    /// The name that the certificate of an upstream has to bear.
    Name,
}

impl Role {
    /// The key of the spec.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Key => "key",
            Self::Clients => "clients",
            Self::Authority => "authority",
            Self::Name => "name",
        }
    }
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}: {problem}", role.key(), path.display())]
pub struct FileError {
    /// The file's role.
    pub role: Role,
    /// The file's path.
    pub path: PathBuf,
    /// The problem with the file.
    pub problem: String,
    /// The contents that were expected.
    pub expected: &'static str,
}

/// The configuration of all TLS connections of a server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) config: Arc<ServerConfig>,
    /// Whether a connection must be encrypted before it is used.
    pub required: bool,
}

impl Server {
    /// Reads the files of a spec.
    ///
    /// # Errors
    /// The first file that cannot be used, and why.
    pub fn load(spec: &spec::Tls) -> Result<Self, FileError> {
        let certificates = certificates(Role::Certificate, &spec.certificate)?;
        let failed = |role: Role, path: &Path, problem: String, expected| {
            Err(FileError { role, path: path.into(), problem, expected })
        };
        let key = private_key(&spec.key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let versions = match versions {
            Ok(versions) => versions,
            Err(error) => return failed(Role::Certificate, &spec.certificate, error.to_string(), "TLS 1.2 or 1.3"),
        };
        let authenticated = match &spec.clients {
            None => versions.with_no_client_auth(),
            Some(path) => {
                let roots = authorities(Role::Clients, path)?;
                match WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build() {
                    Ok(verifier) => versions.with_client_cert_verifier(verifier),
                    Err(error) => return failed(Role::Clients, path, error.to_string(), AUTHORITIES),
                }
            }
        };
        match authenticated.with_single_cert(certificates, key) {
            Ok(mut config) => {
                // Connections last long: resuming a session would save little, and would skip the check of the certificate.
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
                Ok(Self { config: Arc::new(config), required: spec.required })
            }
            Err(rustls::Error::InconsistentKeys(_)) => {
                let problem = format!("is not the key to {}", spec.certificate.display());
                failed(Role::Key, &spec.key, problem, "the key that the certificate was made with")
            }
            Err(error) => {
                failed(Role::Certificate, &spec.certificate, error.to_string(), "the server's own certificate first")
            }
        }
    }
}

/// The expected contents of a file of authorities, for errors.
const AUTHORITIES: &str = "certificates of authorities";

/// The authorities in a file.
pub(super) fn authorities(role: Role, path: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(role, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| FileError {
            role,
            path: path.into(),
            problem: error.to_string(),
            expected: AUTHORITIES,
        })?;
    }
    Ok(roots)
}

/// The private key in a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let problem = pem_problem(&error, "private key");
        FileError { role: Role::Key, path: path.into(), problem, expected: "a PEM file" }
    })
}

/// The certificates in a file; at least one.
pub(super) fn certificates(role: Role, path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let failed = |problem| FileError { role, path: path.into(), problem, expected: "a PEM file" };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(failed("has no certificate in it".into())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(failed(pem_problem(&error, "certificate"))),
    }
}

fn pem_problem(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("has no {wanted} in it"),
        error => format!("is malformed: {error}"),
    }
}
