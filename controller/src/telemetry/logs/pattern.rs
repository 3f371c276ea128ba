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
    let (mut p, mut t) = (0, 0);
    // Where to go on with one more letter in the last star.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    p = after;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == b'*')
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
