//! Attacks that wait: what a session leaves to be run or obeyed outside, later.

use crate::case::{CASE, Case, L, Need, Outside, PROTECTED, Without};
use crate::runner::Special;
use crate::special;

const READ_ONLY: &[&str] = &["Read-only file system", "Permission denied"];

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "PER-01",
        what: "a hook of git is made",
        attack: "echo x > .git/hooks/pre-commit",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-01b",
        what: "a hook of git is changed",
        attack: "echo x >> .git/hooks/sample",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-02",
        what: "git is told to run a program",
        attack: "git config core.fsmonitor ./x",
        expect: &["busy", "Read-only"],
        layers: &[PROTECTED],
        needs: &[Need::Program("git")],
        ..CASE
    },
    Case {
        id: "PER-02b",
        what: "all of the user's git is told to run a program",
        attack: "git config --global core.hooksPath $P",
        expect: &["Read-only", "Permission denied"],
        layers: &[L::ReadOnly, L::Landlock],
        needs: &[Need::Program("git")],
        ..CASE
    },
    Case {
        id: "PER-05",
        what: "the policy of the next session is written",
        attack: "echo 'network: \"*\"' > egg.yaml",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-06",
        what: "a policy is written above the project",
        attack: "echo 'network: \"*\"' > ../egg.yaml",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "PER-07",
        what: "tasks of an editor are written",
        attack: "echo x > .vscode/tasks.json",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-07b",
        what: "settings of another editor are written",
        attack: "echo x > .idea/workspace.xml",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-08",
        what: "settings of an agent are written",
        attack: "echo x > .claude/settings.json",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-09",
        what: "a file that shells run on entering is written",
        attack: "echo x >> .envrc",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "PER-10",
        what: "a program is put where shells find it",
        attack: "echo x > $H/.local/bin/ls || echo x > $H/.cargo/bin/cargo",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "PER-11",
        what: "a cache that other projects use is changed",
        attack: "echo x > $H/.cache/pip/wheel",
        residual: "caches are shared between projects unless a rule closes them",
        ..CASE
    },
    Case {
        id: "PER-12",
        what: "a service of the user is made",
        attack: "echo x > $H/.config/systemd/user/evil.service",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "PER-12b",
        what: "a job for later is made",
        attack: "echo '* * * * * x' > x; crontab x || { mkdir -p $H/.config/autostart && echo x > $H/.config/autostart/x.desktop; }",
        expect: &["Read-only", "Permission denied", "not permitted"],
        layers: &[L::ReadOnly, L::Landlock],
        outside: Outside::Skipped("it might make a real job"),
        ..CASE
    },
    Case {
        id: "PER-25",
        what: "the plan is changed while it is carried out",
        attack: "ls -l /proc/[0-9]*/fd 2>&1 | grep egg-plan || { echo no plan there; false; }",
        expect: &["no plan there"],
        outside: Outside::Skipped("there is no plan outside"),
        without: Without::Refused(
            "the plan is sealed memory that is closed before the program starts",
        ),
        ..CASE
    },
];

pub(crate) const SPECIAL: &[Special] = &[
    Special {
        id: "PER-04",
        what: "what could run later is left without its user being told",
        run: special::what_is_left_is_listed,
    },
    Special {
        id: "PER-05b",
        what: "a policy that is made inside widens the next session",
        run: special::a_made_policy_widens_nothing,
    },
    Special {
        id: "PER-14",
        what: "settings that are put back are written through a link",
        run: special::settings_are_put_back_through_no_link,
    },
    Special {
        id: "PER-22",
        what: "a session starts though a part of its boundary cannot be made",
        run: special::nothing_starts_weaker_than_planned,
    },
    Special {
        id: "PER-24",
        what: "files are left in the project by the boundary itself",
        run: special::no_litter_is_left,
    },
];
