//! A client's attachment to a session, as the command line makes it, without a terminal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wt_protocol::session::Winsize;
use wt_wing::Error;
use wt_wing::attach::{self, Command, End, Event, Options, Target};

use crate::programs::END;

/// Events that wait for whoever reads them. Small, because they count as a client's own
/// memory: what is measured is how the rest behaves when this is full.
const EVENTS: usize = 16;

/// How long leaving may take; the attachment's own goodbye takes at most 2 s.
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);

/// An attachment, past its first snapshot's announcement.
pub(crate) struct Attached {
    commands: mpsc::Sender<Command>,
    events: mpsc::Receiver<Event>,
    task: JoinHandle<Result<End, Error>>,
}

/// Whether an attachment types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hands {
    /// It takes the right to type.
    Types,
    /// It only looks.
    Watches,
}

impl Attached {
    /// Attaches; returns when the session answered and, if wanted, the right to type is here.
    pub(crate) async fn start(target: Target, hands: Hands) -> Result<Self> {
        let (commands, typed) = mpsc::channel(EVENTS);
        let (shown, events) = mpsc::channel(EVENTS);
        let options = Options {
            size: Winsize::DEFAULT,
            read_only: hands == Hands::Watches,
            takeover: hands == Hands::Types,
        };
        let task = tokio::spawn(Box::pin(attach::run(
            target,
            options,
            typed,
            Arc::default(),
            shown,
        )));
        let mut attached = Self {
            commands,
            events,
            task,
        };
        loop {
            match attached.event().await? {
                Event::Attached { writer, .. } | Event::Writer(writer)
                    if writer || hands == Hands::Watches =>
                {
                    return Ok(attached);
                }
                Event::Attached { .. } | Event::Writer(_) => {}
                Event::Repaint(_) | Event::Output(_) | Event::Refused(_) | Event::Resized(_) => {}
                Event::LinkLost | Event::LinkBack => bail!("the link was lost"),
            }
        }
    }

    /// Types.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<()> {
        let command = Command::Input(bytes.to_vec());
        self.commands
            .send(command)
            .await
            .ok()
            .context("the attachment ended")
    }

    /// A hand that types while another task reads.
    pub(crate) fn keyboard(&self) -> mpsc::Sender<Command> {
        self.commands.clone()
    }

    /// Output as it comes; never empty. Screens that replace output are passed over.
    pub(crate) async fn output(&mut self) -> Result<Vec<u8>> {
        loop {
            match self.event().await? {
                Event::Output(bytes) => return Ok(bytes),
                // A client that fell behind the window is brought to the present.
                Event::Attached { .. }
                | Event::Repaint(_)
                | Event::Writer(_)
                | Event::Resized(_)
                | Event::Refused(_) => {}
                Event::LinkLost | Event::LinkBack => {
                    bail!("the link was lost during a measurement")
                }
            }
        }
    }

    /// Reads so many bytes or a few more; gives how many.
    pub(crate) async fn take(&mut self, bytes: u64) -> Result<u64> {
        let mut total = 0;
        while total < bytes {
            total += self.output().await?.len() as u64;
        }
        Ok(total)
    }

    /// Reads until the flood's end mark; gives the number of bytes, the mark among them.
    pub(crate) async fn drain(&mut self) -> Result<u64> {
        let mut total = 0;
        loop {
            let bytes = self.output().await?;
            total += bytes.len() as u64;
            if bytes.last() == Some(&END) {
                return Ok(total);
            }
        }
    }

    /// Whether as much waits here as may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() == EVENTS
    }

    /// Detaches.
    pub(crate) async fn leave(self) -> Result<()> {
        let Self {
            commands,
            events,
            task,
        } = self;
        drop((commands, events));
        timeout(LEAVE_DEADLINE, task)
            .await
            .context("an attachment did not end in time")?
            .context("an attachment broke down")??;
        Ok(())
    }

    async fn event(&mut self) -> Result<Event> {
        if let Some(event) = self.events.recv().await {
            return Ok(event);
        }
        let end = (&mut self.task)
            .await
            .context("an attachment broke down")??;
        bail!("the attachment ended: {end:?}")
    }
}
