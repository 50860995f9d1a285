//! What is written to a user's own terminal around a session.

use super::{Modes, Size};

/// Switches off everything that a program may have set, whatever it was. For ends at which
/// the modes are not known; it does not leave the alternate screen, since doing so on the
/// primary one moves the cursor.
///
/// CAN first, so that an unfinished sequence swallows nothing. All pops of the kitty stack
/// are needed, for setting the flags to 0 changes its top alone.
pub const RESET: &[u8] = b"\x18\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\
\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?1l\x1b>\x1b[>4m\x1b[<16u\x1b[=0u\x1b[?25h\x1b[0 q\x1b]8;;\x1b\\\x1b[0m\
\x1b[4l\x1b[20l\x1b[?5l\x1b[?6l\x1b[?7h\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b7\x1b[r\x1b8";

/// What a client writes to its own terminal on detach, so that nothing a program set stays
/// on.
///
/// The cursor stays where it is, except that leaving the alternate screen puts it where it
/// was before.
#[must_use]
pub fn restore_outer(modes: &Modes) -> Vec<u8> {
    let mut out = b"\x18".to_vec();
    // Each screen has a keyboard stack of its own, so the pops belong to the screen that is
    // shown.
    if modes.alt_screen {
        pop_kitty(&mut out, modes.kitty_alt_depth);
        out.extend_from_slice(b"\x1b[=0u\x1b[?1049l");
    }
    pop_kitty(&mut out, modes.kitty_primary_depth);
    out.extend_from_slice(RESET);
    if modes.palette_changed {
        out.extend_from_slice(b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\");
    }
    out
}

fn pop_kitty(out: &mut Vec<u8>, depth: u8) {
    for _ in 0..depth {
        out.extend_from_slice(b"\x1b[<u");
    }
}

/// Makes a used terminal of `size` fresh, ready for a snapshot: primary screen, blank,
/// cursor at the top left, nothing set. The terminal's own scrollback stays, and so do its
/// title and palette.
#[must_use]
pub fn restart(size: Size) -> Vec<u8> {
    let size = size.clamped();
    let mut out = b"\x18\x1b[?1049l".to_vec();
    out.extend_from_slice(RESET);
    out.extend_from_slice(b"\x1b[3g");
    for col in (9..=size.cols).step_by(8) {
        out.extend_from_slice(format!("\x1b[{col}G\x1bH").as_bytes());
    }
    out.extend_from_slice(b"\x1b[H\x1b[2J\x1b7");
    out
}
