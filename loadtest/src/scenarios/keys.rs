//! Pressing keys and waiting for their echoes, over whatever there is to press them on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::attached::Attached;
use crate::baseline::ECHO_SIZE;
use crate::report::{Series, percentile};

/// How long one echo may take before the way is called dead.
const ECHO_DEADLINE: Duration = Duration::from_secs(10);

/// Key presses before a series, for what is slow only the first time.
const WARM_UP: usize = 5;

/// Something on which a key press comes back.
pub(crate) enum Keyboard<'a> {
    /// A session.
    Session(&'a mut Attached),
    /// A raw quinn stream.
    Quic(&'a mut (quinn::SendStream, quinn::RecvStream)),
    /// A TCP connection.
    Tcp(&'a mut tokio::net::TcpStream),
}

impl Keyboard<'_> {
    async fn press(&mut self) -> Result<()> {
        const RECORD: [u8; ECHO_SIZE] = [b'x'; ECHO_SIZE];
        let mut back = [0; ECHO_SIZE];
        match self {
            // One byte, which a sealed record of the same size carries.
            Keyboard::Session(attached) => {
                attached.send(b"x").await?;
                let echo = attached.output().await?;
                ensure!(
                    echo == b"x",
                    "{} bytes came back instead of one key",
                    echo.len()
                );
            }
            Keyboard::Quic((send, recv)) => {
                send.write_all(&RECORD).await?;
                recv.read_exact(&mut back).await?;
            }
            Keyboard::Tcp(stream) => {
                stream.write_all(&RECORD).await?;
                stream.read_exact(&mut back).await?;
            }
        }
        Ok(())
    }

    /// Presses keys one after the other for so long, and enters the echoes' times.
    pub(crate) async fn series(
        &mut self,
        name: &str,
        length: Duration,
        series: &mut Series,
    ) -> Result<()> {
        let mut times = Vec::new();
        let mut to_warm_up = WARM_UP;
        let mut end = Instant::now() + length;
        while Instant::now() < end || times.is_empty() {
            let pressed = Instant::now();
            timeout(ECHO_DEADLINE, self.press())
                .await
                .with_context(|| format!("{name}: no echo within {ECHO_DEADLINE:?}"))?
                .with_context(|| name.to_owned())?;
            if to_warm_up > 0 {
                to_warm_up -= 1;
                end = Instant::now() + length;
            } else {
                times.push(pressed.elapsed());
            }
        }
        for (which, share) in [("p50", 0.5), ("p99", 0.99)] {
            let time = percentile(&mut times, share).context("there is one sample at least")?;
            let micros = time.as_secs_f64() * 1e6;
            series.enter(format!("{name}.{which}"), "us", micros);
        }
        series.enter(format!("{name}.keys"), "presses", times.len() as f64);
        Ok(())
    }
}
