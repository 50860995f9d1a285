//! What an attacker's program would do, one act per subcommand: raw system calls, sockets,
//! crafted bytes.
//!
//! It prints `OK` with what it got and ends with 0 when the act succeeded, or prints the name
//! of the error and ends with 1. It knows nothing of any boundary, so that the same act can be
//! tried outside of one.
#![deny(unsafe_code)]

mod act;
mod net;
#[allow(unsafe_code)]
mod raw;

use std::process::ExitCode;

/// What came of an act: what it printed, or the error.
pub(crate) type Outcome = Result<String, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(said) => {
            println!("OK {said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    match words {
        ["sc", name, arguments @ ..] => raw::system_call(name, arguments),
        ["ioctl", fd, request] => raw::terminal_request(number(fd)?, number(request)?),
        ["perf"] => raw::perf(),
        ["map-array"] => raw::bpf_map(),
        ["clone3"] => raw::clone3_user_namespace(),
        ["int80"] => raw::int80(),
        ["map-write", path] => raw::map_and_write(path),
        ["handle", path] => raw::open_by_handle(path),
        ["read-memory", pid] => raw::read_memory(number(pid)?),
        ["take-descriptor", pid, fd] => raw::take_descriptor(number(pid)?, number(fd)?),
        ["key-read", name] => raw::read_key(name),
        ["with-key", name, secret, program, arguments @ ..] => {
            raw::add_session_key(name, secret)?;
            Err(act::become_program(program, arguments))
        }
        ["shared-put", key, text] => raw::shared_memory_put(number(key)?, text),
        ["shared-get", key] => raw::shared_memory_get(number(key)?),
        ["in-memory", program, arguments @ ..] => raw::run_from_memory(program, arguments),
        ["join", path] => raw::join_namespace(path),
        ["families"] => raw::socket_families(),
        ["socket", family, kind, protocol] => {
            raw::socket(number(family)?, number(kind)?, number(protocol)?)
        }
        ["link-unnamed", folder, target] => raw::link_unnamed(folder, target),
        ["exchange", one, other] => raw::exchange(one, other),
        ["watch", path] => raw::watch(path),
        ["fork", count] => raw::fork_many(number(count)?),
        ["open", count] => act::open_many(number(count)?),
        ["descriptors"] => act::descriptors(),
        ["user"] => act::effective_user(),
        ["con", "unix", name] => net::connect_unix(name),
        ["con", "inet", address, token] => net::connect(address, token),
        ["dgram", path] => net::send_unix(path),
        ["udp", address, text] => net::send_udp(address, text),
        ["dns", server, name, kind] => net::ask_name(server, name, kind),
        ["names", server, count, below] => net::ask_names(server, number(count)?, below),
        ["raw", address, parts @ ..] => net::exchange_bytes(address, parts),
        ["flood", address, count] => net::flood(address, number(count)?),
        _ => Err(format!("no such act: {words:?}")),
    }
}

/// A number in decimal or, with `0x`, in hexadecimal.
pub(crate) fn number<N: TryFrom<i128>>(text: &str) -> Result<N, String> {
    let (text, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .and_then(|number| N::try_from(sign * number).ok())
        .ok_or_else(|| format!("{text} is not such a number"))
}
