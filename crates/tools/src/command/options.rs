//! Which program a command tool starts, and in what surroundings.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::process::Command;

use crate::command::lifeline;

/// Why a command tool cannot be used: it is refused at start-up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandToolError {
    /// There is no such program.
    #[error("program {program:?} is not an executable file, here or in PATH")]
    ProgramNotFound {
        /// As configured.
        program: String,
    },
    /// There is no such directory to run it in.
    #[error("{directory:?} is not a directory to run a command in")]
    DirectoryNotFound {
        /// As configured.
        directory: PathBuf,
    },
    /// A variable cannot be given to it.
    #[error("variable {name:?} cannot be given to a command: {reason}")]
    Variable {
        /// Its name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// No room for an answer.
    #[error("output_bytes_max must be more than 0")]
    NoOutput,
}

/// Which program is started, and in what surroundings. Its [`Debug`](fmt::Debug) form leaves out
/// arguments and the values of variables.
#[derive(Clone)]
pub struct CommandOptions {
    /// A path, or a name to be found in `PATH` at start-up.
    pub program: String,
    /// Its arguments, as they are: no shell reads them.
    pub args: Vec<String>,
    /// Where it runs; `None`: where this process does.
    pub directory: Option<PathBuf>,
    /// Variables that it is given.
    pub env: BTreeMap<String, String>,
    /// Names of our own variables that it is given too, if they are set.
    pub env_passed: Vec<String>,
    /// Of its output this much is kept.
    pub output_bytes_max: usize,
}

impl CommandOptions {
    /// Default of [`CommandOptions::output_bytes_max`].
    pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// The program without arguments, with all defaults.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            directory: None,
            env: BTreeMap::new(),
            env_passed: Vec::new(),
            output_bytes_max: Self::OUTPUT_BYTES_MAX,
        }
    }

    pub(crate) fn prepare(self) -> Result<Prepared, CommandToolError> {
        if self.output_bytes_max == 0 {
            return Err(CommandToolError::NoOutput);
        }
        if let Some(directory) = self.directory.as_ref().filter(|path| !path.is_dir()) {
            return Err(CommandToolError::DirectoryNotFound {
                directory: directory.clone(),
            });
        }
        let Some(program) = find(&self.program) else {
            return Err(CommandToolError::ProgramNotFound {
                program: self.program,
            });
        };
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        for name in self.env_passed.iter().chain(self.env.keys()) {
            usable(name)?;
        }
        for name in ["PATH"]
            .into_iter()
            .chain(self.env_passed.iter().map(String::as_str))
        {
            if let Some(value) = env::var_os(name) {
                env.insert(name.into(), value);
            }
        }
        for (name, value) in &self.env {
            if value.contains('\0') {
                return Err(CommandToolError::Variable {
                    name: name.clone(),
                    reason: "its value has a zero byte",
                });
            }
            env.insert(name.into(), value.into());
        }
        Ok(Prepared {
            program,
            args: self.args,
            directory: self.directory,
            env,
            output_bytes_max: self.output_bytes_max,
        })
    }
}

impl fmt::Debug for CommandOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandOptions")
            .field("program", &self.program)
            .field("directory", &self.directory)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("env_passed", &self.env_passed)
            .field("output_bytes_max", &self.output_bytes_max)
            .finish_non_exhaustive()
    }
}

/// Options that were checked.
pub(crate) struct Prepared {
    program: PathBuf,
    args: Vec<String>,
    directory: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    pub(crate) output_bytes_max: usize,
}

impl Prepared {
    /// The command with nothing of our environment but what was named.
    /// How it is started, and whether with a lifeline.
    pub(super) fn command(&self) -> (Command, bool) {
        self.with(lifeline::around(&self.program))
    }

    /// The same for a program that reads its standard input as long as it runs.
    pub(crate) fn server(&self) -> (Command, bool) {
        self.with(lifeline::around_server(&self.program))
    }

    fn with(&self, companion: Option<Command>) -> (Command, bool) {
        let has_lifeline = companion.is_some();
        let mut command = companion.unwrap_or_else(|| Command::new(&self.program));
        command.args(&self.args).env_clear().envs(&self.env);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        (command, has_lifeline)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("program", &self.program)
            .field("directory", &self.directory)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("output_bytes_max", &self.output_bytes_max)
            .finish_non_exhaustive()
    }
}

fn usable(name: &str) -> Result<(), CommandToolError> {
    let reason = if name.is_empty() || name.contains(['=', '\0']) {
        "not the name of a variable"
    } else if name.starts_with("STEADFAST_") || name == "TRACEPARENT" {
        "it is set for each call, or is the node's own configuration"
    } else {
        return Ok(());
    };
    Err(CommandToolError::Variable {
        name: name.to_owned(),
        reason,
    })
}

/// The program's file, so that neither the directory it runs in nor a later `PATH` changes it.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program)
            .ok()
            .filter(|path| is_executable(path));
    }
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories)
        .filter_map(|directory| std::path::absolute(directory.join(program)).ok())
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    const ANY_MAY_EXECUTE: u32 = 0o111;
    path.metadata().is_ok_and(|metadata| {
        metadata.is_file() && metadata.permissions().mode() & ANY_MAY_EXECUTE != 0
    })
}
