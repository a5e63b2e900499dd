//! Free ports.

use std::net::TcpListener;

/// As many free ports as asked for, all different. Another process may take one before it is used:
/// whoever starts a server on one starts it again on others then.
pub(crate) fn free<const COUNT: usize>() -> [u16; COUNT] {
    let held = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
