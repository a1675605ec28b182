//! The names in a certificate.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// The names that are read of one certificate, which may hold any number.
const NAMES_MAX: usize = 64;

/// The common names of the subject, then the alternative DNS names. A part of a verified certificate that cannot be parsed
/// has no names.
#[must_use]
pub fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let alternatives =
        alternatives.filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None });
    common.chain(alternatives).take(NAMES_MAX).map(String::from).collect()
}
