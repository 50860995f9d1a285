//! System calls that no safe wrapper covers. Nothing outside this folder is `unsafe`.

pub(crate) mod kernel;
pub(crate) mod mount;
pub(crate) mod process;
