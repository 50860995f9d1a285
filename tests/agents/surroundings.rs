//! What surrounds a session changes while it lives: its user's SSH agent.

use std::fs;
use std::path::PathBuf;

use wt_tests::terminal::Size;
use wt_tests::{Profile, Terminal, eventually, process};

use crate::wait_for;

fn link(ada: &Profile, name: &str) -> PathBuf {
    let id = ada.session(name).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    ada.dir().join("eggs").join(id).join("agent.sock")
}

/// Attaches as a later login of the same user would, with these variables on top.
fn attach(ada: &Profile, name: &str, more: &[(&str, &str)]) -> Terminal {
    let program = process::program("wt");
    let mut env = ada.environment();
    env.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let argv = [program.as_os_str(), "attach".as_ref(), name.as_ref()];
    Terminal::spawn(&argv, &env, &ada.work(), Size::new(100, 30))
}

#[test]
fn a_session_uses_the_ssh_agent_of_whoever_attached_last() {
    let ada = Profile::new("ada").env("SSH_AUTH_SOCK", "/tmp/first-login");
    let show = "echo agent=$SSH_AUTH_SOCK; sleep 600";
    ada.wt(&[
        "terminal",
        "--unsandboxed",
        "--name",
        "a",
        "--detach",
        "--",
        "sh",
        "-c",
        show,
    ])
    .ok();

    let link = link(&ada, "a");
    wait_for(&ada, "a", &format!("agent={}", link.display()));
    assert_eq!(
        fs::read_link(&link).unwrap().to_str(),
        Some("/tmp/first-login")
    );

    let second = attach(&ada, "a", &[("SSH_AUTH_SOCK", "/tmp/second-login")]);
    second.wait_for("agent=");
    assert_eq!(
        fs::read_link(&link).unwrap().to_str(),
        Some("/tmp/second-login")
    );
    // One without an agent leaves it to those who have one.
    let third = attach(&ada, "a", &[("SSH_AUTH_SOCK", "")]);
    third.wait_for("agent=");
    assert_eq!(
        fs::read_link(&link).unwrap().to_str(),
        Some("/tmp/second-login")
    );

    ada.wt(&["session", "kill", "a"]).ok();
    eventually("the link to be gone", || {
        fs::symlink_metadata(&link).is_err().then_some(())
    });
}

#[test]
fn a_session_that_was_made_without_an_ssh_agent_gets_that_of_a_later_login() {
    let ada = Profile::new("ada");
    let wait = "until [ -e \"$SSH_AUTH_SOCK\" ]; do sleep 0.05; done; echo there; sleep 600";
    ada.wt(&[
        "terminal",
        "--unsandboxed",
        "--name",
        "a",
        "--detach",
        "--",
        "sh",
        "-c",
        wait,
    ])
    .ok();
    let link = link(&ada, "a");
    assert!(fs::symlink_metadata(&link).is_err());

    let socket = ada.scratch().join("agent");
    fs::write(&socket, "").unwrap();
    let later = attach(&ada, "a", &[("SSH_AUTH_SOCK", socket.to_str().unwrap())]);

    later.wait_for("there");
    assert_eq!(fs::read_link(&link).unwrap(), socket);
}
