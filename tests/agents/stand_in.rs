//! A stand-in for the agents: it takes the keyboard as they do, and does nothing else.
//!
//! Which agent it stands in for is the name that it was started by. What matters to a
//! terminal is alike in all of them: raw mode, bracketed paste, queries at the start, Enter
//! that breaks the line when it comes too soon after text, and settings that are saved by
//! a lock, a temporary file and a rename: in the agent's own folder, but for Claude Code, which
//! saves them in the home folder unless its variable names another. It leaves its arguments and
//! variables in `launched` in its folder, for the test.
#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// How an agent behaves at its terminal.
struct Habits {
    program: &'static str,
    /// Its own, below the home folder.
    folder: &'static str,
    version: &'static str,
    /// Written at the start, beside bracketed paste.
    opening: &'static str,
    closing: &'static str,
    /// Enter within this time after text breaks the line, as does Enter in one read with it.
    burst: Duration,
}

const AGENTS: [Habits; 6] = [
    Habits {
        program: "claude",
        folder: ".claude",
        version: "2.1.5 (Claude Code)",
        opening: "\x1b[>1u\x1b[?1004h",
        closing: "\x1b[<u\x1b[?1004l",
        burst: Duration::from_millis(50),
    },
    Habits {
        program: "codex",
        folder: ".codex",
        version: "codex-cli 0.46.0",
        opening: "\x1b[>7u\x1b[?u\x1b]10;?\x1b\\",
        closing: "\x1b[<u",
        burst: Duration::from_millis(120),
    },
    Habits {
        program: "cursor-agent",
        folder: ".cursor",
        version: "2025.09.18-7ae6800",
        opening: "\x1b[?1004h",
        closing: "\x1b[?1004l",
        burst: Duration::from_millis(50),
    },
    Habits {
        program: "gemini",
        folder: ".gemini",
        version: "0.9.0",
        opening: "\x1b]2;Gemini\x07",
        closing: "",
        burst: Duration::from_millis(30),
    },
    Habits {
        program: "ollama",
        folder: ".ollama",
        version: "ollama version is 0.5.7",
        opening: "",
        closing: "",
        burst: Duration::ZERO,
    },
    Habits {
        program: "opencode",
        folder: ".local/share/opencode",
        version: "1.0.15",
        opening: "\x1b[?1049h\x1b[?1002h\x1b[?1006h",
        closing: "\x1b[?1006l\x1b[?1002l\x1b[?1049l",
        burst: Duration::from_millis(30),
    },
];

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// What a piece of input means to the agent.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Text(char),
    LineBreak,
    Submit,
    Leave,
}

/// Reads a keyboard as agents do. Pure.
struct Keyboard {
    burst: Duration,
    pending: Vec<u8>,
    pasting: bool,
    text_at: Option<Instant>,
}

fn main() -> ExitCode {
    let mut arguments = env::args();
    let own_name = arguments.next().unwrap_or_default();
    let own_name = Path::new(&own_name).file_name().unwrap_or_default();
    let Some(agent) = AGENTS.iter().find(|agent| own_name == agent.program) else {
        eprintln!("start it by the name of an agent");
        return ExitCode::from(2);
    };
    let arguments: Vec<String> = arguments.collect();
    if arguments == ["--version"] {
        println!("{}", agent.version);
        return ExitCode::SUCCESS;
    }
    match run(agent, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", agent.program);
            ExitCode::FAILURE
        }
    }
}

fn run(agent: &Habits, arguments: &[String]) -> io::Result<()> {
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
    let mut launched = arguments.join(" ");
    for (key, value) in env::vars() {
        launched.push_str(&format!("\n{key}={value}"));
    }
    let folder = home.join(agent.folder);
    fs::create_dir_all(&folder)?;
    let settings = match (agent.program, env::var_os("CLAUDE_CONFIG_DIR")) {
        ("claude", None) => home.join(".claude.json"),
        ("claude", Some(elsewhere)) => PathBuf::from(elsewhere).join(".claude.json"),
        _ => folder.join("state.json"),
    };
    save(&folder.join("launched"), &launched)?;

    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&stdin, SetArg::TCSANOW, &raw)?;
    let mut out = io::stdout();
    // The question at the end is answered by the terminal, and must not end up in a text.
    write!(
        out,
        "\x1b[?2004h{}\x1b[c{} ready\r\n> ",
        agent.opening, agent.program
    )?;
    out.flush()?;

    let mut keyboard = Keyboard::new(agent.burst);
    let mut text = String::new();
    let mut submitted = 0;
    let mut chunk = [0; 4096];
    'session: loop {
        let count = stdin.lock().read(&mut chunk)?;
        if count == 0 {
            break;
        }
        for heard in keyboard.hear(&chunk[..count], Instant::now()) {
            match heard {
                Heard::Text(c) => {
                    text.push(c);
                    write!(out, "{c}")?;
                }
                Heard::LineBreak => {
                    text.push('|');
                    write!(out, "\r\n  ")?;
                }
                Heard::Submit => {
                    submitted += 1;
                    save(&settings, &format!("{{\"submitted\":{submitted}}}"))?;
                    write!(out, "\r\nsubmitted {submitted}: {text}.\r\n> ")?;
                    text.clear();
                }
                Heard::Leave => break 'session,
            }
        }
        out.flush()?;
    }
    write!(out, "{}\x1b[?2004l\r\nbye\r\n", agent.closing)?;
    out.flush()?;
    tcsetattr(&stdin, SetArg::TCSANOW, &before)?;
    Ok(())
}

/// Saves a file as agents do: a lock beside it, a temporary file, a rename.
fn save(file: &Path, text: &str) -> io::Result<()> {
    let beside = |end: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let lock = beside(".lock");
    fs::create_dir(&lock)?;
    let draft = beside(&format!(".tmp.{}", std::process::id()));
    fs::write(&draft, text)?;
    fs::rename(&draft, file)?;
    fs::remove_dir(&lock)
}

impl Keyboard {
    fn new(burst: Duration) -> Self {
        Self {
            burst,
            pending: Vec::new(),
            pasting: false,
            text_at: None,
        }
    }

    /// Takes what one read gave.
    fn hear(&mut self, bytes: &[u8], now: Instant) -> Vec<Heard> {
        let is_soon = self
            .text_at
            .is_some_and(|at| now.duration_since(at) < self.burst);
        let mut bursts = is_soon;
        self.pending.extend_from_slice(bytes);
        let mut heard = Vec::new();
        while let Some((length, meaning)) = self.next(bursts) {
            self.pending.drain(..length);
            if matches!(meaning, Some(Heard::Text(_))) {
                self.text_at = Some(now);
                bursts |= !self.burst.is_zero();
            }
            heard.extend(meaning);
        }
        heard
    }

    /// The next thing that is whole, and how many bytes it has.
    fn next(&mut self, bursts: bool) -> Option<(usize, Option<Heard>)> {
        let bytes = self.pending.as_slice();
        for (mark, pasting) in [(PASTE_START, true), (PASTE_END, false)] {
            if bytes.starts_with(mark) {
                self.pasting = pasting;
                return Some((mark.len(), None));
            }
        }
        match *bytes.first()? {
            0x1b => sequence_length(bytes).map(|length| (length, None)),
            b'\r' if self.pasting || bursts => Some((1, Some(Heard::LineBreak))),
            b'\r' => Some((1, Some(Heard::Submit))),
            b'\n' => Some((1, Some(Heard::LineBreak))),
            3 | 4 => Some((1, Some(Heard::Leave))),
            byte if byte < b' ' => Some((1, None)),
            _ => {
                let valid = match std::str::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(e) => std::str::from_utf8(&bytes[..e.valid_up_to()]).ok()?,
                };
                let c = valid.chars().next()?;
                Some((c.len_utf8(), Some(Heard::Text(c))))
            }
        }
    }
}

/// The length of an escape sequence, once it is whole.
fn sequence_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|b| (0x40..=0x7e).contains(b))?;
            Some(end + 3)
        }
        b']' | b'P' => {
            let end = bytes.iter().skip(2).position(|b| matches!(b, 7 | b'\\'))?;
            Some(end + 3)
        }
        _ => Some(2),
    }
}
