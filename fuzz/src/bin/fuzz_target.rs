//! One target under libFuzzer: the one that `WT_FUZZ_TARGET` names. See `fuzz/run`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<wt_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("WT_FUZZ_TARGET").expect("WT_FUZZ_TARGET names a target");
    let known = wt_fuzz::TARGETS.iter().find(|(known, _)| *known == name);
    known.expect("WT_FUZZ_TARGET names a known target").1
});

fuzz_target!(|data: &[u8]| TARGET(data));
