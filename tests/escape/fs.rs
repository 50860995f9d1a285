//! Attacks on files: what is denied is read, what is read-only is written, what is protected is
//! moved away or covered.

use crate::case::{
    CASE, CORE, Case, DENIED, DEV, L, Need, Outside, PIN, PROC_MASK, PROTECTED, Place, SYS_MASK,
    TMP, WRITABLE, Without,
};

const REFUSED: &[&str] = &["Permission denied", "EACCES"];
const READ_ONLY: &[&str] = &[
    "Read-only file system",
    "EROFS",
    "Permission denied",
    "EACCES",
];
const BUSY: &[&str] = &["busy", "EBUSY"];
const CROSS: &[&str] = &["ross-device link", "EXDEV"];
const EPERM: &[&str] = &["EPERM", "not permitted"];

/// What stops all that makes or changes mounts.
const MOUNTING: &[L] = &[L::Seccomp, L::Landlock, L::Capabilities, L::SecondUser];
const NEEDS_RIGHTS: &str = "its call wants a right in the machine's own namespace of users";

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "FS-01",
        what: "a denied folder is listed and read",
        attack: "ls $H/.aws && cat $H/.aws/credentials",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-01b",
        what: "a denied folder with something readable in it is listed and read",
        attack: "ls $H/.ssh && cat $H/.ssh/id_fix",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-02",
        what: "a denied file is read",
        attack: "grep . $H/.netrc",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-04",
        what: "a link in the project leads to something denied",
        attack: "ln -s $H/.aws/credentials l && cat l",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-05",
        what: "a denied file gets a second name in the project",
        attack: "ln $H/.netrc h && cat h",
        expect: CROSS,
        layers: &[DENIED, L::ReadOnly, WRITABLE, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-06",
        what: "a read-only file gets a second name in the project and is written",
        attack: "ln $H/.profile h && echo x >> h",
        expect: CROSS,
        layers: &[L::ReadOnly, WRITABLE, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-07",
        what: "a file that shells run is written",
        attack: "echo x >> $H/.bashrc",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-07b",
        what: "a new file is made in the home directory",
        attack: "echo x > $H/new-$TOKEN",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-09",
        what: "a file of the system is opened for writing",
        attack: ": >> /etc/passwd",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "FS-09b",
        what: "a place of the host that everybody may write is written",
        attack: "echo x > /mnt/file-$TOKEN",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        needs: &[Need::Surroundings],
        ..CASE
    },
    Case {
        id: "FS-10",
        what: "something is planted in a denied folder",
        attack: "echo x > $H/.aws/planted",
        expect: READ_ONLY,
        layers: &[DENIED, L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-11",
        what: "a denied folder is moved into the project",
        attack: "mv $H/.aws s; grep -r . s/credentials",
        expect: &["cannot", "busy", "Permission denied", "Read-only"],
        teardown: "chmod -fR u+rwx $P/s",
        layers: &[DENIED, L::ReadOnly, L::Landlock, WRITABLE],
        ..CASE
    },
    Case {
        id: "FS-12",
        what: "a protected file is replaced by renaming",
        attack: "echo 'network: \"*\"' > new && mv -f new egg.yaml",
        expect: BUSY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-12b",
        what: "a protected file is removed",
        attack: "rm -f egg.yaml",
        expect: BUSY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-14",
        what: "the folder around protected hooks is moved away and made again",
        attack: "mv .git x && cp -r x .git && echo x > .git/hooks/pre-commit",
        expect: BUSY,
        layers: &[PIN, PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-15",
        what: "the folder around protected hooks is swapped with another",
        attack: "mkdir -p xx/hooks && $PROBE exchange .git xx && echo x > .git/hooks/pre-commit",
        expect: BUSY,
        layers: &[PIN, PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-16",
        what: "the project itself is moved",
        attack: "mv $P $P.moved && mv $P.moved $P",
        expect: &["busy", "Read-only", "Permission denied"],
        layers: &[L::ReadOnly, WRITABLE, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-16b",
        what: "a folder above a project below /tmp is moved",
        attack: "D=${H%/h}; mv $D /tmp/moved-$TOKEN && mv /tmp/moved-$TOKEN $D",
        expect: BUSY,
        layers: &[PIN, WRITABLE],
        place: Place::Tmp,
        ..CASE
    },
    Case {
        id: "FS-16c",
        what: "hooks of a project below /tmp are written",
        attack: "echo x > .git/hooks/pre-commit",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        place: Place::Tmp,
        ..CASE
    },
    Case {
        id: "FS-16d",
        what: "secrets of a home directory below /tmp are read",
        attack: "cat $H/.aws/credentials $H/.netrc",
        expect: &["Permission denied", "No such file"],
        layers: &[DENIED, TMP, PIN],
        place: Place::Tmp,
        ..CASE
    },
    Case {
        id: "FS-17",
        what: "a protected folder is removed and made again",
        attack: "rm -rf .git/hooks; mkdir .git/hooks && echo x > .git/hooks/pre-commit",
        expect: &["busy", "Read-only"],
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-19",
        what: "a secret is read through the root of the first process",
        attack: "cat /proc/1/root$H/.aws/credentials",
        expect: REFUSED,
        layers: &[L::Init, L::Landlock, DENIED],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "FS-19b",
        what: "a secret is read through the working directory of the first process",
        attack: "ls /proc/1/cwd/",
        expect: REFUSED,
        layers: &[L::Init, L::Landlock],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "FS-20",
        what: "descriptors of the first process are looked at",
        attack: "ls -l /proc/1/fd/",
        expect: REFUSED,
        layers: &[L::Init, L::Landlock],
        outside: Outside::Skipped("it is the first process of the machine"),
        ..CASE
    },
    Case {
        id: "FS-21",
        what: "descriptors of the maker are inherited",
        attack: "$PROBE descriptors",
        expect: &["none but the standard ones"],
        layers: &[L::Descriptors],
        outside: Outside::Skipped(
            "the maker of the suite leaks none on purpose; wt-sandbox tests that",
        ),
        without: Without::Refused("the stage closes everything at its start as well"),
        ..CASE
    },
    Case {
        id: "FS-24",
        what: "a file without a name is linked into a protected folder",
        attack: "$PROBE link-unnamed . .git/hooks/pre-commit",
        expect: &["EXDEV", "EROFS"],
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-25",
        what: "a file system is mounted",
        attack: "mkdir m && $PROBE sc mount s:none s:$P/m s:tmpfs 0 0",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        teardown: "umount $P/m",
        ..CASE
    },
    Case {
        id: "FS-25b",
        what: "a folder is mounted over a protected one",
        attack: "mkdir -p m && $PROBE sc mount s:$P/m s:$P/.git/hooks 0 0x1000 0",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        teardown: "umount $P/.git/hooks",
        ..CASE
    },
    Case {
        id: "FS-26",
        what: "what hides a secret is unmounted",
        attack: "$PROBE sc umount2 s:$H/.aws 2 && cat $H/.aws/credentials",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::Twin("! cat $H/.aws/credentials"),
        ..CASE
    },
    Case {
        id: "FS-26b",
        what: "a read-only mount is made writable",
        attack: "$PROBE sc mount 0 s:/ 0 0x1020 0",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::Skipped("it would change the mounts of the machine"),
        ..CASE
    },
    Case {
        id: "FS-27",
        what: "the calls of the new mount interface",
        attack: "r=1; for call in 'open_tree -100 s:/ 1' 'fsopen s:tmpfs 0' \
                 'fspick -100 s:/ 0' 'mount_setattr -1 s: 0x1000 z:32 32'; \
                 do $PROBE sc $call && r=0; done; exit $r",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "FS-29",
        what: "an overlay is mounted over a protected folder",
        attack: "mkdir -p a b && $PROBE sc mount s:o s:$P/b s:overlay 0 s:lowerdir=$P/a:$P/src",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        teardown: "umount $P/b",
        ..CASE
    },
    Case {
        id: "FS-30",
        what: "a file system of its own is made with FUSE",
        attack: ": <> /dev/fuse",
        expect: &["No such file", "Permission denied", "Read-only"],
        layers: &[DEV],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(
            "devices of the host do not work where the host's tree is mounted",
        ),
        needs: &[Need::Path("/dev/fuse")],
        ..CASE
    },
    Case {
        id: "FS-31",
        what: "a file is opened by its handle, past the folders that hide it",
        attack: "$PROBE handle $H/.netrc",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(NEEDS_RIGHTS),
        ..CASE
    },
    Case {
        id: "FS-32",
        what: "a disk gets a name in the project",
        attack: "mknod disk b 7 99",
        expect: &["Permission denied", "not permitted"],
        layers: &[L::Landlock, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        without: Without::Refused(NEEDS_RIGHTS),
        teardown: "rm -f $P/disk",
        ..CASE
    },
    Case {
        id: "FS-34",
        what: "the root directory is changed",
        attack: "$PROBE sc chroot s:/usr",
        expect: EPERM,
        layers: &[L::Seccomp, L::Capabilities, L::SecondUser],
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "FS-35",
        what: "the root file system is exchanged",
        attack: "o=$($PROBE sc pivot_root s:/nowhere s:/nowhere); echo $o; test \"$o\" = ENOENT",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "FS-36",
        what: "a denied folder is watched",
        attack: "$PROBE watch $H/.aws/credentials",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-37",
        what: "whole file systems are watched",
        attack: "$PROBE sc fanotify_init 0x200 0",
        expect: &["ENOSYS"],
        layers: &[L::Seccomp],
        ..CASE
    },
    Case {
        id: "FS-37b",
        what: "the readable part of the home directory is watched",
        attack: "$PROBE watch $H",
        residual: "what is readable can be watched, which tells when its user works there",
        ..CASE
    },
    Case {
        id: "FS-39",
        what: "a forged .git file opens another repository",
        setup: "rm -rf .git; echo gitdir: $H/other/.git/worktrees/x > .git",
        attack: "echo x > $H/other/.git/hook",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-40",
        what: "the project is swapped between the plan and the start",
        between: "mv $P $P.o; cp -r $H/.aws $P",
        attack: "cat credentials",
        expect: &["identity of", "is not there"],
        layers: &[L::Identity, PROTECTED, PIN],
        outside: Outside::Skipped("there is no plan outside"),
        never_starts: true,
        ..CASE
    },
    Case {
        id: "FS-40b",
        what: "the project is swapped for a link between the plan and the start",
        between: "mv $P $P.o; ln -s $H/.aws $P",
        attack: "cat credentials",
        expect: &["identity of"],
        layers: &[L::Identity],
        outside: Outside::Skipped("there is no plan outside"),
        without: Without::Refused("no link is followed where the plan had none"),
        never_starts: true,
        ..CASE
    },
    Case {
        id: "FS-41",
        what: "a cache is a link to something denied",
        setup: "rm -rf $H/.cache; ln -s $H/.aws $H/.cache",
        attack: "cat $H/.cache/credentials",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-42",
        what: "a denied path is a link that the session could replace",
        setup: "mkdir $H/store; echo $CANARY > $H/store/key; ln -s $H/store secrets",
        policy: "fs: ['deny:./secrets']\n",
        attack: "cat secrets/key",
        expect: &["could replace"],
        outside: Outside::Succeeds,
        without: Without::Refused("the plan is not made at all"),
        never_starts: true,
        ..CASE
    },
    Case {
        id: "FS-44",
        what: "a protected name in other letters",
        attack: "test -e EGG.YAML && echo x > EGG.YAML",
        expect: READ_ONLY,
        needs: &[Need::Path("/sys/fs/ext4/features/casefold-is-in-use")],
        ..CASE
    },
    Case {
        id: "FS-45",
        what: "a denial that is spelled with doubled and final slashes",
        policy: "fs: ['deny:~//closet//']\n",
        attack: "cat $H/closet/key",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-45b",
        what: "a denial that leads upwards",
        policy: "fs: ['deny:~/project/../closet']\n",
        attack: "cat $H/closet/key",
        expect: &["upwards"],
        without: Without::Refused("the policy is refused with its line"),
        never_starts: true,
        ..CASE
    },
    Case {
        id: "FS-46",
        what: "a denied folder is mounted elsewhere too",
        setup: "mkdir -p /mnt/alias-$TOKEN && mount --bind $H/.aws /mnt/alias-$TOKEN",
        attack: "cat /mnt/alias-$TOKEN/credentials",
        teardown: "umount /mnt/alias-$TOKEN; rmdir /mnt/alias-$TOKEN",
        expect: REFUSED,
        layers: &[DENIED],
        needs: &[Need::Surroundings, Need::Root],
        ..CASE
    },
    Case {
        id: "FS-47",
        what: "an earlier state of the home directory is read",
        attack: "cat $H/.snapshots/1/id_fix",
        expect: REFUSED,
        layers: &[DENIED],
        ..CASE
    },
    Case {
        id: "FS-49",
        what: "the program for core dumps is set",
        attack: "f=/proc/sys/kernel/core_pattern; v=$(cat $f); printf %s \"$v\" > $f",
        expect: READ_ONLY,
        layers: &[PROC_MASK, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        ..CASE
    },
    Case {
        id: "FS-50",
        what: "the kernel's emergency keys are opened",
        attack: ": > /proc/sysrq-trigger",
        expect: READ_ONLY,
        layers: &[PROC_MASK, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        needs: &[Need::Path("/proc/sysrq-trigger")],
        ..CASE
    },
    Case {
        id: "FS-51",
        what: "a setting of the kernel below /sys is written",
        attack: "f=/sys/kernel/mm/ksm/run; v=$(cat $f); printf %s \"$v\" > $f",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        needs: &[Need::Path("/sys/kernel/mm/ksm/run")],
        ..CASE
    },
    Case {
        id: "FS-52",
        what: "the program for empty control groups is set",
        attack: "f=$(find /sys/fs/cgroup -maxdepth 2 -name release_agent | head -1); echo \"in $f\"; \
                 : >> \"$f\"",
        expect: &["No such file", "Read-only", "Permission denied"],
        layers: &[SYS_MASK, L::ReadOnly, L::Landlock],
        outside: Outside::SucceedsForRoot,
        without: Without::SucceedsForRoot,
        needs: &[Need::Path("/sys/fs/cgroup/memory/release_agent")],
        ..CASE
    },
    Case {
        id: "FS-54",
        what: "temporary files of others are read",
        attack: "grep . $TMPFILE",
        expect: &["No such file"],
        layers: &[TMP],
        ..CASE
    },
    Case {
        id: "FS-56",
        what: "the mode of a read-only file is changed",
        attack: "chmod 777 $H/.profile",
        expect: READ_ONLY,
        layers: &[L::ReadOnly],
        ..CASE
    },
    Case {
        id: "FS-56b",
        what: "the times of a read-only file are changed",
        attack: "touch -d 2001-01-01 $H/.profile && test $H/.profile -ot $H/.bashrc",
        expect: READ_ONLY,
        layers: &[L::ReadOnly],
        ..CASE
    },
    Case {
        id: "FS-57",
        what: "a file that is open for reading is written through memory",
        attack: "$PROBE map-write $H/.profile",
        expect: REFUSED,
        outside: Outside::Skipped("the kernel refuses it everywhere"),
        without: Without::Refused("the kernel refuses it everywhere"),
        ..CASE
    },
    Case {
        id: "FS-59",
        what: "an archive with absolute names is unpacked",
        setup: "cp $H/.bashrc keep; echo x >> $H/.bashrc; tar -Pcf evil.tar $H/.bashrc; cat keep > $H/.bashrc",
        attack: "tar -Pxf evil.tar",
        expect: &["File exists", "Read-only", "Permission denied"],
        layers: &[L::ReadOnly, L::Landlock],
        ..CASE
    },
    Case {
        id: "FS-60",
        what: "the program that holds sessions is overwritten where it lies in the project",
        attack: "echo x > tool/wt",
        expect: READ_ONLY,
        layers: &[PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-60b",
        what: "the folder of that program is moved away",
        attack: "mv tool x && mkdir tool && echo x > tool/wt",
        expect: BUSY,
        layers: &[PIN, PROTECTED],
        ..CASE
    },
    Case {
        id: "FS-61",
        what: "a program that is only in memory does what is refused",
        attack: "mkdir -p m && $PROBE in-memory $PROBE sc mount s:none s:$P/m s:tmpfs 0 0",
        expect: EPERM,
        layers: MOUNTING,
        outside: Outside::SucceedsForRoot,
        teardown: "umount $P/m",
        ..CASE
    },
    Case {
        id: "FS-63",
        what: "wingthing's own directory is read inside the project",
        attack: "cat .wt/identity.key",
        expect: REFUSED,
        layers: &[CORE],
        place: Place::ProfileInProject,
        ..CASE
    },
    Case {
        id: "FS-63b",
        what: "wingthing's own directory inside the project is moved away",
        attack: "mv .wt x && cat x/identity.key",
        expect: &["busy", "Read-only"],
        layers: &[CORE],
        without: Without::Refused("a project that holds the directory stays read-only"),
        place: Place::ProfileInProject,
        ..CASE
    },
    Case {
        id: "FS-64",
        what: "the home directory is written by a session that starts in it",
        attack: "echo x > new-$TOKEN",
        expect: READ_ONLY,
        layers: &[L::ReadOnly, L::Landlock],
        place: Place::StartsAtHome,
        ..CASE
    },
];
