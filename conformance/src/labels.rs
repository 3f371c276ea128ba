//! Kubernetes labels: their syntax, and whose they are.

fn is_name_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63
        && text.chars().all(inner)
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

pub(crate) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            (1..=253).contains(&prefix.len()) && prefix.chars().all(legal) && is_name_part(name)
        }
        None => is_name_part(text),
    }
}

/// True if a key is of a domain or one of its subdomains.
pub(crate) fn is_of_domain(key: &str, domain: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let parent = prefix.strip_suffix(domain);
    parent.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// True if a key is of Kubernetes' own domains.
pub(crate) fn is_kubernetes(key: &str) -> bool {
    is_of_domain(key, "kubernetes.io") || is_of_domain(key, "k8s.io")
}
