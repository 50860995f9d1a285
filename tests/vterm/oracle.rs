//! The other terminal: xterm.js without a browser, in a node process.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wt_egg::screen::Size;

/// What happens to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Output arrives.
    Feed(Vec<u8>),
    /// Its size changes.
    Resize(Size),
    /// Its state is asked for.
    State,
}

/// The node process. It ends with its standard input.
pub(crate) struct Oracle {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it, or says why this machine cannot.
    pub(crate) fn start() -> Result<Result<Self, String>> {
        let folder = folder();
        if !has_node() {
            return Ok(Err("node is not installed".to_owned()));
        }
        if !folder.join("node_modules/@xterm/headless").is_dir() {
            return Ok(Err("npm ci was not run in tests/vterm/oracle".to_owned()));
        }
        let mut child = Command::new("node")
            .arg("oracle.mjs")
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start node")?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().context("node has no output")?;
        Ok(Ok(Self {
            child,
            requests,
            answers: BufReader::new(answers),
        }))
    }

    /// The states that a fresh terminal of `size` has at the `State` steps.
    pub(crate) fn states(
        &mut self,
        size: Size,
        scrollback: usize,
        steps: &[Step],
    ) -> Result<Vec<Value>> {
        let steps: Vec<Value> = steps
            .iter()
            .map(|step| match step {
                Step::Feed(bytes) => json!({ "feed": STANDARD.encode(bytes) }),
                Step::Resize(size) => json!({ "resize": [size.cols, size.rows] }),
                Step::State => json!({ "state": true }),
            })
            .collect();
        let request = json!({
            "cols": size.cols, "rows": size.rows, "scrollback": scrollback, "steps": steps,
        });
        let body = serde_json::to_vec(&request)?;
        let pipe = self.requests.as_mut().context("the oracle has ended")?;
        pipe.write_all(&u32::try_from(body.len())?.to_le_bytes())?;
        pipe.write_all(&body)?;
        pipe.flush()?;
        let mut head = [0; 4];
        self.answers
            .read_exact(&mut head)
            .context("the oracle gave no answer")?;
        let mut body = vec![0; u32::from_le_bytes(head) as usize];
        self.answers.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vterm/oracle")
}

fn has_node() -> bool {
    Command::new("node")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
