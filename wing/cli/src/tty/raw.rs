//! Raw mode of the user's terminal, given back in every way of ending.
//!
//! Dropping [`RawMode`] gives it back, and so does the panic hook, which runs even when a
//! thread dies that does not own the guard. Signals end the attach loop, which drops it.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};

use nix::sys::termios::{self, SetArg, Termios};

use super::outer;

/// The settings to go back to, while raw mode is on.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

static PANIC_HOOK: Once = Once::new();

/// The terminal on stdin in raw mode, for as long as this lives.
#[derive(Debug)]
pub(super) struct RawMode(());

impl RawMode {
    /// Switches the terminal to raw mode.
    pub(super) fn enter() -> io::Result<Self> {
        let saved = termios::tcgetattr(io::stdin())?;
        install_panic_hook();
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved);
        let raw = Self(());
        raw.again()?;
        Ok(raw)
    }

    /// Switches to raw mode again, after whoever stopped this process changed it.
    pub(super) fn again(&self) -> io::Result<()> {
        let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(mut settings) = saved {
            termios::cfmakeraw(&mut settings);
            termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &settings)?;
        }
        Ok(())
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the settings once; whether there were any to restore.
fn give_back() -> bool {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(settings) = saved else { return false };
    // A terminal that was closed has no settings left.
    let _ = termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &settings);
    true
}

fn install_panic_hook() {
    PANIC_HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if give_back() {
                let mut stdout = io::stdout();
                let _ = stdout
                    .write_all(&outer::reset_blindly())
                    .and_then(|()| stdout.flush());
            }
            default(info);
        }));
    });
}
