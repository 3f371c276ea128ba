//! Patterns of `--vmodule`.

/// Whether a pattern fits a module.
///
/// klog matches the name of a source file. Here a pattern matches any part of the module's path,
/// so that `node=4` raises all of the node loop; one with `/` or `::` matches the whole path.
pub(super) fn fits(pattern: &str, module: &str) -> bool {
    if pattern.contains('/') || pattern.contains("::") {
        return glob(pattern.replace('/', "::").as_bytes(), module.as_bytes());
    }
    module
        .split("::")
        .any(|part| glob(pattern.as_bytes(), part.as_bytes()))
}

/// `*` stands for any letters, `?` for one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([b'*', rest @ ..], []) => glob(rest, text),
        ([b'*', rest @ ..], [_, tail @ ..]) => glob(rest, text) || glob(pattern, tail),
        ([letter, rest @ ..], [first, tail @ ..]) => {
            (*letter == b'?' || letter == first) && glob(rest, tail)
        }
        _ => pattern.is_empty() && text.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn parts_and_whole_paths_fit() {
        for (pattern, module, expected) in [
            ("node", "outrigger_controller::node::sync", true),
            ("sync", "outrigger_controller::node::sync", true),
            ("nod", "outrigger_controller::node::sync", false),
            ("n*e", "outrigger_controller::node::sync", true),
            ("s?n?", "outrigger_controller::node::sync", true),
            ("*", "outrigger_controller", true),
            (
                "outrigger_controller/node/*",
                "outrigger_controller::node::sync",
                true,
            ),
            ("*::sync", "outrigger_controller::node::sync", true),
            ("node/sync", "outrigger_controller::node::sync", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
        ] {
            assert_eq!(fits(pattern, module), expected, "{pattern} {module}");
        }
    }
}
