//! The TLS files of an upstream, read and checked against each other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use super::files::{FileError, Role, authorities, certificates, private_key};
use crate::spec::{Listen, UpstreamTls};

/// The configuration of all TLS connections to an upstream.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Client {
    /// Reads the files of a spec, for an upstream at this address.
    ///
    /// # Errors
    /// The first file that cannot be used, and why.
    pub fn load(spec: &UpstreamTls, address: &Listen) -> Result<Self, FileError> {
        let failed = |role: Role, path: &Path, problem: String, expected| {
            Err(FileError { role, path: path.into(), problem, expected })
        };
        let roots = authorities(Role::Authority, &spec.authority)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = match ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions() {
            Ok(versions) => versions,
            Err(error) => return failed(Role::Authority, &spec.authority, error.to_string(), "TLS 1.2 or 1.3"),
        };
        let verified = versions.with_root_certificates(roots);
        let mut config = match (&spec.certificate, &spec.key) {
            (Some(path), Some(key)) => {
                let chain = certificates(Role::Certificate, path)?;
                match verified.with_client_auth_cert(chain, private_key(key)?) {
                    Ok(config) => config,
                    Err(error) => return failed(Role::Key, key, error.to_string(), "the key of the certificate"),
                }
            }
            _ => verified.with_no_client_auth(),
        };
        // Sessions are not resumed, so that the certificate is checked at each connection.
        config.resumption = Resumption::disabled();
        let name = match (&spec.name, address) {
            (Some(name), _) => name.clone(),
            (None, Listen::Tcp(address)) => address.ip().to_string(),
            (None, Listen::Unix(_)) => "localhost".into(),
        };
        match ServerName::try_from(name.clone()) {
            Ok(name) => Ok(Self { config: Arc::new(config), name }),
            Err(_) => failed(Role::Name, &PathBuf::from(name), "is no name".into(), "a DNS name or an IP address"),
        }
    }
}
