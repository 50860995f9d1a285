//! Helpers of tests that change the process they run in.

use std::env;
use std::process::Command;

/// Set in the process that a test starts for itself.
const CHILD: &str = "WT_SANDBOX_TEST_CHILD";

/// Runs the body of a test in a process of its own: the test program again, with this test
/// alone. `name` is the test's full name.
pub(crate) fn in_own_process(name: &str, body: impl FnOnce()) {
    if env::var_os(CHILD).is_some_and(|value| value == name) {
        body();
        return;
    }
    let output = Command::new(env::current_exe().expect("a test knows its program"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .output()
        .expect("a test program can be started again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name} in its own process: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
}
