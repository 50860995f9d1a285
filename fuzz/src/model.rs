//! What rules for files say about a path, written a second time: slowly, by whole names.

use wt_policy::{FileAccess, FileRule, Source};

/// What the rules say about an absolute path: of the rules that cover it the one with the most
/// names decides, of those the strictest; what nothing can lift holds below itself. `None` is
/// a path that no rule covers.
pub(crate) fn access(rules: &[FileRule], path: &str) -> Option<FileAccess> {
    let path = names(path);
    let covering: Vec<(usize, &FileRule)> = rules
        .iter()
        .map(|rule| (names(&rule.path), rule))
        .filter(|(top, _)| covers(top, &path))
        .map(|(top, rule)| (top.len(), rule))
        .collect();
    let most = covering.iter().map(|(depth, _)| *depth).max()?;
    covering
        .iter()
        .filter(|(depth, rule)| *depth == most || rule.source == Source::Core)
        .map(|(_, rule)| rule.access)
        .max()
}

/// The names that a path leads through.
pub(crate) fn names(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .collect()
}

fn covers(top: &[&str], path: &[&str]) -> bool {
    if path.starts_with(top) {
        return true;
    }
    let Some((pattern, folder)) = top.split_last() else {
        return true;
    };
    path.starts_with(folder)
        && path
            .get(folder.len())
            .is_some_and(|name| matches(pattern.as_bytes(), name.as_bytes()))
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, shorter))) => {
            matches(rest, name) || matches(pattern, shorter)
        }
        (Some((one, rest)), Some((other, shorter))) => one == other && matches(rest, shorter),
        (Some(_), None) | (None, Some(_)) => false,
    }
}
