//! The one provider of cryptography for TLS.

/// Makes it the process's own, unless the program that embeds us chose another before.
pub(crate) fn install() {
    // The only error is that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
