//! What holds where no file says otherwise: the built-in lists, as data.
//!
//! Paths are below the home directory unless they start with a slash.

use crate::PathKind;

/// One place in a built-in list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path; the last part may have a star.
    pub path: &'static str,
    /// What it is, where that is always the same.
    pub kind: Option<PathKind>,
    /// Why it stands here, in a few words.
    pub reason: &'static str,
}

const fn dir(path: &'static str, reason: &'static str) -> Place {
    Place {
        path,
        kind: Some(PathKind::Dir),
        reason,
    }
}

const fn file(path: &'static str, reason: &'static str) -> Place {
    Place {
        path,
        kind: Some(PathKind::File),
        reason,
    }
}

const fn any(path: &'static str, reason: &'static str) -> Place {
    Place {
        path,
        kind: None,
        reason,
    }
}

/// Places that hold what opens other doors: they are denied.
pub const DENIED: &[Place] = &[
    // Keys and their agents.
    dir(".ssh", "keys for other machines"),
    dir(".gnupg", "keys for signing and encryption"),
    dir(".local/share/gnupg", "keys for signing and encryption"),
    dir(".config/gnupg", "keys for signing and encryption"),
    dir(".age", "keys for encryption"),
    dir(".config/sops", "keys for encryption"),
    dir(".pki", "certificates and their keys"),
    dir(".putty", "keys for other machines"),
    dir(".config/putty", "keys for other machines"),
    dir(".minisign", "keys for signing"),
    dir(".sigstore", "keys for signing"),
    dir(".tpm2_pkcs11", "keys of the security chip"),
    dir(".yubico", "keys of a token"),
    // Password stores.
    dir(".password-store", "passwords"),
    dir(".local/share/keyrings", "passwords"),
    dir(".local/share/kwalletd", "passwords"),
    dir(".kde/share/apps/kwallet", "passwords"),
    dir("Library/Keychains", "passwords"),
    dir(".1password", "passwords"),
    dir(".config/1Password", "passwords"),
    dir(".config/op", "passwords"),
    dir(".config/Bitwarden", "passwords"),
    dir(".config/Bitwarden CLI", "passwords"),
    dir(".config/keepassxc", "passwords"),
    dir(".cache/keepassxc", "passwords"),
    dir(".lastpass", "passwords"),
    dir(".config/gopass", "passwords"),
    dir(".local/share/gopass", "passwords"),
    dir(".local/share/pass", "passwords"),
    any(".cache/keyring-*", "sockets of a password store"),
    any(".authinfo*", "passwords for mail and web"),
    file(".netrc", "passwords for web and mail"),
    file("_netrc", "passwords for web and mail"),
    file(".git-credentials", "passwords for repositories"),
    dir(
        ".config/git-credential-manager",
        "passwords for repositories",
    ),
    dir(".gcm", "passwords for repositories"),
    file(".config/git/credentials", "passwords for repositories"),
    dir(".cache/git", "passwords for repositories"),
    file(".pgpass", "passwords for databases"),
    file(".my.cnf", "passwords for databases"),
    file(".mylogin.cnf", "passwords for databases"),
    file(".mongorc.js", "passwords for databases"),
    dir(".config/dbeaver", "passwords for databases"),
    dir(".local/share/DBeaverData", "passwords for databases"),
    file(".smbcredentials", "passwords for shares"),
    file(".vnc/passwd", "passwords for screens"),
    dir(".config/remmina", "passwords for screens"),
    dir(".local/share/remmina", "passwords for screens"),
    file(".Xauthority", "the key of the screen"),
    file(".ICEauthority", "the key of the desktop"),
    file(".fetchmailrc", "passwords for mail"),
    file(".msmtprc", "passwords for mail"),
    dir(".config/msmtp", "passwords for mail"),
    // Clouds and clusters.
    dir(".aws", "access to a cloud"),
    dir(".azure", "access to a cloud"),
    dir(".config/gcloud", "access to a cloud"),
    dir(".config/doctl", "access to a cloud"),
    dir(".oci", "access to a cloud"),
    dir(".aliyun", "access to a cloud"),
    dir(".bluemix", "access to a cloud"),
    dir(".config/hcloud", "access to a cloud"),
    any(".config/linode-cli", "access to a cloud"),
    dir(".config/scw", "access to a cloud"),
    file(".boto", "access to a cloud"),
    file(".s3cfg", "access to a cloud"),
    dir(".config/rclone", "access to clouds"),
    file(".rclone.conf", "access to clouds"),
    dir(".config/openstack", "access to a cloud"),
    dir(".kube", "access to clusters"),
    dir(".config/helm", "access to registries"),
    dir(".docker", "access to registries and to the daemon"),
    dir(".config/containers", "access to registries"),
    dir(".colima", "the socket of a container daemon"),
    dir(".lima", "sockets of virtual machines"),
    dir(".orbstack", "the socket of a container daemon"),
    dir(".rd", "the socket of a container daemon"),
    dir(".minikube", "access to clusters"),
    dir(".vagrant.d", "keys of virtual machines"),
    file(".terraformrc", "access to infrastructure"),
    file(
        ".terraform.d/credentials.tfrc.json",
        "access to infrastructure",
    ),
    dir(".pulumi", "access to infrastructure"),
    file(".vault-token", "access to secrets"),
    dir(".config/consul", "access to infrastructure"),
    file(".ansible/galaxy_token", "access to a registry"),
    dir(".chef", "access to infrastructure"),
    file(".fly/config.yml", "access to a host"),
    dir(".config/heroku", "access to a host"),
    dir(".local/share/heroku", "access to a host"),
    dir(".config/netlify", "access to a host"),
    dir(".netlify", "access to a host"),
    dir(".config/vercel", "access to a host"),
    dir(".local/share/com.vercel.cli", "access to a host"),
    dir(".wrangler", "access to a host"),
    dir(".config/.wrangler", "access to a host"),
    dir(".cloudflared", "access to a host"),
    dir(".config/railway", "access to a host"),
    dir(".railway", "access to a host"),
    dir(".supabase", "access to a database"),
    dir(".config/configstore", "tokens of many programs"),
    dir(".config/stripe", "access to payments"),
    file(".config/ngrok/ngrok.yml", "access to tunnels"),
    dir(".ngrok2", "access to tunnels"),
    dir(".config/tailscale", "access to a network"),
    // Forges and registries.
    dir(".config/gh", "access to repositories"),
    dir(".config/glab-cli", "access to repositories"),
    file(".config/hub", "access to repositories"),
    dir(".config/tea", "access to repositories"),
    dir(".config/github-copilot", "access to an account"),
    dir(".config/jj-credentials", "access to repositories"),
    file(".npmrc", "access to a registry"),
    file(".yarnrc", "access to a registry"),
    file(".yarnrc.yml", "access to a registry"),
    file(".config/npm/npmrc", "access to a registry"),
    file(".pypirc", "access to a registry"),
    file(".config/pypoetry/auth.toml", "access to a registry"),
    dir(".local/share/python_keyring", "passwords"),
    dir(".local/share/uv/credentials", "access to a registry"),
    file(".gem/credentials", "access to a registry"),
    file(".local/share/gem/credentials", "access to a registry"),
    file(".bundle/config", "access to a registry"),
    file(".m2/settings.xml", "access to a registry"),
    file(".m2/settings-security.xml", "access to a registry"),
    file(".gradle/gradle.properties", "access to a registry"),
    file(".nuget/NuGet/NuGet.Config", "access to a registry"),
    file(".composer/auth.json", "access to a registry"),
    file(".config/composer/auth.json", "access to a registry"),
    file(".hex/hex.config", "access to a registry"),
    file(".config/pub-credentials.json", "access to a registry"),
    file(".config/dart/pub-credentials.json", "access to a registry"),
    file(".huggingface/token", "access to models"),
    file(".cache/huggingface/token", "access to models"),
    file(".cache/huggingface/stored_tokens", "access to models"),
    file(".kaggle/kaggle.json", "access to data"),
    file(".config/kaggle/kaggle.json", "access to data"),
    file(".config/wandb/settings", "access to experiments"),
    file(".databrickscfg", "access to data"),
    dir(".snowsql", "access to data"),
    dir(".snowflake", "access to data"),
    dir(".dbt", "access to data"),
    // What was typed.
    file(".bash_history", "what was typed"),
    file(".zsh_history", "what was typed"),
    file(".python_history", "what was typed"),
    any(".*_history", "what was typed"),
    any(".history*", "what was typed"),
    any(".zhistory*", "what was typed"),
    any(".histfile*", "what was typed"),
    dir(".zsh_sessions", "what was typed"),
    dir(".bash_sessions", "what was typed"),
    file(".local/share/fish/fish_history", "what was typed"),
    dir(".local/share/atuin", "what was typed"),
    dir(".local/share/mcfly", "what was typed"),
    dir(".local/state/bash", "what was typed"),
    dir(".local/state/zsh", "what was typed"),
    file(".lesshst", "what was looked for"),
    any(".viminfo*", "what was edited"),
    dir(".local/state/nvim/shada", "what was edited"),
    // Browsers, mail, messages.
    dir(".mozilla", "sign-ins of a browser"),
    dir(".cache/mozilla", "pages of a browser"),
    dir(".librewolf", "sign-ins of a browser"),
    dir(".waterfox", "sign-ins of a browser"),
    dir(".zen", "sign-ins of a browser"),
    dir(".tor-browser", "sign-ins of a browser"),
    dir(".config/google-chrome", "sign-ins of a browser"),
    dir(".config/google-chrome-beta", "sign-ins of a browser"),
    dir(".config/google-chrome-unstable", "sign-ins of a browser"),
    dir(".config/chromium", "sign-ins of a browser"),
    dir(".config/BraveSoftware", "sign-ins of a browser"),
    dir(".config/microsoft-edge", "sign-ins of a browser"),
    dir(".config/vivaldi", "sign-ins of a browser"),
    dir(".config/opera", "sign-ins of a browser"),
    dir(".config/qutebrowser", "sign-ins of a browser"),
    dir(".local/share/qutebrowser", "sign-ins of a browser"),
    dir(".cache/google-chrome", "pages of a browser"),
    dir(".cache/chromium", "pages of a browser"),
    dir(".cache/BraveSoftware", "pages of a browser"),
    dir(".var/app", "sign-ins of programs in containers"),
    dir("snap/firefox", "sign-ins of a browser"),
    dir("snap/chromium", "sign-ins of a browser"),
    dir(".thunderbird", "mail"),
    dir(".local/share/evolution", "mail"),
    dir(".config/evolution", "mail"),
    dir("Mail", "mail"),
    dir("Maildir", "mail"),
    dir(".mail", "mail"),
    dir(".config/Signal", "messages"),
    dir(".config/Slack", "messages"),
    dir(".config/discord", "messages"),
    dir(".config/Element", "messages"),
    dir(".local/share/TelegramDesktop", "messages"),
    dir(".purple", "messages"),
    dir(".config/weechat", "messages"),
    dir(".weechat", "messages"),
    dir(".irssi", "messages"),
    // Wallets.
    dir(".bitcoin", "a wallet"),
    dir(".litecoin", "a wallet"),
    dir(".dogecoin", "a wallet"),
    dir(".ethereum", "a wallet"),
    dir(".foundry/keystores", "a wallet"),
    dir(".brownie/accounts", "a wallet"),
    dir(".electrum", "a wallet"),
    dir(".electrum-ltc", "a wallet"),
    dir(".monero", "a wallet"),
    dir("Monero", "a wallet"),
    dir(".bitmonero", "a wallet"),
    dir(".config/solana", "a wallet"),
    dir(".sui", "a wallet"),
    dir(".aptos", "a wallet"),
    dir(".near-credentials", "a wallet"),
    dir(".config/Exodus", "a wallet"),
    dir(".config/atomic", "a wallet"),
    dir(".config/Ledger Live", "a wallet"),
    dir(".lnd", "a wallet"),
    dir(".lightning", "a wallet"),
    // Copies of all of this.
    dir(".local/share/Trash", "what was thrown away"),
    dir(".Trash", "what was thrown away"),
    dir(".snapshots", "earlier states of what is denied"),
    dir(".zfs", "earlier states of what is denied"),
    dir(".config/borg", "keys of backups"),
    dir(".cache/borg", "backups"),
    dir(".config/restic", "keys of backups"),
    dir(".cache/restic", "backups"),
    file(".local/share/recently-used.xbel", "what was opened"),
    dir(".local/share/zeitgeist", "what was opened"),
    dir(".config/VeraCrypt", "keys of volumes"),
    dir(".local/share/systemd/coredump", "memory of programs"),
    // The same on a Mac.
    dir(
        "Library/Application Support/Google/Chrome",
        "sign-ins of a browser",
    ),
    dir(
        "Library/Application Support/Chromium",
        "sign-ins of a browser",
    ),
    dir(
        "Library/Application Support/BraveSoftware",
        "sign-ins of a browser",
    ),
    dir(
        "Library/Application Support/Firefox",
        "sign-ins of a browser",
    ),
    dir(
        "Library/Application Support/Microsoft Edge",
        "sign-ins of a browser",
    ),
    dir("Library/Application Support/Arc", "sign-ins of a browser"),
    dir("Library/Application Support/1Password", "passwords"),
    dir("Library/Application Support/Bitwarden", "passwords"),
    dir("Library/Application Support/Signal", "messages"),
    dir("Library/Application Support/Slack", "messages"),
    dir("Library/Application Support/Bitcoin", "a wallet"),
    dir("Library/Application Support/Exodus", "a wallet"),
    dir("Library/Containers", "files of other programs"),
    dir("Library/Group Containers", "files of other programs"),
    dir("Library/Cookies", "sign-ins of a browser"),
    dir("Library/Safari", "sign-ins of a browser"),
    dir("Library/Mail", "mail"),
    dir("Library/Messages", "messages"),
    // Of the whole machine: a session that root starts keeps root's files readable.
    file("/etc/shadow", "passwords of users"),
    file("/etc/shadow-", "passwords of users"),
    file("/etc/gshadow", "passwords of groups"),
    file("/etc/gshadow-", "passwords of groups"),
    file("/etc/security/opasswd", "passwords of users"),
    any("/etc/ssh/ssh_host_*_key", "keys of this machine"),
    dir("/etc/ssl/private", "keys of this machine"),
    dir("/etc/pki/tls/private", "keys of this machine"),
    dir("/etc/letsencrypt", "keys of this machine"),
    dir("/etc/wireguard", "keys of a network"),
    dir("/etc/openvpn", "keys of a network"),
    dir("/etc/ipsec.d/private", "keys of a network"),
    dir("/etc/NetworkManager/system-connections", "keys of networks"),
    dir("/etc/wpa_supplicant", "keys of networks"),
    dir("/var/lib/iwd", "keys of networks"),
    dir("/var/lib/NetworkManager", "keys of networks"),
    dir("/var/lib/tailscale", "keys of a network"),
    dir("/etc/cryptsetup-keys.d", "keys of volumes"),
    dir("/etc/credstore", "secrets of services"),
    dir("/etc/credstore.encrypted", "secrets of services"),
    dir("/var/lib/systemd/coredump", "memory of programs"),
    dir("/var/crash", "memory of programs"),
    file("/etc/krb5.keytab", "keys of this machine"),
    dir("/etc/rancher", "access to clusters"),
    dir("/etc/kubernetes", "access to clusters"),
    dir("/var/lib/kubelet", "access to clusters"),
    dir("/var/lib/docker", "files of containers"),
    dir("/var/lib/containerd", "files of containers"),
    dir("/var/lib/sss", "sign-ins of users"),
    dir("/var/spool/cron", "jobs of users"),
    dir("/var/spool/mail", "mail"),
    dir("/var/mail", "mail"),
    dir("/.snapshots", "earlier states of what is denied"),
    dir("/home/.snapshots", "earlier states of what is denied"),
    dir("/home/.zfs", "earlier states of what is denied"),
    dir("/timeshift", "earlier states of what is denied"),
    dir("/run/timeshift", "earlier states of what is denied"),
];

/// What stays readable inside a denied place.
pub const READABLE: &[Place] = &[
    file(
        ".ssh/known_hosts",
        "names of machines, without which git asks each time",
    ),
    file(
        ".ssh/known_hosts2",
        "names of machines, without which git asks each time",
    ),
];

/// Variables whose values are paths of secrets, which are denied where they really are.
pub const SECRET_PATH_VARIABLES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "BOTO_CONFIG",
    "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HISTFILE",
    "KRB5CCNAME",
    "KUBECONFIG",
    "LESSHISTFILE",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "PIP_CONFIG_FILE",
    "RCLONE_CONFIG",
    "VAULT_TOKEN_FILE",
    "XAUTHORITY",
];

/// Caches that build tools share between projects: they are writable. None holds secrets.
pub const CACHES: &[Place] = &[
    dir(".cache", "caches"),
    dir(".npm", "the cache of npm"),
    dir(".yarn/berry/cache", "the cache of yarn"),
    dir(".local/share/pnpm/store", "the store of pnpm"),
    dir(".pnpm-store", "the store of pnpm"),
    dir(".bun/install/cache", "the cache of bun"),
    dir(".deno", "the cache of deno"),
    dir(".node-gyp", "headers for building"),
    dir(".gradle/caches", "the cache of gradle"),
    dir(".gradle/daemon", "the daemon of gradle"),
    dir(".gradle/native", "libraries of gradle"),
    dir(".gradle/notifications", "notes of gradle"),
    dir(".gradle/workers", "workers of gradle"),
    dir(".gradle/wrapper/dists", "versions of gradle"),
    dir(".gradle/.tmp", "temporary files of gradle"),
    dir(".m2/repository", "the repository of maven"),
    dir(".ivy2/cache", "the cache of ivy"),
    dir(".ivy2/local", "the cache of ivy"),
    dir(".sbt/boot", "the cache of sbt"),
    dir(".nuget/packages", "the packages of nuget"),
    dir(".local/share/NuGet", "the cache of nuget"),
    dir(".pub-cache/hosted", "the cache of dart"),
    dir(".pub-cache/git", "the cache of dart"),
    dir(".hex/packages", "the packages of hex"),
    dir(".composer/cache", "the cache of composer"),
    dir(".cabal/packages", "the packages of cabal"),
    dir(".cpan/build", "the cache of perl"),
    dir(".cpan/sources", "the cache of perl"),
    dir(".conan2/p", "the packages of conan"),
    dir(".ccache", "the cache of the compiler"),
    dir(".bundle/cache", "the cache of bundler"),
];

/// Caches of a Mac.
pub const CACHES_MACOS: &[Place] = &[dir("Library/Caches", "caches")];

/// Caches in a folder that a variable moves: the variable, where the folder is without it,
/// and what in it is a cache. Programs that are installed beside it stay as they are.
pub const MOVED_CACHES: &[(&str, &str, &[Place])] = &[
    ("XDG_CACHE_HOME", ".cache", &[dir("", "caches")]),
    (
        "CARGO_HOME",
        ".cargo",
        &[
            dir("registry", "the cache of cargo"),
            dir("git", "the cache of cargo"),
            file(".package-cache", "the lock of cargo"),
            file(".package-cache-mutate", "the lock of cargo"),
            any(".global-cache*", "what cargo used last"),
        ],
    ),
    (
        "RUSTUP_HOME",
        ".rustup",
        &[dir("tmp", "temporary files of rustup")],
    ),
    ("GOMODCACHE", "go/pkg/mod", &[dir("", "the modules of go")]),
    (
        "GOPATH",
        "go",
        &[
            dir("pkg/mod", "the modules of go"),
            dir("pkg/sumdb", "checksums of go"),
        ],
    ),
    ("GOCACHE", ".cache/go-build", &[dir("", "the cache of go")]),
    ("NPM_CONFIG_CACHE", ".npm", &[dir("", "the cache of npm")]),
    ("npm_config_cache", ".npm", &[dir("", "the cache of npm")]),
    (
        "PIP_CACHE_DIR",
        ".cache/pip",
        &[dir("", "the cache of pip")],
    ),
    ("UV_CACHE_DIR", ".cache/uv", &[dir("", "the cache of uv")]),
    (
        "CCACHE_DIR",
        ".ccache",
        &[dir("", "the cache of the compiler")],
    ),
    (
        "SCCACHE_DIR",
        ".cache/sccache",
        &[dir("", "the cache of the compiler")],
    ),
    ("DENO_DIR", ".cache/deno", &[dir("", "the cache of deno")]),
];

/// Secrets in a folder that a variable moves.
pub const MOVED_SECRETS: &[(&str, &str, &[Place])] = &[(
    "CARGO_HOME",
    ".cargo",
    &[
        file("credentials", "access to a registry"),
        file("credentials.toml", "access to a registry"),
    ],
)];

/// Names below each writable folder of a project that programs outside read and obey: they
/// are kept as they are.
pub const PROTECTED: &[Place] = &[
    file("egg.yaml", "it says what a session may do"),
    dir(".egg", "it says what a session may do"),
    dir(".git/hooks", "git runs them"),
    file(".git/config", "git runs what it names"),
    file(".git/config.worktree", "git runs what it names"),
    file(".git/info/attributes", "git runs filters by it"),
    file(".git/commondir", "git takes its configuration from there"),
    file(".gitmodules", "git takes repositories from there"),
    file(".mcp.json", "agents start what it names"),
    any(".claude/settings*.json", "an agent runs what it names"),
    dir(".claude/hooks", "an agent runs them"),
    dir(".claude/commands", "an agent obeys them"),
    dir(".claude/agents", "an agent obeys them"),
    dir(".claude/skills", "an agent obeys them"),
    dir(".claude/plugins", "an agent runs them"),
    dir(".cursor", "an editor obeys it"),
    dir(".codex", "an agent obeys it"),
    dir(".gemini", "an agent obeys it"),
    dir(".opencode", "an agent obeys it"),
    file("opencode.json", "an agent starts what it names"),
    dir(".agents", "agents obey it"),
    file(".aider.conf.yml", "an agent obeys it"),
    file(".vscode/settings.json", "an editor obeys it"),
    file(".vscode/tasks.json", "an editor runs what it names"),
    file(".vscode/launch.json", "an editor runs what it names"),
    file(".vscode/mcp.json", "an editor starts what it names"),
    file(
        ".vscode/extensions.json",
        "an editor installs what it names",
    ),
    dir(".idea", "an editor obeys it"),
    dir(".zed", "an editor obeys it"),
    file(".nvim.lua", "an editor runs it"),
    file(".nvimrc", "an editor runs it"),
    file(".exrc", "an editor runs it"),
    file(".dir-locals.el", "an editor runs it"),
    dir(".devcontainer", "an editor starts what it names"),
    file(".devcontainer.json", "an editor starts what it names"),
    file(".envrc", "shells run it"),
    dir(".direnv", "shells run it"),
    file(".npmrc", "npm runs what it names"),
    any(".yarnrc*", "yarn runs what it names"),
    file(".pnpmfile.cjs", "pnpm runs it"),
    file(".cargo/config", "cargo runs what it names"),
    file(".cargo/config.toml", "cargo runs what it names"),
];

/// Names below each directory of a git repository, wherever it lies, that git obeys: for
/// submodules and linked working trees, whose directories only a look at the disk tells.
pub const PROTECTED_GIT: &[Place] = &[
    dir("hooks", "git runs them"),
    file("config", "git runs what it names"),
    file("config.worktree", "git runs what it names"),
    file("info/attributes", "git runs filters by it"),
    file("commondir", "git takes its configuration from there"),
    file("gitdir", "git takes its configuration from there"),
];

/// Names in the home directory that programs outside run or obey. They are kept as they are
/// even where a rule opens what is around them.
pub const PROTECTED_HOME: &[Place] = &[
    file(".profile", "shells run it"),
    any(".bash*", "shells run it"),
    any(".zsh*", "shells run it"),
    file(".zprofile", "shells run it"),
    file(".zlogin", "shells run it"),
    file(".kshrc", "shells run it"),
    file(".cshrc", "shells run it"),
    file(".login", "shells run it"),
    file(".inputrc", "shells obey it"),
    file(".pam_environment", "every program obeys it"),
    dir(".config/environment.d", "every program obeys it"),
    file(".xprofile", "the desktop runs it"),
    file(".xinitrc", "the desktop runs it"),
    file(".xsession", "the desktop runs it"),
    file(".xsessionrc", "the desktop runs it"),
    file(".gitconfig", "git runs what it names"),
    dir(".config/git", "git runs what it names"),
    dir(".config/fish", "shells run it"),
    dir(".config/zsh", "shells run it"),
    dir(".config/nushell", "shells run it"),
    dir(".config/autostart", "the desktop runs it"),
    dir(".config/systemd", "services are started by it"),
    dir(".local/share/systemd", "services are started by it"),
    dir(".local/share/applications", "the desktop runs it"),
    dir(".local/share/dbus-1", "services are started by it"),
    dir(".config/direnv", "shells obey it"),
    dir(".config/mise", "shells obey it"),
    dir(".config/nvim", "an editor runs it"),
    dir(".vim", "an editor runs it"),
    file(".vimrc", "an editor runs it"),
    file(".exrc", "an editor runs it"),
    dir(".emacs.d", "an editor runs it"),
    file(".emacs", "an editor runs it"),
    dir(".config/emacs", "an editor runs it"),
    dir(".vscode", "an editor runs it"),
    dir(".vscode-server", "an editor runs it"),
    dir(".config/Code/User", "an editor obeys it"),
    file(".tmux.conf", "tmux runs it"),
    dir(".config/tmux", "tmux runs it"),
    file(".screenrc", "screen runs it"),
    dir(".local/bin", "programs are found there"),
    dir("bin", "programs are found there"),
    dir(".cargo/bin", "programs are found there"),
    file(".cargo/env", "shells run it"),
    file(".cargo/config", "cargo runs what it names"),
    file(".cargo/config.toml", "cargo runs what it names"),
    dir(".rustup/toolchains", "programs are found there"),
    dir("go/bin", "programs are found there"),
    dir(".npm-global", "programs are found there"),
    dir(".bun/bin", "programs are found there"),
    dir(".deno/bin", "programs are found there"),
    dir(".local/share/pnpm", "programs are found there"),
    dir(".nvm", "programs are found there"),
    dir(".volta", "programs are found there"),
    dir(".pyenv", "programs are found there"),
    dir(".rbenv", "programs are found there"),
    dir(".asdf", "programs are found there"),
    dir(".sdkman", "programs are found there"),
    dir(".local/share/mise", "programs are found there"),
    dir(".local/share/uv", "programs are found there"),
    dir(".local/lib", "programs are found there"),
    dir(".gradle/init.d", "gradle runs it"),
    file(".gradle/init.gradle", "gradle runs it"),
    dir("Library/LaunchAgents", "services are started by it"),
];

/// Places that a session without any readable root still needs to start a program.
pub const RUNTIME: &[Place] = &[
    dir("/usr", "programs and libraries"),
    any("/bin", "programs and libraries"),
    any("/sbin", "programs and libraries"),
    any("/lib", "programs and libraries"),
    any("/lib32", "programs and libraries"),
    any("/lib64", "programs and libraries"),
    any("/libx32", "programs and libraries"),
    dir("/nix/store", "programs and libraries"),
    dir("/etc/alternatives", "which program a name means"),
    file("/etc/ld.so.cache", "where libraries are"),
    file("/etc/ld.so.conf", "where libraries are"),
    dir("/etc/ld.so.conf.d", "where libraries are"),
    file("/etc/passwd", "names of users"),
    file("/etc/group", "names of groups"),
    file("/etc/nsswitch.conf", "how names are looked up"),
    file("/etc/hosts", "how names are looked up"),
    any("/etc/resolv.conf", "how names are looked up"),
    any("/etc/localtime", "the time zone"),
    dir("/etc/ssl", "whom to trust"),
    dir("/etc/ca-certificates", "whom to trust"),
    dir("/etc/pki", "whom to trust"),
    dir("/etc/terminfo", "what terminals can do"),
];

/// Ports of this machine that give whoever reaches them more than a session should have.
pub const CONTROL_PORTS: &[(u16, &str)] = &[
    (22, "it opens a shell outside of the session"),
    (631, "it controls printers"),
    (2375, "it controls Docker, which is to own this machine"),
    (2376, "it controls Docker, which is to own this machine"),
    (3128, "it may be a proxy past the rules of the session"),
    (5037, "it controls devices"),
    (6443, "it controls a cluster"),
    (8080, "it may be a proxy past the rules of the session"),
    (9222, "it controls a browser with its sign-ins"),
    (9229, "it runs code in the process that is debugged"),
    (10250, "it controls a cluster"),
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn lists() -> [&'static [Place]; 8] {
        [
            DENIED,
            READABLE,
            CACHES,
            CACHES_MACOS,
            PROTECTED,
            PROTECTED_GIT,
            PROTECTED_HOME,
            RUNTIME,
        ]
    }

    #[test]
    fn every_place_is_in_one_spelling_with_stars_in_its_last_part() {
        for place in lists().concat() {
            let path = place.path;
            let absolute = if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            };
            assert_eq!(crate::paths::normal(&absolute), Some(absolute), "{path}");
            let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
            assert!(!folder.contains('*') && !path.contains("**"), "{path}");
            assert!(!place.reason.is_empty(), "{path}");
        }
    }

    #[test]
    fn no_cache_lies_in_a_denied_place() {
        for cache in CACHES {
            for denied in DENIED {
                assert!(
                    !crate::paths::covers(
                        &format!("/{}", denied.path),
                        &format!("/{}", cache.path)
                    ),
                    "{} in {}",
                    cache.path,
                    denied.path
                );
            }
        }
    }

    #[test]
    fn no_place_stands_twice_in_a_list_of_writable_or_protected_places() {
        for list in [
            CACHES,
            PROTECTED,
            PROTECTED_GIT,
            PROTECTED_HOME,
            RUNTIME,
            READABLE,
        ] {
            let names: BTreeSet<&str> = list.iter().map(|place| place.path).collect();
            assert_eq!(names.len(), list.len());
        }
    }
}
