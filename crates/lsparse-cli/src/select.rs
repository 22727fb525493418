//! `lsparse select`: the L largest of a list of weights, the demonstration of the paper's appendix.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use clap::Args;
use lsparse::training::responsibilities::top_l_responsibilities;
use lsparse::{Error, Result, Sparsity};
use serde::Serialize;

use crate::format::table;
use crate::output;

/// The list in the paper's appendix.
const PAPER: [f64; 10] = [0.35, 0.77, 0.49, 0.41, 0.58, 0.02, 0.26, 0.86, 0.68, 0.16];

/// Longer lists show responsibilities for a few L only.
const SHORT_LIST: usize = 12;

/// The L largest of a list of weights, and the responsibilities they give.
///
/// Puts the L largest first, checks that each of them is at least as large as all the rest, and shows the
/// responsibilities (exp of the weights, normalised over the L that are kept) for every L.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse select                                  # the paper's list
  lsparse select 0.3 -1.5 2 0.7 -l 2
  lsparse select weights.txt -l 8 --json
  seq 100 | lsparse select - -l 3")]
pub struct SelectArgs {
    /// Numbers, or one text file of numbers, or - for standard input [default: the paper's list].
    #[arg(value_name = "VALUES", allow_negative_numbers = true)]
    pub values: Vec<String>,
    /// L, how many to select, or "K" for all [default: 4, or all if fewer].
    #[arg(long, short = 'l', value_name = "L", value_parser = Sparsity::parse)]
    pub sparsity: Option<Sparsity>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Places in the list, from 0, and the numbers there.
#[derive(Serialize)]
struct Part {
    index: Vec<u32>,
    value: Vec<f64>,
}

/// The responsibilities that one choice of L gives.
#[derive(Serialize)]
struct Responsibility {
    sparsity: usize,
    index: Vec<u32>,
    value: Vec<f64>,
    entropy: f64,
    /// What the dense responsibilities of the kept ones sum to.
    mass: f64,
}

#[derive(Serialize)]
struct Selection {
    values: Vec<f64>,
    sparsity: usize,
    top: Part,
    rest: Part,
    invariant_holds: bool,
    responsibilities: Vec<Responsibility>,
}

pub fn run(args: &SelectArgs) -> Result<()> {
    let values = read_values(&args.values)?;
    let num = values.len();
    let sparsity = match args.sparsity.unwrap_or_default() {
        Sparsity::Of(sparsity) => sparsity,
        Sparsity::All => num,
        Sparsity::Usual | Sparsity::Auto => 4.min(num),
    };
    if sparsity > num {
        return Err(Error::Config {
            setting: "sparsity",
            problem: format!("{sparsity} of {num} values cannot be selected"),
            remedy: format!("choose L from 1 to {num}"),
        });
    }
    let selection = select(values, sparsity)?;
    if args.json { output::print_json(&selection) } else { output::print(&text(&selection)) }
}

fn select(values: Vec<f64>, sparsity: usize) -> Result<Selection> {
    let num = values.len();
    let dense = respond(&values, num)?;
    let responsibilities = shown_sparsities(num, sparsity)
        .into_iter()
        .map(|l| {
            let (index, value, entropy) = respond(&values, l)?;
            let mass = dense.1[..l].iter().sum();
            Ok(Responsibility { sparsity: l, index, value, entropy, mass })
        })
        .collect::<Result<Vec<_>>>()?;
    let (top, _, _) = respond(&values, sparsity)?;
    let rest: Vec<u32> = (0..num as u32).filter(|i| !top.contains(i)).collect();
    let part = |index: Vec<u32>| Part { value: index.iter().map(|&i| values[i as usize]).collect(), index };
    let (top, rest) = (part(top), part(rest));
    let invariant_holds = top.value.iter().all(|a| rest.value.iter().all(|b| a >= b));
    Ok(Selection { sparsity, top, rest, invariant_holds, responsibilities, values })
}

/// The selected places, largest first, their responsibilities, and the entropy of these.
fn respond(values: &[f64], sparsity: usize) -> Result<(Vec<u32>, Vec<f64>, f64)> {
    let (mut index, mut value) = (vec![0; sparsity], vec![0.0; sparsity]);
    let mut entropy = Vec::new();
    top_l_responsibilities(values, values.len(), 0, &mut index, &mut value, &mut Vec::new(), &mut entropy)?;
    Ok((index, value, entropy[0]))
}

/// Every L for a short list; powers of two, the one asked for and K for a long one.
fn shown_sparsities(num: usize, asked: usize) -> Vec<usize> {
    if num <= SHORT_LIST {
        return (1..=num).collect();
    }
    let powers = std::iter::successors(Some(1), |l| Some(2 * l)).take_while(|&l| l < num);
    let mut shown: Vec<usize> = powers.chain([asked, num]).collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}

fn read_values(given: &[String]) -> Result<Vec<f64>> {
    let values = match given {
        [] => PAPER.to_vec(),
        [one] if one == "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|source| Error::Io {
                path: "standard input".into(),
                action: "read",
                source,
            })?;
            parse_text(Path::new("standard input"), &text)?
        }
        [one] if one.parse::<f64>().is_err() && !one.contains(',') => {
            let path = Path::new(one);
            let text = fs::read_to_string(path).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
                _ => Error::Io { path: path.to_owned(), action: "read", source },
            })?;
            parse_text(path, &text)?
        }
        several => parse_text(Path::new("the arguments"), &several.join(" "))?,
    };
    if values.is_empty() {
        let name = if let [one] = given { one.clone() } else { "the list of values".into() };
        return Err(Error::NoRows { name });
    }
    Ok(values)
}

/// Numbers parted by blanks, commas or semicolons.
fn parse_text(path: &Path, text: &str) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let fields = content.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|f| !f.is_empty());
        for (column, field) in fields.enumerate() {
            let value: f64 = field.parse().map_err(|_| Error::BadLine {
                path: path.to_owned(),
                line,
                detail: format!("{:?} is not a number", field.chars().take(30).collect::<String>()),
                remedy: "put a number there, or leave it out".to_owned(),
            })?;
            if value.is_nan() || value == f64::INFINITY {
                let name = path.display().to_string();
                return Err(Error::NotFinite { name, line: Some(line), row: values.len(), column, value });
            }
            values.push(value);
        }
    }
    Ok(values)
}

fn text(selection: &Selection) -> String {
    let Selection { values, sparsity, top, rest, .. } = selection;
    let everything = Part { index: (0..values.len() as u32).collect(), value: values.clone() };
    let mut text = format!("{} weights\n{}", values.len(), lines(&everything));
    text += &format!("the {sparsity} largest\n{}", lines(top));
    text += &format!("the other {}\n{}", rest.index.len(), lines(rest));
    let verdict = if selection.invariant_holds { "holds" } else { "does NOT hold" };
    text += &format!("invariant: each of the first {sparsity} is at least as large as all the rest: {verdict}\n");
    text += "\nresponsibilities, largest first, and what dense ones give to the same entries\n";
    let rows: Vec<Vec<String>> = selection.responsibilities.iter().map(cells).collect();
    text + &table(&["L", "mass", "entropy", "responsibilities"], &left_aligned(rows))
}

fn cells(row: &Responsibility) -> Vec<String> {
    let mut list: Vec<String> = row.value.iter().take(SHORT_LIST).map(|r| format!("{r:.3}")).collect();
    if row.value.len() > SHORT_LIST {
        list.push("...".to_owned());
    }
    vec![row.sparsity.to_string(), format!("{:.4}", row.mass), format!("{:.4}", row.entropy), list.join(" ")]
}

/// Pad the last column, so that lists of different lengths start at the same place.
fn left_aligned(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let widest = rows.iter().filter_map(|row| row.last()).map(String::len).max().unwrap_or(0);
    for last in rows.iter_mut().filter_map(|row| row.last_mut()) {
        *last = format!("{last:<widest$}");
    }
    rows
}

/// Places and numbers below each other, as the paper prints them.
fn lines(part: &Part) -> String {
    if part.index.is_empty() {
        return "  (none)\n".to_owned();
    }
    let index: String = part.index.iter().map(|i| format!("{i:>8}")).collect();
    let value: String = part.value.iter().map(|v| format!("{v:>8.2}")).collect();
    format!("  inds:{index}\n  data:{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_list_gives_the_papers_selection() {
        let selection = select(PAPER.to_vec(), 4).unwrap();
        assert_eq!(selection.top.index, [7, 1, 8, 4]);
        assert_eq!(selection.top.value, [0.86, 0.77, 0.68, 0.58]);
        assert!(selection.invariant_holds);
        assert_eq!(selection.responsibilities.len(), 10);
        for row in &selection.responsibilities {
            assert!((row.value.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert!((selection.responsibilities[9].mass - 1.0).abs() < 1e-12);
    }

    #[test]
    fn long_lists_show_a_few_choices_of_l() {
        assert_eq!(shown_sparsities(20, 3), [1, 2, 3, 4, 8, 16, 20]);
        assert_eq!(shown_sparsities(3, 2), [1, 2, 3]);
    }
}
