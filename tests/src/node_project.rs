//! Projects of other languages that tests drive, beside the tools of the test command.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

/// A Node project with what it needs, beside the tools of the test command; installed once for each
/// lock file.
pub async fn installed(source: &Path, name: &str) -> Result<PathBuf, String> {
    let project = tools().join(name);
    let _one_at_a_time = lock(name);
    copy(source, &project);
    let lock = fs::read(source.join("package-lock.json")).unwrap();
    let mark = project.join("installed-lock.json");
    if fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(project);
    }
    let installed = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(&project)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| format!("npm cannot be started: {error}"))?;
    if !installed.status.success() {
        return Err(format!("npm ci failed: {}", one_line(&shown(&installed))));
    }
    fs::write(&mark, lock).unwrap();
    Ok(project)
}

/// Copies a project's own files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        } else if entry.file_name() == "src" {
            copy(&entry.path(), &target);
        }
    }
}

/// A Python environment with the packages of a list; made once for each list.
pub async fn python(requirements: &Path, name: &str) -> Result<PathBuf, String> {
    let environment = tools().join(name);
    let _one_at_a_time = lock(name);
    let python = environment.join("bin/python");
    let wanted = fs::read(requirements).unwrap();
    let mark = environment.join("installed-requirements.txt");
    if fs::read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let mut made = Command::new("python3");
    made.args(["-m", "venv"]).arg(&environment);
    run(made, "python3 -m venv").await?;
    let mut installed = Command::new(&python);
    installed
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(requirements);
    run(installed, "pip install").await?;
    fs::write(&mark, wanted).unwrap();
    Ok(python)
}

async fn run(mut command: Command, what: &str) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("{what} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{what} failed: {}", one_line(&shown(&output))))
}

/// Keeps other tests, which are other processes, from the same folder meanwhile.
fn lock(name: &str) -> File {
    fs::create_dir_all(tools()).unwrap();
    let file = File::create(tools().join(format!("{name}.lock"))).unwrap();
    file.lock().unwrap();
    file
}

fn tools() -> PathBuf {
    let folder = match std::env::var_os("STEADFAST_TOOLS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools"),
    };
    std::path::absolute(folder).unwrap()
}

fn shown(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    format!("{out}{err}")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
