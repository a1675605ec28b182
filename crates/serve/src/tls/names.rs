//! The names in a certificate.

use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The most names that are read from one certificate, which may contain any number.
const NAMES_MAX: usize = 64;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The common names of the subject, then the alternative DNS names. Parts of a verified certificate that cannot be parsed
/// have no names.
#[must_use]
pub fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok(Certificate { tbs_certificate, .. }) = Certificate::from_der(certificate) else { return Vec::new() };
    let attributes = tbs_certificate.subject.0.iter().flat_map(|name| name.0.iter());
    let common = attributes.filter(|attribute| attribute.oid == COMMON_NAME).filter_map(text_of);
    let alternatives = tbs_certificate.get::<SubjectAltName>().ok().flatten();
    let alternatives = alternatives.iter().flat_map(|(_, names)| &names.0);
    let alternatives = alternatives.filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        _ => None,
    });
    common.chain(alternatives).take(NAMES_MAX).collect()
}

/// The value of an attribute, if it is one of the kinds of text that certificates use.
fn text_of(attribute: &AttributeTypeAndValue) -> Option<String> {
    let value = &attribute.value;
    let text = value.decode_as::<Utf8StringRef<'_>>().ok().map(|text| text.as_str().to_owned());
    let text = text.or_else(|| value.decode_as::<PrintableStringRef<'_>>().ok().map(|text| text.as_str().to_owned()));
    text.or_else(|| value.decode_as::<TeletexStringRef<'_>>().ok().map(|text| text.as_str().to_owned()))
}
