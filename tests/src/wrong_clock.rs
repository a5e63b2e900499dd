//! A process whose clock is wrong.

use steadfast_nats_server::Fetched;

/// A library that tells a process another time of day, by the loader's means.
const FAKETIME: Fetched = Fetched {
    what: "the library for wrong clocks",
    package: "libfaketime",
    version: "3.0.1",
    hashes: &["5eed7c17f3d4ba0f6f828de4975f69a622b06b1e792674e6c1b069c0689fab79"],
    file: "libfaketime/vendor/libfaketime/src/libfaketime.so.1",
};

/// The environment of a process whose clock is so many seconds ahead; how much time has passed it
/// still knows. An error tells why it cannot be had.
pub fn ahead_by(seconds: i64) -> Result<Vec<(String, String)>, String> {
    let library = FAKETIME.path()?;
    let library = library.to_string_lossy().into_owned();
    let variable = |name: &str, value: String| (name.to_owned(), value);
    Ok(vec![
        variable("LD_PRELOAD", library),
        variable("FAKETIME", format!("{seconds:+}")),
        variable("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ])
}
