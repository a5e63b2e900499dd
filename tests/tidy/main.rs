//! The rules of this repository, as tests. Each check is a function over text, tested on small
//! texts that break it, and then run on the whole tree.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod crates;
mod docs;
mod layout;
mod source;
mod tree;
mod words;

use tree::Tree;

/// Fails with all findings at once.
fn check(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

#[test]
fn crates_use_only_what_stands_before_them() {
    let tree = Tree::read();
    check(
        "a crate may use only the crates of its row",
        crates::order_findings(&tree.manifests()),
    );
}

#[test]
fn a_third_party_library_has_one_home() {
    let tree = Tree::read();
    check(
        "this library belongs to another crate",
        crates::home_findings(&tree.manifests()),
    );
}

#[test]
fn every_root_dependency_is_used() {
    let tree = Tree::read();
    check(
        "nothing uses this dependency",
        crates::unused_findings(tree.text("Cargo.toml"), &tree.manifests()),
    );
}

#[test]
fn every_dependency_of_a_package_is_named_in_its_code() {
    let tree = Tree::read();
    let sources = |folder: &str| tree.rust_below(folder);
    check(
        "the package declares it and never names it",
        crates::unnamed_findings(&tree.manifests(), sources),
    );
}

#[test]
fn versions_stand_in_the_root_manifest_only() {
    let tree = Tree::read();
    check(
        "a version belongs into the root manifest",
        crates::version_findings(&tree.manifests()),
    );
}

#[test]
fn source_files_stay_short() {
    let tree = Tree::read();
    let findings = tree
        .rust()
        .filter(|(path, _)| !source::is_test_file(path))
        .filter_map(|(path, text)| source::length_finding(path, text))
        .collect();
    check(
        "a file has at most 400 lines of code without its tests",
        findings,
    );
}

#[test]
fn modules_are_never_called_mod() {
    let tree = Tree::read();
    let findings = tree
        .rust()
        .map(|(path, _)| path.to_owned())
        .filter(|path| path.ends_with("/mod.rs"))
        .collect();
    check("`foo.rs` beside `foo/`, not `foo/mod.rs`", findings);
}

#[test]
fn tests_are_run_and_say_what_they_expect() {
    let tree = Tree::read();
    let findings = tree
        .rust()
        .flat_map(|(path, text)| words::test_attribute_findings(path, text))
        .collect();
    check("a test runs and asserts", findings);
}

#[test]
fn nothing_is_left_for_later() {
    let tree = Tree::read();
    let findings = tree
        .texts()
        .flat_map(|(path, text)| words::unfinished_findings(path, text))
        .collect();
    check("finish it or leave it out", findings);
}

#[test]
fn package_registries_are_not_named() {
    let tree = Tree::read();
    let findings = tree
        .texts()
        .filter(|(path, _)| !path.ends_with("Cargo.lock"))
        .flat_map(|(path, text)| words::registry_findings(path, text))
        .collect();
    check("a machine's package registry is its own matter", findings);
}

#[test]
fn the_core_is_pure() {
    let tree = Tree::read();
    let findings = tree
        .rust()
        .filter(|(path, _)| path.starts_with("crates/core/src/"))
        .flat_map(|(path, text)| source::impurity_findings(path, text))
        .collect();
    check(
        "the core has no clock, chance, IO or unordered map",
        findings,
    );
}

#[test]
fn links_in_documents_resolve() {
    let tree = Tree::read();
    check("nothing is there", docs::link_findings(&tree));
}

#[test]
fn the_top_level_holds_what_it_is_meant_to() {
    check(
        "the top level is for few things",
        layout::top_level_findings(&tree::top_level()),
    );
}
