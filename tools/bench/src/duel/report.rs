//! Prints the results: a table, or JSON.

use std::io::Write;

use serde_json::{Value, json};

use super::meter::Duel;
use crate::Setting;
use firn_tools::io::stdout;
use firn_tools::output::{Done, nanos, print_table, row, table};

/// One measurement.
pub struct DuelLine {
    /// Name of the measurement.
    pub what: String,
    /// Name of the alternative that it is compared with.
    pub beside: &'static str,
    /// Results of both.
    pub duel: Duel,
    /// Largest good ratio, if there is a target.
    pub aim: Option<f64>,
}

/// All measurements, and notes.
#[derive(Default)]
pub struct DuelReport {
    /// In the order of measuring.
    pub lines: Vec<DuelLine>,
    /// Notes.
    pub notes: Vec<String>,
}

impl DuelReport {
    /// Adds a measurement.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        beside: &'static str,
        duel: Duel,
        aim: Option<f64>,
    ) {
        self.lines.push(DuelLine { what: what.into(), beside, duel, aim });
    }

    /// Prints everything: the results for this model.
    pub fn print(&self, setting: &Setting<'_>, model: &str, head: &str, options: Value) -> Done {
        let mut out = stdout();
        if setting.store.json {
            writeln!(out, "{:#}", self.as_json(model, options))?;
            return Ok(out.flush()?);
        }
        let mut t = table(&["operation", "time", "beside it", "time", "ratio", "aim", ""]);
        for l in &self.lines {
            let aim = l.aim.map_or("-".into(), |a| format!("{a:.2}"));
            let judgement = l.aim.map_or("", |a| if l.duel.ratio <= a { "good" } else { "short" });
            let time = |ns: f64| nanos(ns.round() as u64);
            let ratio = format!("{:.2}", l.duel.ratio);
            row(
                &mut t,
                [
                    l.what.clone(),
                    time(l.duel.ours),
                    l.beside.into(),
                    time(l.duel.beside),
                    ratio,
                    aim,
                    judgement.into(),
                ],
            );
        }
        writeln!(out, "{head}\n")?;
        write!(out, "{}", print_table(&t, setting.store.style()))?;
        writeln!(
            out,
            "\nTimes are medians for one operation, both ways measured by turns; a ratio is the median over the turns."
        )?;
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        Ok(out.flush()?)
    }

    fn as_json(&self, model: &str, options: Value) -> Value {
        let line = |l: &DuelLine| {
            json!({
                "operation": l.what, "ns": l.duel.ours, "beside": l.beside, "beside_ns": l.duel.beside,
                "ratio": l.duel.ratio, "aim": l.aim, "good": l.aim.map(|a| l.duel.ratio <= a),
            })
        };
        json!({
            "firn": env!("CARGO_PKG_VERSION"),
            "model": model,
            "options": options,
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
