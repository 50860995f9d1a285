//! mount_setattr(2), which no wrapper library has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Attributes that are set on a mount; the others stay as they are.
#[derive(Clone, Copy, Default)]
pub(crate) struct MountAttributes {
    pub(crate) read_only: bool,
    pub(crate) no_devices: bool,
    pub(crate) no_exec: bool,
    /// Whether all mounts below it are meant too.
    pub(crate) recursive: bool,
}

/// Sets attributes of the mount that a descriptor stands for, and makes it forget set-id
/// bits and whom it shares mounts with.
pub(crate) fn set_attributes(mount: impl AsFd, attributes: MountAttributes) -> io::Result<()> {
    let bit = |set: bool, bit: u64| if set { bit } else { 0 };
    // SAFETY: all fields of this plain struct may be zero.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = libc::MOUNT_ATTR_NOSUID
        | bit(attributes.read_only, libc::MOUNT_ATTR_RDONLY)
        | bit(attributes.no_devices, libc::MOUNT_ATTR_NODEV)
        | bit(attributes.no_exec, libc::MOUNT_ATTR_NOEXEC);
    attr.propagation = libc::MS_PRIVATE;
    let recursive = if attributes.recursive {
        libc::AT_RECURSIVE
    } else {
        0
    };
    // SAFETY: the empty path is a valid string, the struct has the size that is passed, and
    // both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
