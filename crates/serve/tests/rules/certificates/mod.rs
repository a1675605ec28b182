//! Certificates for tests; each test creates its own.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate with its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new(Vec::default()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    /// A certificate of this common name, for these DNS names.
    pub(crate) fn sign(&self, common: &str, names: &[&str]) -> Identity {
        self.sign_until(common, names, 4000)
    }

    pub(crate) fn sign_until(&self, common: &str, names: &[&str], year: i32) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, common);
        parameters.not_before = date_time_ymd(2000, 1, 1);
        parameters.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// A server's certificate and those of its clients, in the files of a folder.
pub(crate) struct Files {
    pub(crate) authority: Authority,
    folder: PathBuf,
}

impl Files {
    pub(crate) fn new(folder: &Path) -> Self {
        let authority = Authority::new("authority");
        let server = authority.sign("server", &["localhost"]);
        let files = Self { authority, folder: folder.into() };
        files.write("ca.pem", &files.authority.pem);
        files.write("server.pem", &server.certificate);
        files.write("server-key.pem", &server.key);
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    /// The TLS table of a spec; `keys` follow the server's own.
    pub(crate) fn table(&self, keys: &str) -> String {
        let folder = self.folder.display();
        let keys = keys.replace("FOLDER", &folder.to_string());
        format!("[server.tls]\ncertificate = \"{folder}/server.pem\"\nkey = \"{folder}/server-key.pem\"\n{keys}")
    }

    /// The TLS configuration of a client with this identity.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        self.client_of(identity, rustls::DEFAULT_VERSIONS)
    }

    pub(crate) fn client_of(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }
}

/// A client's end of a connection that is encrypted from here on.
pub(crate) fn secure<T: Read + Write>(config: &Arc<ClientConfig>, socket: T) -> StreamOwned<ClientConnection, T> {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket)
}
