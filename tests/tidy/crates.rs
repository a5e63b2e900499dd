//! Who may depend on what.

use std::collections::BTreeSet;

use crate::tree::Manifest;
use crate::words::has_word;

/// Each crate with the crates it may use; the same table as in `crates/README.md`.
const ORDER: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("protocol", &["core"]),
    ("store", &["core", "protocol"]),
    ("store-redb", &["core", "protocol", "store"]),
    ("store-nats", &["core", "protocol", "store"]),
    ("tools", &["core", "protocol", "store"]),
    ("shell", &["protocol"]),
    ("harness", &["core", "protocol", "tools"]),
    (
        "runtime",
        &["core", "protocol", "store", "tools", "harness"],
    ),
    ("api", &["core", "protocol", "store", "runtime"]),
    (
        "node",
        &[
            "core",
            "protocol",
            "store",
            "store-redb",
            "store-nats",
            "tools",
            "shell",
            "harness",
            "runtime",
            "api",
        ],
    ),
    (
        "sim",
        &["core", "protocol", "store", "runtime", "tools", "harness"],
    ),
];

/// Packages below `tests/` that start something real for a crate's own tests, and use no crate.
const NEIGHBOURS: [&str; 1] = ["nats-server"];

/// Libraries that only one crate may use, and [`MEASURES`].
const HOMES: [(&str, &str); 5] = [
    ("ractor", "crates/runtime"),
    ("redb", "crates/store-redb"),
    ("axum", "crates/api"),
    ("async-nats", "crates/store-nats"),
    ("bashkit", "crates/shell"),
];

/// Puts a library alone beside what is built on it.
const MEASURES: &str = "benches";

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// All dependencies of a package, with what is said of each.
fn dependencies(manifest: &Manifest) -> Vec<(&'static str, &str, &toml::Value)> {
    let mut all = Vec::new();
    for table in TABLES {
        let Some(entries) = manifest.table.get(table).and_then(toml::Value::as_table) else {
            continue;
        };
        all.extend(
            entries
                .iter()
                .map(|(name, value)| (table, name.as_str(), value)),
        );
    }
    all
}

/// Our own crates by their folder's name.
fn own(dependency: &str) -> Option<&str> {
    if dependency == "steadfast" {
        return Some("node");
    }
    dependency.strip_prefix("steadfast-")
}

/// Dependencies between our crates that the order does not allow.
pub(crate) fn order_findings(manifests: &[Manifest]) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let Some(name) = manifest.folder.strip_prefix("crates/") else {
            continue;
        };
        let Some((_, allowed)) = ORDER.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(format!("{} has no row", manifest.folder));
            continue;
        };
        // Tests put real parts around their crate, so they may use all that stands before it.
        let before = |own: &str| {
            let mut rows = ORDER
                .iter()
                .take_while(|(crate_name, _)| *crate_name != name);
            rows.any(|(crate_name, _)| *crate_name == own)
        };
        for (table, dependency, _) in dependencies(manifest) {
            let Some(own) = own(dependency) else { continue };
            let may = before(own) || NEIGHBOURS.contains(&own);
            let for_tests = table == "dev-dependencies" && may;
            if !allowed.contains(&own) && !for_tests {
                findings.push(format!("{} uses {dependency}", manifest.folder));
            }
        }
    }
    findings
}

/// Uses of a library outside its home.
pub(crate) fn home_findings(manifests: &[Manifest]) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in manifests.iter().filter(|it| it.folder != MEASURES) {
        for (_, dependency, _) in dependencies(manifest) {
            let home = HOMES.iter().find(|(library, _)| *library == dependency);
            if home.is_some_and(|(_, home)| *home != manifest.folder) {
                findings.push(format!("{} uses {dependency}", manifest.folder));
            }
        }
    }
    findings
}

/// Dependencies of the root manifest that no package uses.
pub(crate) fn unused_findings(root: &str, manifests: &[Manifest]) -> Vec<String> {
    let root: toml::Table = root.parse().unwrap();
    let declared = root["workspace"]["dependencies"].as_table().unwrap();
    let used: BTreeSet<&str> = manifests
        .iter()
        .flat_map(dependencies)
        .map(|(_, dependency, _)| dependency)
        .collect();
    declared
        .keys()
        .filter(|name| !used.contains(name.as_str()))
        .cloned()
        .collect()
}

/// Dependencies that a package's own code never names.
pub(crate) fn unnamed_findings(
    manifests: &[Manifest],
    sources: impl Fn(&str) -> String,
) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let source = sources(&manifest.folder);
        for (_, dependency, _) in dependencies(manifest) {
            if !has_word(&source, &dependency.replace('-', "_")) {
                findings.push(format!("{}: {dependency}", manifest.folder));
            }
        }
    }
    findings
}

/// Dependencies that name a version, path or source of their own.
pub(crate) fn version_findings(manifests: &[Manifest]) -> Vec<String> {
    let mut findings = Vec::new();
    for manifest in manifests {
        for (_, dependency, value) in dependencies(manifest) {
            let inherited = value.get("workspace").and_then(toml::Value::as_bool);
            if inherited != Some(true) {
                findings.push(format!("{}: {dependency}", manifest.folder));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &str, text: &str) -> [Manifest; 1] {
        let table = text.parse().unwrap();
        let folder = folder.to_owned();
        [Manifest { folder, table }]
    }

    #[test]
    fn a_step_against_the_order_is_found() {
        let text = "[dependencies]\nsteadfast-core.workspace = true\n\
                    [dev-dependencies]\nsteadfast-api.workspace = true";
        assert_eq!(
            order_findings(&manifest("crates/runtime", text)),
            ["crates/runtime uses steadfast-api"]
        );
        assert_eq!(
            order_findings(&manifest("crates/other", "")),
            ["crates/other has no row"]
        );
    }

    #[test]
    fn tests_use_all_that_stands_before_their_crate() {
        let text = "[dev-dependencies]\nsteadfast-harness.workspace = true";
        assert!(order_findings(&manifest("crates/api", text)).is_empty());
        assert_eq!(
            order_findings(&manifest("crates/tools", text)),
            ["crates/tools uses steadfast-harness"]
        );
    }

    #[test]
    fn nobody_uses_the_composition_root() {
        let text = "[dependencies]\nsteadfast.workspace = true";
        assert_eq!(
            order_findings(&manifest("crates/sim", text)),
            ["crates/sim uses steadfast"]
        );
    }

    #[test]
    fn a_library_away_from_home_is_found() {
        let text = "[dependencies]\nredb.workspace = true\naxum.workspace = true";
        assert_eq!(
            home_findings(&manifest("crates/api", text)),
            ["crates/api uses redb"]
        );
    }

    #[test]
    fn a_dependency_without_use_is_found() {
        let root = "[workspace.dependencies]\nserde = '1'\nrand = '1'";
        let text = "[dependencies]\nserde.workspace = true";
        assert_eq!(
            unused_findings(root, &manifest("crates/core", text)),
            ["rand"]
        );
    }

    #[test]
    fn a_dependency_that_the_code_never_names_is_found() {
        let text = "[dependencies]\nserde.workspace = true\ntokio-util.workspace = true";
        let source = |_: &str| "use serde_json::Value; use tokio_util::sync;".to_owned();
        assert_eq!(
            unnamed_findings(&manifest("crates/core", text), source),
            ["crates/core: serde"]
        );
    }

    #[test]
    fn a_version_in_a_package_is_found() {
        let text = "[dependencies]\nserde = '1'\nrand = { workspace = true }";
        assert_eq!(
            version_findings(&manifest("crates/core", text)),
            ["crates/core: serde"]
        );
    }
}
