//! Acts that need no raw system call.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::Outcome;

/// Becomes another program. Gives why that failed.
pub(crate) fn become_program(program: &str, arguments: &[&str]) -> String {
    Command::new(program).args(arguments).exec().to_string()
}

/// Opens a file again and again, and keeps all of it.
pub(crate) fn open_many(count: usize) -> Outcome {
    let mut kept = Vec::new();
    for _ in 0..count {
        kept.push(fs::File::open("/dev/null").map_err(|e| named(&e))?);
    }
    Ok(format!("{} open", kept.len()))
}

/// Looks for descriptors beyond the standard ones that somebody left open.
pub(crate) fn descriptors() -> Outcome {
    let mut found = Vec::new();
    // The one that the listing itself uses is closed when its target is asked for.
    let names: Vec<_> = fs::read_dir("/proc/self/fd")
        .map_err(|e| named(&e))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for path in names {
        let is_standard = ["0", "1", "2"].iter().any(|n| path.ends_with(n));
        if !is_standard && let Ok(target) = fs::read_link(&path) {
            found.push(format!("{} -> {}", path.display(), target.display()));
        }
    }
    if found.is_empty() {
        return Err("none but the standard ones".into());
    }
    Ok(found.join(", "))
}

/// Whether this runs as the superuser of the machine.
pub(crate) fn effective_user() -> Outcome {
    let status = fs::read_to_string("/proc/self/status").map_err(|e| named(&e))?;
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1))
        .unwrap_or("?");
    if uid == "0" {
        Ok("superuser".into())
    } else {
        Err(format!("user {uid}"))
    }
}

/// The name of an error of the system.
pub(crate) fn named(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), crate::raw::name_of)
}
