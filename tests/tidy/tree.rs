//! The files of the repository, without what is built or fetched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const FOREIGN: [&str; 6] = [
    ".git",
    ".tools",
    "__pycache__",
    "node_modules",
    "steadfast-data",
    "target",
];

/// All text files by their path from the root.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

/// A package's manifest.
pub(crate) struct Manifest {
    /// Its folder, for example `crates/core`.
    pub(crate) folder: String,
    /// What it says.
    pub(crate) table: toml::Table,
}

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap().to_path_buf()
}

/// Names of what stands at the top level.
pub(crate) fn top_level() -> Vec<String> {
    let entries = fs::read_dir(root()).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = entries.map(|entry| name(entry).to_string_lossy().into_owned());
    names
        .filter(|name| !FOREIGN.contains(&name.as_str()))
        .collect()
}

impl Tree {
    /// Reads the whole tree.
    pub(crate) fn read() -> Self {
        let mut files = BTreeMap::new();
        let root = root();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if FOREIGN.contains(&name.as_str()) {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(text) = String::from_utf8(fs::read(&path).unwrap()) {
                    let relative = path.strip_prefix(&root).unwrap();
                    files.insert(relative.to_string_lossy().into_owned(), text);
                }
            }
        }
        assert!(files.len() > 50, "the tree was not found at {root:?}");
        Self { files }
    }

    /// All text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// All Rust text of a package.
    pub(crate) fn rust_below(&self, folder: &str) -> String {
        let prefix = format!("{folder}/");
        let files = self.rust().filter(|(path, _)| path.starts_with(&prefix));
        files.map(|(_, text)| text).collect()
    }

    /// One file.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.files
            .get(path)
            .unwrap_or_else(|| panic!("no file {path}"))
    }

    /// Whether a file or folder is there.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
            || root().join(path).exists()
    }

    /// The manifests of all packages of the workspace.
    pub(crate) fn manifests(&self) -> Vec<Manifest> {
        let manifests = self.texts().filter_map(|(path, text)| {
            let folder = path.strip_suffix("/Cargo.toml")?;
            let table: toml::Table = text.parse().unwrap();
            // A package outside the workspace has its own rules.
            let member = !table.contains_key("workspace");
            member.then(|| Manifest {
                folder: folder.to_owned(),
                table,
            })
        });
        manifests.collect()
    }
}
