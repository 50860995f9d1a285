//! Attacks on what is known: variables, credentials, other sessions.

use crate::case::{CASE, CORE, Case, DENIED, L, Need, Outside, Place, Without};

const REFUSED: &[&str] = &["Permission denied", "No such file"];

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "SEC-01",
        what: "secrets are in its variables",
        attack: "env | grep -e canary -e AWS_ -e GITHUB_ || { echo none; false; }",
        expect: &["none"],
        layers: &[L::Env],
        ..CASE
    },
    Case {
        id: "SEC-02",
        what: "secrets are in the variables of other processes",
        attack: "grep -la VICTIM_SECRET /proc/[0-9]*/environ | grep . # victim-",
        expect: &["Permission denied"],
        layers: &[L::Pid, L::Landlock, L::User, L::Capabilities],
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "SEC-04",
        what: "stores of secrets in the home directory are read",
        attack: "r=1; for f in .bash_history .config/gh/hosts.yml .config/gcloud/credentials.db \
                 .config/google-chrome/Default/Login .kube/config .docker/config.json .npmrc .pypirc \
                 .cargo/credentials.toml .gnupg/private-keys-v1.d/key .bitcoin/wallet.dat \
                 .password-store/bank.gpg .mozilla/firefox/cookies .git-credentials; do \
                 cat $H/$f && r=0 && echo \"READ $f\"; done; exit $r",
        expect: &["Permission denied"],
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "SEC-04b",
        what: "passwords of the machine are read",
        attack: "cat /etc/shadow",
        expect: REFUSED,
        layers: &[DENIED],
        outside: Outside::Skipped("they are real ones"),
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "SEC-05",
        what: "git hands out a password",
        attack: "printf 'protocol=https\\nhost=github.com\\n\\n' > q; GIT_TERMINAL_PROMPT=0 git credential fill < q \
                 | grep password",
        expect: &[
            "could not read",
            "Permission denied",
            "terminal prompts disabled",
            "fatal",
        ],
        layers: &[DENIED],
        needs: &[Need::Program("git")],
        ..CASE
    },
    Case {
        id: "SEC-06",
        what: "keys and sessions of wingthing are read",
        attack: "cat $H/.wingthing/identity.key || cat $H/.wingthing/eggs/other/token",
        expect: REFUSED,
        layers: &[CORE],
        ..CASE
    },
    Case {
        id: "SEC-06b",
        what: "they are read where their directory lies in the project",
        attack: "cat .wt/identity.key || cat .wt/eggs/other/token",
        expect: REFUSED,
        layers: &[CORE],
        place: Place::ProfileInProject,
        ..CASE
    },
    Case {
        id: "SEC-06c",
        what: "the user's own rule opens wingthing's directory",
        policy: "fs: ['rw:~/.wingthing', 'ro:~/.wingthing/identity.key', 'rw:./']\n",
        attack: "cat $H/.wingthing/identity.key",
        expect: &["Permission denied", "profile"],
        layers: &[CORE],
        without: Without::Succeeds,
        ..CASE
    },
    Case {
        id: "SEC-07",
        what: "transcripts of an agent in other projects are read",
        attack: "cat $H/.claude/projects/other/transcript.jsonl",
        residual: "what an agent wrote down of other projects is readable unless a rule denies it",
        ..CASE
    },
    Case {
        id: "SEC-09",
        what: "whether a denied name exists is found out",
        attack: "a=$(stat $H/.aws/credentials 2>&1 | sed s/credentials/x/); b=$(stat $H/.aws/nothing 2>&1 | sed s/nothing/x/); \
                 echo \"$a\"; test \"$a\" != \"$b\"",
        expect: &["Permission denied"],
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "SEC-10",
        what: "the load of the machine is read",
        attack: "cat /proc/loadavg /proc/stat",
        residual: "what the kernel says of the machine as a whole is readable",
        ..CASE
    },
];
