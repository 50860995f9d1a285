//! Carries rows out, and says what came of each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use nix::unistd::Uid;

use crate::case::{CASE, Case, L, Need, Outside, Place, Without};
use crate::surroundings::{CANARY, are_made};
use crate::world::{Ran, World};

/// Something that a session must be able to do.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    /// For bash; it ends with 0 when all went well.
    pub(crate) script: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) policy: &'static str,
    pub(crate) setup: &'static str,
    pub(crate) place: Place,
    pub(crate) terminal: bool,
    /// Whether it works outside as well, where it is tried first.
    pub(crate) outside: bool,
}

/// What most of them have in common.
pub(crate) const WORK: Work = Work {
    id: "",
    what: "",
    script: "",
    needs: &[],
    policy: "",
    setup: "",
    place: Place::Home,
    terminal: false,
    outside: true,
};

/// A case that is more than one script.
#[derive(Clone, Copy)]
pub(crate) struct Special {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn() -> Verdict,
}

/// What came of one case.
pub(crate) enum Verdict {
    /// It holds; what was seen in a few words.
    Holds(String),
    /// It does not.
    Fails(String),
    /// It was not tried.
    Skipped(String),
}

/// One line of the table.
struct Line {
    area: &'static str,
    id: &'static str,
    what: &'static str,
    verdict: Verdict,
    /// Layers that are alone in stopping it.
    single_points: Vec<L>,
    /// Parts that were left out, with the reason.
    partly: Vec<String>,
    /// A gap that is known.
    residual: &'static str,
}

/// Attacks of the reference that are tried somewhere else, or not at all: id, what, why.
pub(crate) type Elsewhere = (&'static str, &'static str, &'static str);

#[derive(Clone, Copy)]
enum Item {
    Elsewhere(&'static Elsewhere),
    Attack(&'static Case),
    Work(&'static Work),
    Special(&'static Special),
}

impl Item {
    fn id(&self) -> &'static str {
        match self {
            Self::Elsewhere((id, ..)) => id,
            Self::Attack(case) => case.id,
            Self::Work(work) => work.id,
            Self::Special(special) => special.id,
        }
    }
}

type Area = (&'static str, &'static [Case], &'static [Work]);
type SpecialArea = (&'static str, &'static [Special]);

/// Runs all that the filter lets through. Gives whether everything holds.
pub(crate) fn run(
    areas: &[Area],
    specials: &[SpecialArea],
    elsewhere: (&'static str, &'static [Elsewhere]),
    filter: Option<&str>,
) -> bool {
    let began = Instant::now();
    let mut items: Vec<(&'static str, Item)> = Vec::new();
    for (area, cases, works) in areas {
        items.extend(cases.iter().map(|case| (*area, Item::Attack(case))));
        items.extend(works.iter().map(|work| (*area, Item::Work(work))));
    }
    for (area, list) in specials {
        items.extend(list.iter().map(|special| (*area, Item::Special(special))));
    }
    items.extend(
        elsewhere
            .1
            .iter()
            .map(|row| (elsewhere.0, Item::Elsewhere(row))),
    );
    items.retain(|(area, item)| {
        filter.is_none_or(|filter| area.contains(filter) || item.id().contains(filter))
    });
    // Each waits more than it computes.
    let workers = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let lines: Mutex<BTreeMap<usize, Line>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((area, item)) = items.get(index) else {
                        return;
                    };
                    let line = guarded(area, *item);
                    lines.lock().unwrap().insert(index, line);
                }
            });
        }
    });
    let lines: Vec<Line> = lines.into_inner().unwrap().into_values().collect();
    report(&lines, began)
}

/// Runs one, and takes a panic for a failure.
fn guarded(area: &'static str, item: Item) -> Line {
    let result = catch_unwind(AssertUnwindSafe(|| match item {
        Item::Elsewhere((_, _, why)) => {
            let verdict = Verdict::Skipped((*why).to_owned());
            (verdict, Vec::new(), Vec::new())
        }
        Item::Attack(case) => attack(case),
        Item::Work(work) => (carry_out(work), Vec::new(), Vec::new()),
        Item::Special(special) => ((special.run)(), Vec::new(), Vec::new()),
    }));
    let (verdict, single_points, partly) = result.unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        let verdict = Verdict::Fails(why.unwrap_or_else(|| "it panicked".to_owned()));
        (verdict, Vec::new(), Vec::new())
    });
    let (what, residual) = match item {
        Item::Elsewhere((_, what, _)) => (*what, ""),
        Item::Attack(case) => (case.what, case.residual),
        Item::Work(work) => (work.what, ""),
        Item::Special(special) => (special.what, ""),
    };
    Line {
        area,
        id: item.id(),
        what,
        verdict,
        single_points,
        partly,
        residual,
    }
}

/// What a host lacks for a case, if anything.
fn lacking(needs: &[Need]) -> Option<String> {
    let is_root = Uid::effective().is_root();
    needs.iter().find_map(|need| match need {
        Need::Surroundings => {
            (!are_made()).then(|| "it needs the network that the superuser makes".to_owned())
        }
        Need::Root => (!is_root).then(|| "it needs the superuser".to_owned()),
        Need::User => is_root.then(|| "it is about an ordinary user".to_owned()),
        Need::X86 => {
            (!cfg!(target_arch = "x86_64")).then(|| "it is about another processor".to_owned())
        }
        Need::Path(path) => (!Path::new(path).exists()).then(|| format!("there is no {path} here")),
        Need::Program(name) => {
            let found = std::env::var("PATH")
                .unwrap_or_default()
                .split(':')
                .any(|folder| {
                    let file = Path::new(folder).join(name);
                    nix::unistd::access(&file, nix::unistd::AccessFlags::X_OK).is_ok()
                });
            (!found).then(|| format!("{name} is not installed for this user"))
        }
    })
}

/// A new world for one try.
fn prepared(case: &Case) -> Result<World, String> {
    let mut world = World::new(case.place);
    let all = [case.setup, case.attack, case.teardown].join(" ");
    world.populate(&all);
    if !case.setup.is_empty() {
        let ran = world.outside(case.setup, false);
        if !ran.ok {
            return Err(format!("the preparation failed: {}", ran.output.trim()));
        }
    }
    Ok(world)
}

fn clear_up(case: &Case, world: &World) {
    if !case.teardown.is_empty() {
        let _ = world.outside(case.teardown, false);
    }
}

/// One attack: without a boundary, inside, and without layers.
fn attack(case: &Case) -> (Verdict, Vec<L>, Vec<String>) {
    let mut partly = Vec::new();
    if let Some(lack) = lacking(case.needs) {
        return (Verdict::Skipped(lack), Vec::new(), partly);
    }
    match attack_inner(case, &mut partly) {
        Ok((said, single_points)) => (Verdict::Holds(said), single_points, partly),
        Err(why) => (Verdict::Fails(why), Vec::new(), partly),
    }
}

fn attack_inner(case: &Case, partly: &mut Vec<String>) -> Result<(String, Vec<L>), String> {
    let is_root = Uid::effective().is_root();
    // Without a boundary.
    let tries_outside = match case.outside {
        Outside::Succeeds => true,
        Outside::SucceedsForRoot => is_root,
        Outside::Skipped(_) | Outside::Twin(_) => false,
    };
    if tries_outside {
        let mut world = prepared(case)?;
        if !case.between.is_empty() && case.between.starts_with("listen ") {
            world.listen(case.between.trim_start_matches("listen "));
        }
        let ran = world.outside(case.attack, case.terminal);
        clear_up(case, &world);
        if !ran.ok {
            return Err(format!("it fails even without a boundary: {}", told(&ran)));
        }
    } else {
        match case.outside {
            Outside::Skipped(why) => partly.push(format!("not tried outside: {why}")),
            Outside::SucceedsForRoot => {
                partly.push("not tried outside: the system refuses it to this user".to_owned());
            }
            Outside::Succeeds | Outside::Twin(_) => {}
        }
    }
    if let Outside::Twin(twin) = case.outside {
        let mut world = prepared(case)?;
        let ran = world.inside(case, twin, &[]);
        clear_up(case, &world);
        match ran {
            Ok(ran) if ran.ok => {}
            Ok(ran) => return Err(format!("the twin fails inside: {}", told(&ran))),
            Err(error) => return Err(format!("the twin does not start: {error}")),
        }
    }

    // Inside.
    let said = inside(case)?;
    if !case.residual.is_empty() {
        return Ok((said, Vec::new()));
    }

    // Without all of its layers, and without each one.
    if case.layers.is_empty() {
        match case.without {
            Without::Refused(why) => partly.push(format!("no layer to take out: {why}")),
            Without::Succeeds | Without::SucceedsForRoot => {
                return Err("the row names no layer and gives no reason".to_owned());
            }
        }
        return Ok((said, Vec::new()));
    }
    let all = succeeds_without(case, case.layers);
    match (case.without, all) {
        (Without::Succeeds, Ok(_)) => {}
        (Without::SucceedsForRoot, Ok(_)) if is_root => {}
        (Without::SucceedsForRoot, _) if !is_root => {
            partly
                .push("refused without its layers: the system refuses it to this user".to_owned());
        }
        (Without::Refused(why), Err(_)) => {
            partly.push(format!("refused without its layers: {why}"));
        }
        (Without::Refused(why), Ok(_)) => {
            return Err(format!("it succeeds without its layers, against: {why}"));
        }
        (Without::Succeeds | Without::SucceedsForRoot, Err(error)) => {
            return Err(format!("it fails even without its layers: {error}"));
        }
        (Without::SucceedsForRoot, Ok(_)) => {}
    }
    let singles = if let [only] = case.layers {
        let flips = !matches!(case.without, Without::Refused(_));
        flips.then_some(*only).into_iter().collect()
    } else {
        let alone = |layer: &&L| succeeds_without(case, &[**layer]).is_ok();
        case.layers.iter().filter(alone).copied().collect()
    };
    Ok((said, singles))
}

/// The attack inside: it fails with the named error, and leaves no trace.
fn inside(case: &Case) -> Result<String, String> {
    let mut world = prepared(case)?;
    let before = world.manifest();
    let result = world.inside(case, case.attack, &[]);
    let after = world.manifest();
    clear_up(case, &world);
    let named = |text: &str| {
        case.expect
            .iter()
            .find(|expected| text.contains(**expected))
    };
    let ran = match result {
        Err(error) if case.never_starts => {
            return named(&error)
                .map(|expected| format!("never starts: {expected}"))
                .ok_or_else(|| format!("it does not start for another reason: {error}"));
        }
        // It is named where a host may lack what a limit takes: then nothing starts.
        Err(error) => {
            return named(&error)
                .map(|expected| format!("nothing starts: {expected}"))
                .ok_or_else(|| format!("the session does not start: {error}"));
        }
        Ok(_) if case.never_starts => return Err("the session starts".to_owned()),
        Ok(ran) => ran,
    };
    if !case.residual.is_empty() {
        let now = if ran.ok { "succeeds" } else { "is refused" };
        return Ok(format!("it {now}, as is known"));
    }
    if ran.ok {
        return Err(format!("IT SUCCEEDS: {}", told(&ran)));
    }
    if ran.output.contains(CANARY) {
        return Err(format!("a secret is printed: {}", told(&ran)));
    }
    if ran.output.contains("took too long") {
        return Err(format!("it hangs: {}", told(&ran)));
    }
    if !ran.traces.is_empty() {
        return Err(format!("the host saw it: {}", ran.traces.join(", ")));
    }
    // What is done between plan and start changes the home by itself.
    if case.between.is_empty() && before != after {
        let changed = before
            .iter()
            .filter(|(path, about)| after.get(*path) != Some(*about))
            .map(|(path, _)| path)
            .chain(after.keys().filter(|path| !before.contains_key(*path)));
        let changed: Vec<_> = changed.cloned().collect();
        return Err(format!("files of the host changed: {}", changed.join(", ")));
    }
    named(&ran.output)
        .map(|expected| format!("refused: {expected}"))
        .ok_or_else(|| format!("refused with another error: {}", told(&ran)))
}

fn succeeds_without(case: &Case, layers: &[L]) -> Result<(), String> {
    let mut world = prepared(case)?;
    let result = world.inside(case, case.attack, layers);
    clear_up(case, &world);
    match result {
        Ok(ran) if ran.ok => Ok(()),
        Ok(ran) => Err(told(&ran)),
        Err(error) => Err(format!("the session does not start: {error}")),
    }
}

/// Something that must work: outside, unless that makes no sense, and inside.
fn carry_out(work: &Work) -> Verdict {
    if let Some(lack) = lacking(work.needs) {
        return Verdict::Skipped(lack);
    }
    let case = Case {
        id: work.id,
        attack: work.script,
        setup: work.setup,
        policy: work.policy,
        place: work.place,
        terminal: work.terminal,
        ..CASE
    };
    if work.outside {
        let world = match prepared(&case) {
            Ok(world) => world,
            Err(error) => return Verdict::Skipped(error),
        };
        let ran = world.outside(work.script, work.terminal);
        if !ran.ok {
            return Verdict::Skipped(format!("it does not work outside either: {}", told(&ran)));
        }
    }
    let mut world = match prepared(&case) {
        Ok(world) => world,
        Err(error) => return Verdict::Fails(error),
    };
    match world.inside(&case, work.script, &[]) {
        Ok(ran) if ran.ok => Verdict::Holds("works".to_owned()),
        Ok(ran) => Verdict::Fails(told(&ran)),
        Err(error) => Verdict::Fails(format!("the session does not start: {error}")),
    }
}

/// What a script printed, in one line that fits a table.
fn told(ran: &Ran) -> String {
    const SHOWN: usize = 400;
    let text: Vec<&str> = ran.output.split_whitespace().collect();
    let text = text.join(" ");
    let skipped = text.chars().count().saturating_sub(SHOWN);
    let text: String = text.chars().skip(skipped).collect();
    format!("{}: {}", ran.status, text.escape_debug())
}

/// Prints the table and the counts. Gives whether everything holds.
fn report(lines: &[Line], began: Instant) -> bool {
    let user = if Uid::effective().is_root() {
        "superuser"
    } else {
        "ordinary user"
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut area = "";
    for line in lines {
        if line.area != area {
            area = line.area;
            println!("\n== {area} ({user})");
        }
        let (word, said) = match &line.verdict {
            Verdict::Holds(said) => {
                passed += 1;
                ("ok", said)
            }
            Verdict::Fails(why) => {
                failed += 1;
                ("FAILED", why)
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                ("skipped", why)
            }
        };
        println!("test {} {} ... {word}: {said}", line.id, line.what);
    }
    println!("\n== single points of failure ({user}): one layer alone stops these");
    for line in lines.iter().filter(|line| !line.single_points.is_empty()) {
        let layers: Vec<String> = line.single_points.iter().map(L::to_string).collect();
        println!("  {:8} {} [{}]", line.id, line.what, layers.join(", "));
    }
    println!("\n== known gaps ({user})");
    for line in lines.iter().filter(|line| !line.residual.is_empty()) {
        println!("  {:8} {}: {}", line.id, line.what, line.residual);
    }
    println!("\n== left out ({user})");
    for line in lines {
        for part in &line.partly {
            println!("  {:8} {}: {part}", line.id, line.what);
        }
        if let Verdict::Skipped(why) = &line.verdict {
            println!("skipped: escape ({user}) {} {}: {why}", line.id, line.what);
        }
    }
    println!("\n== failures ({user})");
    for line in lines {
        if let Verdict::Fails(why) = &line.verdict {
            println!("  {:8} {}: {why}", line.id, line.what);
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; 0 filtered out; finished in {:.1}s\n",
        began.elapsed().as_secs_f32()
    );
    failed == 0
}
