//! The variables of a session: none but those that are listed here, asked for by name, or
//! passed on as a whole.

use crate::effective::{Addition, EffectivePolicy, FileAccess, Source};
use crate::paths;
use crate::resolve::addition;

/// Variables that every session gets when its maker has them.
const ALWAYS: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "PWD",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "NO_COLOR",
    "CLICOLOR",
    "FORCE_COLOR",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMINFO",
    "TERMINFO_DIRS",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    // Where tools are.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOMODCACHE",
    "GOCACHE",
    "GOFLAGS",
    "NVM_DIR",
    "JAVA_HOME",
    "GRADLE_USER_HOME",
    "MAVEN_HOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "SDKMAN_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VOLTA_HOME",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "LOCALE_ARCHIVE",
    "CCACHE_DIR",
    "SCCACHE_DIR",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "npm_config_cache",
    "NPM_CONFIG_CACHE",
];

/// Variables that `*` does not pass on, though their names give no hint.
const HELD_BACK: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "ZDOTDIR",
    "IFS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "GCONV_PATH",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "RES_OPTIONS",
    "MALLOC_TRACE",
    "NLSPATH",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "XAUTHORITY",
    "PULSE_SERVER",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "KUBECONFIG",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "STY",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TEMPDIR",
    "WINGTHING_DIR",
    "DATABASE_URL",
    "REDIS_URL",
    "MONGODB_URI",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "OLDPWD",
];

/// How the names start of what `*` does not pass on: what steers programs, and accounts.
const HELD_BACK_STARTS: &[&str] = &[
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCP_",
    "GCLOUD_",
    "CLOUDSDK_",
    "GH_",
    "GITHUB_",
    "GITLAB_",
    "CI_JOB_",
    "VSCODE_",
    "SUDO_",
    "VAULT_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "TF_VAR_",
    "ARM_",
    "DIGITALOCEAN_",
    "HEROKU_",
    "CLOUDFLARE_",
    "STRIPE_",
    "TWILIO_",
    "SLACK_",
    "OP_",
    "BW_",
    "KDE_",
    "GNOME_KEYRING_",
    "SYSTEMD_",
    "SSH_",
    "GPG_",
];

/// Words in names of secrets, between underscores.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "KEY",
    "APIKEY",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "COOKIE",
    "SESSION",
    "PRIVATE",
    "DSN",
    "PAT",
];

/// Variables that no session gets: what would make an agent think that another started it.
const NEVER: &[&str] = &["CLAUDECODE"];

/// How the names start of what no session gets: wingthing's own, and marks of other agents.
const NEVER_STARTS: &[&str] = &["WT_", "CLAUDE_CODE_"];

/// The longest variable that is passed on, name and value: the kernel's limit for one
/// (`MAX_ARG_STRLEN`) with room to spare.
const MAX_VARIABLE: usize = 128 * 1024 - 4096;

/// How many variables are passed on: far above any in use.
const MAX_VARIABLES: usize = 4096;

/// Whether `*` does not pass a variable on: it must be asked for by name.
pub fn is_held_back(name: &str) -> bool {
    if ALWAYS.contains(&name) {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    let is_secret = upper.split('_').any(|word| SECRET_WORDS.contains(&word));
    HELD_BACK.contains(&name)
        || HELD_BACK_STARTS
            .iter()
            .any(|start| upper.starts_with(start))
        || is_secret
        || ["TOKEN", "SECRET", "PASSWORD", "APIKEY"]
            .iter()
            .any(|end| upper.ends_with(end))
}

fn is_never(name: &str) -> bool {
    NEVER.contains(&name) || NEVER_STARTS.iter().any(|start| name.starts_with(start))
}

/// The variables of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnv {
    /// Names and values, by name. What the sandbox itself sets (for proxies, and folders for
    /// temporary files) is not among them.
    pub vars: Vec<(String, String)>,
    /// What was changed or left out, with the reason. Values are not told, but for paths.
    pub notes: Vec<Addition>,
}

/// Makes the variables of a session from those of its maker.
///
/// Of a name that the maker has twice the first counts. Parts of `PATH` that are denied are
/// dropped, and those that the session can write go to the end, so that it cannot put a
/// program of its own in front of another. A value that is the path of something denied is
/// dropped with its variable.
pub fn session_env(policy: &EffectivePolicy, maker: &[(String, String)]) -> SessionEnv {
    let mut env = SessionEnv::default();
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for (name, value) in maker {
        let is_sound = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        if is_sound
            && taken.len() < MAX_VARIABLES
            && is_wanted(policy, name)
            && !taken.iter().any(|(known, _)| known == name)
        {
            taken.push((name, value));
        }
    }
    for (name, value) in taken {
        let by = source_of(policy, name);
        if name.len() + value.len() > MAX_VARIABLE {
            env.notes.push(addition(
                "env",
                name,
                &by,
                "its value is too long for a program",
            ));
        } else if name == "PATH" {
            let path = search_path(policy, value, &by, &mut env.notes);
            env.vars.push((name.to_owned(), path));
        } else if let Some(denied) = denied_path(policy, value) {
            let reason = format!("it is not passed on: {denied} is denied");
            env.notes.push(addition("env", name, &by, reason));
        } else {
            env.vars.push((name.to_owned(), value.to_owned()));
        }
    }
    for (name, value) in &policy.env.set {
        if !env.vars.iter().any(|(known, _)| known == name) {
            env.vars.push((name.clone(), value.clone()));
        }
    }
    env.vars.sort();
    env
}

fn is_wanted(policy: &EffectivePolicy, name: &str) -> bool {
    if is_never(name) {
        return false;
    }
    let is_named = policy.env.pass.iter().any(|granted| granted.value == name);
    ALWAYS.contains(&name)
        || name.starts_with("LC_")
        || is_named
        || policy.env.set.contains_key(name)
        // The rule for the socket says whether the keys behind it are open; where it denies
        // it, the variable falls out with its value.
        || policy.env.all && (!is_held_back(name) || name == "SSH_AUTH_SOCK")
}

fn source_of(policy: &EffectivePolicy, name: &str) -> Source {
    let named = policy.env.pass.iter().find(|granted| granted.value == name);
    named.map_or(Source::Default, |granted| granted.source.clone())
}

/// The first path in a value, or in a list of paths, that the session cannot read.
fn denied_path<'a>(policy: &EffectivePolicy, value: &'a str) -> Option<&'a str> {
    value.split(':').find(|part| {
        let path = part.strip_prefix("unix").unwrap_or(part);
        path.starts_with('/')
            && paths::normal(path).is_some_and(|path| policy.access(&path).0 == FileAccess::Deny)
    })
}

fn search_path(
    policy: &EffectivePolicy,
    value: &str,
    by: &Source,
    notes: &mut Vec<Addition>,
) -> String {
    let mut first: Vec<String> = Vec::new();
    let mut last: Vec<String> = Vec::new();
    for part in value.split(':') {
        let Some(path) = paths::normal(part) else {
            let reason = "it is dropped from PATH: it is not an absolute path";
            notes.push(addition("env", format!("PATH {part:?}"), by, reason));
            continue;
        };
        if first.contains(&path) || last.contains(&path) {
            continue;
        }
        match policy.access(&path).0 {
            FileAccess::Ro | FileAccess::DenyWrite => first.push(path),
            FileAccess::Rw => {
                let reason = "it goes to the end of PATH: the session can write there";
                notes.push(addition("env", format!("PATH {path}"), by, reason));
                last.push(path);
            }
            FileAccess::Deny => {
                let reason = "it is dropped from PATH: it is denied";
                notes.push(addition("env", format!("PATH {path}"), by, reason));
            }
        }
    }
    first.extend(last);
    first.join(":")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_programs_and_what_opens_accounts_is_held_back() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "NODE_OPTIONS",
            "GITHUB_TOKEN",
            "MY_API_KEY",
            "AWS_PROFILE",
            "SSH_AUTH_SOCK",
            "GIT_SSH_COMMAND",
            "npm_token",
            "DB_PASSWORD",
            "BASH_FUNC_ls%%",
            "FOO_SECRET_1",
            "WAYLAND_DISPLAY",
            "MYTOKEN",
        ] {
            assert!(is_held_back(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "MY_SETTING",
            "KEYBOARD",
            "GIT_AUTHOR_NAME",
            "MONKEY",
        ] {
            assert!(!is_held_back(name), "{name}");
        }
    }
}
