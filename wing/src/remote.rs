//! Another machine's sessions over the system's own ssh.
//!
//! `ssh HOST` starts this program there (see [`crate::stdio`]), and the session messages
//! go through its pipes. Who the host is, how it is reached and who may enter is all
//! ssh's: its configuration, its keys, its questions on the user's terminal.
//!
//! Every ssh process has a task that waits for it and ends it; [`RemoteHost::close`]
//! returns when all are gone, also one that is stopped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wt_crypto::random;
use wt_egg::wire::{MessageReader, MessageWriter};
use wt_protocol::RequestId;
use wt_protocol::remote::{SERVE_VERSION, SYNC_MARK, ServeHello};
use wt_protocol::rpc::{Request, Response, SessionEvent};
use wt_protocol::session::{Call, ClientMessage, WingMessage};

use crate::error::{Error, ErrorCode};
use crate::stdio::SERVE_COMMAND;

/// How long the other end may take over a request: a start or a kill waits for processes.
const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How long ssh may take to end by itself once nothing is left to say.
const END_GRACE: Duration = Duration::from_millis(300);

/// How long the last words of an ssh that ended are waited for. A connection that it keeps
/// for others may hold its stderr open.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How long an ssh that closed its output may take to end.
const EXIT_DEADLINE: Duration = Duration::from_secs(2);

/// What login scripts print is passed on up to here, in bytes: a banner and a few warnings.
const MAX_PASSED_ON: usize = 64 * 1024;

/// What may come before the mark at all, in bytes. A script that prints more is a loop.
const MAX_SKIPPED: usize = 16 << 20;

/// How much of what ssh says is kept for an error message, in bytes.
const KEPT_WORDS: usize = 4 * 1024;

/// ssh's own status when it, and not the remote command, failed.
const SSH_FAILED: i32 = 255;

/// What every ssh is told: a command without a terminal, and none of the extras that a
/// user's configuration has for logging in.
const SSH_OPTIONS: &[&str] = &[
    "-T",
    "-oRemoteCommand=none",
    "-oPermitLocalCommand=no",
    "-oClearAllForwardings=yes",
];

/// What a login shell is given to run. It stands between single quotes, in which no shell
/// in use changes any of its characters: it has no quote, backslash, line end or
/// exclamation mark.
const SCRIPT: &str = r#"b=$(printf %b "$0"); d=$(printf %b "$1"); case $b in "~/"*) b=$HOME/${b#??};; esac; case $d in "~/"*) d=$HOME/${d#??};; esac; if [ -n "$d" ]; then WINGTHING_DIR=$d; export WINGTHING_DIR; fi; exec "$b" "$2""#;

/// How another machine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// What ssh calls it: a name, an address, or an alias of its configuration.
    pub host: String,
    /// The program there: a name, or a path.
    pub binary: String,
    /// The profile's folder there, if it is not the usual one.
    pub dir: Option<String>,
    /// The ssh program and options of its own; `ssh` when there are none.
    pub ssh: Option<String>,
}

/// Another machine's sessions. Clones share one connection.
#[derive(Clone)]
pub struct RemoteHost(Arc<Shared>);

struct Shared {
    reach: Reach,
    ssh: Vec<String>,
    state: Mutex<State>,
    closing: CancellationToken,
}

#[derive(Default)]
struct State {
    /// A connection that answered and waits for the next request.
    idle: Option<SshStream>,
    /// Whether there was a connection. Another one must not ask the user anything: the
    /// terminal may belong to a session by then.
    has_connected: bool,
    processes: JoinSet<()>,
}

/// One connection, past the hello.
pub(crate) struct SshStream {
    pub(crate) reader: MessageReader<ChildStdout>,
    pub(crate) writer: MessageWriter<ChildStdin>,
    pub(crate) ssh: Ssh,
}

/// One ssh process. Dropped, it gets [`END_GRACE`] to end.
pub(crate) struct Ssh {
    status: watch::Receiver<Option<ExitStatus>>,
    aside: Arc<Aside>,
    kill: Option<oneshot::Sender<()>>,
}

impl RemoteHost {
    /// Prepares to reach a machine. Nothing is started yet.
    ///
    /// # Errors
    /// A name that ssh would take for an option, or an ssh command that cannot be read.
    pub fn new(reach: Reach) -> Result<Self, Error> {
        let usage = |message: String| Err(Error::new(ErrorCode::Usage, message));
        if reach.host.is_empty() || reach.host.starts_with('-') {
            return usage(format!("{:?} is no name of a host", reach.host));
        }
        if reach.binary.is_empty() {
            return usage("the name of the remote program is empty".to_owned());
        }
        let given = [Some(&reach.host), Some(&reach.binary), reach.dir.as_ref()];
        if given.into_iter().flatten().any(|text| text.contains('\0')) {
            return usage("a name has a NUL byte in it".to_owned());
        }
        let ssh = match &reach.ssh {
            None => vec!["ssh".to_owned()],
            Some(text) => words(text)
                .filter(|words| !words.is_empty())
                .ok_or_else(|| {
                    let message = format!("the ssh command {text:?} has a quote without its end");
                    Error::new(ErrorCode::Usage, message)
                        .hint("for instance WT_SSH='ssh -F /path/to/config'")
                })?,
        };
        Ok(Self(Arc::new(Shared {
            reach,
            ssh,
            state: Mutex::default(),
            closing: CancellationToken::new(),
        })))
    }

    /// What the user calls the machine.
    pub fn name(&self) -> &str {
        &self.0.reach.host
    }

    /// Asks something of the sessions there. A question is asked again when the connection
    /// of an earlier one turns out to be dead; an act is not.
    ///
    /// # Errors
    /// What the other end says, or that it cannot be reached.
    pub async fn call(&self, request: Request) -> Result<Response, Error> {
        let (stream, is_kept) = self.stream().await?;
        match self.ask(stream, request.clone()).await {
            Err(error)
                if is_kept && error.code == ErrorCode::Unreachable && !request.is_acting() =>
            {
                let (stream, _) = self.stream().await?;
                self.ask(stream, request).await
            }
            answer => answer,
        }
    }

    async fn ask(&self, mut stream: SshStream, request: Request) -> Result<Response, Error> {
        let id = RequestId::from_bytes(random());
        let call = ClientMessage::Call(Call { id, request });
        let asking = async {
            stream.writer.send(&call).await?;
            stream.reader.next::<WingMessage>().await
        };
        match timeout(CALL_DEADLINE, asking).await {
            Err(_) => Err(Error::new(
                ErrorCode::TimedOut,
                format!("{} did not answer in time", self.name()),
            )),
            Ok(Ok(Some(WingMessage::Reply(reply)))) if reply.id == id => {
                self.state().idle = Some(stream);
                Ok(reply.result?)
            }
            Ok(Ok(Some(WingMessage::Refused(failure)))) => Err(failure.into()),
            Ok(Ok(Some(_))) => Err(self.misfit()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => Err(self.misfit()),
            Ok(Ok(None) | Err(_)) => Err(self.lost(stream.ssh).await),
        }
    }

    /// Tells what happens to one session there, or to all. Returns when the one session
    /// ended, or nobody listens any more.
    ///
    /// # Errors
    /// What the other end says, or that it cannot be reached, or not any more: what happens
    /// after that would be missing.
    pub async fn watch(
        &self,
        session: Option<String>,
        events: mpsc::Sender<SessionEvent>,
    ) -> Result<(), Error> {
        let (mut stream, _) = self.stream().await?;
        let watch = ClientMessage::Watch { session };
        if stream.writer.send(&watch).await.is_err() {
            return Err(self.lost(stream.ssh).await);
        }
        loop {
            let message = tokio::select! {
                message = stream.reader.next::<WingMessage>() => message,
                () = events.closed() => return Ok(()),
            };
            match message {
                Ok(Some(WingMessage::Event(event))) => {
                    // Nobody listens shows at the next turn.
                    let _ = events.send(event).await;
                }
                Ok(Some(WingMessage::Refused(failure))) => return Err(failure.into()),
                Ok(Some(_)) => return Err(self.misfit()),
                // The other end is done when its program ended well.
                Ok(None) => match stream.ssh.ended().await {
                    Some(status) if status.success() => return Ok(()),
                    _ => return Err(self.lost(stream.ssh).await),
                },
                Err(_) => return Err(self.lost(stream.ssh).await),
            }
        }
    }

    /// Ends every ssh; returns when they are gone.
    pub async fn close(&self) {
        let mut processes = {
            let mut state = self.state();
            state.idle = None;
            std::mem::take(&mut state.processes)
        };
        self.0.closing.cancel();
        while processes.join_next().await.is_some() {}
    }

    /// A connection for a conversation of its own.
    pub(crate) async fn open(&self) -> Result<SshStream, Error> {
        Ok(self.stream().await?.0)
    }

    /// The connection that waits, or another one; and which of them it is.
    async fn stream(&self) -> Result<(SshStream, bool), Error> {
        let kept = self.state().idle.take();
        if let Some(stream) = kept
            && stream.ssh.status.borrow().is_none()
        {
            return Ok((stream, true));
        }
        let stream = self.connect().await?;
        self.state().has_connected = true;
        Ok((stream, false))
    }

    async fn connect(&self) -> Result<SshStream, Error> {
        let again = self.state().has_connected;
        let mut child = self.command(again).spawn().map_err(|e| {
            let message = format!("{} cannot be started: {e}", self.0.ssh[0]);
            Error::failed(message).hint("install OpenSSH's client, or name another in WT_SSH")
        })?;
        let piped = "all three are piped";
        let stdin = child.stdin.take().expect(piped);
        let mut stdout = child.stdout.take().expect(piped);
        let aside = Aside::start(child.stderr.take().expect(piped), !again);
        let ssh = self.own(child, Arc::clone(&aside));

        let mut skipping = Skipping::default();
        let mut buffer = vec![0; 8 * 1024];
        let rest = loop {
            // An error is an end here: the status says more.
            let count = stdout.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                return Err(self.unanswered(ssh, again).await);
            }
            let rest = skipping.feed(&buffer[..count]);
            aside.pass_on(&skipping.take_noise());
            if let Some(rest) = rest {
                break rest;
            }
            if skipping.skipped > MAX_SKIPPED {
                aside.hush();
                let message = format!("{} prints without end before wt starts", self.name());
                return Err(Error::new(ErrorCode::Unreachable, message)
                    .hint(format!("look at what `ssh {} true` prints", self.name())));
            }
        };
        let mut reader = MessageReader::after(stdout, &rest);
        let hello = match reader.next::<ServeHello>().await {
            Ok(Some(hello)) => hello,
            Ok(None) => return Err(self.unanswered(ssh, again).await),
            Err(_) => return Err(self.misfit()),
        };
        self.check(&hello)?;
        // From here on the terminal may be a session's.
        aside.hush();
        Ok(SshStream {
            reader,
            writer: MessageWriter::new(stdin),
            ssh,
        })
    }

    fn command(&self, again: bool) -> Command {
        let Reach {
            host, binary, dir, ..
        } = &self.0.reach;
        let mut command = Command::new(&self.0.ssh[0]);
        command.args(&self.0.ssh[1..]).args(SSH_OPTIONS);
        if again {
            command.arg("-oBatchMode=yes");
        }
        command
            .args(["--", host, &remote_command(binary, dir.as_deref())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts the task that waits for an ssh and ends it.
    fn own(&self, mut child: Child, aside: Arc<Aside>) -> Ssh {
        let (kill, killed) = oneshot::channel::<()>();
        let (told, status) = watch::channel(None);
        let closing = self.0.closing.clone();
        let mut state = self.state();
        // Those that ended need no place.
        while state.processes.try_join_next().is_some() {}
        state.processes.spawn(async move {
            let at_once = tokio::select! {
                ended = child.wait() => {
                    told.send_replace(ended.ok());
                    return;
                }
                killed = killed => killed.is_ok(),
                () = closing.cancelled() => false,
            };
            let grace = if at_once { Duration::ZERO } else { END_GRACE };
            if timeout(grace, child.wait()).await.is_err() {
                // It fails for a process that has just ended.
                let _ = child.kill().await;
            }
        });
        Ssh {
            status,
            aside,
            kill: Some(kill),
        }
    }

    /// Why there was no word from the program there.
    async fn unanswered(&self, mut ssh: Ssh, again: bool) -> Error {
        let status = ssh.ended().await;
        let words = ssh.aside.last_words().await;
        ssh.aside.hush();
        let mut error = no_answer(self.name(), &self.0.reach.binary, status, &words);
        // Nothing that a later try would change, and nobody may be asked.
        if again
            && ["Permission denied", "Host key verification failed"]
                .iter()
                .any(|refusal| words.contains(refusal))
        {
            error.code = ErrorCode::Refused;
        }
        error
    }

    /// Why an open connection ended.
    async fn lost(&self, mut ssh: Ssh) -> Error {
        let status = ssh.ended().await;
        let words = ssh.aside.last_words().await;
        let name = self.name();
        let message = match status.and_then(|status| status.code()) {
            Some(SSH_FAILED) | None => format!("the connection to {name} was lost"),
            Some(code) => format!("wt on {name} ended with status {code}"),
        };
        Error::new(ErrorCode::Unreachable, with_words(message, &words))
    }

    fn check(&self, hello: &ServeHello) -> Result<(), Error> {
        if (hello.oldest..=hello.newest).contains(&SERVE_VERSION) {
            return Ok(());
        }
        let (name, there, here) = (self.name(), one_line(&hello.program), crate::VERSION);
        let message = format!(
            "wingthing {there} on {name} speaks protocol {}, and wingthing {here} here protocol {SERVE_VERSION}",
            hello.newest
        );
        Err(
            Error::failed(message).hint(if hello.newest < SERVE_VERSION {
                format!("upgrade wingthing on {name}")
            } else {
                "upgrade wingthing on this machine".to_owned()
            }),
        )
    }

    fn misfit(&self) -> Error {
        let message = format!("wt on {} gave an answer that does not fit", self.name());
        Error::failed(message).hint("install the same version of wingthing on both machines")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ssh {
    /// Its status; none when it does not end.
    async fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.status.wait_for(Option::is_some);
        *timeout(EXIT_DEADLINE, ended).await.ok()?.ok()?
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        if let Some(kill) = self.kill.take() {
            // It may have ended by itself.
            let _ = kill.send(());
        }
    }
}

/// Why there was no word from the program there, by how ssh ended.
fn no_answer(host: &str, binary: &str, status: Option<ExitStatus>, words: &str) -> Error {
    let unreachable = |message: String| Error::new(ErrorCode::Unreachable, message);
    let binary = one_line(binary);
    match status.and_then(|status| status.code()) {
        Some(SSH_FAILED) => unreachable(with_words(
            format!("ssh could not connect to {host}"),
            words,
        ))
        .hint(format!("try `ssh {host} true`")),
        Some(127) => unreachable(format!("{binary} was not found on {host}"))
            .hint("give its path there with --remote-binary"),
        Some(126) => unreachable(format!("{binary} on {host} cannot be run"))
            .hint("give the path of another one there with --remote-binary"),
        // What the parser of arguments says to a command that it does not know.
        Some(2) => unreachable(format!("{binary} on {host} does not know how to serve"))
            .hint(format!("upgrade wingthing on {host}")),
        Some(code) => unreachable(with_words(
            format!("{host} ended the connection with status {code} before wt answered"),
            words,
        ))
        .hint(format!("look at what `ssh {host} true` prints")),
        None => unreachable(format!("ssh to {host} was ended before wt answered")),
    }
}

fn with_words(message: String, words: &str) -> String {
    match words.lines().map(one_line).rfind(|line| !line.is_empty()) {
        Some(line) => format!("{message}: {line}"),
        None => message,
    }
}

/// A line of somebody else's, without what could steer a terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .collect::<String>()
        .trim()
        .to_owned()
}

/// The command for the login shell of the other end, whichever that is.
fn remote_command(binary: &str, dir: Option<&str>) -> String {
    format!(
        "exec sh -c '{SCRIPT}' '{}' '{}' {SERVE_COMMAND}",
        escaped(binary),
        escaped(dir.unwrap_or_default())
    )
}

/// Text for `printf %b`, in which every byte that means something to any shell is a number.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("\\0{byte:03o}"));
        }
    }
    out
}

/// Splits a command into words as a shell does: blanks part them, quotes keep them
/// together, a backslash keeps the next character. None when a quote has no end.
fn words(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().push(chars.next()?),
            (c, None) if c.is_whitespace() => all.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    quote.is_none().then_some(all)
}

/// Finds the mark in a stream that was cut in any way.
#[derive(Default)]
struct Skipping {
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    noise: Vec<u8>,
    skipped: usize,
}

impl Skipping {
    /// Takes bytes; gives those after the mark, once it has come.
    fn feed(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.held.extend_from_slice(bytes);
        let found = self
            .held
            .windows(SYNC_MARK.len())
            .position(|window| window == SYNC_MARK);
        let noise = found.unwrap_or_else(|| self.held.len() - self.begun());
        let rest = found.map(|at| self.held[at + SYNC_MARK.len()..].to_vec());
        self.held.truncate(if rest.is_some() {
            noise
        } else {
            self.held.len()
        });
        self.noise.extend(self.held.drain(..noise));
        self.skipped += noise;
        rest
    }

    /// How many bytes at the end may be the beginning of the mark.
    fn begun(&self) -> usize {
        (1..SYNC_MARK.len())
            .rfind(|&length| self.held.ends_with(&SYNC_MARK[..length]))
            .unwrap_or(0)
    }

    fn take_noise(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.noise)
    }
}

/// What ssh and the login there say beside the protocol.
struct Aside {
    said: Mutex<Said>,
    ended: watch::Receiver<bool>,
}

struct Said {
    is_loud: bool,
    passed_on: usize,
    /// The last byte that was passed on.
    last: Option<u8>,
    /// The end of what ssh said.
    tail: VecDeque<u8>,
}

impl Aside {
    /// Listens to ssh; loudly, all of it also goes to this program's stderr.
    fn start(mut stderr: ChildStderr, is_loud: bool) -> Arc<Self> {
        let (done, ended) = watch::channel(false);
        let aside = Arc::new(Self {
            said: Mutex::new(Said {
                is_loud,
                passed_on: 0,
                last: None,
                tail: VecDeque::new(),
            }),
            ended,
        });
        let listening = Arc::clone(&aside);
        // It ends with ssh and whatever ssh left behind that holds its stderr.
        tokio::spawn(async move {
            let mut buffer = vec![0; 4 * 1024];
            while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                listening.pass_on(&buffer[..count]);
                let mut said = listening.said();
                said.tail.extend(&buffer[..count]);
                let excess = said.tail.len().saturating_sub(KEPT_WORDS);
                said.tail.drain(..excess);
            }
            done.send_replace(true);
        });
        aside
    }

    fn pass_on(&self, bytes: &[u8]) {
        let mut said = self.said();
        if said.is_loud && said.passed_on < MAX_PASSED_ON {
            said.passed_on += bytes.len();
            said.last = bytes.last().copied().or(said.last);
            // Nobody is left to tell if that fails.
            let _ = io::stderr().write_all(bytes);
        }
    }

    /// Passes nothing on from here, and ends the line that is begun.
    fn hush(&self) {
        let is_unfinished = {
            let mut said = self.said();
            let is_loud = std::mem::replace(&mut said.is_loud, false);
            is_loud && said.last.is_some_and(|byte| byte != b'\n')
        };
        if is_unfinished {
            let _ = io::stderr().write_all(b"\n");
        }
    }

    /// What ssh said last.
    async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        // Late words are no words.
        let _ = timeout(LAST_WORDS, ended.wait_for(|ended| *ended)).await;
        let tail: Vec<u8> = self.said().tail.iter().copied().collect();
        String::from_utf8_lossy(&tail).into_owned()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_mark_is_found_wherever_the_stream_was_cut() {
        let stream = [b"\xff\x00wibanner\n".as_slice(), &SYNC_MARK, b"rest"].concat();

        for first in 0..stream.len() {
            for second in first..stream.len() {
                let mut skipping = Skipping::default();
                let mut rest: Option<Vec<u8>> = None;
                for piece in [&stream[..first], &stream[first..second], &stream[second..]] {
                    match &mut rest {
                        None => rest = skipping.feed(piece),
                        Some(rest) => rest.extend_from_slice(piece),
                    }
                }

                assert_eq!(rest.as_deref(), Some(b"rest".as_slice()));
                assert_eq!(skipping.take_noise(), b"\xff\x00wibanner\n");
            }
        }
    }

    #[test]
    fn without_a_mark_all_is_noise_but_what_may_begin_one() {
        let mut skipping = Skipping::default();

        assert_eq!(skipping.feed(b"hello \xff\x00wi"), None);
        assert_eq!(skipping.take_noise(), b"hello ");
        assert_eq!(skipping.feed(b"ng?"), None);

        assert_eq!(skipping.take_noise(), b"\xff\x00wing?");
    }

    #[test]
    fn no_character_of_a_name_means_anything_to_a_shell() {
        let nasty = "a b'c\"d\\e!f$g`h\ni;é*";

        let command = remote_command(nasty, Some("~/p q"));

        let arguments = command.rsplit_once("\" '").map_or("", |(_, tail)| tail);
        assert!(arguments.is_empty(), "{arguments}");
        let (_, arguments) = command.split_once(SCRIPT).unwrap();
        assert!(
            arguments
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"/._-~\\' ".contains(&b)),
            "{arguments}"
        );
        assert!(!SCRIPT.contains(['\'', '\\', '\n', '!']), "{SCRIPT}");
    }

    #[test]
    fn an_ssh_command_is_split_as_a_shell_does() {
        let split = |text| words(text).map(|words| words.join("|"));

        assert_eq!(
            split("ssh  -F '/a b/c' -o \"X=\\\"y\"").unwrap(),
            "ssh|-F|/a b/c|-o|X=\"y"
        );
        assert_eq!(split("/a\\ b/ssh ''").unwrap(), "/a b/ssh|");
        assert_eq!(split("ssh 'x"), None);
        assert_eq!(words("  ").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_host_that_ssh_would_take_for_an_option_is_refused() {
        let reach = |host: &str| Reach {
            host: host.to_owned(),
            binary: "wt".to_owned(),
            dir: None,
            ssh: None,
        };

        for bad in ["", "-oProxyCommand=x"] {
            assert_eq!(
                RemoteHost::new(reach(bad)).err().unwrap().code,
                ErrorCode::Usage
            );
        }
        assert!(RemoteHost::new(reach("ada@box")).is_ok());
    }

    #[test]
    fn why_there_was_no_answer_is_told_by_the_status() {
        let of = |code: i32, words: &str| {
            let error = no_answer("box", "wt", Some(ExitStatus::from_raw(code << 8)), words);
            assert_eq!(error.code, ErrorCode::Unreachable);
            error.message
        };

        assert_eq!(
            of(255, "banner\r\nssh: no \x1b[1mroute\r\n\r\n"),
            "ssh could not connect to box: ssh: no [1mroute"
        );
        assert_eq!(of(127, "sh: wt: not found"), "wt was not found on box");
        assert_eq!(of(126, ""), "wt on box cannot be run");
        assert_eq!(of(2, ""), "wt on box does not know how to serve");
        assert_eq!(
            of(1, ""),
            "box ended the connection with status 1 before wt answered"
        );
    }
}
