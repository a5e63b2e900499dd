//! Rules of tools that a model provider defines: who runs which, over which wire, under which name.

use crate::config::key_path::KeyPath;
use crate::config::problem::Problem;
use crate::config::provider::ProviderKind;
use crate::config::tool::{ApprovalKind, ToolOptions};

/// Who runs a tool that a provider defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Provider,
    Us,
    /// Its calls have a form for which there is no place here.
    Nobody,
}

/// The beginning of a type's name, who runs it, and the one name that the provider takes for it.
const KNOWN: [(&str, Runs, Option<&str>); 20] = [
    ("anthropic.bash_", Runs::Us, Some("bash")),
    (
        "anthropic.text_editor_2024",
        Runs::Us,
        Some("str_replace_editor"),
    ),
    (
        "anthropic.text_editor_20250124",
        Runs::Us,
        Some("str_replace_editor"),
    ),
    (
        "anthropic.text_editor_",
        Runs::Us,
        Some("str_replace_based_edit_tool"),
    ),
    ("anthropic.computer_", Runs::Us, Some("computer")),
    ("anthropic.memory_", Runs::Us, Some("memory")),
    ("anthropic.web_search_", Runs::Provider, Some("web_search")),
    ("anthropic.web_fetch_", Runs::Provider, Some("web_fetch")),
    (
        "anthropic.code_execution_",
        Runs::Provider,
        Some("code_execution"),
    ),
    ("anthropic.tool_search_tool_", Runs::Provider, None),
    ("openai.web_search", Runs::Provider, None),
    ("openai.file_search", Runs::Provider, None),
    ("openai.code_interpreter", Runs::Provider, None),
    ("openai.image_generation", Runs::Provider, None),
    ("openai.mcp", Runs::Provider, None),
    ("openai.custom", Runs::Us, None),
    ("openai.computer", Runs::Nobody, None),
    ("openai.local_shell", Runs::Nobody, None),
    ("openai.shell", Runs::Nobody, None),
    ("openai.apply_patch", Runs::Nobody, None),
];

/// `wire` is that of the agent's model, if it is known.
pub(super) fn check(
    path: &KeyPath,
    tool: &ToolOptions,
    wire: Option<ProviderKind>,
    problems: &mut Vec<Problem>,
) {
    let at = path.join("provider");
    let Some(id) = &tool.provider else {
        if !tool.provider_options.is_empty() {
            let at = path.join("provider_options");
            let title = format!("`{at}`: only a tool with `provider` has it");
            problems
                .push(Problem::key(at, title).help("name the provider's tool, or leave it out"));
        }
        return;
    };
    let understands = match wire {
        Some(ProviderKind::Anthropic) => id.starts_with("anthropic."),
        Some(ProviderKind::OpenaiResponses) => id.starts_with("openai."),
        Some(ProviderKind::OpenaiChat) => false,
        // A script calls what it likes, and an unknown provider is told elsewhere.
        Some(ProviderKind::Scripted) | None => true,
    };
    if !understands {
        let title = format!("`{at}`: the agent's model does not speak the wire of `{id}`");
        problems.push(Problem::value(at, title).help(
            "anthropic tools go with kind = \"anthropic\", openai tools with kind = \"openai-responses\"",
        ));
        return;
    }
    let known = KNOWN
        .into_iter()
        .find(|(begins, ..)| id.starts_with(begins));
    let runs_here = tool.http.is_some() || tool.command.is_some() || tool.client || tool.remote;
    match known.map(|(_, runs, _)| runs) {
        Some(Runs::Nobody) => {
            let title = format!("`{at}`: calls of `{id}` cannot be run here");
            problems
                .push(Problem::value(at.clone(), title).help("give the agent a tool of your own"));
        }
        Some(Runs::Us) if !runs_here => {
            let title = format!("`{at}`: the provider only defines `{id}`, nothing runs it");
            problems.push(
                Problem::value(at.clone(), title).help("add `http`, `command` or `remote = true`"),
            );
        }
        Some(Runs::Provider) if runs_here => {
            let title = format!("`{at}`: the provider runs `{id}` itself");
            let help = "leave `http`, `command`, `client` and `remote` out";
            problems.push(Problem::value(at.clone(), title).help(help));
        }
        Some(Runs::Us | Runs::Provider) | None => {}
    }
    if let Some((_, _, Some(name))) = known
        && tool.name != name
    {
        let at = path.join("name");
        let title = format!("`{at}`: the provider takes `{id}` only under the name `{name}`");
        problems.push(Problem::value(at, title));
    }
    if !runs_here && (tool.approval != ApprovalKind::NotApplicable || tool.check || tool.exclusive)
    {
        let title = format!(
            "`{path}`: the provider runs tool `{}` within its reply",
            tool.name
        );
        let help = "nobody can be asked: leave `approval`, `check` and `exclusive` out";
        problems.push(Problem::key(path.clone(), title).help(help));
    }
}
