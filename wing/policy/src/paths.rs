//! Paths as text: expanded, brought into one spelling, compared.
//!
//! Nothing here follows a link: whoever enforces a rule does that, once, when it opens the
//! path.

use crate::effective::{EffectivePolicy, FileAccess, FileRule, Source};

/// The one spelling of an absolute path: no empty parts, no `.`, no slash at the end.
/// `None` if it is relative, leads upwards, or no kernel would take it.
pub(crate) fn normal(path: &str) -> Option<String> {
    let below = path.strip_prefix('/')?;
    if path.len() > crate::MAX_PATH || path.contains('\0') {
        return None;
    }
    let parts: Vec<&str> = below
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.contains(&"..")).then(|| format!("/{}", parts.join("/")))
}

/// A path below another; the lower one in one spelling as well.
pub(crate) fn join(top: &str, below: &str) -> String {
    match top {
        "/" => format!("/{below}"),
        top => format!("{top}/{below}"),
    }
}

/// Whether a path is another one or lies below it; both in one spelling.
pub(crate) fn is_at_or_below(path: &str, top: &str) -> bool {
    top == "/"
        || path
            .strip_prefix(top)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the last part of a rule's path stands for several names.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains('*')
}

/// Whether a rule for `top` says something about `path`. The last part of `top` may have
/// stars, each of which stands for any characters of one name.
pub(crate) fn covers(top: &str, path: &str) -> bool {
    // Most rules are for somewhere else, and most paths have no star.
    if is_at_or_below(path, top) {
        return true;
    }
    if !is_pattern(top) {
        return false;
    }
    let Some((folder, pattern)) = top.rsplit_once('/') else {
        return false;
    };
    let Some(rest) = path
        .strip_prefix(folder)
        .and_then(|rest| rest.strip_prefix('/'))
    else {
        return false;
    };
    let name = rest.split('/').next().unwrap_or_default();
    name_matches(pattern, name)
}

/// Whether a name matches a pattern in which `*` stands for any characters.
fn name_matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut middle: Vec<&str> = rest.split('*').collect();
    let end = middle.pop().unwrap_or_default();
    for part in middle {
        // The first place will do: it leaves the most for what comes after.
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

/// How many parts a path has: the more, the more specific the rule.
fn depth(path: &str) -> usize {
    match path {
        "/" => 0,
        path => path.matches('/').count(),
    }
}

/// What rules say about a path, and the rule that decides: the most specific one, of those
/// the most restrictive, of those the last. `None` where no rule says anything.
///
/// A path with stars and one without are equally specific when they have equally many
/// parts, so that a denial by pattern holds for each name that it matches.
pub(crate) fn decide<'a>(rules: &'a [FileRule], path: &str) -> Option<(FileAccess, &'a FileRule)> {
    let covering: Vec<&FileRule> = rules
        .iter()
        .filter(|rule| covers(&rule.path, path))
        .collect();
    let specific = covering
        .iter()
        .max_by_key(|rule| (depth(&rule.path), rule.access))?;
    // What nothing can lift holds below itself, however specific another rule is.
    let core = covering
        .iter()
        .filter(|rule| rule.source == Source::Core && rule.access > specific.access)
        .max_by_key(|rule| rule.access);
    let rule = *core.unwrap_or(specific);
    Some((rule.access, rule))
}

impl EffectivePolicy {
    /// What may be done at an absolute path, and the rule that decides it.
    ///
    /// The path is compared as text: links must have been followed, and `..` taken away. One
    /// that is relative, leads upwards or is covered by no rule is denied, without a rule.
    pub fn access(&self, path: &str) -> (FileAccess, Option<&FileRule>) {
        normal(path)
            .and_then(|path| decide(&self.files, &path))
            .map_or((FileAccess::Deny, None), |(access, rule)| {
                (access, Some(rule))
            })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rule(access: FileAccess, path: &str, source: Source) -> FileRule {
        FileRule {
            access,
            path: path.to_owned(),
            kind: None,
            source,
            reason: None,
        }
    }

    #[test]
    fn a_path_has_one_spelling() {
        assert_eq!(normal("/a//b/./c/").as_deref(), Some("/a/b/c"));
        assert_eq!(normal("/").as_deref(), Some("/"));
        assert_eq!(normal("/a/...").as_deref(), Some("/a/..."));
        for bad in ["", "a", "./a", "/a/../b", "/..", "~/a", "/a\0b"] {
            assert_eq!(normal(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_compared_by_whole_parts() {
        assert!(covers("/a/b", "/a/b/c"));
        assert!(covers("/", "/a"));
        assert!(!covers("/a/b", "/a/bc"));
        assert!(!covers("/a/b", "/a"));
    }

    #[test]
    fn a_star_stands_for_characters_of_one_name() {
        assert!(covers("/h/.claude.json*", "/h/.claude.json"));
        assert!(covers("/h/.claude.json*", "/h/.claude.json.lock"));
        assert!(covers("/h/.claude.json*", "/h/.claude.json.d/x"));
        assert!(!covers("/h/.claude.json*", "/h/x/.claude.json"));
        assert!(!covers("/h/.claude.json*", "/h/.claude"));
        assert!(!covers("/h/.claude.json*", "/h"));
        assert!(covers("/h/a*b*c", "/h/aXbYbZc"));
        assert!(!covers("/h/a*b*c", "/h/aXbYbZ"));
        assert!(!covers("/h/ab*ba", "/h/aba"));
        assert!(covers("/*", "/x/y"));
    }

    #[test]
    fn the_most_specific_rule_decides_and_of_equals_the_strictest() {
        let rules = [
            rule(FileAccess::Ro, "/", Source::Default),
            rule(FileAccess::Rw, "/p", Source::Default),
            rule(FileAccess::Deny, "/p/secret", Source::Default),
            rule(FileAccess::Ro, "/p/secret/known", Source::Default),
            rule(FileAccess::Rw, "/p/secret", Source::Default),
            rule(FileAccess::Deny, "/p/x*", Source::Default),
            rule(FileAccess::Rw, "/p/xy", Source::Default),
        ];
        let access = |path| decide(&rules, path).unwrap().0;

        assert_eq!(access("/etc"), FileAccess::Ro);
        assert_eq!(access("/p/a/b"), FileAccess::Rw);
        assert_eq!(access("/p/secret/a"), FileAccess::Deny);
        assert_eq!(access("/p/secret/known"), FileAccess::Ro);
        assert_eq!(access("/p/xy"), FileAccess::Deny);
    }

    #[test]
    fn what_nothing_can_lift_holds_below_itself() {
        let of_user = Source::Option {
            name: "--fs".to_owned(),
        };
        let rules = [
            rule(FileAccess::Deny, "/h/.wingthing", Source::Core),
            rule(FileAccess::Rw, "/h/.wingthing/eggs", of_user),
        ];

        assert_eq!(
            decide(&rules[1..], "/h/.wingthing/eggs/1").unwrap().0,
            FileAccess::Rw
        );
        assert_eq!(
            decide(&rules, "/h/.wingthing/eggs/1").unwrap().0,
            FileAccess::Deny
        );
        assert_eq!(decide(&rules, "/etc"), None);
    }
}
