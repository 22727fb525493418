//! `lsparse score` of a hidden Markov model: the log likelihood of a step, and of the next steps given the past.

use lsparse::data::write_npy_f64;
use lsparse::likelihood::Estimate;
use lsparse::math::agreement::Agreement;
use lsparse::{Result, SequenceModel};
use serde::Serialize;

use crate::format::{counted, grouped, significant};
use crate::labels::{self, read_labels};
use crate::score::{NO_CRITERIA, ScoreArgs, check_per_row, write_csv};
use crate::stdin::Input;
use crate::{output, topics};

#[derive(Serialize)]
struct Scores {
    /// Of a step given those before it, on average.
    mean_log_likelihood: f64,
    /// Of all sequences.
    total_log_likelihood: f64,
    /// Of the steps that have one before them, given what is before: how well the next step is foretold.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step_log_likelihood: Option<f64>,
    rows: usize,
    /// Steps that are there.
    observed: usize,
    sequences: usize,
    states: usize,
    parameters: usize,
    bic: Option<f64>,
    aic: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_criteria: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<Agreement>,
}

pub fn run(args: &ScoreArgs, model: SequenceModel) -> Result<()> {
    let per_row = args.per_row.as_deref().map(|path| check_per_row(args, path)).transpose()?;
    let model = if args.missing { model.allowing_missing_steps() } else { model };
    topics::refuse_given(&args.text.given(), "a hidden Markov model")?;
    let data = Input::open(&args.data, ".csv")?;
    let (source, groups) = args.groups.open_for(&args.reading, data.path(), &model)?;
    let labels = args.labels.as_deref().map(|path| read_labels(path, source.num_rows())).transpose()?;
    let rows = model.score(source.as_ref(), Some(&groups))?;
    let agreement = labels.map(|labels| -> Result<Agreement> {
        let (states, _) = model.best_paths(source.as_ref(), Some(&groups))?;
        Ok(Agreement::of(&labels, &states))
    });
    let agreement = agreement.transpose()?;
    if let Some((path, format)) = per_row {
        match format {
            "npy" => write_npy_f64(path, 1, &rows.log_density)?,
            _ => write_csv(path, "row,log_likelihood", &rows.log_density, |row| row.to_string())?,
        }
    }
    let firsts = (0..groups.len()).map(|group| groups.range(group)).filter(|range| !range.is_empty()).map(|r| r.start);
    let firsts: Vec<usize> = firsts.filter(|&row| rows.is_there(row)).collect();
    let later = rows.observed.saturating_sub(firsts.len());
    let of_firsts: f64 = firsts.iter().map(|&row| rows.log_density[row]).sum();
    let is_point = model.config.estimate != Estimate::Posterior;
    let scores = Scores {
        mean_log_likelihood: rows.mean(),
        total_log_likelihood: rows.total(),
        next_step_log_likelihood: (later > 0).then(|| (rows.total() - of_firsts) / later as f64),
        rows: rows.log_density.len(),
        observed: rows.observed,
        sequences: groups.len(),
        states: model.num_states(),
        parameters: rows.num_parameters,
        bic: is_point.then(|| rows.bic()),
        aic: is_point.then(|| rows.aic()),
        no_criteria: (!is_point).then_some(NO_CRITERIA),
        agreement,
    };
    if args.json {
        return output::print_json(&scores);
    }
    let mut text = format!("mean log likelihood   {} a step\n", significant(scores.mean_log_likelihood, 9));
    if let Some(next) = scores.next_step_log_likelihood {
        text += &format!("next step             {} given those before it\n", significant(next, 9));
    }
    text += &format!("total                 {}\n", significant(scores.total_log_likelihood, 9));
    let there = match scores.observed < scores.rows {
        true => format!(", of which {} are there,", grouped(scores.observed)),
        false => String::new(),
    };
    let sequences = counted(scores.sequences, "sequence", "sequences");
    text += &format!("steps                 {}{there} in {sequences}\n", grouped(scores.rows));
    if let (Some(bic), Some(aic)) = (scores.bic, scores.aic) {
        text += &format!("BIC                   {}\n", significant(bic, 9));
        text += &format!("AIC                   {}\n", significant(aic, 9));
        text += &format!("parameters            {}\n", grouped(scores.parameters));
    }
    if let Some(reason) = scores.no_criteria {
        text += &format!("BIC, AIC              none: {reason}\n");
    }
    text += &scores.agreement.as_ref().map(labels::lines).unwrap_or_default();
    if let Some((path, _)) = per_row {
        text += &format!("scores of the steps   {}\n", path.display());
    }
    output::print(&text)
}
