//! The test command. `cargo verify` builds everything, runs all tests and doc tests, and names what
//! was left out; it writes only to the target folder and `.tools/`.

mod chaos;
mod left_out;
mod lines;
mod stages;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use chaos::Chaos;
use left_out::LeftOut;
use stages::Stages;

const HELP: &str = "\
cargo verify              build, run all tests and doc tests, name what was left out
cargo verify test ARGS    build, run the tests that ARGS (of nextest, or of `cargo test`) select
cargo verify matrix       build, run every cell of the crash matrix
cargo verify matrix PART  the same of the cells whose name has this part, as printed on failure
cargo verify chaos [--rounds N] [--scenario PART] [--seed SEED]
                          build, let each kind of failure befall a cluster of real processes N times,
                          or those whose name has this part, as printed
cargo verify lines        count lines of code and of tests in each package
cargo verify help         this text

In an environment with CI set, a left-out test is a failure unless tests/left-out-expected.txt names it.";

/// Name of the test that runs the crash matrix.
const MATRIX_TEST: &str = "no_crash_loses_repeats_or_hides_anything";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        None => ("all", &[][..]),
        Some((command, rest)) => (command.as_str(), rest),
    };
    let root = root();
    let outcome = match command {
        "all" if rest.is_empty() => verify(&root, &Selection::All),
        "test" => verify(&root, &Selection::Tests(rest)),
        "matrix" if rest.len() <= 1 => {
            let part = rest.first().map_or("full", String::as_str);
            verify(&root, &Selection::Matrix(part))
        }
        "chaos" => match Chaos::parse(rest) {
            Some(chaos) => verify(&root, &Selection::Chaos(chaos)),
            None => {
                eprintln!("{HELP}");
                return ExitCode::from(2);
            }
        },
        "lines" if rest.is_empty() => lines::print(&root),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(true)
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository this program was built in.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_path_buf()
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

/// Which tests run.
enum Selection<'a> {
    /// All, and doc tests.
    All,
    /// Those that the arguments of the test runner select.
    Tests(&'a [String]),
    /// The crash matrix: `full`, or a part of cells' names.
    Matrix(&'a str),
    /// Failures of a cluster.
    Chaos(Chaos<'a>),
}

fn verify(root: &Path, selection: &Selection<'_>) -> Result<bool, String> {
    let mut stages = Stages::default();
    // One selection for binaries and tests: features unify once and each crate compiles once.
    let targets = ["--workspace", "--lib", "--bins", "--tests"];
    let built = stages.run("build", cargo(root, &["build"]).args(targets));
    if !built {
        stages.print();
        return Ok(false);
    }
    // Built just now, so this only fetches what is not there.
    let fetch = ["run", "--quiet", "--package", "steadfast-nats-server"];
    let tools = root.join(".tools");
    let fetched = stages.run("tools", cargo(root, &fetch).env("STEADFAST_TOOLS", &tools));
    if !fetched {
        println!("the tests that need a broker will fail");
    }
    let binary = Binary::keep()?;
    let left_out = LeftOut::begin(root)?;
    let ci = env::var_os("CI").is_some();
    let mut tests = test_command(root, ci);
    tests
        .args(targets)
        .env("STEADFAST_BINARY", &binary.path)
        .env("STEADFAST_TOOLS", &tools)
        .env("STEADFAST_LEFT_OUT", left_out.file());
    match selection {
        Selection::All => {}
        Selection::Tests(arguments) => {
            tests.args(*arguments);
        }
        Selection::Matrix(part) => {
            tests.arg(MATRIX_TEST).env("STEADFAST_MATRIX", part);
        }
        Selection::Chaos(chaos) => chaos.select(&mut tests),
    }
    let mut passed = stages.run("tests", &mut tests);
    if matches!(selection, Selection::All) {
        let mut doc = cargo(root, &["test", "--quiet", "--workspace", "--doc"]);
        passed &= stages.run("doc tests", &mut doc);
    }
    stages.print();
    passed &= left_out.report(ci)?;
    println!("{}", if passed { "all tests passed" } else { "FAILED" });
    Ok(passed)
}

/// nextest where it is installed, else the built-in runner: the same tests either way.
fn test_command(root: &Path, ci: bool) -> Command {
    let has_nextest = cargo(root, &["nextest", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if has_nextest {
        let profile = if ci { "ci" } else { "default" };
        cargo(root, &["nextest", "run", "--profile", profile])
    } else {
        println!("cargo-nextest is not installed: running the same tests by cargo test");
        cargo(root, &["test", "--no-fail-fast"])
    }
}

/// The built product under a name of this run: another build into the same target folder replaces
/// the common name, and must not change what is tested.
struct Binary {
    folder: PathBuf,
    path: PathBuf,
}

impl Binary {
    fn keep() -> Result<Self, String> {
        let this = env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let target = this.parent().ok_or("own path has no folder")?;
        let folder = target.join(format!("verify-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("create {}: {error}", folder.display()))?;
        let path = folder.join("steadfast");
        let built = target.join("steadfast");
        std::fs::hard_link(&built, &path)
            .or_else(|_| std::fs::copy(&built, &path).map(|_| ()))
            .map_err(|error| format!("keep {}: {error}", built.display()))?;
        Ok(Self { folder, path })
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("verify: remove {}: {error}", self.folder.display());
        }
    }
}
