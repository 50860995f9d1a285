//! Which variables a session's program gets.
//!
//! A session outlives the terminal that it was made from, so what only describes that
//! terminal, editor, agent or repository is left behind. Everything here is pure.

/// Variables that describe where the maker of a session sits, and mislead its program.
const LEFT_BEHIND: &[&str] = &[
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "SHLVL",
    "_",
    "STY",
    "WINDOW",
    "WINDOWID",
    "TERMCAP",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "SSH_TTY",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "CLAUDECODE",
    "AI_AGENT",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "INIT_CWD",
    "NO_COLOR",
    "FORCE_COLOR",
    "CI",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MAINPID",
    "WINGTHING_SESSION",
    "WINGTHING_SESSION_NAME",
];

/// Prefixes of such variables.
const LEFT_BEHIND_PREFIXES: &[&str] = &[
    "TMUX",
    "VSCODE_",
    "VTE_",
    "KITTY_",
    "WEZTERM_",
    "ALACRITTY_",
    "GHOSTTY_",
    "ITERM_",
    "KONSOLE_",
    "ZELLIJ",
    "CLAUDE_CODE_",
    "CURSOR_",
    "npm_",
    "GIT_",
    "CARGO_PKG_",
    "CARGO_BIN_",
    "CARGO_MANIFEST_",
];

/// Variables that a session of a daemon takes from the daemon's environment: what a login
/// gives. Everything else that started the daemon stays with it.
const FROM_LOGIN: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "WINGTHING_DIR",
];

/// What the terminal of every session is, whoever made it.
const TERM: (&str, &str) = ("TERM", "xterm-256color");
const COLORTERM: (&str, &str) = ("COLORTERM", "truecolor");

/// The variables for a session made by a command in somebody's terminal.
pub fn from_terminal(caller: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let kept = caller.into_iter().filter(|(key, _)| {
        !LEFT_BEHIND.contains(&key.as_str())
            && !LEFT_BEHIND_PREFIXES.iter().any(|p| key.starts_with(p))
    });
    with_terminal(kept.collect())
}

/// The variables for a session made by a daemon on behalf of somebody elsewhere.
pub fn from_daemon(daemon: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let kept = daemon
        .into_iter()
        .filter(|(key, _)| FROM_LOGIN.contains(&key.as_str()) || key.starts_with("LC_"));
    with_terminal(kept.collect())
}

/// Sets variables on top of others.
pub fn set(env: &mut Vec<(String, String)>, extra: impl IntoIterator<Item = (String, String)>) {
    for (key, value) in extra {
        env.retain(|(k, _)| *k != key);
        env.push((key, value));
    }
}

fn with_terminal(mut env: Vec<(String, String)>) -> Vec<(String, String)> {
    set(
        &mut env,
        [TERM, COLORTERM].map(|(k, v)| (k.to_owned(), v.to_owned())),
    );
    let speaks_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|key| env.iter().find(|(k, v)| k == key && !v.is_empty()))
        .is_some_and(|(_, value)| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        });
    if !speaks_utf8 {
        env.retain(|(k, _)| k != "LC_ALL" && k != "LC_CTYPE");
        set(&mut env, [("LANG".to_owned(), "C.UTF-8".to_owned())]);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn get<'a>(env: &'a [(String, String)], key: &str) -> Option<&'a str> {
        env.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    #[test]
    fn what_describes_the_makers_terminal_is_left_behind() {
        let env = from_terminal(pairs(&[
            ("CLAUDECODE", "1"),
            ("TMUX", "/x"),
            ("TMUX_PANE", "%1"),
            ("VIRTUAL_ENV", "/v"),
            ("SSH_TTY", "/dev/pts/9"),
            ("GIT_DIR", "/g"),
            ("npm_config_user_agent", "npm"),
            ("EDITOR", "vim"),
            ("PATH", "/usr/bin"),
            ("LANG", "de_DE.UTF-8"),
            ("TERM", "dumb"),
        ]));

        assert_eq!(
            env,
            pairs(&[
                ("EDITOR", "vim"),
                ("PATH", "/usr/bin"),
                ("LANG", "de_DE.UTF-8"),
                ("TERM", "xterm-256color"),
                ("COLORTERM", "truecolor"),
            ])
        );
    }

    #[test]
    fn a_daemon_passes_on_only_what_a_login_gives() {
        let env = from_daemon(pairs(&[
            ("HOME", "/h"),
            ("SECRET", "x"),
            ("LC_TIME", "C"),
            ("EDITOR", "vim"),
        ]));

        assert_eq!(get(&env, "HOME"), Some("/h"));
        assert_eq!(get(&env, "LC_TIME"), Some("C"));
        assert_eq!(get(&env, "SECRET"), None);
        assert_eq!(get(&env, "EDITOR"), None);
        assert_eq!(get(&env, "TERM"), Some("xterm-256color"));
        assert_eq!(get(&env, "COLORTERM"), Some("truecolor"));
        assert_eq!(get(&env, "LANG"), Some("C.UTF-8"));
    }

    #[test]
    fn a_session_always_speaks_utf_8() {
        for (given, lang) in [
            (pairs(&[]), "C.UTF-8"),
            (pairs(&[("LANG", "C")]), "C.UTF-8"),
            (
                pairs(&[("LC_ALL", "POSIX"), ("LANG", "en_GB.UTF-8")]),
                "C.UTF-8",
            ),
            (pairs(&[("LANG", "en_GB.utf8")]), "en_GB.utf8"),
        ] {
            let env = from_terminal(given);
            assert_eq!(get(&env, "LANG"), Some(lang));
            assert_eq!(get(&env, "LC_ALL"), None);
        }
    }
}
