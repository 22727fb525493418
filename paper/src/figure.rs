//! What an experiment comes to: rows of measurements, and the paper's claims with what was found.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;

/// A claim of the paper held against measurements.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// What the paper says.
    pub claim: String,
    /// Whether it holds here; none where it was not measured.
    pub holds: Option<bool>,
    /// The number.
    pub found: String,
}

impl Claim {
    /// A claim that was measured.
    pub fn new(claim: &str, holds: bool, found: String) -> Self {
        Claim { claim: claim.into(), holds: Some(holds), found }
    }
}

/// Measurements and claims of a figure.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Flat objects; a column is missing where it does not apply.
    pub rows: Vec<Value>,
    /// Claims, in the order of the page.
    pub claims: Vec<Claim>,
    /// What was run at which size, in a sentence or two.
    pub scope: String,
}

impl Figure {
    /// Write NAME.jsonl, NAME.csv and NAME.json (claims, scope, machine, command, date) to a folder.
    pub fn write(&self, folder: &Path, name: &str, command: &str) -> Result<()> {
        fs::create_dir_all(folder)?;
        let lines: String = self.rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(folder.join(format!("{name}.jsonl")), lines)?;
        let mut columns: Vec<&str> = Vec::new();
        for key in self.rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
        let mut table = csv::Writer::from_path(folder.join(format!("{name}.csv")))?;
        table.write_record(&columns)?;
        for row in &self.rows {
            table.write_record(columns.iter().map(|&column| match &row[column] {
                Value::Null => String::new(),
                Value::String(word) => word.clone(),
                value => value.to_string(),
            }))?;
        }
        table.flush()?;
        let about = json!({"scope": self.scope, "claims": self.claims, "command": command, "machine": machine(),
            "date": today()});
        fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(&about)? + "\n")?;
        Ok(())
    }
}

/// The processor, its cores and the memory, where the system says so.
fn machine() -> String {
    let field = |file: &str, key: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kilobytes =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    let memory = kilobytes.map_or(String::new(), |kb| format!(", {:.0} GB of memory", kb / 1e6));
    format!("{processor}, {cores} cores{memory}")
}

/// The date, as year, month and day.
fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    // Days since 0000-03-01 into eras of 400 years, as in Hinnant's "chrono-compatible low-level date algorithms".
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    format!("{:04}-{month:02}-{day:02}", era * 400 + year_of_era + i64::from(month <= 2))
}
