//! The HTTP client with which the server calls others: which authorities it trusts, and how it authenticates itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ioweir_config::{plain, shown};
use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, parse_pem};

/// The longest file with a password or a token.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// An HTTP client that waits this long for an answer, and takes any status for one. It follows no redirection and uses no proxy, so that
/// its token or certificate reaches only the named server.
pub fn agent(timeout: Duration, tls: Option<TlsConfig>) -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent("ioweir");
    tls.into_iter().fold(config, |config, tls| config.tls_config(tls)).build().into()
}

/// A TLS configuration for a client. It trusts the authorities of a file, and shows a certificate with its key, if there is one.
///
/// # Errors
/// If a file cannot be read or has other contents; the error names the file's key in the spec.
pub fn tls(authorities: &Path, own: Option<(&Path, &Path)>) -> Result<TlsConfig, String> {
    let mut config = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates(authorities, "authorities")?)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if let Some((chain, key)) = own {
        let chain = certificates(chain, "certificate")?;
        let mut keys = pem(key, "key")?.into_iter();
        let own = keys.find_map(|item| if let PemItem::PrivateKey(key) = item { Some(key) } else { None });
        let own = own.ok_or_else(|| format!("key: {}: has no private key in it", shown(&key.display().to_string())))?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&chain, own)));
    }
    Ok(config.build())
}

fn certificates(file: &Path, key: &str) -> Result<Vec<Certificate<'static>>, String> {
    let certificate = |item| if let PemItem::Certificate(certificate) = item { Some(certificate) } else { None };
    let found: Vec<_> = pem(file, key)?.into_iter().filter_map(certificate).collect();
    if found.is_empty() {
        return Err(format!("{key}: {}: has no certificate in it", shown(&file.display().to_string())));
    }
    Ok(found)
}

fn pem(file: &Path, key: &str) -> Result<Vec<PemItem<'static>>, String> {
    let place = shown(&file.display().to_string());
    let text = fs::read(file).map_err(|error| format!("{key}: {place}: {}", plain(&error)))?;
    let items: Result<Vec<_>, _> = parse_pem(&text).collect();
    items.map_err(|error| format!("{key}: {place}: {error}"))
}

/// The password or token in a file, without the end of its line.
///
/// # Errors
/// If the file cannot be read, or holds something else.
pub fn secret(file: &Path) -> Result<String, String> {
    let place = shown(&file.display().to_string());
    let size = fs::metadata(file).map_err(|error| format!("{place}: {}", plain(&error)))?.len();
    if size > SECRET_BYTES_MAX {
        return Err(format!("{place}: too long for a password or a token"));
    }
    let text = fs::read_to_string(file).map_err(|error| format!("{place}: {}", plain(&error)))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("{place}: holds no password or token of one line"));
    }
    Ok(text.to_owned())
}
