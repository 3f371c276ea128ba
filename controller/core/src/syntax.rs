//! The syntax of names as the API server enforces it, and of host names as the world writes them.
//!
//! The checks of answers and of users' annotations call these before anything is written: the API server would refuse the
//! whole object for one illegal name. A [`Complaint`] is a defect in words that follow the text.

/// Longest DNS-1123 subdomain, and so the longest name and label prefix.
pub const MAX_SUBDOMAIN: usize = 253;
/// Longest label value, label name, and part of a DNS name.
pub const MAX_LABEL: usize = 63;
/// Longest reason of an event.
const MAX_REASON: usize = 128;

/// A defect of a text, in words that follow the text.
pub type Complaint = &'static str;

/// Checks that `text` is legal as the value of a label. The empty text is.
pub fn label_value(text: &str) -> Result<(), Complaint> {
    if text.len() > MAX_LABEL {
        return Err("is longer than 63 bytes");
    }
    if text.is_empty() || is_qualified(text) {
        return Ok(());
    }
    Err(
        "is no label value: letters, digits, '-', '_' and '.', the first and last a letter or digit",
    )
}

/// Checks that `text` is legal as the key of a label: `[prefix/]name`.
pub fn label_key(text: &str) -> Result<(), Complaint> {
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) => {
            if !is_subdomain(prefix) {
                return Err("has a prefix that is no DNS subdomain of at most 253 bytes");
            }
            name
        }
    };
    if name.is_empty() || name.len() > MAX_LABEL || !is_qualified(name) {
        return Err(
            "is no label key: [prefix/]name with a name of at most 63 letters, digits, \
                    '-', '_' and '.', the first and last a letter or digit",
        );
    }
    Ok(())
}

/// Checks that `text` is legal as the name of a node: a DNS-1123 subdomain.
pub fn node_name(text: &str) -> Result<(), Complaint> {
    if is_subdomain(text) {
        return Ok(());
    }
    Err("is no node name: a DNS subdomain of at most 253 bytes, in lower case")
}

/// Checks that `text` is a DNS-1123 subdomain, which host names in a Service's status have to be.
pub fn subdomain(text: &str) -> Result<(), Complaint> {
    if is_subdomain(text) {
        return Ok(());
    }
    Err("is no DNS subdomain of at most 253 bytes, in lower case")
}

/// Checks that `text` is legal as the reason of a condition, and short enough for that of an event.
pub fn reason(text: &str) -> Result<(), Complaint> {
    if text.len() > MAX_REASON {
        return Err("is longer than 128 bytes");
    }
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    if bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes
            .last()
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.iter().all(inner)
    {
        return Ok(());
    }
    Err("is no CamelCase reason")
}

/// Checks that `text` can be a host or DNS name. The rule is more lenient than for names in Kubernetes: upper case,
/// underscores and the dot of the root occur in clouds.
pub fn dns_name(text: &str) -> Result<(), Complaint> {
    if text.len() > MAX_SUBDOMAIN {
        return Err("is longer than 253 bytes");
    }
    let part = |part: &str| {
        matches!(part.len(), 1..=MAX_LABEL)
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if text.strip_suffix('.').unwrap_or(text).split('.').all(part) {
        return Ok(());
    }
    Err("is no DNS name")
}

/// Letters and digits around `-`, `_`, `.`.
fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// DNS-1123: lower case, and no limit of 63 bytes on a part, which the API server does not make.
fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
    };
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(part)
}

#[cfg(test)]
mod tests;
