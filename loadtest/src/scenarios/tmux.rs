//! `wt` beside other programs that keep terminals: a key and its echo, and a large file shown,
//! each through an attached client on a terminal that this program reads.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::Sizes;
use crate::home::{Home, answer, on_path};
use crate::progress;
use crate::pty::{COLS, ROWS, Terminal};
use crate::report::{Series, percentile};
use crate::roles;

/// What the shell says when it can be typed to.
const READY: &str = "RE-ADY";

/// What it says behind a file; a number follows.
const SHOWN: &str = "SHO-WN";

/// How long a client may take until it shows its session, and a server until it answers.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// How long a file may take: 10 GB at 5 MB/s, and some room.
const CAT_DEADLINE: Duration = Duration::from_secs(2400);

/// How long nothing must come until a client counts as done with painting.
const QUIET: Duration = Duration::from_millis(100);

/// What passes between two keys, so that none waits for what another caused.
const GAP: Duration = Duration::from_millis(2);

/// How often a server that starts is asked again.
const RETRY: Duration = Duration::from_millis(20);

/// A way to a program: its clients, of which each has a session of its own.
struct Way {
    name: &'static str,
    keys: Terminal,
    shell: Terminal,
    /// Ends when it is dropped.
    _server: Option<Child>,
}

/// What is measured besides ours and the bare terminal.
const RIVALS: [&str; 2] = ["tmux", "shpool"];

/// Measures; gives times in microseconds and rates in MB/s.
pub(crate) async fn run(home: &Home, rounds: u32, sizes: &Sizes) -> Result<Series> {
    let mut series = Series::default();
    let file = home.root().join("shown");
    write_text(&file, sizes.cat).context("cannot write the file that is shown")?;
    let programs = Programs::new(home, &file);
    let mut ways = vec![bare(home, &programs)?, ours(home, &programs).await?];
    for name in RIVALS {
        let Some(path) = on_path(name) else {
            series.note(format!("{name} is not on PATH and was not compared"));
            continue;
        };
        progress(&format!("tmux: starting {name}"));
        let path = path.as_os_str();
        ways.push(match name {
            "tmux" => tmux(home, path, &programs).await?,
            _ => shpool(home, path, &programs)?,
        });
        let mut version = home.command(path);
        version.arg(if name == "tmux" { "-V" } else { "version" });
        let version = answer(version, READY_DEADLINE).await?;
        series.note(format!(
            "compared with {}",
            String::from_utf8_lossy(&version).trim()
        ));
    }
    for way in &mut ways {
        way.shell
            .until(READY.as_bytes(), READY_DEADLINE)
            .await
            .with_context(|| format!("{}: the shell", way.name))?;
        way.until_it_echoes().await?;
        way.shell.quiet(QUIET).await?;
    }
    for round in 0..rounds {
        progress(&format!("tmux {}/{rounds}: keys", round + 1));
        press(&mut ways, sizes.keys, &mut series).await?;
        for way in &mut ways {
            progress(&format!("tmux {}/{rounds}: cat, {}", round + 1, way.name));
            let name = way.name;
            way.cat(round, sizes.cat, &mut series)
                .await
                .with_context(|| name.to_owned())?;
        }
    }
    for rival in ["tmux", "shpool", "bare"] {
        for which in ["p50", "p99"] {
            series.ratio(
                &format!("echo {which}: wt / {rival}"),
                &format!("wt.echo.{which}"),
                &format!("{rival}.echo.{which}"),
            );
        }
        series.ratio(
            &format!("cat, MB/s: wt / {rival}"),
            "wt.cat.rate",
            &format!("{rival}.cat.rate"),
        );
    }
    series.note(format!(
        "{} keys each way in a round, one after the other in turn; a file of {} MB; {COLS} x {ROWS}",
        sizes.keys,
        sizes.cat / 1_000_000,
    ));
    Ok(series)
}

impl Way {
    fn new(name: &'static str, keys: Terminal, shell: Terminal, server: Option<Child>) -> Self {
        Self {
            name,
            keys,
            shell,
            _server: server,
        }
    }

    /// Presses a key until it comes back, because a client may drop what is typed while it
    /// starts; then waits until nothing is painted any more.
    async fn until_it_echoes(&mut self) -> Result<()> {
        let started = Instant::now();
        while self.keys.press().is_err() && started.elapsed() < READY_DEADLINE {
            sleep(RETRY).await;
        }
        self.keys.quiet(QUIET).await?;
        self.keys
            .press()
            .map(drop)
            .with_context(|| self.name.to_owned())
    }

    /// Shows the file, from the key that starts it to its end on the client's terminal.
    async fn cat(&mut self, round: u32, bytes: u64, series: &mut Series) -> Result<()> {
        let started = Instant::now();
        self.shell.send(format!("{round}\r").as_bytes())?;
        let mark = format!("{SHOWN}{round}");
        let came = self.shell.until(mark.as_bytes(), CAT_DEADLINE).await?;
        let seconds = started.elapsed().as_secs_f64();
        let id = format!("{}.cat", self.name);
        series.enter(format!("{id}.seconds"), "s", seconds);
        series.enter(format!("{id}.rate"), "MB/s", bytes as f64 / 1e6 / seconds);
        series.enter(format!("{id}.came"), "MB", came as f64 / 1e6);
        self.shell.quiet(QUIET).await
    }
}

/// Presses keys, each way in turn, and enters the echoes' times.
async fn press(ways: &mut [Way], keys: usize, series: &mut Series) -> Result<()> {
    let mut times = vec![Vec::with_capacity(keys); ways.len()];
    for _ in 0..keys {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            // Also where an interrupt is heard.
            sleep(GAP).await;
            times.push(way.keys.press().with_context(|| way.name.to_owned())?);
        }
    }
    for (way, times) in ways.iter().zip(&mut times) {
        for (which, share) in [("p50", 0.5), ("p99", 0.99)] {
            let time = percentile(times, share).context("no key was pressed")?;
            let id = format!("{}.echo.{which}", way.name);
            series.enter(id, "us", time.as_secs_f64() * 1e6);
        }
    }
    Ok(())
}

/// What runs in the sessions.
struct Programs {
    echo: [OsString; 2],
    shell: [OsString; 3],
}

impl Programs {
    fn new(home: &Home, file: &Path) -> Self {
        // The marks are cut in two, so that no echo of the command itself holds them.
        let (ready, number) = (halves(READY), halves(SHOWN));
        let script = format!(
            "stty -echo; printf '%s%s' {ready}; while read -r n; do cat '{}'; \
             printf '%s%s%s\\n' {number} \"$n\"; done",
            file.display()
        );
        Self {
            echo: [home.exe().to_owned(), roles::ECHO.into()],
            shell: ["sh".into(), "-c".into(), script.into()],
        }
    }

    fn echo(&self) -> Vec<&OsStr> {
        self.echo.iter().map(OsString::as_os_str).collect()
    }

    fn shell(&self) -> Vec<&OsStr> {
        self.shell.iter().map(OsString::as_os_str).collect()
    }
}

fn halves(mark: &str) -> String {
    let (first, second) = mark.split_at(mark.len() / 2);
    format!("{first} {second}")
}

/// The programs without anything between them and the terminal.
fn bare(home: &Home, programs: &Programs) -> Result<Way> {
    let keys = Terminal::start(home, &programs.echo())?;
    let shell = Terminal::start(home, &programs.shell())?;
    Ok(Way::new("bare", keys, shell, None))
}

async fn ours(home: &Home, programs: &Programs) -> Result<Way> {
    for (name, command) in [("keys", programs.echo()), ("shell", programs.shell())] {
        home.start_session(name, &command)?.await??;
    }
    let attach = |name| Terminal::start(home, &[home.wt(), "attach".as_ref(), OsStr::new(name)]);
    Ok(Way::new("wt", attach("keys")?, attach("shell")?, None))
}

/// tmux without a configuration and without its status line, so that its sessions have as
/// many rows as the others.
async fn tmux(home: &Home, path: &OsStr, programs: &Programs) -> Result<Way> {
    let socket = home.root().join("tmux.sock");
    let base = [
        path,
        "-S".as_ref(),
        socket.as_os_str(),
        "-f".as_ref(),
        "/dev/null".as_ref(),
    ];
    let command = |flag: &str, arguments: &[&OsStr]| {
        let mut command = home.command(path);
        command.args(&base[1..]).arg(flag).args(arguments);
        command
    };
    // In the foreground, as our own child; and the others start none by themselves, which
    // would be nobody's when this one was not there yet.
    let server = home.start_server(command("-D", &[]))?;
    let (cols, rows) = (COLS.to_string(), ROWS.to_string());
    for (name, program) in [("keys", programs.echo()), ("shell", programs.shell())] {
        let start = ["new-session", "-d", "-s", name, "-x", &cols, "-y", &rows];
        let start: Vec<&OsStr> = start.map(OsStr::new).into_iter().chain(program).collect();
        until_answered(|| command("-N", &start)).await?;
    }
    let status: [&OsStr; 4] = ["set", "-g", "status", "off"].map(OsStr::new);
    until_answered(|| command("-N", &status)).await?;
    let attach = |name| {
        let argv = [&base[..], &["-N", "attach", "-t", name].map(OsStr::new)].concat();
        Terminal::start(home, &argv)
    };
    let (keys, shell) = (attach("keys")?, attach("shell")?);
    Ok(Way::new("tmux", keys, shell, Some(server)))
}

/// shpool, whose clients start what they attach to.
fn shpool(home: &Home, path: &OsStr, programs: &Programs) -> Result<Way> {
    let socket = home.root().join("shpool.sock");
    let config = home.root().join("shpool.toml");
    // Without a prompt of its own, and without asking for a login shell's variables.
    std::fs::write(&config, "prompt_prefix = \"\"\n")?;
    let base: [&OsStr; 5] = [
        path,
        "--socket".as_ref(),
        socket.as_os_str(),
        "--config-file".as_ref(),
        config.as_os_str(),
    ];
    let mut command = home.command(path);
    command.args(&base[1..]).arg("daemon");
    let server = home.start_server(command)?;
    let started = Instant::now();
    while !socket.exists() && started.elapsed() < READY_DEADLINE {
        std::thread::sleep(RETRY);
    }
    let attach = |name: &str, program: Vec<&OsStr>| {
        let line = as_line(&program)?;
        let argv = ["attach", "--cmd", &line, name].map(OsStr::new);
        Terminal::start(home, &[&base[..], &argv[..]].concat())
    };
    let keys = attach("keys", programs.echo())?;
    let shell = attach("shell", programs.shell())?;
    Ok(Way::new("shpool", keys, shell, Some(server)))
}

/// A command as one line for a program that splits it as a shell does.
fn as_line(command: &[&OsStr]) -> Result<String> {
    let words = command.iter().map(|word| {
        let word = word.to_str().context("a path is not UTF-8")?;
        Ok(format!("'{}'", word.replace('\'', r"'\''")))
    });
    Ok(words.collect::<Result<Vec<_>>>()?.join(" "))
}

/// Runs a command until its server answers.
async fn until_answered(command: impl Fn() -> Command) -> Result<()> {
    let answered = async {
        loop {
            match answer(command(), READY_DEADLINE).await {
                Ok(_) => return,
                Err(_) => sleep(RETRY).await,
            }
        }
    };
    timeout(READY_DEADLINE, answered)
        .await
        .with_context(|| format!("no answer to {:?}", command().as_std()))
}

/// Lines of text, numbered, as a large file holds them.
fn write_text(path: &Path, bytes: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut left = bytes;
    let mut number = 0u64;
    while left > 0 {
        let line = format!("{number:08} the quick brown fox jumps over the lazy dog and back\n");
        let n = left.min(line.len() as u64) as usize;
        file.write_all(&line.as_bytes()[..n])?;
        left -= n as u64;
        number += 1;
    }
    Ok(file.flush()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_size_and_no_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");

        write_text(&path, 10_007).unwrap();

        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), 10_007);
        assert!(!text.contains(SHOWN) && !text.contains(READY));
    }

    #[test]
    fn a_command_is_one_line_of_quoted_words() {
        let command = ["sh", "-c", "printf '%s' a"].map(OsStr::new);

        assert_eq!(
            as_line(&command).unwrap(),
            r"'sh' '-c' 'printf '\''%s'\'' a'"
        );
    }
}
