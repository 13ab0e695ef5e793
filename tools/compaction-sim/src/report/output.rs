//! Prints outcomes as text or JSON, and writes files of numbers and figures.

use std::io::Write;
use std::path::Path;

use firn_kv::OsEnv;
use firn_tools::io::create;
use firn_tools::output::{Done, Failure, Style};

use crate::cli::Pictures;
use crate::model::meter::SimOutcome;
use crate::report;
use crate::report::plot::Figure;
use crate::report::{html, plot};

/// Prints and writes outcomes in every requested form.
///
/// # Errors
/// Files that cannot be written.
pub fn write_outcomes(
    all: &[(String, SimOutcome)],
    as_json: bool,
    pictures: &Pictures,
    style: Style,
    out: &mut dyn Write,
) -> Done {
    if as_json {
        writeln!(out, "{}", report::to_json(all))?;
    } else if let [(_, one)] = all {
        write!(out, "{}", report::one(one, style))?;
    } else {
        write!(out, "{}", report::many(all, style))?;
    }
    if let Some(path) = &pictures.csv {
        let file = create(path).map_err(|e| Failure::file("write", path, &e))?;
        report::write_csv(all, file)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    }
    if let Some(dir) = &pictures.svg {
        OsEnv::new().create_dir_all(dir)?;
        for figure in plot::all(all)? {
            write_beside(dir, &figure, "svg", figure.svg.as_bytes())?;
        }
    }
    if let Some(dir) = &pictures.pdf {
        OsEnv::new().create_dir_all(dir)?;
        for figure in plot::all(all)? {
            write_beside(dir, &figure, "pdf", &plot::pdf(&figure.svg)?)?;
        }
    }
    if let Some(path) = &pictures.html {
        firn_tools::io::write(path, html::page(all).as_bytes())
            .map_err(|e| Failure::file("write", path, &e))?;
    }
    Ok(())
}

/// Writes a figure as a file with this extension, and its data as CSV.
fn write_beside(dir: &Path, figure: &Figure, ending: &str, drawing: &[u8]) -> Done {
    for (ending, content) in [(ending, drawing), ("csv", &figure.csv)] {
        let path = dir.join(format!("{}.{ending}", figure.name));
        firn_tools::io::write(&path, content).map_err(|e| Failure::file("write", &path, &e))?;
    }
    Ok(())
}
