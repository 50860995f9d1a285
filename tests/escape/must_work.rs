//! What a session must be able to do with the policy that it has by default: a boundary that is
//! too tight is left out by its users.

use crate::case::{Need, Place};
use crate::runner::{WORK as BASE, Work};

/// A fresh repository in place of the fixture's bare bones.
const FRESH: &str = "rm -rf .git && git init -q && git add src && git commit -qm first";

pub(crate) const WORK: &[Work] = &[
    Work {
        id: "W-01",
        what: "bash starts without warnings",
        script: "o=$(bash -ic 'echo hello' 2>&1 </dev/null); echo \"$o\"; test \"$(echo \"$o\" | grep -v 'job control' | grep -v 'terminal process group')\" = hello",
        ..BASE
    },
    Work {
        id: "W-01b",
        what: "here documents of bash and sh",
        script: "test \"$(cat <<X\na b\nX\n)\" = 'a b' && test \"$(sh -c 'cat <<X\nc\nX\n')\" = c",
        ..BASE
    },
    Work {
        id: "W-01c",
        what: "zsh with a here document",
        script: "test \"$(zsh -fc 'cat <<X\nc\nX\n' 2>&1)\" = c",
        needs: &[Need::Program("zsh")],
        ..BASE
    },
    Work {
        id: "W-01d",
        what: "fish starts and pipes",
        script: "test \"$(fish -c 'echo hello | cat' 2>/dev/null)\" = hello",
        needs: &[Need::Program("fish")],
        ..BASE
    },
    Work {
        id: "W-01e",
        what: "a terminal has a name, a size and jobs",
        script: "test \"$(tty)\" != 'not a tty' && stty size && set -m && sleep 0.01 & wait && test -w /dev/tty",
        terminal: true,
        needs: &[Need::Program("script")],
        ..BASE
    },
    Work {
        id: "W-02",
        what: "tmux",
        script: "tmux -f /dev/null -L inner new-session -d 'echo made > by-tmux; sleep 60' </dev/null && \
                 for i in $(seq 200); do test -s by-tmux && break; sleep 0.02; done; tmux -L inner kill-server; test -s by-tmux",
        needs: &[Need::Program("tmux")],
        ..BASE
    },
    Work {
        id: "W-02b",
        what: "a terminal is made inside (openpty)",
        script: "test \"$(script -qefc 'tty' /dev/null </dev/null | tr -d '\\r' | grep -c /dev/pts)\" = 1",
        needs: &[Need::Program("script")],
        ..BASE
    },
    Work {
        id: "W-03",
        what: "git commits, branches, rebases and collects garbage",
        setup: FRESH,
        script: "git checkout -qb topic && echo x >> src/main.c && git commit -qam second && git checkout -q - && \
                 echo y > other && git add other && git commit -qm third && git rebase -q topic && \
                 git gc -q && git stash list && git log --oneline | wc -l | grep 3",
        needs: &[Need::Program("git")],
        ..BASE
    },
    Work {
        id: "W-03b",
        what: "git clones and adds a working tree",
        setup: FRESH,
        script: "git clone -q . copy && git -C copy log -1 && git worktree add -q wt-tree -b tree && \
                 cd wt-tree && echo z > z && git add z && git commit -qm tree",
        needs: &[Need::Program("git")],
        ..BASE
    },
    Work {
        id: "W-03c",
        what: "git commits in a project below /tmp",
        setup: FRESH,
        script: "echo x >> src/main.c && git commit -qam second && git status --short",
        place: Place::Tmp,
        needs: &[Need::Program("git")],
        ..BASE
    },
    Work {
        id: "W-05",
        what: "cargo builds offline with a dependency by path",
        script: "mkdir -p app/src dep/src && printf '[package]\\nname=\"dep\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n' > dep/Cargo.toml && \
                 echo 'pub fn n() -> i32 { 7 }' > dep/src/lib.rs && \
                 printf '[package]\\nname=\"app\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n[dependencies]\\ndep={path=\"../dep\"}\\n[workspace]\\n' > app/Cargo.toml && \
                 echo 'fn main() { println!(\"{}\", dep::n()) }' > app/src/main.rs && \
                 cd app && export RUSTUP_HOME=$REALRUSTUP CARGO_HOME=$H/.cargo && cargo run -q --offline | grep 7",
        needs: &[Need::Program("cargo")],
        ..BASE
    },
    Work {
        id: "W-07",
        what: "npm installs a package of its own and runs it",
        script: "mkdir -p pkg app && cd pkg && printf '{\"name\":\"pkg\",\"version\":\"1.0.0\",\"bin\":\"run.js\"}' > package.json && \
                 printf '#!/usr/bin/env node\\nconsole.log(\"ran\")\\n' > run.js && npm pack --offline >/dev/null && cd ../app && \
                 npm init -y >/dev/null && npm install --no-audit --no-fund --offline ../pkg/pkg-1.0.0.tgz && \
                 rm -rf node_modules && npm ci --silent --no-audit --no-fund --offline && node_modules/.bin/pkg | grep ran",
        needs: &[Need::Program("npm")],
        ..BASE
    },
    Work {
        id: "W-07b",
        what: "node with workers, timers, files and a socket in the folder for temporary files",
        script: "node -e 'const n=require(\"net\"),p=require(\"path\"),o=require(\"os\");const f=p.join(o.tmpdir(),\"s\"+process.pid);\
                 const s=n.createServer(c=>c.end(\"hi\")).listen(f,()=>n.connect(f).on(\"data\",d=>{console.log(String(d));s.close()}));\
                 new (require(\"worker_threads\").Worker)(\"require(\\\"fs\\\").writeFileSync(\\\"by-worker\\\",\\\"x\\\")\",{eval:true})' | grep hi && test -s by-worker",
        needs: &[Need::Program("node")],
        ..BASE
    },
    Work {
        id: "W-08",
        what: "python with processes, semaphores and loops",
        script: r"cat > t.py <<'X'
import multiprocessing as m, asyncio, threading, tempfile

def f(x):
    return x * x

async def g():
    p = await asyncio.create_subprocess_exec('true')
    return await p.wait()

if __name__ == '__main__':
    with m.Pool(2) as p:
        assert p.map(f, [1, 2, 3]) == [1, 4, 9]
    assert asyncio.run(g()) == 0
    t = threading.Thread(target=f, args=(1,))
    t.start()
    t.join()
    tempfile.NamedTemporaryFile().close()
    print('fine')
X
python3 t.py | grep fine",
        needs: &[Need::Program("python3")],
        ..BASE
    },
    Work {
        id: "W-08b",
        what: "a virtual environment of python and a package of its own",
        script: "python3 -m venv env && mkdir -p own && printf 'from setuptools import setup\\nsetup(name=\"own\",version=\"1\",py_modules=[\"own\"])\\n' > own/setup.py && \
                 echo 'x = 7' > own/own.py && cat > wheel.py <<'X'\nimport zipfile\n\
z = zipfile.ZipFile('own-1-py3-none-any.whl', 'w')\nz.writestr('own.py', 'x = 7')\n\
z.writestr('own-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: own\\nVersion: 1\\n')\n\
z.writestr('own-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
z.writestr('own-1.dist-info/RECORD', '')\nz.close()\nX\n\
python3 wheel.py && env/bin/pip install -q --no-index --disable-pip-version-check ./own-1-py3-none-any.whl && env/bin/python -c 'import own; print(own.x)' | grep 7",
        needs: &[Need::Program("python3")],
        ..BASE
    },
    Work {
        id: "W-11",
        what: "gcc compiles, and threads run",
        script: "printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void *f(void *p){return p;}\\nint main(void){pthread_t t;\
                 if(pthread_create(&t,0,f,0)||pthread_join(t,0))return 1;puts(\"fine\");return 0;}\\n' > t.c && gcc -O1 -pthread t.c -o t && ./t | grep fine",
        needs: &[Need::Program("gcc")],
        ..BASE
    },
    Work {
        id: "W-12",
        what: "a debugger runs a program",
        script: "gdb -nx -batch -ex run -ex quit /bin/true 2>&1 | grep 'exited normally'",
        needs: &[Need::Program("gdb")],
        ..BASE
    },
    Work {
        id: "W-12b",
        what: "system calls of a program are traced",
        script: "strace -f -o trace true && grep -q exit_group trace",
        needs: &[Need::Program("strace")],
        ..BASE
    },
    Work {
        id: "W-14",
        what: "sqlite with a write-ahead log and locks",
        script: "sqlite3 d.db 'pragma journal_mode=wal; create table t(x); insert into t values(1); select x from t;' | grep 1 && \
                 flock d.lock true",
        needs: &[Need::Program("sqlite3")],
        ..BASE
    },
    Work {
        id: "W-15",
        what: "a server is reached by the session itself, also at a low port",
        script: "python3 -m http.server -b 127.0.0.1 8099 >/dev/null 2>&1 & s=$!; \
                 for i in $(seq 200); do exec 3<>/dev/tcp/127.0.0.1/8099 && break; sleep 0.02; done 2>/dev/null; \
                 printf 'GET /egg.yaml HTTP/1.0\\r\\n\\r\\n' >&3; grep -a LANG <&3; r=$?; kill $s; exit $r",
        needs: &[Need::Program("python3")],
        outside: false,
        ..BASE
    },
    Work {
        id: "W-15b",
        what: "a server at port 80",
        script: "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",80)); c=socket.create_connection((\"127.0.0.1\",80)); print(\"fine\")' | grep fine",
        needs: &[Need::Program("python3")],
        outside: false,
        ..BASE
    },
    Work {
        id: "W-16",
        what: "a service with a socket below /tmp and shared memory",
        script: "python3 -c 'import socket,os\nfrom multiprocessing import shared_memory as m\ns=socket.socket(socket.AF_UNIX); p=\"/tmp/own\"+str(os.getpid()); s.bind(p); s.listen(); c=socket.socket(socket.AF_UNIX); c.connect(p)\nh=m.SharedMemory(create=True,size=100); h.close(); h.unlink(); os.unlink(p); print(\"fine\")' | grep fine",
        needs: &[Need::Program("python3")],
        ..BASE
    },
    Work {
        id: "W-17",
        what: "loops on socket pairs, timers and events",
        script: "python3 -c 'import socket,select,os,signal\na,b=socket.socketpair(); a.send(b\"x\"); e=select.epoll(); e.register(b,select.EPOLLIN); assert e.poll(1); r,w=os.pipe2(os.O_CLOEXEC); signal.setitimer(signal.ITIMER_REAL,10); print(\"fine\")' | grep fine",
        needs: &[Need::Program("python3")],
        ..BASE
    },
    Work {
        id: "W-20",
        what: "locale, time zone, and users by name",
        script: "LC_ALL=C.UTF-8 locale charmap | grep UTF-8 && TZ=Europe/Berlin date && id -u && getent passwd root && getent hosts localhost",
        ..BASE
    },
    Work {
        id: "W-21",
        what: "roots of trust are readable",
        script: "test -r /etc/ssl/certs/ca-certificates.crt || test -r /etc/pki/tls/certs/ca-bundle.crt",
        ..BASE
    },
    Work {
        id: "W-24",
        what: "files are watched",
        script: "mkdir -p many && (cd many && seq 1 500 | xargs mkdir) && for i in $(seq 1 20); do $PROBE watch many/$i || exit 1; done >/dev/null",
        ..BASE
    },
    Work {
        id: "W-25",
        what: "a project is edited as editors do it",
        script: "echo new > src/main.c.tmp && mv src/main.c.tmp src/main.c && mkdir -p a/b && mv a c && rm -rf c && ln -s src/main.c l && \
                 cp -r src copy && chmod +x copy/main.c && touch -d 2001-01-01 copy/main.c && truncate -s 100 copy/main.c && grep -q new l",
        ..BASE
    },
    Work {
        id: "W-26",
        what: "caches of tools can be written",
        script: "mkdir -p $H/.cache/new && echo x > $H/.cache/new/x && echo x > ${TMPDIR:-/tmp}/x-$TOKEN && rm ${TMPDIR:-/tmp}/x-$TOKEN && echo x > /dev/shm/x-$TOKEN && echo x > /var/tmp/x-$TOKEN && rm /dev/shm/x-$TOKEN /var/tmp/x-$TOKEN",
        ..BASE
    },
    Work {
        id: "W-27",
        what: "make and shell scripts",
        script: "printf 'all:\\n\\t@echo made\\n' > Makefile && make -s | grep made && printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s | grep ran",
        needs: &[Need::Program("make")],
        ..BASE
    },
];
