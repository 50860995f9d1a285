//! Numbers of several rounds, their medians and ratios, as JSON and as a table.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;
use crate::scenarios::Sizes;

/// All that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Version of this document.
    pub(crate) version: u32,
    /// What it was measured on.
    pub(crate) machine: Machine,
    /// How it was measured.
    pub(crate) settings: Settings,
    /// How long the run took.
    pub(crate) elapsed_seconds: f64,
    /// What was measured.
    pub(crate) scenarios: Vec<ScenarioReport>,
}

/// How a run was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) mib: u64,
    pub(crate) seconds: f64,
    pub(crate) sizes: Sizes,
}

/// What one scenario found, or why it did not.
#[derive(Debug, Serialize)]
pub(crate) struct ScenarioReport {
    pub(crate) name: &'static str,
    pub(crate) rounds: u32,
    pub(crate) error: Option<String>,
    pub(crate) measures: Vec<Measure>,
    pub(crate) ratios: Vec<Ratio>,
    /// What was skipped and why, and what a reader must know.
    pub(crate) notes: Vec<String>,
}

/// One number, over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Measure {
    pub(crate) id: String,
    pub(crate) unit: &'static str,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

/// One number over another of the same round, over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) id: String,
    pub(crate) of: String,
    pub(crate) to: String,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

/// The middle and the ends of the rounds' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The numbers of a scenario, round by round, in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct Series {
    measures: Vec<(String, &'static str, Vec<f64>)>,
    ratios: Vec<(String, String, String)>,
    notes: Vec<String>,
}

impl Series {
    /// Enters a number of this round.
    pub(crate) fn enter(&mut self, id: impl Into<String>, unit: &'static str, value: f64) {
        let id = id.into();
        match self.measures.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, _, values)) => values.push(value),
            None => self.measures.push((id, unit, vec![value])),
        }
    }

    /// Asks for a ratio of two numbers, each round's of its own round.
    pub(crate) fn ratio(&mut self, id: &str, of: &str, to: &str) {
        self.ratios
            .push((id.to_owned(), of.to_owned(), to.to_owned()));
    }

    /// Says what was skipped and why, or what a reader must know.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn values(&self, id: &str) -> &[f64] {
        self.measures
            .iter()
            .find(|(known, ..)| known == id)
            .map_or(&[], |(_, _, values)| values)
    }

    fn measures(&self) -> Vec<Measure> {
        let measures = self.measures.iter().filter_map(|(id, unit, values)| {
            Some(Measure {
                id: id.clone(),
                unit,
                spread: Spread::of(values)?,
            })
        });
        measures.collect()
    }

    fn ratios(&self) -> Vec<Ratio> {
        let ratios = self.ratios.iter().filter_map(|(id, of, to)| {
            let pairs = self.values(of).iter().zip(self.values(to));
            // A cost too small for the clock has no ratio.
            let values: Vec<f64> = pairs
                .map(|(of, to)| of / to)
                .filter(|ratio| ratio.is_finite())
                .collect();
            Some(Ratio {
                id: id.clone(),
                of: of.clone(),
                to: to.clone(),
                spread: Spread::of(&values)?,
            })
        });
        ratios.collect()
    }
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self {
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

/// The value below which a share of the samples lies: the nearest rank.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Option<Duration> {
    samples.sort_unstable();
    let rank = (share * samples.len() as f64).ceil() as usize;
    samples
        .get(rank.saturating_sub(1).min(samples.len().checked_sub(1)?))
        .copied()
}

impl ScenarioReport {
    /// A scenario's outcome.
    pub(crate) fn new(name: &'static str, rounds: u32, measured: Result<Series>) -> Self {
        let (series, error) = match measured {
            Ok(series) => (series, None),
            Err(error) => (Series::default(), Some(format!("{error:#}"))),
        };
        Self {
            name,
            rounds,
            error,
            measures: series.measures(),
            ratios: series.ratios(),
            notes: series.notes,
        }
    }
}

impl Report {
    /// Scenarios that found nothing.
    pub(crate) fn failures(&self) -> usize {
        self.scenarios.iter().filter(|s| s.error.is_some()).count()
    }

    /// The report for people, in Markdown so that it can stand in a document.
    pub(crate) fn table(&self) -> String {
        let Machine {
            cores,
            cpu,
            kernel,
            load_before,
            load_after,
            rmem_max,
            build,
        } = &self.machine;
        let Settings {
            mib,
            seconds,
            sizes: _,
        } = &self.settings;
        let mut out = format!(
            "{cores} cores of {cpu}, Linux {kernel}, load {load_before} before and {load_after} \
             after, rmem_max {rmem_max}, {build} build\ntransfers of {mib} MiB and series \
             of {seconds} s, {:.0} s in all\n",
            self.elapsed_seconds
        );
        for scenario in &self.scenarios {
            scenario.write_table(&mut out);
        }
        out
    }
}

impl ScenarioReport {
    fn write_table(&self, out: &mut String) {
        let mut rows = vec![[
            "".to_owned(),
            "median".into(),
            "least".into(),
            "most".into(),
        ]];
        rows[0][0] = match self.rounds {
            1 => format!("{}, 1 round", self.name),
            rounds => format!("{}, {rounds} rounds", self.name),
        };
        for Measure { id, unit, spread } in &self.measures {
            rows.push(row(&format!("{id}, {unit}"), *spread));
        }
        for Ratio { id, spread, .. } in &self.ratios {
            rows.push(row(&format!("ratio: {id}"), *spread));
        }
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; 4] = std::array::from_fn(width);
        out.push('\n');
        for (index, [name, cells @ ..]) in rows.iter().enumerate() {
            let _ = write!(out, "| {name:<width$} |", width = widths[0]);
            for (cell, width) in cells.iter().zip(&widths[1..]) {
                let _ = write!(out, " {cell:>width$} |");
            }
            out.push('\n');
            if index == 0 {
                let [first, rest @ ..] = widths;
                let _ = write!(out, "|{}|", "-".repeat(first + 2));
                for width in rest {
                    let _ = write!(out, "{}:|", "-".repeat(width + 1));
                }
                out.push('\n');
            }
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        if let Some(error) = &self.error {
            let _ = writeln!(out, "\n{} failed: {error}", self.name);
        }
    }
}

fn row(name: &str, spread: Spread) -> [String; 4] {
    let Spread { median, min, max } = spread;
    [name.to_owned(), short(median), short(min), short(max)]
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();

        assert_eq!(
            spread,
            Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            }
        );
        assert_eq!(Spread::of(&[7.0]).unwrap().median, 7.0);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn percentiles_are_samples_that_were_taken() {
        let mut samples: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();

        assert_eq!(
            percentile(&mut samples, 0.5),
            Some(Duration::from_millis(50))
        );
        assert_eq!(
            percentile(&mut samples, 0.99),
            Some(Duration::from_millis(99))
        );
        assert_eq!(
            percentile(&mut samples[..1], 0.99),
            Some(Duration::from_millis(1))
        );
        assert_eq!(percentile(&mut [], 0.5), None);
    }

    #[test]
    fn a_ratio_pairs_the_numbers_of_one_round() {
        let mut series = Series::default();
        for (ours, raw) in [(1.0, 2.0), (30.0, 10.0), (4.0, 4.0)] {
            series.enter("ours", "MB/s", ours);
            series.enter("raw", "MB/s", raw);
        }
        series.enter("nothing", "s", 0.0);
        series.ratio("ours/raw", "ours", "raw");
        series.ratio("void", "ours", "nothing");
        series.ratio("missing", "ours", "unknown");

        let report = ScenarioReport::new("x", 3, Ok(series));

        assert_eq!(report.ratios.len(), 1, "{:?}", report.ratios);
        assert_eq!(
            report.ratios[0].spread,
            Spread {
                median: 1.0,
                min: 0.5,
                max: 3.0
            }
        );
        assert_eq!(report.measures[0].spread.median, 4.0);
    }

    #[test]
    fn a_scenario_that_failed_says_why_and_counts() {
        let report = Report {
            version: 1,
            machine: Machine::look(),
            settings: Settings {
                mib: 1,
                seconds: 1.0,
                sizes: Sizes::QUICK,
            },
            elapsed_seconds: 1.0,
            scenarios: vec![
                ScenarioReport::new("good", 1, Ok(Series::default())),
                ScenarioReport::new("bad", 1, Err(anyhow::anyhow!("no echo"))),
            ],
        };

        assert_eq!(report.failures(), 1);
        assert!(report.table().ends_with("\nbad failed: no echo\n"));
    }

    #[test]
    fn the_columns_of_a_table_stand_under_each_other() {
        let mut series = Series::default();
        series.enter("a", "MB/s", 1234.0);
        series.enter("longer name", "us", 0.5);
        series.note("nothing else was there".to_owned());
        let mut out = String::new();

        ScenarioReport::new("x", 1, Ok(series)).write_table(&mut out);

        assert_eq!(
            out,
            "\n\
             | x, 1 round      | median | least |  most |\n\
             |-----------------|-------:|------:|------:|\n\
             | a, MB/s         |   1234 |  1234 |  1234 |\n\
             | longer name, us |  0.500 | 0.500 | 0.500 |\n\
             \n\
             - nothing else was there\n"
        );
    }
}
